//! All interleavings, within stated bounds, of Mutex and Condvar: as `loom_sync.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, TIMEOUT, Watched, explore, explore_first, starve_at_once, yield_before_waits};
use raddle_scheduler::Runtime;
use raddle_scheduler::runtime::cancel;
use raddle_scheduler::sync::{self, LockError};
use std::sync::Arc;

type Mutex<T> = sync::Mutex<T, Model>;
type Condvar = sync::Condvar<Model>;

/// What three threads have added up to, each in one turn of the lock.
fn turns_of_three() -> u32 {
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
}

#[test]
fn a_mutex_excludes_and_wakes() {
    explore(1, &["3"], turns_of_three);
}

#[test]
fn a_poisoned_mutex_excludes_and_shows_what_was_done() {
    // Its word is never 0, so it is taken on the slower path.
    explore(2, &["2"], || {
        let mutex = Arc::new(Mutex::with_value(Watched::new()));
        let poison = std::panic::AssertUnwindSafe(|| {
            let _guard = mutex.lock();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(std::panic::catch_unwind(poison).is_err() && mutex.is_poisoned());
        let add = |mutex: &Mutex<Watched>| match mutex.lock_cancellable() {
            Err(LockError::Poisoned(error)) => error.into_inner().add(),
            _ => panic!("it is poisoned"),
        };
        let other = thread::spawn({
            let mutex = mutex.clone();
            move || add(&mutex)
        });
        let mine = add(&mutex);
        mine.max(other.join().unwrap())
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
fn a_woken_thread_that_finds_the_mutex_free_still_wakes_the_others() {
    // Two wait; the first is woken, but finds the mutex taken again, queues again, and then finds it free, with nobody
    // to note that the second waits but itself. All interleavings take too long; one that loses the second is among
    // these.
    explore_first(Some(20_000), 1, &["()"], || {
        let mutex = Arc::new(Mutex::with_value(()));
        let held = mutex.lock().unwrap();
        let waiters = [(); 2].map(|()| {
            let mutex = mutex.clone();
            thread::spawn(move || drop(mutex.lock().unwrap()))
        });
        // Not a preemption: both wait without using up the bound.
        thread::yield_now();
        drop(held);
        let again = mutex.lock().unwrap();
        // The woken one finds it taken.
        thread::yield_now();
        drop(again);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
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
    // One waits with a time-out: whether it ends by that or by the notification, the other one gets through by the
    // second.
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
fn one_that_was_too_late_is_handed_the_mutex() {
    starve_at_once();
    // One waits, and is too late if the mutex is taken again before it comes; or it gives up meanwhile.
    let turns = |timed: bool| {
        move || {
            let mutex = Arc::new(Mutex::with_value(Watched::new()));
            let held = mutex.lock().unwrap();
            let other = thread::spawn({
                let mutex = mutex.clone();
                move || {
                    let mine = if timed { mutex.lock_timeout(TIMEOUT).ok() } else { mutex.lock().ok() };
                    mine.map(|guard| guard.add());
                }
            });
            // Not a preemption: it waits without using up the bound.
            thread::yield_now();
            drop(held);
            for _ in 0..2 {
                let again = mutex.lock().unwrap();
                again.add();
                thread::yield_now();
                drop(again);
            }
            other.join().unwrap();
            mutex.lock().unwrap().add()
        }
    };
    explore(2, &["4"], turns(false));
    explore(2, &["3", "4"], turns(true));
}

#[test]
fn a_wait_that_begins_with_a_yield_is_woken_in_it_or_after() {
    // The waker finds the thread armed, or parked.
    yield_before_waits();
    explore(2, &["2"], || {
        let shared = Arc::new((Mutex::with_value(Watched::new()), Condvar::default()));
        let other = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.0.lock().unwrap().add();
                shared.1.notify_one();
            }
        });
        let mut done = shared.0.lock().unwrap();
        while done.get() == 0 {
            done = shared.1.wait(done).unwrap();
        }
        let sum = done.add();
        drop(done);
        other.join().unwrap();
        sum
    });
    explore(1, &["3"], turns_of_three);
}

#[test]
fn a_wait_that_begins_with_a_yield_may_run_out_of_time() {
    yield_before_waits();
    explore(2, &["(false, 0)", "(true, 0)"], || {
        let mutex = Arc::new(Mutex::with_value(0));
        let held = mutex.lock().unwrap();
        let other = thread::spawn({
            let mutex = mutex.clone();
            move || mutex.lock_timeout(TIMEOUT).is_ok()
        });
        let value = *held;
        drop(held);
        let got = other.join().unwrap();
        assert!(mutex.try_lock().is_ok());
        (got, value)
    });
}
