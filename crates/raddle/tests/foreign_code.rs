//! Code of others that runs inside the runtime: a policy of the program's own, and the panic hook, which runs for a
//! panic in it. It may call the library; and its panic ends the process, with the policy's name. (`docs/contexts.md`
//! lists all places.)
#![forbid(unsafe_code)]

#[path = "support/child.rs"]
mod child;

use child::said;
use raddle::pool::Builder;
use raddle_machine::Real;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const ABORT: i32 = 6;

/// What the meddling policy does in the method that the child was told; nothing before it is armed.
static ARMED: AtomicBool = AtomicBool::new(false);
/// Threads that it has still to spawn, and that have run.
static LEFT: AtomicU64 = AtomicU64::new(0);
static RAN: AtomicU64 = AtomicU64::new(0);
const SPAWNS: u64 = 40;
/// By `publish`, which the monitor calls by chance: 40 took from 0.8 s to 57 s.
const PUBLICATIONS: u64 = 2;

/// The method, and what it does.
fn told() -> (String, String) {
    let told = std::env::var(child::CHILD).unwrap_or_default();
    let (method, what) = told.split_once(' ').unwrap_or((&told, ""));
    (method.to_string(), what.to_string())
}

/// One policy for all: a queue that everybody shares.
#[derive(Clone)]
struct Meddler {
    queue: Arc<Mutex<VecDeque<Ready<Real>>>>,
    method: String,
    what: String,
}

impl Meddler {
    fn new() -> Self {
        let (method, what) = told();
        Self { queue: Arc::default(), method, what }
    }

    fn queue<T>(&self, f: impl FnOnce(&mut VecDeque<Ready<Real>>) -> T) -> T {
        f(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn meddle(&self, here: &str) {
        if self.method != here || !ARMED.load(Ordering::Relaxed) {
            return;
        }
        match self.what.as_str() {
            "panics" => panic!("meddling in {here}"),
            "spawns" => spawn_one(),
            _ => {}
        }
    }
}

fn spawn_one() {
    if LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        drop(raddle::spawn(|| RAN.fetch_add(1, Ordering::Relaxed)));
        // Nobody's thread: this is the kernel's.
        raddle::yield_now();
    }
}

impl Local<Real> for Meddler {
    fn push(&mut self, thread: Ready<Real>, _: Cause) -> Notify {
        self.meddle("push");
        self.queue(|queue| queue.push_back(thread));
        Notify::Anyone
    }

    fn next(&mut self, _: u8) -> Option<Ready<Real>> {
        self.meddle("next");
        self.queue(VecDeque::pop_front)
    }

    fn search(&mut self) -> Option<Ready<Real>> {
        self.meddle("search");
        self.queue(VecDeque::pop_front)
    }

    fn has_work(&self) -> bool {
        self.meddle("has_work");
        self.queue(|queue| !queue.is_empty())
    }

    fn crowded(&self) -> bool {
        self.meddle("crowded");
        false
    }

    fn publish(&mut self) -> Notify {
        self.meddle("publish");
        Notify::Nobody
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        self.queue(|queue| queue.drain(..).for_each(out));
    }

    fn steals(&self) -> (u64, u64) {
        self.meddle("steals");
        (0, 0)
    }
}

impl Policy<Real> for Meddler {
    fn local(&self, _: usize) -> Box<dyn Local<Real>> {
        Box::new(self.clone())
    }

    fn submit(&self, thread: Ready<Real>) -> Notify {
        self.meddle("submit");
        if self.method == "submit" && self.what == "drops" && ARMED.load(Ordering::Relaxed) {
            drop(thread);
            return Notify::Nobody;
        }
        self.queue(|queue| queue.push_back(thread));
        Notify::Anyone
    }

    fn describe(&self) -> String {
        if self.method == "describe" {
            panic!("meddling in describe");
        }
        "meddler".to_string()
    }

    fn offers(&self) -> bool {
        self.queue(|queue| !queue.is_empty())
    }

    fn strands(&self) -> &'static str {
        "nothing"
    }
}

fn builder() -> Builder {
    raddle::Builder::new().processors(2).own_policy(|_, _| Box::new(Meddler::new()))
}

/// In the parent: runs `test` in a child that is told `what`, and answers with its output. `None` in the child.
fn in_child(test: &str, what: &str) -> Option<Output> {
    let mut command = child::again(test)?;
    command.env(child::CHILD, what);
    Some(child::run(command))
}

/// How many threads the policy spawns.
fn wanted() -> u64 {
    if told().0 == "publish" { PUBLICATIONS } else { SPAWNS }
}

/// Threads are spawned from inside and outside, wait, yield and are woken, and the processors sleep now and then, while
/// the policy meddles.
fn busy_pool() {
    let pool = builder().build().unwrap();
    let first = pool.spawn(|| ());
    first.join().unwrap();
    LEFT.store(wanted(), Ordering::Relaxed);
    ARMED.store(true, Ordering::Relaxed);
    // A policy that panics ends the process in here; another one goes on until it has spawned all.
    let mut rounds = 0;
    while rounds < 20 || LEFT.load(Ordering::Relaxed) > 0 || RAN.load(Ordering::Relaxed) < wanted() {
        rounds += 1;
        pool.run(|| {
            let threads: Vec<_> = (0..4).map(|_| raddle::spawn(raddle::yield_now)).collect();
            raddle::sleep(std::time::Duration::from_micros(100));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        if told().0 == "publish" {
            // The monitor publishes what a processor holds that computes while others sleep.
            pool.run(|| std::thread::sleep(std::time::Duration::ZERO));
            pool.run(|| {
                let began = std::time::Instant::now();
                while began.elapsed() < std::time::Duration::from_millis(20) {
                    std::hint::spin_loop();
                }
            });
        }
        if told().1 != "spawns" && rounds > 20_000 {
            panic!("the policy was not asked for `{}`", told().0);
        }
    }
}

#[test]
fn a_policy_that_panics_ends_the_process_with_its_name() {
    const TEST: &str = "a_policy_that_panics_ends_the_process_with_its_name";
    for method in ["push", "next", "search", "has_work", "crowded", "publish", "steals", "submit"] {
        let Some(output) = in_child(TEST, &format!("{method} panics")) else { return busy_pool() };
        let said = said(&output);
        assert_eq!(output.status.signal(), Some(ABORT), "{method}: {:?}\n{said}", output.status);
        assert!(said.contains(&format!("meddling in {method}")), "{method}: {said}");
        assert!(said.contains("the policy `meddler` panicked"), "{method}: {said}");
    }
}

#[test]
fn a_policy_may_spawn_in_every_method() {
    const TEST: &str = "a_policy_may_spawn_in_every_method";
    for method in ["push", "next", "search", "has_work", "crowded", "publish", "steals", "submit"] {
        let Some(output) = in_child(TEST, &format!("{method} spawns")) else {
            busy_pool();
            assert_eq!(RAN.load(Ordering::Relaxed), wanted());
            return;
        };
        assert!(output.status.success(), "{method}: {:?}\n{}", output.status, said(&output));
    }
}

#[test]
fn a_panic_hook_may_spawn_where_a_policy_panics() {
    const TEST: &str = "a_panic_hook_may_spawn_where_a_policy_panics";
    for method in ["push", "next", "submit"] {
        let Some(output) = in_child(TEST, &format!("{method} panics")) else {
            LEFT.store(SPAWNS, Ordering::Relaxed);
            std::panic::set_hook(Box::new(|info| {
                (0..SPAWNS).for_each(|_| spawn_one());
                eprintln!("the hook has run: {info}");
            }));
            return busy_pool();
        };
        let said = said(&output);
        assert_eq!(output.status.signal(), Some(ABORT), "{method}: {:?}\n{said}", output.status);
        assert!(
            said.contains("the hook has run") && said.contains("the policy `meddler` panicked"),
            "{method}: {said}"
        );
    }
}

#[test]
fn a_policy_that_drops_what_is_put_back_ends_the_process() {
    const TEST: &str = "a_policy_that_drops_what_is_put_back_ends_the_process";
    let Some(output) = in_child(TEST, "submit drops") else { return busy_pool() };
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(ABORT), "{:?}\n{said}", output.status);
    assert!(said.contains("`meddler` drops what is submitted to it"), "{said}");
}

#[test]
fn a_policy_that_panics_while_the_pool_is_built_costs_nothing() {
    const TEST: &str = "a_policy_that_panics_while_the_pool_is_built_costs_nothing";
    let Some(output) = in_child(TEST, "describe panics") else {
        // More often than there may be pools.
        for _ in 0..600 {
            assert!(std::panic::catch_unwind(|| builder().build()).is_err());
        }
        return raddle::Builder::new().processors(1).build().unwrap().run(|| ());
    };
    assert!(output.status.success(), "{:?}\n{}", output.status, said(&output));
}
