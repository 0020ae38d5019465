//! All interleavings of rights to slots with those who give memory back: who has a right finds a mapped slot.
#![cfg(feature = "loom")]

mod support;

use loom::thread::{self, JoinHandle};
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_queues::rights::{Rights, Slots};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use support::explore;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Fresh,
    InHands,
    ListedMapped,
    ListedUnmapped,
}

/// What is true of the memory. No thread reads it to go by: each operation is checked against it.
struct Truth {
    places: Vec<(Place, bool)>,
    limit: usize,
    /// So many slots more can be mapped.
    room: usize,
}

struct Pool {
    truth: Mutex<Truth>,
    /// An operation on the pool is one step of its own and orders nothing else.
    step: <Loom as Machine>::Atomic<u32>,
    limit: <Loom as Machine>::Atomic<usize>,
}

impl Pool {
    fn step<T>(&self, work: impl FnOnce(&mut Truth) -> T) -> T {
        self.step.fetch_add(1, Ordering::Relaxed);
        self.at_once(work)
    }

    /// In one step with what comes before: what concerns the owner alone.
    fn at_once<T>(&self, work: impl FnOnce(&mut Truth) -> T) -> T {
        work(&mut self.truth.lock().unwrap())
    }

    fn listed(&self, place: Place) -> Option<u32> {
        self.step(|truth| {
            let slot = truth.places.iter().position(|(now, _)| *now == place)?;
            truth.places[slot].0 = Place::InHands;
            Some(slot as u32)
        })
    }
}

impl Truth {
    /// A slot that is the caller's alone, and below the limit.
    fn own(&mut self, slot: u32, mapped: bool) -> &mut (Place, bool) {
        assert!((slot as usize) < self.limit, "slot {slot} is above the limit");
        let found = &mut self.places[slot as usize];
        assert!([Place::InHands, Place::Fresh].contains(&found.0), "slot {slot} is in two places");
        assert_eq!(found.1, mapped, "slot {slot} is mapped, or not, against what its owner thinks");
        found
    }
}

impl Slots for Pool {
    type Error = ();
    fn limit(&self) -> usize {
        // Relaxed, as an arena's.
        self.limit.load(Ordering::Relaxed)
    }
    fn refused(&self) {}
    fn pay_guard(&self) -> Result<(), ()> {
        Ok(())
    }
    fn map(&self, slot: u32) -> Result<(), ()> {
        self.at_once(|truth| {
            truth.own(slot, false).0 = Place::InHands;
            truth.room = truth.room.checked_sub(1).ok_or(())?;
            truth.own(slot, false).1 = true;
            Ok(())
        })
    }
    fn unmap(&self, slot: u32) {
        self.at_once(|truth| {
            truth.own(slot, true).1 = false;
            truth.room += 1;
        });
    }
    fn unmap_rest(&self, rest: Range<u32>) {
        // As an arena's.
        let limit = (rest.end / 2).max(rest.start) as usize;
        self.limit.store(limit, Ordering::Relaxed);
        self.step(|truth| {
            for slot in rest {
                assert_eq!(truth.places[slot as usize], (Place::Fresh, true), "slot {slot} is somebody's");
                truth.places[slot as usize].1 = false;
                truth.room += 1;
            }
            truth.limit = limit;
        });
    }
    fn push_mapped(&self, slots: Range<u32>) {
        self.step(|truth| slots.for_each(|slot| truth.own(slot, true).0 = Place::ListedMapped));
    }
    fn pop_mapped(&self) -> Option<u32> {
        self.listed(Place::ListedMapped)
    }
    fn push_unmapped(&self, slot: u32) {
        self.step(|truth| truth.own(slot, false).0 = Place::ListedUnmapped);
    }
    fn pop_unmapped(&self) -> Option<u32> {
        self.listed(Place::ListedUnmapped)
    }
}

struct Arena {
    rights: Rights<Loom>,
    pool: Pool,
}

impl Arena {
    /// All mapped at first, or one by one, with room for so many.
    fn new(limit: usize, room: Option<usize>) -> Arc<Arena> {
        let mapped = room.is_none();
        Arc::new(Arena {
            rights: Rights::new(false, mapped.then_some(limit as u32)),
            pool: Pool {
                truth: Mutex::new(Truth {
                    places: vec![(Place::Fresh, mapped); limit],
                    limit,
                    room: room.unwrap_or_default(),
                }),
                step: Atomic::new(0),
                limit: Atomic::new(limit),
            },
        })
    }

    fn reserve(&self) -> bool {
        self.rights.reserve(&self.pool).is_ok()
    }

    /// Under a right.
    fn take(&self) -> u32 {
        for _ in 0..30 {
            let fresh = || self.rights.fresh.hand_out(1).map(|slots| slots.start);
            if let Some(slot) = self.pool.pop_mapped().or_else(fresh) {
                self.pool.at_once(|truth| truth.own(slot, true).0 = Place::InHands);
                return slot;
            }
            thread::yield_now();
        }
        panic!("a right without a slot");
    }

    fn give(&self, slot: u32) {
        self.pool.push_mapped(slot..slot + 1);
        self.rights.unreserve(1);
    }

    /// One who needs a slot for a while. False: refused.
    fn visit(&self) -> bool {
        let reserved = self.reserve();
        if reserved {
            self.give(self.take());
        }
        reserved
    }

    /// As `visit`, of somebody who does without if those in use may need it.
    fn visit_idle(&self) -> bool {
        let covered = self.rights.is_one_by_one() && self.rights.add_covered();
        if covered {
            match self.pool.pop_mapped() {
                Some(slot) => self.give(slot),
                None => self.rights.unreserve(1),
            }
        }
        covered
    }

    /// After all: no right is out, what counts as mapped is, and that there are as many slots as rights can be had.
    /// How many slots are mapped, how many of those do not count, and how many rights can be had.
    fn settled(&self) -> (usize, usize, usize) {
        assert_eq!(self.rights.count(), 0);
        let (mapped, in_use) = self.pool.at_once(|truth| {
            let handed_out = truth.places.iter().filter(|(place, _)| *place != Place::Fresh);
            let in_use = truth.places.iter().filter(|(place, _)| *place == Place::InHands).count();
            (handed_out.filter(|(_, mapped)| *mapped).count(), in_use)
        });
        assert_eq!(in_use, 0, "a slot is lost");
        let counted = self.rights.mapped();
        assert!(!self.rights.is_one_by_one() || counted <= mapped, "{counted} of {mapped}");
        let uncounted = mapped - counted.min(mapped);
        let rights = (0..self.pool.limit()).take_while(|_| self.reserve()).count();
        let slots: Vec<u32> = (0..rights).map(|_| self.take()).collect();
        slots.into_iter().for_each(|slot| self.give(slot));
        (mapped, uncounted, rights)
    }
}

fn beside<T: 'static>(arena: &Arc<Arena>, work: impl FnOnce(&Arena) -> T + 'static) -> JoinHandle<T> {
    let arena = arena.clone();
    thread::spawn(move || work(&arena))
}

/// Mapped one by one, so many of them idle.
fn idle(limit: usize, room: usize, count: usize) -> Arc<Arena> {
    let arena = Arena::new(limit, Some(room));
    (0..count).for_each(|_| assert!(arena.reserve()));
    arena.rights.unreserve(count);
    assert_eq!(arena.rights.mapped(), count);
    arena
}

#[test]
fn who_has_a_right_finds_a_slot_though_the_rest_is_given_back() {
    explore(
        Some(2),
        &[
            "([false, false], (0, 0, 2))",
            "([false, true], (1, 0, 2))",
            "([false, true], (1, 1, 1))",
            "([false, true], (2, 0, 2))",
            "([false, true], (2, 1, 1))",
            "([true, false], (1, 0, 2))",
            "([true, false], (1, 1, 1))",
            "([true, false], (2, 0, 2))",
            "([true, true], (1, 0, 2))",
            "([true, true], (1, 1, 1))",
            "([true, true], (2, 0, 2))",
            "([true, true], (2, 1, 1))",
            "([true, true], (2, 2, 0))",
            "([true, true], (3, 0, 3))",
            "([true, true], (3, 1, 2))",
            "([true, true], (3, 2, 1))",
            "([true, true], (4, 2, 2))",
        ],
        || {
            let arena = Arena::new(4, None);
            let users = [beside(&arena, Arena::visit), beside(&arena, Arena::visit)];
            arena.rights.give_back(&arena.pool);
            let served = users.map(|user| user.join().unwrap());
            (served, arena.settled())
        },
    );
}

#[test]
fn who_has_a_right_finds_a_slot_though_idle_ones_are_unmapped() {
    explore(
        Some(3),
        &[
            "(1, true, (1, 0, 2))",
            "(1, true, (2, 0, 2))",
            "(2, true, (0, 0, 2))",
            "(2, true, (1, 0, 2))",
            "(2, true, (2, 0, 2))",
            "(3, true, (0, 0, 2))",
            "(3, true, (1, 0, 2))",
            "(4, true, (0, 0, 2))",
        ],
        || {
            let arena = idle(2, 2, 2);
            let user = beside(&arena, Arena::visit);
            let unmapped = arena.rights.unmap_idle(&arena.pool);
            (unmapped, user.join().unwrap(), arena.settled())
        },
    );
}

#[test]
fn two_unmap_and_one_of_them_reserves() {
    // Between a look and the exchange another unmaps, and adds a right: the word is as it was.
    explore(
        Some(2),
        &[
            "(1, true, (1, 0, 2))",
            "(1, true, (2, 0, 2))",
            "(2, true, (0, 0, 2))",
            "(2, true, (1, 0, 2))",
            "(2, true, (2, 0, 2))",
            "(3, true, (0, 0, 2))",
            "(3, true, (1, 0, 2))",
            "(4, true, (0, 0, 2))",
        ],
        || {
            let arena = idle(2, 2, 2);
            let other = beside(&arena, |arena| (arena.rights.unmap_idle(&arena.pool), arena.visit()));
            let unmapped = arena.rights.unmap_idle(&arena.pool);
            let (others, served) = other.join().unwrap();
            (unmapped + others, served, arena.settled())
        },
    );
}

#[test]
fn who_takes_an_idle_slot_is_beside_all_others() {
    explore(
        Some(2),
        &[
            "(false, false, (0, 0, 2))",
            "(true, false, (0, 0, 2))",
            "(true, false, (1, 0, 2))",
            "(true, false, (1, 1, 1))",
            "(true, false, (2, 1, 1))",
            "(true, true, (0, 0, 2))",
            "(true, true, (1, 0, 2))",
            "(true, true, (1, 1, 1))",
            "(true, true, (2, 1, 1))",
        ],
        || {
            let arena = Arena::new(4, None);
            let user = beside(&arena, Arena::visit);
            let idler = beside(&arena, Arena::visit_idle);
            arena.rights.give_back(&arena.pool);
            arena.rights.unmap_idle(&arena.pool);
            (user.join().unwrap(), idler.join().unwrap(), arena.settled())
        },
    );
}

#[test]
fn two_limiters_count_once() {
    explore(Some(3), &["(1, (0, 0, 2))"], || {
        let arena = Arena::new(4, None);
        assert!(arena.visit());
        let other = beside(&arena, |arena| arena.rights.give_back(&arena.pool));
        arena.rights.give_back(&arena.pool);
        let unmapped = arena.rights.unmap_idle(&arena.pool);
        other.join().unwrap();
        (unmapped, arena.settled())
    });
}

#[test]
fn a_slot_above_the_lower_limit_is_not_handed_out() {
    explore(Some(3), &["(false, (2, 0, 2))", "(true, (3, 0, 3))"], || {
        let arena = Arena::new(3, None);
        (0..2).for_each(|_| assert!(arena.reserve()));
        let user = beside(&arena, |arena| arena.reserve());
        arena.rights.give_back(&arena.pool);
        let served = user.join().unwrap();
        arena.rights.unreserve(2 + usize::from(served));
        (served, arena.settled())
    });
}

#[test]
fn who_finds_all_in_others_hands_is_refused() {
    explore(
        Some(3),
        &[
            "(false, false, (1, 0, 1))",
            "(false, true, (1, 0, 1))",
            "(true, false, (1, 0, 1))",
            "(true, true, (1, 0, 1))",
        ],
        || {
            let arena = idle(2, 2, 2);
            assert_eq!(arena.rights.unmap_idle(&arena.pool), 2);
            // The program has mapped something else meanwhile.
            arena.pool.at_once(|truth| truth.room = 1);
            let other = beside(&arena, Arena::visit);
            let served = arena.visit();
            (served, other.join().unwrap(), arena.settled())
        },
    );
}
