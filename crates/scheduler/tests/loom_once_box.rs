//! What is made for a record in all interleavings: all users get one, and see what its maker did.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::once_box::OnceBox;

type Box = OnceBox<(u32, Watched), Loom>;

fn made(by: u32) -> (u32, Watched) {
    let watched = Watched::new();
    watched.add();
    (by, watched)
}

fn used(value: &Box, me: u32) -> u32 {
    let (by, watched) = value.get_or_make(|| made(me));
    assert_eq!(watched.get(), 1);
    *by
}

#[test]
fn of_two_makers_both_get_one_and_see_it() {
    explore(3, &["(1, 1)", "(2, 2)"], || {
        let value = Arc::new(Box::default());
        let other = {
            let value = value.clone();
            thread::spawn(move || used(&value, 2))
        };
        let mine = used(&value, 1);
        (mine, other.join().unwrap())
    });
}

#[test]
fn who_only_looks_finds_nothing_or_all_of_it() {
    explore(3, &["None", "Some(1)"], || {
        let value = Arc::new(Box::default());
        let looker = {
            let value = value.clone();
            thread::spawn(move || {
                value.get().map(|(by, watched)| {
                    assert_eq!(watched.get(), 1);
                    *by
                })
            })
        };
        used(&value, 1);
        looker.join().unwrap()
    });
}
