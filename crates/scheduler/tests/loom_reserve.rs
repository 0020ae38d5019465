//! All interleavings, within stated bounds, of reservations: exclusion in an element, no wake-up that is lost, and no
//! dead-lock.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, Watched, explore, explore_first};
use raddle_machine::Loom;
use raddle_scheduler::lock::{Barging, H1Mcs, Lock, Parking, Reservation, ReserveMap, Spinning, Waits, optimistic};
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

type Map<V> = ReserveMap<u32, V, Barging<Model>, Parking<Model>, BuildHasherDefault<DefaultHasher>>;

fn map<V>() -> Arc<Map<V>> {
    Arc::new(Map::with_parts(1, BuildHasherDefault::default()))
}

#[test]
fn an_element_is_had_by_one_at_a_time_and_waiters_are_woken() {
    explore(2, &["2"], || {
        let table = Arc::new((Lock::<(), H1Mcs<Loom>, Loom>::new(()), Reservation::<Loom>::new(), Watched::new()));
        let waits = Arc::new(Parking::<Model>::new());
        let turn = |table: &(Lock<(), H1Mcs<Loom>, Loom>, Reservation<Loom>, Watched), waits: &Parking<Model>| {
            let (lock, reservation, value) = table;
            // As the map does it: look under the lock, wait without it, search again.
            let mut covers = false;
            while !lock.with(|()| reservation.try_exclusive_covering(covers)) {
                if lock.with(|()| reservation.prepare::<Parking<Model>>()) {
                    reservation.wait(waits);
                    covers = true;
                }
            }
            let seen = value.add();
            reservation.end_exclusive(waits);
            seen
        };
        let other = thread::spawn({
            let (table, waits) = (table.clone(), waits.clone());
            move || turn(&table, &waits)
        });
        let mine = turn(&table, &waits);
        mine.max(other.join().unwrap())
    });
}

/// Who spins may miss it for ever, in loom; who tries ends.
#[test]
fn a_reservation_that_a_store_ends_shows_what_was_done() {
    let expected = ["(None, None)", "(None, Some(1))", "(Some(2), None)", "(Some(2), Some(1))", "(Some(2), Some(2))"];
    explore(3, &expected, || {
        let table =
            Arc::new((Lock::<(), H1Mcs<Loom>, Loom>::new(()), Reservation::<Loom>::exclusive(), Watched::new()));
        let alone = thread::spawn({
            let table = table.clone();
            move || {
                table.0.with(|()| table.1.try_exclusive()).then(|| {
                    let seen = table.2.add();
                    table.1.end_exclusive(&Spinning::<Loom>::new());
                    seen
                })
            }
        });
        let reader = thread::spawn({
            let table = table.clone();
            move || {
                table.0.with(|()| table.1.try_shared()).then(|| {
                    let seen = table.2.get();
                    table.1.end_shared(&Spinning::<Loom>::new());
                    seen
                })
            }
        });
        table.2.add();
        table.1.end_exclusive(&Spinning::<Loom>::new());
        (alone.join().unwrap(), reader.join().unwrap())
    });
}

#[test]
fn readers_share_and_a_writer_comes_after_them() {
    explore(1, &["(0, 1)", "(1, 0)", "(1, 1)"], || {
        let table = Arc::new((Lock::<(), H1Mcs<Loom>, Loom>::new(()), Reservation::<Loom>::new(), Watched::new()));
        let waits = Arc::new(Parking::<Model>::new());
        let reader = |table: &(Lock<(), H1Mcs<Loom>, Loom>, Reservation<Loom>, Watched), waits: &Parking<Model>| {
            let mut covers = false;
            while !table.0.with(|()| table.1.try_shared()) {
                if table.0.with(|()| table.1.prepare::<Parking<Model>>()) {
                    table.1.wait(waits);
                    covers = true;
                }
            }
            if covers {
                table.1.pass_on(waits);
            }
            let seen = table.2.get();
            table.1.end_shared(waits);
            seen
        };
        let readers = [(); 2].map(|()| {
            let (table, waits) = (table.clone(), waits.clone());
            thread::spawn(move || reader(&table, &waits))
        });
        let mut covers = false;
        while !table.0.with(|()| table.1.try_exclusive_covering(covers)) {
            if table.0.with(|()| table.1.prepare::<Parking<Model>>()) {
                table.1.wait(&*waits);
                covers = true;
            }
        }
        table.2.add();
        table.1.end_exclusive(&*waits);
        let [first, second] = readers.map(|reader| reader.join().unwrap());
        (first, second)
    });
}

#[test]
fn the_last_reader_wakes_a_writer() {
    explore(2, &["1"], || {
        let table = Arc::new((Lock::<(), H1Mcs<Loom>, Loom>::new(()), Reservation::<Loom>::new(), Watched::new()));
        let waits = Arc::new(Parking::<Model>::new());
        assert!(table.0.with(|()| table.1.try_shared()));
        let writer = thread::spawn({
            let (table, waits) = (table.clone(), waits.clone());
            move || {
                while !table.0.with(|()| table.1.try_exclusive()) {
                    if table.0.with(|()| table.1.prepare::<Parking<Model>>()) {
                        table.1.wait(&*waits);
                    }
                }
                table.2.add();
                table.1.end_exclusive(&*waits);
            }
        });
        assert_eq!(table.2.get(), 0);
        table.1.end_shared(&*waits);
        writer.join().unwrap();
        table.2.get()
    });
}

#[test]
fn a_map_s_element_is_kept_while_others_pass() {
    explore_first(Some(5_000), 1, &["(3, Some(7))"], || {
        let map = map::<u32>();
        map.insert(1, 0);
        let held = map.reserve(&1).unwrap();
        // Nobody ends the reservation before it has passed: a wait for it would be a dead-lock.
        let passer = thread::spawn({
            let map = map.clone();
            move || {
                map.insert(2, 7);
                map.get(&2)
            }
        });
        let passed = passer.join().unwrap();
        let other = thread::spawn({
            let map = map.clone();
            move || *map.reserve(&1).unwrap() += 1
        });
        let mut held = held;
        *held += 2;
        drop(held);
        other.join().unwrap();
        (map.get(&1).unwrap(), passed)
    });
}

#[test]
fn who_reads_reads_again_though_a_writer_waits() {
    // The writer waits for the first reading, whether it has come before the second one or not.
    explore_first(Some(5_000), 1, &["(0, 0, 1)"], || {
        let map = map::<u32>();
        map.insert(1, 0);
        let first = map.read(&1).unwrap();
        let writer = thread::spawn({
            let map = map.clone();
            move || *map.reserve(&1).unwrap() += 1
        });
        let again = map.read(&1).unwrap();
        let seen = *first;
        drop(first);
        let seen = (seen, *again);
        drop(again);
        writer.join().unwrap();
        (seen.0, seen.1, map.get(&1).unwrap())
    });
}

/// As a map does it: a thread that gave its reservation away is still named where that one reads.
#[test]
fn who_gave_its_reservation_to_another_thread_reads_beside_that_one_what_it_has_done() {
    explore(2, &["None", "Some(1)"], || {
        let table =
            Arc::new((Lock::<(), H1Mcs<Loom>, Loom>::new(()), Reservation::<Loom>::exclusive(), Watched::new()));
        let waits = Arc::new(Parking::<Model>::new());
        let changes = thread::spawn({
            let (table, waits) = (table.clone(), waits.clone());
            move || {
                table.2.add();
                table.1.downgrade(&*waits);
            }
        });
        let again = table.0.with(|()| table.1.try_shared_again());
        let seen = again.then(|| table.2.get());
        changes.join().unwrap();
        (0..1 + u32::from(again)).for_each(|_| table.1.end_shared(&*waits));
        seen
    });
}

#[test]
fn all_who_wait_have_their_turn_though_one_is_woken_at_a_time() {
    // Two writers wait, or a reader and a writer, or the element is taken out.
    for (reads, removes) in [(false, false), (true, false), (false, true)] {
        explore_first(Some(5_000), 2, &["true"], move || {
            // Leaked, so that a thread can have the reservation that comes after those who want it.
            let map: &'static Map<u32> = Box::leak(Box::new(Map::with_parts(1, BuildHasherDefault::default())));
            map.insert(1, 0);
            let held = map.reserve(&1).unwrap();
            let wants = [reads, false].map(|reads| {
                thread::spawn(move || match reads {
                    true => map.read(&1).is_some(),
                    false => map.reserve(&1).map(|mut value| *value += 1).is_some(),
                })
            });
            let end = thread::spawn(move || match removes {
                true => _ = map.remove_reserved(&1, held),
                false => drop(held),
            });
            end.join().unwrap();
            wants.map(|want| want.join().unwrap()) == [!removes; 2]
        });
    }
}

#[test]
fn many_wants_are_one_request() {
    explore_first(Some(5_000), 1, &["1"], || {
        let map = map::<u32>();
        let requests = Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let want = |map: &Map<u32>, requests: &loom::sync::atomic::AtomicU32| {
            let made = map.reserve_or_make(1, |_| {
                requests.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
                Ok::<_, ()>(5)
            });
            assert_eq!(*made.unwrap_or_else(|()| unreachable!()), 5);
        };
        let other = thread::spawn({
            let (map, requests) = (map.clone(), requests.clone());
            move || want(&map, &requests)
        });
        want(&map, &requests);
        other.join().unwrap();
        requests.load(loom::sync::atomic::Ordering::Relaxed)
    });
}

#[test]
fn three_clusters_that_need_each_other_s_elements_do_not_dead_lock() {
    // Each keeps its own element and needs the next one's: patient reservers would wait in a circle.
    explore_first(Some(3_000), 1, &["[2, 2, 2]"], || {
        let clusters = Arc::new([map::<u32>(), map::<u32>(), map::<u32>()]);
        clusters.iter().for_each(|map| _ = map.insert(0, 0));
        let run = |me: usize, clusters: &[Arc<Map<u32>>; 3]| {
            let (mut local, mut remote, _) = optimistic::<Model, _, _>(
                || clusters[me].reserve(&0).unwrap(),
                |_| Ok(clusters[(me + 1) % 3].try_reserve(&0)?.unwrap()),
            );
            *local += 1;
            *remote += 1;
        };
        let others = [1, 2].map(|me| {
            let clusters = clusters.clone();
            thread::spawn(move || run(me, &clusters))
        });
        run(0, &clusters);
        others.into_iter().for_each(|other| other.join().unwrap());
        clusters.each_ref().map(|map| map.get(&0).unwrap())
    });
}

#[test]
fn who_reserves_several_at_once_does_not_dead_lock() {
    explore_first(Some(5_000), 1, &["[2, 2]"], || {
        let map = map::<u32>();
        [0, 1].into_iter().for_each(|key| _ = map.insert(key, 0));
        let both = |map: &Map<u32>, keys: [u32; 2]| map.reserve_all(&keys).iter_mut().for_each(|value| **value += 1);
        let other = thread::spawn({
            let map = map.clone();
            move || both(&map, [0, 1])
        });
        both(&map, [1, 0]);
        other.join().unwrap();
        [0, 1].map(|key| map.get(&key).unwrap())
    });
}

#[test]
fn a_reservation_that_goes_on_as_a_reader_lets_readers_in_and_shows_them_what_was_done() {
    explore_first(None, 2, &["1"], || {
        let table =
            Arc::new((Lock::<(), H1Mcs<Loom>, Loom>::new(()), Reservation::<Loom>::exclusive(), Watched::new()));
        let waits = Arc::new(Parking::<Model>::new());
        let reader = thread::spawn({
            let (table, waits) = (table.clone(), waits.clone());
            move || {
                while !table.0.with(|()| table.1.try_shared()) {
                    if table.0.with(|()| table.1.prepare_shared::<Parking<Model>>()) {
                        table.1.wait_shared(&*waits);
                    }
                }
                let seen = table.2.get();
                table.1.end_shared(&*waits);
                seen
            }
        });
        table.2.add();
        table.1.downgrade(&*waits);
        // Kept until the other has read: it needs nobody's end.
        let seen = reader.join().unwrap();
        table.1.end_shared(&*waits);
        seen
    });
}
