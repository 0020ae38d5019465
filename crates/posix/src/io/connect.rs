//! Beginnings of connections: `accept` and `connect`.
//!
//! The kernel has no form of either that does not block by the call rather than by the descriptor.
//!
//! - `accept` looks with `poll` before. Between the look and the call another acceptor may take what was there, and the
//!   call would block: so one thread at a time accepts from a socket, and who finds another at it waits for the next
//!   event. That is no lock: who has met others a few times goes ahead, and blocks at worst.
//! - `connect` asks the socket for a time limit of one tick of the kernel's clock for the moment (the option
//!   SO_SNDTIMEO, put back at once; no flag is touched): the call then ends with EINPROGRESS, the reactor waits for the
//!   end of it, and SO_ERROR tells it. A connection that is made at once (loopback, mostly) does not wait for the tick.
//!   A limit of the program's own is kept here, and put back: in the kernel, a signal of ours would end the call.

use super::birth::note;
use super::kind::Kind;
use super::{CANCELLED, EAGAIN, EBADF, EINTR, Pause, Told};
use super::{after, at, blocking, done, is_nonblocking, left, ours, stream};
use crate::os::{c, now, system_call};
use crate::process::kernel_waits;
use raddle::io::{Failure, Interest};
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering};

const EINPROGRESS: isize = -(c::EINPROGRESS as isize);
const EALREADY: isize = -(c::EALREADY as isize);

#[entry]
pub unsafe extern "C-unwind" fn accept(descriptor: c_int, address: *mut c::sockaddr, size: *mut c::socklen_t) -> c_int {
    if !ours() {
        let made = natively!();
        note(made);
        return made;
    }
    done(accept_from(descriptor, at(address), at(size), 0)) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn accept4(
    descriptor: c_int,
    address: *mut c::sockaddr,
    size: *mut c::socklen_t,
    flags: c_int,
) -> c_int {
    if !ours() {
        let made = natively!();
        note(made);
        return made;
    }
    done(accept_from(descriptor, at(address), at(size), flags)) as c_int
}

/// Sockets with somebody between the look and the call, by descriptor number (a hint: numbers may meet in one place).
static ACCEPTING: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
/// So often another acceptor is waited for.
const COURTESY: u32 = 3;

fn accept_from(descriptor: c_int, address: usize, size: usize, flags: c_int) -> isize {
    // Of a socket that was handed over one asks now: what it accepts has its limits.
    Kind::of(descriptor);
    let arguments = [descriptor as usize, address, size, flags as usize, 0, 0];
    let noted = |result: isize| {
        note(result as c_int);
        result
    };
    // SAFETY: the caller's places for the address; the kernel checks them.
    let call = || noted(unsafe { system_call(c::SYS_accept4, arguments) });
    let limit = || super::close::time_limit(descriptor, Interest::Read);
    // SAFETY: the caller's places for the address; the kernel checks them.
    let in_kernel = || noted(unsafe { kernel_waits::wait_within(c::SYS_accept4, arguments, limit()) });
    // What does not listen has an error to tell, and would not become ready.
    let listens = || option(descriptor, c::SO_ACCEPTCONN) == Some(1);
    let turn = &ACCEPTING[descriptor as usize % ACCEPTING.len()];
    let mut met = 0;
    let attempt = || {
        if !stream::is_ready(descriptor, c::POLLIN) {
            return if listens() { EAGAIN } else { call() };
        }
        // Relaxed: nothing of ours is ordered by it, the kernel's state is what matters.
        let mine = turn.swap(1, Ordering::Relaxed) == 0;
        if !mine && met < COURTESY {
            met += 1;
            raddle::yield_now();
            return EAGAIN;
        }
        let result = if stream::is_ready(descriptor, c::POLLIN) { call() } else { EAGAIN };
        turn.store(0, Ordering::Relaxed);
        result
    };
    blocking(descriptor, Interest::Read, Told::Guessed, attempt, in_kernel)
}

/// A socket's option that is a number.
pub(super) fn option(descriptor: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut size) = (0 as c_int, size_of::<c_int>() as c::socklen_t);
    let arguments =
        [descriptor as usize, c::SOL_SOCKET as usize, name as usize, at(&raw mut value), at(&raw mut size), 0];
    // SAFETY: a place for the answer and its size.
    (unsafe { system_call(c::SYS_getsockopt, arguments) } == 0).then_some(value)
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn connect(descriptor: c_int, address: *const c::sockaddr, size: c::socklen_t) -> c_int {
    done(connect_to(descriptor, address.cast(), size as usize)) as c_int
}

fn connect_to(descriptor: c_int, address: *const c_void, size: usize) -> isize {
    let arguments = [descriptor as usize, at(address), size, 0, 0, 0];
    // SAFETY: the caller's address; the kernel checks it.
    let call = || unsafe { system_call(c::SYS_connect, arguments) };
    let carries_messages =
        option(descriptor, c::SO_TYPE).is_none_or(|kind| kind == c::SOCK_DGRAM || kind == c::SOCK_RAW);
    if carries_messages || is_nonblocking(descriptor) {
        return call();
    }
    let Some(before) = send_limit(descriptor, None) else { return raddle::drop_in::blocking(call) };
    let deadline = nanoseconds(&before).map(after);
    let mut pause = 1_000_000;
    let waits = Pause::begin();
    // With a time limit, as in the kernel, no handler restarts the call.
    let ends = || waits.is_broken() || deadline.is_some() && waits.is_interrupted();
    let over = || deadline.is_some_and(|at| now(c::CLOCK_MONOTONIC) >= at);
    loop {
        let tick = c::timeval { tv_sec: 0, tv_usec: 1 };
        let limited = send_limit(descriptor, Some(tick)).is_some();
        let result = call();
        if limited {
            send_limit(descriptor, Some(before));
        }
        match result {
            _ if !limited => return result,
            // The latter where a signal had ended the call before.
            EINPROGRESS | EALREADY => return connected(arguments, ends, deadline, result),
            // A signal of the runtime's, or one whose handler restarts calls.
            EINTR if !ends() => {
                // One of another kind has begun to connect by now, and says so next.
                if over() && option(descriptor, c::SO_DOMAIN) == Some(c::AF_UNIX) {
                    return EAGAIN;
                }
            }
            // A local socket whose listener's queue is full: there is no event to wait for.
            EAGAIN => {
                // By a handler that ran before the call or after it, too.
                if ends() {
                    return EINTR;
                }
                if over() {
                    return EAGAIN;
                }
                match Pause::begin().until(after(pause).min(deadline.unwrap_or(u64::MAX))) {
                    CANCELLED => return CANCELLED,
                    EINTR if ends() => return EINTR,
                    _ => {}
                }
                pause = (pause * 2).min(50_000_000);
            }
            _ => return result,
        }
    }
}

/// Waits for the end of a connection's beginning, which the call with these arguments has made or met, as `late` says:
/// that is the answer, too, when the deadline has passed. `ends`: a handler has run that ends the call.
fn connected(arguments: [usize; 6], ends: impl Fn() -> bool, deadline: Option<u64>, late: isize) -> isize {
    let descriptor = arguments[0] as c_int;
    let each = |visit: &mut dyn FnMut(c_int, Interest)| visit(descriptor, Interest::Write);
    loop {
        if stream::is_ready(descriptor, c::POLLOUT) {
            raddle::io::pass_on(descriptor, Interest::Write);
            return option(descriptor, c::SO_ERROR).map_or(-(c::EBADF as isize), |error| -(error as isize));
        }
        match raddle::io::wait_for(&each, deadline, true) {
            Ok(()) if ends() => return EINTR,
            Ok(()) => {}
            Err(Failure::TimedOut) => return late,
            Err(Failure::Closed) => {
                // Made again, the call waits for the end of that beginning.
                // SAFETY: the caller's address; the kernel checks it.
                let again = || unsafe { kernel_waits::wait(c::SYS_connect, arguments, true) };
                return super::handover::waits_on(|one| one == descriptor, again).unwrap_or(EBADF);
            }
            Err(Failure::Cancelled) => return CANCELLED,
            Err(Failure::AlwaysReady | Failure::Unsupported) => {
                let mut one = c::pollfd { fd: descriptor, events: c::POLLOUT, revents: 0 };
                let mut time = left(deadline);
                let time = time.as_mut().map_or(0, |time| at(std::ptr::from_mut(time)));
                // SAFETY: one live entry; the time, if there is one, is live, and the kernel writes what is left of it.
                if unsafe { system_call(c::SYS_ppoll, [at(&raw mut one), 1, time, 0, 8, 0]) } == 0 {
                    return late;
                }
            }
        }
    }
}

/// A time limit in nanoseconds, if it is one.
pub(super) fn nanoseconds(time: &c::timeval) -> Option<u64> {
    let all = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000);
    (all > 0).then_some(all)
}

/// Asks for SO_SNDTIMEO, or sets it: the value, or `None` where that failed.
fn send_limit(descriptor: c_int, new: Option<c::timeval>) -> Option<c::timeval> {
    let mut time = new.unwrap_or(c::timeval { tv_sec: 0, tv_usec: 0 });
    let mut size = size_of::<c::timeval>() as c::socklen_t;
    let (number, size) = match new {
        Some(_) => (c::SYS_setsockopt, size as usize),
        None => (c::SYS_getsockopt, at(&raw mut size)),
    };
    let option = [c::SOL_SOCKET as usize, c::SO_SNDTIMEO as usize];
    let arguments = [descriptor as usize, option[0], option[1], at(&raw mut time), size, 0];
    // SAFETY: a live time; the size is its size, or a place that holds it.
    (unsafe { system_call(number, arguments) } == 0).then_some(time)
}

aliases! {
    __connect = connect(descriptor: c_int, address: *const c::sockaddr, size: c::socklen_t) -> c_int;
}
