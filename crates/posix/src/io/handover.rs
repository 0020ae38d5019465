//! A descriptor that is closed while threads wait for it.
//!
//! Natively they wait on, and get what comes: the kernel holds the file for the calls that are in it. Ours wait in the
//! reactor, which holds nothing. So whoever closes such a descriptor first wakes those who wait, each goes into the
//! kernel by the call that it has made, and then it is closed.
//!
//! One descriptor at a time is closed so: [`CLOSING`] is its number. Who was woken says by [`COMING`] which kernel
//! thread it takes along, one after the other, and the closer waits until that one is blocked.
//!
//! Events: E the closer ends the time of coming, L its look at [`COMING`]; C a waiter says that it comes, A it asks
//! whether that time goes on. Forbidden: A finds that it does, and L misses C. All are SeqCst. So nobody goes into the
//! kernel after the close, for what has got the number next.
//!
//! Bound: who closes waits for [`MOST_NS`] at most. Who comes later, and who begins to wait meanwhile, is told EBADF.

use super::sleep::give_way;
use crate::os::{c, now, system_call};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Nanoseconds that a close waits for those who wait: a kernel thread that is frozen is to keep nobody else for longer
/// than a second.
const MOST_NS: u64 = 1_000_000_000;
/// Nanoseconds between two looks of who closes: about what it takes to wake a kernel thread.
const LOOK_NS: u64 = 50_000;

/// One more than the number that is closed; 0: none, [`LATE`]: nobody may come any more.
static CLOSING: AtomicU32 = AtomicU32::new(0);
const LATE: u32 = u32::MAX;
/// The kernel thread of who comes; 0: nobody does, [`GONE`]: its call has ended already.
static COMING: AtomicU32 = AtomicU32::new(0);
const GONE: u32 = u32::MAX;

/// The descriptor is about to end: whoever waits for it goes on in the kernel.
#[inline]
pub(super) fn hand_over(descriptor: c_int) {
    if raddle::io::was_awaited(descriptor) {
        hand_over_range(descriptor as u32, descriptor as u32);
    }
}

/// The same for those from `first` to `last`.
pub(super) fn hand_over_range(mut first: u32, last: u32) {
    while let Some(descriptor) = raddle::io::first_awaited(first, last) {
        hand_over_awaited(descriptor);
        first = descriptor as u32 + 1;
    }
}

#[cold]
fn hand_over_awaited(descriptor: c_int) {
    // What a handler has interrupted may be another closing.
    if crate::process::masks::is_in_handler() {
        return;
    }
    let end = now(c::CLOCK_MONOTONIC) + MOST_NS;
    while CLOSING.compare_exchange(0, descriptor as u32 + 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        if !rest(end) {
            return;
        }
    }
    let woken = raddle::io::disarm(descriptor);
    let all_came = (0..woken).all(|_| one_came(end));
    CLOSING.store(LATE, Ordering::SeqCst);
    // One more, who was not counted or comes late.
    if COMING.load(Ordering::SeqCst) != 0 && !(all_came && one_came(end)) {
        COMING.store(0, Ordering::SeqCst);
    }
    CLOSING.store(0, Ordering::SeqCst);
}

/// Waits until one more has come, and is in the kernel. False: the time is over.
fn one_came(end: u64) -> bool {
    loop {
        let task = COMING.load(Ordering::SeqCst);
        let is_there = match task {
            0 if CLOSING.load(Ordering::Relaxed) == LATE => return true,
            0 => false,
            GONE => true,
            // Where nobody can tell, it has had the time that an answer may take.
            task => raddle::drop_in::is_blocked(task).unwrap_or(true),
        };
        if is_there && COMING.compare_exchange(task, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return true;
        }
        if !rest(end) {
            return false;
        }
    }
}

/// Lets a moment pass. False if it is `end`.
fn rest(end: u64) -> bool {
    let now = now(c::CLOCK_MONOTONIC);
    if raddle::drop_in::is_lightweight() {
        // Neither a handler nor a request to end makes a difference.
        let _ = raddle::drop_in::doze_until(now + LOOK_NS, false);
    } else {
        let time = c::timespec { tv_sec: 0, tv_nsec: LOOK_NS as c::c_long };
        // SAFETY: a live time.
        unsafe { system_call(c::SYS_nanosleep, [super::at(&raw const time), 0, 0, 0, 0, 0]) };
    }
    now < end
}

/// A wait for some descriptors, of whose numbers `is_one` tells, has ended because one of them is about to be closed:
/// `wait` makes the call in the kernel. `None`: it was closed.
pub(super) fn waits_on<T>(is_one: impl Fn(c_int) -> bool, wait: impl FnOnce() -> T) -> Option<T> {
    let is_asked = || {
        let closing = CLOSING.load(Ordering::SeqCst);
        closing != 0 && closing != LATE && is_one(closing as c_int - 1)
    };
    let task = loop {
        if !is_asked() {
            return None;
        }
        // SAFETY: takes nothing.
        let task = unsafe { system_call(c::SYS_gettid, [0; 6]) } as u32;
        if COMING.compare_exchange(0, task, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            break task;
        }
        give_way();
    };
    let leave = |leaving| COMING.compare_exchange(task, leaving, Ordering::SeqCst, Ordering::Relaxed);
    if !is_asked() {
        let _ = leave(0);
        return None;
    }
    let result = wait();
    let _ = leave(GONE);
    Some(result)
}
