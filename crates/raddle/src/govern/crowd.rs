//! Whether a pool goes on with fewer processors: the census of a window, and what [`raddle_scheduler::govern::crowd`]
//! makes of it.

mod census;

use crate::carry::pool::Shared;
use census::Census;
use raddle_scheduler::govern::crowd::{Choice, Window};

/// A window.
const WINDOW_NS: u64 = 100_000_000;
/// Between a change and the first window that counts.
const SETTLE_NS: u64 = 10_000_000;
/// What the monitor knows of a pool's crowd.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    choice: Choice,
    /// How many processors that chose.
    chosen: Option<usize>,
    census: Census,
    /// The number has just changed: when the next window may begin.
    settled: Option<u64>,
}

impl Crowd {
    /// One look at a pool that may have `all` processors: how many are to take part.
    pub fn decide(&mut self, pool: &'static Shared, all: usize, now: u64) -> usize {
        self.choose(pool, all, now).unwrap_or(all).min(all)
    }

    fn choose(&mut self, pool: &'static Shared, all: usize, now: u64) -> Option<usize> {
        if let Some(at) = self.settled {
            if now >= at {
                self.settled = None;
                self.census.end(pool, now);
            }
            return self.chosen;
        }
        self.census.sample(pool);
        let elapsed = self.census.age(now);
        if elapsed >= WINDOW_NS && all > 1 {
            let window = self.census.end(pool, now);
            // One that lasted much longer tells of a monitor that slept, or was held up.
            if let Some(window) = window.filter(|_| elapsed < 3 * WINDOW_NS) {
                let before = self.chosen.replace(self.choice.after(&window, all));
                self.settled = (self.chosen != before).then_some(now + SETTLE_NS);
            }
        }
        self.chosen
    }

    /// When to look again though all processors sleep, since event loops are apart.
    pub fn next_look(&self, now: u64) -> u64 {
        let soon = self.choice.is_in_trial() || self.census.loops_were_busy();
        self.settled.unwrap_or(now + if soon { WINDOW_NS } else { 10 * WINDOW_NS })
    }
}
