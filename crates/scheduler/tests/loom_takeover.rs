//! Takeover in all interleavings: one activation inside at a time, and the next owner sees all that the previous one
//! did. What only an owner may touch is a cell of loom's, which fails the test at any unordered access.
#![cfg(feature = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use raddle_machine::Loom;
use raddle_scheduler::takeover::{Mark, Ownership, Take};
use std::collections::BTreeSet;
use std::sync::Mutex;

struct Model {
    owner: Ownership<Loom>,
    marks: [Mark<Loom>; 4],
    /// Owner-only state: how often it was touched.
    inside: UnsafeCell<u32>,
}

// SAFETY: loom itself checks each access of `inside`: that check is what the tests are for.
unsafe impl Sync for Model {}
// SAFETY: sent to other threads only for loom to check what they do with it.
unsafe impl Send for Model {}

impl Model {
    fn new(owner: u32) -> Arc<Self> {
        Arc::new(Self {
            owner: Ownership::new(owner),
            marks: std::array::from_fn(|_| Mark::new()),
            inside: UnsafeCell::new(0),
        })
    }

    fn mark(&self, activation: u32) -> &Mark<Loom> {
        &self.marks[activation as usize]
    }

    fn touch(&self) {
        // SAFETY: the caller is the owner, inside its mark; loom fails the test if that does not exclude the others.
        self.inside.with_mut(|count| unsafe { *count += 1 });
    }

    /// An owner's operation. False: it has lost the processor.
    fn operate(&self, me: u32) -> bool {
        let mine = self.owner.enter(me, self.mark(me));
        if mine {
            self.touch();
            self.mark(me).leave();
        }
        mine
    }

    fn take_and_operate(&self, me: u32, victim: u32) -> Take {
        let take = self.owner.take(me, victim, self.mark(victim));
        if take == Take::Taken {
            // Before it enters, whose fence would hide that the taking itself makes the former owner's stores visible.
            self.touch();
        }
        take
    }
}

fn explore(
    preemptions: Option<usize>,
    expected: &[&str],
    model: impl Fn(&'static Mutex<BTreeSet<String>>) + Sync + Send + 'static,
) {
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || model(seen));
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        expected.iter().map(|s| s.to_string()).collect(),
        "reached outcomes differ from the possible ones"
    );
}

#[test]
fn an_owner_and_a_taker_are_never_inside_together() {
    explore(None, &["kept, Inside", "kept, Lost", "kept, Taken", "lost, Taken"], |seen| {
        let model = Model::new(1);
        let taker = {
            let model = model.clone();
            loom::thread::spawn(move || model.take_and_operate(2, 1))
        };
        // The first operation may fail only because the taker was faster.
        let kept = model.operate(1) && model.operate(1);
        let take = taker.join().unwrap();
        assert!(kept || take == Take::Taken, "lost to nobody");
        assert_eq!(model.owner.owner(), if take == Take::Taken { 2 } else { 1 });
        seen.lock().unwrap().insert(format!("{}, {take:?}", if kept { "kept" } else { "lost" }));
        // Whoever has it now can use it, and only that one.
        assert_eq!(model.operate(1), take != Take::Taken);
    });
}

#[test]
fn of_two_takers_at_most_one_wins_and_it_may_be_taken_from_in_turn() {
    let expected = [
        "Inside, Inside",
        "Inside, Lost",
        "Inside, Taken",
        "Lost, Lost",
        "Lost, Taken",
        "Taken, Lost",
        "Lost, Inside",
        "Taken, Inside",
    ];
    explore(Some(2), &expected, |seen| {
        let model = Model::new(1);
        let takers: Vec<_> = [2, 3]
            .into_iter()
            .map(|me| {
                let model = model.clone();
                loom::thread::spawn(move || model.take_and_operate(me, 1))
            })
            .collect();
        let kept = model.operate(1);
        let takes: Vec<_> = takers.into_iter().map(|t| t.join().unwrap()).collect();
        let taken = takes.iter().filter(|&&take| take == Take::Taken).count();
        assert!(taken <= 1 && (kept || taken == 1));
        seen.lock().unwrap().insert(format!("{:?}, {:?}", takes[0], takes[1]));
        // The former owner may take it back.
        if let Some(winner) = takes.iter().position(|&take| take == Take::Taken) {
            let winner = winner as u32 + 2;
            assert!(!model.operate(1));
            assert_eq!(model.take_and_operate(1, winner), Take::Taken);
            assert!(!model.operate(winner));
        }
    });
}

#[test]
fn a_released_processor_is_adopted_by_one() {
    explore(Some(3), &["2 adopted", "3 adopted", "nobody adopted"], |seen| {
        let model = Model::new(1);
        let adopters: Vec<_> = [2, 3]
            .into_iter()
            .map(|me| {
                let model = model.clone();
                loom::thread::spawn(move || {
                    let won = model.owner.adopt(me, model.mark(me));
                    if won {
                        model.touch();
                        model.mark(me).leave();
                    }
                    won
                })
            })
            .collect();
        assert!(model.owner.enter(1, model.mark(1)));
        model.touch();
        model.owner.release(1, model.mark(1));
        let won: Vec<_> = adopters.into_iter().map(|a| a.join().unwrap()).collect();
        assert!(!(won[0] && won[1]), "adopted twice");
        let who = won.iter().position(|&won| won).map_or("nobody".to_string(), |i| (i + 2).to_string());
        seen.lock().unwrap().insert(format!("{who} adopted"));
        assert!(!model.operate(1));
    });
}

#[test]
fn an_adopter_and_a_taker() {
    // The owner releases while it is being taken: nobody is inside together, and somebody can go on afterwards.
    explore(
        Some(3),
        &["adopted, Inside", "adopted, Lost", "not adopted, Inside", "not adopted, Lost", "not adopted, Taken"],
        |seen| {
            let model = Model::new(1);
            let taker = {
                let model = model.clone();
                loom::thread::spawn(move || model.take_and_operate(2, 1))
            };
            let adopter = {
                let model = model.clone();
                loom::thread::spawn(move || {
                    let won = model.owner.adopt(3, model.mark(3));
                    if won {
                        model.touch();
                        model.mark(3).leave();
                    }
                    won
                })
            };
            if model.owner.enter(1, model.mark(1)) {
                model.touch();
                model.owner.release(1, model.mark(1));
            }
            let (take, adopted) = (taker.join().unwrap(), adopter.join().unwrap());
            let name = if adopted { "adopted" } else { "not adopted" };
            seen.lock().unwrap().insert(format!("{name}, {take:?}"));
            let owner = model.owner.owner();
            assert_eq!(
                owner,
                if adopted {
                    3
                } else if take == Take::Taken {
                    2
                } else {
                    0
                }
            );
            assert!(owner == 0 || model.operate(owner));
        },
    );
}

#[test]
fn a_processor_that_is_passed_on_while_it_is_being_taken() {
    explore(Some(3), &["Inside", "Lost", "Taken"], |seen| {
        let model = Model::new(1);
        let taker = {
            let model = model.clone();
            loom::thread::spawn(move || model.take_and_operate(2, 1))
        };
        let mut passed = false;
        if model.owner.enter(1, model.mark(1)) {
            model.touch();
            model.owner.pass(1, 3, model.mark(1));
            passed = true;
            // The next owner sees what the former one did; nobody takes it from that one here.
            assert!(model.operate(3));
        }
        let take = taker.join().unwrap();
        seen.lock().unwrap().insert(format!("{take:?}"));
        assert_eq!(passed, take != Take::Taken);
        assert_eq!(model.owner.owner(), if passed { 3 } else { 2 });
        assert!(!model.operate(1));
    });
}
