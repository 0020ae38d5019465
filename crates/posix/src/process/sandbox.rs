//! Sandboxes that a program puts itself in: its filter may kill for a system call that it does not know, and it does
//! not know the runtime's.
//!
//! What the runtime can do without it does without from here on: rings, and one call for the memory of many stacks.
//! (epoll, futex and the signals between its kernel threads it needs.)

/// The program installs a filter of system calls.
pub(crate) fn begins() {
    raddle::io::switch_off();
    raddle::drop_in::has_filters();
}
