//! What is made for a record when somebody first wants it, and is freed with the record.
//!
//! Source: our own; std's `OnceLock`, in one word and without waiting.
//!
//! Roles: *users*, any number; the record's *owner*, who is alone before the others know the record and when it is
//! freed.
//!
//! Invariants:
//! - I1: all users get the same one: the first that is put there. Who comes second drops its own, which nobody has
//!   seen.
//! - I2: who gets it sees what its maker did.
//!
//! Progress: wait-free. It is freed by the owner, when there are no other users.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `once_box.made` | [`OnceBox::get_or_make`], which puts it there | [`OnceBox::get`], and one that comes second |
//!
//! # Example
//! ```
//! use raddle_scheduler::once_box::OnceBox;
//! let value = OnceBox::<u32, raddle_machine::Real>::default();
//! assert_eq!(value.get(), None);
//! assert_eq!((value.get_or_make(|| 7), value.get_or_make(|| 8)), (&7, &7));
//! ```

use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;

/// See the module.
#[repr(transparent)]
pub struct OnceBox<T: 'static, M: Machine> {
    /// Of a box, or null.
    value: M::Atomic<*mut T>,
    _owns: PhantomData<Box<T>>,
}

// SAFETY: it owns a `T`, which goes where it goes.
unsafe impl<T: Send, M: Machine> Send for OnceBox<T, M> {}
// SAFETY: it gives out shared references, and takes in what any user has made.
unsafe impl<T: Send + Sync, M: Machine> Sync for OnceBox<T, M> {}

impl<T, M: Machine> Default for OnceBox<T, M> {
    fn default() -> Self {
        Self { value: M::Atomic::new(std::ptr::null_mut()), _owns: PhantomData }
    }
}

impl<T, M: Machine> OnceBox<T, M> {
    /// What is there, if anything is.
    pub fn get(&self) -> Option<&T> {
        // Ordering[once_box.made]: Acquire. Pairs with `get_or_make`. Makes visible: what its maker did.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: null, or of a box that is there until somebody has this object alone.
        unsafe { value.as_ref() }
    }

    /// What is there, which `make` has made if nothing was.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let mine = Box::into_raw(Box::new(make()));
        // Ordering[once_box.made]: Release. Pairs with `get` and another one that comes here. Makes visible: what its
        // maker did.
        let put = self.value.compare_exchange(std::ptr::null_mut(), mine, Ordering::Release, Ordering::Relaxed);
        if put.is_err() {
            // SAFETY: made above, and nobody has seen it.
            drop(unsafe { Box::from_raw(mine) });
        }
        self.get().expect("somebody has put it there")
    }

    /// Puts it there, in place of what was. Whoever comes to know the object later sees it.
    ///
    /// # Safety
    /// The caller has the object alone, and no reference that it gave out is used any more.
    pub unsafe fn set(&self, value: T) {
        // SAFETY: as the caller promises.
        unsafe { self.clear() };
        // Relaxed: nobody else knows the object.
        self.value.store(Box::into_raw(Box::new(value)), Ordering::Relaxed);
    }

    /// Drops what is there.
    ///
    /// # Safety
    /// As for [`OnceBox::set`].
    #[inline(always)]
    pub unsafe fn clear(&self) {
        // Relaxed: whoever has it alone has seen the end of its users.
        let value = self.value.load(Ordering::Relaxed);
        if !value.is_null() {
            self.value.store(std::ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: of a box, taken out once; as the caller promises, nobody else uses it.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T, M: Machine> Drop for OnceBox<T, M> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { self.clear() };
    }
}
