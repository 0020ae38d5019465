//! `multiqueue(c)`: c queues for each processor, all of them everybody's; the better of two random ones is used.
//!
//! Source: the multi-queue of the MSc report *Effective parallelism with OCaml schedulers*, sections 4.3.1 and 2.3.6,
//! after A. Postnikova, N. Koval, G. Nadiradze and D. Alistarh, "Multi-Queues Can Be State-of-the-Art Priority
//! Schedulers", 2022. Differs: the queues are first in first out and lock-free (see [`fifo`](super::fifo)), not locked
//! heaps of time stamps. Instead of the stamps of two heads the numbers of threads that went in or came out are
//! compared: a queue from which fewer have come out has, the pushes being spread evenly, the older head.
//!
//! A push goes to that of two random queues into which fewer threads went; a selection takes from that of two random
//! queues that are not empty out of which fewer came, and looks at all of them when it has met empty ones only. Of
//! [`Shards::count`] pushes of a processor one looks at all queues instead of two, and so does one of as many
//! selections: the numbers stay close together by rule, not by chance alone. So with q queues and k threads ready
//! before it a thread is selected after k selections and some multiple of q² more; one that yields goes behind what its
//! queue holds, and may pass threads of other queues by as much.
//!
//! Threads from outside go through an inbox, which is looked at every [`ROUND`] selections and when nothing else is
//! found.
//!
//! Suits: near fairness across processors where one queue would be contended. Bad at: locality (a thread runs
//! anywhere), few threads (most looks meet empty queues), exact order.
//!
//! A frozen processor strands its running thread, and what it was just moving from the inbox.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let policy = policies::build::<Real>(&"multiqueue(2)".parse().unwrap(), 4, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "multiqueue(2)");
//! ```
#![forbid(unsafe_code)]

use super::Others;
use super::victims::Random;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::{Inbox, Shards, ShardsEnd};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::sync::Arc;

/// Selections of a processor between two looks into the inbox while the queues do not run dry.
pub const ROUND: u32 = 16;

struct Shared<M: Machine> {
    queues: Arc<Shards<M>>,
    inbox: Inbox<M>,
    others: Arc<dyn Others>,
    processors: usize,
}

impl<M: Machine> Shared<M> {
    fn offers(&self) -> bool {
        !self.inbox.is_empty() || !self.queues.is_empty()
    }
}

/// The policy.
pub struct Multiqueue<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Multiqueue<M> {
    /// So many queues for at most `processors` processors.
    pub fn new(queues: usize, processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let queues = Shards::new(queues, processors)?;
        Ok(Self(Arc::new(Shared { queues, inbox: Inbox::default(), others, processors })))
    }
}

impl<M: Machine> Policy<M> for Multiqueue<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let end =
            self.0.queues.end(index).unwrap_or_else(|| panic!("processor {index} of `multiqueue` was made twice"));
        let random = Random::new::<M>();
        Box::new(MultiqueueLocal { end, shared: self.0.clone(), random, pushes: 0, selections: 0, turn: 0 })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.0.inbox.push(thread);
        Notify::Anyone
    }

    fn describe(&self) -> String {
        format!("multiqueue({})", self.0.queues.count() / self.0.processors)
    }

    fn offers(&self) -> bool {
        self.0.offers()
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread, and what it was just moving in from outside"
    }
}

struct MultiqueueLocal<M: Machine> {
    end: ShardsEnd<M>,
    shared: Arc<Shared<M>>,
    random: Random,
    pushes: usize,
    selections: usize,
    turn: u32,
}

impl<M: Machine> MultiqueueLocal<M> {
    fn two(&mut self) -> [usize; 2] {
        let count = self.shared.queues.count();
        let first = self.random.below(count);
        // Another one, if there is another.
        let second = if count > 1 { (first + 1 + self.random.below(count - 1)) % count } else { first };
        [first, second]
    }

    fn place(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        let queues = &self.shared.queues;
        self.pushes += 1;
        let best = if self.pushes.is_multiple_of(queues.count()) {
            (0..queues.count()).min_by_key(|&queue| queues.pushed(queue)).unwrap_or(0)
        } else {
            let [a, b] = self.two();
            let queues = &self.shared.queues;
            if queues.pushed(b) < queues.pushed(a) { b } else { a }
        };
        self.end.push(best, thread)
    }

    fn take(&mut self) -> Option<Ready<M>> {
        self.selections += 1;
        if !self.selections.is_multiple_of(self.shared.queues.count()) {
            let two = self.two();
            if let Some(thread) = self.take_from(&two) {
                return Some(thread);
            }
        }
        // The one that lags behind most; and once more as long as there is one, since others take, too.
        loop {
            let queues = &self.shared.queues;
            let filled = (0..queues.count()).filter(|&queue| !queues.is_empty_at(queue));
            let behind = filled.min_by_key(|&queue| queues.popped(queue))?;
            if let Some(thread) = self.end.pop(behind) {
                return Some(thread);
            }
        }
    }

    fn take_from(&mut self, two: &[usize; 2]) -> Option<Ready<M>> {
        let queues = &self.shared.queues;
        let filled = two.iter().copied().filter(|&queue| !queues.is_empty_at(queue));
        let best = filled.min_by_key(|&queue| queues.popped(queue))?;
        self.end.pop(best)
    }

    #[cold]
    fn empty_inbox(&mut self) {
        let mut taken = Vec::new();
        self.shared.inbox.take_all(|thread| taken.push(thread));
        // Whoever looked while they were on their way has seen nothing.
        let several = taken.len() > 1;
        for thread in taken {
            if let Err(thread) = self.place(thread) {
                self.shared.inbox.push(thread);
            }
        }
        if several {
            self.shared.others.wake(Notify::Anyone);
        }
    }
}

impl<M: Machine> Local<M> for MultiqueueLocal<M> {
    fn push(&mut self, thread: Ready<M>, _cause: Cause) -> Notify {
        if let Err(thread) = self.place(thread) {
            self.shared.inbox.push(thread);
        }
        Notify::Anyone
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.turn = self.turn.wrapping_add(1);
        if self.turn.is_multiple_of(ROUND) && !self.shared.inbox.is_empty() {
            self.empty_inbox();
        }
        if let Some(thread) = self.take() {
            return Some(thread);
        }
        if self.shared.inbox.is_empty() {
            return None;
        }
        self.empty_inbox();
        self.take()
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.next(u8::MAX)
    }

    fn has_work(&self) -> bool {
        self.shared.offers()
    }

    fn publish(&mut self) -> Notify {
        if self.has_work() { Notify::Anyone } else { Notify::Nobody }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        while let Some(thread) = self.take() {
            out(thread);
        }
        self.shared.inbox.take_all(out);
    }
}
