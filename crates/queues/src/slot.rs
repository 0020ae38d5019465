//! A place for one value that many may borrow, one at a time: who finds it gone does without.
//!
//! Source: none; a swap each way.
//!
//! Roles: *borrowers*, anyone. Words: `value`: null while somebody has the value, else the value's box.
//!
//! | transition | actor |
//! |---|---|
//! | box → null: the value is the borrower's | borrower |
//! | null → box | the same borrower |
//!
//! Invariant I1: there is one box; who swapped it out has it alone.
//!
//! Progress: wait-free, both. A frozen borrower keeps the value, so everybody else does without. Memory: the box, freed
//! with the slot, or with the borrower that never gave it back.
//!
//! Edges: `slot` put → borrow (the value).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::slot::Slot;
//! let slot = Slot::<u32, Real>::new(3);
//! let mut value = slot.borrow().expect("nobody has it");
//! assert!(slot.borrow().is_none());
//! *value += 1;
//! slot.put(value);
//! assert_eq!(slot.borrow().as_deref(), Some(&4));
//! ```

use crate::pad::Padded;
use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;
use std::ptr::null_mut;

/// The place.
pub struct Slot<T, M: Machine> {
    value: Padded<M::Atomic<*mut ()>>,
    owns: PhantomData<Box<T>>,
}

// SAFETY: the value is reached by one borrower at a time (I1), each of which may be another kernel thread: T: Send.
unsafe impl<T: Send, M: Machine> Sync for Slot<T, M> {}
// SAFETY: the value goes with it.
unsafe impl<T: Send, M: Machine> Send for Slot<T, M> {}

impl<T, M: Machine> Slot<T, M> {
    /// The value in its place.
    pub fn new(value: T) -> Self {
        let value = Box::into_raw(Box::new(value)).cast();
        Self { value: Padded(M::Atomic::new(value)), owns: PhantomData }
    }

    /// Takes the value, unless somebody has it. Give it back with [`Slot::put`].
    pub fn borrow(&self) -> Option<Box<T>> {
        // Ordering[slot]: Acquire. Pairs with the swap in `put`. Makes visible: the value.
        let value = self.value.0.swap(null_mut(), Ordering::Acquire).cast::<T>();
        // SAFETY: not null, so made by `new` or `put` from a box, and ours alone by the swap (I1).
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }

    /// Gives the value back. (Another one that was put meanwhile is dropped: a slot holds one.)
    pub fn put(&self, value: Box<T>) {
        // Ordering[slot]: Release. Pairs with the swap in `borrow`. Makes visible: the value.
        let other = self.value.0.swap(Box::into_raw(value).cast(), Ordering::Release).cast::<T>();
        if !other.is_null() {
            // SAFETY: as in `borrow`; it was put by somebody else who did not borrow it, so nobody has seen it since.
            drop(unsafe { Box::from_raw(other) });
        }
    }
}

impl<T, M: Machine> Drop for Slot<T, M> {
    fn drop(&mut self) {
        drop(self.borrow());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;
    use std::sync::Arc;

    #[test]
    fn the_value_goes_with_the_slot_or_with_its_borrower() {
        let value = Arc::new(());
        drop(Slot::<_, Real>::new(value.clone()));
        assert_eq!(Arc::strong_count(&value), 1);
        let slot = Slot::<_, Real>::new(value.clone());
        let borrowed = slot.borrow();
        drop(slot);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(borrowed);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
