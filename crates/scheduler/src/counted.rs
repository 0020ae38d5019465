//! Kernel threads that sleep until others wake them, counted: a dead-lock is one only if nobody else is awake.
//!
//! Source: our own.
//!
//! Roles: a *sleeper* with its token, *wakers*; each sleep is ended by one waker, whoever has claimed the wait.
//!
//! | token | set by | meaning |
//! |---|---|---|
//! | 0 | the sleeper | awake, or asleep and not counted: at a deadline it wakes by itself |
//! | [`WOKEN`] | a waker | it was woken |
//! | [`COUNTED`] | the sleeper, from 0 | it sleeps, and is in the count until it is woken |
//!
//! Invariants:
//! - I1: who was woken is in the count no more, even if it has not come up yet: it may be about to wake others. The
//!   waker's exchange finds [`COUNTED`], and takes it out; or it comes first, and the sleeper takes itself out again.
//! - I2: nobody is in the count twice, nor taken out twice: of the two exchanges of the token one is first.
//!
//! Progress: wait-free. Tokens are in type-stable records.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `counted.token` | [`Sleepers::wake`]: what was done before; [`Sleepers::sleeps`]: that it is counted | the sleeper's look; the waker's exchange |
//!
//! # Example
//! ```
//! use raddle_machine::{Atomic, RealAtomic};
//! use raddle_scheduler::counted::{COUNTED, Sleepers};
//! static SLEEPERS: Sleepers<raddle_machine::Real> = Sleepers::constant();
//! let token = RealAtomic::<u32>::constant(0);
//! assert_eq!((SLEEPERS.sleeps(&token), SLEEPERS.count()), (COUNTED, 1));
//! SLEEPERS.wake(&token);
//! assert_eq!((SLEEPERS.was_woken(&token), SLEEPERS.count()), (true, 0));
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// The token of who was woken.
pub const WOKEN: u32 = 1;
/// The token of who sleeps without a deadline.
pub const COUNTED: u32 = 2;

/// See the module.
pub struct Sleepers<M: Machine> {
    count: M::Atomic<u64>,
}

impl Sleepers<Real> {
    /// Nobody, in a constant.
    pub const fn constant() -> Self {
        Self { count: RealAtomic::<u64>::constant(0) }
    }
}

impl<M: Machine> Default for Sleepers<M> {
    fn default() -> Self {
        Self { count: M::Atomic::new(0) }
    }
}

impl<M: Machine> Sleepers<M> {
    /// How many sleep until they are woken.
    pub fn count(&self) -> u64 {
        // Ordering[counted.count]: SeqCst. Pairs with the changes of the count: the diagnosis reads several words, one
        // after the other. Not weakened: it is asked again after all else was looked at, and a wrong answer makes for a
        // line on standard error.
        self.count.load(Ordering::SeqCst)
    }

    /// The caller is about to sleep without a deadline: what its token is while nobody has woken it.
    pub fn sleeps(&self, token: &M::Atomic<u32>) -> u32 {
        // Ordering[counted.count]: SeqCst. Pairs with `count`.
        // Not weakened: a counter; the token orders it before its waker's.
        self.count.fetch_add(1, Ordering::SeqCst);
        // Ordering[counted.token]: Release. Pairs with `wake`. Makes visible: that it is counted. Not weakened: the
        // model makes exchanges in the order in which they are executed, so that its waker never takes out who is not
        // in yet.
        match token.compare_exchange(0, COUNTED, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => COUNTED,
            Err(_) => {
                // It was woken before, by one who has not seen it in the count.
                self.leave();
                0
            }
        }
    }

    fn leave(&self) {
        // Ordering[counted.count]: SeqCst. Pairs with `count`.
        // Not weakened: as above.
        let before = self.count.fetch_sub(1, Ordering::SeqCst);
        debug_assert_ne!(before, 0, "taken out twice");
    }

    /// True if it was woken; takes that note.
    pub fn was_woken(&self, token: &M::Atomic<u32>) -> bool {
        // Ordering[counted.token]: Acquire. Pairs with `wake`. Makes visible: what the waker did.
        let woken = token.load(Ordering::Acquire) == WOKEN;
        if woken {
            // Relaxed: single writer, between the waker and the next wait.
            token.store(0, Ordering::Relaxed);
        }
        woken
    }

    /// Wakes the sleeper with that token. Once for each wait that was claimed.
    pub fn wake(&self, token: &M::Atomic<u32>) {
        // Ordering[counted.token]: AcqRel. Pairs with `was_woken` and `sleeps`. Makes visible: there what was done
        // before, here that it is counted.
        if token.swap(WOKEN, Ordering::AcqRel) == COUNTED {
            self.leave();
        }
        M::wake(token, 1);
    }

    /// In the child of a fork, where nobody sleeps.
    pub fn forget(&self) {
        self.count.store(0, Ordering::Relaxed);
    }
}
