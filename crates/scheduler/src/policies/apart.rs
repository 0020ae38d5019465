//! `apart(P, Q)`: threads that have run are ordered by P; those that have not started, by Q, wait until P has none at
//! hand.
//!
//! Source: this project. The local queues of *Effective parallelism with OCaml schedulers* (the MSc report), chapter 4,
//! hold both kinds in one order; [`steal`](super::steal) keeps them apart in a fixed one (new threads newest first).
//! Differs: both orders are any policy.
//!
//! A processor selects what P has at hand; if that is nothing, what Q has; it searches elsewhere by P, then by Q. Each
//! `turn`-th selection ([`TURN`] unless given) begins with Q, so that threads that keep the processor busy, by yields
//! or by waking each other, let new ones start: a thread that is the k-th of a processor's Q, and that Q lets no other
//! one overtake, starts within k times `turn` selections of that processor. Threads that come from outside the pool
//! cannot be told apart, and count as those that have run.
//!
//! Suits: many threads spawned at once that wait for each other, such as the blocks of a lattice with promises
//! (`apart(fifo, fifo)`): who can go on goes on before one more begins, so that few have a stack, and memory stays in
//! the caches. With one order for all, whoever is woken goes behind all that were spawned, each of which starts only to
//! wait. Bad at: latency of new threads while those that run have much to do (a server's requests, if each is a
//! thread); policies whose point is one order for all.
//!
//! A frozen processor strands what P and Q strand.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let shape = "apart(fifo, lifo, turn=16)".parse().unwrap();
//! let policy = policies::build::<Real>(&shape, 2, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "apart(fifo, lifo, turn=16)");
//! assert!(!policy.offers());
//! ```
#![forbid(unsafe_code)]

use super::AnyPolicy;
use crate::expression::TURN;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use raddle_machine::Machine;

/// The policy.
pub struct Apart<M: Machine> {
    started: AnyPolicy<M>,
    new: AnyPolicy<M>,
    turn: u32,
}

impl<M: Machine> Apart<M> {
    /// Two policies without priorities of their own, none of them a ring.
    pub fn new(started: AnyPolicy<M>, new: AnyPolicy<M>, turn: u32) -> Self {
        let plain = |policy: &AnyPolicy<M>| policy.priorities() == 1 && !policy.ring();
        assert!(plain(&started) && plain(&new) && turn > 0, "apart() of rings or priorities");
        Self { started, new, turn }
    }
}

impl<M: Machine> Policy<M> for Apart<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        Box::new(ApartLocal {
            started: self.started.local(index),
            new: self.new.local(index),
            turn: self.turn,
            selections: 0,
        })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.started.submit(thread)
    }

    fn describe(&self) -> String {
        let (started, new) = (self.started.describe(), self.new.describe());
        match self.turn {
            TURN => format!("apart({started}, {new})"),
            turn => format!("apart({started}, {new}, turn={turn})"),
        }
    }

    fn offers(&self) -> bool {
        self.started.offers() || self.new.offers()
    }

    fn takes_anywhere(&self) -> bool {
        self.started.takes_anywhere() && self.new.takes_anywhere()
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands what each of the two policies says"
    }
}

struct ApartLocal<M: Machine> {
    started: Box<dyn Local<M>>,
    new: Box<dyn Local<M>>,
    turn: u32,
    selections: u32,
}

impl<M: Machine> Local<M> for ApartLocal<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        if cause == Cause::Spawned { self.new.push(thread, cause) } else { self.started.push(thread, cause) }
    }

    fn next(&mut self, floor: u8) -> Option<Ready<M>> {
        self.selections += 1;
        if self.selections >= self.turn {
            self.selections = 0;
            return self.new.next(floor).or_else(|| self.started.next(floor));
        }
        self.started.next(floor).or_else(|| self.new.next(floor))
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.started.search().or_else(|| self.new.search())
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        self.started.relieve(victim).or_else(|| self.new.relieve(victim))
    }

    fn has_work(&self) -> bool {
        self.started.has_work() || self.new.has_work()
    }

    fn holds_private(&self) -> bool {
        self.started.holds_private() || self.new.holds_private()
    }

    fn crowded(&self) -> bool {
        self.started.crowded() || self.new.crowded()
    }

    fn publish(&mut self) -> Notify {
        match (self.started.publish(), self.new.publish()) {
            (Notify::Nobody, whom) | (whom, Notify::Nobody) => whom,
            (one, other) if one == other => one,
            // No ring: whoever comes finds both.
            _ => Notify::Anyone,
        }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        self.started.drain(out);
        self.new.drain(out);
    }

    fn steals(&self) -> (u64, u64) {
        let ((tried, won), (more, yet)) = (self.started.steals(), self.new.steals());
        (tried + more, won + yet)
    }
}
