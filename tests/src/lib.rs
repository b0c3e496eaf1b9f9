//! A fleet for each end-to-end test: its own queue, its own folder, real workers, on the services that `tests/run`
//! started. Nothing of it is left when it is dropped.

pub mod daemon;
pub mod rabbit;
pub mod redis;
pub mod requests;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tribunal_producer::client::Client;
use tribunal_shared::config::Settings;
use tribunal_shared::request::ExecutionRequest;
use tribunal_shared::result::ExecutionResult;
use tribunal_shared::{queue, store};

/// No result takes longer than this, or something is broken.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The services under test. A missing variable fails the test: nothing is skipped.
pub struct Services {
    pub amqp: String,
    pub redis: String,
    pub docker: String,
    pub image: String,
}

impl Services {
    pub fn from_environment() -> Self {
        let get = |name: &str| {
            std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this through `tests/run`"))
        };
        Self {
            amqp: get("TEST_AMQP_URL"),
            redis: get("TEST_REDIS_URL"),
            docker: get("TEST_DOCKER_HOST"),
            image: get("TEST_IMAGE"),
        }
    }
}

/// What programs run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    Docker,
    /// The native sandbox, on the machine's own toolchains.
    Host,
    /// The native sandbox, on the test image, imported.
    Image,
}

impl Ground {
    pub const ALL: [Self; 3] = [Self::Docker, Self::Host, Self::Image];

    fn settings(self) -> String {
        match self {
            Self::Docker => "sandbox.kind = \"docker\"\n".into(),
            Self::Host => "sandbox.kind = \"native\"\n".into(),
            Self::Image => {
                let roots = std::env::var("TEST_ROOTS").expect("TEST_ROOTS is not set: run this through `tests/run`");
                format!(
                    "sandbox.kind = \"native\"\nsandbox.native.root = \"image\"\nsandbox.native.roots = \"{roots}\"\n"
                )
            }
        }
    }
}

/// A queue, a workspace root and a settings file; workers as they are started.
pub struct Fleet {
    pub services: Services,
    pub folder: tempfile::TempDir,
    pub settings: Settings,
    pub client: Client,
    workers: Vec<Worker>,
}

impl Fleet {
    /// No worker yet.
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// No worker yet; `more` is appended to the settings file.
    pub async fn with(more: &str) -> Self {
        Self::on(Ground::Docker, more).await
    }

    pub async fn on(ground: Ground, more: &str) -> Self {
        Self::served_by(Services::from_environment(), ground, more).await
    }

    /// On services some of which may be the test's own.
    pub async fn served_by(services: Services, ground: Ground, more: &str) -> Self {
        // Short: a Unix socket or a cgroup name must fit.
        let folder = tempfile::Builder::new().prefix("tribunal-e2e-").tempdir().expect("a temporary folder");
        let path = folder.path().join("tribunal.toml");
        std::fs::write(&path, settings_text(&services, ground, folder.path()) + more).expect("the settings file");
        let settings = Settings::load(Some(&path)).expect("the test's settings are valid");
        let broker = queue::connect(&settings.queue).expect("a queue");
        let store = store::connect(&settings.store).await.expect("a store");
        let client = Client::new(broker, store, &settings);
        Self { services, folder, settings, client, workers: Vec::new() }
    }

    /// With one worker, which takes requests already.
    pub async fn started() -> Self {
        let mut fleet = Self::new().await;
        fleet.start_worker();
        fleet
    }

    pub async fn started_on(ground: Ground) -> Self {
        let mut fleet = Self::on(ground, "").await;
        fleet.start_worker();
        fleet
    }

    /// The answer of a worker that listens there: its status and its text.
    pub fn ask(port: u16, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the worker listens");
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("the worker reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the worker answers in UTF-8");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, text.to_owned())
    }

    pub fn settings_file(&self) -> PathBuf {
        self.folder.path().join("tribunal.toml")
    }

    /// Returns when the worker takes requests.
    pub fn start_worker(&mut self) -> &mut Worker {
        let worker = Worker::start(&self.settings_file(), &[]);
        worker.await_line("connected to the queue");
        self.workers.push(worker);
        self.workers.last_mut().expect("just pushed")
    }

    pub fn worker(&mut self, index: usize) -> &mut Worker {
        &mut self.workers[index]
    }

    pub async fn judge(&self, request: ExecutionRequest) -> ExecutionResult {
        let id = self.client.submit(request).await.expect("the request is accepted");
        let result = self.client.wait(&id, Some(PATIENCE)).await.expect("the store answers");
        result.unwrap_or_else(|| panic!("no result for {id} within {PATIENCE:?}; the worker says:\n{}", self.logs()))
    }

    pub fn logs(&self) -> String {
        self.workers.iter().map(Worker::log).collect::<Vec<_>>().join("\n")
    }

    /// `tribunal` with this fleet's settings.
    pub fn cli(&self) -> Command {
        let mut command = Command::new(binary("tribunal"));
        command.arg("--config").arg(self.settings_file());
        command
    }

    /// `docker` on the daemon under test.
    pub fn docker(&self, arguments: &[&str]) -> String {
        let output = Command::new("docker").env("DOCKER_HOST", &self.services.docker).args(arguments).output();
        let output = output.expect("the docker client runs");
        assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("docker prints UTF-8")
    }

    /// The containers of a request, ended ones too.
    pub fn containers_of(&self, request_id: &str) -> Vec<String> {
        let filter = format!("label=tribunal.request={request_id}");
        self.docker(&["ps", "--all", "--quiet", "--filter", &filter]).lines().map(str::to_owned).collect()
    }

    /// Folders below the workspace root: one for each worker that lives or has died uncleaned.
    pub fn tenants(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.settings.sandbox.workspace_root).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.workers.clear();
        let kinds = ["requests", "requests.high", "requests.low", "dead", "parked", "fallen", "unanswered"];
        let queues = kinds.map(|kind| format!("{}.{kind}", self.settings.queue.name));
        for queue in queues {
            let deleted = Command::new("amqp-delete-queue")
                .arg(format!("--url={}", self.services.amqp))
                .args(["-q", &queue])
                .output();
            assert!(deleted.is_ok() || std::thread::panicking(), "amqp-delete-queue cannot be run: {deleted:?}");
        }
    }
}

/// Settings for the services under test, with a queue and a workspace root of their own.
pub fn settings_text(services: &Services, ground: Ground, folder: &Path) -> String {
    let name = format!("e2e-{}", uuid::Uuid::new_v4().simple());
    format!(
        "queue.url = \"{}\"\nqueue.name = \"{name}\"\nstore.url = \"{}\"\n{}sandbox.workspace_root = \"{}\"\n{}",
        services.amqp,
        services.redis,
        ground.settings(),
        folder.join("work").display(),
        docker_text(&services.docker, &services.image),
    )
}

/// Settings for the Docker daemon under test, with one image for all languages.
pub fn docker_text(host: &str, image: &str) -> String {
    let mut text = format!("sandbox.docker.host = \"{host}\"\nsandbox.docker.pull_policy = \"never\"\n");
    for language in Settings::defaults().languages().iter() {
        text += &format!("languages.{}.image = \"{image}\"\n", language.name());
    }
    text
}

/// A binary of this workspace, built beside this one.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let folder = test.parent().expect("target/PROFILE, or the folder deps in it");
    let folder = if folder.ends_with("deps") { folder.parent().expect("target/PROFILE") } else { folder };
    let path = folder.join(name);
    assert!(path.exists(), "{} is not built: run this through `tests/run`", path.display());
    path
}

/// A `tribunal-worker` process. Killed when dropped.
pub struct Worker {
    process: Child,
    log: Arc<Mutex<String>>,
}

impl Worker {
    pub fn start(settings: &Path, environment: &[(&str, &str)]) -> Self {
        Self::start_as("tribunal-worker", settings, environment)
    }

    /// One that dies at a step of a request's life, see `worker/src/failpoint.rs`.
    pub fn start_failing(settings: &Path, fail_point: &str) -> Self {
        Self::start_as("tribunal-worker-failing", settings, &[("TEST_FAILPOINT", fail_point)])
    }

    /// One that sends its traces to a collector, see `worker/src/spans.rs`.
    pub fn start_exporting(settings: &Path, collector: &str) -> Self {
        Self::start_as("tribunal-worker-failing", settings, &[("OTEL_EXPORTER_OTLP_ENDPOINT", collector)])
    }

    fn start_as(name: &str, settings: &Path, environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(binary(name))
            .arg("--config")
            .arg(settings)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(process.stderr.take().expect("stderr is piped"));
        let writer = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *writer.lock().expect("the log") += &(line + "\n");
            }
        });
        Self { process, log }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    pub fn await_line(&self, text: &str) {
        eventually(&format!("the worker says {text:?}"), || self.log().contains(text));
    }

    /// Resident memory, in MB.
    pub fn resident_mb(&self) -> f64 {
        memory_kb(self.pid(), "VmRSS:") / 1024.0
    }

    /// The most there ever was of it.
    pub fn most_resident_mb(&self) -> f64 {
        most_resident_kb(self.pid()) / 1024.0
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().expect("the worker can be killed");
        self.process.wait().expect("the worker is reaped");
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.process.wait().expect("the worker ends")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Gracefully, so that no container outlives the test; by force if it does not listen.
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal("TERM");
            let deadline = Instant::now() + Duration::from_secs(40);
            while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// How many processes on this machine, sandboxes included, have exactly these words as their command line.
pub fn processes_running(words: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).replace('\0', " ").trim_end() == words).count()
}

/// The most memory that a process ever had.
pub fn most_resident_kb(pid: u32) -> f64 {
    memory_kb(pid, "VmHWM:")
}

fn memory_kb(pid: u32, of: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix(of)).expect("a line of this name");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Asks until it holds, for things that nobody announces.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
