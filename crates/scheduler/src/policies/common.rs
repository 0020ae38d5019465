//! What `local` and `request` have for all processors together: the queue for threads that overflow, that yield and that come
//! from outside.
//!
//! Source: the overflow queues of the MSc report *Effective parallelism with OCaml schedulers*, section 7.1.1: locked, lock-free,
//! and a multi-queue of k; and its place for yielded threads, section 4.4.4.
#![forbid(unsafe_code)]

use super::Others;
use super::victims::Random;
use crate::expression::Overflow;
use crate::policy::Notify;
use crate::ready::Ready;
use crate::tokens::{Inbox, Locked, Shards, ShardsEnd};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::collections::VecDeque;
use std::sync::Arc;

enum Queue<M: Machine> {
    Locked(Locked<VecDeque<Ready<M>>, M>),
    Free(Arc<Shards<M>>),
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
        };
        Ok(Self { queue, inbox: Inbox::default(), others })
    }

    /// The end of processor `index`; none if it was made before.
    pub fn end(self: &Arc<Self>, index: usize) -> Option<CommonEnd<M>> {
        let (end, turn) = match &self.queue {
            Queue::Locked(_) => (None, 0),
            Queue::Free(shards) => (Some(shards.end(index)?), Random::new::<M>().below(shards.count())),
        };
        Some(CommonEnd { common: self.clone(), end, into: turn, from: turn })
    }

    /// True if something is here (racy).
    pub fn offers(&self) -> bool {
        !self.inbox.is_empty()
            || match &self.queue {
                Queue::Locked(queue) => queue.with(|queue| !queue.is_empty()),
                Queue::Free(shards) => !shards.is_empty(),
            }
    }

    /// Takes a thread from outside.
    pub fn submit(&self, thread: Ready<M>) -> Notify {
        match &self.queue {
            Queue::Locked(queue) => queue.with(|queue| queue.push_back(thread)),
            Queue::Free(_) => self.inbox.push(thread),
        }
        Notify::Anyone
    }
}

/// One processor's access to it.
pub(super) struct CommonEnd<M: Machine> {
    common: Arc<Common<M>>,
    end: Option<ShardsEnd<M>>,
    /// The shards that are next in turn.
    into: usize,
    from: usize,
}

impl<M: Machine> CommonEnd<M> {
    /// Appends; to the shard that is next in turn.
    pub fn push(&mut self, thread: Ready<M>) {
        match (&mut self.end, &self.common.queue) {
            (Some(end), _) => {
                self.into = (self.into + 1) % end.shards().count();
                if let Err(thread) = end.push(self.into, thread) {
                    self.common.inbox.push(thread);
                }
            }
            (None, Queue::Locked(queue)) => queue.with(|queue| queue.push_back(thread)),
            (None, Queue::Free(_)) => self.common.inbox.push(thread),
        }
    }

    /// The oldest; of the first shard in turn that has one.
    pub fn pop(&mut self) -> Option<Ready<M>> {
        if !self.common.inbox.is_empty() {
            self.empty_inbox();
        }
        let Some(end) = &mut self.end else {
            let Queue::Locked(queue) = &self.common.queue else { return None };
            return queue.with(VecDeque::pop_front);
        };
        let count = end.shards().count();
        (0..count).find_map(|_| {
            self.from = (self.from + 1) % count;
            end.pop(self.from)
        })
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
