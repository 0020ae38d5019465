//! Every policy on the controlled machine, with idle and wake-up: nothing lost, nothing twice, nobody asleep beside
//! work, and each token's push happens before its run.

use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::idle::Idle;
use raddle_scheduler::policies;
use raddle_scheduler::{Cause, Local, Notify, Policy};
use raddle_sim::{ByChance, Controlled, Options, Outcome, Run, Tokens, run, start};
use std::rc::Rc;
use std::sync::Arc;

/// A pool whose processors are coroutines. Each thread runs `times` times; it makes itself ready again, by a yield.
struct Pool {
    idle: Arc<Idle<Controlled>>,
    directed: bool,
    processors: usize,
    tokens: Tokens,
    times: Vec<std::cell::Cell<u32>>,
    left: <Controlled as Machine>::Atomic<u32>,
}

impl Pool {
    fn over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    fn run(&self, me: &mut dyn Local<Controlled>, ready: raddle_scheduler::Ready<Controlled>) {
        let number = self.tokens.take(ready);
        let times = &self.times[number];
        times.set(times.get() - 1);
        if times.get() > 0 {
            self.idle.tell(me.push(self.tokens.ready(number), Cause::Yielded));
        } else if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (0..self.processors).for_each(|index| self.idle.tell(Notify::Processor(index)));
        }
    }

    fn process(&self, me: usize, local: &mut dyn Local<Controlled>) {
        let idle = &self.idle;
        while !self.over() {
            if let Some(ready) = local.next(u8::MAX) {
                self.run(local, ready);
                continue;
            }
            idle.begin_search(me);
            loop {
                if let Some(ready) = local.search() {
                    idle.found(me);
                    self.run(local, ready);
                    break;
                }
                if self.over() {
                    idle.found(me);
                    break;
                }
                idle.sleep(me, None, self.directed, || local.has_work() || self.over());
            }
        }
    }
}

fn explore(expression: &str, processors: usize, threads: usize, times: u32, seed: u64) -> Run<ByChance, Rc<Pool>> {
    let options = Options { seed, steps: 200_000, ..Options::default() };
    run(&options, ByChance::new(seed).disturbing(50), || {
        let idle = Arc::new(Idle::new(processors));
        let others = idle.clone();
        let policy = policies::build::<Controlled>(&expression.parse().unwrap(), processors, others).unwrap();
        let policy = Rc::new(policy);
        let pool = Rc::new(Pool {
            idle,
            directed: policy.ring(),
            processors,
            tokens: Tokens::new(threads),
            times: (0..threads).map(|_| std::cell::Cell::new(times)).collect(),
            left: <Controlled as Machine>::Atomic::new(threads as u32),
        });
        for me in 0..processors {
            let (pool, policy) = (pool.clone(), policy.clone());
            let mut local = policy.local(me);
            start(format!("processor {me}"), move || {
                if me == 0 {
                    for number in 0..threads {
                        let ready = pool.tokens.ready(number);
                        let whom = match number % 3 {
                            0 => policy.submit(ready),
                            1 => local.push(ready, Cause::Spawned),
                            _ => local.push(ready, Cause::Woken),
                        };
                        pool.idle.tell(whom);
                    }
                }
                pool.process(me, &mut *local);
            });
        }
        pool
    })
}

const POLICIES: [&str; 16] = [
    "steal",
    "steal(fifo, victims=neighbours(1), batch=one)",
    "fifo",
    "lifo",
    "rotator",
    "waiver",
    "multiqueue(2)",
    "local(capacity=2)",
    "local(lifo, capacity=2, overflow=sharded(2), slot)",
    "local(capacity=1, overflow=tickets)",
    "request(ticket, capacity=2)",
    "request(naive, capacity=2, overflow=locked)",
    "alternate(1)",
    "clustered(1, steal)",
    "priority(2, fifo)",
    "apart(fifo, lifo)",
];

#[test]
fn every_policy_runs_each_thread_as_often_as_it_is_made_ready() {
    for expression in POLICIES {
        for processors in 1..=3 {
            for seed in 0..20 {
                let run = explore(expression, processors, 7, 2, seed);
                assert_eq!(run.outcome, Outcome::Done, "{expression}, {processors} processors, seed {seed}");
                assert!(run.value.tokens.out().is_empty(), "{expression}, {processors} processors, seed {seed}");
            }
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_run_of_every_policy() {
    for expression in POLICIES {
        let digests: Vec<u64> = (0..3).map(|_| explore(expression, 3, 9, 3, 5).digest).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{expression}: {digests:?}");
        assert_ne!(explore(expression, 3, 9, 3, 6).digest, digests[0], "{expression}");
    }
}
