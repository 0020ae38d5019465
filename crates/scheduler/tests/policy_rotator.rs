//! The ring of Lesser Bear: what every policy is held to, and how threads go round.

mod policy_common;

use policy_common::{Threads, few, holds, make};
use raddle_machine::Real;
use raddle_scheduler::policies::rotator::{BOUND, RECOUNT};
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
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
    const COUNT: usize = few(1000, 100);
    let threads = Threads::new(COUNT);
    let mut local = policy.local(0);
    for number in 0..COUNT {
        assert_eq!(local.push(threads.ready(number), Cause::Spawned), Notify::Nobody);
    }
    let order: Vec<usize> = std::iter::from_fn(|| take(threads, &mut *local)).collect();
    assert_eq!(order, (0..COUNT).collect::<Vec<_>>());
}

#[test]
fn a_sleeping_neighbour_gets_the_share_of_the_others_and_passes_on_what_is_too_much() {
    let (policy, says) = make("rotator", 3);
    says.asleep.store(0b110, Ordering::Relaxed);
    let threads = Threads::new(9);
    let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
    for number in 0..9 {
        // Two for the others for each that stays.
        let whom = if number % 3 == 0 { Notify::Nobody } else { Notify::Processor(1) };
        assert_eq!(locals[0].push(threads.ready(number), Cause::Spawned), whom);
    }
    assert!(locals[1].has_work() && !locals[2].has_work());
    // Processor 1 wakes and takes all six; processor 2 still sleeps: it is woken, and gets what may be passed on.
    says.asleep.store(0b100, Ordering::Relaxed);
    assert_eq!(take(threads, &mut *locals[1]), Some(1));
    assert_eq!(says.woken.load(Ordering::Relaxed), 0b100);
    says.asleep.store(0, Ordering::Relaxed);
    assert!(take(threads, &mut *locals[2]).is_some());
    let mut left: Vec<usize> = Vec::new();
    for local in &mut locals {
        let before = left.len();
        local.drain(&mut |ready| left.push(threads.number(ready)));
        assert!(left.len() - before >= 1, "a processor of three got none of nine");
    }
    assert_eq!(left.len(), 7);
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

/// Takes all that `local` has at hand; how many.
fn run_all(threads: Threads, local: &mut dyn Local<Real>) -> usize {
    std::iter::from_fn(|| take(threads, local)).count()
}

fn stranded(threads: Threads, local: &mut dyn Local<Real>) -> usize {
    let mut stranded = 0;
    local.drain(&mut |ready| {
        threads.number(ready);
        stranded += 1;
    });
    stranded
}

#[test]
fn a_neighbour_that_does_not_take_is_not_buried() {
    // It was frozen while it slept, or while it was awake. Many threads come and go beside it, so that what is stranded
    // would make the capacity grow if that were a bound.
    for asleep in [0b10, 0] {
        let (policy, says) = make("rotator", 2);
        says.asleep.store(asleep, Ordering::Relaxed);
        let (mut local, mut frozen) = (policy.local(0), policy.local(1));
        let (mut pushed, mut ran) = (0, 0);
        const COUNT: usize = few(1000, 200);
        for _ in 0..few(20, 3) {
            let threads = Threads::new(COUNT);
            for number in 0..COUNT {
                let _ = local.push(threads.ready(number), Cause::Spawned);
            }
            pushed += COUNT;
            ran += std::iter::from_fn(|| local.next(0)).map(Ready::into_thread).count();
            assert!(pushed - ran <= BOUND as usize, "asleep {asleep}: {} of {pushed} are stranded", pushed - ran);
        }
        let mut back = 0;
        frozen.drain(&mut |ready| {
            let _ = ready.into_thread();
            back += 1;
        });
        assert_eq!(ran + back, pushed);
    }
}

#[test]
fn of_few_threads_a_neighbour_that_does_not_take_gets_no_more_than_the_others_share() {
    for (processors, share) in [(2, 5), (5, 8)] {
        let (policy, says) = make("rotator", processors);
        says.asleep.store(usize::MAX, Ordering::Relaxed);
        let threads = Threads::new(10);
        let (mut local, mut frozen) = (policy.local(0), policy.local(1));
        for number in 0..10 {
            let _ = local.push(threads.ready(number), Cause::Woken);
        }
        // The processor computes on, and the monitor offers what it holds to others.
        for _ in 0..10 {
            let _ = local.publish();
        }
        let ran = run_all(threads, &mut *local);
        assert!(ran >= 10 - share, "{processors} processors: only {ran} ran");
        assert_eq!(ran + stranded(threads, &mut *frozen), 10);
    }
}

#[test]
fn threads_from_outside_go_past_a_processor_that_does_not_take() {
    let (policy, _) = make("rotator", 3);
    let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
    let mut frozen = locals.pop().unwrap();
    const ROUNDS: usize = few(300, 30);
    let threads = Threads::new(10 * ROUNDS);
    let mut ran = 0;
    for round in 0..ROUNDS {
        for number in 0..10 {
            let _ = policy.submit(threads.ready(10 * round + number));
        }
        while locals.iter().any(|local| local.has_work()) {
            ran += locals.iter_mut().filter_map(|local| take(threads, &mut **local)).count();
        }
    }
    let left = stranded(threads, &mut *frozen);
    assert_eq!(ran + left, 10 * ROUNDS);
    // Of each ten the others hold five at most when the frozen one is as short, and what is passed to it is bounded
    // too.
    assert!(left <= 6 + BOUND as usize, "{left} are stranded");
}

#[test]
fn what_a_stuck_processor_protected_goes_to_its_neighbour() {
    let (policy, _) = make("rotator", 2);
    let threads = Threads::new(4);
    let (mut stuck, mut neighbour) = (policy.local(0), policy.local(1));
    for number in 0..4 {
        let _ = stuck.push(threads.ready(number), Cause::Woken);
    }
    // In parts, each when the neighbour has taken the one before.
    let mut ran = Vec::new();
    while stuck.holds_private() {
        assert_eq!(stuck.publish(), Notify::Processor(1));
        ran.extend(take(threads, &mut *neighbour));
    }
    ran.extend(std::iter::from_fn(|| take(threads, &mut *neighbour)));
    let back = stranded(threads, &mut *stuck);
    assert_eq!(ran.len() + back, 4, "{ran:?} ran");
    assert!(ran.len() >= 3);
}
