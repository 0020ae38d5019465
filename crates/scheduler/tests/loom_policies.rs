//! Policies with idle and wake-up in all interleavings: processors that select, search, sleep and end when all threads
//! have run. A thread that nobody is told of leaves a processor asleep for ever, which loom reports; one that comes out
//! twice runs twice. The ring is the rotator's protocol: nobody sleeps with input.
#![cfg(feature = "loom")]

use loom::sync::Arc;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::idle::Idle;
use raddle_scheduler::policies;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready, Thread};
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Mutex;

/// A pool of which the processors are loom's threads.
struct Pool {
    idle: std::sync::Arc<Idle<Loom>>,
    directed: bool,
    processors: usize,
    /// Threads that have yet to run.
    left: <Loom as Machine>::Atomic<u32>,
}

impl Pool {
    fn all_ran(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Runs a thread; the last one ends the pool.
    fn run(&self, ready: Ready<Loom>) {
        // SAFETY: records are leaked. Each thread runs once: the priority tells.
        let thread = unsafe { ready.into_thread().as_ref() };
        assert_eq!(thread.priority.swap(1, Ordering::AcqRel), 0, "a thread ran twice");
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (0..self.processors).for_each(|index| self.idle.tell(Notify::Processor(index)));
        }
    }

    /// A processor: what it has, what it finds, sleep. Returns how many threads it ran.
    fn process(&self, me: usize, local: &mut dyn Local<Loom>) -> usize {
        let mut ran = 0;
        while !self.all_ran() {
            if let Some(ready) = local.next(0) {
                self.run(ready);
                ran += 1;
                continue;
            }
            self.idle.begin_search(me);
            loop {
                if let Some(ready) = local.search() {
                    self.idle.found(me);
                    self.run(ready);
                    ran += 1;
                    break;
                }
                if self.all_ran() {
                    self.idle.found(me);
                    break;
                }
                self.idle.sleep(me, None, self.directed, || local.has_work() || self.all_ran());
            }
        }
        ran
    }
}

/// Processor 0 makes `count` threads ready and all processors run them, or with `computes` processor 0 runs one and
/// never comes back. The outcomes are how many each of them ran.
fn explore(
    expression: &'static str,
    preemptions: usize,
    processors: usize,
    count: usize,
    computes: bool,
    expected: &[&[usize]],
) {
    let seen: &'static Mutex<BTreeSet<Vec<usize>>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let idle = std::sync::Arc::new(Idle::new(processors));
        let policy = policies::build::<Loom>(&expression.parse().unwrap(), processors, idle.clone()).unwrap();
        let left = <Loom as Machine>::Atomic::new(count as u32);
        let pool = Arc::new(Pool { idle, directed: policy.ring(), processors, left });
        let mut locals: Vec<_> = (0..processors).map(|index| policy.local(index)).collect();
        let others: Vec<_> = locals
            .drain(1..)
            .enumerate()
            .map(|(index, mut local)| {
                let pool = pool.clone();
                loom::thread::spawn(move || (pool.process(index + 1, &mut *local), local))
            })
            .collect();
        let mut first = locals.remove(0);
        for number in 0..count {
            // Leaked: the record of a thread is never freed while a policy may hold it.
            let thread: &'static Thread<Loom> = {
                // SAFETY: no runtime is involved; leaked.
                Box::leak(Box::new(unsafe { Thread::new(0, 0) }))
            };
            // SAFETY: the one token of a new thread.
            let ready = unsafe { Ready::new(NonNull::from(thread)) };
            pool.idle.tell(first.push(ready, [Cause::Woken, Cause::Spawned][number % 2]));
        }
        let mut ran = if computes {
            pool.run(first.next(0).expect("one thread stays"));
            vec![1]
        } else {
            vec![pool.process(0, &mut *first)]
        };
        // The locals live until all have ended: another may still look at their queues.
        let (counts, _locals): (Vec<_>, Vec<_>) = others.into_iter().map(|thread| thread.join().unwrap()).unzip();
        ran.extend(counts);
        assert_eq!(ran.iter().sum::<usize>(), count);
        assert!(!pool.idle.hungry(), "at rest nobody searches or sleeps");
        seen.lock().unwrap().insert(ran);
    });
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        expected.iter().map(|ran| ran.to_vec()).collect(),
        "reached outcomes differ from the possible ones"
    );
}

#[test]
fn what_the_rotator_passes_on_reaches_a_neighbour_that_may_sleep() {
    explore("rotator", 3, 2, 2, false, &[&[1, 1]]);
}

#[test]
fn the_rotator_passes_on_to_the_neighbours_neighbour() {
    explore("rotator", 1, 3, 3, true, &[&[1, 1, 1], &[1, 2, 0]]);
}

#[test]
fn what_steal_publishes_is_found_by_who_may_sleep() {
    explore("steal", 2, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}

#[test]
fn what_the_global_queue_holds_is_found_by_who_may_sleep() {
    explore("fifo", 2, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}

#[test]
fn what_a_locked_queue_holds_is_found_by_who_may_sleep() {
    explore("alternate(1)", 2, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}

#[test]
fn what_is_waived_is_found_by_who_may_sleep() {
    // The first thread is protected, so it is processor 0's.
    explore("waiver", 2, 2, 2, false, &[&[2, 0], &[1, 1]]);
}

#[test]
fn what_several_queues_hold_is_found_by_who_may_sleep() {
    // With one preemption: two queues with their counts have more interleavings than there is time for.
    explore("multiqueue(1)", 1, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}

#[test]
fn what_a_bounded_queue_holds_or_not_is_found_by_who_may_sleep() {
    explore("local(capacity=1)", 2, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}

#[test]
fn what_a_queue_of_tickets_holds_or_not_is_found_by_who_may_sleep() {
    // Room for two, so that some go behind it.
    explore(
        "local(capacity=1, overflow=tickets, share=100)",
        1,
        2,
        4,
        false,
        &[&[4, 0], &[3, 1], &[2, 2], &[1, 3], &[0, 4]],
    );
}

#[test]
fn what_has_run_and_what_has_not_is_found_by_who_may_sleep() {
    explore("apart(fifo, fifo)", 2, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}

#[test]
fn another_clusters_threads_are_found_by_who_may_sleep() {
    explore("clustered(1, steal)", 2, 2, 2, false, &[&[2, 0], &[1, 1], &[0, 2]]);
}
