//! A gate that closes in all interleavings: nobody is inside after that, and nobody waits for ever.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Model, Watched, explore};
use raddle_scheduler::sync::gate::{Gate, Refused};

struct Stage {
    gate: Gate<Model>,
    /// What those inside use, and the closer after them.
    inside: Watched,
}

impl Stage {
    fn new() -> Arc<Self> {
        Arc::new(Self { gate: Gate::new(1), inside: Watched::new() })
    }

    fn visit(&self, waits: bool) -> &'static str {
        let entered = self.gate.enter(|places| {
            if waits {
                places.acquire(1);
            }
            if waits || places.try_acquire(1) { Ok(()) } else { Err(()) }
        });
        match entered {
            Ok(()) => {
                self.inside.add();
                self.gate.leave();
                "was inside"
            }
            Err(Refused::Closed) => "closed",
            Err(Refused::Otherwise(())) => "full",
        }
    }
}

fn closes(preemptions: usize, visitors: &'static [bool], outcomes: &[&str]) {
    explore(preemptions, outcomes, move || {
        let stage = Stage::new();
        let visitors: Vec<_> = visitors
            .iter()
            .map(|&waits| {
                let stage = stage.clone();
                thread::spawn(move || stage.visit(waits))
            })
            .collect();
        stage.gate.close(thread::yield_now);
        let before = stage.inside.add() - 1;
        // Late ones are told.
        assert_eq!(stage.visit(true), "closed");
        let ended: Vec<_> = visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect();
        assert_eq!(stage.gate.available(), 1, "a place was lost");
        assert_eq!(ended.iter().filter(|&&end| end == "was inside").count() as u32, before);
        ended.join(", ")
    });
}

#[test]
fn one_that_tries_is_waited_for_or_refused() {
    closes(3, &[false], &["\"closed\"", "\"full\"", "\"was inside\""]);
}

#[test]
fn one_that_waits_is_let_in_before_or_told() {
    closes(3, &[true], &["\"closed\"", "\"was inside\""]);
}

#[test]
fn of_two_that_wait_neither_waits_for_ever() {
    closes(1, &[true, true], &["\"closed, closed\"", "\"closed, was inside\"", "\"was inside, closed\""]);
}
