//! What is so on one processor while nobody takes that: the monitor takes it from a kernel thread that the machine
//! keeps from its core for long, or that waits for a page, and others run meanwhile.

use std::time::{Duration, Instant};

/// No run, on however busy a machine, comes near.
const UNDISTURBED_WITHIN: Duration = Duration::from_secs(300);

/// What `run` gives when no processor of the process was taken meanwhile: it is made again until then.
pub fn undisturbed<T>(mut run: impl FnMut() -> T) -> T {
    let taken = || {
        let stats = raddle::info::stats();
        stats.takeovers + stats.publications + stats.slices
    };
    let begun = Instant::now();
    for runs in 1.. {
        let before = taken();
        let value = run();
        if taken() == before {
            return value;
        }
        assert!(begun.elapsed() < UNDISTURBED_WITHIN, "a processor was taken in each of {runs} runs");
    }
    unreachable!("a run is made")
}
