//! All interleavings of those who take from a region and give back.
#![cfg(feature = "loom")]

mod support;

use loom::thread;
use raddle_machine::Loom;
use raddle_queues::bump::Bump;
use std::sync::Arc;
use support::{Items, explore};

/// A region of so many places, and what lies there.
struct World {
    region: Bump<Loom>,
    items: Items,
}

impl World {
    fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { region: Bump::new(places as u32), items: Items::new(places) })
    }

    /// Takes a block and fills it: its beginning. 9: there was no room.
    fn fill(&self, count: u32) -> u32 {
        let Some(begin) = self.region.take(count, 1) else { return 9 };
        (begin..begin + count).for_each(|place| _ = self.items.fill(place as usize + 1));
        begin
    }

    fn empty(&self, begin: u32, count: u32) {
        if begin != 9 {
            (begin..begin + count).for_each(|place| _ = self.items.empty(place as usize + 1));
            self.region.give(begin, count);
        }
    }

    fn fill_and_empty(&self, count: u32) -> u32 {
        let begin = self.fill(count);
        self.empty(begin, count);
        begin
    }

    /// When nobody else is here: all of it is free.
    fn is_whole(&self, places: u32) -> bool {
        self.items.all_taken();
        self.region.take(places, 1) == Some(0)
    }
}

#[test]
fn two_that_take_and_give_back_do_not_meet() {
    let expected = ["((0, 0), true)", "((0, 1), true)", "((2, 0), true)"];
    explore(None, &expected, || {
        let world = World::new(3);
        let theirs = world.clone();
        let other = thread::spawn(move || theirs.fill_and_empty(2));
        let mine = world.fill_and_empty(1);
        let others = other.join().unwrap();
        // Theirs is two places, mine one: who comes second begins where the first ends, or at 0 again.
        ((mine, others), world.is_whole(3))
    });
}

#[test]
fn what_comes_back_is_taken_again() {
    let expected = [
        "([0, 1, 0], 0, true)",
        "([0, 1, 0], 9, true)",
        "([0, 1, 1], 0, true)",
        "([0, 1, 1], 9, true)",
        "([0, 1, 9], 0, true)",
    ];
    explore(Some(4), &expected, || {
        let world = World::new(2);
        let first = world.fill(1);
        let second = world.fill(1);
        let theirs = world.clone();
        let other = thread::spawn(move || {
            theirs.empty(first, 1);
            theirs.fill_and_empty(2)
        });
        world.empty(second, 1);
        let third = world.fill_and_empty(1);
        ([first, second, third], other.join().unwrap(), world.is_whole(2))
    });
}
