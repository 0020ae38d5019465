//! `cargo xtask preempt`: threads give way to a timer a million times in each program, in the midst of allocation,
//! streams, sorting, jumps, handlers and exceptions.
//!
//! A campaign, not a part of `ci`, which runs the same for a moment.

use crate::shell::{self, Outcome, cargo};

const TIMES: &str = "1000000";

/// The command: how often the threads of each program give way.
pub fn run(arguments: &[String]) -> Outcome {
    let times = match arguments {
        [] => TIMES,
        [option, times] if option == "--times" && times.parse::<u64>().is_ok() => times,
        _ => return Err(shell::Failure::usage("preempt takes --times N")),
    };
    let mut tests = cargo(&["test", "-p", "raddle-posix", "--test", "preempt", "as_often", "--", "--nocapture"]);
    shell::run(tests.env("RUST_BACKTRACE", "0").env("RADDLE_PREEMPTIONS", times))
}
