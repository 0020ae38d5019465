//! Signals that a system call sends to whoever makes it: SIGPIPE and SIGXFSZ.
//!
//! The kernel sends such a signal to the kernel thread, and does not know what the lightweight thread on it blocks.
//! Where the program has a handler, ours leaves the signal with the thread ([`super::process_directed::not_here`]), for
//! which it is pending then, as natively. Where the action is the default one the kernel would end the process, though
//! the thread blocks the signal, looks whether one is pending, and takes it, as libraries do that write to sockets. So
//! from the first thread on that blocks such a signal a handler of ours stands in the default action's place
//! ([`is_blocked`]); where the signal is let in it ends the process as the default would ([`ends`]).

use super::actions;
use super::info::Info;
use super::signals::{self, Set, bit};
use crate::os::{c, system_call};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// These signals.
const OWN_CALLS: Set = bit(c::SIGPIPE) | bit(c::SIGXFSZ);

/// Those that a thread has blocked, which have no default action in the kernel from then on.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// A lightweight thread comes to block these, or blocks them already.
#[inline]
pub(crate) fn is_blocked(set: Set) {
    let set = set & OWN_CALLS;
    if set & !BLOCKED.load(Ordering::Relaxed) != 0 {
        replace(set);
    }
}

#[cold]
fn replace(set: Set) {
    for signal in [c::SIGPIPE, c::SIGXFSZ] {
        if set & bit(signal) != 0 && BLOCKED.fetch_or(bit(signal), Ordering::SeqCst) & bit(signal) == 0 {
            actions::replace_default(signal);
        }
    }
}

/// Whether a default action that the program asks for is to be ours.
pub(super) fn is_replaced(signal: c_int) -> bool {
    OWN_CALLS & bit(signal) & BLOCKED.load(Ordering::SeqCst) != 0
}

/// What stands in the default action's place, as a handler of the program's would.
pub(super) fn handler() -> usize {
    ends as *const () as usize
}

/// Whether a system call of the kernel thread that has met the signal has sent it, by all that is told of it.
pub(super) fn is_of_a_call(info: &Info) -> bool {
    (1..=64).contains(&info.signal)
        && OWN_CALLS & bit(info.signal) != 0
        && info.code == c::SI_USER
        // SAFETY: takes nothing.
        && info.sender() == unsafe { system_call(c::SYS_getpid, [0; 6]) } as c_int
}

/// The default action. Makes system calls only: it may run in the child of a `vfork`.
unsafe extern "C-unwind" fn ends(signal: c_int, _: *mut c_void, _: *mut c_void) {
    actions::to_default(signal);
    signals::unblock(bit(signal));
    // SAFETY: take integers. The signal ends the process here, unless the program has set another action just now.
    unsafe {
        let (process, task) = (system_call(c::SYS_getpid, [0; 6]), system_call(c::SYS_gettid, [0; 6]));
        system_call(c::SYS_tgkill, [process as usize, task as usize, signal as usize, 0, 0, 0]);
    }
}
