//! The lock, the board and the slot in all interleavings.
#![cfg(feature = "loom")]

mod support;

use loom::cell::UnsafeCell;
use loom::thread;
use raddle_machine::Loom;
use raddle_queues::board::Board;
use raddle_queues::locked::Locked;
use raddle_queues::slot::Slot;
use std::sync::Arc;
use support::{Items, explore};

/// A number that loom watches.
struct Watched(UnsafeCell<usize>);

// SAFETY: loom watches each access.
unsafe impl Send for Watched {}

impl Watched {
    fn add(&mut self, n: usize) -> usize {
        // SAFETY: alone by `&mut`, which is what is tested; loom checks.
        self.0.with_mut(|value| unsafe {
            *value = *value * 10 + n;
            *value
        })
    }
}

#[test]
fn three_take_turns_inside_and_no_sleeper_is_forgotten() {
    // Who comes when; a sleeper that is not woken is a dead-lock, which loom reports.
    let expected = ["123", "132", "213", "231", "312", "321"];
    explore(Some(3), &expected, || {
        let locked = Arc::new(Locked::<Watched, Loom>::new(Watched(UnsafeCell::new(0))));
        let others: Vec<_> = [2, 3]
            .map(|n| {
                let locked = locked.clone();
                thread::spawn(move || locked.with(|value| value.add(n)))
            })
            .into_iter()
            .collect();
        locked.with(|value| value.add(1));
        others.into_iter().for_each(|other| assert_ne!(other.join().unwrap(), 0));
        locked.with(|value| value.add(0)) / 10
    });
}

#[test]
fn a_pin_is_taken_once_and_brings_what_was_before() {
    let expected = ["(None, Some(1))", "(Some(1), None)"];
    explore(None, &expected, || {
        let items = Items::new(1);
        let board = Arc::new(Board::<Loom>::new(2));
        let (theirs, contents) = (board.clone(), items.clone());
        let taker = thread::spawn(move || theirs.take(0).map(|item| contents.empty(item)));
        items.fill(1);
        assert!(board.pin(1));
        let mine = board.take(1).map(|item| items.empty(item));
        let outcome = (mine, taker.join().unwrap());
        items.all_taken();
        outcome
    });
}

#[test]
fn a_borrowed_value_is_its_borrowers_alone() {
    let expected = ["(None, Some(2), 2)", "(Some(1), None, 1)", "(Some(1), Some(12), 12)", "(Some(21), Some(2), 21)"];
    explore(None, &expected, || {
        let slot = Arc::new(Slot::<Watched, Loom>::new(Watched(UnsafeCell::new(0))));
        let visit = |slot: &Slot<Watched, Loom>, n| {
            slot.borrow().map(|mut value| {
                let now = value.add(n);
                slot.put(value);
                now
            })
        };
        let theirs = slot.clone();
        let other = thread::spawn(move || visit(&theirs, 2));
        let mine = visit(&slot, 1);
        let outcome = other.join().unwrap();
        (mine, outcome, visit(&slot, 0).unwrap() / 10)
    });
}
