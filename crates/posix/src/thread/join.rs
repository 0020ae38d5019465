//! Joining and detaching.

use super::caller::Caller;
use super::cancel;
use super::record::{DETACHED, Held, JOINABLE, JOINING, Record};
use super::undo::Undo;
use crate::futex::{For, Woken};
use crate::os::{self, c};
use crate::process::{kernel_waits, watch};
use raddle::sync::WaitError;
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

/// How long a join waits.
#[derive(Clone, Copy)]
enum Until {
    Ended,
    Deadline(u64),
    /// Not at all: EBUSY.
    Now,
}

impl Until {
    /// What a thread is answered that joins itself.
    fn of_itself(self) -> c_int {
        if let Until::Now = self { c::EBUSY } else { c::EDEADLK }
    }
}

/// Joins a thread of ours: an error number, or 0 with its result stored. `None`: the caller was cancelled, and the
/// thread is as joinable as before.
fn join(target: Held, until: Until, value: *mut *mut c_void) -> Option<c_int> {
    if target.is_current() {
        return Some(until.of_itself());
    }
    if target.state.compare_exchange(JOINABLE, JOINING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Some(c::EINVAL);
    }
    let undo = Undo::new(|| target.state.store(JOINABLE, Ordering::Release));
    // The creator stores the handle right after it has told the id to others.
    let awaited = target.request.await_handle(|word, expected| {
        let deadline = match until {
            Until::Now => return Err(c::EBUSY),
            Until::Deadline(at) => Some(at),
            Until::Ended => None,
        };
        match crate::futex::wait(For::AnEnd, crate::futex::plain(word), expected, deadline, false) {
            Woken::TimedOut => Err(c::ETIMEDOUT),
            _ => Ok(()),
        }
    });
    let raw = match awaited {
        Ok(raw) => raw,
        Err(error) => {
            undo.forget();
            target.state.store(JOINABLE, Ordering::Release);
            return Some(error);
        }
    };
    // SAFETY: the record is held, so its handle lives; this copy of it is not dropped.
    let handle = ManuallyDrop::new(unsafe { raddle::JoinHandle::<()>::from_raw(raw) });
    let waited = match until {
        Until::Now if !handle.is_finished() => Err(c::EBUSY),
        Until::Now => Ok(()),
        Until::Deadline(at) => wait(&handle, Some(at)),
        Until::Ended => wait(&handle, None),
    };
    undo.forget();
    if let Err(error) = waited {
        target.state.store(JOINABLE, Ordering::Release);
        return (error != 0).then_some(error);
    }
    if !value.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *value = target.result.load(Ordering::Relaxed) };
    }
    // The right to join is used up.
    target.release_with_right();
    Some(0)
}

/// Waits for a thread's end: 0 or an error number, which is 0 for a cancellation.
fn wait(handle: &raddle::JoinHandle<()>, deadline: Option<u64>) -> Result<(), c_int> {
    let caller = Caller::here();
    if let Some(waited) = watch::as_thread(caller, None, |_| handle.wait(deadline, true)) {
        return waited.map_err(error);
    }
    if matches!(caller, Caller::Light(_)) {
        return handle.wait(deadline, true).map_err(error);
    }
    if Record::current().is_none() {
        let is_cancelled = |error: &WaitError| *error == WaitError::Cancelled;
        let waited = kernel_waits::of_runtime(|| handle.wait(deadline, true), is_cancelled);
        return waited.unwrap_or(Err(WaitError::Cancelled)).map_err(error);
    }
    // In a handler that cannot wait as its thread does, or on a kernel thread of its own: nobody ends this wait.
    loop {
        if cancel::is_requested_here() {
            return Err(0);
        }
        let soon = os::now(c::CLOCK_MONOTONIC) + os::LOOK_AGAIN_NS;
        let until = deadline.map_or(soon, |at| at.min(soon));
        match handle.wait(Some(until), true) {
            Err(WaitError::TimedOut) if Some(until) != deadline => {}
            waited => return waited.map_err(error),
        }
    }
}

/// 0 for a cancellation.
fn error(error: WaitError) -> c_int {
    match error {
        WaitError::TimedOut => c::ETIMEDOUT,
        WaitError::Cancelled => 0,
    }
}

/// # Safety
/// `id` is one of ours; `value` null or writable.
unsafe fn join_ours(id: c::pthread_t, until: Until, value: *mut *mut c_void) -> c_int {
    cancel::point();
    loop {
        // SAFETY: an id of ours.
        let Some(target) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
        match join(target, until, value) {
            Some(result) => return result,
            None => cancel::point(),
        }
    }
}

/// Joins the program's first thread, whose kernel thread goes on after its end: an error number, or 0 with its result
/// stored. `None`: `id` is another thread, or there are no lightweight ones.
#[inline]
fn join_first(id: c::pthread_t, until: Until, value: *mut *mut c_void) -> Option<c_int> {
    super::exit::first_thread(id).map(|first| join_the_first(&first, until, value))
}

fn join_the_first(first: &super::exit::First, until: Until, value: *mut *mut c_void) -> c_int {
    if super::exit::is_first() {
        return until.of_itself();
    }
    if !matches!(until, Until::Now) {
        cancel::point();
    }
    if first.joined.compare_exchange(JOINABLE, JOINING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return c::EINVAL;
    }
    let deadline = if let Until::Deadline(at) = until { Some(at) } else { None };
    loop {
        // Acquire: pairs with the end of the first thread.
        if first.ended.load(Ordering::Acquire) != 0 {
            break;
        }
        if matches!(until, Until::Now) {
            first.joined.store(JOINABLE, Ordering::Release);
            return c::EBUSY;
        }
        let undo = Undo::new(|| first.joined.store(JOINABLE, Ordering::Release));
        let woken = crate::futex::wait(For::AnEnd, first.ended, 0, deadline, true);
        undo.forget();
        match woken {
            Woken::TimedOut => {
                first.joined.store(JOINABLE, Ordering::Release);
                return c::ETIMEDOUT;
            }
            Woken::Cancelled => {
                first.joined.store(JOINABLE, Ordering::Release);
                cancel::point();
                // It ends already.
                if first.joined.compare_exchange(JOINABLE, JOINING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    return c::EINVAL;
                }
            }
            _ => {}
        }
    }
    if !value.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *value = first.result.load(Ordering::Relaxed) };
    }
    0
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_join(id: c::pthread_t, value: *mut *mut c_void) -> c_int {
    if let Some(result) = join_first(id, Until::Ended, value) {
        return result;
    }
    if !Record::is_ours(id) {
        return natively!();
    }
    // SAFETY: the caller's arguments.
    unsafe { join_ours(id, Until::Ended, value) }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_tryjoin_np(id: c::pthread_t, value: *mut *mut c_void) -> c_int {
    if let Some(result) = join_first(id, Until::Now, value) {
        return result;
    }
    if !Record::is_ours(id) {
        return natively!();
    }
    // SAFETY: an id of ours.
    match unsafe { Record::hold(id) } {
        Some(target) => join(target, Until::Now, value).unwrap_or(c::EBUSY),
        None => c::ESRCH,
    }
}

#[entry(if Record::is_ours(id) || super::exit::first_thread(id).is_some())]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    id: c::pthread_t,
    value: *mut *mut c_void,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { join_until(id, value, c::CLOCK_REALTIME, time) }
}

#[entry(if Record::is_ours(id) || super::exit::first_thread(id).is_some())]
pub unsafe extern "C-unwind" fn pthread_clockjoin_np(
    id: c::pthread_t,
    value: *mut *mut c_void,
    clock: c::clockid_t,
    time: *const c::timespec,
) -> c_int {
    if clock != c::CLOCK_REALTIME && clock != c::CLOCK_MONOTONIC {
        return c::EINVAL;
    }
    // SAFETY: the caller's arguments.
    unsafe { join_until(id, value, clock, time) }
}

/// # Safety
/// `id` is one of ours, or the first thread's; `value` null or writable, `time` null (no end) or readable.
unsafe fn join_until(
    id: c::pthread_t,
    value: *mut *mut c_void,
    clock: c::clockid_t,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: null or a time, readable during the call.
    let until = match unsafe { time.as_ref() } {
        None => Until::Ended,
        // What is no time: as the C library, which then tries until the end.
        Some(time) if time.tv_sec < 0 => Until::Deadline(0),
        Some(time) => os::deadline(clock, time).map_or(Until::Ended, Until::Deadline),
    };
    // SAFETY: an id of the program's, and null or a place for the result.
    join_first(id, until, value).unwrap_or_else(|| unsafe { join_ours(id, until, value) })
}

#[entry]
pub unsafe extern "C" fn pthread_detach(id: c::pthread_t) -> c_int {
    if !Record::is_ours(id) {
        let result = natively!();
        if result == 0
            && let Some(first) = super::exit::first_thread(id)
        {
            first.joined.store(DETACHED, Ordering::Relaxed);
        }
        return result;
    }
    // SAFETY: an id of ours.
    let Some(target) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    if target.state.compare_exchange(JOINABLE, DETACHED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return c::EINVAL;
    }
    if let Some(first) = super::exit::first_thread(id) {
        first.joined.store(DETACHED, Ordering::Relaxed);
    }
    // The right to join is given up.
    target.release_with_right();
    0
}
