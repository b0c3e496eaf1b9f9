//! Images and tarballs become roots of the native sandbox, with their environment, and never half of one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tribunal_tests::{Services, binary, eventually};

/// An image of its own, and a folder for roots.
struct Place {
    services: Services,
    folder: TempDir,
    image: String,
}

impl Place {
    /// The image's only tool is found only through its own PATH.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tools = folder.path().join("root/tools");
        std::fs::create_dir_all(folder.path().join("root/bin")).unwrap();
        std::fs::create_dir(&tools).unwrap();
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
        std::fs::copy(busybox.unwrap(), tools.join("busybox")).unwrap();
        let image = format!("tribunal-e2e/rootfs:{}", uuid::Uuid::new_v4().simple());
        let place = Self { services: Services::from_environment(), folder, image };

        let made = Command::new("tar").arg("-cf").arg(place.tar()).arg("-C").arg(place.path("root")).arg(".").status();
        assert!(made.unwrap().success());
        let tar = place.tar().display().to_string();
        place.docker(&["import", "--change", "ENV PATH=/tools:/bin GREETING=hello", &tar, &place.image]);

        let settings = format!(
            "sandbox.workspace_root = '{}'\nsandbox.native.roots = '{}'\nsandbox.docker.host = '{}'\n\
             sandbox.docker.pull_policy = 'never'\n[languages.tiny]\nroot = 'image'\nimage = '{}'\n\
             source = 'solution.tiny'\nrun = ['busybox', 'sh', '{{source}}']\nversion = ['busybox']\n",
            place.path("work").display(),
            place.path("roots").display(),
            place.services.docker,
            place.image,
        );
        std::fs::write(place.path("tribunal.toml"), settings).unwrap();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn tar(&self) -> PathBuf {
        self.path("root.tar")
    }

    fn docker(&self, arguments: &[&str]) -> String {
        let output = Command::new("docker").env("DOCKER_HOST", &self.services.docker).args(arguments).output().unwrap();
        assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn rootfs(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("tribunal-worker"));
        command.arg("--config").arg(self.path("tribunal.toml")).arg("rootfs").args(arguments);
        command
    }

    /// Exit code, stdout and stderr.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.rootfs(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    /// What a program in the imported root prints.
    fn try_out(&self, code: &str) -> (i32, String, String) {
        let source = self.path("x.tiny");
        std::fs::write(&source, code).unwrap();
        let mut command = Command::new(binary("tribunal"));
        let output = command.arg("--config").arg(self.path("tribunal.toml")).arg("run").arg(source).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn roots(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("roots")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("docker").env("DOCKER_HOST", &self.services.docker).args(["rmi", &self.image]).output();
    }
}

#[test]
fn an_image_is_imported_once_and_programs_run_on_it() {
    let place = Place::new();
    let (code, _, stderr) = place.try_out("echo $GREETING");
    let remedy = format!("tribunal-worker rootfs import {}", place.image);
    assert!(code == 3 && stderr.contains(&remedy), "{stderr}");

    let (code, stdout, stderr) = place.run(&["import", &place.image]);
    assert_eq!(code, 0, "{stderr}");
    let name = place.image.replace(['/', ':'], "_");
    assert!(stdout.contains(&name), "{stdout}");
    let containers = place.docker(&["ps", "--all", "--quiet", "--filter", &format!("ancestor={}", place.image)]);
    assert_eq!(containers, "", "the container is gone");
    assert_eq!(place.roots(), [name.as_str()]);

    let (code, stdout, stderr) = place.try_out("echo $GREETING $PATH");
    assert_eq!((code, stdout.as_str()), (0, "hello /tools:/bin\n"), "{stderr}");

    let (code, _, stderr) = place.run(&["import", &place.image]);
    assert!(code == 2 && stderr.contains("--force"), "{stderr}");
    assert_eq!(place.run(&["import", "--force", &place.image]).0, 0);
    assert_eq!(place.roots(), [name.as_str()]);

    let listed: Vec<serde_json::Value> = serde_json::from_str(&place.run(&["ls", "--json"]).1).unwrap();
    assert_eq!((listed.len(), &listed[0]["origin"]), (1, &place.image.clone().into()));
}

#[test]
fn a_tarball_stands_for_an_image() {
    let place = Place::new();
    let tar = place.tar().display().to_string();
    let (code, _, stderr) = place.run(&["import", &tar, "--name", &place.image]);
    assert_eq!(code, 0, "{stderr}");
    // A tarball has no environment, and its tool is not where tools are by default.
    let (code, _, stderr) = place.try_out("true");
    assert!(code == 3 && stderr.contains("busybox, which tiny needs, is not in "), "{stderr}");
}

#[test]
fn what_cannot_be_imported_is_named_and_leaves_nothing() {
    let place = Place::new();
    let saved = place.path("saved.tar").display().to_string();
    place.docker(&["save", "--output", &saved, &place.image]);
    let absent = place.path("absent.tar").display().to_string();
    for (source, code, said) in [
        (saved.as_str(), 2, "docker export"),
        (&absent, 3, "No such file"),
        ("tribunal-e2e/absent:1", 3, "docker pull tribunal-e2e/absent:1"),
        ("-", 2, "--name"),
    ] {
        let (found, _, stderr) = place.run(&["import", source]);
        assert!(found == code && stderr.contains(said), "{source}: {found} {stderr}");
    }
    assert!(place.roots().is_empty(), "{:?}", place.roots());
}

#[test]
fn an_import_that_is_interrupted_leaves_nothing() {
    let place = Place::new();
    let start = || {
        let mut command = place.rootfs(&["import", "-", "--name", "x"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let tar = std::fs::read(place.tar()).unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&tar[..tar.len() / 2]).unwrap();
        eventually("something is unpacked", || place.roots().iter().any(|name| name.starts_with(".importing-")));
        (child, stdin)
    };
    let kill = |child: &Child, signal: &str| {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    };

    let (child, mut stdin) = start();
    kill(&child, "-INT");
    std::thread::sleep(std::time::Duration::from_millis(200));
    // It stops at the next bytes.
    let _ = stdin.write_all(&[0; 4096]);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.roots().is_empty(), "{:?}", place.roots());

    // Killed, it cannot clear up; the next one does.
    let (mut child, _stdin) = start();
    kill(&child, "-KILL");
    child.wait().unwrap();
    assert_eq!(place.roots().len(), 1);
    assert_eq!(place.run(&["import", place.tar().to_str().unwrap(), "--name", "x"]).0, 0);
    assert_eq!(place.roots(), ["x"]);
}
