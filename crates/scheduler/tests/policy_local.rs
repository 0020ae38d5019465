//! Bounded local queues in all their forms: what every policy is held to, and what each option does.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_machine::Real;
use raddle_scheduler::policies::local::{ELDERS, ROUND, SLOT_RUN};
use raddle_scheduler::{Cause, Local, Notify, Policy};
use std::sync::atomic::Ordering;

fn order(threads: Threads, local: &mut dyn Local<Real>) -> Vec<usize> {
    std::iter::from_fn(|| local.next(0)).map(|ready| threads.number(ready)).collect()
}

#[test]
fn holds_what_every_policy_must() {
    for expression in [
        "local",
        "local(lifo)",
        "local(capacity=4, batch=one, victims=neighbours(1))",
        "local(lifo, capacity=4, batch=min(3), overflow=locked, victims=clusters(2))",
        "local(capacity=8, batch=min(4, rare=3), overflow=sharded(3), share=30)",
        "local(capacity=4, overflow=tickets, share=50)",
        "priority(2, local(capacity=2, slot))",
    ] {
        holds(expression, 80);
    }
}

#[test]
fn holds_it_where_spawners_wait_and_where_queues_grow() {
    for expression in [
        "local(capacity=4, overflow=retry)",
        "local(lifo, capacity=1, overflow=retry, slot)",
        "local(capacity=4, grow=vertical)",
        "local(lifo, capacity=4, grow=vertical, slot)",
        "local(capacity=4, grow=horizontal)",
        "local(lifo, capacity=4, grow=horizontal, overflow=sharded(2))",
    ] {
        holds(expression, 80);
    }
}

#[test]
fn the_order_is_that_of_the_local_queue() {
    for (expression, newest_first) in [
        ("local", false),
        ("local(lifo)", true),
        ("local(capacity=4, grow=horizontal)", false),
        ("local(lifo, capacity=4, grow=horizontal)", true),
        ("local(lifo, capacity=4, grow=vertical)", true),
    ] {
        let (policy, _) = make(expression, 2);
        // Fewer than the selections of which one takes the oldest.
        let threads = Threads::new(12);
        let mut local = policy.local(0);
        for number in 0..12 {
            assert_eq!(local.push(threads.ready(number), [Cause::Spawned, Cause::Woken][number % 2]), Notify::Anyone);
        }
        let mut expected: Vec<usize> = (0..12).collect();
        if newest_first {
            expected.reverse();
        }
        assert_eq!(order(threads, &mut *local), expected, "{expression}");
    }
}

#[test]
fn what_the_queue_does_not_hold_overflows_to_where_all_find_it() {
    for overflow in ["lockfree", "locked", "sharded(1)", "tickets"] {
        let (policy, _) = make(&format!("local(capacity=4, overflow={overflow}, batch=one)"), 2);
        let threads = Threads::new(6);
        let (mut a, mut b) = (policy.local(0), policy.local(1));
        for number in 0..6 {
            let _ = a.push(threads.ready(number), Cause::Spawned);
        }
        assert!(!a.crowded());
        // The common queue before a steal.
        let number = |ready: Option<_>| threads.number(ready.unwrap());
        assert_eq!([number(b.next(0)), number(b.next(0)), number(b.search())], [4, 5, 0], "{overflow}");
        assert_eq!((b.steals(), order(threads, &mut *a)), ((1, 1), vec![1, 2, 3]));
    }
}

#[test]
fn what_a_bounded_overflow_queue_does_not_hold_takes_turns_with_the_rest() {
    // More than the queue has room for, so that the last ones wait beside it.
    const MANY: usize = if cfg!(miri) { 80 } else { 70_000 };
    let (policy, _) = make("local(capacity=1, overflow=tickets)", 1);
    let threads = Threads::new(MANY);
    let mut local = policy.local(0);
    for number in 0..MANY {
        let _ = local.push(threads.ready(number), Cause::Yielded);
    }
    assert!(policy.offers());
    let came = order(threads, &mut *local);
    assert!(!policy.offers());
    assert_eq!(came.len(), MANY);
    let beside: Vec<_> = came[..20].iter().filter(|&&number| number > MANY / 2).collect();
    assert!(beside.len() >= 9, "of those beside the queue came among the first 20: {beside:?}");
    for (place, number) in came.into_iter().enumerate() {
        assert!(place <= 2 * number + 1, "{number} came as the {place}th");
    }
}

#[test]
fn shards_are_used_in_turn() {
    let (policy, _) = make("local(capacity=1, overflow=sharded(4))", 1);
    let threads = Threads::new(33);
    let mut local = policy.local(0);
    for number in 0..33 {
        let _ = local.push(threads.ready(number), Cause::Spawned);
    }
    // In turn into the shards and in turn out of them, perhaps from another one on: nobody is passed by more than
    // three.
    let came = order(threads, &mut *local);
    assert_eq!(came.len(), 33);
    for (place, &number) in came.iter().enumerate() {
        assert!(place.abs_diff(number) <= 3, "{number} left as the {place}th");
    }
}

#[test]
fn a_share_of_new_threads_goes_to_all_although_there_is_room() {
    let (policy, _) = make("local(share=25)", 2);
    let threads = Threads::new(400);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    let mut shared = 0;
    for number in 0..400 {
        let _ = a.push(threads.ready(number), Cause::Spawned);
        // `next` takes what is in the common queue, and steals nothing.
        shared += usize::from(b.next(0).is_some_and(|ready| threads.number(ready) == number));
        threads.discard(&mut *a);
        // Woken ones are not shared.
        let _ = a.push(threads.ready(number), Cause::Woken);
        assert!(b.next(0).is_none());
        threads.discard(&mut *a);
    }
    // Generous: six standard deviations of a fair draw.
    assert!((48..152).contains(&shared), "{shared} of 400 at 25 of 100");
}

#[test]
fn with_retry_the_spawner_is_asked_to_wait_and_the_queue_stays_bounded() {
    let (policy, says) = make("local(capacity=4, overflow=retry)", 2);
    let threads = Threads::new(8);
    let (mut a, mut b) = (policy.local(0), policy.local(1));
    for number in 0..8 {
        let _ = a.push(threads.ready(number), Cause::Spawned);
        assert_eq!(a.crowded(), number >= 4, "after {number}");
    }
    // A thief finds the four; one selection of the owner's lets the others close up.
    assert_eq!(b.search().map(|ready| threads.number(ready)), Some(0));
    assert_eq!(a.next(0).map(|ready| threads.number(ready)), Some(2));
    assert!(a.crowded() && a.holds_private());
    assert_eq!(order(threads, &mut *a), [3, 4, 5, 6, 7]);
    assert!(!a.crowded() && !a.holds_private());
    assert_eq!(order(threads, &mut *b), [1]);
    // A processor that is stuck gives up what waits behind its queue, too.
    for number in 0..8 {
        let _ = a.push(threads.ready(number), Cause::Spawned);
    }
    assert_eq!((a.publish(), a.crowded()), (Notify::Anyone, false));
    let mut came = Vec::new();
    says.hungry.store(true, Ordering::Relaxed);
    while let Some(ready) = b.search() {
        came.push(threads.number(ready));
    }
    came.sort_unstable();
    assert_eq!(came, (0..8).collect::<Vec<_>>());
}

#[test]
fn the_slot_runs_next_but_not_for_ever() {
    let (policy, says) = make("local(slot)", 2);
    let threads = Threads::new(4);
    let (mut a, b) = (policy.local(0), policy.local(1));
    assert_eq!(a.push(threads.ready(0), Cause::Woken), Notify::Nobody);
    assert!(a.holds_private() && !b.has_work());
    assert_eq!(a.push(threads.ready(1), Cause::Woken), Notify::Anyone);
    assert!(b.has_work());
    // Threads that wake each other through the slot let the one in the queue run.
    let mut selections = 0;
    while threads.number(a.next(0).unwrap()) != 0 {
        let _ = a.push(threads.ready(2 + selections as usize % 2), Cause::Woken);
        selections += 1;
        assert!(selections <= SLOT_RUN, "the one in the queue did not run");
    }
    threads.discard(&mut *a);
    // Not while somebody is hungry.
    says.hungry.store(true, Ordering::Relaxed);
    assert_eq!(a.push(threads.ready(0), Cause::Woken), Notify::Anyone);
    assert!(!a.holds_private());
    threads.discard(&mut *a);
}

#[test]
fn a_stack_that_never_empties_starves_neither_its_oldest_nor_those_that_yield() {
    let (policy, _) = make("local(lifo)", 1);
    let threads = Threads::new(4);
    let mut local = policy.local(0);
    let _ = local.push(threads.ready(0), Cause::Spawned);
    let _ = local.push(threads.ready(1), Cause::Yielded);
    let mut ran = [None; 2];
    for selection in 0..=2 * ELDERS {
        let _ = local.push(threads.ready(2), Cause::Woken);
        let number = threads.number(local.next(0).unwrap());
        if number < 2 {
            ran[number] = Some(selection);
            let _ = local.next(0).map(|ready| threads.number(ready));
        }
    }
    assert!(ran[0].is_some_and(|selection| selection <= 2 * ELDERS), "the oldest ran at {:?}", ran[0]);
    assert!(ran[1].is_some_and(|selection| selection <= ROUND), "the one that yielded ran at {:?}", ran[1]);
    threads.discard(&mut *local);
}

#[test]
fn batches_and_victims_are_as_they_are_written() {
    let threads = Threads::new(16);
    for (options, more) in [("batch=half", 3), ("batch=one", 0), ("batch=min(8)", 3), ("batch=min(9, rare=5)", 3)] {
        let (policy, _) = make(&format!("local({options})"), 3);
        let mut locals: Vec<_> = (0..3).map(|i| policy.local(i)).collect();
        for number in 0..8 {
            let _ = locals[0].push(threads.ready(number), Cause::Woken);
        }
        assert_eq!(locals[1].search().map(|ready| threads.number(ready)), Some(0), "{options}");
        assert_eq!(order(threads, &mut *locals[1]).len(), more, "{options}");
        threads.discard(&mut *locals[0]);
    }
    // Those who are near first, whatever the random start.
    for (options, near, far) in [("victims=neighbours(1)", 2, 0), ("victims=clusters(2)", 0, 2)] {
        for _ in 0..20 {
            let (policy, _) = make(&format!("local({options})"), 4);
            let mut locals: Vec<_> = (0..4).map(|i| policy.local(i)).collect();
            let _ = locals[near].push(threads.ready(near), Cause::Woken);
            let _ = locals[far].push(threads.ready(far), Cause::Woken);
            let came = [0; 2].map(|_| locals[1].search().map(|ready| threads.number(ready)));
            assert_eq!(came, [Some(near), Some(far)], "{options}");
        }
    }
}
