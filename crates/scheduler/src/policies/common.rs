//! What `local` and `request` have for all processors together: the queue for threads that overflow, that yield and
//! that come from outside.
//!
//! Source: the overflow queues of the MSc report *Effective parallelism with OCaml schedulers*, section 7.1.1: locked,
//! lock-free, and a multi-queue of k; its own queue, section 5.1; and its place for yielded threads, section 4.4.4.
//! Differs: the queue of section 5.1 is bounded, so what it has no room for goes to a lock-free one beside it, and
//! while that holds anything, selections take turns between the two: who comes later passes, at most, as many as are
//! there.
#![forbid(unsafe_code)]

use super::Others;
use super::victims::Random;
use crate::expression::Overflow;
use crate::policy::Notify;
use crate::ready::Ready;
use crate::tokens::{Inbox, Locked, Shards, ShardsEnd, Tickets, TicketsEnd};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many threads the queue of `overflow=tickets` holds, in 512 KiB; few where that would take a checker too long.
const ROOM: usize = if cfg!(feature = "loom") {
    2
} else if cfg!(miri) {
    64
} else {
    65_536
};

enum Queue<M: Machine> {
    Locked(Locked<VecDeque<Ready<M>>, M>),
    Free(Arc<Shards<M>>),
    Bounded { tickets: Arc<Tickets<M>>, beside: Arc<Shards<M>> },
}

/// The queue.
pub(super) struct Common<M: Machine> {
    queue: Queue<M>,
    /// For those who own no processor, and for what the queue has no memory for.
    inbox: Inbox<M>,
    others: Arc<dyn Others>,
}

impl<M: Machine> Common<M> {
    pub fn new(overflow: Overflow, processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let queue = match overflow {
            Overflow::Locked => Queue::Locked(Locked::new(VecDeque::new())),
            Overflow::LockFree | Overflow::Retry => Queue::Free(Shards::new(1, processors)?),
            Overflow::Sharded(k) => Queue::Free(Shards::new(k as usize, processors)?),
            Overflow::Tickets => Queue::Bounded { tickets: Tickets::new(ROOM)?, beside: Shards::new(1, processors)? },
        };
        Ok(Self { queue, inbox: Inbox::default(), others })
    }

    /// The end of processor `index`; none if it was made before.
    pub fn end(self: &Arc<Self>, index: usize) -> Option<CommonEnd<M>> {
        let (end, turn) = match &self.queue {
            Queue::Locked(_) => (End::Locked, 0),
            Queue::Free(shards) => (End::Free(shards.end(index)?), Random::new::<M>().below(shards.count())),
            Queue::Bounded { tickets, beside } => (End::Bounded(tickets.end(), beside.end(index)?), 0),
        };
        Some(CommonEnd { common: self.clone(), end, into: turn, from: turn })
    }

    /// True if something is here (racy).
    pub fn offers(&self) -> bool {
        !self.inbox.is_empty()
            || match &self.queue {
                Queue::Locked(queue) => queue.with(|queue| !queue.is_empty()),
                Queue::Free(shards) => !shards.is_empty(),
                Queue::Bounded { tickets, beside } => !tickets.is_empty() || !beside.is_empty(),
            }
    }

    /// Takes a thread from outside.
    pub fn submit(&self, thread: Ready<M>) -> Notify {
        match &self.queue {
            Queue::Locked(queue) => queue.with(|queue| queue.push_back(thread)),
            Queue::Free(_) | Queue::Bounded { .. } => self.inbox.push(thread),
        }
        Notify::Anyone
    }
}

/// One processor's way to the queue.
enum End<M: Machine> {
    Locked,
    Free(ShardsEnd<M>),
    Bounded(TicketsEnd<M>, ShardsEnd<M>),
}

/// One processor's access to it.
pub(super) struct CommonEnd<M: Machine> {
    common: Arc<Common<M>>,
    end: End<M>,
    /// The shards that are next in turn.
    into: usize,
    from: usize,
}

impl<M: Machine> CommonEnd<M> {
    /// Appends; to the shard that is next in turn.
    pub fn push(&mut self, thread: Ready<M>) {
        let pushed = match &mut self.end {
            End::Locked => {
                if let Queue::Locked(queue) = &self.common.queue {
                    queue.with(|queue| queue.push_back(thread));
                }
                return;
            }
            End::Free(end) => {
                self.into = (self.into + 1) % end.shards().count();
                end.push(self.into, thread)
            }
            End::Bounded(tickets, beside) => tickets.push(thread).or_else(|thread| beside.push(0, thread)),
        };
        if let Err(thread) = pushed {
            self.common.inbox.push(thread);
        }
    }

    /// The oldest; of the first shard in turn that has one.
    pub fn pop(&mut self) -> Option<Ready<M>> {
        if !self.common.inbox.is_empty() {
            self.empty_inbox();
        }
        match &mut self.end {
            End::Locked => {
                let Queue::Locked(queue) = &self.common.queue else { return None };
                queue.with(VecDeque::pop_front)
            }
            End::Free(end) => {
                let count = end.shards().count();
                (0..count).find_map(|_| {
                    self.from = (self.from + 1) % count;
                    end.pop(self.from)
                })
            }
            End::Bounded(tickets, beside) => {
                self.from ^= 1;
                let first = if self.from == 0 && !beside.shards().is_empty() { beside.pop(0) } else { None };
                first.or_else(|| tickets.pop()).or_else(|| beside.pop(0))
            }
        }
    }

    #[cold]
    fn empty_inbox(&mut self) {
        let mut taken = Vec::new();
        self.common.inbox.take_all(|thread| taken.push(thread));
        // Whoever looked while they were on their way has seen nothing.
        let several = taken.len() > 1;
        taken.into_iter().for_each(|thread| self.push(thread));
        if several {
            self.common.others.wake(Notify::Anyone);
        }
    }

    /// Gives back all that is here.
    pub fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        while let Some(thread) = self.pop() {
            out(thread);
        }
    }
}
