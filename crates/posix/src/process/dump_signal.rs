//! The signal that has all threads dumped (`--dump-on`): it ends no wait of the program's but for those named below.
//!
//! The kernel gives it to any kernel thread that does not block it, the program's first one preferred. Lightweight
//! threads go on waiting as after any signal of ours. On the program's own kernel threads the calls that no handler
//! restarts (`pause`, sleeps, `poll` and its kin, waits for signals) would end with EINTR, of which a program that
//! knows of no handler need not think: they are repeated here for what is left of their time.
//!
//! Not known here: system calls that the program makes by their numbers, calls on sockets with a time limit,
//! `sem_timedwait` and `aio_suspend`.

use super::{signals, watch};
use crate::io::left;
use crate::os::{answer, c, errno, now, reach, set_errno};
use std::ffi::{CString, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A signal does so. Relaxed: set before the program's own code runs, or by the thread that starts the runtime; who
/// does not see it yet waits as natively.
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// How often it has come to any thread. The kernel wakes one for a signal to the process, and another one may take it
/// from there, if it changes its mask just then: then `epoll_wait`, `semop` and the like end with EINTR on the first,
/// without a handler.
static TIMES: AtomicU32 = AtomicU32::new(0);

/// How often the signal for a dump has come to the process.
pub(super) fn times() -> u32 {
    TIMES.load(Ordering::Relaxed)
}

/// Whether a signal has all threads dumped, and waits of kernel threads are to be repeated after it.
#[inline]
pub(crate) fn is_caught() -> bool {
    CAUGHT.load(Ordering::Relaxed)
}

/// Has a signal dump all threads. For the kernel only: the program sees no handler of its own change, and may take the
/// signal for itself.
pub(crate) fn catch(signal: c_int) {
    // SAFETY: zeroes are an action; the handler counts, stores, and makes a futex call.
    let result = unsafe {
        let mut action: c::sigaction = std::mem::zeroed();
        action.sa_sigaction = asked as *const () as usize;
        action.sa_flags = c::SA_RESTART | c::SA_ONSTACK;
        next!(sigaction: fn(c_int, *const c::sigaction, *mut c::sigaction) -> c_int)(
            signal,
            &action,
            std::ptr::null_mut(),
        )
    };
    if result != 0 {
        let line = format!("raddle: RADDLE_DUMP_ON: signal {signal} cannot be caught\n");
        crate::os::say(&CString::new(line).unwrap_or_default());
        return;
    }
    CAUGHT.store(true, Ordering::Relaxed);
}

/// Needs nothing of the interrupted code, whose registers it leaves alone.
extern "C" fn asked(signal: c_int) {
    TIMES.fetch_add(1, Ordering::Relaxed);
    signals::count_kick();
    raddle::drop_in::dump_handler()(signal);
}

/// A wait of the C library's on a kernel thread of the program's own, which answers -1 and EINTR after any handler. It
/// lasts so many nanoseconds, or without end (`None`, in both). `again` waits for what is left while nothing but that
/// signal has ended it.
#[inline]
pub(crate) fn uncut(
    nanoseconds: Option<u64>,
    first: impl FnOnce() -> c_int,
    again: impl FnMut(Option<&c::timespec>) -> c_int,
) -> c_int {
    if is_caught() { repeat(nanoseconds, first, again) } else { first() }
}

#[cold]
fn repeat(
    nanoseconds: Option<u64>,
    first: impl FnOnce() -> c_int,
    mut again: impl FnMut(Option<&c::timespec>) -> c_int,
) -> c_int {
    let end = nanoseconds.map(|time| now(c::CLOCK_MONOTONIC).saturating_add(time));
    let before = errno();
    let mut first = Some(first);
    let waited = watch::uncut(|| {
        let result = match first.take() {
            Some(first) => first(),
            None => {
                // What succeeds now leaves it as it was.
                set_errno(before);
                again(left(end).as_ref())
            }
        };
        if result == -1 { -(errno() as isize) } else { result as isize }
    });
    answer(waited) as c_int
}

/// So long a caller waits at most, if anybody is to know: `None` also for a time that the kernel refuses.
pub(crate) fn limit(time: *const c::timespec) -> Option<u64> {
    if !is_caught() || !reach::reads(time) {
        return None;
    }
    // SAFETY: it can be read, and is the caller's time.
    let time = unsafe { &*time };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).ok()?))
}
