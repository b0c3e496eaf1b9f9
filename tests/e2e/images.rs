//! Images come when they are needed, as the policy says, and a runtime is what the settings say.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::{ExecutionStatus, TestStatus};
use tribunal_tests::requests::request;
use tribunal_tests::{Fleet, Worker, eventually};

/// A registry of our own, with one small image in it and that image nowhere else.
struct Registry {
    process: Child,
    _folder: tempfile::TempDir,
    image: String,
}

impl Registry {
    fn start(fleet: &Fleet) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = folder.path().join("config.yml");
        let storage = folder.path().join("storage");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nhttp: {{addr: \"{address}\"}}\nstorage: {{filesystem: {{rootdirectory: \"{}\"}}}}\n",
            storage.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut serve = Command::new("docker-registry");
        let process = serve.arg("serve").arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the registry answers", || std::net::TcpStream::connect(address).is_ok());

        // A static shell is all that an image needs to be judged in: process 1 brings itself along.
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("bin")).unwrap();
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| std::path::Path::new(path).exists());
        std::fs::copy(busybox.unwrap(), root.join("bin/sh")).unwrap();
        let tar = folder.path().join("root.tar");
        let packed =
            Command::new("tar").args(["--create", "--file"]).arg(&tar).arg("--directory").arg(&root).arg(".").status();
        assert!(packed.unwrap().success());
        let image = format!("{address}/tiny:1");
        fleet.docker(&["import", tar.to_str().unwrap(), &image]);
        fleet.docker(&["push", &image]);
        fleet.docker(&["rmi", &image]);
        Self { process, _folder: folder, image }
    }

    fn settings(&self, policy: &str) -> [(&'static str, String); 2] {
        [
            ("TRIBUNAL_SANDBOX__DOCKER__PULL_POLICY", policy.to_owned()),
            ("TRIBUNAL_LANGUAGES__TINY__IMAGE", self.image.clone()),
        ]
    }

    fn worker(&self, fleet: &Fleet, policy: &str) -> Worker {
        let settings = self.settings(policy);
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let worker = Worker::start(&fleet.settings_file(), &settings);
        worker.await_line("all languages were looked at");
        worker
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One language more; its image is told later.
const TINY: &str = r#"
    worker.max_attempts = 1
    [languages.tiny]
    image = "tribunal-test/unknown:1"
    source = "solution.sh"
    run = ["/bin/sh", "{source}"]
    version = ["/bin/sh", "--help"]
"#;

#[tokio::test]
async fn an_image_is_pulled_if_it_is_not_present_and_not_again() {
    let fleet = Fleet::with(TINY).await;
    let registry = Registry::start(&fleet);
    let pulled = format!("\"image\":\"{}\"", registry.image);

    let never = registry.worker(&fleet, "never");
    let result = fleet.judge(request("tiny", "echo hi", &[("", "hi")])).await;
    assert_eq!(result.status, ExecutionStatus::SandboxError);
    assert!(result.summary.contains(&registry.image) && result.summary.contains("pull_policy"), "{}", result.summary);
    assert!(!never.log().contains("pulled"), "{}", never.log());
    drop(never);

    let first = registry.worker(&fleet, "if_not_present");
    let result = fleet.judge(request("tiny", "echo hi", &[("", "hi")])).await;
    assert_eq!(result.status, ExecutionStatus::AllPassed, "{result:?}\n{}", first.log());
    assert!(first.log().contains("\"pulled\"") && first.log().contains(&pulled), "{}", first.log());
    drop(first);

    let second = registry.worker(&fleet, "if_not_present");
    assert!(!second.log().contains(&pulled), "{}", second.log());
    drop(second);

    let third = registry.worker(&fleet, "always");
    assert!(third.log().contains(&pulled), "{}", third.log());
    drop(third);
    fleet.docker(&["rmi", "--force", &registry.image]);
}

#[tokio::test]
async fn an_image_that_goes_and_comes_back_is_found_again() {
    let fleet = Fleet::with(TINY).await;
    let image = format!("tribunal-test/passing:{}", uuid::Uuid::new_v4().simple());
    let tag = ["tag", &fleet.services.image.clone(), &image];
    fleet.docker(&tag);
    let worker = Worker::start(&fleet.settings_file(), &[("TRIBUNAL_LANGUAGES__TINY__IMAGE", &image)]);
    let run = || request("tiny", "echo hi", &[("", "hi")]);
    assert_eq!(fleet.judge(run()).await.status, ExecutionStatus::AllPassed, "{}", worker.log());

    fleet.docker(&["rmi", &image]);
    let result = fleet.judge(run()).await;
    assert_eq!(result.status, ExecutionStatus::SandboxError);
    assert!(result.summary.contains(&image), "{}", result.summary);

    fleet.docker(&tag);
    assert_eq!(fleet.judge(run()).await.status, ExecutionStatus::AllPassed, "{}", worker.log());
    drop(worker);
    fleet.docker(&["rmi", &image]);
}

#[tokio::test]
async fn another_runtime_gives_the_same_verdicts() {
    let code = "import os, sys, time\n\
                word = input()\n\
                if word == 'memory': x = bytearray(600 << 20)\n\
                while word == 'spin': pass\n\
                while word == 'flood': print('x' * 1000)\n\
                if word == 'sleep': time.sleep(60)\n\
                if word == 'signal': os.kill(os.getpid(), 11)\n\
                if word == 'exit': sys.exit(139)\n\
                print(word)";
    use TestStatus::*;
    let expected = [
        ("right", Passed),
        ("memory", MemoryExceeded),
        ("spin", Timeout),
        ("sleep", Timeout),
        ("signal", RuntimeError),
        ("exit", RuntimeError),
        ("flood", OutputExceeded),
    ];
    let tests: Vec<_> = expected.iter().map(|(word, _)| (*word, *word)).collect();
    for runtime in ["runc", "runsc"] {
        let mut fleet = Fleet::with(&format!("sandbox.docker.runtime = \"{runtime}\"\n")).await;
        fleet.start_worker();
        let request = ExecutionRequest { timeout_ms: Some(3000), ..request("python", code, &tests) };
        let result = fleet.judge(request).await;
        for (test, (word, status)) in result.test_results.iter().zip(expected) {
            assert_eq!(test.status, status, "{runtime}, {word}: {test:?}");
        }
        assert_eq!(result.test_results.len(), expected.len(), "{result:?}");
        assert_eq!(result.test_results[4].signal.as_deref(), Some("SIGSEGV"));
        assert_eq!(result.test_results[5].exit_code, Some(139));
    }
}

#[tokio::test]
async fn a_runtime_that_the_daemon_does_not_know_is_refused() {
    let fleet = Fleet::new().await;
    let unknown = [("TRIBUNAL_SANDBOX__DOCKER__RUNTIME", "no-such-runtime")];
    let mut worker = Worker::start(&fleet.settings_file(), &unknown);
    assert_eq!(worker.wait().code(), Some(3));
    worker.await_line("no-such-runtime");
}
