//! `stochastic(p)`, `alternate(n)`, `reverse(n)`: one queue for all processors, of which both ends are taken from.
//!
//! Source: the hybrids of the MSc report *Effective parallelism with OCaml schedulers*, section 4.2.2: points between
//! first in first out, which bounds the wait of the oldest, and last in first out, which finds its data in the caches.
//! - `stochastic(p)`: p selections of 100, by chance, take the newest, the others the oldest;
//! - `alternate(n)`: n selections take the newest, the next n the oldest, in turn;
//! - `reverse(n)`: the newest; after n selections the stack is turned over, so that what lay at the bottom comes first.
//!
//! Differs: turning the stack over is a flag that says which end is the top. The queue is *locked*: none of our
//! lock-free ones lets everybody take from both ends. Selections of all processors are counted together.
//!
//! A thread that yields goes to a queue of its own, oldest first (section 4.4.4 of the report: on a stack it would be
//! selected again at once). Of [`ROUND`] selections one prefers that queue, the others the mixed one; so a loop of
//! yields lets every thread run that the mixture takes, and threads that keep coming let the yielding ones run.
//!
//! Suits: to see what order alone does to latency and locality, on few processors. Bad at: many processors and short
//! threads, which all wait for one lock; tail latency where p or n favour the newest: under `reverse`, what lies in the
//! middle waits while both ends grow.
//!
//! A frozen processor strands its running thread; frozen within the lock, it keeps all others from selecting until it
//! thaws.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let policy = policies::build::<Real>(&"alternate(16)".parse().unwrap(), 2, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "alternate(16)");
//! ```
#![forbid(unsafe_code)]

use super::victims::Random;
use crate::expression::Mix;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::Locked;
use raddle_machine::Machine;
use std::collections::VecDeque;
use std::sync::Arc;

/// One of so many selections prefers threads that have yielded.
pub const ROUND: u32 = 16;

/// What the lock is for.
struct Mixture<M: Machine> {
    mix: Mix,
    threads: VecDeque<Ready<M>>,
    yielded: VecDeque<Ready<M>>,
    /// True if the newest are in front.
    turned: bool,
    /// Selections so far, modulo what `mix` counts to, and of all.
    turn: u32,
    round: u32,
    random: Random,
}

impl<M: Machine> Mixture<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) {
        match (cause, self.turned) {
            (Cause::Yielded, _) => self.yielded.push_back(thread),
            (_, false) => self.threads.push_back(thread),
            (_, true) => self.threads.push_front(thread),
        }
    }

    fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.yielded.is_empty()
    }

    fn pop(&mut self) -> Option<Ready<M>> {
        self.round = (self.round + 1) % ROUND;
        if self.round == 0
            && let Some(thread) = self.yielded.pop_front()
        {
            return Some(thread);
        }
        if self.threads.is_empty() {
            return self.yielded.pop_front();
        }
        let newest = match self.mix {
            Mix::Stochastic(percent) => self.random.below(100) < percent as usize,
            Mix::Alternate(n) => {
                self.turn = (self.turn + 1) % (2 * n);
                self.turn < n
            }
            Mix::Reverse(n) => {
                self.turn += 1;
                if self.turn > n {
                    self.turn = 1;
                    self.turned = !self.turned;
                }
                true
            }
        };
        if newest != self.turned { self.threads.pop_back() } else { self.threads.pop_front() }
    }
}

/// The policy.
pub struct Hybrid<M: Machine> {
    mix: Mix,
    queue: Arc<Locked<Mixture<M>, M>>,
}

impl<M: Machine> Hybrid<M> {
    /// For any number of processors.
    pub fn new(mix: Mix) -> Self {
        let (threads, yielded) = (VecDeque::new(), VecDeque::new());
        // The first selection is the first of its turn.
        let turn = if let Mix::Alternate(n) = mix { 2 * n - 1 } else { 0 };
        let mixture = Mixture { mix, threads, yielded, turned: false, turn, round: 0, random: Random::new::<M>() };
        Self { mix, queue: Arc::new(Locked::new(mixture)) }
    }
}

impl<M: Machine> Policy<M> for Hybrid<M> {
    fn local(&self, _index: usize) -> Box<dyn Local<M>> {
        Box::new(HybridLocal { queue: self.queue.clone() })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.queue.with(|queue| queue.push(thread, Cause::Submitted));
        Notify::Anyone
    }

    fn describe(&self) -> String {
        self.mix.to_string()
    }

    fn offers(&self) -> bool {
        self.queue.with(|queue| !queue.is_empty())
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread; frozen within the queue's lock, it keeps all others from selecting \
         until it thaws"
    }
}

struct HybridLocal<M: Machine> {
    queue: Arc<Locked<Mixture<M>, M>>,
}

impl<M: Machine> Local<M> for HybridLocal<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        self.queue.with(|queue| queue.push(thread, cause));
        Notify::Anyone
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.queue.with(Mixture::pop)
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.next(u8::MAX)
    }

    fn has_work(&self) -> bool {
        self.queue.with(|queue| !queue.is_empty())
    }

    fn publish(&mut self) -> Notify {
        if self.has_work() { Notify::Anyone } else { Notify::Nobody }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        // Taken out first: `out` may push elsewhere.
        let (threads, yielded) =
            self.queue.with(|queue| (std::mem::take(&mut queue.threads), std::mem::take(&mut queue.yielded)));
        threads.into_iter().chain(yielded).for_each(out);
    }
}
