//! Waiting for many descriptors: `poll`, `epoll_wait`, and what [`super::select`] stands on.
//!
//! A look without waiting comes first, by the kernel's own call, so all results and errors are the kernel's. When
//! nothing is ready, the thread waits for all of them at once in the reactor, and looks again. What the reactor cannot
//! express (urgent data, or the mere end of a connection) is put into an epoll set for the time of the call, and the
//! thread waits for that set. A set of the program's own is waited for in the same way, unless the thread does nothing
//! else all the time ([`super::apart`]).
//!
//! The signal mask of a call is the thread's until it returns.

use super::{Apart, CANCELLED, EINTR, Pause, after, apart, at, done, handover, in_handler, left, ours_or_handlers};
use crate::os::{c, deadline_after, now, reach, system_call};
use crate::process::{dump_signal, kernel_waits, masked_waits, watch};
use crate::thread::caller::Caller;
use raddle::io::{Failure, Glance, Interest};
use raddle_macros::entry;
use std::cell::Cell;
use std::ffi::{c_int, c_short, c_void};

pub(super) const NOW: c::timespec = c::timespec { tv_sec: 0, tv_nsec: 0 };
/// Bytes of the kernel's signal set.
pub(super) const MASK: usize = 8;
const IN: c_short = c::POLLIN | c::POLLRDNORM;
const OUT: c_short = c::POLLOUT | c::POLLWRNORM;

/// An epoll set for one call.
pub(super) struct Nested(c_int);

impl Nested {
    fn new(entries: &[c::pollfd]) -> Option<Self> {
        // SAFETY: flags only.
        let set = unsafe { system_call(c::SYS_epoll_create1, [c::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0]) };
        if set < 0 {
            return None;
        }
        let nested = Nested(set as c_int);
        for entry in entries.iter().filter(|entry| entry.fd >= 0) {
            let same = entries.iter().filter(|other| other.fd == entry.fd);
            let events = same.fold(0, |events, other| events | other.events as u16);
            let event = c::epoll_event { events: u32::from(events), u64: 0 };
            let add = [set as usize, c::EPOLL_CTL_ADD as usize, entry.fd as usize, at(&raw const event), 0, 0];
            // SAFETY: a live event. Entries that come twice or can never change are refused, which is right.
            unsafe { system_call(c::SYS_epoll_ctl, add) };
        }
        Some(nested)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        // SAFETY: our own descriptor.
        raddle::io::closing(self.0, || unsafe { system_call(c::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) });
    }
}

/// What the reactor waits for in place of these events; `None` where it cannot.
fn interests(events: c_short) -> Option<(bool, bool)> {
    let (read, write) = (events & IN != 0, events & OUT != 0);
    let rest = events & !(IN | OUT | c::POLLERR | c::POLLHUP | c::POLLNVAL);
    // A reader is woken by the end of the other side's writing, which it sees as something to read as well.
    let covered = rest == 0 || rest == c::POLLRDHUP && read;
    (covered && (read || write)).then_some((read, write))
}

/// Waits once until one of the entries may be ready.
pub(super) fn wait_once(
    entries: &[c::pollfd],
    nested: &mut Option<Nested>,
    deadline: Option<u64>,
) -> Result<(), Failure> {
    let direct = entries.iter().filter(|entry| entry.fd >= 0).all(|entry| interests(entry.events).is_some());
    if !direct && nested.is_none() {
        *nested = Some(Nested::new(entries).ok_or(Failure::Unsupported)?);
    }
    let set = nested.as_ref().map(|nested| nested.0);
    let each = |visit: &mut dyn FnMut(c_int, Interest)| {
        if let Some(set) = set {
            return visit(set, Interest::Read);
        }
        for entry in entries.iter().filter(|entry| entry.fd >= 0) {
            let (read, write) = interests(entry.events).unwrap_or_default();
            if read {
                visit(entry.fd, Interest::Read);
            }
            if write {
                visit(entry.fd, Interest::Write);
            }
        }
    };
    let result = raddle::io::wait_for(&each, deadline, true);
    if result.is_ok() && set.is_none() {
        // A look takes nothing away: whoever waits for the same is to see it as well.
        each(&mut |descriptor, interest| raddle::io::pass_on(descriptor, interest));
    }
    result
}

/// Repeats `look` (0: nothing is ready) and waits in between, for descriptors of whose numbers `is_one` tells.
/// `in_kernel` is told how much time is left.
pub(super) fn looks(
    pause: &Pause,
    deadline: Option<u64>,
    mut look: impl FnMut() -> isize,
    mut wait: impl FnMut(Option<u64>) -> Result<(), Failure>,
    is_one: impl Fn(c_int) -> bool,
    mut in_kernel: impl FnMut(Option<&c::timespec>) -> isize,
) -> isize {
    let mut rounds = 0;
    // An event loop that finds something each time never waits.
    raddle::drop_in::take_turns();
    loop {
        let result = look();
        // A signal of ours has met the look, which the kernel then ends, too, though it waits for nothing.
        if result == EINTR && !pause.is_interrupted() {
            continue;
        }
        if result != 0 || deadline.is_some_and(|at| now(c::CLOCK_MONOTONIC) >= at) {
            return result;
        }
        // One that ran in another's turn.
        if pause.is_interrupted() {
            return EINTR;
        }
        rounds += 1;
        let waited = if rounds > super::MOST_VAIN_EVENTS { Err(Failure::Unsupported) } else { wait(deadline) };
        let result = match waited {
            // A handler ends these calls, whether it asks for restarts or not.
            Ok(()) if pause.is_interrupted() => return EINTR,
            Ok(()) | Err(Failure::TimedOut) => continue,
            Err(Failure::Closed) => match handover::waits_on(&is_one, || in_kernel(left(deadline).as_ref())) {
                Some(result) => result,
                None => continue,
            },
            Err(Failure::Cancelled) => return CANCELLED,
            Err(Failure::AlwaysReady | Failure::Unsupported) => in_kernel(left(deadline).as_ref()),
        };
        if result != EINTR || pause.is_interrupted() {
            return result;
        }
    }
}

/// # Safety
/// `entries` are `count` entries, `mask` is null or a signal set.
unsafe fn poll_until(
    caller: Caller,
    entries: *mut c::pollfd,
    count: usize,
    deadline: Option<u64>,
    mask: usize,
) -> isize {
    let arguments = |time: Option<&mut c::timespec>, mask: usize| {
        // The kernel writes the time that is left.
        let time = time.map_or(0, |time| at(std::ptr::from_mut(time)));
        [at(entries), count, time, mask, MASK, 0]
    };
    let call = |time: Option<&c::timespec>, mask: usize| {
        // SAFETY: the caller's entries; the kernel checks them.
        unsafe { kernel_waits::attempt(c::SYS_ppoll, arguments(time.copied().as_mut(), mask)) }
    };
    let in_kernel = |time: Option<&c::timespec>| {
        // SAFETY: the caller's entries and the local time; the kernel checks them.
        unsafe { kernel_waits::attempt_anywhere(c::SYS_ppoll, arguments(time.copied().as_mut(), 0)) }
    };
    let mut nested = None;
    let given = || {
        // SAFETY: the caller's entries, which a look before this has found readable.
        if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(entries, count) } }
    };
    let wait = |deadline| {
        let entries = given();
        if entries.iter().all(|entry| entry.fd < 0) {
            return sleep(deadline);
        }
        wait_once(entries, &mut nested, deadline)
    };
    let pause = Pause::begin();
    let is_one = |number| given().iter().any(|entry| entry.fd == number);
    let as_thread = || looks(&pause, deadline, || call(Some(&NOW), 0), wait, is_one, in_kernel);
    watch::wait(caller, mask, as_thread, |mask| in_handler(deadline, |left| call(left, mask)))
}

/// Nothing but the time is waited for.
pub(super) fn sleep(deadline: Option<u64>) -> Result<(), Failure> {
    raddle::drop_in::doze_until(deadline.unwrap_or(u64::MAX), true).map(drop).map_err(|_| Failure::Cancelled)
}

/// In nanoseconds, if it is one.
fn limit(milliseconds: c_int) -> Option<u64> {
    u64::try_from(milliseconds).ok().map(|time| time * 1_000_000)
}

fn milliseconds(time: c_int) -> Option<u64> {
    limit(time).map(after)
}

/// What is left, or -1 for a wait without end.
fn in_milliseconds(left: Option<&c::timespec>) -> c_int {
    let round_up = |time: &c::timespec| time.tv_sec * 1000 + (time.tv_nsec + 999_999) / 1_000_000;
    left.map_or(-1, |time| round_up(time).min(i64::from(c_int::MAX)) as c_int)
}

#[entry]
pub unsafe extern "C-unwind" fn poll(entries: *mut c::pollfd, count: c::nfds_t, time: c_int) -> c_int {
    let Some(caller) = ours_or_handlers() else {
        let next = next!(poll: fn(*mut c::pollfd, c::nfds_t, c_int) -> c_int);
        // SAFETY: the caller's arguments, but for the time, which is what is left of it.
        let again = |left: Option<&c::timespec>| unsafe { next(entries, count, in_milliseconds(left)) };
        return dump_signal::uncut(limit(time), || natively!(), again);
    };
    // SAFETY: the caller's entries.
    done(unsafe { poll_until(caller, entries, count as usize, milliseconds(time), 0) }) as c_int
}

/// `poll` with the size of the entries.
#[entry(if size / size_of::<c::pollfd>() >= count as usize)]
pub unsafe extern "C-unwind" fn __poll_chk(
    entries: *mut c::pollfd,
    count: c::nfds_t,
    time: c_int,
    size: usize,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { poll(entries, count, time) }
}

/// The deadline that a call asks for, if it does; `None` where the kernel is to refuse the time or the mask.
pub(super) fn wanted(time: *const c::timespec, mask: *const c::sigset_t) -> Option<Option<u64>> {
    if !(reach::reads_or_null(time) && reach::reads_or_null(mask.cast::<u64>())) {
        return None;
    }
    // SAFETY: the caller's time, or none.
    unsafe { time.as_ref() }.map(deadline_after).transpose().ok()
}

#[entry]
pub unsafe extern "C-unwind" fn ppoll(
    entries: *mut c::pollfd,
    count: c::nfds_t,
    time: *const c::timespec,
    mask: *const c::sigset_t,
) -> c_int {
    match ours_or_handlers().and_then(|caller| Some((caller, wanted(time, mask)?))) {
        Some((caller, deadline)) => {
            // SAFETY: the caller's entries and mask.
            done(unsafe { poll_until(caller, entries, count as usize, deadline, at(mask)) }) as c_int
        }
        _ => {
            let next = next!(ppoll: fn(*mut c::pollfd, c::nfds_t, *const c::timespec, *const c::sigset_t) -> c_int);
            // SAFETY: the caller's arguments, or of the time what is left of it.
            let wait = |time| masked_waits::waiting_in_kernel(mask, || unsafe { next(entries, count, time, mask) });
            dump_signal::uncut(dump_signal::limit(time), || wait(time), |left| wait(at_most(left)))
        }
    }
}

/// As the C library takes it.
pub(super) fn at_most(left: Option<&c::timespec>) -> *const c::timespec {
    left.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// `ppoll` with the size of the entries.
#[entry(if size / size_of::<c::pollfd>() >= count as usize)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    entries: *mut c::pollfd,
    count: c::nfds_t,
    time: *const c::timespec,
    mask: *const c::sigset_t,
    size: usize,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { ppoll(entries, count, time, mask) }
}

/// # Safety
/// `events` has room for `count`, `mask` is null or a signal set.
unsafe fn epoll_until(
    caller: Caller,
    set: c_int,
    events: *mut c_void,
    count: c_int,
    deadline: Option<u64>,
    mask: usize,
) -> isize {
    let arguments = |milliseconds: c_int, mask: usize| {
        [set as usize, at(events), count as usize, milliseconds as usize, mask, MASK]
    };
    // SAFETY: the caller's room for events; the kernel checks it.
    let call = |time: c_int, mask: usize| unsafe { kernel_waits::attempt(c::SYS_epoll_pwait, arguments(time, mask)) };
    let in_kernel = |left: Option<&c::timespec>| {
        // SAFETY: the caller's room for events; the kernel checks it.
        unsafe { kernel_waits::attempt_anywhere(c::SYS_epoll_pwait, arguments(in_milliseconds(left), 0)) }
    };
    let in_handlers = |left: Option<&c::timespec>, mask: usize| call(in_milliseconds(left), mask);
    let glance = Cell::new(Glance::default());
    let mut gathered = raddle::drop_in::gather().filter(|_| !Apart::caller_mixes());
    let look = || loop {
        glance.set(Glance::at(set, Interest::Read));
        let result = call(0, 0);
        let in_time = || deadline.is_none_or(|at| now(c::CLOCK_MONOTONIC) < at);
        if result != 0 || !gathered.as_mut().is_some_and(|gathered| in_time() && gathered.looks_again()) {
            break result;
        }
    };
    let mut waits = 0;
    let wait = |deadline| {
        let result = raddle::io::wait_since(set, Interest::Read, glance.get(), deadline, true);
        waits += u64::from(result.is_ok());
        result
    };
    let pause = Pause::begin();
    let as_thread = || looks(&pause, deadline, look, wait, |number| number == set, in_kernel);
    let result = watch::wait(caller, mask, as_thread, |mask| in_handler(deadline, |left| in_handlers(left, mask)));
    if waits > 0 {
        raddle::io::pass_on(set, Interest::Read);
        raddle::drop_in::note_turns(waits);
    }
    if result > 0 {
        raddle::drop_in::note_events(result as u64);
        if let Some(gathered) = gathered {
            gathered.found();
        }
    }
    result
}

#[entry]
pub unsafe extern "C-unwind" fn epoll_wait(set: c_int, events: *mut c_void, count: c_int, time: c_int) -> c_int {
    let Some(caller) = ours_or_handlers() else {
        let next = next!(epoll_wait: fn(c_int, *mut c_void, c_int, c_int) -> c_int);
        // SAFETY: the caller's arguments, but for the time, which is what is left of it.
        let again = |left: Option<&c::timespec>| unsafe { next(set, events, count, in_milliseconds(left)) };
        return dump_signal::uncut(limit(time), || natively!(), again);
    };
    if let Some(me) = Apart::of_caller(caller, time) {
        return done(apart::wait(me, set, events, count, time)) as c_int;
    }
    // SAFETY: the caller's room for events.
    done(unsafe { epoll_until(caller, set, events, count, milliseconds(time), 0) }) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut c_void,
    count: c_int,
    time: c_int,
    mask: *const c::sigset_t,
) -> c_int {
    let Some(caller) = ours_or_handlers().filter(|_| reach::reads_or_null(mask.cast::<u64>())) else {
        let next = next!(epoll_pwait: fn(c_int, *mut c_void, c_int, c_int, *const c::sigset_t) -> c_int);
        // SAFETY: the caller's arguments, or of the time what is left of it.
        let wait = |time| masked_waits::waiting_in_kernel(mask, || unsafe { next(set, events, count, time, mask) });
        return dump_signal::uncut(limit(time), || wait(time), |left| wait(in_milliseconds(left)));
    };
    if mask.is_null()
        && let Some(me) = Apart::of_caller(caller, time)
    {
        return done(apart::wait(me, set, events, count, time)) as c_int;
    }
    // SAFETY: the caller's room for events and mask.
    done(unsafe { epoll_until(caller, set, events, count, milliseconds(time), at(mask)) }) as c_int
}

/// As [`kernel_waits::wait`], which any handler ends. (A signal of ours begins the time limit anew.)
///
/// # Safety
/// As for the system call.
unsafe fn dedicated_wait(number: c::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the program's arguments for that call, which the kernel checks; the time limit may begin anew, as said
    // above.
    unsafe { kernel_waits::wait(number, arguments, false) }
}

#[entry]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut c_void,
    count: c_int,
    time: *const c::timespec,
    mask: *const c::sigset_t,
) -> c_int {
    match ours_or_handlers().and_then(|caller| Some((caller, wanted(time, mask)?))) {
        Some((caller, deadline)) => {
            // SAFETY: the caller's room for events and mask.
            done(unsafe { epoll_until(caller, set, events, count, deadline, at(mask)) }) as c_int
        }
        _ => {
            crate::thread::cancel::point();
            let arguments = |time| [set as usize, at(events), count as usize, at(time), at(mask), MASK];
            let is_ours = crate::thread::record::Record::current().is_some();
            let call = if is_ours { dedicated_wait } else { kernel_waits::call };
            // SAFETY: the caller's arguments; the kernel checks them.
            let call = |time| unsafe { call(c::SYS_epoll_pwait2, arguments(time)) };
            let wait = |time| done(masked_waits::waiting_in_kernel(mask, || call(time))) as c_int;
            dump_signal::uncut(dump_signal::limit(time), || wait(time), |left| wait(at_most(left)))
        }
    }
}

aliases! {
    __poll = poll(entries: *mut c::pollfd, count: c::nfds_t, time: c_int) -> c_int;
}
