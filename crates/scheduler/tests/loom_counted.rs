//! Kernel threads that sleep and are woken, in all interleavings: they come up, and the count is of those that sleep
//! and were not woken.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::{Atomic, Loom, Machine};
use raddle_scheduler::counted::Sleepers;

type Word = <Loom as Machine>::Atomic<u32>;

struct World {
    sleepers: Sleepers<Loom>,
    tokens: [Word; 2],
    gifts: [Watched; 2],
}

fn sleep(world: &World, which: usize) {
    let token = &world.tokens[which];
    let asleep = world.sleepers.sleeps(token);
    while !world.sleepers.was_woken(token) {
        Loom::wait(token, asleep, None);
    }
    assert_eq!(world.gifts[which].add(), 2);
}

#[test]
fn whoever_was_woken_comes_up_and_is_counted_no_more() {
    explore(3, &["0"], || {
        let world = Arc::new(World {
            sleepers: Sleepers::default(),
            tokens: [Word::new(0), Word::new(0)],
            gifts: [Watched::new(), Watched::new()],
        });
        let waker = {
            let world = world.clone();
            thread::spawn(move || {
                world.gifts[0].add();
                world.sleepers.wake(&world.tokens[0]);
                world.sleepers.count()
            })
        };
        sleep(&world, 0);
        let seen = waker.join().unwrap();
        assert_eq!(world.sleepers.count(), 0);
        // The waker may see the sleeper on its way in and out again, never below 0.
        assert!(seen <= 1);
        world.sleepers.count()
    });
}

#[test]
fn a_second_sleep_is_counted_as_the_first() {
    explore(2, &["0"], || {
        let world = Arc::new(World {
            sleepers: Sleepers::default(),
            tokens: [Word::new(0), Word::new(0)],
            gifts: [Watched::new(), Watched::new()],
        });
        let waker = {
            let world = world.clone();
            thread::spawn(move || {
                for which in 0..2 {
                    world.gifts[which].add();
                    world.sleepers.wake(&world.tokens[which]);
                }
            })
        };
        (0..2).for_each(|which| sleep(&world, which));
        waker.join().unwrap();
        world.sleepers.count()
    });
}
