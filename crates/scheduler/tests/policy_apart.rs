//! Threads that have run apart from those that have not started, under any two policies.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_scheduler::expression::TURN;
use raddle_scheduler::{Cause, Local, Policy};

fn take(threads: Threads, local: &mut dyn Local<raddle_machine::Real>) -> Option<usize> {
    local.next(u8::MAX).map(|ready| threads.number(ready))
}

#[test]
fn holds_what_every_policy_must() {
    for expression in [
        "apart(fifo, fifo)",
        "apart(steal, local(overflow=retry), turn=1)",
        "apart(waiver, lifo, turn=2)",
        "apart(multiqueue(2), request(naive))",
        "clustered(2, apart(steal, steal(fifo)))",
        "priority(2, apart(fifo, lifo), aging=7)",
    ] {
        holds(expression, 80);
    }
}

#[test]
fn who_has_run_goes_first_each_in_the_order_of_its_policy() {
    let (policy, _) = make("apart(fifo, lifo)", 1);
    assert_eq!((policy.describe().as_str(), policy.priorities()), ("apart(fifo, lifo)", 1));
    let threads = Threads::new(8);
    let mut local = policy.local(0);
    let causes = [Cause::Spawned, Cause::Woken, Cause::Spawned, Cause::Yielded, Cause::Submitted, Cause::Spawned];
    for (number, cause) in causes.into_iter().enumerate() {
        let _ = local.push(threads.ready(number), cause);
    }
    let _ = policy.submit(threads.ready(6));
    let order: Vec<usize> = std::iter::from_fn(|| take(threads, &mut *local)).collect();
    assert_eq!(order, [1, 3, 4, 6, 5, 2, 0]);
}

#[test]
fn threads_that_always_yield_let_new_ones_start() {
    for (expression, turn) in [("apart(fifo, fifo)", TURN), ("apart(steal, fifo, turn=5)", 5)] {
        let (policy, _) = make(expression, 1);
        let threads = Threads::new(5);
        let mut local = policy.local(0);
        for number in 0..5 {
            let _ = local.push(threads.ready(number), if number < 2 { Cause::Yielded } else { Cause::Spawned });
        }
        let (mut started, mut selections) = (Vec::new(), 0);
        while started.len() < 3 {
            selections += 1;
            match take(threads, &mut *local).unwrap() {
                new @ 2.. => started.push(new),
                yields => drop(local.push(threads.ready(yields), Cause::Yielded)),
            }
            assert!(selections <= 3 * turn, "{expression}: {started:?} after {selections} selections");
        }
        assert_eq!(started, [2, 3, 4], "{expression}");
        threads.discard(&mut *local);
    }
}

#[test]
fn a_searcher_finds_who_has_run_before_who_has_not() {
    let (policy, says) = make("apart(steal, steal)", 2);
    says.hungry.store(true, std::sync::atomic::Ordering::Relaxed);
    let threads = Threads::new(2);
    let mut locals: Vec<_> = (0..2).map(|index| policy.local(index)).collect();
    let _ = locals[0].push(threads.ready(0), Cause::Spawned);
    let _ = locals[0].push(threads.ready(1), Cause::Woken);
    assert_eq!(locals[1].search().map(|ready| threads.number(ready)), Some(1));
    assert_eq!(locals[1].search().map(|ready| threads.number(ready)), Some(0));
    assert_eq!(locals[1].steals().1, 2);
    assert!(!policy.offers());
}
