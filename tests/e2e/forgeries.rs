//! A verdict follows from what happened, not from what a program says or looks like.

use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::{TestResult, TestStatus};
use tribunal_tests::Fleet;
use tribunal_tests::requests::request;

async fn judge_one(request: ExecutionRequest) -> TestResult {
    let fleet = Fleet::started().await;
    let mut result = fleet.judge(request).await;
    assert_eq!(result.test_results.len(), 1, "{result:?}");
    result.test_results.remove(0)
}

#[tokio::test]
async fn exit_codes_that_others_take_for_limits_are_runtime_errors() {
    let fleet = Fleet::started().await;
    for code in [124, 134, 137, 139, 143, 152, 255] {
        let result = fleet.judge(request("bash", &format!("exit {code}"), &[("", "")])).await;
        let test = &result.test_results[0];
        assert_eq!((test.status, test.exit_code, &test.signal), (TestStatus::RuntimeError, Some(code), &None));
    }
}

#[tokio::test]
async fn a_signal_is_told_from_the_exit_code_of_the_same_number() {
    let fleet = Fleet::started().await;
    for (signal, name) in [("SEGV", "SIGSEGV"), ("ABRT", "SIGABRT"), ("KILL", "SIGKILL"), ("TERM", "SIGTERM")] {
        let result = fleet.judge(request("bash", &format!("kill -{signal} $$"), &[("", "")])).await;
        let test = &result.test_results[0];
        assert_eq!((test.status, test.exit_code, test.signal.as_deref()), (TestStatus::RuntimeError, None, Some(name)));
    }
}

#[tokio::test]
async fn words_on_stderr_are_only_words() {
    let code = "echo 'Execution timed out' >&2; echo 'Memory limit exceeded' >&2; echo 42";
    let right = judge_one(request("bash", code, &[("", "42")])).await;
    assert_eq!(right.status, TestStatus::Passed);
    let wrong = judge_one(request("bash", code, &[("", "43")])).await;
    assert_eq!(wrong.status, TestStatus::WrongAnswer);
}

#[tokio::test]
async fn a_child_killed_for_memory_counts_even_if_its_parent_exits_0() {
    let code = "import subprocess, sys\n\
                subprocess.run([sys.executable, '-c', 'x = bytearray(400 << 20)'])\n\
                print('fine')";
    let test = judge_one(request("python", code, &[("", "fine")])).await;
    assert_eq!(test.status, TestStatus::MemoryExceeded);
}

#[tokio::test]
async fn output_that_is_not_utf8_is_compared_and_carried() {
    let code = r"import sys; sys.stdout.buffer.write(b'a\xff\x00b\n')";
    let wrong = judge_one(request("python", code, &[("", "a\u{fffd}\0b")])).await;
    assert_eq!(wrong.status, TestStatus::WrongAnswer, "the replacement character is not the byte it replaces");
    assert_eq!(wrong.actual_output, "a\u{fffd}\0b\n");

    let nul = r"import sys; sys.stdout.buffer.write(b'a\x00b\n')";
    assert_eq!(judge_one(request("python", nul, &[("", "a\0b")])).await.status, TestStatus::Passed);
    assert_eq!(judge_one(request("python", nul, &[("", "ab")])).await.status, TestStatus::WrongAnswer);
}

#[tokio::test]
async fn a_grandchild_that_holds_stdout_open_keeps_nobody_waiting() {
    let code = "import os, time\n\
                if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n    os._exit(0)\n\
                print('answer', flush=True)";
    let test =
        judge_one(ExecutionRequest { timeout_ms: Some(30_000), ..request("python", code, &[("", "answer")]) }).await;
    assert_eq!(test.status, TestStatus::Passed);
    assert!(test.execution_time_ms < 15_000, "{} ms", test.execution_time_ms);
}

#[tokio::test]
async fn a_report_written_by_the_program_is_part_of_its_stderr() {
    // The right length and an honest-looking body, but not the nonce, which the program cannot learn.
    let code = "import os\n\
                for path in ('/proc/1/environ', '/proc/1/mem', '/proc/1/fd/2'):\n    \
                    try:\n        open(path, 'rb').read(1)\n        print('read', path)\n    \
                    except OSError:\n        pass\n\
                assert not any('NONCE' in name for name in os.environ)\n\
                os.write(2, b'0123456789abcdef' + bytes(37))\n\
                os._exit(7)";
    let test = judge_one(request("python", code, &[("", "")])).await;
    assert_eq!((test.status, test.exit_code), (TestStatus::RuntimeError, Some(7)));
    assert_eq!(test.actual_output, "");
    assert!(test.stderr.unwrap().starts_with("0123456789abcdef\0"));
}

#[tokio::test]
async fn process_1_can_be_neither_killed_nor_starved_nor_looked_into() {
    // Each of these would cost us the report, or falsify it.
    let code = "import os, resource, signal\n\
                for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP, signal.SIGINT):\n    os.kill(1, sig)\n\
                for limit in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_AS):\n    \
                    try:\n        resource.prlimit(1, limit, (0, 0))\n        print('limited', limit)\n    \
                    except PermissionError:\n        pass\n\
                for call in (lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),\n             \
                             lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))):\n    \
                    try:\n        call()\n        print('slowed')\n    \
                    except PermissionError:\n        pass\n\
                try:\n    open('/proc/1/oom_score_adj', 'w').write('1000')\n    print('offered')\n\
                except PermissionError:\n    pass\n\
                print('alive')";
    let test = judge_one(request("python", code, &[("", "alive")])).await;
    assert_eq!((test.status, test.actual_output.as_str()), (TestStatus::Passed, "alive\n"), "{:?}", test.stderr);
}

#[tokio::test]
async fn memory_cannot_be_hidden_in_sockets() {
    // What TCP holds in its buffers is not charged to a cgroup of version 1.
    let code = "import socket\n\
                for family in (socket.AF_INET, socket.AF_INET6, 16, 40):\n    \
                    try:\n        socket.socket(family)\n        print('got', family)\n    \
                    except PermissionError:\n        pass\n\
                one, other = socket.socketpair()\n\
                one.send(b'fine')\n\
                print(other.recv(9).decode())";
    let test = judge_one(request("python", code, &[("", "fine")])).await;
    assert_eq!((test.status, test.actual_output.as_str()), (TestStatus::Passed, "fine\n"), "{:?}", test.stderr);
}

#[tokio::test]
async fn a_program_that_asks_process_1_to_end_is_ended() {
    let test = judge_one(request("bash", "kill -TERM 1; sleep 60; echo done", &[("", "done")])).await;
    assert_eq!((test.status, test.signal.as_deref()), (TestStatus::RuntimeError, Some("SIGKILL")));
}

#[tokio::test]
async fn cpu_time_counts_when_children_burn_it() {
    // Each process is below the limit on its own.
    let code = "import os, time\n\
                pids = []\n\
                for _ in range(3):\n    pid = os.fork()\n    \
                    if pid == 0:\n        end = time.process_time() + 0.6\n        \
                        while time.process_time() < end: pass\n        os._exit(0)\n    \
                    pids.append(pid)\n\
                for pid in pids: os.waitpid(pid, 0)\n\
                print('ok')";
    let limits =
        ExecutionRequest { timeout_ms: Some(1500), cpu_limit: Some(4.0), ..request("python", code, &[("", "ok")]) };
    let test = judge_one(limits).await;
    assert_eq!(test.status, TestStatus::Timeout);
}

#[tokio::test]
async fn standard_input_that_nobody_reads_harms_nobody() {
    let input = "x".repeat(4 << 20);
    let test = judge_one(request("bash", "echo done", &[(&input, "done")])).await;
    assert_eq!(test.status, TestStatus::Passed);
}

#[tokio::test]
async fn large_input_and_output_flow_at_the_same_time() {
    let settings = "sandbox.output_limit_kb = 8192\n";
    let mut fleet = Fleet::with(settings).await;
    fleet.start_worker();
    let input = "0123456789abcde\n".repeat(4 << 16);
    let result = fleet.judge(request("bash", "cat", &[(&input, &input)])).await;
    assert_eq!(result.summary, "All 1 test cases passed");
}
