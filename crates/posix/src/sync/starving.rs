//! Threads that come too late for a lock again and again (decision 0033).
//!
//! A thread that gives way at a quantum check often does so while it holds the lock that it takes again and again:
//! those that wait run only then, and each comes too late. One that has waited for a quantum and is too late again says
//! so in the lock: the next unlocker leaves the lock for whom it wakes, and a locker that comes by gives way first.

use raddle::drop_in::preemption;
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a thread waits for a lock.
#[derive(Default)]
pub(super) struct Patience {
    /// When it slept first.
    since: Option<u64>,
}

impl Patience {
    /// The thread is about to sleep, for the first time or since it was too late.
    pub fn sleeps(&mut self, starved: &AtomicU32) {
        let time = raddle::drop_in::now();
        if time.saturating_sub(*self.since.get_or_insert(time)) >= preemption::of_caller() {
            // A hint: an unlocker that does not see it yet sees it the next time.
            starved.store(1, Ordering::Relaxed);
        }
    }
}

/// Whether the unlocker, who still holds the lock, leaves it for whom it wakes.
pub(super) fn leaves(starved: &AtomicU32) -> bool {
    let leaves = starved.load(Ordering::Relaxed) != 0;
    if leaves {
        starved.store(0, Ordering::Relaxed);
    }
    leaves
}
