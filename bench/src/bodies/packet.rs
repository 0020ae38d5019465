//! The packet workloads of the schedulers report: who spawns copies packets and starts a thread for each.
//!
//! What a thread does with its packet is in [`Traffic`], which every program in Rust shares; how threads are started
//! and waited for is the runtime's own. A thread notes its latency and its sum in a word of its own, four bytes, so
//! that ten million need 40 MB and no lock.

use super::Api;
use crate::args::Args;
use crate::load::latency::{Latencies, code_of};
use crate::load::protocol::mix;
use crate::program::{LATENCIES, Outcome};
use std::hint::{black_box, spin_loop};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PACKETS: u64 = 10;
/// Words of the state of `packet-cache`: 32 MiB of which a packet reads a part of 64 KiB, a word of each cache line.
const STATE_WORDS: usize = 4 << 20;
const PART_WORDS: usize = 8 << 10;
const LINE_WORDS: usize = 8;
/// Bits of a note that hold the sum; the bucket of the latency is above them.
const SUM_BITS: u32 = 20;
/// With so many in flight a run is given up: their buffers take 4 GB.
const TOO_MANY: u64 = 1_500_000;
/// A spawner says how far it is whenever it has started so many.
const TELL: u64 = 64;

/// Which of the four workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Copy,
    Cache,
    Bimodal,
}

/// What the spawners and the threads of one workload share.
#[derive(Debug)]
pub struct Traffic {
    kind: Kind,
    count: u64,
    /// How many threads spawn.
    pub spawners: u64,
    work: Duration,
    gap: Duration,
    /// The long ones are less urgent, where a runtime knows such.
    low: bool,
    packets: Vec<Vec<u8>>,
    state: Vec<u64>,
    notes: Vec<AtomicU32>,
    ended: Counter,
    spawned: Vec<Counter>,
    in_flight: Counter,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

fn packet(number: u64) -> Vec<u8> {
    (0..2048 + 102 * number)
        .map(|at| if (7 * at + number).is_multiple_of(61) { b'\n' } else { b'a' + (at % 26) as u8 })
        .collect()
}

/// Counts in bytes as long as they cannot overflow, which a compiler turns into vectors of bytes.
fn newlines(packet: &[u8]) -> u64 {
    let part = |part: &[u8]| part.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>();
    packet.chunks(128).map(|chunk| u64::from(part(chunk))).sum()
}

/// Whether a packet of `packet-bimodal` is one of the long ones: one in a hundred.
fn is_long(number: u64) -> bool {
    mix(number).is_multiple_of(100)
}

/// The part of the state that a packet of `packet-cache` reads.
fn part_of(number: u64) -> Range<usize> {
    let part = mix(number) as usize % (STATE_WORDS / PART_WORDS);
    part * PART_WORDS..(part + 1) * PART_WORDS
}

fn state_word(index: usize) -> u64 {
    (index / LINE_WORDS) as u64 % 7
}

/// The sum over all packets.
pub(crate) fn expected(workload: &str, args: &Args) -> Option<u64> {
    let count = args.number("N").ok()?;
    let lines: Vec<u64> = (0..PACKETS).map(|number| newlines(&packet(number))).collect();
    let rest: u64 = lines[..(count % PACKETS) as usize].iter().sum();
    let lines = count / PACKETS * lines.iter().sum::<u64>() + rest;
    match workload {
        "packet-cache" => {
            let parts: Vec<u64> = (0..STATE_WORDS / PART_WORDS)
                .map(|part| (part * PART_WORDS..(part + 1) * PART_WORDS).step_by(LINE_WORDS).map(state_word).sum())
                .collect();
            Some(lines + (0..count).map(|number| parts[part_of(number).start / PART_WORDS]).sum::<u64>())
        }
        _ => Some(lines),
    }
}

impl Traffic {
    /// That of a workload with these arguments. It lives for ever, so that threads can refer to it: one in a process.
    pub fn of(workload: &str, args: &Args) -> Result<&'static Traffic, String> {
        static KEPT: Mutex<Vec<(String, &'static Traffic)>> = Mutex::new(Vec::new());
        let name = format!("{workload} {args}");
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let traffic = match kept.iter().find(|(known, _)| *known == name) {
            Some((_, traffic)) => *traffic,
            None => {
                let traffic: &'static Traffic = Box::leak(Box::new(Traffic::new(workload, args)?));
                kept.push((name, traffic));
                traffic
            }
        };
        for counter in traffic.spawned.iter().chain([&traffic.ended, &traffic.in_flight]) {
            counter.0.store(0, Ordering::Relaxed);
        }
        Ok(traffic)
    }

    fn new(workload: &str, args: &Args) -> Result<Traffic, String> {
        let number = |key: &str| args.number(key);
        let kind = match workload {
            "packet" => Kind::Plain,
            "packet-copy" => Kind::Copy,
            "packet-cache" => Kind::Cache,
            "packet-bimodal" => Kind::Bimodal,
            other => return Err(format!("`{other}` has no packets")),
        };
        let (count, spawners) = (number("N")?, number("spawners")?);
        if spawners == 0 {
            return Err("spawners=0: at least one thread must spawn".into());
        }
        Ok(Traffic {
            kind,
            count,
            spawners,
            work: Duration::from_nanos(number("work")?),
            gap: Duration::from_nanos(number("gap")?),
            low: kind == Kind::Bimodal && args.get("low").is_some_and(|low| low != "0"),
            packets: (0..PACKETS).map(packet).collect(),
            state: if kind == Kind::Cache { (0..STATE_WORDS).map(state_word).collect() } else { Vec::new() },
            notes: (0..count).map(|_| AtomicU32::new(0)).collect(),
            ended: Counter::default(),
            spawned: (0..spawners).map(|_| Counter::default()).collect(),
            in_flight: Counter::default(),
        })
    }

    /// The packets of one spawner.
    pub fn share(&self, spawner: u64) -> Range<u64> {
        self.count * spawner / self.spawners..self.count * (spawner + 1) / self.spawners
    }

    /// When this packet comes; nothing where they come as fast as they are taken.
    #[inline]
    pub fn due(&self, start: Instant, number: u64) -> Option<Instant> {
        (!self.gap.is_zero()).then(|| start + self.gap * number as u32)
    }

    /// What the spawner hands over: a fresh copy, or nothing where the thread is to copy.
    #[inline]
    pub fn take(&self, number: u64) -> Vec<u8> {
        if self.kind == Kind::Copy { Vec::new() } else { self.packets[(number % PACKETS) as usize].clone() }
    }

    /// A spawner has started so many: once in a while, how many are in flight is looked at. False if it is to stop,
    /// because nothing bounds them and they would not fit into memory.
    #[inline]
    #[must_use]
    pub fn started(&self, spawner: u64, count: u64) -> bool {
        if !count.is_multiple_of(TELL) {
            return true;
        }
        self.spawned[spawner as usize].0.store(count, Ordering::Relaxed);
        let spawned: u64 = self.spawned.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum();
        let in_flight = spawned.saturating_sub(self.ended.0.load(Ordering::Relaxed));
        self.in_flight.0.fetch_max(in_flight, Ordering::Relaxed);
        in_flight < TOO_MANY
    }

    /// After all spawners have ended: why they stopped too early, if they did.
    pub fn all_started(&self) -> Result<(), String> {
        match self.in_flight.0.load(Ordering::Relaxed) {
            TOO_MANY.. => Err(format!(
                "not offered: {TOO_MANY} packets in flight, which nothing bounds; they would fill the memory"
            )),
            _ => Ok(()),
        }
    }

    /// What a thread does. True for the one that ends last.
    #[inline]
    pub fn handle(&self, number: u64, since: Instant, buffer: Vec<u8>) -> bool {
        let buffer = match self.kind {
            Kind::Copy => black_box(self.packets[(number % PACKETS) as usize].clone()),
            _ => buffer,
        };
        let mut sum = newlines(&buffer);
        let mut work = self.work;
        match self.kind {
            Kind::Cache => sum += self.state[part_of(number)].iter().step_by(LINE_WORDS).sum::<u64>(),
            Kind::Bimodal => work = if is_long(number) { Duration::from_micros(500) } else { Duration::from_micros(1) },
            Kind::Plain | Kind::Copy => {}
        }
        if !work.is_zero() {
            let begin = Instant::now();
            while begin.elapsed() < work {
                spin_loop();
            }
        }
        let latency = code_of(since.elapsed().as_nanos() as u64);
        self.notes[number as usize].store(u32::from(latency) << SUM_BITS | sum as u32, Ordering::Relaxed);
        drop(buffer);
        // The counter publishes the note: whoever sees the count of all sees all notes.
        self.ended.0.fetch_add(1, Ordering::AcqRel) + 1 == self.count
    }

    /// After all have ended.
    pub fn outcome(&self, time: Duration) -> Outcome {
        let mut latencies = Latencies::new();
        let mut sum = 0;
        for (number, note) in (0..).zip(&self.notes) {
            let note = note.load(Ordering::Relaxed);
            sum += u64::from(note & ((1 << SUM_BITS) - 1));
            // The percentiles of packet-bimodal are those of the short ones.
            if self.kind != Kind::Bimodal || !is_long(number) {
                latencies.note_code((note >> SUM_BITS) as u16);
            }
        }
        with_percentiles(Outcome::new(self.count, time, sum), &latencies)
            .with("in_flight", self.in_flight.0.load(Ordering::Relaxed))
    }
}

/// Adds the percentiles to what a workload gives.
pub fn with_percentiles(outcome: Outcome, latencies: &Latencies) -> Outcome {
    let at = |part| latencies.quantile(part);
    outcome
        .with("p50_ns", at(0.5))
        .with("p99_ns", at(0.99))
        .with("p9999_ns", at(0.9999))
        .with(LATENCIES, latencies.told())
}

pub(super) fn run<A: Api>(traffic: &'static Traffic) -> Result<Outcome, String> {
    // Some bytes for each repetition that stay.
    let finished: &'static A::Semaphore = Box::leak(Box::new(A::semaphore(0)));
    let start = Instant::now();
    let spawn = move |spawner: u64| {
        for (started, number) in (1..).zip(traffic.share(spawner)) {
            let due = traffic.due(start, number);
            while due.is_some_and(|due| Instant::now() < due) {
                A::yield_now();
            }
            let buffer = traffic.take(number);
            let since = due.unwrap_or_else(Instant::now);
            let body = move || {
                if traffic.handle(number, since, buffer) {
                    A::release(finished);
                }
            };
            // Nobody joins it.
            let _ = if traffic.low && is_long(number) { A::spawn_low(body) } else { A::spawn(body) };
            if !traffic.started(spawner, started) {
                return;
            }
        }
    };
    let spawners: Vec<_> = (0..traffic.spawners).map(|spawner| A::spawn(move || spawn(spawner))).collect();
    spawners.into_iter().for_each(A::join);
    traffic.all_started()?;
    if traffic.count > 0 {
        A::acquire(finished);
    }
    Ok(traffic.outcome(start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        Args::parse(words.iter().copied().chain(["work=0", "gap=0"])).unwrap()
    }

    #[test]
    fn the_shares_are_all_packets_once() {
        let traffic = Traffic::new("packet", &args(&["N=103", "spawners=4"])).unwrap();
        let all: Vec<u64> = (0..4).flat_map(|spawner| traffic.share(spawner)).collect();
        assert_eq!(all, (0..103).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_one_is_told_and_the_sum_is_the_expected_one() {
        for workload in ["packet", "packet-copy", "packet-cache", "packet-bimodal"] {
            let args = args(&["N=23", "spawners=1"]);
            let traffic = Traffic::new(workload, &args).unwrap();
            let ends: Vec<bool> = (0..23).map(|n| traffic.handle(n, Instant::now(), traffic.take(n))).collect();
            assert_eq!(ends.iter().position(|&last| last), Some(22), "{workload}");
            assert_eq!(Some(traffic.outcome(Duration::ZERO).checksum), expected(workload, &args), "{workload}");
        }
    }

    #[test]
    fn who_is_not_bounded_is_stopped() {
        let traffic = Traffic::new("packet", &args(&["N=1", "spawners=2"])).unwrap();
        assert!(traffic.started(0, TELL) && traffic.all_started().is_ok());
        assert!(!traffic.started(1, TOO_MANY.next_multiple_of(TELL)));
        assert!(traffic.all_started().unwrap_err().starts_with("not offered"));
    }

    #[test]
    fn one_in_a_hundred_is_long() {
        assert!((800..1200).contains(&(0..100_000).filter(|&number| is_long(number)).count()));
    }
}
