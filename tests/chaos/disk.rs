//! A file system so small that it can be filled up.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZE_MB: u64 = 48;

/// Unmounted when dropped.
pub struct SmallDisk {
    mount: PathBuf,
}

impl SmallDisk {
    /// In a folder that exists.
    pub fn mount(folder: &Path) -> Self {
        let (image, mount) = (folder.join("disk.image"), folder.join("disk"));
        let file = File::create(&image).expect("a file in a folder of ours");
        file.set_len(SIZE_MB << 20).expect("a sparse file");
        std::fs::create_dir(&mount).expect("a folder in a folder of ours");
        run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount));
        Self { mount }
    }

    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Leaves about `spare_kb`: a disk may have room for a source and none for a program.
    pub fn fill(&self, spare_kb: usize) {
        let mut ballast = File::create(self.ballast()).expect("a file on the small disk");
        let block = [0; 4096];
        // Until there is no more room.
        while ballast.write_all(&block).is_ok() {}
        let length = ballast.metadata().expect("an open file").len();
        let _ = ballast.set_len(length.saturating_sub(spare_kb as u64 * 1024));
    }

    pub fn free(&self) {
        // It may never have been filled.
        let _ = std::fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.mount.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever is still in it must not keep us from going on.
        let _ = Command::new("umount").arg("--lazy").arg(&self.mount).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
