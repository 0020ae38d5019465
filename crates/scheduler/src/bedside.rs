//! What one that sleeps leaves where another finds it, should the sleeper not wake when its time comes: a processor's
//! deadlines, which are its own while it is awake.
//!
//! Source: our own.
//!
//! Roles: the *owner*, which leaves something before it sleeps and takes it back when it is awake; the *attendant*,
//! which takes it when it is long past its time: the owner is frozen then, or kept from its core.
//!
//! Invariants:
//! - I1: what was left is taken by one of the two.
//! - I2: who takes it sees what the owner did with it. (What the owner does meanwhile, it does without.)
//!
//! Progress: wait-free. What is left when the bedside goes is dropped with it.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `bedside.left` | [`Bedside::leave`]: what is left, and its time | [`Bedside::due`], [`Bedside::take`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::bedside::Bedside;
//! let bedside = Bedside::<u32, raddle_machine::Real>::default();
//! bedside.leave(Box::new(7), 1_000);
//! assert_eq!((bedside.due(), bedside.take()), (Some(1_000), Some(Box::new(7))));
//! assert_eq!((bedside.due(), bedside.take()), (None, None));
//! ```

use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;

/// See the module.
pub struct Bedside<T: Send + 'static, M: Machine> {
    /// A box, or null.
    left: M::Atomic<*mut T>,
    /// The time at which it is due.
    at: M::Atomic<u64>,
    _owns: PhantomData<Box<T>>,
}

impl<T: Send, M: Machine> Default for Bedside<T, M> {
    fn default() -> Self {
        Self { left: M::Atomic::new(std::ptr::null_mut()), at: M::Atomic::new(0), _owns: PhantomData }
    }
}

impl<T: Send, M: Machine> Bedside<T, M> {
    /// Leaves it, due at that time. What lies there already goes.
    pub fn leave(&self, what: Box<T>, at: u64) {
        // Relaxed: the exchange below has it seen.
        self.at.store(at, Ordering::Relaxed);
        // Ordering[bedside.left]: AcqRel. Pairs with `due` and `take`. Makes visible: what is left, and when it is due.
        let before = self.left.swap(Box::into_raw(what), Ordering::AcqRel);
        drop(Self::boxed(before));
    }

    /// What an exchange has given to the caller alone.
    fn boxed(what: *mut T) -> Option<Box<T>> {
        // SAFETY: not null, it is of `leave`, from a box of this type, and one exchange took it out.
        (!what.is_null()).then(|| unsafe { Box::from_raw(what) })
    }

    /// When it is due, if anything lies here. (If it is taken, and more is left, at once: the time of either.)
    pub fn due(&self) -> Option<u64> {
        // Ordering[bedside.left]: Acquire. Pairs with `leave`. Makes visible: when it is due.
        (!self.left.load(Ordering::Acquire).is_null()).then(|| self.at.load(Ordering::Relaxed))
    }

    /// What lies here, for the owner that is awake, or the attendant.
    pub fn take(&self) -> Option<Box<T>> {
        // (Without a look before it, which would hide an earlier look of the other one's from the model.)
        // Ordering[bedside.left]: Acquire. Pairs with `leave`. Makes visible: what is left.
        Self::boxed(self.left.swap(std::ptr::null_mut(), Ordering::Acquire))
    }
}

impl<T: Send, M: Machine> Drop for Bedside<T, M> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
