//! What a kernel thread is in the midst of, or has of its own, where the runtime is to make another one from it.

use super::placing::{Placing, placing};
use std::cell::Cell;

thread_local! {
    /// The calling kernel thread is starting a kernel thread for the runtime itself.
    static NATIVE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, which starts a kernel thread for the runtime: `pthread_create` must not be taken over meanwhile.
pub(crate) fn native<T>(f: impl FnOnce() -> T) -> T {
    struct Native(bool);
    impl Drop for Native {
        fn drop(&mut self) {
            NATIVE.set(self.0);
        }
    }
    let _native = Native(NATIVE.replace(true));
    f()
}

/// True while the runtime starts a kernel thread for itself.
pub fn is_native() -> bool {
    NATIVE.get()
}

thread_local! {
    /// What is made from here would inherit what the calling thread has asked for.
    static MARKED: Cell<Marked> = const { Cell::new(Marked::No) };
}

#[derive(Clone, Copy)]
enum Marked {
    No,
    /// It has asked for another placing only; before, it had this.
    Placing(&'static Placing),
    Yes,
}

/// The calling kernel thread, or dedicated thread, asks the kernel for what it alone is to have: the runtime makes no
/// kernel thread from it.
pub fn mark() {
    MARKED.set(Marked::Yes);
}

/// As [`mark`], before it asks for processors or a memory policy. Libraries try these out when they are loaded and
/// then take back what they had (libnuma, psm2): that ends it.
pub fn mark_placing() {
    if matches!(MARKED.get(), Marked::No) {
        // Kept for ever, once a thread: few threads do this.
        MARKED.set(placing().map_or(Marked::Yes, |before| Marked::Placing(Box::leak(Box::new(before)))));
    }
}

/// What the calling thread, which has just begun, alone has is none that others would inherit.
pub fn unmark() {
    MARKED.set(Marked::No);
}

/// Whether it has something that it alone has.
pub fn is_marked() -> bool {
    match MARKED.get() {
        Marked::No => false,
        Marked::Yes => true,
        Marked::Placing(before) => placing().is_none_or(|is| is != *before),
    }
}

/// Whether it has asked for something that cannot be taken back.
pub fn is_marked_for_good() -> bool {
    matches!(MARKED.get(), Marked::Yes)
}

/// In the child of a fork there is nobody but the caller: whatever it has, all are to have.
pub(crate) fn forget() {
    MARKED.set(Marked::No);
}
