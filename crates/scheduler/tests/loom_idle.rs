//! Idle and wake-up in all interleavings: a pusher and two processors that search and sleep. There are as many threads
//! to run as processors, and each processor ends when it has one; so a lost wake-up leaves one asleep for ever, which
//! loom reports.
#![cfg(feature = "loom")]

use loom::sync::Arc;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::idle::Idle;
use std::collections::BTreeSet;
use std::sync::Mutex;

struct Model {
    idle: Idle<Loom>,
    /// Takeable threads: a count stands for a queue that has room.
    work: <Loom as Machine>::Atomic<u32>,
}

impl Model {
    fn push(&self) {
        self.work.fetch_add(1, Ordering::Release);
        self.idle.notify();
    }

    fn take(&self) -> bool {
        let mut there = self.work.load(Ordering::Acquire);
        while there > 0 {
            match self.work.compare_exchange(there, there - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => there = now,
            }
        }
        false
    }

    /// A processor without work, until it has some. Returns how often it slept and why it last woke.
    fn until_found(&self, me: usize) -> String {
        self.idle.begin_search(me);
        let mut history = String::from("searched");
        while !self.take() {
            let woken = self.idle.sleep(me, None, false, || self.work.load(Ordering::Relaxed) > 0);
            history = format!("{woken:?}");
        }
        self.idle.found(me);
        history
    }
}

fn explore(preemptions: Option<usize>, expected: &[&str], sleepers: usize, pushers: &'static [u32]) {
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        let model = Arc::new(Model { idle: Idle::new(sleepers), work: <Loom as Machine>::Atomic::new(0) });
        let searching: Vec<_> = (0..sleepers)
            .map(|me| {
                let model = model.clone();
                loom::thread::spawn(move || {
                    let history = model.until_found(me);
                    seen.lock().unwrap().insert(history);
                })
            })
            .collect();
        let pushing: Vec<_> = pushers[1..]
            .iter()
            .map(|&count| {
                let model = model.clone();
                loom::thread::spawn(move || (0..count).for_each(|_| model.push()))
            })
            .collect();
        (0..pushers[0]).for_each(|_| model.push());
        for thread in searching.into_iter().chain(pushing) {
            thread.join().unwrap();
        }
        assert!(!model.idle.hungry(), "at rest nobody searches or sleeps");
        assert_eq!(model.work.load(Ordering::Relaxed), 0);
    });
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        expected.iter().map(|s| s.to_string()).collect(),
        "reached outcomes differ from the possible ones"
    );
}

#[test]
fn one_sleeper_is_never_forgotten() {
    explore(None, &["Called", "Work", "searched"], 1, &[1]);
}

#[test]
fn two_sleepers_and_a_pusher() {
    explore(Some(2), &["Called", "Work", "searched"], 2, &[2]);
}

#[test]
fn a_sleeper_and_two_pushers() {
    // The second thread stays: the processor ends with the first. Both pushers may try to wake it; one call is made.
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Arc::new(Model { idle: Idle::new(1), work: <Loom as Machine>::Atomic::new(0) });
        let pushers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                loom::thread::spawn(move || model.push())
            })
            .collect();
        let history = model.until_found(0);
        seen.lock().unwrap().insert(history);
        for thread in pushers {
            thread.join().unwrap();
        }
        assert!(!model.idle.hungry());
        assert_eq!(model.work.load(Ordering::Relaxed), 1);
    });
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, ["Called", "Work", "searched"].map(String::from).into(), "reached outcomes");
}

/// A waker frozen between its two halves: it has taken a sleeper's bit and will not ring. Somebody else pushes what the
/// other sleepers are to run, and the monitor looks once, at some time after.
fn explore_frozen(sleepers: usize, preemptions: usize) {
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Arc::new(Model { idle: Idle::new(sleepers), work: <Loom as Machine>::Atomic::new(0) });
        let searching: Vec<_> = (0..sleepers)
            .map(|me| {
                let model = model.clone();
                loom::thread::spawn(move || model.until_found(me))
            })
            .collect();
        let frozen = loom::thread::spawn({
            let model = model.clone();
            move || {
                model.work.fetch_add(1, Ordering::Release);
                Loom::light_fence();
                model.idle.call_one(true).is_some()
            }
        });
        (1..sleepers).for_each(|_| model.push());
        let left = frozen.join().unwrap();
        model.idle.kick();
        let mut slept = searching.into_iter().map(|thread| thread.join().unwrap() == "Called").filter(|called| *called);
        seen.lock().unwrap().insert(format!("{left} {}", slept.next().is_some()));
        slept.for_each(drop);
        assert!(!model.idle.hungry(), "at rest nobody searches or sleeps");
        assert_eq!((model.idle.sleeping(), model.work.load(Ordering::Relaxed)), (0, 0));
    });
    let seen = seen.lock().unwrap().clone();
    // Not called by the frozen one, a sleeper may still be called by the monitor.
    let expected = ["false false", "false true", "true true"].map(String::from).into();
    assert_eq!(seen, expected, "left asleep and called: reached outcomes differ from the possible ones");
}

#[test]
fn a_frozen_waker_leaves_nobody_asleep_after_the_monitors_look() {
    explore_frozen(1, 2);
}

#[test]
fn a_frozen_waker_does_not_keep_the_others_asleep_after_the_monitors_look() {
    explore_frozen(2, 1);
}

/// A processor that sleeps on something else than its bell (a word here, in the reactor the kernel's wait for events),
/// where an event and a call may come at the same time: neither is lost, and the event ends the sleep at most once.
#[test]
fn who_sleeps_elsewhere_is_called_and_sees_what_comes_there() {
    const RUNG: u32 = 1;
    const EVENT: u32 = 2;
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let word = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        let raise = |bit: u32, word: &<Loom as Machine>::Atomic<u32>| {
            word.fetch_or(bit, Ordering::Release);
            Loom::wake(word, 1);
        };
        let alarmed = word.clone();
        let idle = Idle::with_alarm(1, move || raise(RUNG, &alarmed));
        let model = Arc::new(Model { idle, work: <Loom as Machine>::Atomic::new(0) });
        let event = loom::thread::spawn({
            let word = word.clone();
            move || raise(EVENT, &word)
        });
        let pusher = loom::thread::spawn({
            let model = model.clone();
            move || model.push()
        });
        model.idle.begin_search(0);
        let (mut history, mut events) = (String::new(), 0);
        while !model.take() {
            let block = |_| {
                let mut came = word.swap(0, Ordering::Acquire);
                while came == 0 {
                    Loom::wait(&word, 0, None);
                    came = word.swap(0, Ordering::Acquire);
                }
                events += came / EVENT;
                came & EVENT != 0
            };
            let woken = model.idle.sleep_elsewhere(0, None, false, || model.work.load(Ordering::Relaxed) > 0, block);
            history += &format!("{woken:?} ");
            if woken == raddle_scheduler::idle::Woken::Elsewhere {
                assert!(!model.idle.hungry(), "who was called away by an event is busy");
                model.idle.begin_search(0);
            }
        }
        model.idle.found(0);
        event.join().unwrap();
        pusher.join().unwrap();
        assert!(!model.idle.hungry(), "at rest nobody searches or sleeps");
        assert!(events <= 1);
        seen.lock().unwrap().insert(history);
    });
    let seen = seen.lock().unwrap().clone();
    // Called while it was about to leave with an event, it may not see the work at once, and looks again behind the
    // heavy fence.
    let expected = ["", "Called ", "Called Work ", "Elsewhere ", "Elsewhere Called ", "Elsewhere Work ", "Work "];
    let expected = expected.map(String::from).into();
    assert_eq!(seen, expected, "reached outcomes differ from the possible ones");
}

/// A processor whose deadline has passed is busy with it, not a searcher: a push that comes at that moment is not lost,
/// although nobody is called in its place.
#[test]
fn who_gets_up_by_himself_is_busy_and_sees_what_was_pushed() {
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Arc::new(Model { idle: Idle::new(1), work: <Loom as Machine>::Atomic::new(0) });
        let pusher = loom::thread::spawn({
            let model = model.clone();
            move || model.push()
        });
        model.idle.begin_search(0);
        // The deadline of the first sleep has passed already; there is none later.
        let (mut history, mut deadline) = (String::new(), Some(0));
        while !model.take() {
            let woken = model.idle.sleep(0, deadline, false, || model.work.load(Ordering::Relaxed) > 0);
            history += &format!("{woken:?} ");
            if woken == raddle_scheduler::idle::Woken::Deadline {
                assert!(!model.idle.hungry(), "who got up by himself is busy");
                deadline = None;
                model.idle.begin_search(0);
            }
        }
        model.idle.found(0);
        pusher.join().unwrap();
        assert!(!model.idle.hungry(), "at rest nobody searches or sleeps");
        seen.lock().unwrap().insert(history);
    });
    let seen = seen.lock().unwrap().clone();
    let expected = ["", "Called ", "Deadline ", "Deadline Called ", "Deadline Work ", "Work "];
    let expected = expected.map(String::from).into();
    assert_eq!(seen, expected, "reached outcomes differ from the possible ones");
}

/// The first of two sleepers sleeps elsewhere and was not the last to fall asleep, so it has not looked behind the
/// fence: whoever calls it must know where it sleeps.
fn who_sleeps_elsewhere_beside_another_is_rung_there(call: impl Fn(&Model) + Sync + Send + Copy + 'static) {
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let word = Arc::new(<Loom as Machine>::Atomic::<u32>::new(0));
        let alarmed = word.clone();
        let idle = Idle::with_alarm(2, move || {
            alarmed.fetch_add(1, Ordering::Release);
            Loom::wake(&alarmed, 1);
        });
        let model = Arc::new(Model { idle, work: <Loom as Machine>::Atomic::new(0) });
        model.idle.begin_search(0);
        model.idle.begin_search(1);
        let elsewhere = loom::thread::spawn({
            let (model, word) = (model.clone(), word.clone());
            move || {
                let mut woken = None;
                while !model.take() {
                    let block = |_| {
                        while word.swap(0, Ordering::Acquire) == 0 {
                            Loom::wait(&word, 0, None);
                        }
                        false
                    };
                    let look = || model.work.load(Ordering::Relaxed) > 0;
                    woken = Some(model.idle.sleep_elsewhere(0, None, false, look, block));
                }
                model.idle.found(0);
                woken
            }
        });
        let other = loom::thread::spawn({
            let model = model.clone();
            move || {
                while !model.take() {
                    model.idle.sleep(1, None, false, || model.work.load(Ordering::Relaxed) > 0);
                }
                model.idle.found(1);
            }
        });
        model.work.fetch_add(1, Ordering::Release);
        call(&model);
        model.push();
        let woken = elsewhere.join().unwrap();
        other.join().unwrap();
        assert!(!model.idle.hungry(), "at rest nobody searches or sleeps");
        assert_eq!(model.work.load(Ordering::Relaxed), 0);
        seen.lock().unwrap().insert(format!("{woken:?}"));
    });
    let seen = seen.lock().unwrap().clone();
    let expected = ["None", "Some(Called)", "Some(Work)"].map(String::from).into();
    assert_eq!(seen, expected, "reached outcomes differ from the possible ones");
}

#[test]
fn who_sleeps_elsewhere_is_rung_there_by_who_calls_anyone() {
    who_sleeps_elsewhere_beside_another_is_rung_there(|model| model.idle.notify());
}

#[test]
fn who_sleeps_elsewhere_is_rung_there_by_who_calls_it() {
    who_sleeps_elsewhere_beside_another_is_rung_there(|model| {
        if !model.idle.wake(0) {
            model.idle.notify();
        }
    });
}
