//! Every language gets every verdict, on every ground: each program in `programs/` does what the first word of its input
//! says.

use tribunal_shared::request::{ExecutionRequest, TestCase};
use tribunal_shared::result::{ExecutionResult, ExecutionStatus, TestStatus};
use tribunal_tests::requests::{request, test};
use tribunal_tests::{Fleet, Ground};

/// For the tests that shall end by themselves: a virtual machine starts slowly on a busy computer.
const LONG_MS: i64 = 60_000;
/// For the tests that never would.
const SHORT_MS: i64 = 1_000;

/// Judges a program on every behaviour; `signal` is the one it ends itself with.
async fn gets_every_verdict(fleet: &Fleet, language: &str, program: &str, signal: &str) {
    let short = |input| TestCase { timeout_ms: Some(SHORT_MS), ..test(input, "") };
    let test_cases = vec![
        test("sum 20 22", "42"),
        test("sum 20 22", "43"),
        test("exit 3 0", ""),
        test("signal 0 0", ""),
        short("spin 0 0"),
        short("sleep 0 0"),
        test("memory 0 0", ""),
        test("flood 0 0", ""),
    ];
    let result = fleet
        .judge(ExecutionRequest {
            test_cases,
            timeout_ms: Some(LONG_MS),
            total_timeout_ms: Some(10 * LONG_MS),
            ..request(language, program, &[])
        })
        .await;
    assert_eq!(result.status, ExecutionStatus::SomePassed, "{result:?}");
    assert_eq!((result.summary.as_str(), &result.error_info), ("1/8 test cases passed", &None));
    let [right, wrong, exit, signaled, spin, sleep, memory, flood] = &result.test_results[..] else {
        panic!("{result:?}");
    };
    let first_line = |message: &Option<String>| message.as_deref().map(|text| text.lines().next().unwrap().to_owned());
    let named = format!("Terminated by signal {signal}");
    for (test, status, exit_code, signal, message) in [
        (right, TestStatus::Passed, Some(0), None, None),
        (wrong, TestStatus::WrongAnswer, Some(0), None, None),
        (exit, TestStatus::RuntimeError, Some(3), None, Some("Exit code: 3")),
        (signaled, TestStatus::RuntimeError, None, Some(signal), Some(named.as_str())),
        (spin, TestStatus::Timeout, None, None, Some("Test execution timed out")),
        (sleep, TestStatus::Timeout, None, None, Some("Test execution timed out")),
    ] {
        assert_eq!((test.status, test.exit_code, test.signal.as_deref()), (status, exit_code, signal), "{test:?}");
        assert_eq!(first_line(&test.error_message).as_deref(), message, "{test:?}");
    }
    for test in [right, wrong] {
        assert_eq!(test.actual_output, "42\n");
    }
    let cpu_ms = |test: &tribunal_shared::result::TestResult| test.cpu_time_ms.unwrap();
    assert!(cpu_ms(sleep) < SHORT_MS as u64, "it slept: {sleep:?}");
    assert!(cpu_ms(spin) > cpu_ms(sleep), "it did not sleep: {spin:?}, {sleep:?}");
    // How the victim of an OOM kill or of our own kill ended is not always known.
    assert_eq!(memory.status, TestStatus::MemoryExceeded, "{memory:?}");
    assert_eq!(memory.error_message.as_deref(), Some("Memory limit exceeded"));
    assert!(memory.memory_used_kb > 250 * 1024, "{memory:?}");
    assert_eq!(flood.status, TestStatus::OutputExceeded, "{:?}", flood.error_message);
    assert_eq!(flood.error_message.as_deref(), Some("Output limit exceeded"));
    assert_eq!(flood.actual_output.len(), 64 * 1024);
}

/// Judges code that the compiler refuses with `message`.
async fn is_refused(fleet: &Fleet, language: &str, code: &str, message: &str) {
    let result = fleet.judge(request(language, code, &[("", "")])).await;
    assert_eq!(result.status, ExecutionStatus::CompilationError, "{result:?}");
    assert!(result.test_results.is_empty());
    let output = result.compilation_output.unwrap();
    assert!(output.contains(message), "{output}");
    assert_eq!(result.summary, format!("Compilation failed: {output}"));
    let error = result.error_info.unwrap();
    assert_eq!((error.code.as_str(), error.stage.as_str()), ("COMPILATION_ERROR", "compilation"));
    assert_eq!(error.message, output);
}

async fn passes(fleet: &Fleet, language: &str, code: &str) -> ExecutionResult {
    let limits = request(language, code, &[("20 22", "42")]);
    let result = fleet.judge(ExecutionRequest { timeout_ms: Some(LONG_MS), ..limits }).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{language}: {result:?}");
    result
}

#[tokio::test]
async fn python() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "python", include_str!("programs/python.py"), "SIGSEGV").await;
    }
}

#[tokio::test]
async fn python3() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "python3", include_str!("programs/python.py"), "SIGSEGV").await;
    }
}

#[tokio::test]
async fn cpp() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "cpp", include_str!("programs/cpp.cpp"), "SIGABRT").await;
        let broken = "#include <string>\nint main() { return undeclared_thing; }";
        is_refused(&fleet, "cpp", broken, "solution.cpp:2:21: error: ‘undeclared_thing’ was not declared").await;
    }
}

#[tokio::test]
async fn c() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "c", include_str!("programs/c.c"), "SIGSEGV").await;
        let broken = "int main(void) { return undeclared_thing; }";
        is_refused(&fleet, "c", broken, "solution.c:1:25: error: ‘undeclared_thing’ undeclared").await;
    }
}

#[tokio::test]
async fn java() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "java", include_str!("programs/java.java"), "SIGKILL").await;
        let broken = "public class Main { public static void main(String[] a) { int x = \"text\"; } }";
        is_refused(&fleet, "java", broken, "Main.java:1: error: incompatible types: String cannot be converted to int")
            .await;
    }
}

#[tokio::test]
async fn javascript() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "javascript", include_str!("programs/javascript.js"), "SIGABRT").await;
    }
}

#[tokio::test]
async fn go() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "go", include_str!("programs/go.go"), "SIGKILL").await;
        let broken = "package main\n\nfunc main() { println(undeclaredThing) }";
        is_refused(&fleet, "go", broken, "solution.go:3:23: undefined: undeclaredThing").await;
    }
}

#[tokio::test]
async fn rust() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "rust", include_str!("programs/rust.rs"), "SIGABRT").await;
        let broken = "fn main() { let number: u8 = undeclared_thing; }";
        is_refused(&fleet, "rust", broken, "error[E0425]: cannot find value `undeclared_thing` in this scope").await;
    }
}

#[tokio::test]
async fn ruby() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "ruby", include_str!("programs/ruby.rb"), "SIGKILL").await;
    }
}

#[tokio::test]
async fn bash() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        gets_every_verdict(&fleet, "bash", include_str!("programs/bash.sh"), "SIGSEGV").await;
    }
}

#[tokio::test]
async fn a_java_program_may_name_and_place_its_classes_as_it_likes() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        const BODY: &str = "public static void main(String[] a) { var in = new java.util.Scanner(System.in); \
                            System.out.println(in.nextInt() + in.nextInt()); }";
        for code in [
            format!("class Helper {{ int x; }}\nclass Solver {{ {BODY} }}"),
            format!("package judged.deeply;\n\npublic class Solver {{ {BODY} }}"),
            format!(
                "interface Shape {{}}\n/* public class Main */ public final class Solver implements Shape {{ {BODY} }}"
            ),
        ] {
            passes(&fleet, "java", &code).await;
        }
    }
}

#[tokio::test]
async fn other_names_for_a_language_mean_the_same() {
    let fleet = Fleet::started().await;
    let read_two = [
        ("js", "console.log(require('fs').readFileSync(0, 'utf8').split(' ').map(Number).reduce((a, b) => a + b))"),
        ("Node", "console.log(require('fs').readFileSync(0, 'utf8').split(' ').map(Number).reduce((a, b) => a + b))"),
        ("c++", "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }"),
        ("Python3", "print(sum(map(int, input().split())))"),
        ("rb", "puts gets.split.sum(&:to_i)"),
        ("sh", "read -r a b; echo $((a + b))"),
    ];
    for (name, code) in read_two {
        passes(&fleet, name, code).await;
    }
}

#[tokio::test]
async fn a_compilers_warnings_are_kept_when_it_succeeds() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        let code = "#include <stdio.h>\n#warning mind the gap\n\
                    int main(void) { int a, b; scanf(\"%d %d\", &a, &b); printf(\"%d\", a + b); }";
        let output = passes(&fleet, "c", code).await.compilation_output.unwrap();
        assert!(output.contains("warning: #warning mind the gap"), "{output}");
    }
}

#[tokio::test]
async fn the_longest_code_there_may_be_is_compiled_and_run() {
    for ground in Ground::ALL {
        let fleet = Fleet::started_on(ground).await;
        let program = "int printf(const char *, ...); int scanf(const char *, ...);\n\
                       int main(void) { int a, b; scanf(\"%d %d\", &a, &b); printf(\"%d\", a + b); }\n//";
        let longest = fleet.settings.limits.max_code_bytes;
        passes(&fleet, "c", &(program.to_owned() + &"x".repeat(longest - program.len()))).await;
    }
}

#[tokio::test]
async fn code_that_is_no_program_is_judged_all_the_same() {
    let fleet = Fleet::started().await;
    is_refused(&fleet, "c", "// nothing", "undefined reference to `main'").await;
    is_refused(&fleet, "java", "no java at all", "error:").await;
    let result = fleet.judge(request("python", "\u{1F980} \u{202e}\r\n\u{7}", &[("", "")])).await;
    assert_eq!(result.status, ExecutionStatus::RuntimeError);
    assert!(result.summary.contains("SyntaxError"), "{}", result.summary);
    let result = fleet.judge(request("bash", "# nothing", &[("", "")])).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed);
}
