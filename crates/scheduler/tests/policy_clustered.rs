//! Clusters under any policy: what every policy is held to, who keeps to his own, who visits.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_scheduler::policies::clustered::ROUND;
use raddle_scheduler::{Cause, Local, Notify, Policy};
use std::sync::atomic::Ordering;

fn take(threads: Threads, local: &mut dyn Local<raddle_machine::Real>) -> Option<usize> {
    local.next(u8::MAX).map(|ready| threads.number(ready))
}

#[test]
fn holds_what_every_policy_must() {
    for expression in [
        "clustered(1, fifo)",
        "clustered(1, request(naive))",
        "clustered(2, steal)",
        "clustered(3, waiver)",
        "clustered(2, priority(3, lifo))",
        "priority(2, clustered(2, multiqueue(2)))",
    ] {
        holds(expression, 80);
    }
}

#[test]
fn a_cluster_shares_and_others_come_only_when_they_have_nothing() {
    let (policy, _) = make("clustered(2, fifo)", 5);
    assert_eq!((policy.describe().as_str(), policy.priorities()), ("clustered(2, fifo)", 1));
    let threads = Threads::new(6);
    let mut locals: Vec<_> = (0..5).map(|i| policy.local(i)).collect();
    for number in 0..4 {
        assert_eq!(locals[0].push(threads.ready(number), Cause::Woken), Notify::Anyone);
    }
    let _ = locals[2].push(threads.ready(4), Cause::Woken);
    assert!(locals.iter().all(|local| local.has_work()));
    // What is at hand is the cluster's own.
    assert_eq!(take(threads, &mut *locals[1]), Some(0));
    assert_eq!(take(threads, &mut *locals[3]), Some(4));
    assert_eq!(take(threads, &mut *locals[3]), None);
    assert_eq!(locals[3].search().map(|ready| threads.number(ready)), Some(1));
    // The last cluster has one member, who is as welcome.
    assert_eq!(take(threads, &mut *locals[4]), None);
    assert_eq!(locals[4].search().map(|ready| threads.number(ready)), Some(2));
    assert_eq!(locals[4].steals(), (1, 1));
    assert_eq!(take(threads, &mut *locals[4]), Some(3), "a visitor brings home what it can");
    assert!(!policy.offers());
}

#[test]
fn what_a_visitor_leaves_is_everybodys() {
    let (policy, says) = make("clustered(1, steal)", 3);
    says.hungry.store(true, Ordering::Relaxed);
    let threads = Threads::new(8);
    let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
    for number in 0..8 {
        let _ = locals[0].push(threads.ready(number), Cause::Woken);
    }
    // Half of the eight went to the visitor's place; one of them runs.
    let mut ran = vec![threads.number(locals[1].search().unwrap())];
    assert!(says.woken.load(Ordering::Relaxed) != 0, "nobody was told of what was left");
    while let Some(ready) = locals[2].search() {
        ran.push(threads.number(ready));
    }
    ran.sort_unstable();
    assert_eq!(ran, (0..8).collect::<Vec<_>>());
    assert!(locals.iter().all(|local| !local.has_work()));
}

#[test]
fn what_a_visitor_leaves_runs_although_its_cluster_never_runs_dry() {
    for expression in ["clustered(1, steal)", "clustered(1, local(fifo))", "clustered(2, lifo)"] {
        let (policy, says) = make(expression, 4);
        says.hungry.store(true, Ordering::Relaxed);
        let threads = Threads::new(8);
        let (mut local, mut visitor) = (policy.local(0), policy.local(3));
        (0..8).for_each(|number| _ = local.push(threads.ready(number), Cause::Woken));
        let mut missing: std::collections::BTreeSet<_> = (0..8).collect();
        missing.remove(&threads.number(visitor.search().unwrap()));
        // All others yield, for ever; nobody is idle any more.
        says.hungry.store(false, Ordering::Relaxed);
        for selection in 0.. {
            assert!(selection <= 20 * ROUND, "{expression}: {missing:?} did not run");
            for local in [&mut local, &mut visitor] {
                let Some(number) = take(threads, &mut **local) else { continue };
                missing.remove(&number);
                let _ = local.push(threads.ready(number), Cause::Yielded);
            }
            if missing.is_empty() {
                break;
            }
        }
        threads.discard(&mut *local);
        threads.discard(&mut *visitor);
    }
}

/// With one thread a visit it would stay with that one for as long as it yields, and all others with the cluster that
/// was first.
#[test]
fn a_visitor_does_not_leave_nearly_all_to_the_others() {
    for expression in ["clustered(1, steal)", "clustered(1, fifo)", "clustered(2, priority(2, steal))"] {
        let (policy, says) = make(expression, 3);
        let threads = Threads::new(12);
        let (mut local, mut visitor) = (policy.local(0), policy.local(2));
        says.hungry.store(true, Ordering::Relaxed);
        (0..12).for_each(|number| _ = local.push(threads.ready(number), Cause::Woken));
        let mut ran = vec![threads.number(visitor.search().unwrap())];
        while let Some(number) = take(threads, &mut *visitor) {
            ran.push(number);
        }
        assert!(ran.len() >= 5, "{expression}: it brought {ran:?}");
        threads.discard(&mut *local);
    }
}

#[test]
fn threads_from_outside_come_in_although_no_cluster_runs_dry() {
    let (policy, _) = make("clustered(2, steal)", 4);
    let threads = Threads::new(2);
    let mut local = policy.local(3);
    let _ = local.push(threads.ready(0), Cause::Woken);
    assert_eq!(policy.submit(threads.ready(1)), Notify::Anyone);
    for selection in 0.. {
        assert!(selection <= 2 * ROUND, "the thread from outside did not run");
        let number = take(threads, &mut *local).unwrap();
        let _ = local.push(threads.ready(number), Cause::Yielded);
        if number == 1 {
            break;
        }
    }
    threads.discard(&mut *local);
}

#[test]
fn a_cluster_may_be_larger_than_the_pool() {
    let (policy, _) = make("clustered(4096, steal)", 2);
    assert_eq!(policy.describe(), "clustered(4096, steal)");
    assert!(policy.strands().contains("taken over"));
    let (_a, _b) = (policy.local(0), policy.local(1));
}

#[test]
fn who_is_called_within_a_cluster_is_one_of_its_members() {
    let (policy, says) = make("clustered(2, request(naive))", 3);
    let threads = Threads::new(400);
    let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
    for number in 0..400 {
        let _ = locals[2].push(threads.ready(number), Cause::Woken);
    }
    // Of the members of the last cluster one is missing, one asks, and the third place is the visitor's.
    assert_eq!(says.woken.load(Ordering::Relaxed), 0);
    threads.discard(&mut *locals[2]);
    for number in 0..400 {
        let _ = locals[1].push(threads.ready(number), Cause::Woken);
    }
    assert_eq!(says.woken.load(Ordering::Relaxed), 1 << 0);
    threads.discard(&mut *locals[1]);
}
