//! Maps whose keys, values and clusters panic: at each hash, comparison, copy, call and end in each operation, in turn.
//! What is left is a map: all clusters agree on what is there, and it can be changed, taken out and put back.

use raddle_scheduler::lock::{Barging, Change, Clustered, Clusters, Parking, Protocol, ReserveMap, Seat, Ways};
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

const CLUSTERS: usize = 3;

thread_local! {
    static CLUSTER: Cell<usize> = const { Cell::new(0) };
    /// So many calls of the user's until one panics.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Panics without a word.
fn called(what: &str) {
    if let Some(left) = LEFT.get().filter(|_| !std::thread::panicking()) {
        LEFT.set(left.checked_sub(1));
        if left == 0 {
            std::panic::resume_unwind(Box::new(String::from(what)));
        }
    }
}

struct Three;

impl Clusters for Three {
    fn count(&self) -> usize {
        CLUSTERS
    }
    fn members(&self, _: usize) -> usize {
        1
    }
    fn here(&self) -> Seat {
        Seat { cluster: CLUSTER.get(), member: 0 }
    }
    fn carry<R>(&self, _: Seat, _: Seat, call: impl FnOnce() -> R) -> R {
        called("carried there");
        let result = call();
        called("carried back");
        result
    }
}

struct Key(u32);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        called("compared");
        self.0 == other.0
    }
}
impl Eq for Key {}
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called("hashed");
        state.write_u32(self.0);
    }
}
impl Clone for Key {
    fn clone(&self) -> Self {
        called("key copied");
        Self(self.0)
    }
}

#[derive(Debug)]
struct Value(u32);

impl Clone for Value {
    fn clone(&self) -> Self {
        called("value copied");
        Self(self.0)
    }
}
impl Drop for Value {
    fn drop(&mut self) {
        called("value dropped");
    }
}

/// The same in each run.
type Hashes = BuildHasherDefault<DefaultHasher>;
type Map = Clustered<Key, Value, Barging<KernelThreads>, Parking<KernelThreads>, Three, Hashes>;
type Plain = ReserveMap<Key, Value, Barging<KernelThreads>, Parking<KernelThreads>, Hashes>;

fn new() -> Map {
    Map::with_parts(Three, 2, Hashes::default())
}

fn at<T>(cluster: usize, f: impl FnOnce() -> T) -> T {
    let before = CLUSTER.replace(cluster);
    let result = f();
    CLUSTER.set(before);
    result
}

/// What all clusters say of a key, which is the same.
fn agreed(map: &Map, key: &Key, after: &str) -> Option<u32> {
    let each = |cluster| {
        at(cluster, || {
            let number = |value: Option<Value>| value.map(|value| value.0);
            let all = [number(map.get_from_home(key)), number(map.get(key)), number(map.get_here(key))];
            assert!(all.iter().all(|one| *one == all[0]), "{after}: {all:?} in cluster {cluster}");
            assert_eq!(map.home(key).is_some(), all[0].is_some(), "{after}");
            all[0]
        })
    };
    let all = [0, 1, 2].map(each);
    assert!(all.iter().all(|one| *one == all[0]), "{after}: {all:?}");
    let mut seen = 0;
    map.for_each(|_, _| seen += 1);
    assert_eq!((map.len(), seen), (all[0].iter().count(), all[0].iter().count()), "{after}: how many");
    all[0]
}

/// It is a map still.
fn is_whole(map: &Map, key: u32, after: &str) {
    let key = Key(key);
    let there = agreed(map, &key, after);
    for (turn, cluster) in [0, 1, 2, 0].into_iter().enumerate() {
        let new = 100 + turn as u32;
        let changed = at(cluster, || map.update(&key, |value| std::mem::replace(&mut value.0, new)));
        assert_eq!(changed.is_some(), there.is_some(), "{after}");
        assert_eq!(agreed(map, &key, after), there.map(|_| new), "{after}");
        let moved = map.migrate(&key, cluster);
        assert_eq!((moved, map.home(&key)), (there.is_some(), there.map(|_| cluster)), "{after}");
        assert_eq!(agreed(map, &key, after), there.map(|_| new), "{after}");
    }
    assert_eq!(map.remove_unused(&key).map(|value| value.is_some()), Ok(there.is_some()), "{after}");
    assert_eq!(agreed(map, &key, after), None, "{after}");
    assert!(map.insert(Key(key.0), Value(7)).is_none(), "{after}");
    assert_eq!(agreed(map, &key, after), Some(7), "{after}");
    assert_eq!(map.remove(&key).map(|value| value.0), Some(7), "{after}");
    assert_eq!(agreed(map, &key, after), None, "{after}");
}

/// A key of each anchor: a new element's home.
fn keys() -> [u32; CLUSTERS] {
    let homed = |cluster: &usize, key: &u32| {
        let map = new();
        map.insert(Key(*key), Value(0));
        map.home(&Key(*key)) == Some(*cluster)
    };
    [0, 1, 2].map(|cluster| (0..).find(|key| homed(&cluster, key)).expect("keys end nowhere"))
}

/// An element as it may stand: at home where its key says or elsewhere, with replicas, and copies of processors.
fn prepared(map: &Map, key: u32, home: Option<usize>, replicas: bool) {
    map.insert(Key(key), Value(5));
    if let Some(home) = home {
        map.migrate(&Key(key), home);
    }
    for cluster in (0..CLUSTERS).filter(|_| replicas) {
        at(cluster, || drop((map.get(&Key(key)), map.get_here(&Key(key)))));
    }
}

/// Calls it with a panic at its first call of the user's, its second, and so on, until there is none so late. What
/// panicked, or None at the end.
fn each_call(mut round: impl FnMut(u32, &dyn Fn(&dyn Fn()) -> Option<String>) -> bool) {
    for calls in 0.. {
        let breaks = |operation: &dyn Fn()| {
            LEFT.set(Some(calls));
            let ended = catch_unwind(AssertUnwindSafe(operation));
            LEFT.set(None);
            ended.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
        };
        if !round(calls, &breaks) {
            return;
        }
    }
}

fn survives(name: &str, operation: &dyn Fn(&Map, u32)) {
    for key in keys() {
        for (home, replicas) in [(None, false), (None, true), (Some(0), false), (Some(1), true), (Some(2), true)] {
            for caller in 0..CLUSTERS {
                each_call(|calls, breaks| {
                    let map = new();
                    prepared(&map, key, home, replicas);
                    CLUSTER.set(caller);
                    let what = breaks(&|| operation(&map, key));
                    let after = format!("{name} of {key} ({home:?}, {replicas}) in {caller}: call {calls}, {what:?}");
                    is_whole(&map, key, &after);
                    what.is_some()
                });
            }
        }
    }
}

#[test]
fn a_map_in_clusters_survives_a_panic_at_each_call_of_its_users() {
    survives("get", &|map, key| drop(map.get(&Key(key))));
    survives("read_here", &|map, key| _ = map.read_here(&Key(key)).map(|value| value.0));
    survives("get_from_home", &|map, key| drop(map.get_from_home(&Key(key))));
    survives("hold", &|map, key| drop(map.hold(&Key(key))));
    survives("insert", &|map, key| drop(map.insert(Key(key), Value(6))));
    survives("give_back", &|map, _| _ = map.give_back());
    survives("invalidate", &|map, key| _ = map.invalidate(&Key(key)));
    survives("remove", &|map, key| drop(map.remove(&Key(key))));
    survives("remove_unused", &|map, key| drop(map.remove_unused(&Key(key))));
    survives("put back", &|map, key| {
        drop(map.remove(&Key(key)));
        drop(map.insert(Key(key), Value(8)));
    });
    for to in 0..CLUSTERS {
        survives("migrate", &move |map, key| _ = map.migrate(&Key(key), to));
    }
    for protocol in [Protocol::Optimistic, Protocol::Pessimistic] {
        for change in [Change::Invalidate, Change::Broadcast] {
            let ways = Ways { protocol, change, moves_after: Some(1) };
            survives("update", &move |map, key| _ = map.update_by(ways, &Key(key), |value| value.0 += 1));
        }
    }
}

fn plain_survives(name: &str, operation: &dyn Fn(&Plain)) {
    each_call(|calls, breaks| {
        let map = Plain::with_parts(2, Hashes::default());
        (0..4).for_each(|key| drop(map.insert(Key(key), Value(5))));
        let what = breaks(&|| operation(&map));
        let after = format!("{name}: call {calls}, {what:?}");
        let listed: Vec<u32> = map.keys().iter().map(|key| key.0).collect();
        assert_eq!(map.len(), listed.len(), "{after}");
        for key in 0..9 {
            let read = map.try_read(&Key(key)).map(|value| value.map(|value| value.0)).expect("nobody has it");
            let is_there = read.is_some();
            assert!(!is_there || listed.contains(&key), "{after}: {key}");
            assert_eq!(map.try_reserve(&Key(key)).map(|value| value.is_some()), Ok(is_there), "{after}: {key}");
            let made = map.reserve_or_make(Key(key), |_| Err(()));
            assert_eq!(made.map(|value| value.0).ok(), read, "{after}: {key}");
            assert_eq!(map.insert(Key(key), Value(9)).map(|value| value.0), read, "{after}: {key}");
            assert_eq!(map.remove(&Key(key)).map(|value| value.0), Some(9), "{after}: {key}");
        }
        assert!(map.is_empty(), "{after}");
        what.is_some()
    });
}

#[test]
fn a_map_of_reservations_survives_a_panic_at_each_call_of_its_users() {
    plain_survives("get", &|map| drop(map.get(&Key(1))));
    plain_survives("insert", &|map| drop(map.insert(Key(1), Value(6))));
    plain_survives("insert another", &|map| drop(map.insert(Key(7), Value(6))));
    plain_survives("insert many", &|map| (4..9).for_each(|key| drop(map.insert(Key(key), Value(6)))));
    plain_survives("insert new", &|map| drop(map.insert_new(Key(7), Value(6))));
    plain_survives("insert no new", &|map| drop(map.insert_new(Key(1), Value(6))));
    plain_survives("remove", &|map| drop(map.remove(&Key(1))));
    plain_survives("make", &|map| drop(map.reserve_or_make(Key(7), |key| Ok::<_, ()>(Value(key.clone().0)))));
    plain_survives("make in vain", &|map| drop(map.reserve_or_make(Key(7), |key| Err(key.clone()))));
    plain_survives("all", &|map| {
        map.reserve_all(&[Key(1), Key(3), Key(7), Key(1)]).iter_mut().for_each(|value| value.0 += 1)
    });
    plain_survives("each", &|map| map.for_each(|_, value| *value = Value(8)));
    plain_survives("goes on as a reader", &|map| drop(map.reserve(&Key(1)).map(|value| value.downgrade().clone())));
}
