//! What a `pthread_t` stands for.

use crate::os::c;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The thread runs or has not started, and may be joined.
pub(crate) const JOINABLE: u32 = 0;
/// Nobody will join: whoever comes second, the end of the thread or the detachment, frees the record.
pub(crate) const DETACHED: u32 = 1;
/// Somebody is joining.
pub(crate) const JOINING: u32 = 2;
/// The thread has ended and waits to be joined.
pub(crate) const ENDED: u32 = 3;

/// A thread that the program created. Boxed; freed by the join, or by the end of a detached thread.
pub(crate) struct Record {
    /// One of the constants above.
    pub state: AtomicU32,
    /// The raw form of its `raddle::JoinHandle<usize>`; null until the creator has stored it.
    pub handle: AtomicPtr<()>,
    pub start: extern "C" fn(*mut c_void) -> *mut c_void,
    pub argument: *mut c_void,
}

// SAFETY: `argument` is the program's own to hand over; the rest is atomic or constant.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

thread_local! {
    static SELF: Cell<*const Record> = const { Cell::new(std::ptr::null()) };
}

impl Record {
    /// The `pthread_t` of a record.
    pub fn id(this: *const Record) -> c::pthread_t {
        (this.expose_provenance() + 1) as c::pthread_t
    }

    /// The record behind a `pthread_t`; `None` for one of the C library's.
    ///
    /// # Safety
    /// `id` is a `pthread_t` whose thread has not been joined, nor ended detached, as POSIX asks of every caller.
    pub unsafe fn of<'a>(id: c::pthread_t) -> Option<&'a Record> {
        // SAFETY: only ids of ours are odd; the record lives as long as the id is valid.
        (id & 1 == 1).then(|| unsafe { &*std::ptr::with_exposed_provenance(id as usize - 1) })
    }

    /// The calling thread's record; `None` on threads that were not created here.
    pub fn current() -> Option<&'static Record> {
        // SAFETY: set by the thread's own start; the record outlives its thread.
        unsafe { SELF.get().as_ref() }
    }

    /// Says who the calling thread is.
    pub fn set_current(this: *const Record) {
        SELF.set(this);
    }

    /// # Safety
    /// The last use of the record: nobody has its id any more.
    pub unsafe fn free(this: *const Record) {
        // SAFETY: made by `Box::into_raw`; freed once, by the caller's promise.
        drop(unsafe { Box::from_raw(this.cast_mut()) });
    }

    pub fn load(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }
}
