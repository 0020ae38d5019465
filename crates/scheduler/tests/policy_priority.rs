//! Strict priorities over any policy.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_scheduler::{Cause, Local, Policy};

fn take(threads: Threads, local: &mut dyn Local<raddle_machine::Real>, floor: u8) -> Option<usize> {
    local.next(floor).map(|ready| threads.number(ready))
}

#[test]
fn holds_what_every_policy_must() {
    for expression in ["priority(1, steal)", "priority(3, steal, aging=7)", "priority(2, lifo)"] {
        holds(expression, 80);
    }
}

#[test]
fn the_highest_goes_first_and_equals_take_turns() {
    let (policy, _) = make("priority(3, steal)", 1);
    assert_eq!((policy.describe().as_str(), policy.priorities()), ("priority(3, steal)", 3));
    let threads = Threads::new(6);
    let mut local = policy.local(0);
    for (number, priority) in [2, 0, 1, 0, 9, 1].into_iter().enumerate() {
        let _ = local.push(threads.ready_at(number, priority), Cause::Woken);
    }
    // A round robin of the two highest.
    for turn in 0..6 {
        let number = take(threads, &mut *local, 2).unwrap();
        assert_eq!(number, [1, 3][turn % 2]);
        let _ = local.push(threads.ready(number), Cause::Yielded);
    }
    let order: Vec<usize> = std::iter::from_fn(|| take(threads, &mut *local, 2)).collect();
    // Number 4 is of a priority that does not exist: the lowest.
    assert_eq!(order, [1, 3, 2, 5, 0, 4]);
}

#[test]
fn below_the_floor_nothing_is_taken() {
    let (policy, _) = make("priority(4, steal)", 1);
    let threads = Threads::new(1);
    let mut local = policy.local(0);
    let _ = local.push(threads.ready_at(0, 2), Cause::Woken);
    assert_eq!(take(threads, &mut *local, 1), None);
    assert_eq!(take(threads, &mut *local, 2), Some(0));
}

#[test]
fn a_higher_thread_elsewhere_goes_before_a_lower_one_here() {
    let (policy, says) = make("priority(2, steal)", 2);
    says.hungry.store(true, std::sync::atomic::Ordering::Relaxed);
    let threads = Threads::new(2);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    let _ = a.push(threads.ready_at(0, 1), Cause::Woken);
    let _ = b.push(threads.ready_at(1, 0), Cause::Woken);
    assert_eq!(take(threads, &mut *a, 1), Some(1));
    assert_eq!(take(threads, &mut *a, 1), Some(0));
}

#[test]
fn aging_lets_the_lowest_run_whatever_the_floor() {
    for (expression, runs) in [("priority(3, steal)", false), ("priority(3, steal, aging=8)", true)] {
        let (policy, _) = make(expression, 1);
        let threads = Threads::new(2);
        let mut local = policy.local(0);
        let _ = local.push(threads.ready_at(0, 0), Cause::Woken);
        let _ = local.push(threads.ready_at(1, 2), Cause::Woken);
        let ran = (0..8).any(|_| {
            let number = take(threads, &mut *local, 0).unwrap();
            let _ = local.push(threads.ready(number), Cause::Yielded);
            number == 1
        });
        assert_eq!(ran, runs, "{expression}");
        threads.discard(&mut *local);
    }
}
