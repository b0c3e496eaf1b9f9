//! The examples of the contract's specification hold: its tests and its usage example.

use tribunal_shared::artifact::{Artifact, ArtifactTest};
use tribunal_shared::request::{ExecutionRequest, TestCase};
use tribunal_shared::result::{ExecutionStatus, TestStatus};
use tribunal_tests::Fleet;
use tribunal_tests::requests::request;

fn with_limits(request: ExecutionRequest, timeout_ms: i64, total_timeout_ms: i64) -> ExecutionRequest {
    ExecutionRequest { timeout_ms: Some(timeout_ms), total_timeout_ms: Some(total_timeout_ms), ..request }
}

#[tokio::test]
async fn a_simple_python_program_passes_all_tests() {
    let fleet = Fleet::started().await;
    let request = request("python", "print(int(input()) * 2)", &[("5", "10"), ("0", "0")]);
    let result = fleet.judge(with_limits(request, 5000, 30_000)).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed);
    assert_eq!(result.test_results.len(), 2);
    assert!(result.test_results.iter().all(|test| test.status == TestStatus::Passed));
}

#[tokio::test]
async fn a_sleeping_program_times_out() {
    let fleet = Fleet::started().await;
    let request = request("python", "import time; time.sleep(10); print('done')", &[("", "done")]);
    let result = fleet.judge(with_limits(request, 1000, 5000)).await;
    assert_eq!(result.status, ExecutionStatus::Timeout);
}

#[tokio::test]
async fn a_division_by_zero_is_a_runtime_error() {
    let fleet = Fleet::started().await;
    let result = fleet.judge(with_limits(request("python", "x = 1/0", &[("", "")]), 5000, 30_000)).await;
    assert_eq!(result.status, ExecutionStatus::RuntimeError);
    assert!(result.summary.contains("ZeroDivisionError"), "{}", result.summary);
}

#[tokio::test]
async fn a_cpp_program_is_compiled_and_passes() {
    let fleet = Fleet::started().await;
    let code = "
#include <iostream>
int main() {
    int x;
    std::cin >> x;
    std::cout << x * 2 << std::endl;
    return 0;
}
";
    let result = fleet.judge(with_limits(request("cpp", code, &[("5", "10")]), 5000, 30_000)).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed);
}

#[tokio::test]
async fn an_artifact_becomes_a_request_and_its_result_an_artifact() {
    let fleet = Fleet::started().await;
    let artifact = Artifact {
        artifact_type: "code".into(),
        content_ref: None,
        inline_content: Some("print(sum(map(int, input().split())))".into()),
        metadata: serde_json::from_value(serde_json::json!({"language": "python"})).unwrap(),
    };
    let tests: Vec<ArtifactTest> = serde_json::from_value(serde_json::json!([
        {"id": "t1", "input": "1 2 3", "expected": "6"},
        {"id": "t2", "input": "10 20", "expected": "30"},
    ]))
    .unwrap();
    let request = artifact.into_request(tests, None, &fleet.settings.languages()).unwrap();
    let result = fleet.judge(request).await;
    let (artifact, large_content) = Artifact::from_result(&result, None);
    assert_eq!(result.status, ExecutionStatus::AllPassed);
    assert_eq!(artifact.artifact_type, "test_result");
    assert_eq!(artifact.metadata["passed"], 2);
    assert_eq!(large_content, None);
}

#[tokio::test]
async fn the_usage_example_passes() {
    let fleet = Fleet::started().await;
    let code = r#"
def two_sum(nums, target):
    seen = {}
    for i, num in enumerate(nums):
        complement = target - num
        if complement in seen:
            return [seen[complement], i]
        seen[num] = i
    return []

# Read input
nums = list(map(int, input().split()))
target = int(input())
result = two_sum(nums, target)
print(" ".join(map(str, result)))
"#;
    let tests = [("test_1", "2 7 11 15\n9", "0 1"), ("test_2", "3 2 4\n6", "1 2"), ("test_3", "3 3\n6", "0 1")];
    let test_cases = tests.map(|(id, input, expected)| TestCase {
        id: Some(id.into()),
        input: input.into(),
        expected_output: expected.into(),
        ..TestCase::default()
    });
    let request = ExecutionRequest { test_cases: test_cases.into(), ..request("python", code, &[]) };
    let result = fleet.judge(with_limits(request, 5000, 30_000)).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed);
    assert_eq!(result.summary, "All 3 test cases passed");
    let ids: Vec<_> = result.test_results.iter().map(|test| test.test_id.as_str()).collect();
    assert_eq!(ids, ["test_1", "test_2", "test_3"]);
}
