//! On which carrier a thread runs, for those who have left something for it and may have to interrupt it there.
//!
//! Source: our own. A *carrier* is a kernel thread's record; this file does not look into it.
//!
//! Roles: the *carrier*, which installs threads, and takes their names off once they are off their stacks; the
//! *thread*, which looks for what was left when it goes on; *askers*, any number.
//!
//! Invariant: what was left is seen, or the asker learns on which carrier the thread runs, or ran a moment ago. Events:
//! F something is left, L the asker's look ([`Whereabouts::meet`]); I the carrier's store ([`Whereabouts::install`]), S
//! the thread's look after [`Whereabouts::resumed`]. Forbidden: S misses F and L misses I. Between F and L is a heavy
//! fence, a full barrier on every kernel thread: either I is before it, and L sees I, or S is after it, and sees F. On
//! the way of each switch there is no fence but the light one.
//!
//! Progress: wait-free. Carriers are never freed.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `whereabouts.look` | [`Whereabouts::resumed`], between I and S | [`Whereabouts::meet`], between F and L |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::whereabouts::Whereabouts;
//! let (thread, carrier) = (Whereabouts::<Real, u32>::nowhere(), std::ptr::from_ref(&7).cast_mut());
//! thread.install(carrier);
//! assert_eq!(thread.meet(), carrier);
//! thread.leave();
//! assert!(thread.get().is_null());
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

/// See the module.
#[repr(transparent)]
pub struct Whereabouts<M: Machine, T: 'static>(M::Atomic<*mut T>);

impl<M: Machine, T: 'static> Whereabouts<M, T> {
    /// On no carrier.
    pub fn nowhere() -> Self {
        Self(M::Atomic::new(std::ptr::null_mut()))
    }

    /// The carrier is about to go on with the thread.
    #[inline(always)]
    pub fn install(&self, carrier: *mut T) {
        // Relaxed: ordered by the fences (event I).
        self.0.store(carrier, Ordering::Relaxed);
    }

    /// The thread is off its stack.
    #[inline(always)]
    pub fn leave(&self) {
        // Relaxed: a late reader interrupts who runs there now, which does no harm.
        self.0.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Where the thread runs (racy); for itself, where it runs.
    #[inline(always)]
    pub fn get(&self) -> *mut T {
        self.0.load(Ordering::Relaxed)
    }

    /// The calling thread goes on, and looks after this for what was left (event S).
    #[inline(always)]
    pub fn resumed() {
        // Ordering[whereabouts.look]: light fence. Pairs with the heavy fence in `meet`.
        M::light_fence();
    }

    /// The caller has left something for the thread (event F): the carrier on which it may not have seen that; null if
    /// it will see it.
    pub fn meet(&self) -> *mut T {
        // Ordering[whereabouts.look]: heavy fence. Pairs with the light fence in `resumed`.
        M::heavy_fence();
        self.0.load(Ordering::Relaxed)
    }
}
