//! Sleeping on a word of the program's memory, for whoever calls.
//!
//! Lightweight threads sleep in raddle's table, kernel threads in the kernel's, on the same address. A waker asks both: first the
//! table, then, for what is left of its count, the kernel. So a wake-up reaches whoever sleeps there, at the price of a system call where
//! only kernel threads may wait (which they would pay natively).
//!
//! A lightweight thread inside the runtime, and a signal handler that interrupted it, count as kernel threads: the word is
//! the same, so nothing is lost.

use crate::os::{c, system_call};
use std::sync::atomic::{AtomicU32, Ordering};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It is worth looking again.
    LookAgain,
    /// The deadline has passed.
    TimedOut,
    /// The calling thread's cancellation was requested (only with `cancellable`).
    Cancelled,
}

/// Blocks the caller while `*word == expected`: until a wake-up, the deadline (nanoseconds of CLOCK_MONOTONIC), with `cancellable`
/// its cancellation, a signal or for no reason.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>, cancellable: bool) -> Woken {
    if raddle::drop_in::is_lightweight() {
        // Acquire: pairs with the release of whoever changed the word.
        let changed = || word.load(Ordering::Acquire) != expected;
        let waited = raddle::drop_in::wait_at(word.as_ptr().addr(), deadline, cancellable, changed);
        return match waited {
            Ok(()) => Woken::LookAgain,
            Err(raddle::sync::WaitError::TimedOut) => Woken::TimedOut,
            Err(raddle::sync::WaitError::Cancelled) => Woken::Cancelled,
        };
    }
    let time = deadline.map(|at| c::timespec {
        tv_sec: (at / 1_000_000_000) as c::time_t,
        tv_nsec: (at % 1_000_000_000) as c::c_long,
    });
    let time = time.as_ref().map_or(0, |time| std::ptr::from_ref(time).addr());
    let operation = (c::FUTEX_WAIT_BITSET | c::FUTEX_PRIVATE_FLAG) as usize;
    let any = c::FUTEX_BITSET_MATCH_ANY as u32 as usize;
    // SAFETY: the word is live, the time null or live (absolute and monotonic with FUTEX_WAIT_BITSET).
    let result =
        unsafe { system_call(c::SYS_futex, [word.as_ptr().addr(), operation, expected as usize, time, 0, any]) };
    if result == -(c::ETIMEDOUT as isize) { Woken::TimedOut } else { Woken::LookAgain }
}

/// Wakes at most `count` of those who sleep at `address`, of both kinds, and says how many. The caller has changed the word; it may be gone
/// already: the address is only a name.
pub(crate) fn wake(address: usize, count: usize) -> usize {
    let woken = raddle::drop_in::waker_at(address).wake(count);
    if woken == count {
        return woken;
    }
    let rest = (count - woken).min(i32::MAX as usize);
    let operation = (c::FUTEX_WAKE | c::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the address is a name only.
    let more = unsafe { system_call(c::SYS_futex, [address, operation, rest, 0, 0, 0]) };
    woken + more.max(0) as usize
}
