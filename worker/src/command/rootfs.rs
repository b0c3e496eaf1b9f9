//! `tribunal-worker rootfs`: roots for the native sandbox.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::rootfs::{self, ImportError, STDIN, Source, Watch};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tribunal_shared::config::Settings;

const INTERRUPTED: u8 = 130;
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  2    bad usage, an archive that is no root, or a root of that name exists
  3    something it needs is missing or fails: the Docker daemon, the image, the disk
  130  interrupted; nothing was imported";

#[derive(Subcommand)]
pub enum Rootfs {
    /// Unpack an image or a tarball, for the native sandbox to run programs on
    #[command(after_help = format!("\
IMAGE is taken from the Docker daemon at sandbox.docker.host, and pulled if sandbox.docker.pull_policy allows.
TAR is a root file system, plain or packed with gzip, as `docker export` and `mmdebstrap` write it; - reads stdin.

Languages use the root of their image with sandbox.native.root = \"image\", or with root = \"image\" in
their stanza. A tarball stands for the image that --name says. Restart workers after replacing a root.

Examples:
  tribunal-worker rootfs import python:3.11-slim
  tribunal-worker rootfs import debian.tar.gz --name registry.example.org/toolchains:1
  docker export CONTAINER | tribunal-worker rootfs import - --name gcc:12

{EXIT_CODES}"))]
    Import(Import),
    /// List what was imported
    #[command(after_help = format!("\
Examples:
  tribunal-worker rootfs ls
  tribunal-worker rootfs ls --json | jq -r '.[].folder'

{EXIT_CODES}"))]
    Ls(List),
}

#[derive(Args)]
pub struct Import {
    /// An image's name, or the path of a tarball
    #[arg(value_name = "IMAGE|TAR")]
    source: PathBuf,
    /// The image that it is to be the root of; by default the image itself, or the name of the tarball
    #[arg(long, value_name = "IMAGE")]
    name: Option<String>,
    /// Replace what was imported under this name
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(command: Rootfs, settings: &Settings) -> ExitCode {
    let done = match command {
        Rootfs::Import(import) => self::import(import, settings).await,
        Rootfs::Ls(list) => self::list(&list, settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tribunal-worker: {error}");
            ExitCode::from(match error {
                ImportError::Exists { .. } | ImportError::NotARoot { .. } | ImportError::Refused { .. } => 2,
                ImportError::Unreadable { .. } | ImportError::NotWritten { .. } | ImportError::Sandbox(_) => 3,
                ImportError::Interrupted => INTERRUPTED,
            })
        }
    }
}

async fn import(arguments: Import, settings: &Settings) -> Result<(), ImportError> {
    let source = source(&arguments.source)?;
    let name = name(&source, arguments.name)?;
    let watch = Arc::new(Watch::default());
    let importing = rootfs::import(&source, &name, arguments.force, settings, &watch);
    let (folder, unpacked) = watched(importing, &watch).await?;
    let left_out = match unpacked.left_out {
        0 => String::new(),
        count => format!(", {count} devices and the like left out"),
    };
    print(&format!("{}: {} entries{left_out}\n", folder.display(), unpacked.entries));
    Ok(())
}

/// A file is a tarball, everything else the name of an image.
fn source(argument: &Path) -> Result<Source, ImportError> {
    let text = argument.to_string_lossy();
    let like_a_file = ["/", "./", "../"].iter().any(|start| text.starts_with(start))
        || [".tar", ".tar.gz", ".tgz"].iter().any(|end| text.ends_with(end));
    if like_a_file && argument.is_dir() {
        let problem = "it is a folder. A language can use it as it is: set its root to the folder's absolute path";
        return Err(ImportError::Refused { what: text.into(), problem: problem.into() });
    }
    if text == STDIN || argument.is_file() || like_a_file {
        return Ok(Source::Tarball(argument.to_owned()));
    }
    Ok(Source::Image(text.into()))
}

fn name(source: &Source, wish: Option<String>) -> Result<String, ImportError> {
    let name = match (source, wish) {
        (_, Some(name)) => name,
        (Source::Image(image), None) => image.clone(),
        (Source::Tarball(path), None) => {
            let file = path.file_name().filter(|_| path.as_os_str() != STDIN).unwrap_or_default().to_string_lossy();
            let ends = [".tar.gz", ".tgz", ".tar"];
            ends.iter().find_map(|end| file.strip_suffix(end)).unwrap_or(&file).to_owned()
        }
    };
    if name.is_empty() {
        let problem = "it has no name by which a root could be called. Say --name IMAGE";
        return Err(ImportError::Refused { what: "the archive".into(), problem: problem.into() });
    }
    Ok(name)
}

/// Shows on a terminal how far it is, and ends it in good order on a signal; on a second one, at once.
async fn watched<T>(importing: impl Future<Output = Result<T, ImportError>>, watch: &Watch) -> Result<T, ImportError> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(
        ProgressStyle::with_template("{spinner} {bytes} {elapsed}").unwrap_or(ProgressStyle::default_spinner()),
    );
    let mut importing = std::pin::pin!(importing);
    let listen = |kind| signal(kind).map_err(|source| ImportError::Unreadable { what: "signals".into(), source });
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            done = &mut importing => {
                bar.finish_and_clear();
                return done;
            }
            _ = tick.tick() => {
                bar.set_position(watch.bytes.load(Ordering::Relaxed));
                bar.tick();
            }
            _ = interrupt.recv() => stop(watch),
            _ = terminate.recv() => stop(watch),
        }
    }
}

fn stop(watch: &Watch) {
    if watch.stop.is_cancelled() {
        // What is left is removed by the next import.
        std::process::exit(INTERRUPTED.into());
    }
    watch.stop.cancel();
}

fn list(arguments: &List, settings: &Settings) -> Result<(), ImportError> {
    let roots = rootfs::list(&settings.sandbox.native)?;
    if arguments.json {
        let entries: Vec<_> = roots
            .iter()
            .map(|root| serde_json::json!({ "name": root.name, "origin": root.origin, "folder": root.folder }))
            .collect();
        print(&format!("{:#}\n", serde_json::Value::from(entries)));
        return Ok(());
    }
    let width = roots.iter().map(|root| root.name.len()).max().unwrap_or_default();
    for root in &roots {
        // A path may hold anything; one root is one line.
        print(&format!("{:width$}  from {}\n", root.name, root.origin.escape_debug()));
    }
    if roots.is_empty() {
        eprintln!("tribunal-worker: nothing was imported to {}", settings.sandbox.native.roots.display());
    }
    Ok(())
}

/// Whoever read it may be gone.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(argument: &str, wish: Option<&str>) -> Result<String, String> {
        let source = source(Path::new(argument)).map_err(|error| error.to_string())?;
        name(&source, wish.map(str::to_owned)).map_err(|error| error.to_string())
    }

    #[test]
    fn images_and_files_are_told_apart() {
        let image = |text: &str| matches!(source(Path::new(text)), Ok(Source::Image(_)));
        assert!(image("python:3.11-slim") && image("registry.example.org:5000/a/b@sha256:0"));
        assert!(!image("-") && !image("./x") && !image("/x") && !image("x.tar") && !image("x.tgz"));
        assert!(named("/usr", None).unwrap_err().contains("is a folder"));
    }

    #[test]
    fn a_tarball_is_named_after_its_file_unless_told() {
        assert_eq!(named("/a/debian-12.tar.gz", None).unwrap(), "debian-12");
        assert_eq!(named("/a/debian-12.tar.gz", Some("gcc:12")).unwrap(), "gcc:12");
        assert_eq!(named("gcc:12", None).unwrap(), "gcc:12");
        assert!(named("-", None).unwrap_err().contains("--name"));
        assert!(named("-", Some("")).unwrap_err().contains("--name"));
    }
}
