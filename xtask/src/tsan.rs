//! `cargo xtask tsan`: data races in queues and scheduler, as ThreadSanitizer sees them.

use crate::model::CRATES;
use crate::shell::{self, Failure, Outcome, cargo, root};

/// The target that ThreadSanitizer is built for; naming it keeps the flags away from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests of both packages with an empty list of suppressions; further arguments go to the test programs.
///
/// The standard library is not instrumented (that needs its sources), so a report can name it falsely; slots of our queues
/// are atomic words, so that our own code needs no suppression. ThreadSanitizer does not understand fences: what stands on
/// one is left to the interleaving tests.
pub fn run(args: &[String]) -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Failure::usage(format!("ThreadSanitizer is set up for {TARGET} only")));
    }
    let suppressions = root().join("xtask/tsan.supp");
    for (package, _) in CRATES {
        let mut test = cargo(&["test", "-p", package, "--lib", "--tests", "--target", TARGET, "--"]);
        test.args(args)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer")
            .env("TSAN_OPTIONS", format!("halt_on_error=1 suppressions={}", suppressions.display()));
        shell::run(&mut test)?;
    }
    Ok(())
}
