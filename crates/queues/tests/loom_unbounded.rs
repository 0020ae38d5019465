//! All interleavings of enqueuers and dequeuers with node reuse.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::Loom;
use raddle_queues::unbounded::{Hazards, Item, Seat, Unbounded};
use std::ptr::NonNull;
use std::sync::Arc;
use support::{Items, explore};

/// Items with their contents watched; each can be queued.
struct World {
    domain: Arc<Hazards<Loom>>,
    queue: Unbounded<Loom>,
    items: Vec<Item<Loom>>,
    contents: Items,
}

impl World {
    fn new(seats: usize, count: usize) -> Arc<Self> {
        let domain = Hazards::new(seats).unwrap();
        let queue = Unbounded::new(&domain).unwrap();
        let items = (0..=count).map(|_| Item::new().unwrap()).collect();
        Arc::new(Self { domain, queue, items, contents: Items::new(count) })
    }

    fn seat(&self, index: usize) -> Seat<Loom> {
        self.domain.seat(index).unwrap()
    }

    fn enqueue(&self, seat: &mut Seat<Loom>, item: usize) {
        self.contents.fill(item);
        // SAFETY: the world keeps its items; each test queues an item only when it has it.
        unsafe { self.queue.enqueue(seat, NonNull::from(&self.items[item])) };
    }

    /// 0 for nothing.
    fn dequeue(&self, seat: &mut Seat<Loom>) -> usize {
        let Some(item) = self.queue.dequeue(seat) else { return 0 };
        let which = self.items.iter().position(|one| NonNull::from(one) == item).unwrap();
        self.contents.empty(which)
    }

    /// Takes what is left and gives all nodes back.
    fn finish(self: Arc<Self>, mut seat: Seat<Loom>) -> Vec<usize> {
        let left: Vec<_> = std::iter::from_fn(|| Some(self.dequeue(&mut seat)).filter(|&item| item != 0)).collect();
        self.contents.all_taken();
        for item in &self.items {
            // SAFETY: all items have been taken.
            unsafe { seat.release(item) };
        }
        left
    }
}

#[test]
fn an_enqueuer_and_a_dequeuer_agree() {
    let expected = ["([0, 0], [1, 2])", "([0, 1], [2])", "([1, 0], [2])", "([1, 2], [])"];
    explore(Some(5), &expected, || {
        let world = World::new(2, 2);
        let mut seat = world.seat(0);
        let theirs = world.clone();
        let dequeuer = thread::spawn(move || {
            let mut seat = theirs.seat(1);
            [theirs.dequeue(&mut seat), theirs.dequeue(&mut seat)]
        });
        world.enqueue(&mut seat, 1);
        world.enqueue(&mut seat, 2);
        let got = dequeuer.join().unwrap();
        (got, world.finish(seat))
    });
}

#[test]
fn two_enqueuers_keep_both_items() {
    let expected = ["[1, 2]", "[2, 1]"];
    explore(Some(5), &expected, || {
        let world = World::new(2, 2);
        let mut seat = world.seat(0);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.enqueue(&mut theirs.seat(1), 2));
        world.enqueue(&mut seat, 1);
        other.join().unwrap();
        world.finish(seat)
    });
}

#[test]
fn two_dequeuers_take_different_items() {
    let expected = ["((1, 2), [])", "((2, 1), [])"];
    explore(Some(5), &expected, || {
        let world = World::new(2, 2);
        let mut seat = world.seat(0);
        world.enqueue(&mut seat, 1);
        world.enqueue(&mut seat, 2);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.dequeue(&mut theirs.seat(1)));
        let got = (world.dequeue(&mut seat), other.join().unwrap());
        (got, world.finish(seat))
    });
}

#[test]
fn a_late_enqueuer_meets_reused_nodes() {
    // While one enqueues, the other takes items out and puts them back in, so that nodes come round again. With lines
    // 18 and 19 as printed in the paper, an item is lost here.
    let expected = ["([0, 0, 0], [1])", "([0, 0, 1], [1])", "([0, 1, 1], [1])", "([1, 1, 1], [1])"];
    explore(Some(3), &expected, || {
        let world = World::new(2, 1);
        let mut seat = world.seat(0);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.enqueue(&mut theirs.seat(1), 1));
        let mut got = Vec::new();
        for _ in 0..3 {
            let item = world.dequeue(&mut seat);
            got.push(item);
            if item != 0 {
                world.enqueue(&mut seat, item);
            }
        }
        other.join().unwrap();
        (got, world.finish(seat))
    });
}

#[test]
fn a_late_dequeuer_meets_reused_nodes() {
    let expected = ["((0, 2, 1), [2])", "((1, 1, 0), [2, 1])", "((1, 1, 2), [1])", "((1, 2, 1), [2])"];
    explore(Some(3), &expected, || {
        let world = World::new(2, 2);
        let mut seat = world.seat(0);
        world.enqueue(&mut seat, 1);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.dequeue(&mut theirs.seat(1)));
        let first = world.dequeue(&mut seat);
        if first != 0 {
            world.enqueue(&mut seat, first);
        }
        world.enqueue(&mut seat, 2);
        let second = world.dequeue(&mut seat);
        if second != 0 {
            world.enqueue(&mut seat, second);
        }
        let got = (first, second, other.join().unwrap());
        (got, world.finish(seat))
    });
}

#[test]
fn a_released_node_is_not_looked_at() {
    // With line 30 as printed in the paper, the late dequeuer reads a node that has been freed.
    let expected = ["(([1, 0], 2), [])", "(([1, 2], 0), [])", "(([2, 0], 1), [])"];
    explore(Some(3), &expected, || {
        let world = World::new(2, 2);
        let mut seat = world.seat(0);
        world.enqueue(&mut seat, 1);
        world.enqueue(&mut seat, 2);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.dequeue(&mut theirs.seat(1)));
        let got = [world.dequeue(&mut seat), world.dequeue(&mut seat)];
        for item in got.into_iter().filter(|&item| item != 0) {
            // SAFETY: dequeued by us, not used any more.
            unsafe { seat.release(&world.items[item]) };
        }
        let got = (got, other.join().unwrap());
        (got, world.finish(seat))
    });
}
