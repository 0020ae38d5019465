//! What the rooms above, and a host, have this one call: named once, before it is needed.

use crate::carry::descriptor::Descriptor;
use crate::carry::switching::current;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What threads know of themselves, and their processors do not.
pub(crate) struct Above {
    /// The thread was interrupted: it may be cancelled with its scope, and hands that on to the scopes that it has
    /// open.
    pub see_to_scopes: fn(&'static Descriptor),
    /// Makes the oldest half or task of the calling thread a thread. False if that was not done.
    pub promote_oldest: fn() -> bool,
}

/// Set before the first lightweight thread is spawned.
pub(crate) static ABOVE: OnceLock<Above> = OnceLock::new();

thread_local! {
    /// The newest half of the calling thread that waits ([`crate::threads::forkjoin`]), or null.
    pub(crate) static NEWEST_HALF: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
    /// How many tasks of the calling thread wait, in all its scopes.
    pub(crate) static TASKS: Cell<usize> = const { Cell::new(0) };
}

/// True if a half or a task of the calling thread waits.
#[inline(always)]
pub(crate) fn halves_wait() -> bool {
    !NEWEST_HALF.get().is_null() || TASKS.get() != 0
}

/// As [`Above::promote_oldest`].
#[cold]
#[inline(never)]
pub(crate) fn promote_oldest() -> bool {
    ABOVE.get().is_some_and(|above| (above.promote_oldest)())
}

/// What a thread runs when it was interrupted ([`crate::guest::interrupt`]); null for nothing.
static ON_INTERRUPTION: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Names the function that an interrupted thread runs, on its own stack and outside the runtime: between a wait that
/// ended and whoever waited, or when it asks ([`poll_interruption`]).
pub fn on_interruption(run: fn(may_end: bool)) {
    ON_INTERRUPTION.store(run as *mut (), Ordering::Release);
}

/// True where interruptions run something: under the drop-in library.
#[inline(always)]
pub(crate) fn interruptions_run() -> bool {
    !ON_INTERRUPTION.load(Ordering::Relaxed).is_null()
}

/// Whether [`poll_interruption`] would run something.
#[inline]
pub fn is_interrupted() -> bool {
    current().is_some_and(|me| me.goes_on_interrupted())
}

/// The calling thread looks whether it was interrupted, and runs what was named then.
#[inline]
pub fn poll_interruption() {
    if let Some(me) = current()
        && me.goes_on_interrupted()
    {
        interrupted(me, true);
    }
}

#[cold]
#[inline(never)]
pub(crate) fn interrupted(me: &'static Descriptor, may_end: bool) {
    let run = ON_INTERRUPTION.load(Ordering::Acquire);
    if !me.thread.take_interruption() {
        return;
    }
    if let Some(above) = ABOVE.get() {
        (above.see_to_scopes)(me);
    }
    if !run.is_null() {
        // SAFETY: stored by `on_interruption` from a function of this type.
        unsafe { std::mem::transmute::<*mut (), fn(bool)>(run)(may_end) };
    }
}

/// What each kernel thread of the runtime runs first; null for nothing.
static ON_KERNEL_THREAD: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Names a function that each kernel thread which is to carry threads runs first, from now on: it begins with all
/// signals blocked that can wait, and the function sets its mask.
pub fn on_kernel_thread(run: fn()) {
    ON_KERNEL_THREAD.store(run as *mut (), Ordering::Release);
}

/// On a kernel thread that is about to carry threads. False if nobody has named a function.
pub(crate) fn kernel_thread_begins() -> bool {
    let run = ON_KERNEL_THREAD.load(Ordering::Acquire);
    if !run.is_null() {
        // SAFETY: stored by `on_kernel_thread` from a function of this type.
        unsafe { std::mem::transmute::<*mut (), fn()>(run)() };
    }
    !run.is_null()
}
