//! Which switches and pushes are looked at more closely: one in so many, for what is due now and then, or each, while
//! somebody counts or traces.
//!
//! Each path has one test of its counter against a mask, so who wants to see all of them adds nothing for those times
//! when nobody does.

use std::sync::atomic::{AtomicU64, Ordering};

/// A switch in so many does what is done now and then, and one push in so many of each kind may be sampled. A power
/// of two.
const SOME: u64 = 64;

/// Switches whose number has none of these bits are looked at more closely; 0: all.
static SWITCHES: AtomicU64 = AtomicU64::new(SOME - 1);
/// As above, of spawns and wake-ups.
static PUSHES: AtomicU64 = AtomicU64::new(SOME - 1);
/// Who wants all switches: bits.
static WANTED: AtomicU64 = AtomicU64::new(0);
const COUNTS: u64 = 1;
const TRACES: u64 = 2;

/// True for the numbers of switches that are looked at more closely.
#[inline(always)]
pub(crate) fn is_time_for_switch(number: u64) -> bool {
    number & SWITCHES.load(Ordering::Relaxed) == 0
}

/// True for the numbers of spawns, or of wake-ups, that are looked at more closely.
#[inline(always)]
pub(crate) fn is_time_for_push(number: u64) -> bool {
    number & PUSHES.load(Ordering::Relaxed) == 0
}

/// True for the numbers at which it is done what is due now and then, whatever else is looked at.
pub(crate) fn is_now_and_then(number: u64) -> bool {
    number.is_multiple_of(SOME)
}

/// True while all switches are looked at.
#[inline(always)]
pub(crate) fn sees_all() -> bool {
    SWITCHES.load(Ordering::Relaxed) == 0
}

/// True while processor time is counted.
pub(crate) fn counts() -> bool {
    WANTED.load(Ordering::Acquire) & COUNTS != 0
}

/// Processor time is counted from now on. What it needs was stored before.
pub(crate) fn count() {
    WANTED.fetch_or(COUNTS, Ordering::AcqRel);
    SWITCHES.store(0, Ordering::Release);
}

/// A trace begins, or ends.
pub(crate) fn watch(on: bool) {
    let wanted = match on {
        true => WANTED.fetch_or(TRACES, Ordering::AcqRel) | TRACES,
        false => WANTED.fetch_and(!TRACES, Ordering::AcqRel) & !TRACES,
    };
    SWITCHES.store(if wanted == 0 { SOME - 1 } else { 0 }, Ordering::Release);
    PUSHES.store(if on { 0 } else { SOME - 1 }, Ordering::Release);
}
