//! Who watches others and sleeps while there is nothing to watch: the monitor.
//!
//! Source: our own; the argument is that of [`crate::idle`].
//!
//! Roles: the *watchman*, one; *callers*, any number, who have done something that is to be watched.
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `asleep` | the watchman | 1: it looks a last time, or sleeps |
//! | `bell` | callers that found it so | how often they rang |
//!
//! Invariant: nothing that was done is slept through. Events: P a caller's deed, L its look at `asleep`; S the
//! watchman's store there, Q its last look. Forbidden: L misses S and Q misses P. Between S and Q is a heavy fence, a
//! full barrier on every kernel thread: either P is before it, and Q sees P, or L is after it, and sees S; then the
//! bell has changed, or the sleeper is woken.
//!
//! Progress: [`Watchman::hint`] is wait-free. A caller that is frozen between L and its ring leaves the watchman asleep
//! until the next one, or the time that was set. Nothing is reclaimed.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `watchman.look` | [`Watchman::hint`], between P and L | [`Watchman::sleep`], between S and Q |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::watchman::Watchman;
//! static WATCHMAN: Watchman<Real> = Watchman::constant();
//! WATCHMAN.hint();
//! // There is something to watch: no sleep.
//! assert!(!WATCHMAN.sleep(|| false, || None));
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// See the module.
pub struct Watchman<M: Machine> {
    asleep: M::Atomic<u32>,
    bell: M::Atomic<u32>,
}

impl Watchman<Real> {
    /// Awake, in a constant.
    pub const fn constant() -> Self {
        Self { asleep: RealAtomic::<u32>::constant(0), bell: RealAtomic::<u32>::constant(0) }
    }
}

impl<M: Machine> Default for Watchman<M> {
    fn default() -> Self {
        Self { asleep: M::Atomic::new(0), bell: M::Atomic::new(0) }
    }
}

impl<M: Machine> Watchman<M> {
    /// Something was done that is to be watched.
    #[inline]
    pub fn hint(&self) {
        // Ordering[watchman.look]: light fence. Pairs with the heavy fence in `sleep`.
        M::light_fence();
        // Relaxed: ordered by the fences.
        if self.asleep.load(Ordering::Relaxed) != 0 {
            // Relaxed: the sleeper compares the latest value, and carries nothing away.
            self.bell.fetch_add(1, Ordering::Relaxed);
            M::wake(&self.bell, 1);
        }
    }

    /// Sleeps until a hint or the time that `until` says, if it says one; not where `nothing`, the last look, says that
    /// there is something to watch. True if somebody has rung since.
    pub fn sleep(&self, nothing: impl FnOnce() -> bool, until: impl FnOnce() -> Option<u64>) -> bool {
        // Relaxed: an old value makes for one look more.
        let bell = self.bell.load(Ordering::Relaxed);
        // Relaxed: ordered by the fences.
        self.asleep.store(1, Ordering::Relaxed);
        // Ordering[watchman.look]: heavy fence. Pairs with the light fence in `hint`.
        M::heavy_fence();
        if nothing() {
            M::wait(&self.bell, bell, until());
        }
        self.asleep.store(0, Ordering::Relaxed);
        self.bell.load(Ordering::Relaxed) != bell
    }

    /// In the child of a fork, where there is none.
    pub fn forget(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }
}
