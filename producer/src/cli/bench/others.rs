//! No sandbox at all, and sandboxes that others made: each a few commands, executed and waited for.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::RwLock;

use super::Runner;
use super::measure::ms;
use super::program::{Program, installed};

/// The words of the commands of one run.
type Commands = dyn Fn(usize) -> Vec<Vec<String>> + Send + Sync;

struct External {
    commands: Arc<Commands>,
    /// Read-locked by batches for as long as they run, which they also do when nobody waits for them any more.
    running: Arc<RwLock<()>>,
}

#[async_trait]
impl Runner for External {
    async fn batch(&self, lane: usize, runs: usize) -> Result<Vec<f64>, String> {
        let commands = Arc::clone(&self.commands);
        let running = Arc::clone(&self.running).read_owned().await;
        let run = move || {
            let began = Instant::now();
            commands(lane).iter().try_for_each(|words| execute(words))?;
            Ok(ms(began.elapsed()))
        };
        // On a thread that nothing else wants, and there all at once: changing threads takes time too.
        let batch = tokio::task::spawn_blocking(move || {
            let _running = running;
            (0..runs).map(|_| run()).collect()
        });
        batch.await.map_err(|error| error.to_string())?
    }

    async fn settle(&self) {
        drop(self.running.write().await);
    }
}

fn external(commands: impl Fn(usize) -> Vec<Vec<String>> + Send + Sync + 'static) -> Arc<dyn Runner> {
    Arc::new(External { commands: Arc::new(commands), running: Arc::default() })
}

/// posix_spawn, which is vfork and exec, and wait.
fn execute(words: &[String]) -> Result<(), String> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` ended with {status}", words.join(" "))),
        Err(error) => Err(format!("cannot run {}: {error}", words[0])),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

pub fn bare(program: &Program) -> Arc<dyn Runner> {
    let path = program.path().display().to_string();
    external(move |_| vec![vec![path.clone()]])
}

pub fn isolate(program: &Program) -> Result<Arc<dyn Runner>, String> {
    installed("isolate", "https://github.com/ioi/isolate")?;
    let folder = program.folder().display().to_string();
    Ok(external(move |lane| {
        let isolate = |rest: &str| words(&format!("isolate --box-id={lane} --silent {rest}"));
        let mut run = isolate("--run");
        run.extend([format!("--dir=/bench={folder}"), "--".into(), "/bench/program".into()]);
        vec![isolate("--init"), run, isolate("--cleanup")]
    }))
}

/// Everything that it can take away from a program, and the host's `/usr` to look at.
pub fn bwrap(program: &Program) -> Result<Arc<dyn Runner>, String> {
    installed("bwrap", "apt-get install bubblewrap")?;
    let mut command = words(
        "bwrap --unshare-all --die-with-parent --new-session --clearenv --ro-bind /usr /usr --symlink usr/bin /bin \
         --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --ro-bind",
    );
    command.extend([program.folder().display().to_string(), "/bench".into(), "/bench/program".into()]);
    Ok(external(move |_| vec![command.clone()]))
}

/// With the configuration that it proposes itself, on a root with nothing but the program.
pub fn runc(program: &Program) -> Result<Arc<dyn Runner>, String> {
    installed("runc", "apt-get install runc")?;
    let bundle = bundle(program).map_err(|problem| format!("cannot prepare a bundle: {problem}"))?;
    let runs = AtomicU64::new(0);
    let state = program.folder().join("runc-state").display().to_string();
    let bundle = bundle.display().to_string();
    Ok(external(move |_| {
        let id = format!("tribunal-bench-{}-{}", std::process::id(), runs.fetch_add(1, Ordering::Relaxed));
        let mut command = words("runc --root");
        command.extend([state.clone(), "run".into(), "--bundle".into(), bundle.clone(), id]);
        vec![command]
    }))
}

fn bundle(program: &Program) -> Result<PathBuf, String> {
    let bundle = program.folder().join("bundle");
    let root = bundle.join("rootfs");
    let copied = std::fs::create_dir_all(&root).and_then(|()| std::fs::copy(program.path(), root.join("program")));
    copied.map_err(|error| error.to_string())?;
    let bundle_path = bundle.display().to_string();
    execute(&[words("runc spec --bundle"), vec![bundle_path]].concat())?;
    let config = bundle.join("config.json");
    let text = std::fs::read(&config).map_err(|error| error.to_string())?;
    let mut spec: serde_json::Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    spec["process"]["terminal"] = false.into();
    spec["process"]["args"] = serde_json::json!(["/program"]);
    std::fs::write(&config, spec.to_string()).map_err(|error| error.to_string())?;
    Ok(bundle)
}
