//! `cargo xtask miri`: undefined behaviour in queues and scheduler.

use crate::model::CRATES;
use crate::shell::{self, Failure, Outcome};
use std::process::Command;

/// Runs the tests of both packages under Miri; further arguments go to the test programs.
pub fn run(args: &[String]) -> Outcome {
    let mut probe = Command::new("cargo");
    probe.args(["+nightly", "miri", "--version"]).current_dir(shell::root());
    if let Err(failure) = shell::output(&mut probe) {
        return Err(Failure::usage(format!(
            "Miri is missing: it needs a nightly toolchain with the components miri and rust-src \
             (rustup toolchain install nightly --component miri,rust-src). {failure}"
        )));
    }
    for (package, _) in CRATES {
        // Isolation is off for the generated tests, which look for their file of past failures; records of kernel
        // threads are leaked, since a stale waker may read them for ever.
        let mut test = Command::new("cargo");
        test.args(["+nightly", "miri", "test", "-p", package, "--"]).args(args).current_dir(shell::root());
        shell::run(
            test.env("PROPTEST_CASES", "8")
                .env("MIRIFLAGS", "-Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-ignore-leaks"),
        )?;
    }
    Ok(())
}
