//! `cargo xtask bench`: the release build of `raddle bench`, which builds the programs that it measures.

use crate::shell::{self, Outcome, cargo};

/// Builds `raddle` and runs `raddle bench` with `args`.
pub fn run(args: &[String]) -> Outcome {
    shell::run(cargo(&["run", "--release", "-p", "raddle-cli", "--", "bench"]).args(args))
}
