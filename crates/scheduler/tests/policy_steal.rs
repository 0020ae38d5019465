//! The default policy: what every policy is held to, its order, its fairness, and what it shares when.

mod policy_common;

use policy_common::{Threads, holds, make};
use raddle_machine::Real;
use raddle_scheduler::expression::{Expression, Stealing};
use raddle_scheduler::policies::steal::{CROWD, ELDERS, ROUND, Steal, StealLocal};
use raddle_scheduler::policies::{AnyPolicy, Busy};
use raddle_scheduler::{Cause, Local, Notify, Policy};
use std::sync::Arc;

/// Who steps back has time without end: a slow machine makes no difference.
fn parts(options: &str, processors: usize) -> Vec<StealLocal<Real>> {
    patient(options, processors, u64::MAX)
}

fn patient(options: &str, processors: usize, patience_ns: u64) -> Vec<StealLocal<Real>> {
    let Ok(Expression::Steal(options)) = options.parse() else { panic!("not a steal: {options}") };
    let policy = Steal::with_patience(options, processors, Arc::new(Busy), patience_ns).unwrap();
    (0..processors).map(|i| policy.local_part(i)).collect()
}

fn order(threads: Threads, local: &mut StealLocal<Real>) -> Vec<usize> {
    std::iter::from_fn(|| local.take()).map(|ready| threads.number(ready)).collect()
}

#[test]
fn holds_what_every_policy_must() {
    for expression in ["steal", "steal(fifo)", "steal(batch=one)", "steal(victims=neighbours(1), batch=min(4))"] {
        holds(expression, 80);
    }
}

#[test]
fn woken_threads_leave_in_order_and_before_new_ones_which_leave_newest_first() {
    let threads = Threads::new(6);
    let mut local = parts("steal", 1).remove(0);
    for number in 0..3 {
        assert_eq!(local.push_with(threads.ready(number), Cause::Spawned, false), Notify::Nobody);
        let _ = local.push_with(threads.ready(number + 3), Cause::Woken, false);
    }
    assert_eq!(order(threads, &mut local), [3, 4, 5, 2, 1, 0]);
}

#[test]
fn in_fifo_order_all_leave_as_they_came() {
    let threads = Threads::new(200);
    let mut local = parts("steal(fifo)", 1).remove(0);
    for number in 0..200 {
        let _ = local.push_with(threads.ready(number), [Cause::Spawned, Cause::Woken][number % 2], false);
    }
    assert_eq!(order(threads, &mut local), (0..200).collect::<Vec<_>>());
}

#[test]
fn threads_that_wake_each_other_keep_no_third_one_waiting() {
    let threads = Threads::new(3);
    let mut local = parts("steal", 1).remove(0);
    let _ = local.push_with(threads.ready(0), Cause::Woken, false);
    let _ = local.push_with(threads.ready(2), Cause::Woken, false);
    assert_eq!(threads.number(local.take().unwrap()), 0);
    // 0 wakes 1 and blocks.
    let _ = local.push_with(threads.ready(1), Cause::Woken, false);
    assert_eq!(order(threads, &mut local), [2, 1]);
}

#[test]
fn what_is_kept_is_hidden_until_it_is_shared() {
    let threads = Threads::new(3);
    let mut locals = parts("steal", 2);
    let mut thief = locals.pop().unwrap();
    let mut local = locals.pop().unwrap();
    let _ = local.push_with(threads.ready(0), Cause::Woken, false);
    let _ = local.push_with(threads.ready(1), Cause::Yielded, false);
    assert_eq!((local.hidden(), local.hides_unstarted()), (2, false));
    assert!(thief.search_all().is_none());
    // A push that is told to shares what was kept, too.
    assert_eq!(local.push_with(threads.ready(2), Cause::Woken, true), Notify::Anyone);
    assert_eq!((local.hidden(), thief.search_all().is_some()), (0, true));
    drop(order(threads, &mut local));
    drop(order(threads, &mut thief));
}

#[test]
fn what_is_kept_after_a_search_in_vain_wakes_nobody() {
    let threads = Threads::new(4);
    let mut locals = parts("steal", 2);
    let mut other = locals.pop().unwrap();
    let mut local = locals.pop().unwrap();
    // It ran dry, searched, and was given one; then it looked at one that stands still.
    assert!(local.search_all().is_none());
    assert_eq!(local.push_with(threads.ready(0), Cause::Woken, false), Notify::Nobody);
    assert_eq!(threads.number(local.take().unwrap()), 0);
    assert!(local.take_from(1).is_none());
    assert_eq!(local.push_with(threads.ready(1), Cause::Woken, false), Notify::Nobody);
    assert!(other.search_all().is_none());
    // What a search brought home is as open as before.
    assert_eq!(other.push_with(threads.ready(2), Cause::Woken, true), Notify::Anyone);
    assert_eq!(other.push_with(threads.ready(3), Cause::Woken, true), Notify::Anyone);
    assert_eq!(local.take_from(1).map(|ready| threads.number(ready)), Some(2));
    for local in [&mut local, &mut other] {
        drop(order(threads, local));
    }
}

#[test]
fn the_oldest_that_has_not_started_starts_although_newer_ones_keep_coming() {
    let threads = Threads::new(2 + ELDERS as usize);
    let mut local = parts("steal", 1).remove(0);
    let _ = local.push_with(threads.ready(0), Cause::Spawned, false);
    let mut newest = 1;
    loop {
        let _ = local.push_with(threads.ready(newest), Cause::Spawned, false);
        if threads.number(local.take().unwrap()) == 0 {
            break;
        }
        newest += 1;
        assert!(newest <= ELDERS as usize, "the oldest never started");
    }
    drop(order(threads, &mut local));
}

#[test]
fn new_threads_start_although_others_yield() {
    let threads = Threads::new(2);
    let mut local = parts("steal", 1).remove(0);
    let _ = local.push_with(threads.ready(1), Cause::Spawned, false);
    for selection in 0.. {
        assert!(selection <= ROUND, "the new thread did not start");
        let _ = local.push_with(threads.ready(0), Cause::Yielded, false);
        if threads.number(local.take().unwrap()) == 1 {
            break;
        }
    }
    drop(order(threads, &mut local));
}

#[test]
fn of_two_threads_that_yield_in_turn_a_hungry_processor_gets_one() {
    let threads = Threads::new(2);
    let mut both = parts("steal", 2);
    let mut other = both.remove(1);
    let mut local = both.remove(0);
    // Thread 1 runs; thread 0 has yielded to it.
    assert_eq!(local.push_with(threads.ready(0), Cause::Yielded, true), Notify::Anyone);
    assert_eq!(threads.number(other.search_all().unwrap()), 0);
    assert!(local.take().is_none());
    let _ = threads.ready(1).into_thread();
}

#[test]
fn hungry_processors_get_what_was_private() {
    let threads = Threads::new(20);
    let mut both = parts("steal", 2);
    let mut thief = both.remove(1);
    let mut local = both.remove(0);
    // The first pair opens the window: what follows is hidden while nobody is hungry.
    let _ = local.push_with(threads.ready(0), Cause::Woken, false);
    let first = local.take().unwrap();
    for number in 1..10 {
        assert_eq!(local.push_with(threads.ready(number), Cause::Woken, false), Notify::Nobody);
        assert_eq!(local.push_with(threads.ready(number + 10), Cause::Spawned, false), Notify::Nobody);
    }
    assert!(local.holds_private() && !thief.has_work() && thief.search_all().is_none());
    assert_eq!(local.share(), Notify::Anyone);
    assert!(thief.has_work() && !local.holds_private());
    assert_eq!(threads.number(thief.search_all().unwrap()), 1);
    // Half of the nine came along.
    assert_eq!(thief.len(), 4);
    assert_eq!(thief.steals(), (1, 1));
    let mut rest = vec![threads.number(first)];
    for local in [&mut local, &mut thief] {
        local.drain(&mut |ready| rest.push(threads.number(ready)));
    }
    assert_eq!(rest.len(), 18);
}

#[test]
fn options_say_how_much_is_taken_and_from_whom() {
    let threads = Threads::new(16);
    for (options, more) in
        [("steal", 3), ("steal(batch=one)", 0), ("steal(batch=min(8))", 3), ("steal(batch=min(9))", 3)]
    {
        let mut locals = parts(options, 3);
        for number in 0..8 {
            let _ = locals[0].push_with(threads.ready(number), Cause::Woken, true);
        }
        assert_eq!(threads.number(locals[1].search_all().unwrap()), 0, "{options}");
        assert_eq!(locals[1].len(), more, "{options}");
        for local in &mut locals {
            threads.discard(local);
        }
    }
    // The neighbour first, whatever the random start; those farther away when it has nothing.
    for _ in 0..20 {
        let mut locals = parts("steal(victims=neighbours(1))", 4);
        let _ = locals[2].push_with(threads.ready(2), Cause::Woken, true);
        let _ = locals[0].push_with(threads.ready(0), Cause::Woken, true);
        assert_eq!(threads.number(locals[1].search_all().unwrap()), 2);
        assert_eq!(threads.number(locals[1].search_all().unwrap()), 0);
    }
}

#[test]
fn a_thief_takes_no_more_than_it_can_copy_before_the_owner_comes_again() {
    for (options, cause) in [("steal", Cause::Woken), ("steal", Cause::Spawned), ("steal(fifo)", Cause::Spawned)] {
        let count = if cfg!(miri) { 3000 } else { 100_000 };
        let threads = Threads::new(count);
        let mut parts = parts(options, 2);
        for number in 0..count {
            let _ = parts[0].push_with(threads.ready(number), cause, true);
        }
        let first = parts[1].search_all().expect("everything was published");
        let stolen = threads.number(first);
        assert_eq!(stolen, 0, "the oldest comes first");
        let mut thief = 1;
        while let Some(ready) = parts[1].take() {
            threads.number(ready);
            thief += 1;
        }
        assert_eq!(thief, 1024, "{options} {cause:?}");
        let mut left = 0;
        while let Some(ready) = parts[0].take() {
            threads.number(ready);
            left += 1;
        }
        assert_eq!(left, count - thief);
    }
}

#[test]
fn threads_from_outside_are_found_by_whoever_is_there() {
    let threads = Threads::new(3);
    let policy = Steal::<Real>::new(Stealing::default(), 2, Arc::new(Busy)).unwrap();
    let (mut a, mut b) = (policy.local_part(0), policy.local_part(1));
    for number in 0..3 {
        assert_eq!(policy.submit(threads.ready(number)), Notify::Anyone);
    }
    assert!(a.has_work() && b.has_work());
    assert_eq!(threads.number(a.take().unwrap()), 0);
    // The second is in the batch that the owner claimed with the first.
    assert_eq!(threads.number(b.search_all().unwrap()), 2);
    assert_eq!(threads.number(a.take().unwrap()), 1);
    // A busy processor looks too, though its own queue never runs dry.
    let _ = policy.submit(threads.ready(0));
    for selection in 0.. {
        assert!(selection <= ELDERS + 2, "the thread from outside did not run");
        for number in 1..3 {
            let _ = a.push_with(threads.ready(number), Cause::Yielded, false);
        }
        let taken = [threads.number(a.take().unwrap()), threads.number(a.take().unwrap())];
        if taken.contains(&0) {
            break;
        }
    }
    threads.discard(&mut a);
}

#[test]
fn the_default_is_known_by_its_type() {
    let (policy, _) = make("steal(fifo, batch=min(3))", 2);
    assert_eq!(policy.describe(), "steal(fifo, batch=min(3))");
    assert!(matches!(policy, AnyPolicy::Steal(_)));
    assert!(policy.strands().contains("taken over"));
    assert_eq!((policy.priorities(), policy.ring()), (1, false));
}

/// Spawns threads `from..` until the spawner is to step back; the number after the last one.
fn spawn_until_crowded(threads: &Threads, local: &mut StealLocal<Real>, from: usize) -> usize {
    (from..)
        .find(|&number| {
            let _ = local.push_with(threads.ready(number), Cause::Spawned, false);
            local.crowded()
        })
        .unwrap()
        + 1
}

#[test]
fn who_has_spawned_many_goes_on_when_they_have_started() {
    const MANY: usize = CROWD as usize;
    let threads = Threads::new(3 * MANY);
    let mut local = parts("steal", 1).remove(0);
    let spawner = 3 * MANY - 1;
    for round in 0..2 {
        let next = spawn_until_crowded(&threads, &mut local, round * MANY);
        assert_eq!(next, (round + 1) * MANY);
        assert!(local.step_back(threads.ready(spawner)).is_ok() && local.holds_private() && local.has_own());
        let mut started: Vec<_> = (0..MANY).map(|_| threads.number(local.take().unwrap())).collect();
        assert!(!local.crowded());
        started.sort_unstable();
        assert_eq!(started, (round * MANY..next).collect::<Vec<_>>());
        assert_eq!(threads.number(local.take().unwrap()), spawner);
    }
    assert!(local.take().is_none() && !local.has_own());
}

#[test]
fn who_steps_back_waits_for_its_own_threads_and_not_for_older_ones() {
    const MANY: usize = CROWD as usize;
    let threads = Threads::new(3 * MANY + 2);
    let (outer, inner) = (3 * MANY, 3 * MANY + 1);
    let mut local = parts("steal", 1).remove(0);
    let next = spawn_until_crowded(&threads, &mut local, 0);
    assert!(local.step_back(threads.ready(outer)).is_ok());
    // The newest starts, and spawns as many.
    let first = threads.number(local.take().unwrap());
    assert_eq!(first, next - 1);
    spawn_until_crowded(&threads, &mut local, next);
    assert!(local.step_back(threads.ready(inner)).is_ok());
    let order = order(threads, &mut local);
    let place = |number| order.iter().position(|&other| other == number).unwrap();
    let before = |from: usize, to: usize, spawner| (from..to).filter(|&n| n != first && place(n) < spawner).count();
    // Some of the older ones start by their turn, as ever.
    let in_turn = MANY / ELDERS as usize + 1;
    assert!(before(next, 2 * MANY, place(inner)) + in_turn >= MANY);
    assert!(before(0, next, place(inner)) <= in_turn, "depth first");
    assert_eq!(before(0, next, place(outer)), MANY - 1);
}

#[test]
fn who_steps_back_does_not_wait_for_threads_that_others_have_taken() {
    const MANY: usize = CROWD as usize;
    let threads = Threads::new(MANY + 1);
    let mut locals = parts("steal", 2);
    let mut thief = locals.pop().unwrap();
    let mut local = locals.pop().unwrap();
    spawn_until_crowded(&threads, &mut local, 0);
    assert!(local.step_back(threads.ready(MANY)).is_ok());
    let _ = local.publish();
    // It is not for thieves while threads wait that have not started.
    let mut taken = 0;
    while let Some(ready) = thief.search_all() {
        assert_ne!(threads.number(ready), MANY);
        taken += 1;
    }
    assert_eq!(taken, MANY);
    assert_eq!(threads.number(local.take().unwrap()), MANY);
    // And here it is: the processor computes, and nothing else is here.
    let refused = local.step_back(threads.ready(MANY)).expect_err("none waits");
    assert_eq!(threads.number(refused), MANY);
    spawn_until_crowded(&threads, &mut local, 0);
    assert!(local.step_back(threads.ready(MANY)).is_ok());
    let mut all = Vec::new();
    local.drain(&mut |ready| all.push(threads.number(ready)));
    assert_eq!((all.len(), local.has_own()), (MANY + 1, false));
}

#[test]
fn who_steps_back_is_anybodys_when_its_threads_compute() {
    const MANY: usize = CROWD as usize;
    let threads = Threads::new(3 * MANY + 1);
    let mut locals = parts("steal", 2);
    let mut other = locals.pop().unwrap();
    let mut local = locals.pop().unwrap();
    let next = spawn_until_crowded(&threads, &mut local, 0);
    assert!(local.step_back(threads.ready(3 * MANY)).is_ok());
    // One that spins until its spawner goes on, which the runtime sees.
    assert_eq!(threads.number(local.take().unwrap()), next - 1);
    assert_eq!(local.expose(), Notify::Anyone);
    let found: Vec<_> = std::iter::from_fn(|| other.search_all()).map(|ready| threads.number(ready)).collect();
    assert!(found.contains(&(3 * MANY)), "{found:?}");
    // It steps back after twice as many then, and as before when those that it has spawned have started.
    assert_eq!(spawn_until_crowded(&threads, &mut local, MANY), 3 * MANY);
    assert!(local.step_back(threads.ready(3 * MANY)).is_ok());
    while threads.number(local.take().unwrap()) != 3 * MANY {}
    assert_eq!(spawn_until_crowded(&threads, &mut local, 0), MANY);
    local.drain(&mut |ready| _ = threads.number(ready));
}

#[test]
fn who_steps_back_is_not_held_up_for_longer_than_its_patience() {
    const MANY: usize = CROWD as usize;
    let threads = Threads::new(MANY + 1);
    let mut local = patient("steal", 1, 0).remove(0);
    spawn_until_crowded(&threads, &mut local, 0);
    assert!(local.step_back(threads.ready(MANY)).is_ok());
    // Its turn comes beside the threads that start.
    let order = order(threads, &mut local);
    let place = order.iter().position(|&number| number == MANY).unwrap();
    assert!(place < ROUND as usize, "{place}");
}
