//! Processors that take and give up one lock for ever: figure 5, and what section 4.1 says in its text.

use super::{Body, LOOP, processors};
use crate::cost::Costs;
use crate::execution::work;
use crate::machine::Controlled;
use raddle_machine::Machine;
use raddle_scheduler::lock::{
    Algorithm, Cna, Deferred, H1Mcs, H2Mcs, Hemlock, Lock, Mcs, Place, Reciprocating, Spin, SpinThenQueue, SwapH1Mcs,
    SwapH2Mcs, SwapMcs, TryMcs, Trying,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A lock to measure. As in the paper the queue locks use swaps alone, unless they are named with compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Back-off, in spin hints.
    Spin {
        /// The first pause.
        first: u32,
        /// The longest.
        cap: u32,
    },
    /// As today's: a look before each swap, freed by a store.
    SpinToday {
        /// The cap.
        cap: u32,
    },
    /// The lock of 1991.
    Mcs,
    /// With nodes that are ready.
    H1,
    /// Moreover without a look for a successor.
    H2,
    /// The lock of 1991, with compare-and-swap.
    McsCas,
    /// H1 with compare-and-swap.
    H1Cas,
    /// H2 with compare-and-swap.
    H2Cas,
    /// A queue without links.
    Hemlock,
    /// A queue that prefers the holder's cluster.
    Cna,
    /// Arrivals on a stack.
    Reciprocating,
    /// A few tries, then a queue: what the paper's changes make unnecessary. By swaps alone.
    SpinThenQueue,
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Contention {
    /// Which lock.
    pub kind: Kind,
    /// How many processors use it.
    pub processors: usize,
    /// Nanoseconds for which they do.
    pub time: u64,
    /// Nanoseconds that it is held.
    pub hold: u64,
    /// The number of the first of them; the lock's word lies with processor 0.
    pub first: usize,
}

impl Default for Contention {
    fn default() -> Self {
        Self { kind: Kind::H2, processors: 1, time: 1_000_000, hold: 0, first: 0 }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Nanoseconds from the request to the end of the release, with the loop round it: processors times time, by the
    /// number of turns.
    pub mean: f64,
    /// The share of requests that waited more than 2 ms.
    pub starved: f64,
    /// Nanoseconds that these waited, on the average.
    pub starved_for: f64,
    /// The longest wait, nanoseconds.
    pub longest: u64,
}

#[derive(Default)]
struct Tally {
    waits: RefCell<Vec<u64>>,
    /// From the first request of each to its last.
    times: Cell<u64>,
}

fn now() -> u64 {
    Controlled::now()
}

fn bodies<A: Algorithm<Controlled> + 'static>(
    algorithm: A,
    place: impl Fn(usize) -> Place<A, Controlled> + Copy + 'static,
    costs: &Costs,
    asked: &Contention,
) -> Result<Seen, String> {
    let Contention { processors: count, time, hold, first, .. } = *asked;
    let tally = Rc::new(Tally::default());
    let seen = tally.clone();
    let lock = processors(costs, || {
        let lock = Rc::new(Lock::<(), A, Controlled>::with_algorithm(algorithm, ()));
        let one = |number: usize| -> Body {
            let (lock, tally) = (lock.clone(), tally.clone());
            Box::new(move || {
                if number == 0 {
                    // The word is at home with who uses it first.
                    lock.with_place(&mut place(number), |()| ());
                }
                if !(first..first + count).contains(&number) {
                    return;
                }
                let mut place = place(number);
                // All begin some time after, not in step.
                work(100_000 + 737 * number as u64);
                let began = now();
                // The same end for all: who is lucky goes on meanwhile.
                while now() < time + 100_000 {
                    let asked = now();
                    lock.with_place(&mut place, |()| {
                        tally.waits.borrow_mut().push(now() - asked);
                        if hold > 0 {
                            work(hold);
                        }
                    });
                    // Several are not to fall in step, as those of a machine without a common clock do not.
                    work(if count > 1 { Controlled::random() % (2 * LOOP) } else { LOOP });
                }
                tally.times.set(tally.times.get() + now() - began);
            })
        };
        ((0..first + count).map(one).collect(), lock.clone())
    })?;
    drop(lock);
    let waits = seen.waits.take();
    let all = waits.len().max(1) as f64;
    let starved: Vec<u64> = waits.iter().copied().filter(|&wait| wait > 2_000_000).collect();
    Ok(Seen {
        mean: seen.times.get() as f64 / all,
        starved: starved.len() as f64 / all,
        starved_for: starved.iter().sum::<u64>() as f64 / starved.len().max(1) as f64,
        longest: waits.iter().copied().max().unwrap_or(0),
    })
}

/// Runs it.
///
/// # Errors
/// If the processors do not all end.
pub fn contend(costs: &Costs, asked: &Contention) -> Result<Seen, String> {
    fn any<A: Algorithm<Controlled>>(_: usize) -> Place<A, Controlled> {
        Place::new()
    }
    let cluster = costs.levels.first().map_or(1, |level| level.cores);
    match asked.kind {
        Kind::Spin { first, cap } => bodies(Spin::<_, false, true>::with_caps(first, cap), any, costs, asked),
        Kind::SpinToday { cap } => bodies(Spin::<_, true, false>::with_caps(1, cap), any, costs, asked),
        Kind::Mcs => bodies(SwapMcs::new(), any, costs, asked),
        Kind::H1 => bodies(SwapH1Mcs::new(), any, costs, asked),
        Kind::H2 => bodies(SwapH2Mcs::new(), any, costs, asked),
        Kind::McsCas => bodies(Mcs::new(), any, costs, asked),
        Kind::H1Cas => bodies(H1Mcs::new(), any, costs, asked),
        Kind::H2Cas => bodies(H2Mcs::new(), any, costs, asked),
        Kind::Hemlock => bodies(Hemlock::new(), any, costs, asked),
        Kind::Reciprocating => bodies(Reciprocating::new(), any, costs, asked),
        Kind::SpinThenQueue => bodies(SpinThenQueue::<_, true>::new(), any, costs, asked),
        Kind::Cna => bodies(<Cna<_>>::new(), move |number| Place::in_cluster(number / cluster), costs, asked),
    }
}

/// How remote requests fare that only try, while local processors queue: the share of tries that succeed, and
/// nanoseconds until a request is served, of the tries and of work that is left to the holder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// Of a hundred tries.
    pub lucky: f64,
    /// Requests that were served while the local processors were busy.
    pub served: u64,
    /// The same where the work is left.
    pub served_if_left: u64,
    /// Turns of the local processors in that time.
    pub local: u64,
}

/// Section 3.2: `locals` processors keep the lock busy, one more has requests that must not wait. Each has `turns`.
///
/// # Errors
/// If the processors do not all end.
pub fn remote(costs: &Costs, locals: usize, turns: u64) -> Result<Remote, String> {
    const HOLD: u64 = 25_000;
    let [tries, lucky, served] = [(); 3].map(|()| Rc::new(Cell::new(0u64)));
    let running = Rc::new(Cell::new(locals));
    let (t, l, r) = (tries.clone(), lucky.clone(), running.clone());
    processors(costs, || {
        let lock = Rc::new(Lock::<u64, TryMcs<Controlled>, Controlled>::new(0));
        let mut all: Vec<Body> = Vec::new();
        for number in 0..locals {
            let (lock, running) = (lock.clone(), r.clone());
            all.push(Box::new(move || {
                let mut place = Place::new();
                work(1_000 + 737 * number as u64);
                for _ in 0..turns {
                    lock.with_place(&mut place, |_| work(HOLD));
                    work(LOOP);
                }
                running.set(running.get() - 1);
            }));
        }
        let (remote, running) = (lock.clone(), r.clone());
        all.push(Box::new(move || {
            work(500_000);
            let mut trying = Trying::new();
            while running.get() == locals {
                t.set(t.get() + 1);
                if let Some(guard) = remote.try_lock(&mut trying) {
                    l.set(l.get() + 1);
                    work(HOLD);
                    drop(guard);
                }
                work(20_000);
            }
        }));
        (all, lock)
    })?;
    let (done, running) = (served.clone(), Rc::new(Cell::new(locals)));
    processors(costs, || {
        let lock = Rc::new(Deferred::<u64, Controlled>::new(0, 16));
        let mut all: Vec<Body> = Vec::new();
        for number in 0..locals {
            let (lock, running, done) = (lock.clone(), running.clone(), done.clone());
            all.push(Box::new(move || {
                work(1_000 + 737 * number as u64);
                for _ in 0..turns {
                    lock.with(|value| {
                        work(HOLD);
                        done.set(*value);
                    });
                    work(LOOP);
                }
                running.set(running.get() - 1);
            }));
        }
        let (remote, running) = (lock.clone(), running.clone());
        all.push(Box::new(move || {
            work(500_000);
            while running.get() == locals {
                let left = remote.do_or_leave(|value| {
                    *value += 1;
                    work(HOLD);
                });
                assert!(left.is_ok(), "there is room for what one processor leaves");
                work(20_000);
            }
        }));
        (all, lock)
    })?;
    let tried = tries.get().max(1) as f64;
    Ok(Remote {
        lucky: lucky.get() as f64 * 100.0 / tried,
        served: lucky.get(),
        served_if_left: served.get(),
        local: turns * locals as u64,
    })
}
