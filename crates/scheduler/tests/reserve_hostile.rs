//! Maps of reserved and replicated elements, whose keys and values come back to the map that calls them, or panic, and
//! whose guards end elsewhere.

use raddle_scheduler::lock::{Barging, Clustered, Clusters, Parking, ReserveMap, Reserved, Seat};
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

type Map<K, V> = ReserveMap<K, V, Barging<KernelThreads>, Parking<KernelThreads>>;
type InClusters<K, V> = Clustered<K, V, Barging<KernelThreads>, Parking<KernelThreads>, Pair>;

thread_local! {
    static CLUSTER: Cell<usize> = const { Cell::new(0) };
    /// What a key does at its next comparison, and at its next but so many hash.
    static COMPARES: Cell<Option<fn()>> = const { Cell::new(None) };
    static HASHES_UNTIL_PANIC: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Two clusters of one.
struct Pair;

impl Clusters for Pair {
    fn count(&self) -> usize {
        2
    }
    fn members(&self, _: usize) -> usize {
        1
    }
    fn here(&self) -> Seat {
        Seat { cluster: CLUSTER.get(), member: 0 }
    }
}

#[derive(Clone, Eq)]
struct Key(u32);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        if let Some(call) = COMPARES.take() {
            call();
        }
        self.0 == other.0
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if let Some(left) = HASHES_UNTIL_PANIC.get() {
            HASHES_UNTIL_PANIC.set(left.checked_sub(1));
            assert!(left > 0, "hashed");
        }
        state.write_u32(self.0);
    }
}

fn told(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

static PLAIN: OnceLock<Map<Key, u32>> = OnceLock::new();
static SPREAD: OnceLock<InClusters<Key, u32>> = OnceLock::new();

#[test]
fn a_key_that_uses_the_map_while_it_is_compared_is_told_and_the_map_stays_whole() {
    let (plain, spread) = (PLAIN.get_or_init(Map::new), SPREAD.get_or_init(|| InClusters::over(Pair)));
    plain.insert(Key(1), 1);
    spread.insert(Key(1), 1);
    // A call, and what the key does within it.
    type Nested<'a> = (&'a dyn Fn(), fn());
    let calls: [Nested<'_>; 8] = [
        (&|| _ = plain.get(&Key(1)), || _ = PLAIN.get().unwrap().get(&Key(1))),
        (&|| _ = plain.insert(Key(1), 2), || _ = PLAIN.get().unwrap().remove(&Key(1))),
        (&|| _ = plain.remove(&Key(1)), || drop(PLAIN.get().unwrap().reserve(&Key(1)))),
        (&|| drop(plain.reserve_all(&[Key(1)])), || _ = PLAIN.get().unwrap().len()),
        (&|| _ = spread.get(&Key(1)), || _ = SPREAD.get().unwrap().get(&Key(1))),
        (&|| _ = spread.update(&Key(1), |_| ()), || _ = SPREAD.get().unwrap().insert(Key(1), 2)),
        (&|| _ = spread.remove(&Key(1)), || _ = SPREAD.get().unwrap().remove(&Key(1))),
        (&|| _ = spread.migrate(&Key(1), 0), || _ = SPREAD.get().unwrap().invalidate(&Key(1))),
    ];
    for cluster in 0..2 {
        CLUSTER.set(cluster);
        for (outer, inner) in calls {
            COMPARES.set(Some(inner));
            assert!(told(outer).contains("holds already"));
            assert_eq!((plain.get(&Key(1)), spread.get(&Key(1))), (Some(1), Some(1)));
        }
    }
    // From another thread nothing is in the way either.
    let both = std::thread::spawn(|| (PLAIN.get().unwrap().remove(&Key(1)), SPREAD.get().unwrap().remove(&Key(1))));
    assert_eq!(both.join().unwrap(), (Some(1), Some(1)));
}

#[test]
fn a_key_that_panics_while_others_wait_for_its_element_leaves_nobody_asleep() {
    let map = Arc::new(Map::<Key, u32>::new());
    map.insert(Key(1), 0);
    let held = map.reserve(&Key(1));
    let wants = [true, false, true].map(|panics| {
        let map = map.clone();
        std::thread::spawn(move || {
            if panics {
                // Not the search before the wait: the one after it.
                COMPARES.set(Some(|| COMPARES.set(Some(|| panic!("compared")))));
            }
            catch_unwind(AssertUnwindSafe(|| *map.reserve(&Key(1)).unwrap() += 1)).is_err()
        })
    });
    drop(held);
    // One that has not waited has not searched again, and comes through.
    let panicked = wants.map(|want| u32::from(want.join().unwrap()));
    assert_eq!(map.get(&Key(1)), Some(3 - panicked.iter().sum::<u32>()));
}

/// A value that looks into the map in which it was when it goes.
struct Nosy(&'static Map<Key, Nosy>);

static DROPS: AtomicU32 = AtomicU32::new(0);

impl Drop for Nosy {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::Relaxed);
        // The one part that there is.
        assert!(self.0.len() < 9 && self.0.try_read(&Key(2)).is_ok());
    }
}

#[test]
fn a_value_uses_the_map_when_it_goes_also_when_its_key_s_hash_panics_at_the_last_moment() {
    let map: &'static Map<Key, Nosy> = Box::leak(Box::new(Map::with_parts(1, std::hash::RandomState::new())));
    (0..4).for_each(|key| drop(map.insert(Key(key), Nosy(map))));
    drop(map.insert(Key(0), Nosy(map)));
    drop(map.remove(&Key(0)));
    let mut one = map.reserve(&Key(1)).unwrap();
    *one = Nosy(map);
    drop(map.remove_reserved(&Key(1), one));
    assert_eq!((map.len(), DROPS.load(Ordering::Relaxed)), (2, 4));
    // Each hash of an insertion, until one is not reached.
    let panics = |hashes| {
        HASHES_UNTIL_PANIC.set(Some(hashes));
        let panicked = catch_unwind(AssertUnwindSafe(|| drop(map.insert(Key(7), Nosy(map))))).is_err();
        HASHES_UNTIL_PANIC.set(None);
        drop(map.remove(&Key(7)));
        panicked
    };
    let last = (0..20).find(|hashes| !panics(*hashes)).expect("an insertion ends");
    assert!(last >= 3, "the place, the search and the insertion: {last}");
    assert_eq!(DROPS.load(Ordering::Relaxed), 4 + last + 1);
}

#[test]
fn elements_of_no_size_are_reserved_read_and_replicated() {
    let (plain, spread) = (Map::<(), ()>::new(), InClusters::<(), ()>::over(Pair));
    assert_eq!((plain.insert((), ()), plain.insert((), ()), plain.len()), (None, Some(()), 1));
    let held = plain.reserve(&());
    assert!(plain.try_read(&()).is_err_and(|busy| busy.by_caller));
    let read = held.map(Reserved::downgrade);
    assert!(plain.try_read(&()).is_ok_and(|again| again.is_some()));
    drop(read);
    assert_eq!(spread.insert((), ()), None);
    for cluster in 0..2 {
        CLUSTER.set(cluster);
        assert_eq!((spread.get(&()), spread.get_here(&()), spread.update(&(), |_| ())), (Some(()), Some(()), Some(())));
    }
    assert_eq!((plain.remove(&()), spread.remove(&()), spread.len()), (Some(()), Some(()), 0));
}

#[test]
fn who_dies_with_an_element_in_its_hand_or_gives_it_away_keeps_nobody_out() {
    let map = Arc::new(Map::<u32, u32>::new());
    let spread = Arc::new(InClusters::<u32, u32>::over(Pair));
    (0..2).for_each(|key| _ = (map.insert(key, 0), spread.insert(key, 0)));
    let (has, have) = mpsc::channel();
    let dies = {
        let (map, spread) = (map.clone(), spread.clone());
        std::thread::spawn(move || {
            let (_alone, _shared) = (map.reserve(&0), map.read(&1));
            CLUSTER.set(1);
            let _replicas = (spread.read(&0), spread.read_here(&1));
            has.send(()).unwrap();
            std::panic::panic_any(0_u8);
        })
    };
    have.recv().unwrap();
    for key in 0..2 {
        *map.reserve(&key).unwrap() += 1;
        spread.update(&key, |value| *value += 1).unwrap();
    }
    assert!(dies.join().is_err());
    // Given to another thread, it ends there, and the taker's name with it.
    let (given, read) = (map.reserve(&0), spread.read(&0));
    std::thread::scope(|scope| {
        let ends = scope.spawn(move || {
            *given.unwrap() += 1;
            read.map(|value| *value)
        });
        assert_eq!(ends.join().unwrap(), Some(1));
    });
    *map.reserve(&0).unwrap() += 1;
    spread.update(&0, |value| *value += 1).unwrap();
    assert_eq!((map.get(&0), spread.get(&0)), (Some(3), Some(2)));
}

/// A value of a map in clusters that looks into the map when a replica of it goes.
struct Spread {
    map: &'static InClusters<u32, Spread>,
    value: u32,
}

impl Clone for Spread {
    fn clone(&self) -> Self {
        Self { map: self.map, value: self.value }
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        // Another element than its own: in no lock, and in no lane.
        let other = self.map.read(&9).map(|other| other.value);
        assert!(other.is_none_or(|other| other == 9) && self.map.len() < 9);
    }
}

#[test]
fn a_replica_uses_the_map_when_it_goes() {
    let map: &'static InClusters<u32, Spread> = Box::leak(Box::new(InClusters::over(Pair)));
    let make = |value| Spread { map, value };
    map.insert(9, make(9));
    for key in 0..3 {
        map.insert(key, make(0));
        for cluster in [0, 1, 0] {
            CLUSTER.set(cluster);
            assert_eq!(map.read_here(&key).map(|found| found.value), Some(0));
            drop(map.read(&key));
            map.give_back();
            drop((map.read(&key), map.read_here(&key)));
        }
        map.update(&key, |value| *value = make(1)).unwrap();
        assert!(map.migrate(&key, 1) && map.invalidate(&key) && map.migrate(&key, 0));
        assert_eq!(map.insert(key, make(2)).map(|old| old.value), Some(1));
        assert_eq!(map.remove(&key).map(|old| old.value), Some(2));
    }
    assert_eq!(map.len(), 1);
}
