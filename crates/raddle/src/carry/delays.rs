//! How long threads wait in run queues: a sample of them, when somebody asks for it.
//!
//! One push in 64 of each kind (spawn, wake-up, yield) is a candidate, and each processor follows one thread at
//! a time. The thread carries the mark in the top bits of its `slot` word, which its token's holder may write and which
//! every selection looks at anyway: a marked thread takes the branch of one that has not started, and nothing else on a
//! switch knows of it. When sampling is off, a switch executes the same instructions as without this file; a wake-up
//! counts, and a spawn looks at its count.
//!
//! `slot = marked:1 | processor:15 | address:48`. The processor is the one that pushed: it has the time. It writes `at`
//! while `out` is false; whoever selects the thread reads it, which the token's way made visible, and sets `out` to
//! false again.
//!
//! Bias: threads that come from outside (other pools, kernel threads, timers of retired processors) are not sampled;
//! while one is followed, others are not, so with a processor whose followed thread waits for long, waits are seen less
//! often than they are.

use crate::carry::descriptor::Descriptor;
use crate::carry::processor::Processor;
use raddle_machine::{Machine, Real};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Whether anything is.
static ON: AtomicBool = AtomicBool::new(false);

const MARKED: usize = 1 << 63;
const PROCESSOR: u32 = 48;
const ADDRESS: usize = (1 << PROCESSOR) - 1;

/// Buckets for each power of two, of 40: up to eighteen minutes.
const PARTS: usize = 4;
const BUCKETS: usize = 40 * PARTS;

/// The thread that a processor follows, and the waits that ended on it.
pub(crate) struct Delays {
    at: AtomicU64,
    out: AtomicBool,
    /// Single writer: the owner of the processor.
    waits: [AtomicU32; BUCKETS],
}

impl Default for Delays {
    fn default() -> Self {
        Self { at: AtomicU64::new(0), out: AtomicBool::new(false), waits: [const { AtomicU32::new(0) }; BUCKETS] }
    }
}

/// The bucket of a wait.
fn bucket(nanoseconds: u64) -> usize {
    let value = nanoseconds.max(PARTS as u64);
    let power = value.ilog2() as usize;
    let part = (value >> (power - 2)) as usize & (PARTS - 1);
    (power * PARTS + part).min(BUCKETS - 1)
}

/// The longest wait of a bucket.
fn limit(bucket: usize) -> u64 {
    let (power, part) = (bucket / PARTS, bucket % PARTS);
    ((PARTS + part + 1) as u64) << power >> 2
}

/// Switches sampling on or off.
pub(crate) fn switch(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

/// Follows a thread that `processor` is about to push, if sampling is on. Inside the mark of the owner, which holds the
/// thread.
#[cold]
#[inline(never)]
pub(crate) fn follow(processor: &'static Processor, thread: &'static Descriptor) {
    let delays = &processor.delays;
    // Acquire: whoever had the last one has read its time.
    if !ON.load(Ordering::Relaxed) || delays.out.load(Ordering::Acquire) || is_marked(thread) {
        return;
    }
    delays.at.store(Real::now(), Ordering::Relaxed);
    delays.out.store(true, Ordering::Relaxed);
    thread.slot.set(thread.slot.get() | MARKED | processor.index << PROCESSOR);
}

/// True for a thread that is followed.
#[inline(always)]
pub(crate) fn is_marked(thread: &Descriptor) -> bool {
    thread.slot.get() & MARKED != 0
}

/// No processor has this index: the mark of a thread that waits for its turn ([`crate::carry::turns`]).
const HELD: usize = MARKED | 0x7fff << PROCESSOR;

/// A running thread is about to be pushed although it stays on its stack.
pub(crate) fn hold(thread: &Descriptor) {
    thread.slot.set(HELD | address(thread.slot.get()));
}

/// It has a processor again, or goes on without.
pub(crate) fn let_go(thread: &Descriptor) {
    thread.slot.set(address(thread.slot.get()));
}

/// Whether the mark is that of [`hold`].
#[inline(always)]
pub(crate) fn is_held(thread: &Descriptor) -> bool {
    thread.slot.get() & !ADDRESS == HELD
}

/// The stack slot of a word that may have a mark.
#[inline(always)]
pub(crate) fn address(word: usize) -> usize {
    word & ADDRESS
}

/// A followed thread was selected by `here`: the mark goes, the wait is noted. Inside the mark of the owner, which
/// holds the thread.
#[cold]
#[inline(never)]
pub(crate) fn arrived(here: &'static Processor, thread: &'static Descriptor) {
    let word = thread.slot.get();
    thread.slot.set(word & ADDRESS);
    let from = (word & !MARKED) >> PROCESSOR;
    let Some(pushed) = here.pool.processors().get(from) else { return };
    let waited = Real::now().saturating_sub(pushed.delays.at.load(Ordering::Relaxed));
    pushed.delays.out.store(false, Ordering::Release);
    let count = &here.delays.waits[bucket(waited)];
    count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// How long sampled threads waited between becoming ready and running. Each value is the upper end of its bucket, at
/// most a quarter above the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunQueueDelay {
    /// Waits that were sampled since the pools that are alive were built.
    pub samples: u64,
    /// Nanoseconds: half of them waited no longer.
    pub p50: u64,
    /// Nanoseconds: all but one in a hundred.
    pub p99: u64,
    /// Nanoseconds: all but one in a thousand.
    pub p999: u64,
    /// Nanoseconds: the longest.
    pub max: u64,
}

/// The percentiles over all pools that are alive; `None` when nothing was sampled.
pub(crate) fn percentiles() -> Option<RunQueueDelay> {
    let mut waits = [0u64; BUCKETS];
    for processor in crate::carry::pool::pools().flat_map(|pool| pool.processors()) {
        let counts = processor.delays.waits.iter().map(|count| u64::from(count.load(Ordering::Relaxed)));
        waits.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let samples: u64 = waits.iter().sum();
    let at = |share: f64| {
        let rank = ((samples as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let found = waits.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, limit)
    };
    (samples > 0).then(|| RunQueueDelay { samples, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_a_quarter_below_its_limit() {
        for value in (0..200u64).chain((8..39).flat_map(|p| [(1 << p) - 1, 1 << p, (1 << p) + (1 << (p - 1)) + 7])) {
            let limit = limit(bucket(value));
            assert!(value < limit && limit <= value.max(4) + value.max(4) / 4 + 1, "{value}: {limit}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
