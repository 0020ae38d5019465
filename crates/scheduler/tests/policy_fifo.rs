//! One queue for all: what every policy is held to, and its order.

mod policy_common;

use policy_common::{Threads, few, holds, make};
use raddle_scheduler::policies::fifo::ROUND;
use raddle_scheduler::{Cause, Notify, Policy};

#[test]
fn holds_what_every_policy_must() {
    for expression in ["fifo", "priority(3, fifo)", "priority(2, fifo, aging=5)"] {
        holds(expression, 80);
    }
}

#[test]
fn threads_leave_in_order_whoever_pushes_and_whoever_takes() {
    let (policy, _) = make("fifo", 3);
    assert_eq!((policy.describe().as_str(), policy.ring()), ("fifo", false));
    const COUNT: usize = few(600, 60);
    let threads = Threads::new(COUNT);
    let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
    for round in 0..3 {
        let causes = [Cause::Spawned, Cause::Woken, Cause::Yielded, Cause::Submitted];
        for number in 0..COUNT {
            let notify = locals[(number + round) % 3].push(threads.ready(number), causes[number % 4]);
            assert_eq!(notify, Notify::Anyone);
        }
        for number in 0..COUNT {
            let ready = locals[number * 7 % 3].next(0).unwrap();
            assert_eq!(threads.number(ready), number);
        }
        assert!(locals.iter().all(|local| !local.has_work() && !local.holds_private()));
    }
}

#[test]
fn threads_from_outside_come_in_although_the_queue_never_runs_dry() {
    let (policy, _) = make("fifo", 1);
    let threads = Threads::new(3);
    let mut local = policy.local(0);
    let _ = local.push(threads.ready(0), Cause::Woken);
    let _ = policy.submit(threads.ready(1));
    let _ = policy.submit(threads.ready(2));
    let mut came = Vec::new();
    for _ in 0..=ROUND + 2 {
        let number = threads.number(local.next(0).unwrap());
        if number > 0 {
            came.push(number);
        } else {
            let _ = local.push(threads.ready(0), Cause::Yielded);
        }
    }
    assert_eq!(came, [1, 2]);
    threads.discard(&mut *local);
}
