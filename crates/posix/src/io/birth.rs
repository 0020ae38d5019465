//! Where descriptors come from: calls that make them, told to the reactor, which then need not ask the kernel anew at
//! each wait.
//!
//! What comes otherwise (received in a message, opened, inherited) has no known birth and is asked about each time.

use super::kind;
use raddle_macros::entry;
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
        // Of one whose birth was not seen it is asked by any of its names.
        if raddle::io::known_life(old).is_none() {
            kind::Kind::of(old);
        }
        note(made);
        kind::share(old);
        kind::share(made);
        // Pairs with the one in `flags::setting`.
        fence(Ordering::SeqCst);
    }
}

#[entry]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let made = natively!();
    note(made);
    made
}

#[entry]
pub unsafe extern "C-unwind" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    let result = natively!();
    // SAFETY: the caller's place for two numbers, which the C library has filled.
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

#[entry]
pub unsafe extern "C-unwind" fn pipe(pair: *mut c_int) -> c_int {
    let result = natively!();
    // SAFETY: the caller's place for two numbers, which the C library has filled.
    unsafe { note_pair(result, pair) }
}

#[entry]
pub unsafe extern "C-unwind" fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    let result = natively!();
    // SAFETY: the caller's place for two numbers, which the C library has filled.
    unsafe { note_pair(result, pair) }
}

#[entry]
pub unsafe extern "C-unwind" fn eventfd(value: c_uint, flags: c_int) -> c_int {
    let made = natively!();
    note(made);
    made
}

#[entry]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    let made = natively!();
    note(made);
    made
}

#[entry]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    let made = natively!();
    note(made);
    made
}

#[entry]
pub unsafe extern "C-unwind" fn dup(descriptor: c_int) -> c_int {
    let made = natively!();
    note_copy(descriptor, made);
    made
}

aliases! {
    __socket = socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    __pipe = pipe(pair: *mut c_int) -> c_int;
}
