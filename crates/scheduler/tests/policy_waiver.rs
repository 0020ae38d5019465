//! The rotator's predecessor: what every policy is held to, what is protected, what is waived, who fetches.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_scheduler::policies::waiver::ROUND;
use raddle_scheduler::{Cause, Notify, Policy};
use std::sync::atomic::Ordering;

#[test]
fn holds_what_every_policy_must() {
    for expression in ["waiver", "priority(2, waiver)"] {
        holds(expression, 80);
    }
}

#[test]
fn one_processor_protects_all_in_order() {
    let (policy, _) = make("waiver", 1);
    let threads = Threads::new(200);
    let mut local = policy.local(0);
    for number in 0..200 {
        assert_eq!(local.push(threads.ready(number), Cause::Woken), Notify::Nobody);
    }
    assert!(local.holds_private() && !policy.offers());
    let order: Vec<usize> = std::iter::from_fn(|| local.next(0)).map(|ready| threads.number(ready)).collect();
    assert_eq!(order, (0..200).collect::<Vec<_>>());
}

#[test]
fn what_exceeds_its_share_is_waived_and_fetched_by_who_runs_dry() {
    let (policy, says) = make("waiver", 2);
    let threads = Threads::new(6);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    says.hungry.store(true, Ordering::Relaxed);
    assert_eq!(a.push(threads.ready(0), Cause::Woken), Notify::Nobody);
    assert!(!b.has_work());
    for number in 1..6 {
        assert_eq!(a.push(threads.ready(number), Cause::Woken), Notify::Anyone);
    }
    assert!(b.has_work() && policy.offers());
    assert_eq!(threads.number(b.search().unwrap()), 1);
    // Its own is at hand, then it fetches, too.
    assert_eq!(threads.number(a.next(0).unwrap()), 0);
    assert_eq!(threads.number(a.next(0).unwrap()), 2);
    // Nobody is hungry: b fills up to its share.
    says.hungry.store(false, Ordering::Relaxed);
    let left = [b.search(), b.next(0), b.search()].map(|ready| threads.number(ready.unwrap()));
    assert_eq!(left, [3, 4, 5]);
    assert!(!a.has_work() && !b.has_work());
}

#[test]
fn what_is_waived_runs_although_its_processor_never_runs_dry() {
    let (policy, _) = make("waiver", 2);
    let threads = Threads::new(2);
    let (mut a, _b) = (policy.local(0), policy.local(1));
    let _ = a.push(threads.ready(0), Cause::Woken);
    let _ = a.push(threads.ready(1), Cause::Woken);
    let _ = a.publish();
    let mut selections = 0;
    let mut missing = vec![0, 1];
    while !missing.is_empty() {
        let number = threads.number(a.next(0).unwrap());
        missing.retain(|&other| other != number);
        let _ = a.push(threads.ready(number), Cause::Yielded);
        selections += 1;
        assert!(selections <= ROUND + 2, "{missing:?} did not run");
    }
    threads.discard(&mut *a);
}

#[test]
fn idle_processors_get_what_was_protected() {
    let (policy, says) = make("waiver", 2);
    let threads = Threads::new(200);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    for number in 0..200 {
        let _ = a.push(threads.ready(number), Cause::Woken);
    }
    says.hungry.store(true, Ordering::Relaxed);
    let first = threads.number(a.next(0).unwrap());
    assert_ne!(says.woken.load(Ordering::Relaxed), 0, "nobody was told");
    assert!(b.search().is_some_and(|ready| threads.number(ready) != first));
    threads.discard(&mut *a);
    threads.discard(&mut *b);
}
