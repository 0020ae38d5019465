//! The probes that measure this machine: time by its clock, two sides on two kernel threads.

use super::{ROUNDS, Watched, in_turn, until};
use crate::driver::Random;
use raddle_machine::{Atomic, Machine, Ordering, Real};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// The middle one of some rounds, in nanoseconds for each of `count`.
pub(super) fn each(count: u64, probe: impl Fn(u64)) -> f64 {
    probe(count);
    middle((0..ROUNDS).map(|_| once(count, &probe)).collect())
}

pub(super) fn once(count: u64, probe: &impl Fn(u64)) -> f64 {
    let begin = Instant::now();
    probe(count);
    begin.elapsed().as_nanos() as f64 / count as f64
}

/// The middle one of the rounds during which this process had its cores for itself; of all, if there was no such. Of a probe with two sides the others
/// say what one core costs that both share. A round that has no value (the other side did not run) is none.
pub(super) fn middle_undisturbed(watched: Watched, rounds: u32, mut round: impl FnMut(u32) -> Option<f64>) -> f64 {
    let (mut good, mut others) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        let mut value = None;
        let undisturbed = watched(&mut || value = round(number));
        if undisturbed { good.extend(value) } else { others.extend(value) }
    }
    let values = if good.is_empty() { others } else { good };
    if values.is_empty() { 0.0 } else { middle(values) }
}

/// Runs one program here and another one on a kernel thread of its own.
pub(super) fn beside<R>(other: impl FnOnce() + Send, here: impl FnOnce() -> R) -> Result<R, String> {
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, other);
        other.map_err(|why| format!("no kernel thread for the calibration: {why}"))?;
        Ok(here())
    })
}

pub(super) fn round_trips(watched: Watched) -> Result<f64, String> {
    // Parts so short that the two are seldom interrupted within one.
    const PART: u32 = 500;
    const PARTS: u32 = 200;
    let word = Arc::new(<Real as Machine>::Atomic::<u32>::new(0));
    let theirs = word.clone();
    let part = |part: u32| {
        let begin = Instant::now();
        in_turn::<Real>(&word, part * PART..(part + 1) * PART, 0);
        Some(begin.elapsed().as_nanos() as f64 / f64::from(PART))
    };
    let theirs = move || in_turn::<Real>(&theirs, 0..PART * PARTS, 1);
    beside(theirs, || middle_undisturbed(watched, PARTS, part))
}

/// What it takes longer to read lines that the other processor has just written than to read them again.
pub(super) fn lines(watched: Watched) -> Result<f64, String> {
    const COUNT: u32 = 200;
    const LINES: usize = 512;
    let buffer: Arc<Vec<[AtomicU64; 8]>> = Arc::new((0..LINES).map(|_| Default::default()).collect());
    let turn = Arc::new(<Real as Machine>::Atomic::<u32>::new(0));
    let (theirs, their_turn) = (buffer.clone(), turn.clone());
    let writer = move || {
        for round in 0..COUNT {
            until::<Real>(&their_turn, 2 * round);
            theirs.iter().for_each(|line| line[0].store(round.into(), Ordering::Relaxed));
            their_turn.store(2 * round + 1, Ordering::Release);
        }
    };
    let read = || {
        let begin = Instant::now();
        black_box(buffer.iter().map(|line| line[0].load(Ordering::Relaxed)).sum::<u64>());
        begin.elapsed().as_nanos() as f64 / LINES as f64
    };
    beside(writer, || {
        let longer = middle_undisturbed(watched, COUNT, |round| {
            until::<Real>(&turn, 2 * round + 1);
            let longer = read() - read();
            turn.store(2 * round + 2, Ordering::Release);
            Some(longer)
        });
        longer.max(0.0)
    })
}

/// A chain through more lines, and more pages, than the caches hold.
pub(super) fn memory() -> f64 {
    const LINES: usize = 4 << 20;
    // Words of a line of 64 bytes.
    const WORDS: usize = 16;
    // One cycle through all lines (Sattolo's shuffle).
    let mut order: Vec<u32> = (0..LINES as u32).collect();
    let mut random = Random::new(1);
    for last in (1..LINES).rev() {
        order.swap(last, random.below(last));
    }
    let mut chain = vec![0u32; LINES * WORDS];
    for (line, &next) in order.iter().enumerate() {
        chain[line * WORDS] = next;
    }
    let at = Cell::new(0);
    each(1_000, |count| {
        (0..count).for_each(|_| at.set(chain[at.get() as usize * WORDS]));
        black_box(at.get());
    })
}

pub(super) fn not_waiting(count: u64) {
    let word = <Real as Machine>::Atomic::<u32>::new(0);
    (0..count).for_each(|_| Real::wait(&word, 1, None));
}

/// The wake-up call, and what follows until the sleeper runs.
pub(super) fn waking() -> Result<(f64, f64), String> {
    const COUNT: u32 = 101;
    let bell = Arc::new(<Real as Machine>::Atomic::<u32>::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    let (theirs, told) = (bell.clone(), seen.clone());
    let sleeper = move || {
        for ring in 0..COUNT {
            while theirs.load(Ordering::Acquire) == ring {
                Real::wait(&theirs, ring, None);
            }
            // Relaxed would do for the time alone; who rings waits for it.
            told.store(Real::now(), Ordering::Release);
        }
    };
    let mut calls = Vec::new();
    let mut latencies = Vec::new();
    beside(sleeper, || {
        for ring in 0..COUNT {
            // So long that it sleeps, and its processor with it.
            std::thread::sleep(Duration::from_micros(500));
            seen.store(0, Ordering::Relaxed);
            bell.store(ring + 1, Ordering::Release);
            let begin = Real::now();
            Real::wake(&bell, 1);
            let end = Real::now();
            let awake = loop {
                match seen.load(Ordering::Acquire) {
                    0 => std::thread::yield_now(),
                    time => break time,
                }
            };
            calls.push((end - begin) as f64);
            latencies.push(awake.saturating_sub(begin) as f64);
        }
    })?;
    let call = middle(calls);
    Ok((call, (middle(latencies) - call).max(0.0)))
}

/// The middle one: neither what was disturbed nor what had luck (a wake-up of a processor that has hardly slept, a partner that runs on the
/// same one).
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The mean of the middle half: what is disturbed and what has luck does not count, and of two kinds (cores that lie near each other on the host at
/// one time and not at another) both do. 0 of nothing.
pub fn middle_half(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let middle = &values[quarter..values.len() - quarter];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

/// Several chains, so that the processor's units are busy, as they are in most programs.
fn compute(count: u64) {
    let mut values = black_box([1u64, 2, 3, 4]);
    for step in 0..count {
        values = values.map(|value| value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step) ^ value >> 7);
    }
    black_box(values);
}

/// Computes until it is over, and tells after each thousand steps how many thousands it was.
fn busy(over: &AtomicBool, thousands: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        compute(1_000);
        thousands.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `here` beside one that computes. `here` is given how to time a probe: what the other one has computed for each nanosecond, and the nanoseconds
/// of each of `count`; nothing if the other one did not run.
fn beside_busy<R>(here: impl FnOnce(&dyn Fn(u64, &dyn Fn(u64)) -> Option<(f64, f64)>) -> R) -> Result<R, String> {
    let over = AtomicBool::new(false);
    let thousands = AtomicU64::new(0);
    let timed = |count: u64, probe: &dyn Fn(u64)| {
        let before = thousands.load(Ordering::Relaxed);
        let each = once(count, &probe);
        let done = thousands.load(Ordering::Relaxed) - before;
        (done > 0).then_some((done as f64 / (each * count as f64), each))
    };
    beside(
        || busy(&over, &thousands),
        || {
            while thousands.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let found = here(&timed);
            over.store(true, Ordering::Relaxed);
            found
        },
    )
}

pub(super) fn together(watched: Watched) -> Result<f64, String> {
    const COUNT: u64 = 100_000;
    let one = each(COUNT, compute);
    let both = beside_busy(|timed| middle_undisturbed(watched, ROUNDS as u32, |_| Some(timed(COUNT, &compute)?.1)))?;
    Ok(both / one)
}

/// A heavy fence beside one that computes, and what the other one loses by it.
pub(super) fn heavy_fences(watched: Watched) -> Result<(f64, f64), String> {
    const COUNT: u64 = 200;
    const ROUNDS: u32 = super::ROUNDS as u32;
    let fences = |count: u64| (0..count).for_each(|_| Real::heavy_fence());
    beside_busy(|timed| {
        let fence = middle_undisturbed(watched, ROUNDS, |_| Some(timed(COUNT, &fences)?.1));
        let interrupted = middle_undisturbed(watched, ROUNDS, |_| Some(timed(COUNT, &fences)?.0));
        // About as long without a fence.
        let steps = COUNT * fence as u64;
        let free = middle_undisturbed(watched, ROUNDS, |_| Some(timed(steps, &compute)?.0));
        (fence, fence * (1.0 - interrupted / free).max(0.0))
    })
}
