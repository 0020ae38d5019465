//! Locks and what goes with them, in the program's own memory.
//!
//! Each object keeps the C library's size, its static initialisers and the fields that its `init` function fills in
//! (kind, clock, process-shared), so that `init`, attributes and most `destroy` functions stay the C library's. What is
//! left of its memory holds our own state, all zeros in a fresh object. Lightweight and kernel threads use the same
//! words; they sleep through [`crate::futex`].
//!
//! An operation that finds its object free touches only the object: who calls (a look into thread-local storage) is
//! asked when it must wait. Objects shared with other processes, robust and priority-protected mutexes go on to the C
//! library (`docs/decisions/0005-drop-in.md`).

mod barrier;
mod c11;
pub(crate) mod ceiling;
mod cond;
mod futex_call;
mod mutex;
mod once;
mod rwlock;
mod sem;
mod spin;
mod starving;

pub(crate) use once::forked;

use crate::os::{self, c};
use std::ffi::c_int;

/// An absolute time as a deadline, read when the caller must wait.
#[derive(Clone, Copy)]
pub(crate) struct Until {
    clock: c::clockid_t,
    time: *const c::timespec,
}

impl Until {
    /// Without end.
    pub const NEVER: Self = Self { clock: c::CLOCK_REALTIME, time: std::ptr::null() };

    /// `Err(EINVAL)` for a clock that cannot be waited on.
    ///
    /// # Safety
    /// `time` is null or stays readable as long as the value is used.
    pub unsafe fn new(clock: c::clockid_t, time: *const c::timespec) -> Result<Self, c_int> {
        match clock {
            c::CLOCK_REALTIME | c::CLOCK_MONOTONIC => Ok(Self { clock, time }),
            _ => Err(c::EINVAL),
        }
    }

    /// As [`Until::new`], and `Err(EINVAL)` for what is no time.
    ///
    /// # Safety
    /// As for [`Until::new`].
    pub unsafe fn checked(clock: c::clockid_t, time: *const c::timespec) -> Result<Self, c_int> {
        // SAFETY: null, or a time that is readable as long as the answer is used.
        let until = unsafe { Self::new(clock, time)? };
        until.deadline()?;
        Ok(until)
    }

    /// Whether it lies before its clock's first second.
    pub fn is_before_all(self) -> bool {
        // SAFETY: null or readable, by the promise to `new`.
        unsafe { self.time.as_ref() }.is_some_and(|time| time.tv_sec < 0)
    }

    /// In nanoseconds of CLOCK_MONOTONIC; `Err(EINVAL)` for what is no time.
    pub fn deadline(self) -> Result<Option<u64>, c_int> {
        // SAFETY: null or readable, by the promise to `new`.
        let time = unsafe { self.time.as_ref() };
        time.map(|time| os::deadline(self.clock, time)).transpose()
    }
}

/// The body of an entry point that answers with an error number, written with `?`.
pub(crate) fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}
