//! A runtime whose threads are loom's, and what its tests have in common.
#![allow(dead_code)] // Each test file uses its part.

pub mod locks;

use loom::cell::UnsafeCell;
use loom::thread;
use raddle_machine::Loom;
use raddle_queues::wait_list::NodePool;
use raddle_scheduler::{Claim, Epoch, Runtime, Thread, Wake};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Model;

/// A thread's record, and loom's handle to wake it. Leaked, since records are readable for ever.
#[repr(C, align(128))]
struct Full {
    thread: Thread<Loom>,
    handle: thread::Thread,
}

thread_local! {
    // Loom runs all threads of one execution on one kernel thread.
    static NODES: Cell<Option<&'static NodePool<Loom>>> = const { Cell::new(None) };
    static YIELDS: Cell<bool> = const { Cell::new(false) };
    static STARVES: Cell<bool> = const { Cell::new(false) };
}

/// From here on the calling test's threads yield before they wait, or in their waits, as a runtime's may.
pub fn yield_before_waits() {
    YIELDS.set(true);
}

/// From here on the calling test's threads starve when they are woken too late once.
pub fn starve_at_once() {
    STARVES.set(true);
}

loom::thread_local! {
    static CURRENT: &'static Full = {
        // SAFETY: this runtime knows no descriptors; leaked.
        let thread = unsafe { Thread::new(0, 0) };
        Box::leak(Box::new(Full { thread, handle: thread::current() }))
    };
}

// SAFETY: the record is thread-local and leaked; a wait ends by its claim.
unsafe impl Runtime for Model {
    type Machine = Loom;

    unsafe fn current() -> &'static Thread<Loom> {
        CURRENT.with(|full| &full.thread)
    }

    unsafe fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
        // SAFETY: used for the wait that the caller armed.
        let thread = unsafe { Self::current() };
        if thread.finish_park(epoch).is_ok() {
            if deadline.is_some() {
                let (Claim::Lost | Claim::WonArming | Claim::WonParked) = thread.claim(epoch, Wake::TimedOut);
            }
            while !thread.is_fired(epoch) {
                thread::park();
            }
        }
        thread.outcome()
    }

    unsafe fn make_ready(thread: &'static Thread<Loom>) {
        // SAFETY: every record of this runtime is the first field of a leaked `Full`.
        let full = unsafe { &*std::ptr::from_ref(thread).cast::<Full>() };
        full.handle.unpark();
    }

    fn nodes() -> &'static NodePool<Loom> {
        NODES.get().expect("set by explore")
    }

    fn yield_now() {
        thread::yield_now();
    }

    fn is_running(_: &'static Thread<Loom>) -> bool {
        false
    }

    fn yield_before_wait() -> bool {
        if YIELDS.get() {
            thread::yield_now();
        }
        YIELDS.get()
    }

    fn quantum() -> u64 {
        if STARVES.get() { 0 } else { u64::MAX }
    }
}

pub const TIMEOUT: Duration = Duration::from_secs(1);

/// Runs `body` in every interleaving with at most `preemptions`, and compares its outcomes with those listed.
pub fn explore<T: Debug>(preemptions: usize, expected: &[&str], body: impl Fn() -> T + Send + Sync + 'static) {
    explore_first(None, preemptions, expected, body);
}

/// As [`explore`], but of the interleavings only the first so many, if there is a number.
pub fn explore_first<T: Debug>(
    most: Option<usize>,
    preemptions: usize,
    expected: &[&str],
    body: impl Fn() -> T + Send + Sync + 'static,
) {
    let seen = Arc::new(StdMutex::new(BTreeSet::new()));
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.max_permutations = most;
    let collect = seen.clone();
    model.check(move || {
        NODES.set(Some(Box::leak(Box::default())));
        let outcome = format!("{:?}", body());
        collect.lock().unwrap().insert(outcome);
    });
    let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
    assert_eq!(*seen.lock().unwrap(), expected, "outcomes reached (left) are not those listed (right)");
}

/// What a lock protects: loom fails when two are inside, or when one does not see what the other did.
pub struct Watched(UnsafeCell<u32>);

impl Watched {
    pub fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
    pub fn add(&self) -> u32 {
        // SAFETY: the caller holds the lock; loom checks.
        self.0.with_mut(|value| unsafe {
            *value += 1;
            *value
        })
    }
}

impl Watched {
    pub fn get(&self) -> u32 {
        // SAFETY: the caller shares the lock with readers only; loom checks.
        self.0.with(|value| unsafe { *value })
    }
}

// SAFETY: loom watches each access.
unsafe impl Sync for Watched {}
// SAFETY: a number, which may go to any thread.
unsafe impl Send for Watched {}
