//! Vector clocks: what each coroutine knows of what the others have done.
//!
//! Executions here are sequentially consistent, so a load never sees an old value. What a weak ordering would allow on
//! hardware is found another way: the happens-before relation of the C++ memory model is kept beside the values, and
//! whoever uses plain data asks whether its writing *happens before* the use ([`crate::Published`]).
//!
//! Per coroutine: its clock; what relaxed loads saw, which an acquire fence adds; and its clock at the last release
//! fence, which relaxed stores publish. Per location: what was released into it; a read-modify-write continues what was
//! there, a plain store does not. SeqCst is acquire and release; a wake-up orders nothing.
//!
//! # Example
//! A flag that is raised with too weak an ordering is found although the values are right.
//! ```
//! use raddle_machine::{Atomic, Machine, Ordering};
//! use raddle_sim::{ByChance, Controlled, Options, Outcome, Published, run, start};
//! use std::rc::Rc;
//! let found = |raise| (0..50).any(|seed| {
//!     let over = run(&Options::default(), ByChance::new(seed), || {
//!         let data = Rc::new((Published::new(0), <Controlled as Machine>::Atomic::<u32>::new(0)));
//!         let theirs = data.clone();
//!         start("writer", move || {
//!             data.0.with_mut(|value| *value = 42);
//!             data.1.store(1, raise);
//!         });
//!         start("reader", move || {
//!             if theirs.1.load(Ordering::Acquire) == 1 {
//!                 theirs.0.with(|&value| assert_eq!(value, 42));
//!             }
//!         });
//!     });
//!     matches!(over.outcome, Outcome::Panicked { message, .. } if message.contains("unordered"))
//! });
//! assert!(found(Ordering::Relaxed) && !found(Ordering::Release));
//! ```

use raddle_machine::Ordering;

/// How far each coroutine had come: a point of an execution, as one of its coroutines knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<u32>);

impl Clock {
    /// Learns all that `other` knows.
    pub fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// True if whoever stands at `other` knows all that was known here: this point happens before that one, or is it.
    pub fn happens_before(&self, other: &Clock) -> bool {
        self.0.iter().enumerate().all(|(core, &time)| time <= other.of(core))
    }

    /// How far coroutine `core` had come, as known here.
    pub fn of(&self, core: usize) -> u32 {
        self.0.get(core).copied().unwrap_or(0)
    }

    pub(crate) fn tick(&mut self, core: usize) {
        if self.0.len() <= core {
            self.0.resize(core + 1, 0);
        }
        self.0[core] += 1;
    }
}

/// What one coroutine knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    pub clock: Clock,
    /// What its relaxed loads saw, for the next acquire fence.
    seen: Clock,
    /// Its clock at the last release fence, for relaxed stores.
    fenced: Clock,
}

fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl Knowledge {
    /// What a coroutine begins with that is started by one that knows `clock`.
    pub fn after(clock: &Clock) -> Self {
        Self { clock: clock.clone(), ..Self::default() }
    }

    /// A load from a location with this released into it.
    pub fn load(&mut self, released: &Clock, order: Ordering) {
        if acquires(order) {
            self.clock.join(released);
        } else {
            self.seen.join(released);
        }
    }

    /// A store; with `continues`, as part of a read-modify-write.
    pub fn store(&self, released: &mut Clock, order: Ordering, continues: bool) {
        if !continues {
            released.0.clear();
        }
        released.join(if releases(order) { &self.clock } else { &self.fenced });
    }

    /// A fence.
    pub fn fence(&mut self, order: Ordering) {
        if acquires(order) {
            self.clock.join(&self.seen);
        }
        if releases(order) {
            self.fenced = self.clock.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{Acquire, Relaxed, Release};

    fn pair() -> (Knowledge, Knowledge) {
        let (mut a, mut b) = (Knowledge::default(), Knowledge::default());
        a.clock.tick(0);
        b.clock.tick(1);
        (a, b)
    }

    /// Whether b, after loading what a stored, knows what a knew.
    fn passed(store: Ordering, load: Ordering, fence_a: Option<Ordering>, fence_b: Option<Ordering>) -> bool {
        let (mut a, mut b) = pair();
        let (known, mut location) = (a.clock.clone(), Clock::default());
        fence_a.into_iter().for_each(|order| a.fence(order));
        a.store(&mut location, store, false);
        b.load(&location, load);
        fence_b.into_iter().for_each(|order| b.fence(order));
        known.happens_before(&b.clock)
    }

    #[test]
    fn both_ends_must_be_ordered_by_themselves_or_by_fences() {
        assert!(passed(Release, Acquire, None, None));
        assert!(passed(Relaxed, Acquire, Some(Release), None));
        assert!(passed(Release, Relaxed, None, Some(Acquire)));
        assert!(passed(Relaxed, Relaxed, Some(Ordering::SeqCst), Some(Ordering::SeqCst)));
        assert!(!passed(Relaxed, Acquire, None, None));
        assert!(!passed(Release, Relaxed, None, None));
        assert!(!passed(Relaxed, Relaxed, Some(Release), None));
        assert!(!passed(Relaxed, Relaxed, None, Some(Acquire)));
        assert!(!passed(Relaxed, Relaxed, Some(Acquire), Some(Release)), "the wrong way round");
    }

    #[test]
    fn a_read_modify_write_continues_a_release_and_a_store_ends_it() {
        for continues in [true, false] {
            let (a, mut b) = pair();
            let mut location = Clock::default();
            a.store(&mut location, Release, false);
            b.store(&mut location, Relaxed, continues);
            b.load(&location, Acquire);
            assert_eq!(a.clock.happens_before(&b.clock), continues);
        }
    }
}
