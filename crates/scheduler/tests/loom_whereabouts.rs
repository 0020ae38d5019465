//! A thread that is switched to while something is left for it: it sees that, or the asker learns where it runs.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::explore;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::whereabouts::Whereabouts;

struct World {
    at: Whereabouts<Loom, u64>,
    left: <Loom as Machine>::Atomic<u32>,
}

/// A carrier's address, which is never read.
fn carrier(number: usize) -> *mut u64 {
    std::ptr::without_provenance_mut(number * size_of::<u64>())
}

fn world() -> Arc<World> {
    Arc::new(World { at: Whereabouts::nowhere(), left: <Loom as Machine>::Atomic::new(0) })
}

impl World {
    /// What a switch to the thread does, and the thread first: true if it sees what was left.
    fn goes_on(&self, on: usize) -> bool {
        self.at.install(carrier(on));
        Whereabouts::<Loom, u64>::resumed();
        self.left.load(Ordering::Relaxed) != 0
    }

    /// Where an asker finds the thread.
    fn asks(&self) -> *mut u64 {
        self.left.store(1, Ordering::Relaxed);
        self.at.meet()
    }
}

#[test]
fn who_does_not_see_what_was_left_is_found() {
    explore(3, &["(false, true)", "(true, false)", "(true, true)"], || {
        let world = world();
        let asker = {
            let world = world.clone();
            thread::spawn(move || !world.asks().is_null())
        };
        let seen = world.goes_on(1);
        let found = asker.join().unwrap();
        assert!(seen || found, "it computes, and nobody interrupts it");
        (seen, found)
    });
}

#[test]
fn one_that_moves_is_found_where_it_went_or_sees_it() {
    explore(3, &["(false, 2)", "(true, 0)", "(true, 1)", "(true, 2)"], || {
        let world = world();
        world.at.install(carrier(1));
        let asker = {
            let world = world.clone();
            thread::spawn(move || world.asks().addr() / size_of::<u64>())
        };
        // It computes on the first, where an interruption would still find it, and goes on on the second.
        world.at.leave();
        let seen = world.goes_on(2);
        let found = asker.join().unwrap();
        assert!(seen || found == 2, "it computes on the second, and {found} is interrupted");
        (seen, found)
    });
}
