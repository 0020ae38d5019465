//! `cargo xtask bench`: release binaries and peers, then `raddle bench`.

use crate::shell::{self, Outcome, cargo, in_path, root};
use std::process::Command;

/// Builds what `raddle bench` runs, then runs it with `args`. A peer whose compiler is absent is left to `raddle bench` to
/// name as missing.
pub fn run(args: &[String]) -> Outcome {
    shell::run(&mut cargo(&["build", "--release", "-p", "raddle-cli"]))?;
    if root().join("bench/peers/rust/Cargo.toml").is_file() {
        shell::run(&mut cargo(&["build", "--release", "-p", "raddle-bench-peers"]))?;
    }
    let go = root().join("bench/peers/go");
    if go.is_dir() && in_path("go") {
        shell::run(Command::new("go").args(["build", "-o", "bin/", "."]).current_dir(go))?;
    }
    shell::run(cargo(&["run", "--release", "-p", "raddle-cli", "--", "bench"]).args(args))
}
