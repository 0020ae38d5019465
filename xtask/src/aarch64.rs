//! `cargo xtask aarch64`: the tests of `crates/context` for the other architecture, cross-built and run by an emulator.
//!
//! The emulator runs user programs only: system calls are this machine's, memory is as strongly ordered as this
//! machine's. So it shows that the switch and the layout of thread-local storage are right there, not that orderings
//! are.

use crate::shell::{self, Failure, Outcome, cargo};
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where Debian's cross packages put the C library.
const ROOT: &str = "/usr/aarch64-linux-gnu";

/// Runs the tests; further arguments go to the test programs.
pub fn run(args: &[String]) -> Outcome {
    for tool in [LINKER, EMULATOR] {
        if !shell::in_path(tool) {
            return Err(Failure::usage(format!("`{tool}` is missing; `cargo xtask setup --all` installs it")));
        }
    }
    let libraries = shell::output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    if !std::path::Path::new(libraries.trim()).is_dir() {
        return Err(Failure::usage(format!(
            "the standard library for {TARGET} is missing: `rustup target add {TARGET}`"
        )));
    }
    let mut test = cargo(&["test", "--no-fail-fast", "-p", "raddle-context", "--tests", "--target", TARGET, "--"]);
    test.args(args)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {ROOT}"))
        // For tests that run themselves again, and for those that build libraries.
        .env("TEST_RUNNER", EMULATOR)
        .env("QEMU_LD_PREFIX", ROOT)
        .env("CC", LINKER);
    shell::run(&mut test)
}
