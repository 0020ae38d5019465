//! The probes that measure this machine: time by its clock, two sides on two kernel threads.

use super::{Observers, ROUNDS, Watched, in_turn, until};
use crate::driver::Random;
use raddle_machine::{Atomic, Machine, Ordering, Real};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// The quickest of some rounds ([`quickest`]), in nanoseconds for each of `count`: on one core all else that takes time
/// is somebody else's.
pub(super) fn each(watched: Watched, count: u64, probe: impl Fn(u64)) -> f64 {
    probe(count);
    quickest((0..ROUNDS).map(|_| round(watched, || once(count, &probe))).collect())
}

/// Runs something watched: whether it was undisturbed, and what it gave.
pub fn round<V: Default>(watched: impl FnOnce(&mut dyn FnMut()) -> bool, mut run: impl FnMut() -> V) -> (bool, V) {
    let mut value = V::default();
    (watched(&mut || value = run()), value)
}

pub(super) fn once(count: u64, probe: &impl Fn(u64)) -> f64 {
    let begin = Instant::now();
    probe(count);
    begin.elapsed().as_nanos() as f64 / count as f64
}

/// What was seen during rounds that were not disturbed; in all, if all were.
pub(super) fn undisturbed<V>(rounds: Vec<(bool, V)>) -> Vec<V> {
    let any = rounds.iter().any(|(undisturbed, _)| *undisturbed);
    rounds.into_iter().filter(|(undisturbed, _)| *undisturbed || !any).map(|(_, value)| value).collect()
}

/// Of the rounds that were not disturbed, see `undisturbed`, the one an eighth from the quickest: as quick as the
/// quickest of eight is, of which a program that is predicted has no more. 0 of none.
pub fn quickest(rounds: Vec<(bool, f64)>) -> f64 {
    quickest_by(rounds, |time| *time)
}

/// As [`quickest`], of what has this time.
pub fn quickest_by<V: Default>(rounds: Vec<(bool, V)>, time: impl Fn(&V) -> f64) -> V {
    let mut rounds = undisturbed(rounds);
    rounds.sort_unstable_by(|a, b| time(a).total_cmp(&time(b)));
    let eighth = rounds.len() / 8;
    rounds.into_iter().nth(eighth).unwrap_or_default()
}

/// Runs one program here and another one on a kernel thread of its own, which calls `elsewhere` first. Both sleep until
/// they meet there: where the other one begins, this one is, and it would wait for the core.
pub(super) fn beside<R>(elsewhere: fn(), other: impl FnOnce() + Send, here: impl FnOnce() -> R) -> Result<R, String> {
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = || {
            elsewhere();
            both.wait();
            other();
        };
        let other = std::thread::Builder::new().spawn_scoped(scope, other);
        other.map_err(|why| format!("no kernel thread for the calibration: {why}"))?;
        both.wait();
        Ok(here())
    })
}

/// Probes of this process that were disturbed to the end, see [`quietly`].
static DISTURBED: AtomicU32 = AtomicU32::new(0);

/// How many of this process's probes were disturbed to the end, see [`quietly`].
pub fn disturbed() -> u32 {
    DISTURBED.load(Ordering::Relaxed)
}

/// A probe with two sides: what it gave in its first undisturbed tries; in all, if there were too few within some
/// seconds, which [`disturbed`] counts. A try without a value (the other side did not run) is none.
///
/// # Errors
/// None had one; or what the probe says.
pub fn quietly<V>(watched: Watched, mut probe: impl FnMut() -> Result<Option<V>, String>) -> Result<Vec<V>, String> {
    const ENOUGH: usize = 9;
    // Cores lie far from each other for seconds at a time.
    const QUIET_WITHIN: Duration = Duration::from_secs(10);
    const END: Duration = Duration::from_secs(30);
    let begin = Instant::now();
    let (mut good, mut others) = (Vec::new(), Vec::new());
    while good.len() < ENOUGH && (begin.elapsed() < QUIET_WITHIN || others.len() + good.len() < ENOUGH) {
        if begin.elapsed() > END {
            break;
        }
        let (undisturbed, value) = round(watched, || Some(probe()));
        let value = value.transpose()?.flatten();
        if undisturbed { good.extend(value) } else { others.extend(value) }
    }
    if good.len() < ENOUGH / 3 {
        DISTURBED.fetch_add(1, Ordering::Relaxed);
        good.append(&mut others);
    }
    let values = good;
    if values.is_empty() {
        return Err("two kernel threads never ran at once: a calibration needs two cores that do little else".into());
    }
    Ok(values)
}

pub(super) fn round_trips(watch: Observers) -> Result<f64, String> {
    // So short that the two are seldom interrupted.
    const COUNT: u32 = 2_000;
    let probe = || {
        let word = <Real as Machine>::Atomic::<u32>::new(0);
        let here = || {
            in_turn::<Real>(&word, 0..1, 0);
            let begin = Instant::now();
            in_turn::<Real>(&word, 1..COUNT, 0);
            begin.elapsed().as_nanos() as f64 / f64::from(COUNT - 1)
        };
        beside(watch.elsewhere, || in_turn::<Real>(&word, 0..COUNT, 1), here).map(Some)
    };
    Ok(quick(quietly(watch.both, probe)?))
}

/// What it takes longer to read lines that the other processor has just written than to read them again.
pub(super) fn lines(watch: Observers) -> Result<f64, String> {
    const COUNT: u32 = 15;
    const LINES: usize = 512;
    let buffer: Vec<[AtomicU64; 8]> = (0..LINES).map(|_| Default::default()).collect();
    let read = || {
        let begin = Instant::now();
        black_box(buffer.iter().map(|line| line[0].load(Ordering::Relaxed)).sum::<u64>());
        begin.elapsed().as_nanos() as f64 / LINES as f64
    };
    let probe = || {
        let turn = <Real as Machine>::Atomic::<u32>::new(0);
        let writer = || {
            for round in 0..COUNT {
                until::<Real>(&turn, 2 * round);
                buffer.iter().for_each(|line| line[0].store(round.into(), Ordering::Relaxed));
                turn.store(2 * round + 1, Ordering::Release);
            }
        };
        let reader = || {
            let longer = |round| {
                until::<Real>(&turn, 2 * round + 1);
                let longer = read() - read();
                turn.store(2 * round + 2, Ordering::Release);
                longer
            };
            middle((0..COUNT).map(longer).collect())
        };
        beside(watch.elsewhere, writer, reader).map(Some)
    };
    Ok(quick(quietly(watch.both, probe)?).max(0.0))
}

/// A chain through more lines, and more pages, than the caches hold.
pub(super) fn memory(watched: Watched) -> f64 {
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
    each(watched, 1_000, |count| {
        (0..count).for_each(|_| at.set(chain[at.get() as usize * WORDS]));
        black_box(at.get());
    })
}

pub(super) fn not_waiting(count: u64) {
    let word = <Real as Machine>::Atomic::<u32>::new(0);
    (0..count).for_each(|_| Real::wait(&word, 1, None));
}

/// The wake-up call, and what follows until the sleeper runs.
pub(super) fn waking(watch: Observers) -> Result<(f64, f64), String> {
    const COUNT: u32 = 9;
    let probe = || {
        let (bell, seen) = (<Real as Machine>::Atomic::<u32>::new(0), AtomicU64::new(0));
        let sleeper = || {
            for ring in 0..COUNT {
                while bell.load(Ordering::Acquire) == ring {
                    Real::wait(&bell, ring, None);
                }
                // Relaxed would do for the time alone; who rings waits for it.
                seen.store(Real::now(), Ordering::Release);
            }
        };
        let ring = |ring| {
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
            ((end - begin) as f64, awake.saturating_sub(begin) as f64)
        };
        beside(watch.elsewhere, sleeper, || {
            let (calls, latencies): (Vec<f64>, Vec<f64>) = (0..COUNT).map(ring).unzip();
            Some((middle(calls), middle(latencies)))
        })
    };
    let (calls, latencies): (Vec<f64>, Vec<f64>) = quietly(watch.both, probe)?.into_iter().unzip();
    let call = quick(calls);
    Ok((call, (quick(latencies) - call).max(0.0)))
}

/// The middle one: neither what was disturbed nor what had luck (a wake-up of a processor that has hardly slept, a
/// partner that runs on the same one).
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The one a quarter from the quickest, of what takes two cores: neighbours slow it down, but it has its luck, too. 0
/// of nothing.
pub fn quick(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 4).copied().unwrap_or(0.0)
}

/// The mean of the middle half: what is disturbed and what has luck does not count, and of two kinds (cores that lie
/// near each other on the host at one time and not at another) both do. 0 of nothing.
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

/// How to time a probe beside one that computes.
type Timed<'a> = &'a dyn Fn(u64, &dyn Fn(u64)) -> Option<(f64, f64)>;

/// Computes until it is over, and tells after each thousand steps how many thousands it was.
fn busy(over: &AtomicBool, thousands: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        compute(1_000);
        thousands.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `here` beside one that computes. `here` is given how to time a probe: what the other one has computed for each
/// nanosecond, and the nanoseconds of each of `count`; nothing if the other one did not run.
fn beside_busy<R>(watch: Observers, here: impl FnOnce(Timed) -> R) -> Result<R, String> {
    let over = AtomicBool::new(false);
    let thousands = AtomicU64::new(0);
    let timed = |count: u64, probe: &dyn Fn(u64)| {
        let before = thousands.load(Ordering::Relaxed);
        let each = once(count, &probe);
        let done = thousands.load(Ordering::Relaxed) - before;
        (done > 0).then_some((done as f64 / (each * count as f64), each))
    };
    beside(
        watch.elsewhere,
        || busy(&over, &thousands),
        || {
            // It computes while the caller does not let it have this core, so it has another one.
            let begin = Instant::now();
            let first = thousands.load(Ordering::Relaxed);
            while thousands.load(Ordering::Relaxed) == first && begin.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let found = here(&timed);
            over.store(true, Ordering::Relaxed);
            found
        },
    )
}

fn middle_if_any(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| middle(values))
}

/// A heavy fence beside one that computes, and what the other one loses by it.
pub(super) fn heavy_fences(watch: Observers) -> Result<(f64, f64), String> {
    const COUNT: u64 = 30;
    const ROUNDS: u32 = 5;
    let fences = |count: u64| (0..count).for_each(|_| Real::heavy_fence());
    let rounds = |timed: Timed| {
        let (interrupted, fence): (Vec<f64>, Vec<f64>) = (0..ROUNDS).filter_map(|_| timed(COUNT, &fences)).unzip();
        let fence = middle_if_any(fence.into_iter())?;
        // About as long without a fence.
        let steps = COUNT * fence as u64;
        let free = middle_if_any((0..ROUNDS).filter_map(|_| Some(timed(steps, &compute)?.0)))?;
        Some((fence, fence * (1.0 - middle_if_any(interrupted.into_iter())? / free).max(0.0)))
    };
    let (fences, lost): (Vec<f64>, Vec<f64>) = quietly(watch.both, || beside_busy(watch, rounds))?.into_iter().unzip();
    Ok((quick(fences), quick(lost)))
}

/// Watches nothing.
#[cfg(test)]
pub(super) fn always(run: &mut dyn FnMut()) -> bool {
    run();
    true
}
