//! The micro-benchmarks: one mechanism each.

use super::{Api, share};
use crate::memory::Memory;
use crate::program::Outcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) fn create<A: Api>(n: u64) -> Outcome {
    let start = Instant::now();
    let handles: Vec<_> = (0..n).map(|_| A::spawn(|| ())).collect();
    let mut joined = 0;
    for handle in handles {
        A::join(handle);
        joined += 1;
    }
    Outcome::new(n, start.elapsed(), joined)
}

struct Gate<A: Api> {
    inside: AtomicU64,
    full: A::Gate,
    opened: A::Gate,
}

impl<A: Api> Gate<A> {
    /// Blocks until the gate opens; the `n`th to come tells that all are in.
    fn pass(&self, n: u64) -> u64 {
        if self.inside.fetch_add(1, Ordering::AcqRel) + 1 == n {
            A::open(&self.full);
        }
        A::pass(&self.opened);
        1
    }
}

pub(super) fn park<A: Api>(n: u64, baseline: Memory) -> Outcome {
    let gate = Arc::new(Gate::<A> { inside: AtomicU64::new(0), full: A::gate(), opened: A::gate() });
    let start = Instant::now();
    let handles: Vec<_> = (0..n)
        .map(|_| {
            let gate = gate.clone();
            A::spawn(move || gate.pass(n))
        })
        .collect();
    A::pass(&gate.full);
    let blocked_after = start.elapsed();
    let memory = Memory::now();
    let release = Instant::now();
    A::open(&gate.opened);
    let sum: u64 = handles.into_iter().map(A::join).sum();
    let released_in = release.elapsed();
    let per_thread = |now: u64, before: u64| now.saturating_sub(before) as f64 * 1024.0 / n.max(1) as f64;
    Outcome::new(n, start.elapsed(), sum)
        .with("rss_per_thread", per_thread(memory.rss_kib, baseline.rss_kib))
        .with("page_tables_per_thread", per_thread(memory.page_tables_kib, baseline.page_tables_kib))
        .with("block_ns_per_thread", per_op(blocked_after, n))
        .with("release_ns_per_thread", per_op(released_in, n))
}

fn per_op(time: Duration, ops: u64) -> f64 {
    time.as_nanos() as f64 / ops.max(1) as f64
}

pub(super) fn yields<A: Api>(threads: u64, total: u64) -> Result<Outcome, String> {
    let each = share(total, threads)?;
    let start = Instant::now();
    let body = move || {
        for _ in 0..each {
            A::yield_now();
        }
        each
    };
    let handles: Vec<_> = (0..threads).map(|_| A::spawn(body)).collect();
    let sum = handles.into_iter().map(A::join).sum();
    Ok(Outcome::new(total, start.elapsed(), sum))
}

pub(super) fn pp_chan<A: Api>(n: u64) -> Outcome {
    let start = Instant::now();
    let (ping, pinged) = A::channel::<u64>(1);
    let (pong, ponged) = A::channel::<u64>(1);
    let far = A::spawn(move || {
        for _ in 0..n {
            let i = A::recv(&pinged);
            A::send(&pong, i + 1);
        }
    });
    let near = A::spawn(move || {
        let mut sum = 0;
        for i in 0..n {
            A::send(&ping, i);
            sum += A::recv(&ponged);
        }
        sum
    });
    let sum = A::join(near);
    A::join(far);
    Outcome::new(n, start.elapsed(), sum)
}

pub(super) fn pp_cond<A: Api>(n: u64) -> Outcome {
    let start = Instant::now();
    let table = Arc::new((A::mutex(0usize), [A::condvar(), A::condvar()]));
    let player = |me: usize| {
        let table = table.clone();
        A::spawn(move || {
            let (turn, condvars) = &*table;
            let mut turns = 0;
            for _ in 0..n {
                let mut turn = A::lock(turn);
                while *turn != me {
                    turn = A::wait(&condvars[me], turn);
                }
                *turn = 1 - me;
                turns += 1;
                drop(turn);
                A::notify_one(&condvars[1 - me]);
            }
            turns
        })
    };
    let (first, second) = (player(0), player(1));
    let sum = A::join(first) + A::join(second);
    Outcome::new(n, start.elapsed(), sum)
}

/// Keeps neighbours off each other's cache lines, the adjacent-line prefetcher's pairs included.
#[repr(align(128))]
struct Padded<T>(T);

pub(super) fn lock_local<A: Api>(threads: u64, total: u64) -> Result<Outcome, String> {
    let each = share(total, threads)?;
    let start = Instant::now();
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            A::spawn(move || {
                let counter = Box::new(Padded(A::mutex(0u64)));
                // Without it the optimiser may see that nobody else can reach the lock.
                let counter = std::hint::black_box(&counter);
                for _ in 0..each {
                    *A::lock(&counter.0) += 1;
                }
                *A::lock(&counter.0)
            })
        })
        .collect();
    let sum = handles.into_iter().map(A::join).sum();
    Ok(Outcome::new(total, start.elapsed(), sum))
}

pub(super) fn lock_global<A: Api>(threads: u64, total: u64, block: bool) -> Result<Outcome, String> {
    let each = share(total, threads)?;
    let start = Instant::now();
    let counter = Arc::new(Padded(A::mutex(0u64)));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let counter = counter.clone();
            A::spawn(move || {
                for _ in 0..each {
                    let mut count = A::lock(&counter.0);
                    *count += 1;
                    if block {
                        A::yield_now();
                    }
                }
            })
        })
        .collect();
    handles.into_iter().for_each(A::join);
    let sum = *A::lock(&counter.0);
    Ok(Outcome::new(total, start.elapsed(), sum))
}

/// A thread is made, scheduled, runs the null procedure and ends, before the next one is made: null-fork of T. E.
/// Anderson et al., "Scheduler Activations" (1991), tables 1 and 4.
pub(super) fn null_fork<A: Api>(n: u64) -> Outcome {
    let start = Instant::now();
    let sum = (0..n).map(|_| A::join(A::spawn(|| 1u64))).sum();
    with_yardsticks(Outcome::new(n, start.elapsed(), sum))
}

/// Two threads signal each other, which waits, and wait themselves: signal-wait of the same tables.
pub(super) fn signal_wait<A: Api>(n: u64) -> Outcome {
    let bells = Arc::new([A::semaphore(0), A::semaphore(0)]);
    let player = |me: usize| {
        let bells = bells.clone();
        A::spawn(move || {
            for _ in 0..n {
                if me == 0 {
                    A::release(&bells[1]);
                    A::acquire(&bells[0]);
                } else {
                    A::acquire(&bells[1]);
                    A::release(&bells[0]);
                }
            }
            n
        })
    };
    let start = Instant::now();
    let players = [player(0), player(1)];
    let sum = players.into_iter().map(A::join).sum();
    with_yardsticks(Outcome::new(2 * n, start.elapsed(), sum))
}

/// Beside these two the paper has what a procedure call takes, and what the kernel's door does.
fn with_yardsticks(outcome: Outcome) -> Outcome {
    #[inline(never)]
    fn null(number: u64) -> u64 {
        std::hint::black_box(number)
    }
    let each = |n: u64, mut once: Box<dyn FnMut(u64) -> u64>| {
        let start = Instant::now();
        let sum = (0..n).fold(0u64, |sum, number| sum.wrapping_add(once(number)));
        std::hint::black_box(sum);
        start.elapsed().as_nanos() as f64 / n as f64
    };
    let procedure = each(100_000, Box::new(null));
    // It takes nothing, does nothing, and is not answered without the kernel.
    let trap = each(10_000, Box::new(|_| rustix::thread::gettid().as_raw_nonzero().get() as u64));
    outcome.with("procedure_ns", procedure).with("trap_ns", trap)
}

/// What the waker and the sleeper of `wake_remote` share.
struct Bell<A: Api> {
    rung: A::Mutex<bool>,
    ring: A::Condvar,
    awake: AtomicBool,
    awake_at: AtomicU64,
}

/// The waker never gives its processor up between ringing and the answer, so the sleeper has to wake up on another one.
/// Between two rings it spins for `gap_us`, in which the other processor runs out of work and goes idle.
pub(super) fn wake_remote<A: Api>(n: u64, gap_us: u64) -> Outcome {
    let start = Instant::now();
    let bell = Arc::new(Bell::<A> {
        rung: A::mutex(false),
        ring: A::condvar(),
        awake: AtomicBool::new(false),
        awake_at: AtomicU64::new(0),
    });
    let sleeper = {
        let bell = bell.clone();
        A::spawn(move || {
            for _ in 0..n {
                let mut rung = A::lock(&bell.rung);
                while !*rung {
                    rung = A::wait(&bell.ring, rung);
                }
                let now = start.elapsed().as_nanos() as u64;
                *rung = false;
                drop(rung);
                bell.awake_at.store(now, Ordering::Relaxed);
                bell.awake.store(true, Ordering::Release);
            }
        })
    };
    let waker = A::spawn(move || {
        let gap = Duration::from_micros(gap_us);
        let (mut waited, mut wakes) = (0, 0);
        for _ in 0..n {
            let pause = Instant::now();
            while pause.elapsed() < gap {
                std::hint::spin_loop();
            }
            let rung_at = start.elapsed().as_nanos() as u64;
            *A::lock(&bell.rung) = true;
            A::notify_one(&bell.ring);
            while !bell.awake.swap(false, Ordering::Acquire) {
                std::hint::spin_loop();
            }
            waited += bell.awake_at.load(Ordering::Relaxed).saturating_sub(rung_at);
            wakes += 1;
        }
        (waited, wakes)
    });
    let (waited, wakes) = A::join(waker);
    A::join(sleeper);
    Outcome::new(n, Duration::from_nanos(waited), wakes).with("gap_us", gap_us)
}
