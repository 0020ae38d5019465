//! Notices of an activation in all interleavings: they alternate, each is heard after the one before, one gives way for
//! each loss, and who asks for a processor is served.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::{Loom, Ordering};
use raddle_scheduler::notices::{Notices, Wanted};

struct World {
    notices: Notices<Loom>,
    /// It has no processor.
    without: AtomicBool,
    /// It waits for one.
    waits: AtomicBool,
    /// Heard by the executor, which has no lock.
    heard: Watched,
    gave_way: AtomicU32,
}

impl World {
    fn new() -> Arc<Self> {
        let notices = Notices::new();
        notices.work();
        let (without, waits) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { notices, without, waits, heard: Watched::new(), gave_way: AtomicU32::new(0) })
    }

    fn is_without(&self) -> Option<()> {
        self.without.load(Ordering::Relaxed).then_some(())
    }

    fn hears_of_a_loss(&self) {
        assert_eq!(self.heard.add() % 2, 1, "a loss is told of one that is lost");
    }

    fn hears_of_a_return(&self) {
        assert_eq!(self.heard.add() % 2, 0, "a return is told of one that is there");
    }

    /// The activation loses its processor, waits for another and has it. True if that was told.
    fn blocks(&self) -> bool {
        self.without.store(true, Ordering::Relaxed);
        self.waits.store(true, Ordering::Relaxed);
        // It has its turn.
        self.waits.store(false, Ordering::Relaxed);
        self.without.store(false, Ordering::Relaxed);
        self.comes_back()
    }

    fn comes_back(&self) -> bool {
        self.notices.comes_back(|| self.hears_of_a_return())
    }

    /// It has done its work. How many losses have ended with it.
    fn rests(&self) -> u32 {
        let mut ends = 0;
        while !self.notices.rests_from_work() {
            let ended = self.comes_back();
            ends += u32::from(ended);
            if !ended {
                thread::yield_now();
            }
        }
        ends
    }

    fn tell(&self) -> bool {
        self.notices.tell(|| self.is_without(), |()| self.hears_of_a_loss())
    }

    fn give_way(&self) {
        if self.notices.give_way(|| self.waits.load(Ordering::Relaxed), || self.hears_of_a_return()) {
            self.gave_way.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn beside(world: &Arc<World>, act: impl FnOnce(&World) -> bool + Send + Sync + 'static) -> thread::JoinHandle<bool> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

#[test]
fn losses_and_returns_alternate_and_each_loss_has_its_end() {
    explore(2, &["0", "1", "2"], || {
        let world = World::new();
        let tellers = [0, 1].map(|_| beside(&world, World::tell));
        let ends = [world.blocks(), world.blocks()].map(u32::from);
        let ends = ends[0] + ends[1] + world.rests();
        tellers.into_iter().for_each(|teller| _ = teller.join().unwrap());
        assert!(world.notices.is_ready());
        assert_eq!(world.heard.get(), 2 * ends);
        ends
    });
}

#[test]
fn one_gives_way_for_each_loss_and_tells_of_the_return() {
    explore(2, &["(0, 0)", "(1, 0)", "(1, 1)", "(2, 0)", "(2, 1)", "(2, 2)"], || {
        let world = World::new();
        let others = [0, 1].map(|_| {
            beside(&world, |world| {
                let told = world.tell();
                world.give_way();
                told
            })
        });
        world.blocks();
        world.rests();
        others.into_iter().for_each(|other| _ = other.join().unwrap());
        let heard = world.heard.get();
        assert_eq!(heard % 2, 0);
        (heard / 2, world.gave_way.load(Ordering::Relaxed))
    });
}

/// It loses its processor once more while it tells that it is back: somebody has that processor, and the next notice
/// comes after this one.
#[test]
fn a_loss_while_a_return_is_told_is_covered_once() {
    explore(2, &["0", "1"], || {
        let world = World::new();
        world.without.store(true, Ordering::Relaxed);
        assert!(world.tell());
        // Has somebody see to the processor without a notice.
        let covers = |world: &World| {
            let mut told = false;
            world.notices.tell(
                || world.is_without(),
                |()| {
                    told = true;
                    world.hears_of_a_loss();
                },
            ) && !told
        };
        let others = [0, 1].map(|_| beside(&world, covers));
        assert!(world.comes_back(), "it was told to be lost");
        world.rests();
        let covered: u32 = others.into_iter().map(|other| u32::from(other.join().unwrap())).sum();
        assert!(world.notices.is_ready());
        covered
    });
}

/// It waited for a processor, had it and blocked again: who has seen it wait gives way to nobody.
#[test]
fn whoever_looked_at_an_earlier_loss_gives_no_way() {
    explore(3, &["false", "true"], || {
        let world = World::new();
        let blocked = Arc::new(AtomicU32::new(0));
        world.without.store(true, Ordering::Relaxed);
        world.waits.store(true, Ordering::Relaxed);
        assert!(world.tell());
        let giver = {
            let blocked = blocked.clone();
            beside(&world, move |world| {
                world.notices.give_way(
                    // As it is now.
                    || world.waits.fetch_or(false, Ordering::Relaxed),
                    || {
                        assert_eq!(blocked.fetch_add(0, Ordering::Relaxed), 0, "it is told to be back, and is not");
                        world.hears_of_a_return();
                    },
                )
            })
        };
        world.waits.swap(false, Ordering::Relaxed);
        while !world.comes_back() {
            thread::yield_now();
        }
        assert_eq!(world.heard.get(), 2, "whoever is back sees what was told");
        // Without a turn this time.
        blocked.fetch_add(1, Ordering::Relaxed);
        assert!(world.tell());
        blocked.fetch_sub(1, Ordering::Relaxed);
        assert!(world.comes_back());
        assert_eq!(world.rests(), 0);
        giver.join().unwrap()
    });
}

/// An executor's processors: one activation, tasks that are asked for, and the lock under which it rests.
struct Asked {
    notices: Notices<Loom>,
    wanted: Wanted<Loom>,
    list: Mutex<()>,
}

#[test]
fn whoever_asks_is_served() {
    explore(3, &["1", "2"], || {
        let asked = Arc::new(Asked { notices: Notices::new(), wanted: Wanted::new(0), list: Mutex::new(()) });
        let done = Arc::new(AtomicU32::new(0));
        let activation = {
            let (asked, done) = (asked.clone(), done.clone());
            thread::spawn(move || {
                // Tasks that were there when it began to work, by the last of which it ends.
                let mut worked = 0;
                loop {
                    if asked.wanted.take() {
                        asked.notices.work();
                        worked += 1;
                        // As a task queue behind a lock would tell.
                        let all = done.fetch_add(0, Ordering::AcqRel) == 2;
                        assert!(asked.notices.rests_from_work());
                        if all {
                            return worked;
                        }
                        continue;
                    }
                    {
                        let _list = asked.list.lock().unwrap();
                        if asked.wanted.is_any() {
                            continue;
                        }
                        asked.notices.rest();
                    }
                    while asked.notices.is_idle() {
                        thread::park();
                    }
                }
            })
        };
        for _ in 0..2 {
            done.fetch_add(1, Ordering::AcqRel);
            asked.wanted.ask(1);
            let _list = asked.list.lock().unwrap();
            if !asked.notices.is_ready() && asked.notices.call() {
                activation.thread().unpark();
            }
        }
        activation.join().unwrap()
    });
}
