//! What is about to end, those whose waits for it have been ended, and one who comes by itself, in all interleavings
//! within stated bounds: nobody begins a wait elsewhere when it has ended, and whoever was counted begins one.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::explore;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::handover::Handover;

type Word = <Loom as Machine>::Atomic<u32>;

const NUMBER: u32 = 3;

struct World {
    handover: Handover<Loom>,
    /// By name: it waits elsewhere.
    there: [Word; 3],
    has_ended: Word,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            handover: Handover::new(),
            there: [Word::new(0), Word::new(0), Word::new(0)],
            has_ended: Word::new(0),
        })
    }

    /// True if it has waited elsewhere.
    fn come(&self, name: u32) -> bool {
        let wait = || {
            assert_eq!(self.has_ended.load(Ordering::Relaxed), 0, "{name} waits for what it does not mean");
            self.there[name as usize].store(1, Ordering::Release);
        };
        self.handover.waits_on(|number| number == NUMBER, name, thread::yield_now, wait).is_some()
    }

    fn end(&self, comers: usize) -> bool {
        let is_there = |name: u32| self.there[name as usize].load(Ordering::Acquire) == 1;
        let all = self.handover.end(comers, is_there, || {
            thread::yield_now();
            true
        });
        self.has_ended.store(1, Ordering::Relaxed);
        all
    }
}

/// One comes by itself, at any time.
#[test]
fn who_begins_to_wait_elsewhere_does_so_before_the_end() {
    explore(3, &["true", "false"], || {
        let world = World::new();
        assert!(world.handover.begin(NUMBER));
        let comer = {
            let world = world.clone();
            thread::spawn(move || world.come(1))
        };
        assert!(world.end(0));
        comer.join().unwrap()
    });
}

/// Both are counted: both wait elsewhere.
#[test]
fn all_who_are_counted_wait_elsewhere() {
    explore(1, &["()"], || {
        let world = World::new();
        assert!(world.handover.begin(NUMBER));
        assert!(!world.handover.begin(NUMBER + 1), "one at a time");
        let comers = [1, 2].map(|name| {
            let world = world.clone();
            thread::spawn(move || world.come(name))
        });
        assert!(world.end(2));
        assert!(comers.into_iter().all(|comer| comer.join().unwrap()));
    });
}

/// Without time nobody is waited for, and the next one finds nothing left over.
#[test]
fn without_time_something_else_can_end() {
    explore(3, &["(true, true)", "(false, true)", "(false, false)"], || {
        let world = World::new();
        assert!(world.handover.begin(NUMBER));
        let comer = {
            let world = world.clone();
            thread::spawn(move || world.come(1))
        };
        let in_time = world.handover.end(1, |_| false, || false);
        let came = comer.join().unwrap();
        assert!(world.handover.begin(NUMBER), "something else can");
        let own = world.handover.waits_on(|number| number == NUMBER, 2, || panic!("nobody else comes"), || ());
        assert!(own.is_some());
        assert!(world.handover.end(1, |_| false, || panic!("it has come")));
        (in_time, came)
    });
}
