//! The map with replicas in clusters, on kernel threads that are told where they are.

use raddle_scheduler::lock::{
    Barging, Change, Clustered, Clusters, InUse, Parking, Protocol, ReserveMap, Reserved, Seat, Ways,
};
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// So many clusters of two.
struct Pairs(usize);

thread_local!(static PROCESSOR: Cell<usize> = const { Cell::new(0) });

impl Clusters for Pairs {
    fn count(&self) -> usize {
        self.0
    }
    fn members(&self, _: usize) -> usize {
        2
    }
    fn here(&self) -> Seat {
        Seat { cluster: PROCESSOR.get() / 2, member: PROCESSOR.get() % 2 }
    }
}

/// Goes on in that cluster.
fn go(cluster: usize) {
    PROCESSOR.set(2 * cluster);
}

type Map<K, V> = Clustered<K, V, Barging<KernelThreads>, Parking<KernelThreads>, Pairs>;

fn map<V: Clone>() -> Map<u32, V> {
    Map::over(Pairs(3))
}

fn ways(protocol: Protocol, change: Change) -> Ways {
    Ways { protocol, change, ..Ways::default() }
}

const ALL: [(Protocol, Change); 4] = [
    (Protocol::Optimistic, Change::Invalidate),
    (Protocol::Optimistic, Change::Broadcast),
    (Protocol::Pessimistic, Change::Invalidate),
    (Protocol::Pessimistic, Change::Broadcast),
];

const EACH: u32 = if cfg!(miri) { 20 } else { 1_000 };

#[test]
fn it_is_a_map_from_each_cluster() {
    let map = map::<u32>();
    assert!(map.is_empty() && map.get(&1).is_none() && map.update(&1, |_| ()).is_none());
    for cluster in 0..3 {
        go(cluster);
        for key in 0..20 {
            let before = (cluster > 0).then(|| key + cluster as u32 - 1);
            assert_eq!(map.insert(key, key + cluster as u32), before);
        }
    }
    for cluster in 0..3 {
        go(cluster);
        assert!((0..20).all(|key| map.get(&key) == Some(key + 2) && map.get_from_home(&key) == Some(key + 2)));
        assert!(!map.contains(&20) && map.remove(&20).is_none() && !map.invalidate(&20) && !map.migrate(&20, 0));
        assert!(map.hold(&20).is_none() && map.home(&20).is_none());
    }
    let (mut keys, mut sum) = (0, 0);
    map.for_each(|key, value| (keys, sum) = (keys + key, sum + value));
    assert_eq!((map.len(), keys, sum), (20, 190, 230));
    go(1);
    assert!((0..20).all(|key| map.remove(&key) == Some(key + 2) && map.remove(&key).is_none()));
    assert!(map.is_empty() && (0..20).all(|key| map.get(&key).is_none()));
}

#[test]
fn what_is_read_everywhere_is_asked_for_once_in_each_cluster() {
    let map = map::<u32>();
    map.insert(7, 1);
    for _ in 0..3 {
        for processor in 0..6 {
            PROCESSOR.set(processor);
            assert_eq!(map.get(&7), Some(1));
        }
    }
    assert_eq!(map.stats().replicated, 2);
}

#[test]
fn a_change_reaches_all_clusters_in_all_ways() {
    for (protocol, change) in ALL {
        let map = map::<u32>();
        map.insert(7, 0);
        let home = map.home(&7).unwrap();
        for writer in 0..3 {
            for cluster in 0..3 {
                go(cluster);
                assert_eq!(map.get(&7), Some(writer as u32));
            }
            go(writer);
            let before = map.stats();
            assert_eq!(map.update_by(ways(protocol, change), &7, |value| *value += 1), Some(()));
            let after = map.stats();
            // The writer's own instance does not count with the optimist, who gives it the new value.
            let others = if protocol == Protocol::Optimistic && writer != home { 1 } else { 2 };
            let (invalidated, renewed) = (after.invalidated - before.invalidated, after.renewed - before.renewed);
            let expected = if change == Change::Broadcast { (0, others) } else { (others, 0) };
            assert_eq!((invalidated, renewed), expected, "{protocol:?}, {change:?}, from {writer}, home {home}");
        }
        let asked = map.stats().replicated;
        (0..3).for_each(|cluster| {
            go(cluster);
            assert_eq!(map.get(&7), Some(3));
        });
        if change == Change::Broadcast {
            assert_eq!(map.stats().replicated, asked, "all have been renewed");
        } else {
            assert!(map.stats().replicated > asked);
        }
    }
}

#[test]
fn a_change_goes_on_to_each_processor_s_copy() {
    for (protocol, change) in ALL {
        let map = map::<u32>();
        map.insert(7, 0);
        let read_everywhere = |expected| {
            for processor in 0..6 {
                PROCESSOR.set(processor);
                assert_eq!(map.get_here(&7), expected, "{protocol:?}, {change:?}, processor {processor}");
            }
        };
        read_everywhere(Some(0));
        // Copies are made once, and from the cluster's instance.
        read_everywhere(Some(0));
        assert_eq!((map.stats().copied, map.stats().replicated), (6, 2));
        for writer in 0..6 {
            PROCESSOR.set(writer);
            map.update_by(ways(protocol, change), &7, |value| *value += 1).unwrap();
            read_everywhere(Some(writer as u32 + 1));
        }
        let stats = map.stats();
        let expected = if change == Change::Broadcast { (6, 36) } else { (42, 0) };
        assert_eq!((stats.copied, stats.copies_renewed), expected, "{protocol:?}, {change:?}");
        // A move changes nothing; what is invalidated, given back or removed is gone for the processors, too.
        assert!((0..3).all(|cluster| map.migrate(&7, cluster)));
        read_everywhere(Some(6));
        assert!(map.invalidate(&7));
        read_everywhere(Some(6));
        go((map.home(&7).unwrap() + 1) % 3);
        let reading = map.read_here(&7);
        let given_back = map.give_back();
        assert_eq!((reading.as_deref(), given_back), (Some(&6), 0));
        drop(reading);
        map.give_back();
        read_everywhere(Some(6));
        assert_eq!(map.remove(&7), Some(6));
        read_everywhere(None);
        assert_eq!(map.insert(7, 9), None);
        read_everywhere(Some(9));
    }
}

#[test]
fn an_element_moves_and_is_found() {
    let map = map::<String>();
    map.insert(3, "a".into());
    let anchor = map.home(&3).unwrap();
    for to in [1, 2, 0, 0, 2, 1, anchor] {
        go((to + 1) % 3);
        assert!(map.migrate(&3, to));
        assert_eq!(map.home(&3), Some(to));
        for cluster in 0..3 {
            go(cluster);
            assert_eq!(map.get(&3).as_deref(), Some("a"));
            map.update(&3, |value| *value = format!("{cluster}")).unwrap();
            assert_eq!(map.get(&3), Some(cluster.to_string()));
            map.update_by(ways(Protocol::Pessimistic, Change::Broadcast), &3, |value| *value = "a".into()).unwrap();
        }
        assert_eq!((map.home(&3), map.len()), (Some(to), 1));
    }
    go(anchor);
    assert!(map.migrate(&3, (anchor + 1) % 3));
    go((anchor + 2) % 3);
    assert_eq!((map.remove(&3).as_deref(), map.get(&3), map.len()), (Some("a"), None, 0));
    assert!(catch_unwind(AssertUnwindSafe(|| map.migrate(&3, 3))).is_err());
}

#[test]
fn what_has_moved_is_changed_at_its_home_without_a_call() {
    for (protocol, change) in ALL {
        let map = map::<u32>().with_ways(ways(protocol, change));
        map.insert(3, 0);
        let anchor = map.home(&3).unwrap();
        let to = (anchor + 1) % 3;
        go(to);
        assert!(map.migrate(&3, to));
        // The old home has a replica, which goes with the first change.
        map.update_by(ways(protocol, Change::Invalidate), &3, |value| *value += 1).unwrap();
        let before = map.stats();
        (0..5).for_each(|_| map.update_by(ways(Protocol::Optimistic, change), &3, |value| *value += 1).unwrap());
        let after = map.stats();
        assert_eq!((after.calls, after.invalidated), (before.calls, before.invalidated), "{protocol:?}, {change:?}");
        // Who reads at the anchor again is told of the next change, as everybody is.
        go(anchor);
        assert_eq!(map.get(&3), Some(6));
        go(to);
        map.update(&3, |value| *value += 1).unwrap();
        go(anchor);
        assert_eq!((map.get(&3), map.home(&3)), (Some(7), Some(to)));
        assert_eq!((map.remove(&3), map.get(&3)), (Some(7), None));
    }
}

#[test]
fn what_one_cluster_writes_in_turn_moves_there() {
    for protocol in [Protocol::Optimistic, Protocol::Pessimistic] {
        let map = map::<u32>().with_ways(Ways { protocol, moves_after: Some(3), ..Ways::default() });
        map.insert(1, 0);
        let home = map.home(&1).unwrap();
        let (writer, reader) = ((home + 1) % 3, (home + 2) % 3);
        // As long as another one reads in between, it stays.
        for _ in 0..5 {
            go(reader);
            assert!(map.get(&1).is_some());
            go(writer);
            map.update(&1, |value| *value += 1).unwrap();
            assert_eq!(map.home(&1), Some(home));
        }
        (0..2).for_each(|_| map.update(&1, |value| *value += 1).unwrap());
        assert_eq!((map.home(&1), map.stats().moved), (Some(writer), 1));
        go(reader);
        assert_eq!(map.get(&1), Some(7));
    }
}

#[test]
fn what_is_held_anywhere_is_not_removed_as_unused() {
    let map = map::<u32>();
    map.insert(1, 5);
    let mut holds: Vec<_> = (0..3)
        .map(|cluster| {
            go(cluster);
            map.hold(&1).unwrap()
        })
        .collect();
    while let Some(hold) = holds.pop() {
        // Neither a change nor a move loses a count.
        map.update(&1, |value| *value += 1).unwrap();
        map.migrate(&1, holds.len());
        assert!(map.invalidate(&1));
        assert_eq!(map.remove_unused(&1), Err(InUse));
        drop(hold);
    }
    assert_eq!((map.remove_unused(&1), map.remove_unused(&1)), (Ok(Some(8)), Ok(None)));
    // One that was removed all the same is held for nothing.
    map.insert(1, 5);
    let hold = map.hold(&1);
    assert_eq!((map.remove(&1), map.insert(1, 6)), (Some(5), None));
    assert_eq!(map.remove_unused(&1), Ok(Some(6)));
    drop(hold);
    assert!(InUse.to_string().contains("held"));
}

#[test]
fn replicas_that_nobody_holds_are_given_back() {
    let map = map::<u32>();
    (0..30).for_each(|key| _ = map.insert(key, key));
    go(2);
    let sum: u32 = (0..30).map(|key| map.get(&key).unwrap()).sum();
    let (held, replicas) = (map.hold(&0), map.stats().replicated as usize);
    let own = usize::from(map.home(&0) == Some(2));
    assert_eq!((sum, map.give_back()), (435, replicas - 1 + own));
    drop(held);
    assert_eq!(map.give_back(), 1 - own);
    // The homes' notes are behind the times; changes and removals do not mind.
    go(0);
    assert!((0..30).all(|key| map.update(&key, |value| *value += 1).is_some()));
    assert!((0..30).all(|key| map.remove(&key) == Some(key + 1)));
}

#[test]
fn readers_keep_writers_of_all_clusters_out() {
    let map = &map::<u32>();
    map.insert(1, 0);
    let seen = &AtomicU32::new(0);
    std::thread::scope(|scope| {
        go(0);
        let replica = map.read(&1).unwrap();
        let writers: Vec<_> = (0..3)
            .map(|cluster| {
                scope.spawn(move || {
                    go(cluster);
                    map.update(&1, |value| {
                        *value += 1;
                        seen.fetch_add(1, Ordering::Relaxed);
                    })
                })
            })
            .collect();
        // Others are not in the way: the keeper itself, of another element.
        map.insert(2, 0);
        map.update(&2, |value| *value += 1).unwrap();
        assert_eq!((*replica, seen.load(Ordering::Relaxed)), (0, 0));
        drop(replica);
        writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
    });
    assert_eq!((map.get(&1), seen.load(Ordering::Relaxed)), (Some(3), 3));
}

#[test]
fn a_panic_in_a_change_leaves_no_replica_of_what_was() {
    for (protocol, change) in ALL {
        for writer in 0..3 {
            let map = map::<u32>();
            map.insert(1, 0);
            let read = |cluster| {
                go(cluster);
                assert_eq!(map.get(&1), map.get_here(&1));
                map.get_here(&1)
            };
            assert!((0..3).all(|cluster| read(cluster) == Some(0)));
            go(writer);
            let update = AssertUnwindSafe(|| {
                map.update_by(ways(protocol, change), &1, |value| {
                    *value = 1;
                    panic!("half way");
                })
            });
            assert!(catch_unwind(update).is_err());
            assert!((0..3).all(|cluster| read(cluster) == Some(1)), "{protocol:?}, {change:?}");
            assert_eq!(map.remove(&1), Some(1));
            assert!((0..3).all(|cluster| read(cluster).is_none()));
        }
    }
}

#[test]
fn who_changes_what_it_changes_already_is_told() {
    let map = map::<u32>();
    map.insert(1, 0);
    for cluster in 0..3 {
        go(cluster);
        let twice = AssertUnwindSafe(|| map.update(&1, |_| map.update(&1, |_| ())));
        let panic = catch_unwind(twice).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
    }
    assert_eq!(map.get(&1), Some(0));
}

#[test]
fn who_changes_what_it_reads_is_told_wherever_it_has_gone_since() {
    for (protocol, change) in ALL {
        let map = map::<u32>().with_ways(ways(protocol, change));
        map.insert(1, 0);
        for (reads, writes) in (0..3).flat_map(|reads| (0..3).map(move |writes| (reads, writes))) {
            go(reads);
            let replica = map.read(&1).unwrap();
            go(writes);
            let panic = catch_unwind(AssertUnwindSafe(|| map.update(&1, |value| *value = 7))).unwrap_err();
            assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
            assert_eq!(*replica, 0);
            drop(replica);
            (0..3).for_each(|cluster| {
                go(cluster);
                assert_eq!(map.get(&1), Some(0));
            });
        }
        assert_eq!((map.update(&1, |value| *value += 1), map.get(&1)), (Some(()), Some(1)));
    }
}

/// Three clusters of two, which count the calls to each.
#[derive(Default)]
struct Counting([AtomicU32; 3]);

impl Clusters for Counting {
    fn count(&self) -> usize {
        3
    }
    fn members(&self, _: usize) -> usize {
        2
    }
    fn here(&self) -> Seat {
        Pairs(3).here()
    }
    fn carry<R>(&self, _: Seat, to: Seat, call: impl FnOnce() -> R) -> R {
        let result = call();
        self.0[to.cluster].fetch_add(1, Ordering::SeqCst);
        result
    }
}

type Counted = Clustered<u32, u32, Barging<KernelThreads>, Parking<KernelThreads>, Arc<Counting>>;

/// What `f` does with a map of which the calling thread keeps an element, while a change waits for that: the
/// element's own instance in a cluster, or a processor's `copy`. And the cluster in which it is kept. Its home has
/// `moved` or not.
fn while_a_change_waits(by: Ways, copy: bool, moved: bool, f: impl FnOnce(&Counted, usize)) {
    let clusters = Arc::new(Counting::default());
    let map = &Counted::over(clusters.clone());
    go(0);
    map.insert(1, 4);
    let anchor = map.home(&1).unwrap();
    let home = (anchor + usize::from(moved)) % 3;
    assert!(map.migrate(&1, home));
    // The change comes to it last, when it has the other replica; or the anchor is elsewhere, where a pessimist would
    // wait with nothing in its hands.
    let keeps = if moved { 3 - anchor - home } else { 2 - home / 2 };
    for cluster in 0..3 {
        go(cluster);
        assert_eq!((map.get(&1), !copy || map.get_here(&1) == Some(4)), (Some(4), true));
    }
    go(keeps);
    let (replica, here) = (map.read(&1).filter(|_| !copy), map.read_here(&1).filter(|_| copy));
    let before = clusters.0[keeps].load(Ordering::SeqCst);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            go(home);
            map.update_by(by, &1, |value| *value = 5)
        });
        // The first call finds the instance reserved, or the second one the copy.
        while clusters.0[keeps].load(Ordering::SeqCst) < before + 1 + u32::from(copy) {
            std::thread::yield_now();
        }
        f(map, keeps);
        drop((replica, here));
        assert_eq!(change.join().unwrap(), Some(()));
    });
    assert_eq!(map.get(&1), Some(5));
}

#[test]
fn who_keeps_an_element_reads_it_again_in_any_cluster_though_a_change_waits() {
    for (protocol, change) in ALL {
        for (copy, moved) in [(false, false), (false, true), (true, false), (true, true)] {
            while_a_change_waits(ways(protocol, change), copy, moved, |map, keeps| {
                for processor in 0..6 {
                    PROCESSOR.set(processor);
                    let reads = [map.get(&1), map.get_here(&1), map.get_from_home(&1)];
                    assert_eq!(reads, [Some(4); 3], "on processor {processor}");
                    let (first, second) = (map.read(&1), map.read_here(&1));
                    assert_eq!((first.map(|it| *it), second.map(|it| *it)), (Some(4), Some(4)));
                    let mut seen = 0;
                    map.for_each(|_, value| seen += value);
                    assert_eq!((seen, map.contains(&1), map.give_back()), (4, true, 0));
                    if !copy {
                        assert!(map.hold(&1).is_some());
                    }
                }
                go(keeps);
            });
        }
    }
}

#[test]
fn who_keeps_an_element_and_changes_it_in_any_cluster_while_a_change_waits_is_told() {
    type Call = fn(&Counted);
    let calls: [Call; 8] = [
        |map| _ = map.home(&1),
        |map| _ = map.update(&1, |value| *value = 7),
        |map| _ = map.update_by(ways(Protocol::Pessimistic, Change::Broadcast), &1, |value| *value = 7),
        |map| _ = map.insert(1, 7),
        |map| _ = map.remove(&1),
        |map| _ = map.remove_unused(&1),
        |map| _ = map.invalidate(&1),
        |map| _ = (0..3).map(|to| map.migrate(&1, to)).collect::<Vec<_>>(),
    ];
    for (protocol, change) in ALL {
        for (copy, moved) in [(false, false), (false, true), (true, false), (true, true)] {
            while_a_change_waits(ways(protocol, change), copy, moved, |map, _| {
                for processor in 0..6 {
                    PROCESSOR.set(processor);
                    // Where the anchor has not been taken yet there is an instance to count in.
                    let of_copies: Option<Call> = (copy && !moved).then_some(|map| _ = map.hold(&1));
                    for call in calls.into_iter().chain(of_copies) {
                        let panic = catch_unwind(AssertUnwindSafe(|| call(map))).unwrap_err();
                        let told = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref().map(String::as_str));
                        assert!(told.unwrap().contains("holds already"), "on processor {processor}");
                    }
                }
            });
        }
    }
}

/// A value whose copy panics when it is told to.
struct Fragile(u32);

thread_local!(static BREAK: Cell<bool> = const { Cell::new(false) });

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!BREAK.get(), "copied");
        Self(self.0)
    }
}

#[test]
fn a_panic_while_a_value_is_copied_leaves_the_map_whole() {
    let map = map::<Fragile>();
    map.insert(1, Fragile(4));
    let away = (map.home(&1).unwrap() + 1) % 3;
    go(away);
    BREAK.set(true);
    assert!(catch_unwind(AssertUnwindSafe(|| map.read(&1).is_some())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| map.migrate(&1, away))).is_err());
    BREAK.set(false);
    assert!(map.read(&1).is_some_and(|value| value.0 == 4));
    assert!(map.remove(&1).is_some_and(|value| value.0 == 4));
    assert!(map.read(&1).is_none());
}

#[test]
fn kernel_threads_of_all_clusters_count_in_few_elements() {
    let map = &map::<u32>().with_ways(Ways { moves_after: Some(4), ..Ways::default() });
    (0..3).for_each(|key| _ = map.insert(key, 0));
    let sum = &AtomicU32::new(0);
    std::thread::scope(|scope| {
        for processor in 0..6 {
            scope.spawn(move || {
                PROCESSOR.set(processor);
                for turn in 0..EACH {
                    let key = (turn + processor as u32) % 3;
                    let (protocol, change) = ALL[(turn / 3) as usize % 4];
                    match (turn + processor as u32) % 7 {
                        0 | 1 => {
                            if map.update_by(ways(protocol, change), &key, |value| *value += 1).is_some() {
                                sum.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        2 => _ = map.migrate(&key, turn as usize % 3),
                        3 => _ = map.hold(&key),
                        4 => _ = map.give_back(),
                        // Taken out and put in again: no count is lost.
                        5 if turn % 5 == 0 => {
                            if let Some(value) = map.remove(&key) {
                                let lost = map.insert(key, value);
                                sum.fetch_sub(lost.unwrap_or(0), Ordering::Relaxed);
                            }
                        }
                        _ => {
                            let before = if turn % 2 == 0 { map.get(&key) } else { map.get_here(&key) };
                            assert!(before.is_none_or(|before| before <= 6 * EACH));
                        }
                    }
                }
            });
        }
    });
    let mut all = 0;
    map.for_each(|_, value| all += value);
    assert_eq!(all, sum.load(Ordering::Relaxed));
    assert!(map.len() <= 3);
}

#[test]
fn a_reservation_goes_on_as_a_reader() {
    let map = ReserveMap::<u32, u32, Barging<KernelThreads>, Parking<KernelThreads>>::new();
    assert!(map.insert_new(1, 1).is_ok());
    assert_eq!(map.insert_new(1, 2), Err((1, 2)));
    let reading = map.reserve(&1).map(Reserved::downgrade).unwrap();
    assert!(map.try_reserve(&1).is_err());
    assert_eq!((map.get(&1), *reading, map.keys()), (Some(1), 1, vec![1]));
    drop(reading);
    assert!(map.try_reserve(&1).is_ok());
}
