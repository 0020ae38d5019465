//! The libraries as they are shipped, for tests of this package and of others: cargo builds for a package's tests only
//! what they could link.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the packages' libraries, and returns the folder in which they lie.
pub fn built(packages: &[&str]) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // In a folder of its own: built alone they have other features, and cargo would put them over what the workspace's
    // other parts are linked with.
    let target = program.ancestors().nth(3).expect("a test program lies in target/PROFILE/deps").join("alone");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--manifest-path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml")).env("CARGO_TARGET_DIR", &target);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
    target.join("debug")
}
