//! Maps of reserved and replicated elements, with keys, values and clusters that do what none should.

use crate::harness::{On, panics, pool, quiet};
use raddle::lock::{
    Change, Clustered, Clusters, Deferred, Lock, Order, Protocol, ReserveMap, Seat, TryMcs, Trying, Ways, optimistic,
};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static CHANCE: AtomicU64 = AtomicU64::new(1);

/// The same sequence in each run of one thread.
fn chance() -> u64 {
    CHANCE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
}

/// Whether two are the same, and what they hash to, changes from call to call.
#[derive(Clone, Debug)]
struct Fickle(#[allow(dead_code)] u32);

impl PartialEq for Fickle {
    fn eq(&self, _: &Self) -> bool {
        chance().is_multiple_of(3)
    }
}
impl Eq for Fickle {}
impl Hash for Fickle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(chance() % 4);
    }
}

/// It panics now and then when it is hashed, compared, copied or dropped.
#[derive(Debug)]
struct Brittle(u32);

thread_local! {
    static BREAKS: Cell<bool> = const { Cell::new(false) };
}

/// Not while a thread unwinds, which would end the process.
fn may_break() {
    if BREAKS.get() && !std::thread::panicking() && chance().is_multiple_of(7) {
        std::panic::panic_any(0u8);
    }
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        may_break();
        self.0 == other.0
    }
}
impl Eq for Brittle {}
impl Hash for Brittle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        may_break();
        state.write_u32(self.0);
    }
}
impl Clone for Brittle {
    fn clone(&self) -> Self {
        may_break();
        Self(self.0)
    }
}
impl Drop for Brittle {
    fn drop(&mut self) {
        may_break();
    }
}

/// Four clusters, or as many as it likes to say; callers are wherever they like, or far beyond.
struct Liar;

impl Clusters for Liar {
    fn count(&self) -> usize {
        1 + chance() as usize % 5
    }
    fn members(&self, _: usize) -> usize {
        1 + chance() as usize % 3
    }
    fn here(&self) -> Seat {
        Seat { cluster: chance() as usize, member: usize::MAX - chance() as usize % 2 }
    }
    fn carry<R>(&self, _: Seat, _: Seat, call: impl FnOnce() -> R) -> R {
        let result = call();
        may_break();
        raddle::yield_now();
        result
    }
}

case!(a_map_whose_keys_change_their_minds {
    quiet();
    let map: ReserveMap<Fickle, Vec<u32>> = ReserveMap::new();
    pool(2).run(|| {
        for round in 0..500 {
            panics(|| {
                map.insert(Fickle(round), vec![round; 8]);
                let _ = map.insert_new(Fickle(round), vec![round; 8]);
                if let Some(mut found) = map.reserve(&Fickle(round)) {
                    found.push(1);
                    if round % 2 == 0 {
                        drop(map.remove_reserved(&Fickle(round), found));
                    }
                }
                let _ = map.try_read(&Fickle(round)).map(|found| found.map(|found| found.len()));
                let _ = map.reserve_or_make(Fickle(round), |_| Err::<Vec<u32>, _>(())).is_ok();
                map.remove(&Fickle(round))
            });
        }
    });
});

case!(maps_whose_keys_and_values_panic_wherever_they_can {
    quiet();
    let map: Clustered<Brittle, Brittle, Liar> = Clustered::over(Liar);
    let plain: ReserveMap<Brittle, Brittle> = ReserveMap::new();
    pool(2).run(|| {
        for round in 0..400 {
            let key = || Brittle(round % 8);
            let all: [&dyn Fn(); 10] = [
                &|| _ = map.insert(key(), key()),
                &|| _ = map.get(&key()),
                &|| _ = map.read(&key()).map(|found| found.0),
                &|| _ = map.update(&key(), |value| value.0 += 1),
                &|| _ = map.remove(&key()),
                &|| _ = map.give_back(),
                &|| _ = map.get_from_home(&key()),
                &|| _ = plain.insert(key(), key()),
                &|| _ = plain.reserve_or_make(key(), |_| Ok::<_, ()>(key())).map(|found| found.downgrade().0),
                &|| _ = plain.remove(&key()),
            ];
            for one in all {
                BREAKS.set(true);
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(one));
                BREAKS.set(false);
                drop(result);
            }
        }
    });
    BREAKS.set(false);
});

case!(clusters_that_lie_under_load {
    let ways = |protocol, change, moves_after| Ways { protocol, change, moves_after };
    for ways in [
        ways(Protocol::Optimistic, Change::Invalidate, Some(1)),
        ways(Protocol::Pessimistic, Change::Broadcast, None),
        ways(Protocol::Optimistic, Change::Broadcast, Some(2)),
    ] {
        let map: Clustered<u32, Box<u32>, Liar> = Clustered::over(Liar).with_ways(ways);
        pool(2).run(|| {
            raddle::scope(|s| {
                for number in 0..4 {
                    let map = &map;
                    s.spawn(move || {
                        for round in 0..60 {
                            let key = (round + number) % 3;
                            map.insert(key, Box::new(round));
                            let _ = map.update(&key, |value| **value += 1);
                            let _ = map.read(&key).map(|value| **value);
                            if round % 5 == 0 {
                                let _ = map.remove(&key);
                            }
                            map.give_back();
                        }
                    });
                }
            });
        });
    }
});

case!(reservations_that_are_forgotten_outlive_nothing {
    let map: ReserveMap<u32, String> = ReserveMap::new();
    pool(1).run(|| {
        map.insert(1, "one".into());
        map.insert(2, "two".into());
        std::mem::forget(map.reserve(&1));
        std::mem::forget(map.read(&2));
        assert!(map.try_reserve(&1).is_err() && map.try_reserve(&2).is_err());
        assert_eq!(map.read(&2).map(|two| two.len()), Some(3));
    });
    let moved = Box::new(map);
    assert_eq!(moved.len(), 2);
});

case!(an_element_that_is_reserved_twice_by_one_thread, On::Lightweight, {
    quiet();
    let map: ReserveMap<u32, u32> = ReserveMap::new();
    pool(1).run(|| {
        map.insert(1, 1);
        let held = map.reserve(&1);
        assert!(panics(|| map.reserve(&1).is_some()));
        assert!(panics(|| map.reserve_or_make(1, |_| Ok::<_, ()>(2)).is_ok()));
        drop(held);
        assert_eq!(map.get(&1), Some(1));
    });
});

case!(a_wait_for_an_element_is_not_ended_by_a_cancellation, On::Lightweight, {
    let map: ReserveMap<u32, u32> = ReserveMap::new();
    let spread: Clustered<u32, u32> = Clustered::over(raddle::lock::Topology::machine());
    pool(2).run(|| {
        map.insert(1, 0);
        spread.insert(1, 0);
        let (held, read) = (map.reserve(&1), spread.read(&1));
        raddle::scope(|s| {
            let waits = (0..6).map(|number| {
                let (map, spread) = (&map, &spread);
                s.spawn(move || match number % 3 {
                    0 => map.reserve(&1).map(|mut value| *value += 1),
                    1 => map.insert(1, 7).map(drop),
                    _ => spread.update(&1, |value| *value += 1),
                })
            });
            let waits: Vec<_> = waits.collect();
            for _ in 0..20 {
                raddle::yield_now();
            }
            s.cancel();
            waits.iter().for_each(|wait| wait.cancel());
            for _ in 0..20 {
                raddle::yield_now();
            }
            assert_eq!((held.as_deref(), read.as_deref()), (Some(&0), Some(&0)), "nobody came in");
            drop((held, read));
            waits.into_iter().for_each(|wait| assert_eq!(wait.join().unwrap(), Some(())));
        });
        assert!(map.get(&1).is_some_and(|value| value >= 7));
        assert_eq!(spread.get(&1), Some(2));
    });
});

case!(a_reservation_that_outlives_its_thread_is_not_laid_to_the_next_one {
    let order = Arc::new(Order::new());
    let map = |class| -> &'static ReserveMap<u32, u32> { Box::leak(Box::new(ReserveMap::new().in_order(&order, class))) };
    let (first, second) = (map(1), map(2));
    first.insert(1, 1);
    second.insert(1, 1);
    pool(1).run(|| {
        // The taker's record becomes that of one of the readers.
        let kept = raddle::spawn(|| second.reserve(&1)).join().unwrap();
        let read = |_| raddle::spawn(|| (first.get(&1), second.get(&1)));
        let readers: Vec<_> = (0..32).map(read).collect();
        for _ in 0..32 {
            raddle::yield_now();
        }
        drop(kept);
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), (Some(1), Some(1))));
    });
});

case!(who_tries_again_and_again_lets_the_holder_run, On::Lightweight, {
    let (here, there): (ReserveMap<u32, u32>, ReserveMap<u32, u32>) = (ReserveMap::new(), ReserveMap::new());
    here.insert(1, 1);
    there.insert(1, 1);
    let held = AtomicU32::new(0);
    pool(1).run(|| {
        raddle::scope(|s| {
            s.spawn(|| {
                let kept = there.reserve(&1);
                held.store(1, Ordering::Relaxed);
                for _ in 0..20 {
                    raddle::yield_now();
                }
                drop(kept);
            });
            while held.load(Ordering::Relaxed) == 0 {
                raddle::yield_now();
            }
            let (_, _, retries) = optimistic(|| here.reserve(&1), |_| there.try_reserve(&1));
            // Each lets it run; hundreds without that, until the monitor has found out.
            assert!((1..=100).contains(&retries), "{retries}");
        });
    });
});

case!(many_elements_at_once {
    let map: ReserveMap<u32, ()> = ReserveMap::new();
    let keys: Vec<u32> = (0..300_000).collect();
    keys.iter().for_each(|key| _ = map.insert(*key, ()));
    // Those that are named twice count once.
    let all = map.reserve_all(keys.iter().chain(&keys[..1_000]));
    assert_eq!((all.len(), map.len()), (300_000, 300_000));
    assert!(map.try_read(&7).is_err());
});

case!(an_element_that_is_made_of_itself {
    quiet();
    let map: Arc<ReserveMap<u32, u32>> = Arc::new(ReserveMap::new());
    pool(2).run(|| {
        let made = map.reserve_or_make(1, |_| {
            // It is not there yet, and not to be had.
            assert!(map.try_read(&1).is_err());
            map.insert(2, 2);
            let other = map.clone();
            let maker = raddle::spawn(move || panics(|| other.reserve_or_make(3, |_| -> Result<u32, ()> { panic!("no") })));
            assert!(maker.join().unwrap());
            Ok::<_, ()>(10)
        });
        assert_eq!(made.map(|made| *made), Ok(10));
        assert!(map.read(&3).is_none());
    });
});

case!(work_that_is_left_and_panics_waits_and_leaves_more {
    quiet();
    let sum: Arc<Deferred<u32>> = Arc::new(Deferred::new(0, 1_000));
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..4u32 {
                let sum = &sum;
                s.spawn(move || {
                    for round in 0..50u32 {
                        let again = sum.clone();
                        let work = move |value: &mut u32| {
                            *value += 1;
                            if round % 3 == 0 {
                                assert!(!again.do_or_leave(|value| *value += 1).unwrap());
                            }
                            if (round + number) % 10 == 0 {
                                std::panic::panic_any(0u8);
                            }
                        };
                        panics(|| sum.do_or_leave(work).unwrap());
                    }
                });
            }
        });
    });
    let total = loop {
        let mut seen = 0;
        if !panics(|| seen = sum.with(|value| *value)) {
            break seen;
        }
    };
    assert_eq!(total, 4 * 50 + 4 * 17);
});

case!(work_that_is_left_and_panics_on_the_way_out_of_a_panic {
    quiet();
    let sum: Arc<Deferred<u32>> = Arc::new(Deferred::new(0, 1_000));
    let again = sum.clone();
    assert!(panics(|| sum.with(|_| {
        for _ in 0..3 {
            let work = |value: &mut u32| {
                *value += 1;
                std::panic::panic_any(0u8);
            };
            assert!(!again.do_or_leave(work).unwrap());
        }
        std::panic::panic_any(1u8);
    })));
    assert_eq!(sum.with(|value| *value), 3);
});

case!(tries_that_are_forgotten_dropped_late_and_made_twice {
    let lock: Lock<Vec<u32>, TryMcs> = Lock::new(vec![]);
    let mut tries: Vec<Trying> = (0..5).map(|_| Trying::new()).collect();
    {
        let (first, rest) = tries.split_first_mut().unwrap();
        let mut guard = lock.try_lock(first).unwrap();
        guard.push(1);
        assert!(rest.iter_mut().all(|trying| lock.try_lock(trying).is_none()));
        // They are in its queue: on another lock they fail, too.
        let other: Lock<u32, TryMcs> = Lock::new(0);
        assert!(rest.iter_mut().all(|trying| other.try_lock(trying).is_none()));
    }
    tries.truncate(2);
    let forgotten = lock.try_lock(&mut tries[0]).map(std::mem::forget);
    assert!(forgotten.is_some() && lock.try_lock(&mut tries[1]).is_none());
    tries.clear();
    let moved = Box::new(lock);
    assert_eq!(moved.into_inner(), [1]);
});

case!(maps_in_thread_local_storage_that_end_with_their_threads {
    struct Counts(u32);
    static DROPS: AtomicU32 = AtomicU32::new(0);
    impl Drop for Counts {
        fn drop(&mut self) {
            DROPS.fetch_add(self.0, Ordering::Relaxed);
            raddle::yield_now();
        }
    }
    thread_local! {
        static MAP: ReserveMap<u32, Counts> = ReserveMap::new();
    }
    let threads: Vec<_> = {
        let pool = pool(2);
        (0..6)
            .map(|_| {
                pool.spawn(|| {
                    MAP.with(|map| (0..3).for_each(|key| drop(map.insert(key, Counts(1)))));
                    raddle::yield_now();
                    MAP.with(|map| std::mem::forget(map.read(&1)));
                })
            })
            .collect()
    };
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // What was forgotten stays.
    assert_eq!(DROPS.load(Ordering::Relaxed), 6 * 2);
});
