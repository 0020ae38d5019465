//! Sleeping.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! pool.run(|| {
//!     let start = std::time::Instant::now();
//!     raddle::sleep(std::time::Duration::from_millis(5));
//!     assert!(start.elapsed().as_millis() >= 5);
//! });
//! ```

use crate::carry::timers::deadline_after;
use raddle_machine::{Machine, Real};
use raddle_scheduler::Wake;
use raddle_scheduler::runtime::{Waited, wait_until};
use std::time::Duration;

/// As [`sleep`], in milliseconds. An old form that std has, too.
#[deprecated = "replaced by `sleep`, as in std"]
pub fn sleep_ms(milliseconds: u32) {
    sleep(Duration::from_millis(milliseconds.into()));
}

/// Blocks the calling thread for at least `duration`; its processor runs others meanwhile. Ends early when the thread
/// is cancelled. A million sleepers cost a heap entry each; where a thousand wait for points in time already, a
/// processor with nothing else to do may be late by a thousandth of `duration`, at most by a millisecond, to wake
/// several at once.
pub fn sleep(duration: Duration) {
    let deadline = deadline_after(duration);
    while Real::now() < deadline {
        crate::carry::note::note_wait("a point in time", 0, None);
        // SAFETY: published nowhere: the deadline and a cancellation end it.
        let waited = unsafe { wait_until::<crate::Host>(Some(deadline), true, |_, _| {}, || false) };
        if waited == Waited::Woken(Wake::Cancelled) {
            return;
        }
    }
}
