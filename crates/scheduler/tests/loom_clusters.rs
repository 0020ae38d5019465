//! All interleavings, within stated bounds, of a map with replicas in three clusters: no dead-lock where each asks
//! the next, one request for many, and nobody reads what was there before a change.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Model, explore_first};
use raddle_scheduler::lock::{Barging, Change, Clustered, Clusters, Parking, Protocol, Seat, Ways};
use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

loom::thread_local! {
    static HERE: Cell<usize> = Cell::new(0);
}

/// Three clusters of one processor, or one thread after the other on it.
struct Three;

impl Clusters for Three {
    fn count(&self) -> usize {
        3
    }
    fn members(&self, _: usize) -> usize {
        1
    }
    fn here(&self) -> Seat {
        Seat { cluster: HERE.with(Cell::get), member: 0 }
    }
}

type Map = Clustered<u32, u32, Barging<Model>, Parking<Model>, Three, BuildHasherDefault<DefaultHasher>>;

fn map() -> Arc<Map> {
    Arc::new(Map::with_parts(Three, 1, BuildHasherDefault::default()))
}

/// A thread in that cluster.
fn at<T: 'static>(map: &Arc<Map>, cluster: usize, f: impl FnOnce(&Map) -> T + 'static) -> thread::JoinHandle<T> {
    let map = map.clone();
    thread::spawn(move || {
        go(cluster);
        f(&map)
    })
}

fn go(cluster: usize) {
    HERE.with(|here| here.set(cluster));
}

fn ways(protocol: Protocol, change: Change) -> Ways {
    Ways { protocol, change, ..Ways::default() }
}

#[test]
fn three_clusters_that_each_change_what_all_have_do_not_dead_lock() {
    for (protocol, change) in [
        (Protocol::Optimistic, Change::Broadcast),
        (Protocol::Optimistic, Change::Invalidate),
        (Protocol::Pessimistic, Change::Broadcast),
    ] {
        explore_first(Some(3_000), 1, &["Some(3)"], move || {
            let map = map();
            map.insert(0, 0);
            (0..3).for_each(|cluster| {
                go(cluster);
                assert_eq!(map.get(&0), Some(0));
            });
            let turn = move |map: &Map| map.update_by(ways(protocol, change), &0, |value| *value += 1).unwrap();
            let others = [1, 2].map(|cluster| at(&map, cluster, turn));
            go(0);
            turn(&map);
            others.into_iter().for_each(|other| other.join().unwrap());
            map.get(&0)
        });
    }
}

#[test]
fn a_reader_a_writer_and_a_mover_in_three_clusters_do_not_dead_lock() {
    explore_first(Some(4_000), 1, &["(Some(0), Some(1))", "(Some(1), Some(1))"], || {
        let map = map();
        map.insert(0, 0);
        let home = map.home(&0).unwrap();
        let [mover, writer] = [(home + 1) % 3, (home + 2) % 3];
        let moves = at(&map, mover, move |map| assert!(map.migrate(&0, mover)));
        let writes = at(&map, writer, |map| map.update(&0, |value| *value += 1).unwrap());
        go(home);
        let seen = map.get(&0);
        moves.join().unwrap();
        writes.join().unwrap();
        assert_eq!(map.home(&0), Some(mover));
        (seen, map.get(&0))
    });
}

#[test]
fn a_remover_meets_a_reader_and_a_writer() {
    // With one preemption a turn is not cut twice: what comes between is one of the two, or nothing.
    let expected = ["(None, None)", "(None, Some(()))", "(Some(0), None)"];
    explore_first(None, 1, &expected, || {
        let map = map();
        map.insert(0, 0);
        let home = map.home(&0).unwrap();
        let reads = at(&map, (home + 1) % 3, |map| map.get(&0));
        let writes = at(&map, (home + 2) % 3, |map| map.update(&0, |value| *value += 1));
        go(home);
        assert!(map.remove(&0).is_some());
        let seen = (reads.join().unwrap(), writes.join().unwrap());
        assert!((0..3).all(|cluster| {
            go(cluster);
            map.get(&0).is_none()
        }));
        seen
    });
}

#[test]
fn requests_of_a_cluster_are_combined_into_one() {
    explore_first(Some(5_000), 2, &["1"], || {
        let map = map();
        map.insert(0, 5);
        let away = (map.home(&0).unwrap() + 1) % 3;
        let other = at(&map, away, |map| map.get(&0));
        go(away);
        let mine = map.get(&0);
        assert_eq!((mine, other.join().unwrap()), (Some(5), Some(5)));
        map.stats().replicated
    });
}

#[test]
fn nobody_reads_what_was_there_before_a_change() {
    for change in [Change::Invalidate, Change::Broadcast] {
        explore_first(Some(5_000), 2, &["0", "1"], move || {
            let map = map();
            map.insert(0, 0);
            let home = map.home(&0).unwrap();
            let changed = Arc::new(loom::sync::atomic::AtomicU32::new(0));
            let told = changed.clone();
            let writes = at(&map, home, move |map| {
                map.update_by(ways(Protocol::Optimistic, change), &0, |value| *value = 1).unwrap();
                told.store(1, loom::sync::atomic::Ordering::SeqCst);
            });
            go((home + 1) % 3);
            let told = changed.load(loom::sync::atomic::Ordering::SeqCst);
            let seen = map.get(&0).unwrap();
            assert!(seen >= told, "an old value after the change");
            writes.join().unwrap();
            assert_eq!(map.get(&0), Some(1));
            seen
        });
    }
}

#[test]
fn who_keeps_a_replica_reads_again_in_another_cluster_though_a_change_waits() {
    // Seen from the home. A change has the home, and what it has taken before it meets what is kept.
    for (copy, keeps, goes) in [(false, 1, 0), (false, 2, 1), (false, 1, 2), (true, 1, 0), (true, 2, 1), (true, 1, 2)] {
        explore_first(Some(3_000), 1, &["(Some(0), Some(0), Some(1))"], move || {
            let map = map();
            map.insert(0, 0);
            let home = map.home(&0).unwrap();
            for cluster in [0, goes, keeps] {
                go((home + cluster) % 3);
                assert_eq!(map.get_here(&0), Some(0));
            }
            let (replica, here) = (map.read(&0).filter(|_| !copy), map.read_here(&0).filter(|_| copy));
            // The change may have begun anywhere, and waits for what is kept here.
            let by = ways(Protocol::Optimistic, Change::Broadcast);
            let writes = at(&map, home, move |map| map.update_by(by, &0, |value| *value = 1).unwrap());
            go((home + goes) % 3);
            let again = (map.get(&0), map.get_here(&0));
            drop((replica, here));
            writes.join().unwrap();
            (again.0, again.1, map.get(&0))
        });
    }
}

#[test]
fn what_is_held_in_one_cluster_is_not_removed_in_another() {
    let expected = ["(false, Ok(Some(0)))", "(true, Err(InUse))", "(true, Ok(Some(0)))"];
    explore_first(Some(5_000), 2, &expected, || {
        let map = map();
        map.insert(0, 0);
        let home = map.home(&0).unwrap();
        let holds = at(&map, (home + 1) % 3, |map| {
            let hold = map.hold(&0);
            // Held, it is there.
            assert_eq!(hold.is_some(), map.contains(&0));
            hold.is_some()
        });
        go(home);
        let removed = map.remove_unused(&0);
        (holds.join().unwrap(), removed)
    });
}

#[test]
fn who_removes_what_nobody_holds_sees_what_the_holder_did() {
    use loom_runtime::Watched;
    explore_first(Some(5_000), 2, &["0", "1"], || {
        let map = map();
        map.insert(0, 0);
        let home = map.home(&0).unwrap();
        go((home + 1) % 3);
        let (hold, done) = (map.hold(&0).unwrap(), Arc::new(Watched::new()));
        let holder = thread::spawn({
            let done = done.clone();
            move || {
                done.add();
                drop(hold);
            }
        });
        go(home);
        // Nothing but the end of the hold shows it.
        let seen = map.remove_unused(&0).map_or(0, |_| done.get());
        holder.join().unwrap();
        seen
    });
}

#[test]
fn nobody_reads_from_a_processor_s_copy_what_was_there_before_a_change() {
    for change in [Change::Invalidate, Change::Broadcast] {
        explore_first(Some(5_000), 2, &["0", "1"], move || {
            let map = map();
            map.insert(0, 0);
            let home = map.home(&0).unwrap();
            let away = (home + 1) % 3;
            for cluster in [home, away] {
                go(cluster);
                assert_eq!(map.get_here(&0), Some(0));
            }
            assert_eq!(map.stats().copied, 2);
            let changed = Arc::new(loom::sync::atomic::AtomicU32::new(0));
            let told = changed.clone();
            let writes = at(&map, home, move |map| {
                map.update_by(ways(Protocol::Optimistic, change), &0, |value| *value = 1).unwrap();
                told.store(1, loom::sync::atomic::Ordering::SeqCst);
            });
            go(away);
            let told = changed.load(loom::sync::atomic::Ordering::SeqCst);
            let seen = map.get_here(&0).unwrap();
            assert!(seen >= told, "an old value after the change");
            writes.join().unwrap();
            assert_eq!(map.get_here(&0), Some(1));
            go(home);
            assert_eq!(map.get_here(&0), Some(1));
            seen
        });
    }
}

#[test]
fn a_copy_that_is_made_while_its_element_goes_is_gone_too() {
    explore_first(Some(5_000), 2, &["None", "Some(0)"], || {
        let map = map();
        map.insert(0, 0);
        let home = map.home(&0).unwrap();
        let away = (home + 1) % 3;
        let reads = at(&map, away, |map| map.get_here(&0));
        go(home);
        assert_eq!(map.remove(&0), Some(0));
        let seen = reads.join().unwrap();
        go(away);
        assert_eq!(map.get_here(&0), None);
        seen
    });
}
