//! A gate with so many places that can be closed: who has a place is waited for, who waits for one is told.
//!
//! Source: our own. The places are permits of a semaphore.
//!
//! Roles: *visitors*, who take a place and give it back; the *closer*, one, once.
//!
//! Invariants:
//! - I1: when [`Gate::close`] returns, nobody has a place, and nobody gets one after that. A visitor looks whether the
//!   gate is closed with the place in its hand; the closer takes all places, one more than there were, so it has every
//!   place that was given back by a visitor that found the gate open.
//! - I2: nobody waits for a place for ever. The closer adds one place, which a visitor that waits gets, finds the gate
//!   closed and gives back to the next; at the end it gives all places back for those who began to wait meanwhile.
//!
//! Progress: a visitor waits for a place; the closer, by trying again after a pause, for all of them (if it waited in
//! the queue it would take the place that is for those who are to be told).
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `gate.closed` | [`Gate::close`] | [`Gate::is_closed`] |
//! | `semaphore.state` | a visitor that gives its place back | the closer: what was done inside |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # use raddle_scheduler::sync::gate::{Gate, Refused};
//! let gate = Gate::<KernelThreads>::new(1);
//! let attempt = || gate.enter(|places| if places.try_acquire(1) { Ok(()) } else { Err("full") });
//! assert_eq!((attempt(), attempt()), (Ok(()), Err(Refused::Otherwise("full"))));
//! gate.leave();
//! gate.close(|| unreachable!("nobody is inside"));
//! assert_eq!(attempt(), Err(Refused::Closed));
//! ```
#![forbid(unsafe_code)]

use super::Semaphore;
use crate::runtime::Runtime;
use raddle_machine::{Atomic, Machine, Ordering};

/// See the module.
pub struct Gate<R: Runtime> {
    capacity: u32,
    places: Semaphore<R>,
    closed: <R::Machine as Machine>::Atomic<u8>,
}

/// Why a visitor has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// The gate is closed.
    Closed,
    /// As its attempt says.
    Otherwise(E),
}

impl<R: Runtime> Gate<R> {
    /// An open gate with so many places, fewer than [`u32::MAX`].
    pub fn new(capacity: u32) -> Self {
        assert!(capacity < u32::MAX, "the closer needs one place more");
        Self { capacity, places: Semaphore::with_permits(capacity), closed: <R::Machine as Machine>::Atomic::new(0) }
    }

    /// How many places it has.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many places are free (racy): while it is closed more than all may be for a moment.
    pub fn available(&self) -> u32 {
        self.places.available().min(self.capacity)
    }

    /// True once it is being closed.
    pub fn is_closed(&self) -> bool {
        // Ordering[gate.closed]: Acquire. Pairs with `close`. Makes visible: what the closer did before.
        // Not weakened: who has a place has it from the closer's release, or gives it back before the closer is
        // through.
        self.closed.load(Ordering::Acquire) != 0
    }

    /// Takes a place by `acquire`, which takes one permit or says why it did not.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn enter<E>(&self, acquire: impl FnOnce(&Semaphore<R>) -> Result<(), E>) -> Result<(), Refused<E>> {
        if self.is_closed() {
            return Err(Refused::Closed);
        }
        acquire(&self.places).map_err(Refused::Otherwise)?;
        if self.is_closed() {
            self.leave();
            return Err(Refused::Closed);
        }
        Ok(())
    }

    /// Gives a place back.
    pub fn leave(&self) {
        self.places.release(1);
    }

    /// Refuses all from now on, those included who wait, and returns when all places are back. Called once. `pause`
    /// lets some time pass.
    pub fn close(&self, mut pause: impl FnMut()) {
        // Ordering[gate.closed]: Release. Pairs with `is_closed`. Makes visible: what the closer did before.
        // Not weakened: as there.
        self.closed.store(1, Ordering::Release);
        self.places.release(1);
        while !self.places.try_acquire(self.capacity + 1) {
            pause();
        }
        self.places.release(self.capacity + 1);
    }
}
