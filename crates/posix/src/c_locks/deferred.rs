//! A lock to which work can be left, for C: who must not wait (a signal handler) leaves a function and its argument, in
//! room of its own.

use super::{ALIGNMENT, PLACE, Place, node};
use crate::os::c;
use raddle::lock::{Deferred, Full, Job, Turn};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// A piece of work, in room that the caller lends.
#[repr(C)]
pub struct Work {
    job: Job<()>,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

/// `sizeof(raddle_work)`.
const _: () = assert!(size_of::<Work>() <= 6 * 8 && align_of::<Work>() <= 8);
const _: () = assert!(size_of::<Turn>() <= PLACE - ALIGNMENT && align_of::<Turn>() <= ALIGNMENT);

/// # Safety
/// The job of a [`Work`], which its caller lends until this calls its function.
unsafe fn run(job: NonNull<Job<()>>, value: Option<&mut ()>) {
    // SAFETY: the job is the first field of a live `Work` (`repr(C)`).
    let Work { function, argument, .. } = unsafe { job.cast::<Work>().read() };
    if value.is_some() {
        // SAFETY: its maker promises that it may be called with its argument, on any thread. The room may be used again
        // from here on.
        unsafe { function(argument) };
    }
}

/// Room for `most` pieces of work.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_deferred_create(most: usize) -> *mut Deferred<()> {
    Box::into_raw(Box::new(Deferred::new((), most)))
}

/// # Safety
/// One of `raddle_deferred_create` that nobody uses any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_deferred_destroy(deferred: *mut Deferred<()>) {
    if !deferred.is_null() {
        // SAFETY: made by `Box::into_raw`; the caller destroys it once.
        drop(unsafe { Box::from_raw(deferred) });
    }
}

/// # Safety
/// As of `raddle_lock_acquire`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_deferred_acquire(deferred: *const Deferred<()>, place: *mut Place) {
    let turn = node(place).cast::<Turn>();
    // SAFETY: room for a turn, aligned for it, which the caller lends until the release; new, so in no queue.
    unsafe {
        turn.write(Turn::new());
        (*deferred).take(&*turn);
    }
}

/// # Safety
/// The caller has acquired it with this place, and not released it since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_deferred_release(deferred: *const Deferred<()>, place: *mut Place) {
    let turn = node(place).cast::<Turn>();
    // SAFETY: taken with the turn that lies there, which is in no queue afterwards.
    unsafe {
        (*deferred).leave(&*turn);
        turn.drop_in_place();
    }
}

/// # Safety
/// A live one; room that stays where it is until its function is called, or this returns `EAGAIN`; a function that may
/// be called with its argument, on any thread, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_deferred_do(
    deferred: *const Deferred<()>,
    room: *mut Work,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's room, which nobody else uses.
    let job = unsafe {
        room.write(Work { job: Job::new(run), function, argument });
        NonNull::new_unchecked(room).cast::<Job<()>>()
    };
    // SAFETY: the job stays where it is until `run`, which may be called on any thread.
    match unsafe { (*deferred).leave_job(job) } {
        Ok(true) => 0,
        Ok(false) => c::EINPROGRESS,
        Err(Full(_)) => c::EAGAIN,
    }
}
