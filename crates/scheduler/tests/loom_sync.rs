//! All interleavings, within stated bounds, of semaphores and promises: on a runtime whose threads are loom's.
//!
//! A lost wake-up is a deadlock, which loom reports. A time-out may come at any moment after the thread has parked: it
//! claims the wait itself, before or after its wakers. The other primitives are in `loom_mutex.rs`, `loom_locks.rs` and
//! `loom_channel.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, TIMEOUT, Watched, explore, starve_at_once};
use raddle_scheduler::sync::{self, oneshot};
use std::sync::Arc;

type Semaphore = sync::Semaphore<Model>;

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

/// One waits, and is too late if the permit is taken again before it comes, or gives up meanwhile; then it is left for
/// it, and who comes by gives way.
#[test]
fn a_permit_that_is_left_for_one_that_was_too_late_may_be_taken_by_anybody() {
    starve_at_once();
    let turns = |timed: bool| {
        move || {
            let shared = Arc::new((Semaphore::with_permits(1), Watched::new()));
            shared.0.acquire(1);
            let other = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (semaphore, watched) = &*shared;
                    if timed {
                        if semaphore.acquire_timeout(1, TIMEOUT).is_err() {
                            return;
                        }
                    } else {
                        semaphore.acquire(1);
                    }
                    watched.add();
                    semaphore.release(1);
                }
            });
            // Not a preemption: it waits without using up the bound.
            thread::yield_now();
            shared.0.release(1);
            for _ in 0..2 {
                shared.0.acquire(1);
                shared.1.add();
                thread::yield_now();
                shared.0.release(1);
            }
            other.join().unwrap();
            (shared.0.available(), shared.0.try_acquire(1), shared.1.get())
        }
    };
    explore(2, &["(1, true, 3)"], turns(false));
    explore(2, &["(1, true, 2)", "(1, true, 3)"], turns(true));
}

#[test]
fn who_finds_a_permit_sees_what_was_done_before_its_release() {
    explore(2, &["None", "Some(1)"], || {
        let shared = Arc::new((Semaphore::with_permits(0), Watched::new()));
        let taker = thread::spawn({
            let shared = shared.clone();
            move || shared.0.try_acquire(1).then(|| shared.1.get())
        });
        shared.1.add();
        shared.0.release(1);
        taker.join().unwrap()
    });
}

#[test]
fn who_finds_a_value_sees_what_was_done_before_the_promise_was_kept() {
    explore(2, &["None", "Some(1)"], || {
        let (promise, future) = oneshot::channel::<Arc<Watched>, Model>();
        let keeper = thread::spawn(keep(promise, |watched| watched));
        let seen = future.is_ready().then(|| future.get().unwrap().get());
        keeper.join().unwrap();
        seen
    });
}

/// Reads what it is made of when it is dropped.
struct Read(Arc<Watched>);

impl Drop for Read {
    fn drop(&mut self) {
        assert_eq!(self.0.get(), 1);
    }
}

#[test]
fn who_drops_an_unwanted_value_sees_what_was_done_before() {
    explore(2, &["false", "true"], || {
        let (promise, future) = oneshot::channel::<Read, Model>();
        let keeper = thread::spawn(keep(promise, Read));
        drop(future);
        keeper.join().unwrap()
    });
}

/// Does something, and keeps the promise of what reads it. True if the future is there still.
fn keep<T: Send + 'static>(
    promise: oneshot::Promise<T, Model>,
    reader: fn(Arc<Watched>) -> T,
) -> impl FnOnce() -> bool + Send + 'static {
    move || {
        let watched = Arc::new(Watched::new());
        watched.add();
        promise.set(reader(watched)).is_ok()
    }
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
fn a_timed_semaphore_says_why_it_failed() {
    explore(2, &["Err(TimedOut)"], || Semaphore::with_permits(0).acquire_timeout(1, TIMEOUT));
}
