//! The controlled machine finds what it is there to find, and the same seed makes the same run.

use raddle_machine::{Atomic, Machine, Ordering};
use raddle_sim::{ByChance, Choice, Controlled, Driver, Options, Outcome, Published, Run, World, run, start, work};
use std::cell::Cell;
use std::rc::Rc;

type Word = <Controlled as Machine>::Atomic<u32>;

fn by_chance<T>(seed: u64, setup: impl FnOnce() -> T) -> Run<ByChance, T> {
    run(&Options { seed, steps: 10_000, trace: true, ..Options::default() }, ByChance::new(seed), setup)
}

/// Two coroutines count: by a load and a store, or by one addition.
fn count(seed: u64, in_one_step: bool) -> Run<ByChance, Rc<Word>> {
    by_chance(seed, || {
        let count = Rc::new(Word::new(0));
        for name in ["first", "second"] {
            let count = count.clone();
            start(name, move || {
                if in_one_step {
                    count.fetch_add(1, Ordering::Relaxed);
                } else {
                    let seen = count.load(Ordering::Relaxed);
                    count.store(seen + 1, Ordering::Relaxed);
                }
            });
        }
        count
    })
}

#[test]
fn a_lost_update_is_found_and_a_read_modify_write_loses_none() {
    let results = |in_one_step| -> Vec<u32> {
        let end = |seed| {
            let run = count(seed, in_one_step);
            assert_eq!(run.outcome, Outcome::Done);
            run.value.load(Ordering::Relaxed)
        };
        (0..50).map(end).collect()
    };
    let apart = results(false);
    assert!(apart.contains(&1) && apart.contains(&2), "{apart:?}");
    assert!(results(true).iter().all(|&count| count == 2));
}

#[test]
fn the_same_seed_makes_the_same_trace() {
    for seed in 0..20 {
        // What is allocated in between moves the addresses.
        let _other: Vec<Box<u64>> = (0..seed).map(Box::new).collect();
        let (a, b) = (count(seed, false), count(seed, false));
        assert!(!a.trace.is_empty());
        assert_eq!(a.trace_text(), b.trace_text(), "seed {seed}");
        assert_eq!(a.digest, b.digest, "seed {seed}");
    }
    let traces: std::collections::BTreeSet<String> = (0..20).map(|seed| count(seed, false).trace_text()).collect();
    assert!(traces.len() > 1, "no two seeds differ");
    let digests: std::collections::BTreeSet<u64> = (0..20).map(|seed| count(seed, false).digest).collect();
    assert_eq!(digests.len(), traces.len());
}

/// One coroutine writes a message and raises a flag, the other reads the message when it sees the flag.
fn pass(seed: u64, store: Ordering, load: Ordering) -> Outcome {
    let run = by_chance(seed, || {
        let message = Rc::new(Published::new(0));
        let flag = Rc::new(Word::new(0));
        let (text, raised) = (message.clone(), flag.clone());
        start("writer", move || {
            text.with_mut(|text| *text = 7);
            raised.store(1, store);
        });
        start("reader", move || {
            while flag.load(load) == 0 {
                Controlled::spin_hint();
            }
            message.with(|text| assert_eq!(*text, 7));
        });
    });
    run.outcome
}

#[test]
fn a_message_passed_with_a_weak_ordering_is_reported() {
    for seed in 0..50 {
        assert_eq!(pass(seed, Ordering::Release, Ordering::Acquire), Outcome::Done, "seed {seed}");
        for (store, load) in [(Ordering::Relaxed, Ordering::Acquire), (Ordering::Release, Ordering::Relaxed)] {
            match pass(seed, store, load) {
                Outcome::Panicked { name, message } => {
                    assert_eq!(name, "reader");
                    assert!(message.contains("unordered") && message.contains("`writer`"), "{message}");
                    assert!(message.contains("machine.rs"), "it says where: {message}");
                }
                other => panic!("seed {seed}: {other}"),
            }
        }
    }
}

#[test]
fn a_panic_is_an_outcome_and_the_others_are_left() {
    let dropped = Rc::new(Cell::new(false));
    struct Says(Rc<Cell<bool>>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let said = Says(dropped.clone());
    let run = by_chance(3, || {
        let word = Rc::new(Word::new(0));
        let theirs = word.clone();
        start("sleeper", move || {
            let _said = said;
            Controlled::wait(&theirs, 0, None);
        });
        start("victim", move || {
            word.fetch_add(1, Ordering::AcqRel);
            word.fetch_add(1, Ordering::AcqRel);
            panic!("on purpose");
        });
    });
    let Outcome::Panicked { name, message } = &run.outcome else { panic!("{}", run.outcome) };
    assert!(name == "victim" && message.starts_with("on purpose"), "{}", run.outcome);
    // A stack that is left is never unwound: others may have borrowed from it. One that never began is given back.
    let began = run.trace.iter().any(|step| step.core == 0);
    assert_eq!(dropped.get(), !began);
}

#[test]
fn who_spins_for_ever_is_named() {
    let run = by_chance(1, || {
        let word = Rc::new(Word::new(0));
        let theirs = word.clone();
        start("patient", move || theirs.store(1, Ordering::Release));
        start("spinner", move || {
            while word.load(Ordering::Acquire) != 2 {
                Controlled::spin_hint();
            }
        });
    });
    let Outcome::Endless { name, steps, .. } = &run.outcome else { panic!("{}", run.outcome) };
    assert_eq!(name, "spinner");
    assert!(*steps > 9_000 && run.steps == 10_000, "{steps} of {}", run.steps);
    assert!(run.outcome.to_string().contains("goes on without end"), "{}", run.outcome);
}

#[test]
fn a_lost_wake_up_leaves_a_sleeper_and_a_right_one_does_not() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..100 {
        for bell_first in [false, true] {
            let run = by_chance(seed, || {
                let bell = Rc::new(Word::new(0));
                let theirs = bell.clone();
                start("sleeper", move || {
                    while bell.load(Ordering::Acquire) == 0 {
                        Controlled::wait(&bell, 0, None);
                    }
                });
                start("waker", move || {
                    if bell_first {
                        Controlled::wake(&theirs, 1);
                    }
                    theirs.store(1, Ordering::Release);
                    if !bell_first {
                        Controlled::wake(&theirs, 1);
                    }
                });
            });
            outcomes.insert(format!("{bell_first}: {}", run.outcome));
        }
    }
    let expected = ["false: all ended", "true: all ended", "true: asleep for ever: sleeper"];
    assert_eq!(outcomes.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn deadlines_pass_when_nobody_can_go_on() {
    let run = by_chance(0, || {
        let word = Rc::new(Word::new(0));
        for (name, deadline) in [("late", 2_000), ("early", 1_000)] {
            let word = word.clone();
            start(name, move || {
                Controlled::wait(&word, 0, Some(deadline));
                assert!(Controlled::now() >= deadline);
            });
        }
    });
    assert_eq!(run.outcome, Outcome::Done);
}

#[test]
fn a_wake_up_for_no_reason_is_one_more_choice() {
    let ends = |disturb| {
        let one = |seed| {
            let driver = ByChance::new(seed).disturbing(disturb);
            let run = run(&Options::default(), driver, || {
                let word = Rc::new(Word::new(0));
                let theirs = word.clone();
                start("sleeper", move || Controlled::wait(&word, 0, None));
                start("busy", move || (0..20).for_each(|_| theirs.store(0, Ordering::Relaxed)));
            });
            run.outcome == Outcome::Done
        };
        (0..20).filter(|&seed| one(seed)).count()
    };
    assert_eq!(ends(0), 0);
    assert!(ends(3) > 10);
}

#[test]
fn coroutines_start_others_and_nobody_outlives_a_stop() {
    struct Count(usize);
    impl Driver for Count {
        fn choose(&mut self, world: &World) -> Choice {
            self.0 += 1;
            if self.0 > 10 { Choice::Stop } else { world.ready().last().map_or(Choice::Stop, Choice::Go) }
        }
    }
    let run = run(&Options::default(), Count(0), || {
        start("first", || {
            let second = start("second", || {
                for _ in 0..100 {
                    work(5);
                }
            });
            assert_eq!(second, 1);
            work(1);
        });
    });
    assert_eq!(run.outcome, Outcome::Stopped);
    assert_eq!(run.driver.0, 11);
}

#[test]
fn outside_of_runs_words_are_plain_and_runs_do_not_nest() {
    let word = Word::new(3);
    assert_eq!(word.fetch_add(1, Ordering::SeqCst), 3);
    assert_eq!(raddle_sim::current(), None);
    let used = by_chance(0, || {
        let word = Rc::new(word);
        let theirs = word.clone();
        start("one", move || {
            theirs.store(9, Ordering::Release);
            assert_eq!(raddle_sim::current(), Some(0));
        });
        word
    });
    assert_eq!((used.outcome.clone(), used.value.load(Ordering::Relaxed)), (Outcome::Done, 9));
    assert_eq!(used.trace_text(), "0 Begin\n0 Store @0 Release 4 -> 9\n");
    let nested = std::panic::catch_unwind(|| by_chance(0, || by_chance(1, || ()).outcome).outcome);
    assert!(nested.is_err());
    // The failed setup has left nothing behind.
    assert_eq!(by_chance(0, || ()).outcome, Outcome::Done);
}
