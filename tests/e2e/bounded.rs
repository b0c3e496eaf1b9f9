//! Whatever a program does, the worker's own memory stays small.

use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::{ExecutionStatus, TestStatus};
use tribunal_tests::Fleet;
use tribunal_tests::requests::request;

/// Reads the worker's memory all the while `work` goes on, and says the most it saw.
async fn most_resident_mb<T>(fleet: &mut Fleet, work: impl Future<Output = T>) -> (T, f64) {
    let mut work = std::pin::pin!(work);
    let mut most = 0f64;
    loop {
        tokio::select! {
            done = &mut work => return (done, most),
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {
                most = most.max(fleet.worker(0).resident_mb());
            }
        }
    }
}

#[tokio::test]
async fn ten_gigabytes_on_stdout_end_as_output_exceeded_in_little_memory() {
    let mut fleet = Fleet::started().await;
    let idle = fleet.worker(0).resident_mb();
    assert!(idle < 40.0, "idle, the worker takes {idle} MB");

    let flood = "head -c 10737418240 /dev/zero";
    let tests = [("", ""), ("", ""), ("", ""), ("", "")];
    let request = ExecutionRequest { timeout_ms: Some(60_000), ..request("bash", flood, &tests) };
    let client = fleet.client.clone();
    let id = client.submit(request).await.unwrap();
    let wait = async { client.wait(&id, Some(tribunal_tests::PATIENCE)).await.unwrap().expect("a result") };
    let (result, most) = most_resident_mb(&mut fleet, wait).await;
    assert_eq!(result.status, ExecutionStatus::OutputExceeded);
    for test in &result.test_results {
        assert_eq!((test.status, test.actual_output.len()), (TestStatus::OutputExceeded, 64 * 1024));
    }
    assert!(most < 100.0, "the worker took {most} MB");
}

#[tokio::test]
async fn many_outputs_of_the_worst_kind_are_carried_in_part() {
    // A control character takes six bytes in JSON.
    let mut fleet = Fleet::started().await;
    let code = "head -c 60000 /dev/zero | tr '\\0' '\\1'; head -c 60000 /dev/zero >&2";
    let tests = vec![("", ""); 150];
    let client = fleet.client.clone();
    let limits = ExecutionRequest { total_timeout_ms: Some(600_000), ..request("bash", code, &tests) };
    let id = client.submit(limits).await.unwrap();
    let wait = async { client.wait(&id, Some(tribunal_tests::PATIENCE)).await.unwrap().expect("a result") };
    let (result, most) = most_resident_mb(&mut fleet, wait).await;
    assert_eq!(result.status, ExecutionStatus::AllFailed, "{}", result.summary);
    let kept: usize = result.test_results.iter().map(|test| test.actual_output.len()).sum();
    assert!(kept < 3 << 20, "{kept} bytes of output in a result");
    assert!(most < 200.0, "the worker took {most} MB");
}

#[tokio::test]
async fn a_flood_on_stderr_or_on_both_streams_ends_the_same_way() {
    let fleet = Fleet::started().await;
    for flood in ["cat /dev/zero >&2", "cat /dev/zero >&2 & cat /dev/zero"] {
        let result = fleet.judge(request("bash", flood, &[("", "")])).await;
        assert_eq!(result.status, ExecutionStatus::OutputExceeded, "{flood}: {}", result.summary);
    }
}

#[tokio::test]
async fn output_of_just_the_limit_passes_and_one_byte_more_does_not() {
    let fleet = Fleet::started().await;
    let limit = "x".repeat(64 * 1024);
    let code = "head -c $(cat) /dev/zero | tr '\\0' x";
    let result = fleet.judge(request("bash", code, &[("65536", &limit), ("65537", &limit)])).await;
    let statuses: Vec<_> = result.test_results.iter().map(|test| test.status).collect();
    assert_eq!(statuses, [TestStatus::Passed, TestStatus::OutputExceeded]);
}
