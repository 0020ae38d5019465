//! What the loader does under a lock of its own while it calls functions of the program.
//!
//! The lock of its list of libraries is held during the calls of `dl_iterate_phdr`. A thread that unloads a library
//! waits for it with the lock in hand that the C library's `pthread_create` takes: the runtime could not start another
//! kernel thread then. So a thread in such a call stays on its kernel thread, and goes on whatever becomes of the
//! others.

use crate::os::c;
use raddle::drop_in::{Hidden, hide, is_lightweight};
use raddle_macros::entry;
use std::ffi::{c_int, c_void};

type Callback = unsafe extern "C-unwind" fn(*mut c::dl_phdr_info, usize, *mut c_void) -> c_int;

type Walk = unsafe extern "C-unwind" fn(Callback, *mut c_void) -> c_int;

/// The thread is what it was, also where the program's function is left by an exception.
struct Until(Option<Hidden>);

impl Drop for Until {
    fn drop(&mut self) {
        if let Some(hidden) = self.0.take() {
            hidden.end();
        }
    }
}

#[entry]
pub unsafe extern "C-unwind" fn dl_iterate_phdr(callback: Callback, data: *mut c_void) -> c_int {
    // First: a sanitizer that calls before it has begun has taken even the function that thread-local variables use.
    super::step_aside::before_begin();
    let next = next!(dl_iterate_phdr: fn(Callback, *mut c_void) -> c_int);
    // SAFETY: the same function, which is left by an exception if the program's function is.
    let next = unsafe { std::mem::transmute::<unsafe extern "C" fn(Callback, *mut c_void) -> c_int, Walk>(next) };
    if !is_lightweight() {
        // SAFETY: the caller's arguments.
        return unsafe { next(callback, data) };
    }
    let process = std::process::id();
    let mut until = Until(Some(hide()));
    // SAFETY: the program's own function and its argument, as it called.
    let result = unsafe { next(callback, data) };
    if std::process::id() != process {
        // The function has forked: the thread is a kernel thread.
        until.0 = None;
    }
    result
}
