//! One queue of which both ends are taken from: what every policy is held to, and the order of each mixture.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_scheduler::policies::hybrid::ROUND;
use raddle_scheduler::{Cause, Notify, Policy};

#[test]
fn holds_what_every_policy_must() {
    for expression in ["stochastic(50)", "alternate(3)", "reverse(5)", "priority(2, reverse(2))"] {
        holds(expression, 80);
    }
}

/// The order in which threads leave that were pushed in the order of their numbers.
fn order(expression: &str, count: usize) -> Vec<usize> {
    let (policy, _) = make(expression, 2);
    assert_eq!(policy.describe(), expression);
    let threads = Threads::new(count);
    let mut locals = [policy.local(0), policy.local(1)];
    for number in 0..count {
        assert_eq!(locals[number % 2].push(threads.ready(number), Cause::Woken), Notify::Anyone);
    }
    (0..count).map(|number| threads.number(locals[number / 2 % 2].next(0).unwrap())).collect()
}

#[test]
fn alternate_takes_so_many_of_the_newest_then_so_many_of_the_oldest() {
    assert_eq!(order("alternate(2)", 9), [8, 7, 0, 1, 6, 5, 2, 3, 4]);
    assert_eq!(order("alternate(1)", 5), [4, 0, 3, 1, 2]);
}

#[test]
fn reverse_turns_the_stack_over() {
    assert_eq!(order("reverse(3)", 9), [8, 7, 6, 0, 1, 2, 5, 4, 3]);
    // What comes while it is turned over lies on top as well.
    let (policy, _) = make("reverse(2)", 1);
    let threads = Threads::new(6);
    let mut local = policy.local(0);
    for number in 0..4 {
        let _ = local.push(threads.ready(number), Cause::Spawned);
    }
    let mut ran: Vec<usize> = (0..3).map(|_| threads.number(local.next(0).unwrap())).collect();
    let _ = local.push(threads.ready(4), Cause::Spawned);
    ran.extend(std::iter::from_fn(|| local.next(0)).map(|ready| threads.number(ready)));
    assert_eq!(ran, [3, 2, 0, 4, 1]);
}

#[test]
fn stochastic_takes_from_both_ends_about_as_often_as_it_says() {
    for (percent, newest) in [(10, 50..160), (50, 420..580), (90, 840..950)] {
        let (policy, _) = make(&format!("stochastic({percent})"), 1);
        let threads = Threads::new(1000);
        let mut local = policy.local(0);
        for number in 0..1000 {
            let _ = local.push(threads.ready(number), Cause::Woken);
        }
        // The oldest that are left come from the front, so a number tells from which end it came.
        let (mut front, mut back, mut last) = (0, 1000, 0);
        for _ in 0..1000 {
            let number = threads.number(local.next(0).unwrap());
            if number + 1 == back && number != front {
                (back, last) = (number, last + 1);
            } else {
                assert_eq!(number, front, "neither the oldest nor the newest");
                front += 1;
            }
        }
        // Generous: six standard deviations and more of a fair draw.
        assert!(newest.contains(&last), "{percent}: {last} of 1000 were the newest");
    }
}

#[test]
fn threads_that_yield_wait_for_the_others_and_are_not_starved_by_them() {
    for expression in ["stochastic(99)", "alternate(1000)", "reverse(1000)"] {
        let (policy, _) = make(expression, 1);
        let threads = Threads::new(4);
        let mut local = policy.local(0);
        let _ = local.push(threads.ready(0), Cause::Yielded);
        let _ = local.push(threads.ready(1), Cause::Woken);
        assert_eq!(threads.number(local.next(0).unwrap()), 1, "{expression}");
        // Two that wake each other for ever.
        let mut selections = 0;
        loop {
            let _ = local.push(threads.ready(2), Cause::Woken);
            let number = threads.number(local.next(0).unwrap());
            if number == 0 {
                break;
            }
            selections += 1;
            assert!(selections <= ROUND, "{expression}: the one that yielded did not run");
        }
        threads.discard(&mut *local);
    }
}
