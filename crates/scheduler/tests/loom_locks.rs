//! All interleavings, within stated bounds, of RwLock, Barrier, Once, OnceLock and Monitor: as `loom_sync.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, TIMEOUT, Watched, explore, starve_at_once};
use raddle_scheduler::sync;
use std::sync::Arc;

type RwLock<T> = sync::RwLock<T, Model>;
type Barrier = sync::Barrier<Model>;
type Once = sync::Once<Model>;
type OnceLock<T> = sync::OnceLock<T, Model>;
type Monitor<T> = sync::Monitor<T, Model>;

#[test]
fn a_writer_excludes_readers_and_both_get_in() {
    explore(2, &["0", "1"], || {
        let lock = Arc::new(RwLock::with_value(Watched::new()));
        let writer = thread::spawn({
            let lock = lock.clone();
            move || {
                lock.write().unwrap().add();
            }
        });
        let seen = lock.read().unwrap().get();
        writer.join().unwrap();
        assert_eq!(lock.read().unwrap().get(), 1);
        seen
    });
}

#[test]
fn a_writer_and_a_reader_that_wait_for_a_writer_get_in() {
    explore(1, &["0", "1"], || {
        let lock = Arc::new(RwLock::with_value(Watched::new()));
        let held = lock.write().unwrap();
        let reader = thread::spawn({
            let lock = lock.clone();
            move || lock.read().unwrap().get()
        });
        let writer = thread::spawn({
            let lock = lock.clone();
            move || {
                lock.write().unwrap().add();
            }
        });
        drop(held);
        writer.join().unwrap();
        reader.join().unwrap()
    });
}

#[test]
fn readers_that_waited_for_a_writer_go_in_when_it_gives_up() {
    // The main thread reads all the time, so the writer times out, and the other reader depends on nobody else.
    explore(2, &["(false, 0)"], || {
        let lock = Arc::new(RwLock::with_value(Watched::new()));
        let reading = lock.read().unwrap();
        let writer = thread::spawn({
            let lock = lock.clone();
            move || lock.write_timeout(TIMEOUT).is_ok()
        });
        let reader = thread::spawn({
            let lock = lock.clone();
            move || lock.read().unwrap().get()
        });
        let ended = (writer.join().unwrap(), reader.join().unwrap());
        drop(reading);
        assert!(lock.try_write().is_ok());
        ended
    });
}

#[test]
fn a_writer_that_times_out_passes_its_wake_up_on() {
    explore(1, &["(false, 1)", "(true, 2)"], || {
        let lock = Arc::new(RwLock::with_value(Watched::new()));
        let reading = lock.read().unwrap();
        let timed = thread::spawn({
            let lock = lock.clone();
            move || lock.write_timeout(TIMEOUT).map(|guard| guard.add()).is_ok()
        });
        let patient = thread::spawn({
            let lock = lock.clone();
            move || {
                lock.write().unwrap().add();
            }
        });
        drop(reading);
        let timed = timed.join().unwrap();
        patient.join().unwrap();
        (timed, lock.read().unwrap().get())
    });
}

/// One waits, and is too late if the lock is taken again before it comes, or gives up meanwhile; then the lock is left
/// for it, and who comes by gives way.
#[test]
fn a_lock_that_is_left_for_one_that_was_too_late_may_be_taken_by_anybody() {
    starve_at_once();
    let turns = |reads: bool, timed: bool| {
        move || {
            let lock = Arc::new(RwLock::with_value(Watched::new()));
            let held = lock.write().unwrap();
            let other = thread::spawn({
                let lock = lock.clone();
                move || {
                    let write = |guard: &Watched| _ = guard.add();
                    match (reads, timed) {
                        (true, true) => drop(lock.read_timeout(TIMEOUT).map(|guard| guard.get())),
                        (true, false) => drop(lock.read().map(|guard| guard.get())),
                        (false, true) => drop(lock.write_timeout(TIMEOUT).map(|guard| write(&guard))),
                        (false, false) => drop(lock.write().map(|guard| write(&guard))),
                    }
                }
            });
            // Not a preemption: it waits without using up the bound.
            thread::yield_now();
            drop(held);
            for _ in 0..2 {
                let again = lock.write().unwrap();
                again.add();
                thread::yield_now();
                drop(again);
            }
            let tried = lock.try_write().map(drop).is_ok();
            other.join().unwrap();
            (lock.read().unwrap().get(), tried)
        }
    };
    explore(2, &["(3, true)"], turns(false, false));
    explore(2, &["(2, true)", "(3, true)"], turns(false, true));
    explore(2, &["(2, false)", "(2, true)"], turns(true, false));
    explore(2, &["(2, true)"], turns(true, true));
}

#[test]
fn a_barrier_opens_for_all_with_one_leader() {
    explore(1, &["[true, true]"], || {
        let shared = Arc::new((Barrier::with_threads(2), Watched::new()));
        let round = |mine: bool, shared: &(Barrier, Watched)| {
            // In turn: what one did before a round is seen by the other after it.
            (0..2)
                .map(|i| {
                    if mine == (i == 0) {
                        shared.1.add();
                    }
                    shared.0.wait().is_leader()
                })
                .collect::<Vec<_>>()
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || round(false, &shared)
        });
        let mine = round(true, &shared);
        let other = other.join().unwrap();
        assert_eq!(shared.1.get(), 2);
        mine.iter().zip(other).map(|(a, b)| *a != b).collect::<Vec<_>>()
    });
}

#[test]
fn an_arrival_at_a_barrier_that_gives_up_does_not_count() {
    explore(2, &["(false, false, true)", "(false, true, false)", "(true, false, true)", "(true, true, false)"], || {
        let shared = Arc::new((Barrier::with_threads(2), Watched::new()));
        let timed = thread::spawn({
            let shared = shared.clone();
            move || {
                let (barrier, done) = &*shared;
                let ended = match barrier.wait_timeout(TIMEOUT) {
                    Ok(result) => (true, result.is_leader()),
                    Err(_) => (false, barrier.wait().is_leader()),
                };
                // Also when its arrival could not be taken back.
                assert_eq!(done.get(), 1, "what the other did before is seen by whoever passes");
                ended
            }
        });
        shared.1.add();
        let mine = shared.0.wait().is_leader();
        let (at_once, other) = timed.join().unwrap();
        (at_once, mine, other)
    });
}

#[test]
fn once_runs_once_and_whoever_comes_sees_it() {
    explore(2, &["[1, 1]"], || {
        let shared = Arc::new((Once::default(), Watched::new()));
        let visit = |shared: &(Once, Watched)| {
            shared.0.call_once(|| {
                shared.1.add();
            });
            shared.1.get()
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || visit(&shared)
        });
        [visit(&shared), other.join().unwrap()]
    });
}

#[test]
fn who_tries_a_once_again_sees_what_the_last_try_left() {
    // Who has seen the first panic may become the initialiser after the second one.
    explore(2, &["0", "1"], || {
        let shared = Arc::new((Once::default(), Watched::new()));
        let fails = |shared: &(Once, Watched), does: &dyn Fn(&Watched)| {
            let tries = std::panic::AssertUnwindSafe(|| {
                shared.0.call_once_force(|_| {
                    does(&shared.1);
                    std::panic::resume_unwind(Box::new(()));
                });
            });
            let _ = std::panic::catch_unwind(tries);
        };
        fails(&shared, &|_| ());
        let other = thread::spawn({
            let shared = shared.clone();
            move || fails(&shared, &|done| _ = done.add())
        });
        let mut seen = None;
        shared.0.call_once_force(|_| seen = Some(shared.1.get()));
        other.join().unwrap();
        seen.expect("the other always fails")
    });
}

#[test]
fn who_waits_for_a_once_lock_sees_the_value() {
    explore(2, &["(7, 1)"], || {
        let shared = Arc::new((OnceLock::<u32>::default(), Watched::new()));
        let waiter = thread::spawn({
            let shared = shared.clone();
            move || {
                let value = *shared.0.wait();
                (value, shared.1.get())
            }
        });
        shared.1.add();
        shared.0.set(7).unwrap();
        waiter.join().unwrap()
    });
}

#[test]
fn a_monitor_goes_to_whoever_its_state_concerns() {
    // Two wait for different states; whoever leaves hands it to the one whose condition holds.
    explore(1, &["3"], || {
        let monitor = Arc::new(Monitor::with_value(0));
        let waiters = [1, 2].map(|wanted| {
            let monitor = monitor.clone();
            thread::spawn(move || {
                let mut inside = monitor.enter().unwrap();
                inside.wait_until(|value| *value == wanted);
                *inside += 1;
            })
        });
        *monitor.enter().unwrap() += 1;
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        *monitor.enter().unwrap()
    });
}

#[test]
fn a_monitor_handed_to_one_that_gives_up_goes_on() {
    explore(2, &["false", "true"], || {
        let monitor = Arc::new(Monitor::with_value(0));
        let timed = thread::spawn({
            let monitor = monitor.clone();
            move || {
                let mut inside = monitor.enter().unwrap();
                let ended = inside.wait_until_timeout(|value| *value > 0, TIMEOUT).is_ok();
                *inside += 1;
                ended
            }
        });
        *monitor.enter().unwrap() += 1;
        let ended = timed.join().unwrap();
        assert_eq!(*monitor.enter().unwrap(), 2);
        ended
    });
}
