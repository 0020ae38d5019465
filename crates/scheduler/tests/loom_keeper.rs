//! The alarm of who keeps the watch for events, in all interleavings: whoever comes by it first, the keeper is called.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::explore;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::idle::Idle;
use raddle_scheduler::keeper::Keeper;

/// The kernel's list of what has happened: an alarm is told once, to whoever fetches it first.
struct Events(<Loom as Machine>::Atomic<u32>);

impl Events {
    fn raise(&self) {
        self.0.swap(1, Ordering::AcqRel);
        Loom::wake(&self.0, 1);
    }

    fn fetch(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) != 0
    }
}

struct World {
    idle: Idle<Loom>,
    keeper: Keeper<Loom>,
    events: Arc<Events>,
}

impl World {
    fn new() -> Arc<Self> {
        let events = Arc::new(Events(<Loom as Machine>::Atomic::new(0)));
        let alarm = events.clone();
        Arc::new(World { idle: Idle::with_alarm(1, move || alarm.raise()), keeper: Keeper::default(), events })
    }

    /// A processor looks for events in the midst of its work.
    fn looks(&self) -> bool {
        let alarm = self.events.fetch();
        if alarm {
            self.keeper.pass_on(|| self.events.raise());
        }
        alarm
    }

    /// A processor keeps the watch until it is called.
    fn sleeps(&self) {
        self.idle.begin_search(0);
        assert!(self.keeper.keep());
        let block = |_| {
            while !self.events.fetch() {
                Loom::wait(&self.events.0, 0, None);
            }
            false
        };
        self.idle.sleep_elsewhere(0, None, false, || false, block);
        self.keeper.give_up();
        self.idle.found(0);
    }
}

fn called(bystanders: usize, preemptions: usize, expected: &[&str]) {
    explore(preemptions, expected, move || {
        let world = World::new();
        let caller = {
            let world = world.clone();
            thread::spawn(move || {
                while !world.idle.wake(0) {
                    thread::yield_now();
                }
            })
        };
        let bystanders: Vec<_> = (0..bystanders)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || world.looks())
            })
            .collect();
        // Nobody rings again, so it comes up by the one alarm.
        world.sleeps();
        caller.join().unwrap();
        bystanders.into_iter().map(|bystander| bystander.join().unwrap()).collect::<Vec<_>>()
    });
}

#[test]
fn an_alarm_that_a_bystander_fetches_reaches_the_keeper() {
    called(1, 3, &["[false]", "[true]"]);
}

#[test]
fn nor_do_two_bystanders_keep_it() {
    called(2, 2, &["[false, false]", "[false, true]", "[true, false]", "[true, true]"]);
}
