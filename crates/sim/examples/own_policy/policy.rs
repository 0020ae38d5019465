//! `polite`: each processor has a queue of its own, oldest first; one that has nothing takes one thread, never more,
//! from the next processor that has some. An example of a policy of one's own: docs/write-your-own-policy.md goes
//! through it.
#![forbid(unsafe_code)]

use raddle_machine::Machine;
use raddle_scheduler::policies::Others;
use raddle_scheduler::tokens::{Fifo, FifoView, Inbox, Stolen};
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::sync::{Arc, Mutex};

/// What all processors share.
struct Shared<M: Machine> {
    /// What thieves see of each processor's queue.
    queues: Vec<FifoView<M>>,
    /// Threads from outside the pool.
    inbox: Inbox<M>,
    others: Arc<dyn Others>,
}

impl<M: Machine> Shared<M> {
    fn offers(&self) -> bool {
        !self.inbox.is_empty() || self.queues.iter().any(|queue| !queue.is_empty())
    }
}

/// The policy: one for a pool.
pub struct Polite<M: Machine> {
    shared: Arc<Shared<M>>,
    /// The owners' ends, until each processor has come for its own.
    ends: Mutex<Vec<Option<Fifo<M>>>>,
}

impl<M: Machine> Polite<M> {
    /// For at most `processors` processors.
    pub fn new(processors: usize, others: Arc<dyn Others>) -> Self {
        let end = |_| {
            let mut end = Fifo::new(64).unwrap_or_else(|_| panic!("no memory for a queue"));
            // Nothing private: who looks for work sees all there is.
            end.set_batch(1);
            end
        };
        let ends: Vec<Fifo<M>> = (0..processors).map(end).collect();
        let queues = ends.iter().map(Fifo::view).collect();
        let shared = Arc::new(Shared { queues, inbox: Inbox::default(), others });
        Self { shared, ends: Mutex::new(ends.into_iter().map(Some).collect()) }
    }
}

impl<M: Machine> Policy<M> for Polite<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let end = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index].take();
        let queue = end.unwrap_or_else(|| panic!("processor {index} was made twice"));
        Box::new(PoliteLocal { index, queue, shared: self.shared.clone(), steals: (0, 0) })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.shared.inbox.push(thread);
        Notify::Anyone
    }

    fn describe(&self) -> String {
        "polite".to_string()
    }

    fn offers(&self) -> bool {
        self.shared.offers()
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread, and what it was just moving in from outside"
    }
}

/// A processor's part.
struct PoliteLocal<M: Machine> {
    index: usize,
    queue: Fifo<M>,
    shared: Arc<Shared<M>>,
    steals: (u64, u64),
}

impl<M: Machine> PoliteLocal<M> {
    fn add(&mut self, thread: Ready<M>) {
        // A queue that cannot grow gives the thread back; it must not be lost.
        if let Err(thread) = self.queue.push(thread) {
            self.shared.inbox.push(thread);
        }
    }

    fn empty_inbox(&mut self) {
        let mut threads = Vec::new();
        self.shared.inbox.take_all(|thread| threads.push(thread));
        let several = threads.len() > 1;
        threads.into_iter().for_each(|thread| self.add(thread));
        if several {
            // Whoever looked while they were on their way has seen nothing.
            self.shared.others.wake(Notify::Anyone);
        }
    }
}

impl<M: Machine> Local<M> for PoliteLocal<M> {
    fn push(&mut self, thread: Ready<M>, _cause: Cause) -> Notify {
        self.add(thread);
        Notify::Anyone
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        if !self.shared.inbox.is_empty() {
            self.empty_inbox();
        }
        self.queue.pop()
    }

    fn search(&mut self) -> Option<Ready<M>> {
        let count = self.shared.queues.len();
        for victim in (1..count).map(|distance| (self.index + distance) % count) {
            let view = &self.shared.queues[victim];
            while !view.is_empty() {
                self.steals.0 += 1;
                match self.queue.steal_from(view, 1) {
                    Stolen::Taken { first, .. } => {
                        self.steals.1 += 1;
                        return Some(first);
                    }
                    // Somebody else took one at that moment: look again.
                    Stolen::Lost => {}
                    Stolen::Empty => break,
                }
            }
        }
        None
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        match self.queue.steal_from(&self.shared.queues[victim], 1) {
            Stolen::Taken { first, .. } => Some(first),
            _ => None,
        }
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.shared.offers()
    }

    fn publish(&mut self) -> Notify {
        self.queue.publish();
        if self.queue.is_empty() { Notify::Nobody } else { Notify::Anyone }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        while let Some(thread) = self.queue.pop() {
            out(thread);
        }
    }

    fn steals(&self) -> (u64, u64) {
        self.steals
    }
}
