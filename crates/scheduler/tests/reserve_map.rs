//! The map with reservations on kernel threads.

use raddle_machine::Real;
use raddle_scheduler::lock::{Barging, Busy, H1Mcs, Order, Parking, ReserveMap, Reserved, Spinning, Waits, optimistic};
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

type Map<K, V> = ReserveMap<K, V, Barging<KernelThreads>, Parking<KernelThreads>>;

const EACH: u64 = if cfg!(miri) { 20 } else { 2_000 };

#[test]
fn it_is_a_map() {
    let map = Map::<String, u32>::new();
    assert!(map.is_empty() && map.reserve(&"a".into()).is_none());
    assert_eq!(map.insert("a".into(), 1), None);
    assert_eq!(map.insert("a".into(), 2), Some(1));
    assert_eq!((map.get(&"a".into()), map.get(&"b".into())), (Some(2), None));
    let a = map.reserve(&"a".into()).unwrap();
    map.insert("b".into(), 3);
    assert!(map.try_read(&"a".into()).is_err());
    // The element of another key is not taken out.
    assert_eq!(map.remove_reserved(&"b".into(), a), None);
    assert_eq!(map.len(), 2);
    let mut sum = 0;
    map.for_each(|_, value| sum += *value);
    assert_eq!(sum, 5);
    assert_eq!((map.remove(&"a".into()), map.remove(&"a".into()), map.len()), (Some(2), None, 1));
}

#[test]
fn kernel_threads_count_in_few_elements() {
    let map = Arc::new(Map::<u64, u64>::new());
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let map = map.clone();
            std::thread::spawn(move || {
                for turn in 0..EACH {
                    let keys = [turn % 3, (turn + thread) % 3];
                    match turn % 4 {
                        0 => map.reserve_all(&keys[..1]).iter_mut().for_each(|value| **value += 1),
                        1 => *map.reserve_or_make(keys[1], |_| Ok::<_, ()>(0)).unwrap_or_else(|()| unreachable!()) += 1,
                        2 => _ = map.read(&keys[0]).map(|value| *value),
                        _ => _ = map.reserve_all(&keys),
                    }
                }
            })
        })
        .collect();
    (0..3).for_each(|key| _ = map.reserve_or_make(key, |_| Ok::<_, ()>(0)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut sum = 0;
    map.for_each(|_, value| sum += *value);
    // At the beginning an element may have been absent, which the first kind of turn leaves out.
    assert!((EACH..=2 * EACH).contains(&sum), "{sum}");
}

#[test]
fn one_that_is_not_made_is_not_there_and_waiters_make_it() {
    let map = Map::<u32, u32>::new();
    assert_eq!(map.reserve_or_make(1, |_| Err("no")).err(), Some("no"));
    let panics = AssertUnwindSafe(|| map.reserve_or_make(1, |_| -> Result<u32, ()> { panic!("made") }).is_ok());
    assert!(catch_unwind(panics).is_err());
    assert!(map.is_empty());
    let made = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let wants: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let make = |_: &u32| Ok::<_, ()>(made.fetch_add(1, Ordering::Relaxed));
                    drop(map.reserve_or_make(1, make));
                })
            })
            .collect();
        wants.into_iter().for_each(|want| want.join().unwrap());
    });
    assert_eq!((made.into_inner(), map.get(&1)), (1, Some(0)));
}

#[test]
fn a_thread_that_would_wait_for_itself_is_told() {
    let map = Map::<u32, u32>::new();
    map.insert(1, 1);
    let held = map.reserve(&1);
    let panic = catch_unwind(AssertUnwindSafe(|| map.reserve(&1).is_some())).unwrap_err();
    assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
    drop(held);
    assert_eq!(map.get(&1), Some(1));
}

#[test]
fn a_thread_that_would_wait_for_itself_as_a_reader_is_told() {
    let map = Map::<u32, u32>::new();
    (1..3).for_each(|key| _ = map.insert(key, 1));
    let told = |wait: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(wait)).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
    };
    let read = map.read(&1).unwrap();
    told(&|| drop(map.reserve(&1)));
    told(&|| _ = map.insert(1, 2));
    told(&|| _ = map.remove(&1));
    told(&|| drop(map.reserve_all(&[2, 1])));
    told(&|| map.for_each(|_, value| *value += 1));
    // To look, and to use others, is allowed, and who waited in vain has nothing.
    assert!(map.try_reserve(&1).is_err() && map.insert(3, 3).is_none() && *read == 1);
    drop(read);
    // One that goes on as a reader reads; a reader that has gone is not in its own way.
    let reads = map.reserve(&1).unwrap().downgrade();
    told(&|| drop(map.reserve(&1)));
    drop(reads);
    let (first, second) = (map.read(&1), map.read(&1));
    drop(first);
    drop(second);
    assert_eq!((map.insert(1, 5), map.remove(&1)), (Some(1), Some(5)));
}

#[test]
fn each_of_many_readers_is_told_that_it_would_wait_for_itself() {
    let map = Map::<u32, u32>::new();
    map.insert(1, 1);
    let told = || {
        let panic = catch_unwind(AssertUnwindSafe(|| drop(map.reserve(&1)))).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
    };
    // More than there is room for in the element, all at the same time.
    const READERS: usize = if cfg!(miri) { 12 } else { 60 };
    let all = Barrier::new(READERS);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let read = map.read(&1).unwrap();
                    all.wait();
                    told();
                    // Whom a writer's mark keeps out comes in again, since it is in already.
                    assert_eq!((map.get(&1), *read), (Some(1), 1));
                    all.wait();
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    // Of two of its own, the end of one leaves the other.
    for first_goes in [true, false] {
        let mut reads = [map.read(&1), map.read(&1)];
        reads[usize::from(!first_goes)] = None;
        told();
    }
    assert_eq!(map.insert(1, 2), Some(1));
}

type Told = ReserveMap<u32, u32, H1Mcs<Real>, Tells>;
thread_local! {
    static HELD: RefCell<Vec<Reserved<'static, u32, Tells>>> = const { RefCell::new(Vec::new()) };
    static WAITED_FOR: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Who waits notes for what, and lets all go that is held.
struct Tells;

impl Waits for Tells {
    type Machine = Real;
    const MARKS: bool = false;
    fn new() -> Self {
        Self
    }
    fn wait(&self, address: usize, _: impl Fn() -> bool) {
        WAITED_FOR.with_borrow_mut(|seen| seen.push(address));
        drop(HELD.take());
    }
    fn wake(&self, _: usize, _: usize) {}
    fn me() -> usize {
        0
    }
}

#[test]
fn those_who_want_several_try_them_in_one_order_whichever_they_name() {
    let map: &'static Told = Box::leak(Box::new(Told::new()));
    (0..8).for_each(|key| _ = map.insert(key, key));
    for keys in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        HELD.set(map.reserve_all(&[0, 1, 2]));
        let all = map.reserve_all(&keys);
        assert!(all.iter().map(|element| **element).eq(keys));
    }
    // All were held by somebody each time, and the first one was waited for.
    let seen = WAITED_FOR.take();
    assert_eq!((seen.len(), seen.iter().all(|address| *address == seen[0])), (3, true));
}

#[test]
fn the_optimistic_protocol_retries_and_gives_up_what_it_had() {
    let (here, there) = (
        ReserveMap::<u32, u32, H1Mcs<Real>, Spinning<Real>>::new(),
        ReserveMap::<u32, u32, H1Mcs<Real>, Spinning<Real>>::new(),
    );
    here.insert(1, 0);
    there.insert(1, 0);
    let mut blocker = there.reserve(&1);
    let (mut local, mut remote, retries) = optimistic::<KernelThreads, _, _>(
        || here.try_reserve(&1).expect("given up before each retry").unwrap(),
        |_| match there.try_reserve(&1) {
            Err(Busy { .. }) => {
                blocker = None;
                Err(Busy::default())
            }
            found => Ok(found?.unwrap()),
        },
    );
    *local += 1;
    *remote += 1;
    assert_eq!(retries, 1);
}

#[test]
fn who_tries_what_it_holds_itself_is_told_and_gives_up_what_it_had() {
    let (here, there) = (Map::<u32, u32>::new(), Map::<u32, u32>::new());
    (0..2).for_each(|key| _ = (here.insert(key, 0), there.insert(key, 0)));
    type Try = fn(&Map<u32, u32>) -> Result<(), Busy>;
    let (reserves, reads): (Try, Try) = (|map| map.try_reserve(&1).map(drop), |map| map.try_read(&1).map(drop));
    let told = |remote: Try, at: &Map<u32, u32>| {
        let both = || optimistic::<KernelThreads, _, _>(|| here.reserve(&0).unwrap(), |_| remote(at));
        let panic = catch_unwind(AssertUnwindSafe(|| drop(both()))).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
        assert!(here.try_reserve(&0).is_ok(), "what was reserved here has been given up");
    };
    let reserved = there.reserve(&1);
    told(reserves, &there);
    told(reads, &there);
    // Others know as well that it is not theirs.
    let mut by_others = None;
    std::thread::scope(|scope| by_others = scope.spawn(|| reserves(&there)).join().ok());
    assert_eq!(by_others, Some(Err(Busy { by_caller: false })));
    drop(reserved);
    let read = there.read(&1);
    told(reserves, &there);
    assert_eq!(reads(&there), Ok(()), "a reader reads again");
    drop(read);
    // What it has reserved here just now is no better.
    let panic = catch_unwind(AssertUnwindSafe(|| {
        drop(optimistic::<KernelThreads, _, _>(|| here.reserve(&1).unwrap(), |_| reserves(&here)));
    }));
    assert!(panic.is_err() && reserves(&here).is_ok() && reserves(&there).is_ok());
}

#[test]
#[cfg(debug_assertions)]
fn who_waits_against_the_order_of_the_classes_is_told_though_nobody_is_in_the_way() {
    let order = Arc::new(Order::new());
    let (programs, pages) = (Map::<u32, u32>::new().in_order(&order, 1), Map::<u32, u32>::new().in_order(&order, 2));
    (0..3).for_each(|key| _ = (programs.insert(key, 0), pages.insert(key, 0)));
    let refused = |wait: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(wait)).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("while it holds one of class 2"));
    };
    let page = pages.reserve(&0);
    refused(&|| drop(programs.reserve(&0)));
    refused(&|| drop(programs.read(&0)));
    refused(&|| _ = programs.insert(4, 0));
    refused(&|| drop(programs.reserve_all([&0, &1])));
    // Another one of its own class is no better, and a reader holds it, too.
    refused(&|| drop(pages.reserve(&1)));
    let page = page.map(|page| page.downgrade());
    refused(&|| drop(programs.reserve(&0)));
    // To try is allowed, and counts; and other threads hold nothing.
    let tried = programs.try_reserve(&0).unwrap();
    std::thread::scope(|scope| assert!(scope.spawn(|| programs.reserve(&1).is_some()).join().unwrap()));
    drop(page);
    // In order, and again when all has been given back: also on another thread.
    let pages_too = pages.reserve_all([&0, &1]);
    std::thread::scope(|scope| _ = scope.spawn(move || drop(pages_too)).join());
    drop(tried);
    drop((programs.reserve(&0), pages.reserve(&0)));
    assert_eq!(programs.len(), 3);
}
