//! Who keeps the watch for events, and the alarm that calls the keeper.
//!
//! Source: our own.
//!
//! Roles: the *keeper*, one of those who sleep at a time: it sleeps until there are events, or the alarm; *bystanders*,
//! who look for events without sleeping, and may come by the alarm then; *callers*, who raise it.
//!
//! Invariant: an alarm that was raised for a keeper ends its sleep. Events: K the watch is kept, R the alarm is raised,
//! F somebody fetches it, L that one's look at the word. If F is the keeper's, it is awake. Otherwise the alarm goes on
//! its way again unless L misses K. R follows K, as the caller knows that the keeper sleeps; F follows R, in the
//! kernel; so if L finds no keeper, that one has given the watch up since, and is awake.
//!
//! Progress: wait-free. A bystander that is frozen between F and its passing the alarm on holds the keeper up until
//! somebody rings again ([`crate::idle::Idle::kick`]). Nothing is reclaimed.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::keeper::Keeper;
//! static KEEPER: Keeper<Real> = Keeper::constant();
//! assert!(KEEPER.keep() && !KEEPER.keep());
//! let mut raised = 0;
//! KEEPER.pass_on(|| raised += 1);
//! KEEPER.give_up();
//! KEEPER.pass_on(|| raised += 1);
//! assert_eq!(raised, 1);
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// See the module.
pub struct Keeper<M: Machine>(M::Atomic<u8>);

impl Keeper<Real> {
    /// Nobody keeps the watch, in a constant.
    pub const fn constant() -> Self {
        Self(RealAtomic::<u8>::constant(0))
    }
}

impl<M: Machine> Default for Keeper<M> {
    fn default() -> Self {
        Self(M::Atomic::new(0))
    }
}

impl<M: Machine> Keeper<M> {
    /// True while somebody keeps the watch (racy).
    pub fn is_kept(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The caller keeps the watch from now on, unless somebody does.
    pub fn keep(&self) -> bool {
        // Relaxed: one of several wins; the caller's sleep releases event K to whom may call it.
        !self.is_kept() && self.0.swap(1, Ordering::Relaxed) == 0
    }

    /// The keeper is awake.
    pub fn give_up(&self) {
        // Relaxed: who sees it late raises an alarm for nothing.
        self.0.store(0, Ordering::Relaxed);
    }

    /// A bystander has come by the alarm, which `raise` raises: it is not for the caller.
    pub fn pass_on(&self, raise: impl FnOnce()) {
        // Event L. Relaxed: K came before R, and R before F, by what the callers and the kernel exchange.
        if self.is_kept() {
            raise();
        }
    }
}
