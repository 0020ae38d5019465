//! Retirement and return in all interleavings: a processor that has retired is empty and nobody's, whoever was about to
//! take it back; and one that comes back has one owner at most. What only an owner may touch is a cell of loom's.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::standing::{Seat, Standing};
use raddle_scheduler::takeover::Mark;

const FOLLOWER: u32 = 1;

struct Processor {
    seat: Seat<Loom>,
    marks: [Mark<Loom>; 4],
    /// Owner-only: how often it was touched.
    held: Watched,
}

fn processor(owner: u32) -> Arc<Processor> {
    Arc::new(Processor { seat: Seat::new(owner), marks: std::array::from_fn(|_| Mark::new()), held: Watched::new() })
}

impl Processor {
    fn mark(&self, activation: u32) -> &Mark<Loom> {
        &self.marks[activation as usize]
    }

    /// A thread of an activation that has lost the processor enters the runtime: it leaves something there, and
    /// computes on.
    fn comes_back(&self, me: u32) -> bool {
        let back = self.seat.adopt(me, self.mark(me));
        if back {
            self.held.add();
            self.mark(me).leave();
        }
        back
    }

    /// One look of the follower at a processor that is to retire.
    fn retire(&self) -> bool {
        let seized = self.seat.seize(FOLLOWER, self.mark(FOLLOWER), |owner| Some(self.mark(owner)));
        if seized {
            self.held.add();
            self.seat.retire(FOLLOWER, self.mark(FOLLOWER));
        }
        seized
    }

    fn bring_back(&self, spare: u32) -> bool {
        self.seat.activate();
        let handed = self.seat.owner.adopt(spare, self.mark(spare));
        if handed {
            self.mark(spare).leave();
        }
        handed
    }
}

#[test]
fn nobody_keeps_a_processor_that_has_retired() {
    explore(3, &["(false, Retired)", "(false, Retiring)", "(true, Retired)", "(true, Retiring)"], || {
        let processor = processor(0);
        let thread = {
            let processor = processor.clone();
            thread::spawn(move || processor.comes_back(2))
        };
        processor.seat.begin_retirement();
        processor.retire();
        let back = thread.join().unwrap();
        let standing = processor.seat.standing();
        if standing == Standing::Retired {
            assert_eq!(processor.seat.owner.owner(), 0, "a thread goes on on a processor that nobody looks after");
        } else {
            // The next look of the follower finds who came back, outside its mark.
            assert!(processor.retire());
        }
        (back, standing)
    });
}

#[test]
fn two_that_come_back_and_one_that_retires() {
    explore(2, &["(0, Retired)", "(1, Retired)", "(1, Retiring)", "(0, Retiring)"], || {
        let processor = processor(0);
        let threads = [2, 3].map(|me| {
            let processor = processor.clone();
            thread::spawn(move || processor.comes_back(me))
        });
        processor.seat.begin_retirement();
        processor.retire();
        let back = threads.map(|thread| thread.join().unwrap());
        let standing = processor.seat.standing();
        let owner = processor.seat.owner.owner();
        assert!(standing != Standing::Retired || owner == 0, "{owner} keeps what has retired");
        (back.into_iter().filter(|&back| back).count(), standing)
    });
}

#[test]
fn a_spare_that_was_ordered_finds_it_retired_again_or_serves_it() {
    explore(3, &["(false, Retired)", "(false, Retiring)", "(true, Retired)", "(true, Retiring)"], || {
        let processor = processor(2);
        // It was handed over to the spare, which has not begun.
        let spare = {
            let processor = processor.clone();
            thread::spawn(move || {
                let begins = processor.seat.begin(2, processor.mark(2));
                if begins {
                    processor.held.add();
                    processor.mark(2).leave();
                }
                begins
            })
        };
        processor.seat.begin_retirement();
        processor.retire();
        let begins = spare.join().unwrap();
        let standing = processor.seat.standing();
        match standing {
            Standing::Retired => assert_eq!(processor.seat.owner.owner(), 0, "a spare serves what has retired"),
            // It is inside at that look, or has given up.
            _ => assert!(processor.retire()),
        }
        (begins, standing)
    });
}

#[test]
fn one_that_comes_back_has_one_owner() {
    explore(3, &["(false, true)", "(true, false)"], || {
        let processor = processor(0);
        processor.seat.begin_retirement();
        assert!(processor.retire());
        let thread = {
            let processor = processor.clone();
            thread::spawn(move || processor.comes_back(2))
        };
        let handed = processor.bring_back(3);
        let back = thread.join().unwrap();
        let owner = processor.seat.owner.owner();
        assert_eq!(owner, if back { 2 } else { u32::from(handed) * 3 });
        // Without an owner it is free, and the next spare has it.
        assert!(owner != 0 || processor.bring_back(3));
        // What the owner does is seen by the next one.
        assert!(processor.retire() && !processor.comes_back(2));
        (handed, back)
    });
}
