//! The ring of Lesser Bear: what every policy is held to, and how threads go round.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_machine::Real;
use raddle_scheduler::policies::rotator::{BOUND, RECOUNT};
use raddle_scheduler::{Cause, Local, Notify, Policy};
use std::sync::atomic::Ordering;

fn take(threads: Threads, local: &mut dyn Local<Real>) -> Option<usize> {
    local.next(0).map(|ready| threads.number(ready))
}

#[test]
fn holds_what_every_policy_must() {
    holds("rotator", 110);
    holds("priority(2, rotator)", 110);
}

#[test]
fn alone_in_its_ring_a_processor_keeps_all_in_order() {
    let (policy, _) = make("rotator", 1);
    assert!(policy.ring());
    let threads = Threads::new(1000);
    let mut local = policy.local(0);
    for number in 0..1000 {
        assert_eq!(local.push(threads.ready(number), Cause::Spawned), Notify::Nobody);
    }
    let order: Vec<usize> = std::iter::from_fn(|| take(threads, &mut *local)).collect();
    assert_eq!(order, (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_sleeping_neighbour_gets_all_but_one_and_passes_on_what_is_too_much() {
    let (policy, says) = make("rotator", 3);
    says.asleep.store(0b110, Ordering::Relaxed);
    let threads = Threads::new(9);
    let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
    assert_eq!(locals[0].push(threads.ready(0), Cause::Spawned), Notify::Nobody);
    for number in 1..9 {
        assert_eq!(locals[0].push(threads.ready(number), Cause::Spawned), Notify::Processor(1));
    }
    assert!(locals[1].has_work() && !locals[2].has_work());
    // Processor 1 wakes and takes all eight; processor 2 still sleeps: it is woken, and gets all but one.
    says.asleep.store(0b100, Ordering::Relaxed);
    assert_eq!(take(threads, &mut *locals[1]), Some(1));
    assert_eq!(says.woken.load(Ordering::Relaxed), 0b100);
    says.asleep.store(0, Ordering::Relaxed);
    assert_eq!(take(threads, &mut *locals[2]), Some(2));
    // Eight were ready, so it kept three; then seven, so processor 0 keeps three too, and the rest goes to processor 1.
    assert_eq!(take(threads, &mut *locals[0]), Some(0));
    let mut left: Vec<Vec<usize>> = Vec::new();
    for local in &mut locals {
        let mut mine = Vec::new();
        local.drain(&mut |ready| mine.push(threads.number(ready)));
        left.push(mine);
    }
    assert_eq!(left, [vec![5, 6], vec![7, 8], vec![3, 4]]);
}

#[test]
fn threads_that_yield_spread_evenly() {
    let (policy, says) = make("rotator", 4);
    let threads = Threads::new(40);
    let mut locals: Vec<_> = (0..4).map(|i| policy.local(i)).collect();
    // Nobody sleeps, and all appear in one place.
    for number in 0..40 {
        let _ = locals[0].push(threads.ready(number), Cause::Spawned);
    }
    for _ in 0..20 * RECOUNT {
        for local in &mut locals {
            if let Some(ready) = local.next(0) {
                let number = threads.number(ready);
                let _ = local.push(threads.ready(number), Cause::Yielded);
            }
        }
    }
    let mut held = [0; 4];
    for (local, held) in locals.iter_mut().zip(&mut held) {
        local.drain(&mut |ready| {
            threads.number(ready);
            *held += 1;
        });
    }
    assert!(held.iter().all(|held| (8..=12).contains(held)), "{held:?}");
    assert_eq!(says.asleep.load(Ordering::Relaxed), 0);
}

#[test]
fn a_neighbour_that_does_not_take_is_not_buried() {
    let (policy, says) = make("rotator", 2);
    // A processor that was frozen while it slept: it takes nothing.
    says.asleep.store(0b10, Ordering::Relaxed);
    let threads = Threads::new(1000);
    let (mut local, mut frozen) = (policy.local(0), policy.local(1));
    for number in 0..1000 {
        let _ = local.push(threads.ready(number), Cause::Spawned);
    }
    let mut ran = 0;
    while take(threads, &mut *local).is_some() {
        ran += 1;
    }
    assert!(ran >= 1000 - BOUND as usize, "{ran} ran");
    let mut stranded = 0;
    frozen.drain(&mut |ready| {
        threads.number(ready);
        stranded += 1;
    });
    assert_eq!(ran + stranded, 1000);
}

#[test]
fn what_a_stuck_processor_protected_goes_to_its_neighbour() {
    let (policy, _) = make("rotator", 2);
    let threads = Threads::new(4);
    let (mut stuck, mut neighbour) = (policy.local(0), policy.local(1));
    for number in 0..4 {
        let _ = stuck.push(threads.ready(number), Cause::Woken);
    }
    assert_eq!(stuck.publish(), Notify::Processor(1));
    assert!(!stuck.holds_private());
    assert_eq!(take(threads, &mut *neighbour), Some(1));
    threads.discard(&mut *neighbour);
    threads.discard(&mut *stuck);
}
