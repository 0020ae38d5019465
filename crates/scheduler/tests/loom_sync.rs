//! All interleavings, within stated bounds, of the primitives: on a runtime whose threads are loom's.
//!
//! A lost wake-up is a deadlock, which loom reports. A time-out may come at any moment after the thread has parked: it claims the
//! wait itself, before or after its wakers.
#![cfg(feature = "loom")]

use loom::cell::UnsafeCell;
use loom::thread;
use raddle_machine::Loom;
use raddle_queues::wait_list::NodePool;
use raddle_scheduler::runtime::cancel;
use raddle_scheduler::sync::{self, LockError, channel, oneshot};
use raddle_scheduler::{Claim, Epoch, Runtime, Thread, Wake};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
struct Model;

/// A thread's record, and loom's handle to wake it. Leaked, since records are readable for ever.
#[repr(C)]
struct Full {
    thread: Thread<Loom>,
    handle: thread::Thread,
}

thread_local! {
    // Loom runs all threads of one execution on one kernel thread.
    static NODES: Cell<Option<&'static NodePool<Loom>>> = const { Cell::new(None) };
}

loom::thread_local! {
    static CURRENT: &'static Full = {
        // SAFETY: this runtime knows no descriptors; leaked.
        let thread = unsafe { Thread::new(0, 0) };
        Box::leak(Box::new(Full { thread, handle: thread::current() }))
    };
}

impl Runtime for Model {
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
}

type Mutex<T> = sync::Mutex<T, Model>;
type Condvar = sync::Condvar<Model>;
type Semaphore = sync::Semaphore<Model>;

const TIMEOUT: Duration = Duration::from_secs(1);

/// Runs `body` in every interleaving with at most `preemptions`, and compares its outcomes with those listed.
fn explore<T: Debug>(preemptions: usize, expected: &[&str], body: impl Fn() -> T + Send + Sync + 'static) {
    let seen = Arc::new(StdMutex::new(BTreeSet::new()));
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
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
struct Watched(UnsafeCell<u32>);

impl Watched {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
    fn add(&self) -> u32 {
        // SAFETY: the caller holds the lock; loom checks.
        self.0.with_mut(|value| unsafe {
            *value += 1;
            *value
        })
    }
}

// SAFETY: loom watches each access.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

#[test]
fn a_mutex_excludes_and_wakes() {
    explore(1, &["3"], || {
        let mutex = Arc::new(Mutex::with_value(Watched::new()));
        let others = [(); 2].map(|()| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                mutex.lock().unwrap().add();
            })
        });
        mutex.lock().unwrap().add();
        others.into_iter().for_each(|other| other.join().unwrap());
        // In two statements, so that the guard does not outlive the mutex.
        mutex.lock().unwrap().add() - 1
    });
}

#[test]
fn a_mutex_passes_a_wake_up_on_when_its_thread_times_out() {
    let expected = ["[false, true]", "[true, true]"];
    explore(1, &expected, || {
        let mutex = Arc::new(Mutex::with_value(Watched::new()));
        let held = mutex.lock().unwrap();
        let timed = thread::spawn({
            let mutex = mutex.clone();
            move || match mutex.lock_timeout(TIMEOUT) {
                Ok(guard) => guard.add() > 0,
                Err(LockError::TimedOut) => false,
                Err(error) => panic!("{error}"),
            }
        });
        let patient = thread::spawn({
            let mutex = mutex.clone();
            move || mutex.lock().unwrap().add() > 0
        });
        drop(held);
        [timed.join().unwrap(), patient.join().unwrap()]
    });
}

#[test]
fn a_mutex_is_handed_over() {
    explore(1, &["3"], || {
        let mutex = Arc::new(Mutex::with_value(Watched::new()));
        let held = mutex.lock().unwrap();
        let others = [false, true].map(|timed| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                let mine = if timed { mutex.lock_timeout(TIMEOUT).ok() } else { mutex.lock().ok() };
                match mine {
                    Some(guard) => guard.add(),
                    None => mutex.lock().unwrap().add(),
                };
            })
        });
        held.add();
        held.unlock_to_waiter();
        others.into_iter().for_each(|other| other.join().unwrap());
        mutex.lock().unwrap().add() - 1
    });
}

#[test]
fn cancellation_ends_a_cancellable_lock_and_nothing_else() {
    for (cancellable, expected) in [(true, ["false", "true"].as_slice()), (false, &["true"])] {
        explore(2, expected, move || {
            let mutex = Arc::new(Mutex::with_value(Watched::new()));
            let held = mutex.lock().unwrap();
            let told = Arc::new(loom::sync::Mutex::new(None));
            let waiter = thread::spawn({
                let (mutex, tell) = (mutex.clone(), told.clone());
                move || {
                    // SAFETY: used to cancel the thread only.
                    *tell.lock().unwrap() = Some(unsafe { Model::current() });
                    if cancellable { mutex.lock_cancellable().is_ok() } else { mutex.lock().is_ok() }
                }
            });
            let record = *told.lock().unwrap();
            if let Some(thread) = record {
                cancel::<Model>(thread);
            }
            drop(held);
            waiter.join().unwrap()
        });
    }
}

#[test]
fn a_condvar_loses_no_notification() {
    explore(2, &["()"], || {
        let shared = Arc::new((Mutex::with_value(false), Condvar::default()));
        let waiters = [(); 1].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || drop(shared.1.wait_while(shared.0.lock().unwrap(), |ready| !*ready).unwrap()))
        });
        *shared.0.lock().unwrap() = true;
        shared.1.notify_one();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn a_notification_goes_to_one_that_still_waits() {
    // One waits with a time-out: whether it ends by that or by the notification, the other one gets through by the second.
    explore(1, &["()"], || {
        let shared = Arc::new((Mutex::with_value(0), Condvar::default()));
        let waiters = [true, false].map(|timed| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (mutex, changed) = &*shared;
                let mut permits = mutex.lock().unwrap();
                if timed && *permits == 0 {
                    permits = changed.wait_timeout(permits, TIMEOUT).unwrap().0;
                }
                permits = changed.wait_while(permits, |permits| *permits == 0).unwrap();
                *permits -= 1;
            })
        });
        for _ in 0..2 {
            *shared.0.lock().unwrap() += 1;
            shared.1.notify_one();
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn a_semaphores_permit_reaches_a_waiter() {
    explore(2, &["(0, true)", "(1, false)"], || {
        let semaphore = Arc::new(Semaphore::with_permits(0));
        let taker = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.acquire_timeout(1, TIMEOUT).is_ok()
        });
        semaphore.release(1);
        let got = taker.join().unwrap();
        (semaphore.available(), got)
    });
    explore(1, &["0"], || {
        let semaphore = Arc::new(Semaphore::with_permits(0));
        let takers = [(); 2].map(|()| {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.acquire(1))
        });
        semaphore.release(2);
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        semaphore.available()
    });
}

#[test]
fn several_permits_reach_whoever_wants_them() {
    explore(1, &["1"], || {
        let semaphore = Arc::new(Semaphore::with_permits(0));
        let takers = [2, 1].map(|count| {
            let semaphore = semaphore.clone();
            thread::spawn(move || semaphore.acquire(count))
        });
        semaphore.release(2);
        semaphore.release(2);
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        semaphore.available()
    });
}

#[test]
fn a_promise_races_a_time_out() {
    explore(3, &["7"], || {
        let (promise, future) = oneshot::channel::<u32, Model>();
        let keeper = thread::spawn(move || promise.set(7).unwrap());
        let value = match future.get_timeout(TIMEOUT) {
            Ok(value) => value,
            Err((again, _)) => again.expect("the promise is kept").get().unwrap(),
        };
        keeper.join().unwrap();
        value
    });
}

#[test]
fn a_broken_or_unwanted_promise_ends_the_other_side() {
    explore(3, &["Err(Broken)"], || {
        let (promise, future) = oneshot::channel::<u32, Model>();
        let breaker = thread::spawn(move || drop(promise));
        let value = future.get();
        breaker.join().unwrap();
        value
    });
    explore(3, &["true"], || {
        let (promise, future) = oneshot::channel::<Arc<()>, Model>();
        let witness = Arc::new(());
        let keeper = thread::spawn({
            let witness = witness.clone();
            move || drop(promise.set(witness))
        });
        drop(future);
        keeper.join().unwrap();
        Arc::strong_count(&witness) == 1
    });
}

#[test]
fn a_full_channel_lets_its_sender_go_on() {
    explore(2, &["[1, 2]"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let producer = thread::spawn(move || (1..=2).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn two_receivers_share_what_was_sent() {
    explore(2, &["3"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        (1..=2).for_each(|i| sender.send(i).unwrap());
        let other = thread::spawn({
            let receiver = receiver.clone();
            move || receiver.iter().sum::<u32>()
        });
        drop(sender);
        receiver.iter().sum::<u32>() + other.join().unwrap()
    });
}

#[test]
fn an_unbounded_channel_delivers_and_ends() {
    explore(2, &["[1, 2]"], || {
        let (sender, receiver) = channel::unbounded::<u32, Model>();
        let producer = thread::spawn(move || (1..=2).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn a_sender_that_waits_sees_the_receiver_go() {
    explore(2, &["Err(SendError(..))", "Ok(())"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        sender.send(1).unwrap();
        let last = thread::spawn(move || drop(receiver));
        let sent = sender.send(2);
        last.join().unwrap();
        sent
    });
}

#[test]
fn a_timed_semaphore_says_why_it_failed() {
    explore(2, &["Err(TimedOut)"], || Semaphore::with_permits(0).acquire_timeout(1, TIMEOUT));
}
