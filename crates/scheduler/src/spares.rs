//! Activations without a processor, which wait for an order: the list in which they are found, and how one is told.
//!
//! Source: our own.
//!
//! Roles: a *spare*, which lists itself, or ends where the list is full; *takers*, any number, each of which takes
//! spares off the list and gives them their next order.
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | a slot of the list | a spare, from 0; takers, to 0 | who waits there |
//! | the order | takers; the spare, to [`NONE`] | what it is to do next |
//! | the bell | takers | how often it was told something |
//!
//! Invariants:
//! - I1: whoever is listed is taken by one, who alone may give it an order: so no order is written over another. (A
//!   spare that has just begun is its maker's, as if that had taken it.)
//! - I2: no order is slept through. Events: O the order is written, B the bell's change after it; b the spare's look at
//!   the bell, o its look at the order after that. If o misses O, b misses B, so the bell differs from what the spare
//!   sleeps on.
//! - I3: the spare sees what was done before it was told, and its taker what the spare did before it listed itself.
//!
//! Progress: listing and taking are lock-free, an order wait-free. Records of activations are type-stable and never
//! freed, so that a late bell rings for nothing.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `spares.slot` | [`Spares::list`] | [`Spares::take`] |
//! | `spares.bell` | [`Orders::give`]: the order | [`Orders::wait`] |
//! | `spares.order` | [`Orders::give`]: what was done before | [`Orders::wait`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::spares::{Orders, Spares};
//! let spares = Spares::<Real, 1>::default();
//! assert!(spares.list(7) && !spares.list(8));
//! assert_eq!((spares.take(), spares.take()), (Some(7), None));
//! let orders = Orders::<Real>::default();
//! orders.give(3);
//! assert_eq!(orders.wait(), 3);
//! ```
#![forbid(unsafe_code)]

use crate::takeover::ActivationId;
use raddle_machine::{Atomic, Machine, Ordering};

/// No order.
pub const NONE: usize = 0;

/// The list; see the module.
pub struct Spares<M: Machine, const PLACES: usize>([M::Atomic<ActivationId>; PLACES]);

impl<M: Machine, const PLACES: usize> Default for Spares<M, PLACES> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| M::Atomic::new(0)))
    }
}

impl<M: Machine, const PLACES: usize> Spares<M, PLACES> {
    /// A spare waits here from now on. False where the list is full.
    #[must_use = "a spare that is not listed is never told anything"]
    pub fn list(&self, spare: ActivationId) -> bool {
        // Ordering[spares.slot]: Release. Pairs with `take`. Makes visible: what the spare did before.
        self.0.iter().any(|slot| slot.compare_exchange(0, spare, Ordering::Release, Ordering::Relaxed).is_ok())
    }

    /// Takes a spare off the list, which the caller is to give an order.
    pub fn take(&self) -> Option<ActivationId> {
        self.0.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).find_map(|slot| {
            // Ordering[spares.slot]: Acquire. Pairs with `list`. Makes visible: what the spare did before.
            let spare = slot.swap(0, Ordering::Acquire);
            (spare != 0).then_some(spare)
        })
    }

    /// How many are listed (racy).
    pub fn count(&self) -> usize {
        self.0.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).count()
    }
}

/// What a spare is told; see the module.
pub struct Orders<M: Machine> {
    order: M::Atomic<usize>,
    bell: M::Atomic<u32>,
}

impl<M: Machine> Default for Orders<M> {
    fn default() -> Self {
        Self { order: M::Atomic::new(NONE), bell: M::Atomic::new(0) }
    }
}

impl<M: Machine> Orders<M> {
    /// The first order of a kernel thread that has not started, or [`NONE`].
    pub fn begin_with(&self, order: usize) {
        // Relaxed: its start orders it.
        self.order.store(order, Ordering::Relaxed);
    }

    /// Tells it its next order, which is not [`NONE`].
    pub fn give(&self, order: usize) {
        debug_assert_ne!(order, NONE);
        // Ordering[spares.order]: Release. Pairs with `wait` (event O). Makes visible: what was done before.
        self.order.store(order, Ordering::Release);
        // Ordering[spares.bell]: Release. Pairs with `wait` (event B). Makes visible: the order.
        self.bell.fetch_add(1, Ordering::Release);
        M::wake(&self.bell, 1);
    }

    /// Sleeps until there is an order, and takes it. Called by the spare's kernel thread.
    pub fn wait(&self) -> usize {
        loop {
            // Ordering[spares.bell]: Acquire. Pairs with `give` (event b). Makes visible: the order.
            let bell = self.bell.load(Ordering::Acquire);
            // Relaxed: event o; the exchange below takes it.
            if self.order.load(Ordering::Relaxed) != NONE {
                // Ordering[spares.order]: Acquire. Pairs with `give`. Makes visible: what was done before.
                return self.order.swap(NONE, Ordering::Acquire);
            }
            M::wait(&self.bell, bell, None);
        }
    }
}
