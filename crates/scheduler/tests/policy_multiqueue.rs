//! Several queues for all: what every policy is held to, and how far from the order of arrival it strays.

mod policy_common;

use policy_common::{Random, Threads, holds, make};
use raddle_scheduler::{Cause, Notify, Policy};

#[test]
fn holds_what_every_policy_must() {
    for expression in ["multiqueue(1)", "multiqueue(4)", "priority(2, multiqueue(2))"] {
        holds(expression, 80);
    }
}

#[test]
fn it_says_what_it_is() {
    let (policy, _) = make("multiqueue(3)", 5);
    assert_eq!((policy.describe().as_str(), policy.ring(), policy.offers()), ("multiqueue(3)", false, false));
    let threads = Threads::new(1);
    assert_eq!(policy.submit(threads.ready(0)), Notify::Anyone);
    assert!(policy.offers());
    threads.discard(&mut *policy.local(4));
}

#[test]
fn with_one_queue_for_all_it_is_first_in_first_out() {
    let (policy, _) = make("multiqueue(1)", 1);
    let threads = Threads::new(100);
    let mut local = policy.local(0);
    for number in 0..100 {
        let _ = local.push(threads.ready(number), Cause::Woken);
    }
    let order: Vec<usize> = std::iter::from_fn(|| local.next(0)).map(|ready| threads.number(ready)).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

/// A thousand threads always wait, among eight queues; each that runs comes back at the end.
#[test]
fn nobody_is_passed_by_many() {
    const WAITING: usize = 1000;
    let (policy, _) = make("multiqueue(2)", 4);
    let threads = Threads::new(WAITING);
    let mut locals: Vec<_> = (0..4).map(|i| policy.local(i)).collect();
    let mut random = Random(7);
    let mut since = vec![0usize; WAITING];
    for number in 0..WAITING {
        let _ = locals[random.below(4)].push(threads.ready(number), Cause::Woken);
    }
    let mut worst = 0;
    for selection in 0..if cfg!(miri) { 2_000 } else { 100_000 } {
        let local = &mut locals[random.below(4)];
        let number = threads.number(local.next(0).unwrap());
        worst = worst.max(selection - since[number]);
        since[number] = selection;
        let _ = local.push(threads.ready(number), Cause::Yielded);
    }
    // In strict order each would wait 999 selections. With eight queues the header promises "some multiple of" 64 more;
    // this takes that multiple for 8. One queue that nobody looked at would exceed it without bound.
    assert!(worst < WAITING + 8 * 64, "somebody waited {worst} selections, random seed 7");
    locals.iter_mut().for_each(|local| threads.discard(&mut **local));
}
