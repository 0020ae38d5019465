//! The costs of a machine, measured: what `raddle sim --calibrate` does.
//!
//! A *probe* is a short program that is generic over the machine. It runs on the host, where it is timed, and on the
//! simulated machine, where the cost that it depends on most is changed until it takes as long there. So what a cost
//! stands for is the same on both sides, and what surrounds an access (address arithmetic, branches) is in `step`, by
//! the probes of a queue, a channel and a mutex. Kernel calls, `memory` and spin hints are timed directly. What needs
//! threads of the library ([`OfThreads`]) is timed by who calls, since this crate does not know the library.
//!
//! The workloads that the model is held against are no probes: nothing here is fitted to them.
//!
//! # Example
//! ```
//! use raddle_sim::calibrate::{Measured, OfThreads, fit};
//! let threads = OfThreads {
//!     yielding: 30.0, spawning: 90.0, starting: 150.0, pairing: 130.0, joining: 170.0, beside: 180.0, passing: 40.0,
//!     locking: 14.0,
//! };
//! let measured = Measured {
//!     queue: 12.0, exchange: 6.0, stores: 10.0, plain: 3.0, behind: 11.0, round_trip: 250.0, line: 15.0, memory: 95.0,
//!     fence: 9.0, heavy_fence: 2500.0, heavy_fence_alone: 400.0, interruption: 900.0, spin: 40.0, sleep: 300.0,
//!     wake: 1500.0, wake_latency: 4000.0, threads, disturbed: 0.0,
//! };
//! let costs = fit(&measured).unwrap();
//! assert!(costs.levels[0].transfer > 20.0 && costs.switch < 30.0 && costs.spawn < 90.0);
//! ```
#![forbid(unsafe_code)]

mod here;
mod met;
mod of_threads;

pub use here::{disturbed, middle, middle_half, quick, quickest, quickest_by, quietly, round};
pub use met::{Probe, probes, warning};

use crate::cost::{Costs, Level};
use crate::execution::{Options, Outcome, run, start};
use crate::machine::Controlled;
use crate::virtual_time::VirtualTime;
use here::{each, heavy_fences, lines, memory, not_waiting, round_trips, waking};
use of_threads::{JOINING, LOCKING, PAIRING, PASSING, STARTING, run_alone, spawns, yields};
use raddle_machine::{Atomic, Machine, Ordering, Real};
use raddle_queues::fifo_ring::FifoRing;
use std::cell::Cell;
use std::hint::black_box;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// Nanoseconds that threads of the library take on one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfThreads {
    /// A yield, of [`AT_ONCE`] threads that do nothing else: stacks that were left a while ago.
    pub yielding: f64,
    /// A thread that does nothing: [`AT_ONCE`] are made before the first one runs, and then all are waited for.
    pub spawning: f64,
    /// As that, but each yields once, so that it begins on a stack of its own.
    pub starting: f64,
    /// As `spawning`, but half of them make the other half, and wait, so that those begin on stacks of their own.
    pub pairing: f64,
    /// As `spawning`, but each is waited for before the next one is made.
    pub joining: f64,
    /// The same while another processor does so, too, in a pool of its own.
    pub beside: f64,
    /// A word sent through a bounded channel, and received by the same thread.
    pub passing: f64,
    /// A mutex that nobody else wants, taken and given back.
    pub locking: f64,
}

/// What the probes took on the host, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// To push to a queue of one's own and to pop from it.
    pub queue: f64,
    /// A read-modify-write of a line at hand.
    pub exchange: f64,
    /// A store, and after it a read-modify-write of another word.
    pub stores: f64,
    /// Some stores.
    pub plain: f64,
    /// A read-modify-write of another word, and after it those stores.
    pub behind: f64,
    /// Of a word that two processors write in turn.
    pub round_trip: f64,
    /// One of many lines that the other processor wrote, read one after the other.
    pub line: f64,
    /// A read of a line that no cache holds.
    pub memory: f64,
    /// A sequentially consistent fence after a store.
    pub fence: f64,
    /// The dear side of an asymmetric fence, while the other processor computes in the same process.
    pub heavy_fence: f64,
    /// The same while it does not.
    pub heavy_fence_alone: f64,
    /// What such a fence costs the one that computes.
    pub interruption: f64,
    /// A spin hint.
    pub spin: f64,
    /// To enter the kernel's wait, and to come back at once.
    pub sleep: f64,
    /// The call that wakes a sleeper, for its caller.
    pub wake: f64,
    /// From the end of that call to the sleeper's first instruction.
    pub wake_latency: f64,
    /// What the library's threads take.
    pub threads: OfThreads,
    /// Probes that were disturbed to the end, of all until then in that process.
    pub disturbed: f64,
}

impl Measured {
    /// Of several calibrations the middle half of each probe, see [`middle_half`]; none of none.
    pub fn middle_of(all: &[Self]) -> Option<Self> {
        let mut middle = *all.first()?;
        for place in FIELDS {
            *place(&mut middle) = middle_half(all.iter().map(|one| *place(&mut { *one })).collect());
        }
        Some(middle)
    }

    /// All probes on a line, for another process.
    pub fn to_line(&self) -> String {
        FIELDS.map(|place| place(&mut { *self }).to_string()).join(" ") + "\n"
    }

    /// What [`Measured::to_line`] wrote; nothing if it is something else.
    pub fn from_line(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let mut measured = Self::default();
        for (place, number) in FIELDS.iter().zip(&numbers) {
            *place(&mut measured) = *number;
        }
        (numbers.len() == FIELDS.len()).then_some(measured)
    }
}

type Field = fn(&mut Measured) -> &mut f64;

const FIELDS: [Field; 25] = [
    |m| &mut m.queue,
    |m| &mut m.exchange,
    |m| &mut m.stores,
    |m| &mut m.plain,
    |m| &mut m.behind,
    |m| &mut m.round_trip,
    |m| &mut m.line,
    |m| &mut m.memory,
    |m| &mut m.fence,
    |m| &mut m.heavy_fence,
    |m| &mut m.heavy_fence_alone,
    |m| &mut m.interruption,
    |m| &mut m.spin,
    |m| &mut m.sleep,
    |m| &mut m.wake,
    |m| &mut m.wake_latency,
    |m| &mut m.threads.yielding,
    |m| &mut m.threads.spawning,
    |m| &mut m.threads.starting,
    |m| &mut m.threads.pairing,
    |m| &mut m.threads.joining,
    |m| &mut m.threads.beside,
    |m| &mut m.threads.passing,
    |m| &mut m.threads.locking,
    |m| &mut m.disturbed,
];

/// Threads that are made at once where their making is timed: so few that the caches hold them.
pub const AT_ONCE: u64 = 100;

/// How often a probe on one core is timed; which one counts, [`quickest`] says. A round takes some hundred
/// microseconds, as long as a program that is predicted: of shorter ones some run while what shares the core on the
/// host pauses, a fifth quicker, as no program does from end to end.
pub const ROUNDS: usize = 41;

/// Runs something, and says whether this process had its cores for itself meanwhile.
pub type Watched = fn(&mut dyn FnMut()) -> bool;

/// How rounds are watched: those for which the caller's core counts, and those with two sides, which run on two.
#[derive(Clone, Copy, Debug)]
pub struct Observers {
    /// The caller's core.
    pub here: Watched,
    /// Two cores. What it runs starts and ends its other side.
    pub both: Watched,
    /// What that other side calls at first, so that it is on the other core.
    pub elsewhere: fn(),
}

/// Times the machine: some seconds. Keep it quiet meanwhile. Those rounds count that `watch` says were undisturbed.
///
/// # Errors
/// There are not two processors, or a kernel thread cannot be had.
pub fn measure(threads: OfThreads, watch: Observers) -> Result<Measured, String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        return Err("one processor: what goes from one to another cannot be measured; two at least are needed".into());
    }
    let each = |count, probe: fn(u64)| each(watch.here, count, probe);
    let (wake, wake_latency) = waking(watch)?;
    let (heavy_fence, interruption) = heavy_fences(watch)?;
    Ok(Measured {
        queue: each(40_000, queue::<Real>),
        exchange: each(100_000, exchanges::<Real>),
        stores: each(100_000, stores::<Real>),
        plain: each(100_000, plain),
        behind: each(100_000, behind),
        round_trip: round_trips(watch)?,
        line: lines(watch)?,
        memory: memory(watch.here),
        fence: each(100_000, fences::<Real>),
        heavy_fence,
        heavy_fence_alone: each(600, |count| (0..count).for_each(|_| Real::heavy_fence())),
        interruption,
        spin: each(10_000, |count| (0..count).for_each(|_| Real::spin_hint())),
        sleep: each(1_000, not_waiting),
        wake,
        wake_latency,
        threads,
        disturbed: disturbed().into(),
    })
}

/// The costs with which the simulated probes take as long as the measured ones.
///
/// # Errors
/// A simulated probe fails, which is a fault of this library.
pub fn fit(measured: &Measured) -> Result<Costs, String> {
    let mut costs = Costs::preset("host").ok_or("the preset `host` is gone")?;
    costs.name = "calibrated".into();
    costs.source = "measured by `raddle sim --calibrate`; hit and read_occupancy are estimates".into();
    costs.exchange = 0.0;
    costs.memory = measured.memory;
    costs.commit = (measured.stores - measured.exchange - costs.hit).max(0.0);
    // How far the two overlap, of what could: of the shorter one.
    let Measured { exchange, plain, behind, .. } = *measured;
    let overlap = (exchange + plain - behind) / exchange.min(plain).max(0.01);
    costs.behind = exchange * overlap.clamp(0.0, 1.0);
    // One figure for what surrounds an access, by three probes, none of which it meets: the mean of their ratios is 1.
    // (On an AMD EPYC the queue then takes 5.0 ns for 6.2, a lock and unlock 4.8 for 5.3, the channel 20 for 16. Such
    // that the middle one is met, the figure was 0.35 to 0.83 in five calibrations one after the other, since a queue
    // of 5 to 7 ns and a channel of 14 to 17 change places, and tokenring on one processor came out 6 % too quick to 22
    // % too slow.)
    costs.step = solve(0.0, 20.0, 3.0, |step| {
        let exchange = (measured.exchange - step - costs.hit).max(0.0);
        let costs = Costs { step, exchange, ..costs.clone() };
        Ok(alone(&costs, queue::<Controlled>)? / measured.queue
            + run_alone(&costs, &PASSING, "")? / measured.threads.passing
            + run_alone(&costs, &LOCKING, "")? / measured.threads.locking)
    })?;
    costs.exchange = (measured.exchange - costs.step - costs.hit).max(0.0);
    costs.heavy_fence = measured.heavy_fence;
    [costs.heavy_fence_alone, costs.interruption] = [measured.heavy_fence_alone, measured.interruption];
    costs.spin = (measured.spin - costs.step).max(0.0);
    [costs.sleep, costs.wake, costs.wake_latency] = [measured.sleep, measured.wake, measured.wake_latency];
    // What two processors lose to each other by computing, and by all that such programs share unseen, over and above
    // the words they share.
    costs.together = (measured.threads.beside / measured.threads.joining).max(1.0);
    let base = costs.clone();
    let fence = |fence: f64| alone(&Costs { fence, ..base.clone() }, fences::<Controlled>);
    costs.fence = solve(0.0, 100.0, measured.fence, fence)?;
    let base = costs.clone();
    // Of some spin hints, longer and shorter ones: with one length the round trip goes in steps of it, and may be met
    // at none.
    let transfer = |transfer: f64| {
        let levels = vec![Level { cores: usize::MAX, transfer }];
        let of = |part: f64| two(&Costs { levels: levels.clone(), spin: base.spin * part, ..base.clone() });
        let times = [0.6, 0.8, 1.0, 1.2, 1.4].map(of).into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(times.iter().sum::<f64>() / times.len() as f64)
    };
    let transfer = solve(1.0, 2_000.0, measured.round_trip, transfer)?;
    costs.levels = vec![Level { cores: usize::MAX, transfer }];
    costs.overlap = (transfer / measured.line.max(0.01)).max(1.0);
    let base = costs.clone();
    let yielding = |switch: f64| yields(&Costs { switch, ..base.clone() });
    costs.switch = solve(0.0, 1_000.0, measured.threads.yielding, yielding)?;
    let base = costs.clone();
    let spawning = |spawn: f64| spawns(&Costs { spawn, ..base.clone() });
    costs.spawn = solve(0.0, 2_000.0, measured.threads.spawning, spawning)?;
    let base = costs.clone();
    // Again one figure for several: what a beginning takes differs by what is at hand, and by how soon what was written
    // is read again.
    let OfThreads { starting, pairing, joining, .. } = measured.threads;
    costs.start = solve(0.0, 2_000.0, 3.0, |start| {
        let costs = Costs { start, ..base.clone() };
        let of = |workload, measured| Ok::<f64, String>(run_alone(&costs, workload, "")? / measured);
        Ok(of(&STARTING, starting)? + of(&PAIRING, pairing)? + of(&JOINING, joining)?)
    })?;
    Ok(costs)
}

/// Where a function that grows has this value, as far as it does between these bounds.
fn solve(least: f64, most: f64, value: f64, of: impl Fn(f64) -> Result<f64, String>) -> Result<f64, String> {
    let (mut low, mut high) = (least, most);
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if of(middle)? < value { low = middle } else { high = middle }
    }
    Ok(((low + high) * 50.0).round() / 100.0)
}

/// A probe on one simulated core: nanoseconds each, once its lines are there.
fn alone(costs: &Costs, probe: fn(u64)) -> Result<f64, String> {
    const COUNT: u64 = 1_000;
    let time = |count| cores(costs, vec![Box::new(move || probe(count))]);
    Ok((time(2 * COUNT)? - time(COUNT)?) / COUNT as f64)
}

/// A word between two simulated cores.
fn two(costs: &Costs) -> Result<f64, String> {
    const COUNT: u32 = 200;
    let word = Rc::new(<Controlled as Machine>::Atomic::<u32>::new(0));
    let side = |first| {
        let word = word.clone();
        Box::new(move || in_turn::<Controlled>(&word, 0..COUNT, first)) as Box<dyn FnOnce()>
    };
    cores(costs, vec![side(0), side(1)]).map(|time| time / f64::from(COUNT))
}

/// Programs on simulated cores: the nanoseconds until the last one ends.
fn cores(costs: &Costs, programs: Vec<Box<dyn FnOnce()>>) -> Result<f64, String> {
    let options = Options { clocks: false, lines: true, steps: 10_000_000, ..Options::default() };
    let end = Rc::new(Cell::new(0));
    let over = run(&options, VirtualTime::new(costs.clone()), || {
        for program in programs {
            let end = end.clone();
            start("probe", move || {
                program();
                end.set(end.get().max(Controlled::now()));
            });
        }
    });
    match over.outcome {
        Outcome::Done => Ok(end.get() as f64),
        other => Err(format!("a probe of the calibration failed: {other}")),
    }
}

fn queue<M: Machine>(count: u64) {
    let Ok((_ring, mut owner)) = FifoRing::<M>::new(256) else { panic!("no memory for a queue") };
    for item in 1..=count as usize {
        let _ = owner.push(item);
        black_box(owner.pop());
    }
}

fn exchanges<M: Machine>(count: u64) {
    let word = M::Atomic::<u64>::new(0);
    (0..count).for_each(|_| {
        word.fetch_add(1, Ordering::AcqRel);
    });
}

fn stores<M: Machine>(count: u64) {
    let (stored, word) = (M::Atomic::<u64>::new(0), M::Atomic::<u64>::new(0));
    for number in 0..count {
        black_box(&stored).store(number, Ordering::Release);
        word.fetch_add(1, Ordering::AcqRel);
    }
}

/// As many stores as take about as long as a read-modify-write.
fn plain(count: u64) {
    let words: [AtomicU64; 8] = Default::default();
    for number in 0..count {
        black_box(&words).iter().for_each(|word| word.store(number, Ordering::Release));
    }
}

fn behind(count: u64) {
    let (words, other): ([AtomicU64; 8], _) = (Default::default(), AtomicU64::new(0));
    for number in 0..count {
        black_box(&other).fetch_add(1, Ordering::AcqRel);
        black_box(&words).iter().for_each(|word| word.store(number, Ordering::Release));
    }
}

fn fences<M: Machine>(count: u64) {
    let word = M::Atomic::<u64>::new(0);
    for number in 0..count {
        // Without it the optimiser may see that nobody else can reach the word.
        black_box(&word).store(number, Ordering::Release);
        M::fence(Ordering::SeqCst);
    }
}

/// Looks until the word has this value; one whose partner does not come for long lets other kernel threads run.
fn until<M: Machine>(word: &M::Atomic<u32>, value: u32) {
    let mut looks = 0u32;
    while word.load(Ordering::Acquire) != value {
        looks += 1;
        if looks.is_multiple_of(4096) {
            std::thread::yield_now();
        }
        // Without it what the two take differs by several times from one moment to the next (115 to 1,700 ns there and
        // back on two virtual cores of an AMD EPYC, 2026-11-23).
        M::spin_hint();
    }
}

/// Writes the word in each of these rounds, when it is this side's turn.
fn in_turn<M: Machine>(word: &M::Atomic<u32>, rounds: Range<u32>, side: u32) {
    for round in rounds {
        until::<M>(word, 2 * round + side);
        word.store(2 * round + side + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::here::beside;
    use super::*;
    use std::sync::Arc;

    fn measured() -> Measured {
        Measured {
            queue: 12.0,
            exchange: 6.0,
            stores: 10.0,
            plain: 3.0,
            behind: 9.0,
            round_trip: 250.0,
            line: 15.0,
            memory: 95.0,
            fence: 9.0,
            heavy_fence: 2_500.0,
            heavy_fence_alone: 400.0,
            interruption: 900.0,
            spin: 40.0,
            sleep: 300.0,
            wake: 1_500.0,
            wake_latency: 4_000.0,
            threads: OfThreads {
                yielding: 60.0,
                spawning: 150.0,
                starting: 270.0,
                pairing: 200.0,
                joining: 260.0,
                beside: 325.0,
                passing: 40.0,
                locking: 18.0,
            },
            disturbed: 0.0,
        }
    }

    #[test]
    fn with_the_fitted_costs_and_those_of_their_file_the_simulated_probes_take_what_the_real_ones_took() {
        let measured = measured();
        let costs = fit(&measured).unwrap();
        for (name, theirs, ours) in probes(&costs, &measured).unwrap() {
            let near = if met::OF_SEVERAL.contains(&name) { 0.6 } else { 0.02 };
            assert!((ours / theirs - 1.0).abs() < near, "{name}: {theirs} measured, {ours} simulated");
        }
        assert_eq!(warning(&probes(&costs, &measured).unwrap()), None);
        // Cores that others kept busy: more than the solver's upper limit.
        let measured = Measured { round_trip: 21_128.0, ..measured };
        let told = warning(&probes(&fit(&measured).unwrap(), &measured).unwrap()).unwrap();
        assert!(told.contains("measured: round trip (21128.0 ns measured") && !told.contains("), "), "{told}");
        assert_eq!(Costs::from_json(&costs.to_json()).unwrap(), costs);
        assert_eq!((costs.together, costs.wake, costs.memory), (1.25, 1_500.0, 95.0));
    }

    #[test]
    fn what_follows_an_exchange_passes_behind_it_where_the_machine_lets_it() {
        fn stores_between<M: Machine>(count: u64) {
            let [stored, word] = [(); 2].map(|()| M::Atomic::<u64>::new(0));
            for number in 0..count {
                word.fetch_add(1, Ordering::AcqRel);
                (0..3).for_each(|_| stored.store(number, Ordering::Release));
            }
        }
        let plain = Costs { step: 1.0, hit: 0.5, exchange: 5.0, commit: 0.0, ..Costs::preset("host").unwrap() };
        let each = |behind| alone(&Costs { behind, ..plain.clone() }, stores_between::<Controlled>).unwrap().round();
        // An exchange of 6.5 ns, three stores of 1.5.
        assert_eq!([0.0, 2.0, 4.5, 6.5].map(each), [11.0, 9.0, 6.5_f64.round(), 6.5_f64.round()]);
        // Of a machine that overlaps them, and of one that does not.
        let of =
            |behind| fit(&Measured { exchange: 3.0, stores: 3.2, plain: 2.0, behind, ..measured() }).unwrap().behind;
        assert_eq!([3.0, 4.0, 5.0, 6.0].map(of), [3.0, 1.5, 0.0, 0.0]);
    }

    #[test]
    fn of_several_calibrations_each_probe_s_middle_counts() {
        let (mut slow, mut quick) = (measured(), measured());
        for place in FIELDS {
            *place(&mut slow) *= 2.0;
            *place(&mut quick) /= 2.0;
        }
        assert_eq!(Measured::middle_of(&[slow, measured(), quick, measured()]), Some(measured()));
        assert_eq!(Measured::middle_of(&[]), None);
        assert_eq!(middle_half(vec![5.0, 80.0, 1.0, 3.0]), 4.0);
        assert_eq!((middle_half(vec![2.0]), middle_half(vec![])), (2.0, 0.0));
    }

    #[test]
    fn what_was_measured_goes_from_one_process_to_another() {
        assert_eq!(Measured::from_line(&measured().to_line()), Some(measured()));
        assert_eq!((Measured::from_line("1 2 3"), Measured::from_line("nothing")), (None, None));
    }

    #[test]
    fn rounds_that_were_disturbed_do_not_count_unless_all_were() {
        let rounds = |good: [bool; 4]| good.into_iter().zip([4.0, 3.0, 2.0, 5.0]).collect();
        assert_eq!(quickest(rounds([true, true, false, true])), 3.0);
        assert_eq!(here::undisturbed(rounds([true, false, false, true])), [4.0, 5.0]);
        assert_eq!((quickest(rounds([false; 4])), quickest(Vec::new())), (2.0, 0.0));
        // The second of eight.
        assert_eq!(quickest((1..=8).rev().map(|time| (true, f64::from(time))).collect()), 2.0);
        assert_eq!((quick(vec![5.0, 80.0, 1.0, 3.0]), quick(vec![])), (3.0, 0.0));
    }

    #[test]
    fn the_probes_end_on_this_machine_too() {
        let each = |probe: fn(u64)| each(here::always, 1_000, probe);
        assert!(each(queue::<Real>) > 0.0 && each(fences::<Real>) > 0.0);
        let word = Arc::new(<Real as Machine>::Atomic::<u32>::new(0));
        let theirs = word.clone();
        beside(|| (), move || in_turn::<Real>(&theirs, 0..50, 1), || in_turn::<Real>(&word, 0..50, 0)).unwrap();
        assert_eq!(word.load(Ordering::Acquire), 100);
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
