//! What a sleeper leaves in all interleavings: one takes it, who sees what was done with it.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::bedside::Bedside;

type Left = Bedside<Watched, Loom>;

/// The owner sleeps twice; whoever has what it left adds one.
#[test]
fn what_is_left_is_the_owners_or_the_attendants() {
    explore(3, &["0", "1"], || {
        let bedside = Arc::new(Left::default());
        let attendant = {
            let bedside = bedside.clone();
            thread::spawn(move || {
                // Not before it is due; it may have been taken back since.
                let due = bedside.due();
                assert!(due.is_none_or(|at| at == 10 || at == 20), "{due:?}");
                due.and_then(|_| bedside.take()).map(|what| what.add())
            })
        };
        let mut kept = Some(Box::new(Watched::new()));
        let mut lost = 0;
        for at in [10, 20] {
            let what = kept.take().unwrap_or_else(|| Box::new(Watched::new()));
            what.add();
            bedside.leave(what, at);
            kept = bedside.take();
            match &kept {
                Some(what) => _ = what.add(),
                None => lost += 1,
            }
        }
        let taken = attendant.join().unwrap();
        assert_eq!(u32::from(taken.is_some()), lost, "what was left was lost, or is there twice");
        assert!(bedside.due().is_none() && bedside.take().is_none());
        lost
    });
}

#[test]
fn an_attendant_that_finds_something_sees_when_it_is_due() {
    explore(3, &["None", "Some(10)"], || {
        let bedside = Arc::new(Left::default());
        let owner = {
            let bedside = bedside.clone();
            thread::spawn(move || bedside.leave(Box::new(Watched::new()), 10))
        };
        let due = bedside.due();
        owner.join().unwrap();
        due
    });
}
