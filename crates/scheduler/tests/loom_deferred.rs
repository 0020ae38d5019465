//! All interleavings, within stated bounds, of work that is left to who holds a lock.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::lock::{Deferred, Full, H2Mcs, Lock, Masked, Own};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn work_that_is_left_is_done_before_all_have_gone() {
    explore(3, &["(false, 2)", "(true, 2)"], || {
        let sum = Arc::new(Deferred::<Watched, Loom>::new(Watched::new(), 2));
        let leaver = thread::spawn({
            let sum = sum.clone();
            move || sum.do_or_leave(|value| _ = value.add()).unwrap()
        });
        sum.with(|value| value.add());
        let done = leaver.join().unwrap();
        // Without waiting for a lock that nobody holds: all has been done by now.
        (done, sum.with(|value| value.get()))
    });
}

#[test]
fn work_that_is_left_twice_is_done_and_sees_what_was_before() {
    explore(2, &["2"], || {
        let sum = Arc::new(Deferred::<Watched, Loom>::new(Watched::new(), 2));
        let leaver = thread::spawn({
            let sum = sum.clone();
            move || {
                for _ in 0..2 {
                    let before = Arc::new(Watched::new());
                    before.add();
                    let work = move |value: &mut Watched| {
                        assert_eq!(before.get(), 1);
                        value.add();
                    };
                    sum.do_or_leave(work).unwrap();
                }
            }
        });
        sum.with(|_| ());
        leaver.join().unwrap();
        let Ok(sum) = Arc::try_unwrap(sum) else { panic!("shared") };
        sum.into_inner().get()
    });
}

#[test]
fn two_leavers_do_each_other_s_work() {
    explore(2, &["2"], || {
        let sum = Arc::new(Deferred::<Watched, Loom>::new(Watched::new(), 2));
        let leave = |sum: &Deferred<Watched, Loom>| {
            sum.do_or_leave(|value| _ = value.add()).unwrap();
        };
        let other = thread::spawn({
            let sum = sum.clone();
            move || leave(&sum)
        });
        leave(&sum);
        other.join().unwrap();
        let Ok(sum) = Arc::try_unwrap(sum) else { panic!("shared") };
        sum.into_inner().get()
    });
}

#[test]
fn who_finds_no_room_keeps_the_work_and_nothing_else_is_lost() {
    // A leaver of two, with room for one: each piece is done, or its maker's again.
    explore(2, &["(false, 2)", "(true, 2)"], || {
        let sum = Arc::new(Deferred::<Watched, Loom>::new(Watched::new(), 1));
        let leaver = thread::spawn({
            let sum = sum.clone();
            move || {
                let work = |value: &mut Watched| _ = value.add();
                let first = sum.do_or_leave(work);
                assert!(first.is_ok(), "there is room for one");
                match sum.do_or_leave(work) {
                    Ok(_) => false,
                    Err(Full(work)) => {
                        sum.with(work);
                        true
                    }
                }
            }
        });
        sum.with(|_| ());
        let refused = leaver.join().unwrap();
        // All the room has been given back.
        sum.with(|_| assert!(!sum.do_or_leave(|_| ()).unwrap()));
        let sum = Arc::try_unwrap(sum).unwrap_or_else(|_| panic!("shared"));
        (refused, sum.into_inner().get())
    });
}

#[test]
fn a_handler_on_the_holder_s_processor_does_not_dead_lock() {
    explore(2, &["(None, Some(1), false, 1)"], || {
        let lock = Lock::<u32, H2Mcs<Loom>, Loom>::new(1);
        let own = Own::new();
        // The first variant: inside it refuses, outside it waits for others.
        let inside = lock.with_own(&own, |_| lock.with_own(&own, |value| *value)).unwrap();
        let outside = lock.with_own(&own, |value| *value);
        let masked = Masked::<Loom>::new(1);
        let count = Arc::new(AtomicU32::new(0));
        let at_once = masked.with(|| {
            let count = count.clone();
            masked.handle(move || _ = count.fetch_add(1, Ordering::Relaxed)).unwrap()
        });
        (inside, outside, at_once, count.load(Ordering::Relaxed))
    });
}
