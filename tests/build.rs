//! Makes a table of the hostile programs, so that a new one is a new file and nothing else.

use std::fmt::Write;
use std::path::{Path, PathBuf};

const PROGRAMS: &str = "suite/programs";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={PROGRAMS}");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join(PROGRAMS);
    let mut files = Vec::new();
    for folder in entries(&root)? {
        println!("cargo::rerun-if-changed={}", folder.display());
        files.extend(entries(&folder)?);
    }
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("found below it").display();
        let _ = writeln!(table, "    ({:?}, include_str!({file:?})),", name.to_string());
    }
    table += "]\n";
    let output = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo")).join("programs.rs");
    std::fs::write(output, table)
}

fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}
