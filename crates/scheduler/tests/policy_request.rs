//! Work requesting: what every policy is held to, and who is sent where.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_machine::Real;
use raddle_scheduler::policies::request::{EVERY, MANY};
use raddle_scheduler::{Cause, Local, Policy};
use std::sync::atomic::Ordering;

#[test]
fn holds_what_every_policy_must() {
    for expression in [
        "request(naive)",
        "request(sticky, capacity=16, batch=one)",
        "request(ticket, order=lifo, overflow=sharded(2))",
        "clustered(2, request(ticket))",
    ] {
        holds(expression, 80);
    }
}

/// Pushes until it has asked once, with the threads from `from` on; returns how many.
fn overload(threads: Threads, local: &mut dyn Local<Real>, from: usize) -> usize {
    let count = MANY.next_multiple_of(EVERY.into()) as usize;
    for number in from..from + count {
        let _ = local.push(threads.ready(number), Cause::Woken);
    }
    count
}

#[test]
fn who_is_asked_naively_steals_once_although_it_has_work() {
    let (policy, says) = make("request(naive, batch=one)", 2);
    assert_eq!(policy.describe(), "request(naive, batch=one)");
    let threads = Threads::new(100);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    for number in 90..93 {
        let _ = b.push(threads.ready(number), Cause::Woken);
    }
    overload(threads, &mut *a, 0);
    assert_eq!(says.woken.load(Ordering::Relaxed), 1 << 1, "the one that was asked was not woken");
    let came = [0; 4].map(|_| threads.number(b.next(0).unwrap()));
    assert_eq!((came, b.steals()), ([0, 90, 91, 92], (1, 1)));
    assert!(b.next(0).is_none());
    threads.discard(&mut *a);
}

#[test]
fn who_is_asked_stickily_comes_back_when_it_has_nothing() {
    let (policy, _) = make("request(sticky, batch=one)", 2);
    let threads = Threads::new(100);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    overload(threads, &mut *a, 0);
    let _ = b.push(threads.ready(90), Cause::Woken);
    // Forced once, then its own; then it comes again.
    let came = [b.next(0), b.next(0), b.search(), b.search()].map(|ready| threads.number(ready.unwrap()));
    assert_eq!(came, [0, 90, 1, 2]);
    assert!(b.next(0).is_none(), "nobody is forced twice by one wish");
    threads.discard(&mut *a);
}

#[test]
fn a_ticket_leads_to_who_is_overloaded_and_busy_ones_are_left_in_peace() {
    let (policy, _) = make("request(ticket, batch=one)", 8);
    let threads = Threads::new(100);
    let mut locals: Vec<_> = (0..8).map(|i| policy.local(i)).collect();
    for round in 0..8 {
        let overloaded = 1 + round % 7;
        let count = overload(threads, &mut *locals[overloaded], 0);
        // One with work selects its own.
        let other = (overloaded + 1) % 8;
        let _ = locals[other].push(threads.ready(90), Cause::Woken);
        assert_eq!(locals[other].next(0).map(|ready| threads.number(ready)), Some(90));
        // One that looks goes straight there.
        let before = locals[0].steals();
        assert_eq!(locals[0].search().map(|ready| threads.number(ready)), Some(0));
        let after = locals[0].steals();
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
        let mut left = 0;
        locals[overloaded].drain(&mut |ready| {
            threads.number(ready);
            left += 1;
        });
        assert_eq!(left, count - 1);
    }
}

#[test]
fn few_threads_are_no_reason_to_ask() {
    let (policy, says) = make("request(naive)", 2);
    let threads = Threads::new(1);
    let mut local = policy.local(0);
    for _ in 0..10 * EVERY {
        let _ = local.push(threads.ready(0), Cause::Woken);
        assert!(local.next(0).is_some_and(|ready| threads.number(ready) == 0));
    }
    assert_eq!((says.woken.load(Ordering::Relaxed), local.steals()), (0, (0, 0)));
}
