//! Quanta: a thread that has had its core for so long gives way where it looks, as a program with quantum checks does.
//!
//! What a look costs is the program's to say; here a look takes no time.
//!
//! # Example
//! ```
//! use raddle_sim::workloads::Workload;
//! let matrix = Workload::find("matrix").unwrap();
//! assert_eq!(matrix.arguments("t=9:quantum=1k").unwrap().of("quantum"), 1_000);
//! ```

use super::{Simulated, compute, here, me};
use crate::execution::now;
use raddle_scheduler::Runtime;

/// Gives way if the calling thread has had its core for so many nanoseconds; 0: never.
pub fn look_at_quantum(quantum: u64) {
    if quantum > 0 && used() >= quantum {
        Simulated::yield_now();
    }
}

/// Computes for so many nanoseconds; each time that the quantum is over, the thread gives way.
pub fn compute_within(nanoseconds: u64, quantum: u64) {
    let mut left = nanoseconds;
    loop {
        look_at_quantum(quantum);
        let part = if quantum == 0 { left } else { left.min(quantum - used().min(quantum - 1)) };
        compute(part);
        left -= part;
        if left == 0 {
            return;
        }
    }
}

fn used() -> u64 {
    now() - here().cores[me()].turn.get()
}
