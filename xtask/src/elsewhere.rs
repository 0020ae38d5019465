//! `cargo xtask elsewhere`: tests of the runtime and the drop-in in the mode in which each thread that was suspended
//! goes on on another processor.
//!
//! A campaign, not a part of `ci`: it takes minutes.

use crate::shell::{self, Outcome, cargo};

/// Tests of the runtime that are run once more in the mode in which a thread that was suspended goes on on another
/// processor. Those whose subject is something else are left out: forks, memory, the code itself, which processors
/// there are.
const ELSEWHERE: [&str; 19] = [
    "blocking",
    "cancel_scopes",
    "cancelled",
    "delays",
    "foreign_code",
    "handing_over",
    "io",
    "joins",
    "moving",
    "own_policy",
    "policies",
    "priorities",
    "review_liveness",
    "review_resources",
    "review_soundness",
    "safe",
    "signals_deferred",
    "stages",
    "threads",
];

/// The command.
pub fn run() -> Outcome {
    let mut tests = cargo(&["test", "--no-fail-fast", "-p", "raddle"]);
    tests.args(ELSEWHERE.iter().flat_map(|name| ["--test", name]));
    shell::run(tests.env("RUST_BACKTRACE", "0").env("RADDLE_MIGRATE", "always"))?;
    let mut tests = cargo(&["test", "--no-fail-fast", "-p", "raddle-posix", "--test", "sync", "--test", "threads"]);
    shell::run(tests.env("RUST_BACKTRACE", "0").env("RADDLE_MIGRATE", "always"))
}
