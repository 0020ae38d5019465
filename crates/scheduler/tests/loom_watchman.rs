//! The monitor's sleep in all interleavings: nothing that was done is slept through.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use loom_runtime::explore;
use raddle_machine::Loom;
use raddle_scheduler::watchman::Watchman;

fn watches(callers: usize, preemptions: usize) {
    explore(preemptions, &["()"], move || {
        let watchman = Arc::new(Watchman::<Loom>::default());
        let done = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let callers: Vec<_> = (0..callers)
            .map(|which| {
                let (watchman, done) = (watchman.clone(), done.clone());
                thread::spawn(move || {
                    done[which].store(true, Ordering::Relaxed);
                    watchman.hint();
                })
            })
            .collect();
        // Each deed is watched, though the watchman sleeps whenever it sees nothing new. (Its first wait returns for no
        // reason.)
        for which in 0..callers.len() {
            while !done[which].load(Ordering::Relaxed) {
                watchman.sleep(|| !done[which].load(Ordering::Relaxed), || None);
            }
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn a_deed_is_not_slept_through() {
    watches(1, 3);
}

#[test]
fn nor_are_two() {
    watches(2, 2);
}
