//! All interleavings, within stated bounds, of tries: they never wait, and what they leave in the queue is collected.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::lock::{Lock, TryMcs, Trying};
use std::sync::Arc;

type Watch = Lock<Watched, TryMcs<Loom>, Loom>;

#[test]
fn a_try_excludes_and_its_node_is_collected() {
    // Tries that were lucky, of two; then one that must be.
    explore(2, &["(0, 2)", "(1, 3)", "(2, 4)"], || {
        let lock = Arc::new(Watch::new(Watched::new()));
        let trier = thread::spawn({
            let lock = lock.clone();
            move || {
                let mut trying = Trying::new();
                let lucky = (0..2).filter(|_| lock.try_lock(&mut trying).map(|inside| inside.add()).is_some()).count();
                (lucky, trying)
            }
        });
        lock.with(|value| value.add());
        let (lucky, mut trying) = trier.join().unwrap();
        assert!(trying.is_collected(), "all have unlocked");
        let total = lock.try_lock(&mut trying).expect("nobody holds it").add();
        (lucky, total)
    });
}

#[test]
fn a_try_while_it_is_held_fails_without_waiting() {
    // The main thread holds it all the time: a try that waited would be a dead-lock, which loom reports.
    explore(3, &["[false, false]"], || {
        let lock = Arc::new(Watch::new(Watched::new()));
        let mut mine = Trying::new();
        let held = lock.try_lock(&mut mine).unwrap();
        let triers = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || {
                let mut trying = Trying::new();
                let had = lock.try_lock(&mut trying).is_some();
                // Once more, while the node is queued; then it is dropped there.
                had || lock.try_lock(&mut trying).is_some()
            })
        });
        let had = triers.map(|trier| trier.join().unwrap());
        held.add();
        drop(held);
        assert!(lock.try_lock(&mut mine).is_some(), "abandoned nodes keep it held");
        had
    });
}

#[test]
fn a_waiter_behind_an_abandoned_node_gets_in() {
    explore(2, &["(false, 2)", "(true, 3)"], || {
        let lock = Arc::new(Watch::new(Watched::new()));
        let trier = thread::spawn({
            let lock = lock.clone();
            move || {
                let mut trying = Trying::new();
                lock.try_lock(&mut trying).map(|inside| inside.add()).is_some()
            }
        });
        let waiter = thread::spawn({
            let lock = lock.clone();
            move || lock.with(|value| value.add())
        });
        lock.with(|value| value.add());
        waiter.join().unwrap();
        let lucky = trier.join().unwrap();
        let mut trying = Trying::new();
        let total = lock.try_lock(&mut trying).expect("nobody holds it").get();
        (lucky, total)
    });
}

#[test]
fn a_node_is_used_again_only_after_its_collector_has_left_it() {
    // The trier tries a lock of its own with the node, as soon as that is collected.
    explore(3, &["false", "true"], || {
        let lock = Arc::new(Watch::new(Watched::new()));
        let other = thread::spawn({
            let lock = lock.clone();
            move || lock.with(|value| value.add())
        });
        let mut trying = Trying::new();
        let lucky = lock.try_lock(&mut trying).map(|inside| inside.add()).is_some();
        let own = Watch::new(Watched::new());
        while own.try_lock(&mut trying).map(|inside| inside.add()).is_none() {
            thread::yield_now();
        }
        other.join().unwrap();
        lucky
    });
}

#[test]
fn a_node_that_had_a_successor_has_none_when_it_is_used_again() {
    explore(2, &["false", "true"], || {
        let lock = Arc::new(Watch::new(Watched::new()));
        let others = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || lock.with(|value| value.add()))
        });
        let mut trying = Trying::new();
        let lucky = lock.try_lock(&mut trying).map(|inside| inside.add()).is_some();
        // On a lock of its own: an old successor would be handed that lock, which then stays held.
        let own = Watch::new(Watched::new());
        while own.try_lock(&mut trying).is_none() {
            thread::yield_now();
        }
        assert!(own.try_lock(&mut trying).is_some());
        others.into_iter().for_each(|other| _ = other.join().unwrap());
        lucky
    });
}
