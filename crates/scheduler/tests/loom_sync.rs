//! All interleavings, within stated bounds, of the primitives: on a runtime whose threads are loom's.
//!
//! A lost wake-up is a deadlock, which loom reports. A time-out may come at any moment after the thread has parked: it claims the
//! wait itself, before or after its wakers. The other locks are in `loom_locks.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, TIMEOUT, Watched, explore, explore_first};
use raddle_scheduler::Runtime;
use raddle_scheduler::runtime::cancel;
use raddle_scheduler::sync::channel::SendTimeoutError;
use raddle_scheduler::sync::{self, LockError, channel, oneshot};
use std::sync::Arc;

type Mutex<T> = sync::Mutex<T, Model>;
type Condvar = sync::Condvar<Model>;
type Semaphore = sync::Semaphore<Model>;

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
fn a_woken_thread_that_finds_the_mutex_free_still_wakes_the_others() {
    // Two wait; the first is woken, but finds the mutex taken again, queues again, and then finds it free, with nobody to note
    // that the second waits but itself. All interleavings take too long; one that loses the second is among these.
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
fn several_senders_of_a_full_channel_all_go_on() {
    explore(0, &["3"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let producers = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(value).unwrap())
        });
        let sum = receiver.recv().unwrap() + receiver.recv().unwrap();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        sum
    });
}

#[test]
fn a_rendezvous_ends_with_both_sides_there() {
    explore(1, &["[1, 2]"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(0);
        let producer = thread::spawn(move || (1..=2).for_each(|i| sender.send(i).unwrap()));
        let received: Vec<_> = receiver.iter().collect();
        producer.join().unwrap();
        received
    });
}

#[test]
fn a_rendezvous_that_times_out_is_none() {
    // Who gives up has sent nothing, and who has sent was received: both sides agree.
    explore(2, &["(false, Err(Disconnected))", "(true, Ok(1))"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(0);
        let producer = thread::spawn(move || match sender.send_timeout(1, TIMEOUT) {
            Ok(()) => true,
            Err(SendTimeoutError::Timeout(1)) => false,
            Err(error) => panic!("{error}"),
        });
        let received = receiver.recv();
        (producer.join().unwrap(), received)
    });
}

#[test]
fn a_rendezvous_sees_the_receiver_go() {
    explore(2, &["Err(SendError(..))"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(0);
        let last = thread::spawn(move || drop(receiver));
        let sent = sender.send(1);
        last.join().unwrap();
        sent
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

// The gate of a channel counts only where two threads of a side wait. Three threads have too many interleavings: the first so many
// are explored, with a yield, which is no preemption, where the others are to be asleep first.
const GATED: Option<usize> = Some(20_000);

#[test]
fn a_woken_receiver_wakes_the_next() {
    // Both wait; the second message is sent while the first receiver is coming, which has to wake the second one.
    explore_first(GATED, 1, &["3"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        let others = [(); 2].map(|()| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv().unwrap())
        });
        thread::yield_now();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        others.into_iter().map(|other| other.join().unwrap()).sum::<u32>()
    });
}

#[test]
fn a_woken_sender_wakes_the_next() {
    explore_first(GATED, 1, &["6"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(2);
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        let others = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || sender.send(value).unwrap())
        });
        thread::yield_now();
        let sum = receiver.recv().unwrap() + receiver.recv().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        sum + receiver.try_iter().sum::<u32>()
    });
}

#[test]
fn a_receiver_that_times_out_is_not_relied_upon() {
    // The list holds two, of which one is gone when its turn comes (once it sleeps, the model's time is up at once): the other still gets
    // what it waits for. Or the messages come before.
    let cases = [(true, ["(None, Some(1))"].as_slice()), (false, &["(Some(1), Some(2))", "(Some(2), Some(1))"])];
    for (asleep, expected) in cases {
        explore_first(GATED, 1, expected, move || {
            let (sender, receiver) = channel::bounded::<u32, Model>(2);
            let timed = thread::spawn({
                let receiver = receiver.clone();
                move || receiver.recv_timeout(TIMEOUT).ok()
            });
            let patient = thread::spawn({
                let receiver = receiver.clone();
                move || receiver.recv().ok()
            });
            if asleep {
                thread::yield_now();
            }
            sender.send(1).unwrap();
            sender.send(2).unwrap();
            (timed.join().unwrap(), patient.join().unwrap())
        });
    }
}

#[test]
fn two_that_wait_for_one_message_see_the_sender_go() {
    explore_first(GATED, 1, &["1"], || {
        let (sender, receiver) = channel::bounded::<u32, Model>(1);
        let others = [(); 2].map(|()| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv().unwrap_or(0))
        });
        thread::yield_now();
        sender.send(1).unwrap();
        drop(sender);
        others.into_iter().map(|other| other.join().unwrap()).sum::<u32>()
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
