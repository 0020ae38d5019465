//! Address space for the program, where it limits its own late (RLIMIT_AS, RLIMIT_DATA): what the arenas of stacks have
//! reserved and nobody uses is given back before the limit counts.
//!
//! 1. Each arena gives back what it has never handed out, and maps slots one by one from then on.
//! 2. Processors are asked for the stacks, and the rights to some, that they keep: at their next round, or at their
//!    next look when they are idle ([`crate::carry::duties`]).
//! 3. Idle slots are unmapped.
//!
//! Who asks waits [`PATIENCE_NS`] at most: what processors that compute, or are blocked in the kernel, give back later
//! is unmapped by the monitor.

use crate::carry::pool;
use crate::carry::switching::{current, enter_from_outside};
use crate::carry::witness::Lent;
use raddle_machine::{Machine, Real};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Nanoseconds for which the processors are waited for. With idle ones a late limit took 0.4 to 0.7 ms in all, beside
/// one or two threads that compute 0.4 to 7.2 (two processors of an Intel Xeon, five times each, 2026-11-28).
const PATIENCE_NS: u64 = 10_000_000;

/// How often the processors were asked.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// Somebody has given back what nobody has unmapped since.
static LEFT: AtomicBool = AtomicBool::new(false);

/// As asked for above. Also in a signal handler that has interrupted the runtime, where the monitor does the rest.
pub fn give_back() {
    let arenas = || pool::arenas().filter(|arena| arena.stats().limit > 0);
    arenas().for_each(|arena| arena.give_back_rest());
    // Relaxed: a number that owners compare; what they give back goes through the arenas' own words.
    let asked = ASKED.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    LEFT.store(true, Ordering::Relaxed);
    if let Some(mut inside) = current().and_then(enter_from_outside) {
        answer(inside.lend());
        inside.leave();
    } else if current().is_some() && !crate::carry::caller::is_lightweight() {
        return;
    }
    let until = Real::now() + PATIENCE_NS;
    let missing = || {
        let processors = pool::pools().flat_map(|pool| pool.processors().iter().filter(|p| p.seat.is_active()));
        processors.filter(|processor| processor.space.load(Ordering::Relaxed) != asked)
    };
    while missing().next().is_some() && Real::now() < until {
        missing().for_each(|processor| {
            processor.pool.idle.wake(processor.index);
        });
        crate::os::sleep(50_000);
    }
    unmap();
}

/// At an owner's duties: gives back what the processor keeps, if that was asked for.
#[inline(always)]
pub(crate) fn answer_if_asked(inside: Lent<'_>) {
    if inside.processor.space.load(Ordering::Relaxed) != ASKED.load(Ordering::Relaxed) {
        answer(inside);
    }
}

#[cold]
#[inline(never)]
fn answer(mut inside: Lent<'_>) {
    let asked = ASKED.load(Ordering::Relaxed);
    inside.owned().kept.give_back();
    LEFT.store(true, Ordering::Relaxed);
    inside.processor.space.store(asked, Ordering::Relaxed);
}

/// Unmaps what was given back, if anything.
fn unmap() {
    if LEFT.swap(false, Ordering::Relaxed) {
        pool::arenas().for_each(|arena| {
            arena.unmap_idle();
        });
    }
}

/// The monitor, at a look.
pub(crate) fn look() {
    if LEFT.load(Ordering::Relaxed) {
        unmap();
    }
}
