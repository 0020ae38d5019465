//! A descriptor that is closed while threads wait for it.
//!
//! Natively they wait on, and get what comes: the kernel holds the file for the calls that are in it. Ours wait in the
//! reactor, which holds nothing. So whoever closes such a descriptor first wakes those who wait, each goes into the
//! kernel by the call that it has made, and then it is closed. [`raddle::drop_in::Handover`] is the protocol: one
//! descriptor at a time is closed so, and who was woken says which kernel thread it takes along.
//!
//! Bound: who closes waits for [`FROZEN_NS`] at most. Who comes later, and who begins to wait meanwhile, is told EBADF.

use super::sleep::give_way;
use crate::os::{FROZEN_NS, c, now, system_call};
use raddle::drop_in::Handover;
use std::ffi::c_int;

/// Nanoseconds between two looks of who closes. A close beside one who reads took 173 µs with 50, 180 with 12.5, and
/// 334 with 200. (Medians of five, `closes` of docs/constants.md)
const LOOK_NS: u64 = 50_000;

static HANDOVER: Handover = Handover::constant();

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
    let end = now(c::CLOCK_MONOTONIC) + FROZEN_NS;
    while !HANDOVER.begin(descriptor as u32) {
        if !rest(end) {
            return;
        }
    }
    let woken = raddle::io::disarm(descriptor);
    // Where nobody can tell whether one is blocked, it has had the time that an answer may take.
    HANDOVER.end(woken, |task| raddle::drop_in::is_blocked(task).unwrap_or(true), || rest(end));
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
    // SAFETY: takes nothing.
    let task = unsafe { system_call(c::SYS_gettid, [0; 6]) } as u32;
    HANDOVER.waits_on(|number| is_one(number as c_int), task, give_way, wait)
}
