//! `locks`: T threads take locks in turns, as often, as long and as regularly as one asks, with any lock that the
//! runtime has.

use super::{Api, share};
use crate::args::Args;
use crate::load::latency::Latencies;
use crate::program::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// What threads do with locks.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    threads: u64,
    each: u64,
    locks: u64,
    hold: u64,
    gap: u64,
    burst: u64,
    at_most: Option<Duration>,
}

/// A wait in so many is timed.
const TIMED: u64 = 16;
/// So many of a thread's waits have room at once: those of a million turns.
const ROOM: u64 = (1 << 20) / TIMED;

impl Turns {
    /// As the arguments say.
    ///
    /// # Errors
    /// If T does not divide `total`, or there is no lock.
    pub fn new(args: &Args) -> Result<Self, String> {
        let number = |key| args.number(key);
        let (threads, locks, burst) = (number("T")?, number("locks")?, number("burst")?);
        let each = share(number("total")?, threads)?;
        if locks == 0 || burst == 0 {
            return Err("locks=0 or burst=0: at least one is needed".into());
        }
        // Without the key as with 0: all turns, however long they take.
        let at_most = args.get("ms").map(|_| number("ms")).transpose()?.filter(|&ms| ms > 0).map(Duration::from_millis);
        Ok(Self { threads, each, locks, hold: number("hold")?, gap: number("gap")?, burst, at_most })
    }
}

/// A number behind a lock.
pub trait Counted: Send + Sync + 'static {
    /// Zero.
    fn new() -> Self;
    /// Adds one under the lock, and calls `inside` there.
    fn add(&self, inside: impl FnOnce());
    /// How often that was.
    fn count(&self) -> u64;
}

/// The runtime's own mutex.
pub struct OwnMutex<A: Api>(A::Mutex<u64>);

impl<A: Api> Counted for OwnMutex<A> {
    fn new() -> Self {
        Self(A::mutex(0))
    }
    #[inline(always)]
    fn add(&self, inside: impl FnOnce()) {
        let mut count = A::lock(&self.0);
        *count += 1;
        inside();
    }
    fn count(&self) -> u64 {
        *A::lock(&self.0)
    }
}

#[repr(align(128))]
struct Padded<T>(T);

/// About so many nanoseconds of computing.
#[inline(always)]
pub(super) fn compute(nanoseconds: u64) {
    let mut word = 1u64;
    // A multiplication takes about a nanosecond, and each needs the one before.
    (0..nanoseconds).for_each(|_| word = std::hint::black_box(word.wrapping_mul(0x9e37_79b9)));
}

struct Line<A: Api, L> {
    locks: Vec<Padded<L>>,
    /// The turns of each; 0 when the time is over.
    each: Padded<AtomicU64>,
    inside: AtomicU64,
    all_in: A::Gate,
    go: A::Gate,
}

/// The time from when all threads are there until the last one has had its turns, or until the time is over and each
/// has ended the turn that it was in: locks that are handed from one kernel thread to another take a turn each time
/// slice where there are fewer cores. A thread has the lock of its number, modulo. A burst is so many turns without a
/// pause, after which comes a pause for each of them.
pub fn contend<A: Api, L: Counted>(turns: Turns) -> Outcome {
    let locks = (0..turns.locks.min(turns.threads)).map(|_| Padded(L::new())).collect();
    let each = Padded(AtomicU64::new(turns.each));
    let line = Arc::new(Line::<A, L> { locks, each, inside: AtomicU64::new(0), all_in: A::gate(), go: A::gate() });
    let handles: Vec<_> = (0..turns.threads)
        .map(|number| {
            let line = line.clone();
            A::spawn(move || {
                let lock = &line.locks[number as usize % line.locks.len()].0;
                let mut waits = Vec::with_capacity((turns.each / TIMED + 1).min(ROOM) as usize);
                if line.inside.fetch_add(1, Ordering::AcqRel) + 1 == turns.threads {
                    A::open(&line.all_in);
                }
                A::pass(&line.go);
                let mut turn = 0;
                while turn < line.each.0.load(Ordering::Relaxed) {
                    let asked = turn.is_multiple_of(TIMED).then(Instant::now);
                    let mut waited = Duration::ZERO;
                    lock.add(|| {
                        waited = asked.map_or(waited, |asked| asked.elapsed());
                        compute(turns.hold);
                    });
                    waits.extend(asked.map(|_| waited.as_nanos() as u64));
                    turn += 1;
                    if turn.is_multiple_of(turns.burst) {
                        compute(turns.gap * turns.burst);
                    }
                }
                (Instant::now(), turn, waits)
            })
        })
        .collect();
    A::pass(&line.all_in);
    let clock = turns.at_most.map(|at_most| end_after(at_most, line.clone()));
    let start = Instant::now();
    A::open(&line.go);
    // A histogram: to sort them would take instructions by what the clock said, which `xtask lock-counts` would count.
    let (mut end, mut done, mut longest, mut waits) = (start, 0, 0, Latencies::new());
    for handle in handles {
        let (ended, had, waited) = A::join(handle);
        end = end.max(ended);
        done += had;
        for wait in waited {
            longest = wait.max(longest);
            waits.note(wait);
        }
    }
    drop(clock);
    let sum: u64 = line.locks.iter().map(|lock| lock.0.count()).sum();
    let total = turns.threads * turns.each;
    // All of them, if each of those that were had has been counted.
    let outcome = Outcome::new(done, end - start, (total - done).wrapping_add(sum));
    let outcome = if done < total { outcome.with("turns_in_time", done) } else { outcome };
    match waits.total() {
        0 => outcome,
        _ => {
            outcome.with("p50_ns", waits.quantile(0.5)).with("p99_ns", waits.quantile(0.99)).with("longest_ns", longest)
        }
    }
}

/// Nobody has a further turn after that time, or when what is returned is dropped. A kernel thread's, since threads
/// that spin may have all processors.
fn end_after<A: Api, L: Counted>(time: Duration, line: Arc<Line<A, L>>) -> mpsc::Sender<()> {
    let (running, ended) = mpsc::channel();
    thread::spawn(move || {
        _ = ended.recv_timeout(time);
        line.each.0.store(0, Ordering::Relaxed);
    });
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(text: &str) -> Turns {
        Turns::new(&Args::parse(text.split_whitespace()).unwrap()).unwrap()
    }

    #[test]
    fn a_run_has_all_its_turns_or_a_time() {
        let of = |ms: &str| turns(&format!("T=2 total=8 locks=1 hold=0 gap=0 burst=1 {ms}")).at_most;
        assert_eq!((of(""), of("ms=0"), of("ms=9")), (None, None, Some(Duration::from_millis(9))));
    }
}
