//! All interleavings, within stated bounds, of members that enter and leave a group while it is cancelled.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use loom_runtime::explore;
use raddle_machine::Loom;
use raddle_scheduler::members::Members;

type Group = Arc<Members<Loom>>;

/// So many fill the slots of the group itself: the next one needs a chunk.
const NEAR: usize = 4;

fn group(filled: usize) -> Group {
    let group = Group::default();
    for handle in 0..filled {
        group.enter(100 + handle);
    }
    group
}

/// Enters in a thread of its own: whether it found the group cancelled.
fn entering(group: &Group, handle: usize) -> thread::JoinHandle<bool> {
    let group = group.clone();
    thread::spawn(move || group.enter(handle).1)
}

/// Whom a cancellation tells, but for those of [`group`].
fn told(group: &Group) -> Vec<usize> {
    let mut told = Vec::new();
    group.cancel(|handle| told.push(handle));
    told.retain(|&handle| handle < 100);
    told
}

/// One enters a group of so many while it is cancelled.
fn is_told_or_finds_it_cancelled(preemptions: usize, filled: usize) {
    explore(preemptions, &["(false, true)", "(true, false)", "(true, true)"], move || {
        let group = group(filled);
        let member = entering(&group, 1);
        let told = told(&group) == [1];
        let found = member.join().unwrap();
        assert!(found || told, "it is neither told nor does it see it");
        (found, told)
    });
}

#[test]
fn who_enters_is_told_or_finds_the_group_cancelled() {
    is_told_or_finds_it_cancelled(3, 0);
}

#[test]
fn who_enters_a_chunk_is_told_or_finds_the_group_cancelled() {
    is_told_or_finds_it_cancelled(2, NEAR);
}

#[test]
fn two_who_need_the_same_chunk_have_slots_of_their_own() {
    // How many found the group cancelled, and how many were told.
    let outcomes = ["(0, 2)", "(1, 1)", "(1, 2)", "(2, 0)", "(2, 1)", "(2, 2)"];
    explore(3, &outcomes, || {
        let group = group(NEAR);
        let members = [1, 2].map(|handle| entering(&group, handle));
        let told = told(&group);
        let found = members.map(|member| member.join().unwrap());
        assert!(found[0] || told.contains(&1), "the first");
        assert!(found[1] || told.contains(&2), "the second");
        (found.iter().filter(|found| **found).count(), told.len())
    });
}

#[test]
fn who_takes_a_slot_that_was_left_is_told_or_finds_the_group_cancelled() {
    explore(2, &["(false, true)", "(true, false)", "(true, true)"], || {
        // One slot of the group is free; each member takes it when the one before has left.
        let group = group(NEAR - 1);
        let members = {
            let group = group.clone();
            thread::spawn(move || {
                let (place, _) = group.enter(1);
                // SAFETY: given back once.
                unsafe { place.leave() };
                group.enter(2).1
            })
        };
        let told = told(&group).contains(&2);
        let found = members.join().unwrap();
        assert!(found || told, "the second one is neither told nor does it see it");
        (found, told)
    });
}

#[test]
fn who_is_told_finds_the_group_cancelled() {
    explore(3, &["false", "true"], || {
        let group = group(0);
        let asked = Arc::new(AtomicBool::new(false));
        let member = {
            let (group, asked) = (group.clone(), asked.clone());
            thread::spawn(move || {
                let (_, found) = group.enter(1);
                // As an interruption: taken by an exchange.
                let asked = asked.swap(false, Ordering::AcqRel);
                assert!(!asked || group.is_cancelled(), "told of nothing");
                found || asked
            })
        };
        group.cancel(|_| _ = asked.swap(true, Ordering::AcqRel));
        member.join().unwrap()
    });
}

#[test]
fn of_two_cancellers_one_tells() {
    explore(3, &["(0, 1)", "(1, 0)"], || {
        let group = group(0);
        assert!(!group.enter(1).1);
        let other = {
            let group = group.clone();
            thread::spawn(move || told(&group).len())
        };
        let here = told(&group).len();
        (here, other.join().unwrap())
    });
}
