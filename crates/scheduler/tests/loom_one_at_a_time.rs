//! What goes on once at a time, in all interleavings: one claims, users see all of what goes on.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::one_at_a_time::OneAtATime;

type One = OneAtATime<Watched, Loom>;

/// Begins, ends, and does something with the claim that the next one sees. True if it had the claim.
fn begin(one: &One, between: &Watched) -> bool {
    let Some(claim) = one.claim() else { return false };
    between.add();
    let what = Watched::new();
    what.add();
    claim.begin(what);
    assert!(one.end(), "nobody else ends it");
    true
}

#[test]
fn one_claims_at_a_time_and_sees_what_the_one_before_did() {
    explore(3, &["(false, true)", "(true, false)", "(true, true)"], || {
        let world = Arc::new((One::default(), Watched::new()));
        let other = {
            let world = world.clone();
            thread::spawn(move || begin(&world.0, &world.1))
        };
        let mine = begin(&world.0, &world.1);
        (mine, other.join().unwrap())
    });
}

/// As above, but it thinks better of it.
#[test]
fn who_gives_a_claim_up_leaves_it_to_the_next_one() {
    explore(3, &["(false, true)", "(true, false)", "(true, true)"], || {
        let world = Arc::new((One::default(), Watched::new()));
        let claim = |world: &(One, Watched)| world.0.claim().map(|_claim| world.1.add()).is_some();
        let other = {
            let world = world.clone();
            thread::spawn(move || claim(&world))
        };
        let mine = claim(&world);
        assert!(!world.0.is_on() && !world.0.end());
        (mine, other.join().unwrap())
    });
}

#[test]
fn a_user_finds_nothing_or_all_of_what_goes_on() {
    explore(3, &["None", "Some(1)"], || {
        let world = Arc::new((One::default(), Watched::new()));
        let user = {
            let world = world.clone();
            thread::spawn(move || world.0.get().map(Watched::get))
        };
        begin(&world.0, &world.1);
        user.join().unwrap()
    });
}
