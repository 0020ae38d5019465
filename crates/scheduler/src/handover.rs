//! Those who wait for something that is about to end go on with their waits elsewhere, each before it ends.
//!
//! Source: this project.
//!
//! Roles: *enders*, of whom one at a time ends one thing, named by a number; *comers*, any number, whose waits have
//! been ended since the thing is about to end. A comer says under a name of its own that it comes, begins to wait
//! elsewhere, and the ender looks whether it is there already. One comer at a time.
//!
//! | `ending` | set by | left by |
//! |---|---|---|
//! | 0 | the ender | an ender: [`Handover::begin`] |
//! | number + 1 | the ender | that ender: [`Handover::end`] |
//! | `LATE`: nobody may come any more | that ender | that ender |
//!
//! | `coming` | set by | left by |
//! |---|---|---|
//! | 0 | ender, comer | a comer that comes |
//! | its name | that comer | the ender, having found it there or out of time; the comer, at its wait's end or late |
//! | `GONE` | that comer, whose wait has ended | the ender; the next one, if this one had no more time |
//!
//! Invariant, with events E the ender writes `LATE`, L it looks at `coming` for the last time, C a comer writes its
//! name, A it asks whether the thing is still about to end: who begins its wait elsewhere does so before the thing has
//! ended, unless the ender had no more time. Proof: it begins if A misses E; forbidden is that L misses C then, and a
//! fence stands between E and L, another between C and A. If L sees C, the ender waits for that comer.
//!
//! Progress: wait-free but for [`Handover::end`] and [`Handover::waits_on`], which repeat what is passed in while they
//! wait for who comes. No memory is reclaimed.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `handover.late` | [`Handover::end`], between E and L | [`Handover::waits_on`], between C and A |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::handover::Handover;
//! let handover = Handover::<Real>::new();
//! assert!(handover.begin(7));
//! assert_eq!(handover.waits_on(|number| number == 7, 1, || {}, || "waited elsewhere"), Some("waited elsewhere"));
//! assert!(handover.end(1, |_| true, || true));
//! // Too late.
//! assert_eq!(handover.waits_on(|number| number == 7, 1, || {}, || ()), None);
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

const LATE: u32 = u32::MAX;
const GONE: u32 = u32::MAX;

/// What is about to end, and who comes.
#[derive(Debug)]
pub struct Handover<M: Machine> {
    ending: M::Atomic<u32>,
    coming: M::Atomic<u32>,
}

impl Handover<Real> {
    /// Nothing is about to end, in a constant.
    pub const fn constant() -> Self {
        Self { ending: RealAtomic::<u32>::constant(0), coming: RealAtomic::<u32>::constant(0) }
    }
}

impl<M: Machine> Default for Handover<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> Handover<M> {
    /// Nothing is about to end.
    pub fn new() -> Self {
        Self { ending: M::Atomic::new(0), coming: M::Atomic::new(0) }
    }

    /// What has `number`, which is at most `u32::MAX - 2`, is about to end. False if something else is: not yet.
    pub fn begin(&self, number: u32) -> bool {
        debug_assert!(number < LATE - 1);
        // Relaxed: the word carries no data.
        self.ending.compare_exchange(0, number + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// For who has begun, and has ended the waits of so many comers: waits until all are elsewhere, and whoever else
    /// came meanwhile. `is_there` answers so for a name; `rest` is called between two looks, and says whether there is
    /// time for more. False if there was not: somebody may be late. From now on something else may end.
    pub fn end(&self, comers: usize, is_there: impl Fn(u32) -> bool, mut rest: impl FnMut() -> bool) -> bool {
        let all_came = (0..comers).all(|_| self.one_came(false, &is_there, &mut rest));
        // Relaxed: ordered by the fence.
        self.ending.store(LATE, Ordering::Relaxed);
        // Ordering[handover.late]: SeqCst. Pairs with the fence in `waits_on` (proof above).
        M::fence(Ordering::SeqCst);
        // One more, who was not counted.
        let is_last_there = all_came && self.one_came(true, &is_there, &mut rest);
        if !is_last_there {
            self.coming.swap(0, Ordering::Relaxed);
        }
        // Release: whoever begins next finds `coming` as it is left here.
        self.ending.store(0, Ordering::Release);
        is_last_there
    }

    /// Waits until one has come and is there, or, if it is `late`, nobody comes. False if there is no more time.
    fn one_came(&self, late: bool, is_there: &impl Fn(u32) -> bool, rest: &mut impl FnMut() -> bool) -> bool {
        loop {
            let name = self.coming.load(Ordering::Relaxed);
            let is_over = match name {
                0 if late => return true,
                0 => false,
                GONE => true,
                name => is_there(name),
            };
            // Relaxed: the word carries no data.
            if is_over && self.coming.compare_exchange(name, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return true;
            }
            if !rest() {
                return false;
            }
        }
    }

    /// For a comer, whose wait for what `is_one` tells of was ended: `wait` goes on with it elsewhere. `name`, which
    /// nobody else has, is neither 0 nor `u32::MAX`. `rest` is called while another one comes. `None` if nothing of
    /// that is about to end, or no longer.
    pub fn waits_on<T>(
        &self,
        is_one: impl Fn(u32) -> bool,
        name: u32,
        mut rest: impl FnMut(),
        wait: impl FnOnce() -> T,
    ) -> Option<T> {
        debug_assert!(name != 0 && name != GONE);
        let is_asked = || {
            let ending = self.ending.load(Ordering::Relaxed);
            ending != 0 && ending != LATE && is_one(ending - 1)
        };
        let change = |from, to| self.coming.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        loop {
            if !is_asked() {
                return None;
            }
            if change(0, name) {
                break;
            }
            rest();
        }
        // Ordering[handover.late]: SeqCst. Pairs with the fence in `end` (proof above).
        M::fence(Ordering::SeqCst);
        if !is_asked() {
            change(name, 0);
            return None;
        }
        let result = wait();
        change(name, GONE);
        Some(result)
    }
}
