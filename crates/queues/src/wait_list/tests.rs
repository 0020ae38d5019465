//! The list on the real machine: order, reuse, sweeps, races.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

const ROUNDS: u64 = if cfg!(miri) { 30 } else { 1000 };

#[test]
fn keeps_order_and_reuses_nodes() {
    let pool = NodePool::<Real>::default();
    let mut list = WaitList::<Real>::new();
    for round in 1..ROUNDS {
        for thread in 1..=3 {
            assert!(list.push(&pool, thread * 8, round));
        }
        for thread in 1..=3 {
            assert_eq!(list.queue().pop(&pool), Some((thread * 8, round)));
        }
        assert_eq!(list.queue().pop(&pool), None);
    }
    // One sentinel and three nodes, however long it runs.
    assert!(nodes_made(&pool) <= 4, "{}", nodes_made(&pool));
    list.release(&pool);
    assert!(list.queue().is_none());
}

#[test]
fn several_are_told_from_one() {
    let pool = NodePool::<Real>::default();
    let mut list = WaitList::<Real>::new();
    for expected in [false, false, true, true] {
        assert_eq!(list.queue().holds_several(&pool), expected);
        assert!(list.push(&pool, 8, 1));
    }
    for expected in [true, true, true, false, false] {
        assert_eq!(list.queue().holds_several(&pool), expected);
        list.queue().pop(&pool);
    }
    list.release(&pool);
}

#[test]
fn a_spare_goes_from_pop_to_push() {
    let pool = NodePool::<Real>::default();
    let mut list = WaitList::<Real>::new();
    let mut spare = None;
    for round in 1..ROUNDS {
        assert!(list.push_with_spare(&pool, 8, round, &mut spare) && spare.is_none());
        let (thread, epoch, left) = list.queue().pop_with_spare(&pool).unwrap();
        assert_eq!((thread, epoch), (8, round));
        // SAFETY: the index of this spare, once.
        spare = unsafe { Spare::from_index(left.into_index()) };
    }
    assert_eq!(nodes_made(&pool), 2);
    spare.unwrap().give(&pool);
    list.release(&pool);
    assert!(list.push(&pool, 8, 1) && list.push(&pool, 8, 2));
    assert_eq!(nodes_made(&pool), 3);
    list.release(&pool);
}

fn nodes_made(pool: &NodePool<Real>) -> u32 {
    // A pool hands out every node that is free before it makes another one: its size is what can be taken plus what
    // is held.
    pool.nodes.made()
}

#[test]
fn sweeps_abandoned_nodes_in_place() {
    let pool = NodePool::<Real>::default();
    let mut list = WaitList::<Real>::new();
    // Every tenth waiter is live; the others time out at once.
    const WAITS: u64 = if cfg!(miri) { 200 } else { 10_000 };
    let is_live = |_, epoch: u64| epoch.is_multiple_of(10);
    for epoch in 0..WAITS {
        assert!(list.push(&pool, 8, epoch));
        if !is_live(8, epoch) {
            list.abandon(&pool, is_live);
        }
    }
    let nodes = nodes_made(&pool);
    assert!(u64::from(nodes) < WAITS * 3 / 10, "{nodes} nodes for {} live waiters", WAITS / 10);
    let mut live = Vec::new();
    list.queue().pop_all(&pool, |_, epoch| live.extend(is_live(8, epoch).then_some(epoch)));
    assert_eq!(live, (0..WAITS).step_by(10).collect::<Vec<_>>());
    list.release(&pool);
}

#[test]
fn every_live_wait_is_popped_once_under_races() {
    const EACH: usize = if cfg!(miri) { 30 } else { 20_000 };
    const PUSHERS: usize = 2;
    let pool = NodePool::<Real>::default();
    let list = WaitList::<Real>::new();
    let popped: Vec<AtomicU64> = (0..EACH * PUSHERS).map(|_| AtomicU64::new(0)).collect();
    let (done, left) = (AtomicUsize::new(0), AtomicBool::new(true));
    let is_live = |_, epoch: u64| !epoch.is_multiple_of(3);
    std::thread::scope(|scope| {
        for pusher in 0..PUSHERS {
            let (pool, list, done, is_live) = (&pool, &list, &done, &is_live);
            scope.spawn(move || {
                for i in 0..EACH {
                    let epoch = (i * PUSHERS + pusher) as u64;
                    assert!(list.push(pool, 8, epoch));
                    if !is_live(8, epoch) {
                        list.abandon(pool, is_live);
                    }
                }
                done.fetch_add(1, SeqCst);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while left.load(SeqCst) {
                    let over = done.load(SeqCst) == PUSHERS;
                    match list.queue().pop(&pool) {
                        Some((_, epoch)) => drop(popped[epoch as usize].fetch_add(1, SeqCst)),
                        None if over => left.store(false, SeqCst),
                        None => std::thread::yield_now(),
                    }
                }
            });
        }
    });
    for (epoch, count) in popped.iter().enumerate() {
        let count = count.load(SeqCst);
        assert!(count <= 1, "{epoch} popped {count} times");
        assert!(count == 1 || epoch % 3 == 0, "{epoch} lost");
    }
}
