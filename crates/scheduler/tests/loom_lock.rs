//! All interleavings, within stated bounds, of the locks that spin: exclusion, who comes first, and that all of them
//! get in.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::locks::{excludes_three, excludes_twice, excludes_twice_by};
use loom_runtime::{Watched, explore, explore_first};
use raddle_machine::Loom;
use raddle_scheduler::lock::{
    Algorithm, Cna, H1Mcs, H2Mcs, Hemlock, Lock, Mcs, OwnCluster, Place, Reciprocating, Spin, SpinThenQueue, SwapH1Mcs,
    SwapH2Mcs, SwapMcs, TryMcs,
};
use std::cell::Cell;
use std::sync::Arc;

/// One comes while the lock is held, the other after the first is seen to wait: who is served first?
fn serves<A: Algorithm<Loom> + 'static>(orders: &'static [&'static str], places: fn(usize) -> Place<A, Loom>) {
    serves_within(2, orders, places);
}

fn serves_within<A: Algorithm<Loom> + 'static>(
    preemptions: usize,
    orders: &'static [&'static str],
    places: fn(usize) -> Place<A, Loom>,
) {
    explore_first(Some(20_000), preemptions, orders, move || {
        let lock = Arc::new(Lock::<Vec<u32>, A, Loom>::new(Vec::new()));
        let guard = lock.lock(places(0));
        let comes = |number: usize| {
            let lock = lock.clone();
            thread::spawn(move || lock.lock(places(number)).push(number as u32))
        };
        let first = comes(1);
        while !guard.is_awaited() {
            thread::yield_now();
        }
        let second = comes(2);
        drop(guard);
        first.join().unwrap();
        second.join().unwrap();
        lock.lock(places(0)).clone()
    });
}

const IN_ORDER: &[&str] = &["[1, 2]"];
const IN_ANY: &[&str] = &["[1, 2]", "[2, 1]"];

#[test]
fn spin_locks_exclude() {
    // By swaps alone: where a lock is freed by a store, loom lets a waiter miss it for ever.
    excludes_twice_by::<Spin<Loom, false, true>>(|| Spin::with_caps(1, 1));
}

/// Those who wait in such a lock may miss the store for ever, in loom; those who try a few times end, some in vain.
#[test]
fn spin_locks_that_a_store_frees_exclude_those_who_try() {
    tries_exclude::<true>();
    tries_exclude::<false>();
}

fn tries_exclude<const TEST: bool>() {
    explore(3, &["1", "2", "3", "4"], || {
        let lock = Arc::new(Lock::<Watched, Spin<Loom, TEST>, Loom>::new(Watched::new()));
        let twice = |lock: &Lock<Watched, Spin<Loom, TEST>, Loom>| {
            (0..2).filter(|_| lock.try_with(|value| value.add()).is_some()).count()
        };
        let other = thread::spawn({
            let lock = lock.clone();
            move || twice(&lock)
        });
        let mine = twice(&lock);
        let all = mine + other.join().unwrap();
        let lock = Arc::into_inner(lock).unwrap_or_else(|| unreachable!("the other has ended"));
        assert_eq!(lock.into_inner().get() as usize, all);
        all
    });
}

#[test]
fn a_few_tries_and_then_a_queue_exclude() {
    excludes_twice::<SpinThenQueue<Loom, true>>();
    excludes_three::<SpinThenQueue<Loom, true>>(1);
}

#[test]
fn mcs_excludes_and_serves_in_order() {
    excludes_twice::<Mcs<Loom>>();
    excludes_three::<Mcs<Loom>>(2);
    serves::<Mcs<Loom>>(IN_ORDER, |_| Place::new());
}

#[test]
fn h1_excludes_and_serves_in_order() {
    excludes_twice::<H1Mcs<Loom>>();
    excludes_three::<H1Mcs<Loom>>(2);
    serves::<H1Mcs<Loom>>(IN_ORDER, |_| Place::new());
}

#[test]
fn h2_excludes_and_serves_in_order() {
    excludes_twice::<H2Mcs<Loom>>();
    excludes_three::<H2Mcs<Loom>>(2);
    serves::<H2Mcs<Loom>>(IN_ORDER, |_| Place::new());
}

#[test]
fn a_repair_excludes_and_lets_others_overtake() {
    excludes_twice::<SwapMcs<Loom>>();
    excludes_twice::<SwapH1Mcs<Loom>>();
    excludes_twice::<SwapH2Mcs<Loom>>();
    excludes_three::<SwapH2Mcs<Loom>>(2);
    excludes_three::<SwapMcs<Loom>>(2);
    serves::<SwapH2Mcs<Loom>>(IN_ANY, |_| Place::new());
}

#[test]
fn hemlock_excludes_two() {
    excludes_twice::<Hemlock<Loom>>();
}

#[test]
fn hemlock_excludes_three() {
    excludes_three::<Hemlock<Loom>>(1);
}

#[test]
fn hemlock_serves_in_order() {
    serves_within::<Hemlock<Loom>>(0, IN_ORDER, |_| Place::new());
}

#[test]
fn reciprocating_excludes_two() {
    excludes_twice::<Reciprocating<Loom>>();
}

#[test]
fn reciprocating_excludes_three() {
    excludes_three::<Reciprocating<Loom>>(2);
}

#[test]
fn reciprocating_serves_the_last_first() {
    serves::<Reciprocating<Loom>>(IN_ANY, |_| Place::new());
}

#[test]
fn cna_excludes_two() {
    excludes_twice::<Cna<Loom>>();
}

#[test]
fn cna_excludes_three() {
    excludes_three::<Cna<Loom>>(1);
}

#[test]
fn cna_prefers_its_cluster() {
    // All in one cluster: in order. The second in the holder's: it may come first.
    serves_within::<Cna<Loom>>(1, IN_ORDER, |_| Place::in_cluster(0));
    serves_within::<Cna<Loom>>(1, IN_ANY, |number| Place::in_cluster(number % 2));
    // So does one whose places nobody has told where they are.
    serves_within::<Cna<Loom, Here>>(1, IN_ANY, |number| {
        HERE.with(|here| here.set(number % 2));
        Place::new()
    });
}

loom::thread_local! {
    static HERE: Cell<usize> = Cell::new(0);
}

struct Here;

impl OwnCluster for Here {
    fn cluster() -> usize {
        HERE.with(Cell::get)
    }
}

/// One of each of three clusters, and one more of the holder's: who is aside is not forgotten. In two clusters the last
/// one comes to those aside when nobody of the holder's own is left.
#[test]
fn cna_serves_who_was_passed_over() {
    for clusters in [3, 2] {
        serves_all_of(clusters);
    }
}

fn serves_all_of(clusters: usize) {
    explore(1, &["[0, 1, 2, 3]"], move || {
        let lock = Arc::new(Lock::<Vec<usize>, Cna<Loom>, Loom>::new(Vec::new()));
        let others = [1, 2, 3].map(|number| {
            let lock = lock.clone();
            thread::spawn(move || lock.lock(Place::in_cluster(number % clusters)).push(number))
        });
        lock.lock(Place::in_cluster(0)).push(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        let mut all = lock.lock(Place::new()).clone();
        all.sort_unstable();
        all
    });
}

#[test]
fn the_lock_that_can_be_tried_excludes_and_serves_in_order() {
    excludes_twice::<TryMcs<Loom>>();
    excludes_three::<TryMcs<Loom>>(2);
    serves::<TryMcs<Loom>>(IN_ORDER, |_| Place::new());
}
