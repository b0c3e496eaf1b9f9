use super::*;
use crate::config::Settings;
use crate::request::Job;
use crate::result::TestResult;

fn code(content: &str, metadata: Value) -> Artifact {
    serde_json::from_value(json!({"artifact_type": "code", "inline_content": content, "metadata": metadata})).unwrap()
}

fn tests(json: Value) -> Vec<ArtifactTest> {
    serde_json::from_value(json).unwrap()
}

fn request(artifact: Artifact, cases: Value) -> Result<ExecutionRequest, ArtifactError> {
    artifact.into_request(tests(cases), None, &Settings::defaults().languages())
}

/// A result of one test whose id makes its artifact's content as long as wanted.
fn result(id_bytes: usize) -> ExecutionResult {
    let test = TestResult {
        test_id: "x".repeat(id_bytes),
        status: TestStatus::Passed,
        actual_output: "not part of the artifact".repeat(100),
        expected_output: String::new(),
        execution_time_ms: 12,
        memory_used_kb: 3456,
        error_message: None,
        cpu_time_ms: None,
        exit_code: None,
        signal: None,
        stderr: None,
    };
    ExecutionResult::from_tests(&"r-1".parse().unwrap(), vec![test], 77)
}

#[test]
fn code_becomes_a_request() {
    let artifact = code("puts 1", json!({"language": "Ruby", "author": "agent 7"}));
    let cases = json!([
        {"id": "t1", "input": "1 2 3", "expected": "6", "hidden": true, "description": "adds"},
        {"expected_output": "7"},
        {},
    ]);
    let id = "mine".parse().unwrap();
    let request = artifact.into_request(tests(cases), Some(id), &Settings::defaults().languages()).unwrap();
    let expected = json!({
        "request_id": "mine",
        "code": "puts 1",
        "language": "ruby",
        "test_cases": [
            {"id": "t1", "input": "1 2 3", "expected_output": "6", "is_hidden": true, "description": "adds"},
            {"input": "", "expected_output": "7", "is_hidden": false, "description": ""},
            {"input": "", "expected_output": "", "is_hidden": false, "description": ""},
        ],
    });
    assert_eq!(serde_json::to_value(request).unwrap(), expected);
}

#[test]
fn what_is_expected_may_be_written_in_two_ways_and_the_shorter_wins() {
    let expected = |case: Value| request(code("x", json!({})), json!([case])).unwrap().test_cases.remove(0);
    assert_eq!(expected(json!({"expected": "a"})).expected_output, "a");
    assert_eq!(expected(json!({"expected_output": "b"})).expected_output, "b");
    assert_eq!(expected(json!({"expected_output": "b", "expected": "a"})).expected_output, "a");
    assert!(expected(json!({"hidden": true})).is_hidden);
    assert!(expected(json!({"is_hidden": true, "hidden": false})).is_hidden);
}

#[test]
fn tests_without_ids_get_the_same_ones_as_in_a_request() {
    let settings = Settings::defaults();
    let request = request(code("x", json!({})), json!([{"expected": ""}, {"id": "b"}, {"expected": ""}])).unwrap();
    let job = Job::check(request, &settings.limits, &settings.languages()).unwrap();
    assert_eq!(job.tests().iter().map(|test| test.id.as_str()).collect::<Vec<_>>(), ["test_0", "b", "test_2"]);
}

#[test]
fn the_language_comes_from_the_metadata_and_is_python_otherwise() {
    let table = [
        (json!({"language": "java"}), "java"),
        (json!({"language": "PYTHON3"}), "python"),
        (json!({"language": "c++"}), "cpp"),
        (json!({"language": "cobol"}), "python"),
        (json!({"language": 7}), "python"),
        (json!({"language": null}), "python"),
        (json!({}), "python"),
    ];
    for (metadata, language) in table {
        assert_eq!(request(code("x", metadata.clone()), json!([])).unwrap().language, language, "{metadata}");
    }
}

#[test]
fn a_request_without_an_id_gets_a_new_one() {
    let id = || request(code("x", json!({})), json!([])).unwrap().request_id.unwrap();
    assert!(id().parse::<RequestId>().is_ok());
    assert_ne!(id(), id());
}

#[test]
fn a_reference_without_its_content_is_an_error_that_names_it() {
    let artifact = |content: Option<&str>, reference: Option<&str>| Artifact {
        artifact_type: "code".into(),
        content_ref: reference.map(str::to_owned),
        inline_content: content.map(str::to_owned),
        metadata: Map::new(),
    };
    for content in [None, Some("")] {
        let error = request(artifact(content, Some("beads:code/1")), json!([])).unwrap_err();
        assert_eq!(error, ArtifactError::Unresolved("beads:code/1".into()));
        assert!(error.to_string().starts_with("Large artifacts must be resolved before execution: beads:code/1"));
        assert_eq!(request(artifact(content, None), json!([])).unwrap_err(), ArtifactError::Empty);
    }
    assert_eq!(request(artifact(Some("x"), Some("beads:code/1")), json!([])).unwrap().code, "x");
}

#[test]
fn a_small_result_travels_inside_its_artifact() {
    let (artifact, content) = Artifact::from_result(&result(2), Some("unused"));
    assert_eq!(content, None);
    assert_eq!((artifact.artifact_type.as_str(), &artifact.content_ref), ("test_result", &None));
    assert_eq!(Value::Object(artifact.metadata), json!({"status": "all_passed", "passed": 1, "total": 1}));
    let inline = artifact.inline_content.unwrap();
    assert!(inline.starts_with("{\n  \""), "indented by two: {inline}");
    let expected = json!({
        "status": "all_passed",
        "passed": 1,
        "total": 1,
        "total_time_ms": 77,
        "summary": "All 1 test cases passed",
        "test_results": [{"id": "xx", "status": "passed", "time_ms": 12, "memory_kb": 3456}],
    });
    assert_eq!(serde_json::from_str::<Value>(&inline).unwrap(), expected);
}

#[test]
fn a_result_of_1_kb_is_stored_elsewhere_and_one_of_a_byte_less_is_not() {
    let (artifact, _) = Artifact::from_result(&result(0), None);
    let without_id = artifact.inline_content.unwrap().len();

    let (below, content) = Artifact::from_result(&result(1023 - without_id), None);
    assert_eq!((below.inline_content.unwrap().len(), content), (1023, None));

    let (at, content) = Artifact::from_result(&result(1024 - without_id), None);
    assert_eq!(content.unwrap().len(), 1024);
    assert_eq!((at.inline_content, at.content_ref.as_deref()), (None, Some("beads:execution/results/r-1")));
    assert_eq!(Value::Object(at.metadata), json!({"status": "all_passed", "passed": 1, "total": 1}));
}

#[test]
fn a_large_result_is_stored_under_the_key_that_was_asked_for() {
    let (artifact, content) = Artifact::from_result(&result(5000), Some("my/key"));
    assert_eq!(artifact.content_ref.as_deref(), Some("beads:my/key"));
    let content: Value = serde_json::from_str(&content.unwrap()).unwrap();
    assert_eq!(content["test_results"][0]["id"], "x".repeat(5000));
}

#[test]
fn an_artifact_is_written_as_it_is_read() {
    let json =
        json!({"artifact_type": "code", "content_ref": null, "inline_content": "x", "metadata": {"language": "c"}});
    let artifact: Artifact = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(artifact).unwrap(), json);
}
