//! All interleavings, within stated bounds, of the locks for threads that are no mutex: exclusion, order where it is
//! promised, and no wake-up that is lost.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::locks::{excludes_three, excludes_twice};
use loom_runtime::{Model, Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::Wake;
use raddle_scheduler::lock::{Barging, Lock, Parked, Place};
use raddle_scheduler::runtime::{Runtime, wake};
use std::sync::Arc;

#[test]
fn those_that_barge_exclude_each_other_and_all_are_woken() {
    // Each with a place of its own, whose plain cell the unlock reads.
    excludes_twice::<Barging<Model>>();
}

#[test]
fn threads_exclude_each_other_and_all_are_woken() {
    excludes_twice::<Parked<Model>>();
    excludes_three::<Parked<Model>>(1);
}

#[test]
fn threads_are_served_in_the_order_of_their_coming() {
    explore(2, &["[1, 2]"], || {
        let lock = Arc::new(Lock::<Vec<u32>, Parked<Model>, Loom>::new(Vec::new()));
        let guard = lock.lock(Place::new());
        let comes = |number: u32| {
            let lock = lock.clone();
            thread::spawn(move || lock.with(|order| order.push(number)))
        };
        let first = comes(1);
        while !guard.is_awaited() {
            thread::yield_now();
        }
        let second = comes(2);
        drop(guard);
        first.join().unwrap();
        second.join().unwrap();
        lock.with(|order| order.clone())
    });
}

#[test]
fn a_wake_up_for_nothing_costs_a_look() {
    // A third party wakes the waiter, as time-outs of other waits may: it publishes itself again, and the grant finds
    // it.
    explore(2, &["2"], || {
        let lock = Arc::new(Lock::<Watched, Parked<Model>, Loom>::new(Watched::new()));
        let guard = lock.lock(Place::new());
        let known = Arc::new(loom::sync::Mutex::new(None));
        let waiter = thread::spawn({
            let (lock, known) = (lock.clone(), known.clone());
            move || {
                // SAFETY: the record goes to the one who wakes below, and claims a wait of it.
                *known.lock().unwrap() = Some(unsafe { Model::current() });
                lock.with(|value| value.add())
            }
        });
        while !guard.is_awaited() {
            thread::yield_now();
        }
        if let Some(thread) = *known.lock().unwrap()
            && let Some(epoch) = thread.current_wait()
        {
            wake::<Model>(thread, epoch, Wake::Signalled);
        }
        guard.add();
        drop(guard);
        waiter.join().unwrap()
    });
}
