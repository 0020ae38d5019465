//! The newest first: what every policy is held to, and its order.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_scheduler::policies::steal::{ELDERS, ROUND};
use raddle_scheduler::{Cause, Policy};

#[test]
fn holds_what_every_policy_must() {
    holds("lifo", 80);
}

#[test]
fn the_newest_leaves_first_be_it_new_or_woken() {
    let (policy, _) = make("lifo", 1);
    assert_eq!(policy.describe(), "lifo");
    let threads = Threads::new(7);
    let mut local = policy.local(0);
    for number in 0..7 {
        let _ = local.push(threads.ready(number), [Cause::Spawned, Cause::Woken][number % 2]);
    }
    let order: Vec<usize> = std::iter::from_fn(|| local.next(0)).map(|ready| threads.number(ready)).collect();
    assert_eq!(order, [6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn a_stack_that_never_empties_starves_neither_its_oldest_nor_the_queue() {
    let (policy, _) = make("lifo", 1);
    let threads = Threads::new(4);
    let mut local = policy.local(0);
    let _ = local.push(threads.ready(0), Cause::Spawned);
    let _ = local.push(threads.ready(1), Cause::Submitted);
    let mut ran = [None; 4];
    for selection in 0..=2 * ELDERS {
        // Two that wake each other.
        for (number, ran) in ran.iter().enumerate().skip(2) {
            if selection == 0 || *ran == Some(selection - 1) {
                let _ = local.push(threads.ready(number), Cause::Woken);
            }
        }
        ran[threads.number(local.next(0).unwrap())] = Some(selection);
    }
    assert!(ran[0].is_some_and(|selection| selection <= ELDERS), "the oldest ran at {:?}", ran[0]);
    assert!(ran[1].is_some_and(|selection| selection <= ROUND), "the one in the queue ran at {:?}", ran[1]);
    threads.discard(&mut *local);
}
