//! All interleavings of enqueuers and dequeuers that draw tickets.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::Loom;
use raddle_queues::tickets::Tickets;
use std::sync::Arc;
use support::{Items, explore};

/// A queue, and what its numbers name.
struct World {
    queue: Tickets<Loom>,
    items: Items,
}

impl World {
    fn new(capacity: usize, items: usize) -> Arc<Self> {
        Arc::new(Self { queue: Tickets::new(capacity).unwrap(), items: Items::new(items) })
    }

    fn enqueue(&self, item: usize) {
        assert!(self.try_enqueue(item), "no room for {item}");
    }

    fn try_enqueue(&self, item: usize) -> bool {
        self.items.fill(item);
        let done = self.queue.enqueue(item as u32).is_ok();
        if !done {
            self.items.empty(item);
        }
        done
    }

    /// 0 for nothing.
    fn dequeue(&self) -> usize {
        self.queue.dequeue().map_or(0, |item| self.items.empty(item as usize))
    }

    fn dequeues<const N: usize>(&self) -> [usize; N] {
        std::array::from_fn(|_| self.dequeue())
    }

    /// What is left, when nobody else is here: what is not found now is lost.
    fn rest(&self) -> Vec<usize> {
        let rest = std::iter::from_fn(|| Some(self.dequeue()).filter(|&item| item != 0)).collect();
        self.items.all_taken();
        rest
    }
}

#[test]
fn an_enqueuer_and_a_dequeuer_agree() {
    let expected = ["([0, 0], [1, 2])", "([0, 1], [2])", "([1, 0], [2])", "([1, 2], [])"];
    // With no bound the dequeuer can make all tickets of an enqueuer void, which then gives up.
    explore(Some(4), &expected, || {
        let world = World::new(4, 2);
        let theirs = world.clone();
        let dequeuer = thread::spawn(move || theirs.dequeues::<2>());
        world.enqueue(1);
        world.enqueue(2);
        (dequeuer.join().unwrap(), world.rest())
    });
}

#[test]
fn two_enqueuers_keep_both_numbers() {
    explore(None, &["[1, 2]", "[2, 1]"], || {
        let world = World::new(2, 2);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.enqueue(2));
        world.enqueue(1);
        other.join().unwrap();
        world.rest()
    });
}

#[test]
fn two_dequeuers_take_different_numbers() {
    // One that finds the other with the last ticket leaves with nothing.
    let expected = ["((1, 2), [])", "((2, 1), [])"];
    explore(None, &expected, || {
        let world = World::new(2, 2);
        world.enqueue(1);
        world.enqueue(2);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.dequeue());
        ((world.dequeue(), other.join().unwrap()), world.rest())
    });
}

#[test]
fn two_enqueuers_and_a_dequeuer_lose_nothing() {
    let expected = [
        "([0, 0], [1, 2])",
        "([0, 0], [2, 1])",
        "([0, 1], [2])",
        "([0, 2], [1])",
        "([1, 0], [2])",
        "([1, 2], [])",
        "([2, 0], [1])",
        "([2, 1], [])",
    ];
    explore(Some(3), &expected, || {
        let world = World::new(4, 2);
        let (a, b) = (world.clone(), world.clone());
        let first = thread::spawn(move || a.enqueue(1));
        let second = thread::spawn(move || b.enqueue(2));
        let got = world.dequeues::<2>();
        first.join().unwrap();
        second.join().unwrap();
        (got, world.rest())
    });
}

#[test]
fn a_late_dequeuer_meets_the_next_round() {
    // One slot, so that each ticket is of another round of it. While a dequeuer has yet to empty it there is no room.
    let expected = ["((0, [1, 2]), [])", "((1, [0, 0]), [])", "((1, [0, 2]), [])", "((2, [1, 0]), [])"];
    explore(Some(4), &expected, || {
        let world = World::new(1, 2);
        world.enqueue(1);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.dequeue());
        let mut got = [world.dequeue(), 0];
        if world.try_enqueue(2) {
            got[1] = world.dequeue();
        }
        ((other.join().unwrap(), got), world.rest())
    });
}

#[test]
fn a_late_enqueuer_meets_the_next_round() {
    // Where both find room, one ticket at least was made void by a dequeuer in time.
    let expected = [
        "((false, true), [0, 2, 0], [])",
        "((true, false), [0, 0, 0], [1])",
        "((true, false), [0, 0, 1], [])",
        "((true, false), [0, 1, 0], [])",
        "((true, true), [0, 2, 0], [1])",
        "((true, true), [0, 2, 1], [])",
        "((true, true), [1, 2, 0], [])",
    ];
    explore(Some(4), &expected, || {
        let world = World::new(1, 2);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.try_enqueue(1));
        let first = world.dequeue();
        let mine = world.try_enqueue(2);
        let [second, third] = world.dequeues();
        ((other.join().unwrap(), mine), [first, second, third], world.rest())
    });
}
