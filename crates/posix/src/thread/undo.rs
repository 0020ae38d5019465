//! What a wait has to put in order when its thread ends in it: by `pthread_exit` in a handler of the program.
//!
//! The end unwinds through the wait's frames as an exception does, so a destructor is the place for it. A wait that
//! returns [forgets](Undo::forget) its own, or drops it where the same is to be done then, before anything else,
//! cancellation points above all.

use std::mem::ManuallyDrop;

/// Runs a function where it is dropped: if the thread ends in the wait, and at the wait's end unless it was
/// [forgotten](Undo::forget).
#[must_use]
pub(crate) struct Undo<F: FnMut()>(F);

impl<F: FnMut()> Undo<F> {
    /// The wait begins.
    pub fn new(undo: F) -> Self {
        Self(undo)
    }

    /// The wait has returned.
    #[inline(always)]
    pub fn forget(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
