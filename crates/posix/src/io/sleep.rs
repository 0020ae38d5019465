//! Sleeping and yielding.

use super::{Pause, after, in_handler, ours_or_handlers};
use crate::os::{c, deadline, deadline_after, failed, reach, set_errno, system_call};
use crate::process::{dump_signal, kernel_waits, watch};
use crate::thread::caller::Caller;
use raddle_macros::entry;
use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

#[entry]
pub unsafe extern "C-unwind" fn sched_yield() -> c_int {
    give_way();
    0
}

/// Lets others run: a thread of the same processor, and, where none is ready or a kernel thread of the program may want
/// the core, one that waits for it. Otherwise threads that yield to each other until the program's first thread has
/// done something would keep it from a core for a slice of the kernel's each time.
pub(crate) fn give_way() {
    let another_ran = if raddle::drop_in::is_lightweight() {
        raddle::drop_in::yield_now()
    } else {
        // A handler that waits so, in a world that is stopped, say.
        watch::as_thread(Caller::here(), None, |_| raddle::drop_in::yield_now()).unwrap_or(false)
    };
    if !another_ran || raddle::drop_in::kernel_thread_wants_a_core() && is_first_of_round() {
        // SAFETY: takes nothing, and does not fail.
        unsafe { system_call(c::SYS_sched_yield, [0; 6]) };
    }
}

/// How often threads that yield to each other have asked the kernel, on the cores of one number modulo [`CORES`].
#[repr(align(64))]
struct Asked(AtomicU32);

/// The counters. Cores that share one ask in each other's stead.
const CORES: usize = 64;
static ASKED: [Asked; CORES] = [const { Asked(AtomicU32::new(0)) }; CORES];

thread_local! {
    /// What that was when the calling thread gave way last.
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

/// Of the threads that yield to each other on a core one asks the kernel in each round: true for who comes back without
/// another one having asked since it gave way last. A mistake, as after a move to another core, lasts for one round.
fn is_first_of_round() -> bool {
    let asked = &ASKED[raddle::drop_in::core() % CORES].0;
    let count = asked.load(Ordering::Relaxed);
    let is_first = SEEN.get() == count;
    let count = count.wrapping_add(u32::from(is_first));
    if is_first {
        asked.store(count, Ordering::Relaxed);
    }
    SEEN.set(count);
    is_first
}

/// Sleeps until a point of CLOCK_MONOTONIC: 0 or an error number; what is left goes to `left`.
fn sleep_until(caller: Caller, end: u64, left: *mut c::timespec) -> c_int {
    let slept = watch::wait(caller, 0, || Pause::begin().until(end), |_| in_kernel(end));
    if watch::tell(slept) == Pause::OVER {
        return 0;
    }
    if !left.is_null() {
        let rest = end.saturating_sub(crate::os::now(c::CLOCK_MONOTONIC));
        // SAFETY: the caller's place for it.
        unsafe {
            (*left).tv_sec = (rest / 1_000_000_000) as c::time_t;
            (*left).tv_nsec = (rest % 1_000_000_000) as c::c_long;
        }
    }
    c::EINTR
}

/// The same for a handler: the kernel thread sleeps.
fn in_kernel(end: u64) -> isize {
    in_handler(Some(end), |left| {
        let left = left.map_or(0, |time| super::at(time));
        // SAFETY: the kernel reads a time.
        unsafe { kernel_waits::attempt(c::SYS_nanosleep, [left, 0, 0, 0, 0, 0]) }
    })
}

/// A kernel thread of the program's own goes on sleeping for so long.
///
/// # Safety
/// `left` is null or a place for a time.
unsafe fn sleep_on(time: Option<&c::timespec>, left: *mut c::timespec) -> c_int {
    let time = time.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a time, or null, which is an error; the caller's place.
    unsafe { next!(nanosleep: fn(*const c::timespec, *mut c::timespec) -> c_int)(time, left) }
}

#[entry]
pub unsafe extern "C-unwind" fn nanosleep(time: *const c::timespec, left: *mut c::timespec) -> c_int {
    let reachable = |_: &Caller| reach::reads(time) && reach::writes_or_null(left);
    let Some(caller) = ours_or_handlers().filter(reachable) else {
        // SAFETY: the caller's place, which the kernel has found to be one, or has to refuse.
        let again = |time: Option<&c::timespec>| unsafe { sleep_on(time, left) };
        return dump_signal::uncut(dump_signal::limit(time), || natively!(), again);
    };
    // SAFETY: the caller's time.
    let error = match unsafe { deadline_after(&*time) } {
        Ok(end) => sleep_until(caller, end, left),
        Err(error) => error,
    };
    failed(error)
}

#[entry]
pub unsafe extern "C-unwind" fn clock_nanosleep(
    clock: c::clockid_t,
    flags: c_int,
    time: *const c::timespec,
    left: *mut c::timespec,
) -> c_int {
    let reachable = || reach::reads(time) && (flags & c::TIMER_ABSTIME != 0 || reach::writes_or_null(left));
    let known = [c::CLOCK_MONOTONIC, c::CLOCK_REALTIME, c::CLOCK_BOOTTIME, c::CLOCK_TAI].contains(&clock);
    let Some(caller) = ours_or_handlers().filter(|_| known && reachable()) else {
        if !dump_signal::is_caught() {
            return natively!();
        }
        // SAFETY: the C library's place for it, in the calling thread's own storage: this call leaves it alone.
        let errno = unsafe { *c::__errno_location() };
        // In the form of the others: -1 and EINTR.
        let form = |error| if error == c::EINTR { failed(error) } else { error };
        let next = next!(clock_nanosleep: fn(c::clockid_t, c_int, *const c::timespec, *mut c::timespec) -> c_int);
        // SAFETY: the caller's arguments, or of the time what is left of it.
        let call = |time| form(unsafe { next(clock, flags, time, left) });
        let again = |rest: Option<&c::timespec>| match rest.filter(|_| flags & c::TIMER_ABSTIME == 0) {
            Some(rest) => call(std::ptr::from_ref(rest)),
            None => call(time),
        };
        let result = dump_signal::uncut(dump_signal::limit(time), || call(time), again);
        set_errno(errno);
        return if result == -1 { c::EINTR } else { result };
    };
    // SAFETY: the caller's time.
    let time = unsafe { &*time };
    if flags & c::TIMER_ABSTIME == 0 {
        return deadline_after(time).map_or_else(|error| error, |end| sleep_until(caller, end, left));
    }
    if time.tv_sec < 0 {
        return c::EINVAL;
    }
    deadline(clock, time).map_or_else(|error| error, |end| sleep_until(caller, end, std::ptr::null_mut()))
}

#[entry]
pub unsafe extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    let mut left = c::timespec { tv_sec: 0, tv_nsec: 0 };
    let Some(caller) = ours_or_handlers() else {
        if !dump_signal::is_caught() {
            return natively!();
        }
        let time = c::timespec { tv_sec: seconds.into(), tv_nsec: 0 };
        let limit = Some(u64::from(seconds) * 1_000_000_000);
        let place = &raw mut left;
        // SAFETY: a place on the stack.
        let wait = |time: Option<&c::timespec>| unsafe { sleep_on(time, place) };
        let slept = dump_signal::uncut(limit, || wait(Some(&time)), wait);
        return if slept == 0 { 0 } else { left.tv_sec as c_uint };
    };
    match sleep_until(caller, after(u64::from(seconds) * 1_000_000_000), &raw mut left) {
        0 => 0,
        error => {
            set_errno(error);
            // Whole seconds, as the C library tells.
            left.tv_sec as c_uint
        }
    }
}

#[entry]
pub unsafe extern "C-unwind" fn usleep(microseconds: c::useconds_t) -> c_int {
    let Some(caller) = ours_or_handlers() else {
        // SAFETY: null.
        let again = |time: Option<&c::timespec>| unsafe { sleep_on(time, std::ptr::null_mut()) };
        return dump_signal::uncut(Some(u64::from(microseconds) * 1000), || natively!(), again);
    };
    failed(sleep_until(caller, after(u64::from(microseconds) * 1000), std::ptr::null_mut()))
}

aliases! {
    __sched_yield = sched_yield() -> c_int;
    __nanosleep = nanosleep(time: *const c::timespec, left: *mut c::timespec) -> c_int;
}
