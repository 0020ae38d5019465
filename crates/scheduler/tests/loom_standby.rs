//! A standby, who arms it and who ends it, in all interleavings within stated bounds: nothing is slept through, and
//! there is one kernel thread at most.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::explore;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::standby::{Begin, Standby};

type Word = <Loom as Machine>::Atomic<u32>;

struct World {
    standby: Standby<Loom>,
    looks: Word,
    /// Kernel threads of the standby that have not ended.
    alive: Word,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World { standby: Standby::new(), looks: Word::new(0), alive: Word::new(0) })
    }

    /// As the keeper does.
    fn start(world: &Arc<Self>) -> thread::JoinHandle<()> {
        let world = world.clone();
        thread::spawn(move || {
            assert_eq!(world.alive.fetch_add(1, Ordering::SeqCst), 0, "two kernel threads");
            world.standby.serve(|| {
                world.looks.fetch_add(1, Ordering::SeqCst);
                false
            });
            world.alive.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

/// It has looked since it began, and ends, however arming, falling asleep and ending meet.
#[test]
fn whoever_is_armed_looks_and_whoever_is_to_end_ends() {
    explore(3, &["()"], || {
        let world = World::new();
        assert_eq!(world.standby.begin(), Begin::Start);
        let serving = World::start(&world);
        let armer = {
            let world = world.clone();
            thread::spawn(move || world.standby.arm())
        };
        world.standby.end();
        armer.join().unwrap();
        serving.join().unwrap();
        assert_eq!(world.alive.load(Ordering::SeqCst), 0);
    });
}

/// One that sleeps is woken by an arming: it looks at least twice.
#[test]
fn an_arming_of_one_that_sleeps_is_not_slept_through() {
    explore(3, &["()"], || {
        let world = World::new();
        assert_eq!(world.standby.begin(), Begin::Start);
        let looked = Arc::new(Word::new(0));
        let serving = {
            let (world, looked) = (world.clone(), looked.clone());
            thread::spawn(move || {
                world.standby.serve(|| {
                    // The second look has it end.
                    if looked.fetch_add(1, Ordering::SeqCst) == 1 {
                        world.standby.end();
                    }
                    false
                })
            })
        };
        // Until it was armed asleep once; one that looks, or has not fallen asleep yet, is armed in vain.
        while looked.load(Ordering::SeqCst) < 2 {
            world.standby.arm();
            thread::yield_now();
        }
        serving.join().unwrap();
    });
}

/// One that was to end is wanted again: it goes on, or another kernel thread is started, never two at once.
#[test]
fn one_that_was_to_end_serves_again() {
    explore(3, &["\"another is started\"", "\"it goes on\""], || {
        let world = World::new();
        assert_eq!(world.standby.begin(), Begin::Start);
        let first = World::start(&world);
        world.standby.end();
        let (how, second) = match world.standby.begin() {
            Begin::Start => {
                first.join().unwrap();
                ("another is started", World::start(&world))
            }
            Begin::GoesOn => ("it goes on", first),
            Begin::Serves => panic!("it was told to end"),
        };
        world.standby.end();
        second.join().unwrap();
        assert_eq!(world.alive.load(Ordering::SeqCst), 0);
        how
    });
}
