//! `fifo`: one queue for all processors, oldest first.
//!
//! Source: the ready queue of Negele, Friedrich, Oh, Egger, *On the Design and Implementation of an Efficient Lock-Free
//! Scheduler*, section 4: unbounded, lock-free, nodes reused under hazard pointers that belong to processors. Differs:
//! who owns no processor has no hazard pointers either, so threads from outside go through an inbox, which the
//! processors empty into the queue when it runs dry and every [`ROUND`] selections.
//!
//! Order: threads leave in the order in which their pushes took effect, whoever pushed them; one that yields goes
//! behind all that were ready before. So with k threads in the queue, one waits for k selections of all processors
//! together, and a loop of yields lets each other thread run. Nothing is private, nothing needs to be balanced.
//!
//! Suits: fairness across processors (a server's requests in the order of their arrival), few processors, threads that
//! run long between switches. Bad at: short threads on many processors, which contend for the two ends of one queue;
//! locality, since a thread runs wherever its turn comes; fork-join, whose trees it walks in breadth, with all their
//! stacks.
//!
//! A frozen processor strands its running thread, and what it was just moving from the inbox.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let policy = policies::build::<Real>(&"fifo".parse().unwrap(), 2, std::sync::Arc::new(Busy)).unwrap();
//! let local = policy.local(0);
//! assert!(!local.has_work() && !policy.ring());
//! ```
#![forbid(unsafe_code)]

use super::Others;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::{Global, GlobalEnd, Inbox};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::sync::Arc;

/// Selections of a processor between two looks into the inbox while the queue does not run dry.
pub const ROUND: u32 = 16;

struct Shared<M: Machine> {
    queue: Arc<Global<M>>,
    inbox: Inbox<M>,
    others: Arc<dyn Others>,
}

/// The policy.
pub struct Fifo<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Fifo<M> {
    /// For at most `processors` processors.
    pub fn new(processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let queue = Global::new(processors)?;
        Ok(Self(Arc::new(Shared { queue, inbox: Inbox::default(), others })))
    }
}

impl<M: Machine> Policy<M> for Fifo<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let end = self.0.queue.end(index).unwrap_or_else(|| panic!("processor {index} of `fifo` was made twice"));
        Box::new(FifoLocal { end, shared: self.0.clone(), turn: 0 })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.0.inbox.push(thread);
        Notify::Anyone
    }

    fn describe(&self) -> String {
        "fifo".to_string()
    }

    fn offers(&self) -> bool {
        !self.0.queue.is_empty() || !self.0.inbox.is_empty()
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread, and what it was just moving in from outside"
    }
}

struct FifoLocal<M: Machine> {
    end: GlobalEnd<M>,
    shared: Arc<Shared<M>>,
    turn: u32,
}

impl<M: Machine> FifoLocal<M> {
    #[cold]
    fn empty_inbox(&mut self) {
        let (mut moved, mut refused) = (0, Vec::new());
        self.shared.inbox.take_all(|thread| {
            moved += 1;
            if let Err(thread) = self.end.push(thread) {
                refused.push(thread);
            }
        });
        refused.into_iter().for_each(|thread| self.shared.inbox.push(thread));
        // Whoever looked while they were on their way has seen nothing.
        if moved > 1 {
            self.shared.others.wake(Notify::Anyone);
        }
    }
}

impl<M: Machine> Local<M> for FifoLocal<M> {
    fn push(&mut self, thread: Ready<M>, _cause: Cause) -> Notify {
        if let Err(thread) = self.end.push(thread) {
            self.shared.inbox.push(thread);
        }
        Notify::Anyone
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.turn = self.turn.wrapping_add(1);
        if self.turn.is_multiple_of(ROUND) && !self.shared.inbox.is_empty() {
            self.empty_inbox();
        }
        if let Some(thread) = self.end.pop() {
            return Some(thread);
        }
        if self.shared.inbox.is_empty() {
            return None;
        }
        self.empty_inbox();
        self.end.pop()
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.next(u8::MAX)
    }

    fn has_work(&self) -> bool {
        !self.end.is_empty() || !self.shared.inbox.is_empty()
    }

    fn publish(&mut self) -> Notify {
        if self.has_work() { Notify::Anyone } else { Notify::Nobody }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        while let Some(thread) = self.end.pop() {
            out(thread);
        }
        self.shared.inbox.take_all(out);
    }
}
