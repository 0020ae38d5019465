//! The word of a barrier: `round:32 | come:32`.
//!
//! Source: our own.
//!
//! Who comes counts itself in; the last one of a round begins the next round with nobody in it, in the same exchange,
//! and wakes the others, which sleep while the round is the one that they came to.
//!
//! Invariants:
//! - I1: nobody leaves a round before all have come to it, and exactly one of each round is told that it was the last.
//! - I2: what each did before it came is seen by all who leave.
//! - I3: one that is late to fall asleep sees that the round has changed. (A round that comes again after 2^32 others
//!   while one goes to sleep is taken for the old one.)
//! - I4: a thread's last access is its leave-taking from [`Visitors`], for which whoever destroys the barrier waits.
//!
//! Progress: coming is lock-free; the rest waits for those who have not come.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.barrier` | who comes | who comes last, and who leaves |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::{Sleepers, barrier::Rounds, visitors::Visitors};
//! struct Nobody;
//! impl Sleepers for Nobody {
//!     fn wake(&self, _: usize, _: usize) -> usize {
//!         0
//!     }
//!     fn wake_each(&self, _: usize, _: usize) {}
//! }
//! let (rounds, visitors) = (Rounds::<raddle_machine::Real>::default(), Visitors::default());
//! assert!(rounds.pass(&visitors, 1, |_, _| unreachable!("it is the last one"), &Nobody));
//! ```
#![forbid(unsafe_code)]

use super::visitors::Visitors;
use super::{HIGH_HALF, Sleepers};
use raddle_machine::{Atomic, Machine, Ordering};

const ROUND: u64 = 1 << 32;
const COME: u64 = ROUND - 1;

/// See the module.
#[repr(transparent)]
pub struct Rounds<M: Machine>(M::Atomic<u64>);

impl<M: Machine> Default for Rounds<M> {
    fn default() -> Self {
        Self(M::Atomic::new(0))
    }
}

impl<M: Machine> Rounds<M> {
    /// The word, on whose high half those who wait sleep.
    #[inline(always)]
    pub fn word(&self) -> &M::Atomic<u64> {
        &self.0
    }

    /// Waits until `count` have come. True for the last one of them. `sleep` sleeps, under the name of the high half,
    /// while that is as given.
    pub fn pass(
        &self,
        visitors: &Visitors<M>,
        count: u32,
        mut sleep: impl FnMut(&Self, u32),
        sleepers: &impl Sleepers,
    ) -> bool {
        visitors.arrive();
        let mut state = self.0.load(Ordering::Relaxed);
        let (round, last) = loop {
            let last = (state & COME) + 1 == u64::from(count);
            let new = if last { (state & !COME).wrapping_add(ROUND) } else { state + 1 };
            // Ordering[words.barrier]: AcqRel. Pairs with itself and the load below. Makes visible: what all did before
            // they came.
            match self.0.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break ((state >> 32) as u32, last),
                Err(now) => state = now,
            }
        };
        if last {
            sleepers.wake(std::ptr::from_ref(self).addr() + HIGH_HALF, usize::MAX);
        } else {
            // Ordering[words.barrier]: Acquire. Pairs with the exchange that began the next round. Makes visible: what
            // all did before they came.
            while (self.0.load(Ordering::Acquire) >> 32) as u32 == round {
                sleep(self, round);
            }
        }
        visitors.leave(sleepers);
        last
    }
}
