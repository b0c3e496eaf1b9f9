//! `tribunal run`, on both sandboxes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::{TempDir, tempdir};

use crate::common::{Ran, run, service, tribunal};

/// A folder with settings for a sandbox, and a way to run programs in it.
struct Place(TempDir);

impl Place {
    fn each() -> [Self; 2] {
        ["native", "docker"].map(|kind| {
            let folder = tempdir().unwrap();
            let (host, image) = (service("TEST_DOCKER_HOST"), service("TEST_IMAGE"));
            let mut settings = format!(
                "sandbox.kind = '{kind}'\nsandbox.workspace_root = '{}'\nsandbox.docker.host = '{host}'\n\
                 sandbox.docker.pull_policy = 'never'\n",
                folder.path().join("workspaces").display()
            );
            for language in ["bash", "c", "cpp", "python"] {
                settings += &format!("languages.{language}.image = '{image}'\n");
            }
            std::fs::write(folder.path().join("tribunal.toml"), settings).unwrap();
            Self(folder)
        })
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, name: &str, code: &str) -> Command {
        let mut command = tribunal(self.0.path());
        command.arg("run").arg(self.file(name, code));
        command
    }

    fn run(&self, name: &str, code: &str, arguments: &[&str]) -> Ran {
        run(self.command(name, code).args(arguments))
    }
}

#[test]
fn what_a_program_prints_is_passed_on_and_what_it_used_is_said() {
    for place in Place::each() {
        let ran = place.run("x.sh", "printf 'out\\033[1m'; printf err >&2; cat", &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "out\x1b[1m"));
        let lines: Vec<_> = ran.stderr.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, "err"), "{}", ran.stderr);
        let used = lines[1].strip_prefix("tribunal: exit code 0 · ").unwrap();
        assert!(used.contains(" ms · CPU ") && used.contains(" · memory ") && used.ends_with(" MB"), "{used}");
    }
}

#[test]
fn a_program_reads_a_file_our_own_stdin_or_nothing() {
    for place in Place::each() {
        let input = place.file("input", "from a file\n");
        let cat = |arguments: &[&str]| {
            let mut command = place.command("x.sh", "cat");
            let mut child = command
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // Whether it is read or not, which it is not without `--stdin -`.
            let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"\xff from here");
            child.wait_with_output().unwrap().stdout
        };
        assert_eq!(cat(&[]), b"");
        assert_eq!(cat(&["--stdin", "-"]), b"\xff from here");
        assert_eq!(cat(&["--stdin", input.to_str().unwrap()]), b"from a file\n");
    }
}

#[test]
fn each_way_to_fail_is_named_with_exit_code_1() {
    for place in Place::each() {
        for (name, code, arguments, said) in [
            ("a.sh", "exit 7", &[][..], "exit code 7 · "),
            ("b.sh", "kill -SEGV $$", &[], "ended by SIGSEGV · "),
            ("c.sh", "while :; do :; done", &["--timeout-ms", "200"], "over its time limit of 200 ms · "),
            ("d.py", "x = b'x' * (200 << 20)", &["--memory-mb", "32"], "over its memory limit of 32 MB · "),
            ("e.py", "print('x' * 100_000)", &[], "over its output limit of 64 KB"),
            ("f.cpp", "int main() { return nothing; }", &[], "compilation failed"),
        ] {
            let ran = place.run(name, code, arguments);
            assert_eq!(ran.code, 1, "{name}: {}", ran.stderr);
            let last = ran.stderr.lines().last().unwrap();
            assert!(last.starts_with(&format!("tribunal: {said}")), "{name}: {}", ran.stderr);
            assert!(name != "f.cpp" || ran.stderr.contains("‘nothing’ was not declared"), "{}", ran.stderr);
        }
    }
}

#[test]
fn json_has_everything_and_nothing_else_is_printed() {
    for place in Place::each() {
        let ran = place.run("x.c", "#include <stdio.h>\nint main() { puts(\"hi\"); return 3; }", &["--json"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((&report["status"], &report["exit_code"]), (&"runtime_error".into(), &3.into()));
        assert_eq!((&report["stdout"], &report["stderr"]), (&"hi\n".into(), &"".into()));
        assert!(report["memory_used_kb"].as_u64().unwrap() > 0 && report["cpu_time_ms"].is_u64(), "{report}");

        let ran = place.run("x.c", "int main() { return nothing; }", &["--json"]);
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &report["status"]), (1, &"compilation_error".into()));
        assert!(report["error_message"].as_str().unwrap().contains("nothing"), "{report}");
    }
}

#[test]
fn limits_out_of_bounds_and_unknown_languages_are_bad_usage() {
    for place in Place::each() {
        let ran = place.run("x.sh", "true", &["--timeout-ms", "1"]);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains("\ntimeout_ms: 1 ms is not between"), "{}", ran.stderr);
        let ran = place.run("x.unknown", "true", &[]);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains("--language"), "{}", ran.stderr);
        assert_eq!(place.run("x.unknown", "true", &["--language", "bash"]).code, 0);
    }
}

#[test]
fn a_toolchain_that_is_missing_is_named_with_its_package() {
    let [native, _] = Place::each();
    let stanza = "\n[languages.lua]\nimage = 'lua'\nsource = 'solution.lua'\npackage = 'lua5.4'\n\
                  run = ['no-such-lua', '{source}']\nversion = ['no-such-lua', '-v']\n";
    let path = native.0.path().join("tribunal.toml");
    let settings = std::fs::read_to_string(&path).unwrap() + stanza;
    std::fs::write(&path, settings).unwrap();
    let ran = native.run("x.lua", "print(1)", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    let said = "tribunal: no-such-lua, which lua needs, is not installed. Run `apt-get install lua5.4`";
    assert!(ran.stderr.starts_with(said), "{}", ran.stderr);

    let ran = run(tribunal(native.0.path()).arg("languages"));
    let lua = ran.stdout.lines().find(|line| line.starts_with("lua")).unwrap();
    assert!(lua.contains(" host ") && lua.ends_with("(not installed: lua5.4)"), "{lua}");
}
