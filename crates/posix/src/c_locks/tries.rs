//! The two TryLocks for C: one that never waits, of the lock "try", and one that refuses only who has interrupted
//! itself.

use super::{Lock, Place, node};
use crate::os::c;
use raddle::lock::Trying;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// What a caller needs to try.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_trying_create() -> *mut Trying {
    Box::into_raw(Box::new(Trying::new()))
}

/// # Safety
/// One of `raddle_trying_create` that is not used any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_trying_destroy(trying: *mut Trying) {
    if !trying.is_null() {
        // SAFETY: made by `Box::into_raw`; the caller destroys it once.
        drop(unsafe { Box::from_raw(trying) });
    }
}

/// # Safety
/// A live lock, and a live `trying` that nobody else uses meanwhile, or until it is released if this returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_try(lock: *const Lock, trying: *mut Trying) -> c_int {
    // SAFETY: both live during the call, and a shared reference is all that the callees need.
    let (lock, trying) = unsafe { (&*lock, &*trying) };
    let Some(lock) = lock.0.tried() else {
        crate::c_interface::set_error("only a lock `try` can be tried: raddle_lock_create(\"try\")");
        return c::EINVAL;
    };
    // SAFETY: nobody else uses `trying`.
    if unsafe { lock.enter(trying) } { 0 } else { c::EBUSY }
}

/// # Safety
/// The caller has got this lock by `raddle_lock_try` with this `trying`, and not released it since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_release_tried(lock: *const Lock, trying: *mut Trying) {
    // SAFETY: the lock is had by `trying`, so neither has been destroyed.
    let (lock, trying) = unsafe { (&*lock, &*trying) };
    if let Some(lock) = lock.0.tried() {
        // SAFETY: entered with it, by the caller, and not left since.
        unsafe { lock.leave(trying) };
    }
}

/// A processor's, or a thread's, place for one lock, that knows whether it is in use: zeroed at first.
#[repr(C)]
pub struct Own {
    used: AtomicU64,
    place: Place,
}

/// # Safety
/// A live lock; an `own` of the calling thread and of the handlers that interrupt it, zeroed before its first use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_acquire_own(lock: *const Lock, own: *mut Own) -> c_int {
    // SAFETY: live, and an atomic.
    let used = unsafe { &(*own).used };
    // Relaxed: of one thread and of its handlers.
    if used.load(Ordering::Relaxed) != 0 {
        return c::EBUSY;
    }
    used.store(1, Ordering::Relaxed);
    // Ordering[own.used]: Release. Pairs with the load above, in a handler of this thread. Makes visible: that the
    // place is in use before it is.
    compiler_fence(Ordering::Release);
    // SAFETY: the flag keeps the place from being used again until `raddle_lock_release_own`.
    unsafe { (*lock).0.acquire(node(&raw mut (*own).place)) };
    0
}

/// # Safety
/// The caller has acquired this lock with this `own`, and not released it since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_lock_release_own(lock: *const Lock, own: *mut Own) {
    // SAFETY: acquired with this place.
    unsafe { (*lock).0.release(node(&raw mut (*own).place)) };
    // Ordering[own.used]: Release. Pairs with the load in `raddle_lock_acquire_own`, in a handler of this thread. Makes
    // visible: that the place is out of use.
    compiler_fence(Ordering::Release);
    // SAFETY: live, and an atomic.
    unsafe { &(*own).used }.store(0, Ordering::Relaxed);
}
