//! `cargo xtask preempt`: threads give way to a timer a million times in each program, in the midst of allocation,
//! streams, sorting, jumps, handlers and exceptions.
//!
//! A campaign, not a part of `ci`, which runs the same for a moment; with the optimised library, as users run it.
//! Inside the C library no thread gives way, so the share of their time that the programs spend there decides how long
//! it takes: in a second of processor time a program gives way some 800 to 2,000 times.

use crate::shell::{self, Failure, Outcome, cargo};

/// The command: how often the threads of each program give way, and how many processes run at once.
pub fn run(arguments: &[String]) -> Outcome {
    let (mut times, mut jobs) = ("1000000", "2");
    let mut rest = arguments;
    while let [option, value, others @ ..] = rest {
        match option.as_str() {
            "--times" if value.parse::<u64>().is_ok() => times = value,
            "--jobs" if value.parse::<u64>().is_ok_and(|jobs| jobs > 0) => jobs = value,
            _ => break,
        }
        rest = others;
    }
    if !rest.is_empty() {
        return Err(Failure::usage("preempt takes --times N and --jobs N"));
    }
    let mut tests =
        cargo(&["test", "--release", "-p", "raddle-posix", "--test", "preempt", "as_often", "--", "--nocapture"]);
    tests.env("RUST_BACKTRACE", "0").env("RADDLE_PREEMPTIONS", times).env("RADDLE_JOBS", jobs);
    shell::run(&mut tests)
}
