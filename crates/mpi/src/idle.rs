//! How long who tests for all sleeps when nothing ends.

use crate::giving_way;
use std::thread;
use std::time::{Duration, Instant};

/// Nothing has ended for so long when the leader first sleeps between two rounds. With 50 µs MPICH's tests of messages
/// of 32 MB took 9 s on a busy machine, with this 6 s, natively 2 to 4 s; ranks that share a core lose as much at each
/// turn.
pub const AWAKE: Duration = Duration::from_micros(1000);
/// The longest sleep where a round is short. With its end, and with what the runtime does meanwhile, it costs some
/// 100 to 300 µs of processor time: at 4 ms ten seconds cost a rank 0.14 to 0.18 s, at 32 ms on a busy machine 0.09 to
/// 0.13 s.
const LONGEST: Duration = Duration::from_millis(50);

/// How long nothing has ended.
#[derive(Default)]
pub struct Idle {
    since: Option<Instant>,
    /// The same while it must not sleep.
    needed_since: Option<Instant>,
    slept: bool,
}

impl Idle {
    /// After a round that began then, while tests are needed: whether nothing has ended for [`AWAKE`].
    pub fn needed_long(&mut self, began: Instant) -> bool {
        self.since = None;
        *self.needed_since.get_or_insert(began) + AWAKE <= began
    }

    /// Between two rounds, of which the last one began then: for how long to sleep, if it has not let others run.
    pub fn rest(&mut self, began: Instant, took: Duration) -> Option<Duration> {
        self.needed_since = None;
        let since = *self.since.get_or_insert(began);
        let idle = began + took - since;
        // Two rounds after each sleep.
        self.slept = idle >= AWAKE && !self.slept;
        if self.slept {
            return Some((idle / 4).min(LONGEST.max(200 * took)));
        }
        if idle >= AWAKE {
            giving_way::to_threads();
        } else {
            thread::yield_now();
        }
        None
    }
}
