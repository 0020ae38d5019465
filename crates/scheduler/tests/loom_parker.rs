//! `park` and `unpark` in all interleavings: no token is lost, what was done before it is seen, and no other wait is
//! ended.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use loom_runtime::{Model, Watched, explore};
use raddle_scheduler::parker::Parker;
use raddle_scheduler::runtime::wait_until;

type Mine = Arc<Parker<Model>>;

fn mine() -> Mine {
    Arc::new(Parker::new())
}

fn park(parker: &Mine, deadline: Option<u64>) {
    // SAFETY: one thread of each test parks.
    unsafe { parker.park(deadline) };
}

#[test]
fn a_token_wakes_its_owner_who_sees_what_was_done_before() {
    explore(3, &["2"], || {
        let (parker, gift) = (mine(), Arc::new(Watched::new()));
        let unparker = {
            let (parker, gift) = (parker.clone(), gift.clone());
            thread::spawn(move || {
                gift.add();
                parker.unpark();
            })
        };
        // Nobody else ends the wait, so it ends by the token.
        park(&parker, None);
        let seen = gift.add();
        unparker.join().unwrap();
        seen
    });
}

#[test]
fn of_two_tokens_one_is_enough_and_none_is_lost() {
    explore(3, &["()"], || {
        let parker = mine();
        let done = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let unparkers = [0, 1].map(|which| {
            let (parker, done) = (parker.clone(), done.clone());
            thread::spawn(move || {
                done[which].store(true, Ordering::Release);
                parker.unpark();
            })
        });
        while !done.iter().all(|done| done.load(Ordering::Acquire)) {
            park(&parker, None);
        }
        unparkers.into_iter().for_each(|unparker| unparker.join().unwrap());
    });
}

#[test]
fn a_token_that_comes_after_the_deadline_is_kept() {
    explore(3, &["()"], || {
        let (parker, gift) = (mine(), Arc::new(Watched::new()));
        let unparker = {
            let (parker, gift) = (parker.clone(), gift.clone());
            thread::spawn(move || {
                gift.add();
                parker.unpark();
                parker.unpark();
            })
        };
        park(&parker, Some(0));
        unparker.join().unwrap();
        parker.unpark();
        park(&parker, None);
        assert_eq!(gift.add(), 2);
    });
}

#[test]
fn a_late_token_ends_no_other_wait() {
    explore(3, &["Retry"], || {
        let parker = mine();
        let unparker = {
            let parker = parker.clone();
            thread::spawn(move || parker.unpark())
        };
        park(&parker, Some(0));
        let joined = std::cell::Cell::new(Some(unparker));
        let ready = || joined.take().is_some_and(|unparker| unparker.join().is_ok());
        // SAFETY: published nowhere.
        unsafe { wait_until::<Model>(None, false, |_, _| {}, ready) }
    });
}
