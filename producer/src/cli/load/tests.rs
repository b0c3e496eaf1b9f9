use std::fs;

use tempfile::TempDir;

use super::*;

/// A folder with these files in it.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn arguments(path: impl Into<PathBuf>) -> RequestArguments {
    RequestArguments { path: path.into(), ..RequestArguments::default() }
}

fn load_it(arguments: &RequestArguments) -> Result<ExecutionRequest, LoadError> {
    load(arguments, &Settings::defaults())
}

fn error(arguments: &RequestArguments) -> String {
    load_it(arguments).unwrap_err().to_string()
}

fn ids(request: &ExecutionRequest) -> Vec<&str> {
    request.test_cases.iter().map(|case| case.id.as_deref().unwrap()).collect()
}

#[test]
fn a_folder_is_a_solution_and_its_tests() {
    let folder = folder(&[
        ("solution.py", "print(1)"),
        ("notes.txt", "ignored"),
        ("tests/test10.in", "ten"),
        ("tests/test10.out", "10"),
        ("tests/test2.in", "two"),
        ("tests/test2.ans", "2"),
        ("tests/README", "ignored"),
    ]);
    let request = load_it(&arguments(folder.path())).unwrap();
    assert_eq!(request.language, "python");
    assert_eq!(request.code, "print(1)");
    assert_eq!(ids(&request), ["test2", "test10"]);
    assert_eq!(request.test_cases[0].input, "two");
    assert_eq!(request.test_cases[0].expected_output, "2");
    assert_eq!(request.request_id, None);
}

#[test]
fn a_folder_may_hold_a_single_source_file_of_another_name() {
    let folder = folder(&[("Main.java", "class Main {}"), ("tests/1.in", ""), ("tests/1.out", "")]);
    assert_eq!(load_it(&arguments(folder.path())).unwrap().language, "java");
}

#[test]
fn solution_goes_before_other_source_files() {
    let folder = folder(&[("solution.cpp", "x"), ("brute.py", "y"), ("tests/1.in", ""), ("tests/1.out", "")]);
    assert_eq!(load_it(&arguments(folder.path())).unwrap().language, "cpp");
}

#[test]
fn two_solutions_need_a_word_from_the_caller() {
    let folder = folder(&[("solution.cpp", "x"), ("solution.py", "y"), ("tests/1.in", ""), ("tests/1.out", "")]);
    let mut arguments = arguments(folder.path());
    let message = error(&arguments);
    assert!(message.contains("solution.cpp, solution.py") && message.contains("--language"), "{message}");
    arguments.language = Some("python3".into());
    assert_eq!(load_it(&arguments).unwrap().code, "y");
}

#[test]
fn two_source_files_without_a_solution_are_ambiguous() {
    let folder = folder(&[("Main.java", "x"), ("Other.java", "y"), ("tests/1.in", ""), ("tests/1.out", "")]);
    assert!(error(&arguments(folder.path())).contains("Main.java, Other.java"));
}

#[test]
fn a_folder_without_solution_says_what_is_missing() {
    let folder = folder(&[("tests/1.in", ""), ("tests/1.out", "")]);
    let message = error(&arguments(folder.path()));
    assert!(message.contains("no solution") && message.contains("cpp") && message.contains("py"), "{message}");
}

#[test]
fn a_folder_without_tests_says_what_is_missing() {
    for files in [&[("solution.py", "x")][..], &[("solution.py", "x"), ("tests/notes.txt", "")]] {
        let folder = folder(files);
        let message = error(&arguments(folder.path()));
        let tests = folder.path().join("tests");
        assert!(message.starts_with(&tests.display().to_string()), "{message}");
        assert!(message.ends_with("put NAME.in and NAME.out (or NAME.ans) there"), "{message}");
    }
}

#[test]
fn what_is_neither_request_nor_source_is_told_what_was_expected() {
    let folder = folder(&[("notes.txt", "not { JSON"), ("request", "{}")]);
    let message = error(&arguments(folder.path().join("notes.txt")));
    for expected in ["notes.txt is neither", "a request as JSON", "a source file", "py", "--language", "--tests"] {
        assert!(message.contains(expected), "{message}");
    }
    let message = error(&arguments(folder.path().join("request")));
    assert!(message.contains("is no request: ") && message.contains("missing field"), "{message}");
}

#[test]
fn a_language_that_is_asked_for_may_have_an_extension_of_its_own() {
    let folder = folder(&[("solution.cc", "x"), ("tests/1.in", ""), ("tests/1.out", "")]);
    let mut arguments = arguments(folder.path());
    assert!(error(&arguments).contains("no solution"));
    arguments.language = Some("cpp".into());
    assert_eq!(load_it(&arguments).unwrap().language, "cpp");
}

#[test]
fn a_source_file_needs_tests() {
    let folder = folder(&[("a.rb", "x"), ("t/1.in", "i"), ("t/1.out", "o")]);
    let mut arguments = arguments(folder.path().join("a.rb"));
    assert!(error(&arguments).contains("--tests DIR"));
    arguments.tests = Some(folder.path().join("t"));
    let request = load_it(&arguments).unwrap();
    assert_eq!((request.language.as_str(), ids(&request)), ("ruby", vec!["1"]));
}

#[test]
fn an_unknown_extension_needs_a_language() {
    let folder = folder(&[("a.xyz", "x"), ("t/1.in", "i"), ("t/1.out", "o")]);
    let mut arguments = arguments(folder.path().join("a.xyz"));
    arguments.tests = Some(folder.path().join("t"));
    let message = error(&arguments);
    assert!(message.contains("a.xyz") && message.contains("--language"), "{message}");
    arguments.language = Some("python".into());
    assert_eq!(load_it(&arguments).unwrap().language, "python");
    arguments.language = Some("cobol".into());
    assert!(error(&arguments).contains("cobol"));
}

#[test]
fn a_request_is_json_and_flags_change_it() {
    let json = r#"{"request_id": "a", "code": "x", "language": "python", "timeout_ms": 100, "cpu_limit": 2.0,
        "test_cases": [{"input": "1", "expected_output": "2"}]}"#;
    let folder = folder(&[("request.json", json)]);
    let mut arguments = arguments(folder.path().join("request.json"));
    let request = load_it(&arguments).unwrap();
    assert_eq!((request.request_id.as_deref(), request.timeout_ms), (Some("a"), Some(100)));

    arguments.id = Some("b".into());
    arguments.timeout_ms = Some(200);
    arguments.total_timeout_ms = Some(300);
    arguments.memory_mb = Some(64);
    arguments.language = Some("ruby".into());
    let request = load_it(&arguments).unwrap();
    assert_eq!((request.request_id.as_deref(), request.language.as_str()), (Some("b"), "ruby"));
    assert_eq!((request.timeout_ms, request.total_timeout_ms), (Some(200), Some(300)));
    assert_eq!((request.memory_limit_mb, request.cpu_limit), (Some(64), Some(2.0)));
}

#[test]
fn a_request_with_tests_beside_it_is_a_mistake() {
    let folder = folder(&[("request.json", "{}")]);
    let mut arguments = arguments(folder.path().join("request.json"));
    arguments.tests = Some(folder.path().into());
    assert!(error(&arguments).contains("--tests goes with"));
    arguments.path = STDIN.into();
    assert!(error(&arguments).contains("--tests goes with"));
}

#[test]
fn what_is_no_request_says_where() {
    let json = r#"{"code": "x", "language": "python", "test_cases": [{"input": 5, "expected_output": ""}]}"#;
    let folder = folder(&[("request.json", json), ("half.json", "{\"code\":")]);
    let message = error(&arguments(folder.path().join("request.json")));
    assert!(message.contains("request.json") && message.contains("test_cases[0].input"), "{message}");
    assert!(error(&arguments(folder.path().join("half.json"))).contains("half.json"));
}

#[test]
fn files_without_their_other_half_are_named() {
    for (files, named) in [
        (["tests/1.in", "tests/2.in", "tests/2.out"], "tests/1.in"),
        (["tests/1.in", "tests/1.out", "tests/3.out"], "tests/3.out"),
        (["tests/1.in", "tests/1.out", "tests/4.ans"], "tests/4.ans"),
        (["tests/1.in", "tests/1.out", "tests/1.ans"], "tests/1.out"),
    ] {
        let files: Vec<_> = files.iter().chain(&["solution.py"]).map(|name| (*name, "x")).collect();
        let message = error(&arguments(folder(&files).path()));
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn missing_things_are_named() {
    assert!(error(&arguments("/no/such/path")).contains("/no/such/path"));
    let folder = folder(&[("solution.py", "x")]);
    assert!(error(&arguments(folder.path())).contains("/tests"), "no folder of tests");
    fs::create_dir(folder.path().join("tests")).unwrap();
    assert!(error(&arguments(folder.path())).contains("has no tests"));
}

#[test]
fn what_is_not_text_is_named() {
    let folder = folder(&[("solution.py", "x"), ("tests/1.in", ""), ("tests/1.out", "")]);
    fs::write(folder.path().join("tests/1.in"), b"ab\xff").unwrap();
    let message = error(&arguments(folder.path()));
    assert!(message.contains("tests/1.in is not UTF-8") && message.contains("offset 2"), "{message}");
    fs::write(folder.path().join("solution.py"), b"\xff").unwrap();
    assert!(error(&arguments(folder.path())).contains("solution.py is not UTF-8"));
}

#[test]
fn endless_files_are_not_read_to_their_end() {
    assert!(error(&arguments("/dev/zero")).contains("longer than"));
}

#[test]
fn all_tests_together_have_a_limit() {
    let mut settings = Settings::defaults();
    settings.limits.max_request_bytes = 10;
    let folder = folder(&[("solution.py", "x"), ("tests/1.in", "12345678"), ("tests/1.out", "123")]);
    let message = load(&arguments(folder.path()), &settings).unwrap_err().to_string();
    assert!(message.contains("1.out") && message.contains("10 bytes"), "{message}");
}

#[test]
fn hostile_names_cannot_drive_the_terminal() {
    let folder = folder(&[("solution.py", "x"), ("tests/\x1b[2J.in", "")]);
    let message = error(&arguments(folder.path()));
    assert!(message.contains("\\u{1b}[2J") && !message.contains('\x1b'), "{message}");
}
