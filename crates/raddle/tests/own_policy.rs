//! A pool under a policy that no expression names: the one of docs/write-your-own-policy.md.

#[path = "../../sim/examples/own_policy/policy.rs"]
mod policy;

use policy::Polite;
use raddle_machine::Real;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn builder() -> raddle::Builder {
    raddle::Builder::new().processors(2).own_policy(|processors, others| Box::new(Polite::new(processors, others)))
}

#[test]
fn threads_run_block_and_yield_under_a_policy_of_ones_own() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let pool = builder().build().unwrap();
    let sum: u64 = pool.run(|| {
        let (sender, receiver) = raddle::sync::channel::bounded(4);
        let threads: Vec<_> = (0..100u64)
            .map(|number| {
                let sender = sender.clone();
                raddle::spawn(move || {
                    raddle::yield_now();
                    COUNT.fetch_add(1, Ordering::Relaxed);
                    sender.send(number).unwrap();
                })
            })
            .collect();
        let sum = (0..100).map(|_| receiver.recv().unwrap()).sum();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        sum
    });
    assert_eq!((sum, COUNT.load(Ordering::Relaxed)), (4950, 100));
}

#[test]
fn an_expression_afterwards_takes_its_place() {
    assert!(format!("{:?}", builder()).contains("own"));
    let pool = builder().policy("fifo").build().unwrap();
    assert_eq!((pool.policy(), builder().build().unwrap().policy()), ("fifo".to_string(), "polite".to_string()));
}

type Queue = Arc<Mutex<VecDeque<Ready<Real>>>>;

/// One queue for a pool's processors; once told to, it selects a thread that lies in another pool's.
#[derive(Clone, Default)]
struct Takes {
    own: Queue,
    others: Queue,
    is_to_take: Arc<AtomicBool>,
    has_taken: Arc<AtomicBool>,
}

impl Policy<Real> for Takes {
    fn local(&self, _: usize) -> Box<dyn Local<Real>> {
        Box::new(self.clone())
    }
    fn submit(&self, thread: Ready<Real>) -> Notify {
        self.own.lock().unwrap().push_back(thread);
        Notify::Anyone
    }
    fn describe(&self) -> String {
        "takes".into()
    }
    fn offers(&self) -> bool {
        !self.own.lock().unwrap().is_empty()
    }
    fn strands(&self) -> &'static str {
        "everything, frozen within the lock"
    }
}

impl Local<Real> for Takes {
    fn push(&mut self, thread: Ready<Real>, _: Cause) -> Notify {
        self.submit(thread)
    }
    fn next(&mut self, _: u8) -> Option<Ready<Real>> {
        if self.is_to_take.load(Ordering::Acquire)
            && let Some(thread) = self.others.lock().unwrap().pop_front()
        {
            self.is_to_take.store(false, Ordering::Relaxed);
            self.has_taken.store(true, Ordering::Release);
            return Some(thread);
        }
        self.own.lock().unwrap().pop_front()
    }
    fn search(&mut self) -> Option<Ready<Real>> {
        None
    }
    fn has_work(&self) -> bool {
        self.offers()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        self.own.lock().unwrap().drain(..).for_each(out);
    }
}

/// A policy that selects a thread of another pool: the thread goes back, and runs where it belongs.
#[test]
fn a_thread_that_another_pools_policy_selects_goes_back_to_its_own() {
    let theirs = Queue::default();
    let takes = Takes { others: theirs.clone(), ..Takes::default() };
    let robbed = Takes { own: theirs, ..Takes::default() };
    let build = |policy: &Takes, prefix: &str| {
        let policy = policy.clone();
        let builder = raddle::Builder::new().processors(1).kernel_thread_prefix(prefix);
        builder.own_policy(move |_, _| Box::new(policy.clone())).build().unwrap()
    };
    let (here, there) = (build(&robbed, "here-"), build(&takes, "there-"));
    let kernel_thread = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    here.run(|| {
        let taken = (0..100).any(|_| {
            let thread = raddle::spawn(kernel_thread);
            takes.is_to_take.store(true, Ordering::Release);
            // Not a yield: the only processor of this pool is taken until the other one has selected. On a busy machine
            // the monitor may have given it to the thread by then: that proves nothing.
            let selects = there.spawn(raddle::yield_now);
            while !takes.has_taken.load(Ordering::Acquire) && !thread.is_finished() {
                std::hint::spin_loop();
            }
            takes.is_to_take.store(false, Ordering::Relaxed);
            assert!(thread.join().unwrap().starts_with("here-"));
            selects.join().unwrap();
            takes.has_taken.load(Ordering::Acquire)
        });
        assert!(taken);
    });
    for pool in [here, there] {
        while pool.live_threads() != 0 {
            std::thread::yield_now();
        }
    }
}
