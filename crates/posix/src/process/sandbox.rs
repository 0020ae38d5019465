//! Sandboxes that a program puts itself in: its filter may kill for a system call that it does not know, and it does not know the runtime's.
//!
//! What the runtime can do without it does without from here on: rings. (epoll, futex and the signals between its kernel threads it needs.)

use crate::os::c;
use std::ffi::c_int;

/// The program installs a filter of system calls.
pub(crate) fn begins() {
    raddle::io::switch_off();
}

/// # Safety
/// As Linux says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    if option == c::PR_SET_SECCOMP {
        begins();
    }
    // The C library's takes any number of arguments, and passes four on in the same registers.
    // SAFETY: the caller's arguments.
    unsafe { next!(prctl: fn(c_int, usize, usize, usize, usize) -> c_int)(option, a, b, c, d) }
}
