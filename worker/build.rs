//! Builds `init/main.rs`, the first process of every container, as a static executable of its own.
//!
//! It is one file without dependencies, so the compiler is called directly; a second package would need a second cargo.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=init/main.rs");
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"));
    let status = Command::new(variable("RUSTC"))
        .args(["--edition=2024", "--crate-name=init", "--crate-type=bin", "-Dwarnings"])
        .args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols", "-Ctarget-feature=+crt-static"])
        .args(["--target", &variable("TARGET")])
        .args(["-o", &format!("{}/init", variable("OUT_DIR"))])
        .arg("init/main.rs")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "init/main.rs does not build");
}
