//! How many are inside an object that somebody may destroy meanwhile: in one word, times two; the lowest bit says that
//! somebody waits to destroy it.
//!
//! Source: our own.
//!
//! Invariant: who destroys goes on when all have left, and a visitor's last access is [`Visitors::leave`]: what it did
//! before is seen by whoever gives the memory another use.
//!
//! Progress: coming and leaving are wait-free; destroying waits for all inside.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.leave` | [`Visitors::leave`] | [`Visitors::destroy`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::visitors::Visitors;
//! let visitors = Visitors::<raddle_machine::Real>::default();
//! visitors.arrive();
//! assert!(visitors.any());
//! ```
#![forbid(unsafe_code)]

use super::Sleepers;
use raddle_machine::{Atomic, Machine, Ordering};

const DESTROYING: u32 = 1;
const VISITOR: u32 = 2;

/// See the module.
#[repr(transparent)]
pub struct Visitors<M: Machine>(M::Atomic<u32>);

impl<M: Machine> Default for Visitors<M> {
    fn default() -> Self {
        Self(M::Atomic::new(0))
    }
}

impl<M: Machine> Visitors<M> {
    /// The caller comes in; nobody destroys the object before it does.
    #[inline(always)]
    pub fn arrive(&self) {
        // Relaxed: whoever destroys is told by other means that nobody comes any more.
        self.0.fetch_add(VISITOR, Ordering::Relaxed);
    }

    /// True if somebody is inside (racy).
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= VISITOR
    }

    /// The last access of a visitor; who destroys the object sleeps on this word.
    #[inline]
    pub fn leave(&self, sleepers: &impl Sleepers) {
        let address = std::ptr::from_ref(self).addr();
        // Ordering[words.leave]: Release. Pairs with `destroy`. Makes visible: that the visitor is through with the
        // object.
        // Point of no return: it may be gone.
        if self.0.fetch_sub(VISITOR, Ordering::Release) == VISITOR | DESTROYING {
            sleepers.wake(address, usize::MAX);
        }
    }

    /// Nobody comes any more: goes on when all have left. `sleep` sleeps while the word is as given.
    pub fn destroy(&self, mut sleep: impl FnMut(&M::Atomic<u32>, u32)) {
        // Ordering[words.leave]: Acquire. Pairs with `leave`. Makes visible: that the visitors are through with it.
        let mut inside = self.0.fetch_or(DESTROYING, Ordering::Acquire) | DESTROYING;
        while inside >= VISITOR {
            sleep(&self.0, inside);
            // Ordering[words.leave]: Acquire. Pairs with `leave`. Makes visible: that the visitors are through with it.
            inside = self.0.load(Ordering::Acquire);
        }
        self.0.store(0, Ordering::Relaxed);
    }
}
