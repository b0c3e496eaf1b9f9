//! What is run: the shortest program there is, static, so that it needs nothing of any root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::exit::Failure;

const SOURCE: &str = "int main(void) { return 0; }\n";

/// In a folder of its own, which is removed when dropped.
pub struct Program {
    folder: PathBuf,
    pub bytes: Vec<u8>,
}

impl Program {
    pub fn build() -> Result<Self, Failure> {
        let failed = |doing: &str, error: std::io::Error| Failure::Infrastructure(format!("cannot {doing}: {error}"));
        let folder = std::env::temp_dir().join(format!("tribunal-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| failed(&format!("make {}", folder.display()), error))?;
        let mut program = Self { folder, bytes: Vec::new() };
        let source = program.folder.join("program.c");
        std::fs::write(&source, SOURCE).map_err(|error| failed("write the program", error))?;

        let compiler = Command::new("cc").args(["-O2", "-static", "-o"]).arg(program.path()).arg(&source).output();
        let remedy = "Run `apt-get install gcc libc6-dev`";
        let compiled =
            compiler.map_err(|error| Failure::Infrastructure(format!("cannot run cc: {error}. {remedy}")))?;
        if !compiled.status.success() {
            let said = String::from_utf8_lossy(&compiled.stderr);
            return Err(Failure::Infrastructure(format!(
                "cc cannot compile a static program. {remedy}\n{}",
                said.trim()
            )));
        }
        program.bytes = std::fs::read(program.path()).map_err(|error| failed("read the program", error))?;
        Ok(program)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("program")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Why a command cannot be had, if it cannot.
pub fn installed(command: &str, remedy: &str) -> Result<(), String> {
    match Command::new(command).arg("--version").stdin(Stdio::null()).output() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!("not installed ({remedy})")),
        Err(error) => Err(format!("cannot be run: {error}")),
    }
}
