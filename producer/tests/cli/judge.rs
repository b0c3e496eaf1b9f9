//! `tribunal judge` and what else runs the sandbox within the command, on a real Docker daemon.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::{TempDir, tempdir};

use crate::common::{example, run, service, tribunal};

/// A folder with settings for the test's Docker daemon and image.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    let (host, image) = (service("TEST_DOCKER_HOST"), service("TEST_IMAGE"));
    let root = folder.path().join("workspaces");
    let mut settings = format!(
        "[sandbox]\nkind = 'docker'\nworkspace_root = '{}'\n[sandbox.docker]\nhost = '{host}'\npull_policy = 'never'\n",
        root.display()
    );
    for language in ["python", "cpp", "java"] {
        settings.push_str(&format!("[languages.{language}]\nimage = '{image}'\n"));
    }
    std::fs::write(folder.path().join("tribunal.toml"), settings).unwrap();
    folder
}

fn judge(folder: &TempDir, path: &Path) -> Command {
    let mut command = tribunal(folder.path());
    command.arg("judge").arg(path);
    command
}

#[test]
fn the_examples_end_as_they_say() {
    let folder = folder();
    for name in ["two_sum", "word_count", "parentheses", "request.json"] {
        let ran = run(&mut judge(&folder, &example(name)));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{name}: {}", ran.stdout);
        assert!(ran.stdout.ends_with("\nAll 3 test cases passed\n"), "{name}: {}", ran.stdout);
    }
}

#[test]
fn a_wrong_answer_shows_its_first_difference() {
    let folder = folder();
    let ran = run(&mut judge(&folder, &example("wrong_answer")));
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let difference = "two_on_a_line: wrong_answer at line 2\n  expected | 6\n  actual   | 3\n";
    assert!(ran.stdout.contains(difference), "{}", ran.stdout);
}

#[test]
fn json_is_the_result_and_nothing_else() {
    let folder = folder();
    let ran = run(judge(&folder, &example("wrong_answer")).args(["--json", "--id", "mine"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&result["status"], &result["request_id"]), (&"some_passed".into(), &"mine".into()));
    assert_eq!(result["test_results"][1]["actual_output"], "sum:\n3\n");
}

#[test]
fn a_source_file_is_judged_with_tests_and_limits_from_flags() {
    let folder = folder();
    let source = folder.path().join("loop.py");
    std::fs::write(&source, "while True: pass").unwrap();
    let tests = example("two_sum").join("tests");
    let ran = run(judge(&folder, &source).arg("--tests").arg(tests).args(["--timeout-ms", "200"]));
    assert_eq!((ran.code, ran.stdout.matches(": timeout").count()), (1, 3), "{}", ran.stdout);
}

#[test]
fn what_the_compiler_says_is_shown() {
    let folder = folder();
    let source = folder.path().join("broken.cpp");
    std::fs::write(&source, "int main() { return nothing; }").unwrap();
    let ran = run(judge(&folder, &source).arg("--tests").arg(example("two_sum").join("tests")));
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("nothing") && ran.stdout.ends_with("Compilation failed\n"), "{}", ran.stdout);
}

#[test]
fn a_missing_image_is_named_with_a_remedy() {
    let folder = folder();
    let mut command = judge(&folder, &example("two_sum"));
    command.env("TRIBUNAL_LANGUAGES__PYTHON__IMAGE", "tribunal-test/absent:1");
    let ran = run(&mut command);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.starts_with("tribunal: ") && ran.stderr.contains("tribunal-test/absent:1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("docker pull"), "{}", ran.stderr);
}

#[test]
fn versions_come_from_the_toolchains() {
    let folder = folder();
    let ran = run(tribunal(folder.path()).arg("languages"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = |name: &str| ran.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("python").contains("Python 3."), "{}", ran.stdout);
    assert!(line("ruby").ends_with("(image not here yet)"), "{}", ran.stdout);
}

#[test]
fn nothing_is_left_of_a_judgement_that_is_interrupted() {
    let folder = folder();
    let source = folder.path().join("sleep.py");
    std::fs::write(&source, "import time; time.sleep(60)").unwrap();
    for (signal, id) in [("INT", "interrupted-int"), ("TERM", "interrupted-term")] {
        let child = judge(&folder, &source)
            .args(["--timeout-ms", "60000", "--id", id, "--tests"])
            .arg(example("two_sum").join("tests"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while containers(id) == 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "no container came up");
            std::thread::sleep(Duration::from_millis(50));
        }
        let killed = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "tribunal: interrupted\n");
        assert_eq!(containers(id), 0, "left by SIG{signal}");
        let left: Vec<_> = std::fs::read_dir(folder.path().join("workspaces")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// How many containers a request has.
fn containers(id: &str) -> usize {
    let host = service("TEST_DOCKER_HOST");
    let label = format!("label=tribunal.request={id}");
    let listed = Command::new("docker").args(["-H", &host, "ps", "-aq", "--filter", &label]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).lines().count()
}
