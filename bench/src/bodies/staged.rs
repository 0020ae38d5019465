//! `staged`: requests that come whether or not anybody has time for them, and what becomes of them in one pool and in
//! stages.
//!
//! A request comes every `gap` ns and computes `first` ns, then `second` ns, each time in a thread of its own.
//! `by=pool` starts the threads in one pool, however many there are already; `by=bounded` has one stage with `places`
//! for both parts, `by=stages` two that have half of them each. These refuse a request that finds no place, and a
//! refused one is nobody's any more. The latencies are those of the accepted ones, from when they were due.

use super::Api;
use super::packet::with_percentiles;
use crate::args::Args;
use crate::load::latency::{Latencies, code_of};
use crate::load::protocol::mix;
use crate::program::Outcome;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the generator sleeps when nothing is due: longer than most requests of a run that bears its load take to
/// come.
const TICK: Duration = Duration::from_micros(200);
/// What a request that was refused has for its latency.
const REFUSED: u16 = u16::MAX;

/// The requests of one run.
#[derive(Debug)]
pub struct Requests {
    count: u64,
    gap: Duration,
    first: Duration,
    second: Duration,
    /// All places of the bounded ways.
    pub places: usize,
    sum: AtomicU64,
    notes: Vec<AtomicU16>,
}

/// The sum over all requests, refused or not.
pub(crate) fn expected(args: &Args) -> Option<u64> {
    Some((0..args.number("N").ok()?).fold(0, |sum, number| mix(number).wrapping_add(sum)))
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        spin_loop();
    }
}

impl Requests {
    /// Those of one repetition. They live for ever, so that threads can refer to them.
    pub fn new(args: &Args) -> Result<&'static Requests, String> {
        let nanos = |key: &str| args.number(key).map(Duration::from_nanos);
        let (count, places) = (args.number("N")?, args.number("places")? as usize);
        if nanos("gap")?.is_zero() || places < 2 {
            return Err("staged needs gap=1 or more, and places=2 or more".into());
        }
        let notes = (0..count).map(|_| AtomicU16::new(0)).collect();
        Ok(Box::leak(Box::new(Requests {
            count,
            gap: nanos("gap")?,
            first: nanos("first")?,
            second: nanos("second")?,
            places,
            sum: AtomicU64::new(0),
            notes,
        })))
    }

    /// Gives each request to `start` when it is due, with its number and when it was due.
    pub fn offer<A: Api>(&self, mut start: impl FnMut(u64, Instant)) {
        let begin = Instant::now();
        for number in 0..self.count {
            let due = begin + self.gap.saturating_mul(number as u32);
            while Instant::now() < due {
                A::sleep(TICK);
            }
            start(number, due);
        }
    }

    /// The first part.
    pub fn first(&self) {
        compute(self.first);
    }

    /// The second part, and the end of the request.
    pub fn second(&self, number: u64, due: Instant) {
        compute(self.second);
        self.note(number, code_of(due.elapsed().as_nanos() as u64));
    }

    /// The request found no place.
    pub fn refused(&self, number: u64) {
        self.note(number, REFUSED);
    }

    fn note(&self, number: u64, latency: u16) {
        self.sum.fetch_add(mix(number), Ordering::Relaxed);
        self.notes[number as usize].store(latency, Ordering::Relaxed);
    }

    /// After all have ended, of which the caller has seen the end.
    pub fn outcome(&self, time: Duration) -> Outcome {
        let mut latencies = Latencies::new();
        let notes = self.notes.iter().map(|note| note.load(Ordering::Relaxed));
        let accepted: Vec<u16> = notes.filter(|&note| note != REFUSED).collect();
        accepted.iter().for_each(|&note| latencies.note_code(note));
        let outcome = Outcome::new(accepted.len().max(1) as u64, time, self.sum.load(Ordering::Relaxed));
        with_percentiles(outcome, &latencies).with("accepted", accepted.len())
    }
}

/// All in the pool that is there.
pub(super) fn in_one_pool<A: Api>(requests: &'static Requests) -> Outcome {
    let ended: &'static A::Semaphore = Box::leak(Box::new(A::semaphore(0)));
    let start = Instant::now();
    requests.offer::<A>(|number, due| {
        let second = move || {
            requests.second(number, due);
            A::release(ended);
        };
        let first = move || {
            requests.first();
            let _ = A::spawn(second);
        };
        let _ = A::spawn(first);
    });
    (0..requests.count).for_each(|_| A::acquire(ended));
    requests.outcome(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_and_refused_ones_are_all_requests() {
        let words = ["N=10", "gap=1", "first=1", "second=1", "places=2"];
        let args = Args::parse(words).unwrap();
        let requests = Requests::new(&args).unwrap();
        for number in 0..10 {
            if number % 3 == 0 { requests.refused(number) } else { requests.second(number, Instant::now()) }
        }
        let outcome = requests.outcome(Duration::from_secs(1));
        assert_eq!((outcome.ops, Some(outcome.checksum)), (6, expected(&args)));
        assert!(
            Requests::new(&Args::parse(words.map(|word| if word == "gap=1" { "gap=0" } else { word })).unwrap())
                .is_err()
        );
    }
}
