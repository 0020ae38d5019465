//! Where descriptors come from: calls that make them, told to the reactor, which then need not ask the kernel anew at
//! each wait.
//!
//! What comes otherwise (received in a message, opened, inherited) has no known birth and is asked about each time.

use super::kind;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{Ordering, fence};

/// A call has made that descriptor, if it is one.
pub(super) fn note(descriptor: c_int) {
    // The parent of a `vfork` has no such descriptor.
    if descriptor >= 0 && !crate::process::vfork::is_child() {
        kind::forget(descriptor);
        raddle::io::born(descriptor);
    }
}

/// A call has made that descriptor, if it is one, another name of `old`.
pub(super) fn note_copy(old: c_int, made: c_int) {
    if made >= 0 && !crate::process::vfork::is_child() {
        note(made);
        kind::share(old);
        kind::share(made);
        // Pairs with the one in `flags::setting`.
        fence(Ordering::SeqCst);
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let made = unsafe { next!(socket: fn(c_int, c_int, c_int) -> c_int)(domain, kind, protocol) };
    note(made);
    made
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let result =
        unsafe { next!(socketpair: fn(c_int, c_int, c_int, *mut c_int) -> c_int)(domain, kind, protocol, pair) };
    // SAFETY: the C library has filled it.
    unsafe { note_pair(result, pair) }
}

/// # Safety
/// If `result` is 0, `pair` holds two descriptors.
unsafe fn note_pair(result: c_int, pair: *const c_int) -> c_int {
    if result == 0 {
        // SAFETY: promised by the caller.
        unsafe {
            note(pair.read());
            note(pair.add(1).read());
        }
    }
    result
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pipe(pair: *mut c_int) -> c_int {
    // SAFETY: the caller's place for two numbers, which the C library has filled.
    unsafe { note_pair(next!(pipe: fn(*mut c_int) -> c_int)(pair), pair) }
}

/// # Safety
/// As Linux says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: the program's place for two descriptors, which the kernel fills.
    unsafe { note_pair(next!(pipe2: fn(*mut c_int, c_int) -> c_int)(pair, flags), pair) }
}

/// # Safety
/// As Linux says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn eventfd(value: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    let made = unsafe { next!(eventfd: fn(c_uint, c_int) -> c_int)(value, flags) };
    note(made);
    made
}

/// # Safety
/// As Linux says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the caller's argument.
    let made = unsafe { next!(epoll_create: fn(c_int) -> c_int)(size) };
    note(made);
    made
}

/// # Safety
/// As Linux says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the caller's argument.
    let made = unsafe { next!(epoll_create1: fn(c_int) -> c_int)(flags) };
    note(made);
    made
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(descriptor: c_int) -> c_int {
    // SAFETY: the caller's argument.
    let made = unsafe { next!(dup: fn(c_int) -> c_int)(descriptor) };
    note_copy(descriptor, made);
    made
}
