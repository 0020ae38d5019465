//! `local(order, ...)`: a bounded queue per processor, work stealing, and one overflow queue for all. What
//! [`steal`](super::steal) was tuned from.
//!
//! Source: the local-queue schedulers of the MSc report *Effective parallelism with OCaml schedulers*, sections 2.1.4,
//! 4.3.1, 4.4.1, 4.4.2, 4.4.4, 5.1 and 7.1.1, in all the forms that it measures. Differs: the rings are ours
//! (`local/rings.rs`); steals take the oldest under either order; who finds no better victim takes what there is, at
//! once or after some rounds, so that nobody idles.
//!
//! - order `fifo` or `lifo`: which thread of its own queue a processor selects;
//! - `capacity=128`: what the queue holds;
//! - `victims=random`, `neighbours(k)`, `clusters(k)`: whom a thief asks first; the others only when none of these has
//!   anything;
//! - `batch=half`, `one`, `min(k)`: how much it takes; `min(k, rare=r)`: less than from k only after r rounds;
//! - `overflow=lockfree`, `locked`, `sharded(k)`, `tickets` (bounded, one fetch-and-add and one exchange, the report's
//!   section 5.1; what it has no room for waits beside it): where threads go that find the queue full; `retry`: the
//!   spawner has to wait. A push cannot be refused, so the thread stays with its processor, behind the queue, and its
//!   spawner is asked to offer the processor before it goes on ([`Local::crowded`]): then others run, and there is
//!   room;
//! - `share=p`: of 100 new threads p, by chance, go to the overflow queue even when there is room;
//! - `grow=vertical`, `horizontal`: instead of overflowing the queue grows, as one array or as several;
//! - `slot`: the thread that became ready last runs next, ahead of the queue, at most [`SLOT_RUN`] times in a row. It
//!   is private, so it is not used while somebody is hungry.
//!
//! Threads that yield, and those from outside, go to the overflow queue. Of [`ROUND`] selections one prefers it; of
//! [`ELDERS`] one takes the oldest thread of the processor's queue. So yield loops end, and a stack that never empties
//! starves nobody.
//!
//! Suits: comparing what each of these does; `steal` is faster than each of them at what it does. Bad at: overhead
//! (each selection is an exchange, since nothing is private), bursts with `overflow=locked`, latency of woken threads
//! behind a full queue; with `slot`, a thread may wait while its processor computes and another one, which became idle
//! later, sleeps.
//!
//! A frozen processor strands its running thread, the one in its slot and, with `retry`, those behind its queue, until
//! it is taken over; with `locked`, frozen within the lock, it keeps all from the overflow queue until it thaws; with
//! `tickets`, frozen as it takes one, at most the one thread that its ticket stands for.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let text = "local(lifo, victims=neighbours(15), overflow=sharded(5))";
//! let policy = policies::build::<Real>(&text.parse().unwrap(), 2, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), text);
//! ```
#![forbid(unsafe_code)]

mod rings;

use super::common::{Common, CommonEnd};
use super::victims::{Random, distances};
use super::{AT_ONCE, Others};
use crate::expression::{Batch, LocalQueues, Overflow};
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::Stolen;
use raddle_machine::Machine;
use raddle_queues::Full;
use rings::{Rings, Views};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

/// One of so many selections prefers the overflow queue. (Go has 61, and does not put yields there.) Simulated with 4,
/// packets and trees take 8 to 9 % longer on two cores; with 64 nothing changes beyond the seeds' spread (2026-11-28,
/// docs/constants.md).
pub const ROUND: u32 = 16;
/// One of so many selections takes the oldest of the processor's own queue.
pub const ELDERS: u32 = 64;
/// How often in a row the slot is preferred. Simulated with 12 nothing changes beyond the seeds' spread (2026-11-28,
/// docs/constants.md); tokio's is 3 as well.
pub const SLOT_RUN: u32 = 3;
/// Attempts on one victim that lose against other thieves before the next victim is asked.
const PERSISTENCE: u32 = 3;

/// What the processors share.
struct Shared<M: Machine> {
    parts: Box<[OnceLock<Views<M>>]>,
    common: Arc<Common<M>>,
    options: LocalQueues,
    others: Arc<dyn Others>,
}

impl<M: Machine> Shared<M> {
    fn offers(&self) -> bool {
        self.common.offers() || self.parts.iter().any(|part| part.get().is_some_and(|part| part.offers() > 0))
    }
}

/// The policy.
pub struct LocalPolicy<M: Machine> {
    shared: Arc<Shared<M>>,
    /// Wait for [`Policy::local`]; touched only before the pool runs.
    rings: Mutex<Vec<Option<Rings<M>>>>,
}

impl<M: Machine> LocalPolicy<M> {
    /// For at most `processors` processors.
    pub fn new(options: LocalQueues, processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let rings = |_| Rings::new(options.stealing.order, options.capacity, options.growth).map(Some);
        let rings = (0..processors).map(rings).collect::<Result<_, Full>>()?;
        let common = Arc::new(Common::new(options.overflow, processors, others.clone())?);
        let parts = (0..processors).map(|_| OnceLock::new()).collect();
        Ok(Self { shared: Arc::new(Shared { parts, common, options, others }), rings: Mutex::new(rings) })
    }

    pub(super) fn part(&self, index: usize) -> LocalPart<M> {
        let rings = self.rings.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index].take();
        let (Some(rings), Some(common)) = (rings, self.shared.common.end(index)) else {
            panic!("processor {index} of `local` was made twice")
        };
        let _first = self.shared.parts[index].set(rings.views());
        LocalPart {
            rings,
            common,
            slot: None,
            in_a_row: 0,
            behind: VecDeque::new(),
            turn: 0,
            random: Random::new::<M>(),
            index,
            shared: self.shared.clone(),
            tried: 0,
            won: 0,
        }
    }
}

impl<M: Machine> Policy<M> for LocalPolicy<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        Box::new(self.part(index))
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.shared.common.submit(thread)
    }

    fn describe(&self) -> String {
        self.shared.options.to_string()
    }

    fn offers(&self) -> bool {
        self.shared.offers()
    }

    fn strands(&self) -> &'static str {
        match self.shared.options.overflow {
            Overflow::Locked => {
                "a frozen processor strands its running thread and the one in its slot, until it is taken over; frozen within \
                 the overflow queue's lock, it keeps all others from that queue until it thaws"
            }
            Overflow::Retry => {
                "a frozen processor strands its running thread, the one in its slot and those that found its queue full, until \
                 it is taken over"
            }
            _ => "a frozen processor strands its running thread and the one in its slot, until it is taken over",
        }
    }
}

/// One processor's part of [`LocalPolicy`].
pub(super) struct LocalPart<M: Machine> {
    rings: Rings<M>,
    common: CommonEnd<M>,
    slot: Option<Ready<M>>,
    /// Selections of the slot in a row.
    in_a_row: u32,
    /// What found the queue full under `retry`, oldest first.
    behind: VecDeque<Ready<M>>,
    turn: u32,
    random: Random,
    index: usize,
    shared: Arc<Shared<M>>,
    tried: u64,
    won: u64,
}

impl<M: Machine> LocalPart<M> {
    /// How many threads others could take (racy).
    pub(super) fn len(&self) -> u64 {
        self.rings.len()
    }

    pub(super) fn others(&self) -> &dyn Others {
        &*self.shared.others
    }

    pub(super) fn chance(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Puts a thread into the queue, or where it overflows to.
    fn place(&mut self, thread: Ready<M>) {
        let retry = self.shared.options.overflow == Overflow::Retry && self.shared.options.growth.is_none();
        // While something waits behind the queue, the queue is full: thieves may have made room.
        self.close_up();
        let refused = if self.behind.is_empty() { self.rings.push(thread).err() } else { Some(thread) };
        match refused {
            None => {}
            Some(thread) if retry => self.behind.push_back(thread),
            Some(thread) => self.common.push(thread),
        }
    }

    /// What found the queue full gets the room that there is. True if something did.
    fn close_up(&mut self) -> bool {
        let mut moved = false;
        while let Some(thread) = self.behind.pop_front() {
            if let Err(thread) = self.rings.push(thread) {
                self.behind.push_front(thread);
                break;
            }
            moved = true;
        }
        moved
    }

    /// The next thread from what is at hand.
    fn take(&mut self) -> Option<Ready<M>> {
        self.turn = self.turn.wrapping_add(1);
        if !self.behind.is_empty() && self.close_up() {
            self.shared.others.wake(Notify::Anyone);
        }
        if self.turn.is_multiple_of(ROUND)
            && let Some(thread) = self.common.pop()
        {
            return Some(thread);
        }
        let mut oldest = self.turn.is_multiple_of(ELDERS);
        if let Some(thread) = self.slot.take() {
            if self.in_a_row < SLOT_RUN && !oldest {
                self.in_a_row += 1;
                return Some(thread);
            }
            self.place(thread);
            oldest = true;
        }
        self.in_a_row = 0;
        let thread = if oldest {
            self.rings.pop_oldest()
        } else {
            let others = &self.shared.others;
            self.rings.pop(&mut || others.wake(Notify::Anyone))
        };
        thread.or_else(|| self.common.pop())
    }

    fn search_all(&mut self) -> Option<Ready<M>> {
        if let Some(thread) = self.take() {
            return Some(thread);
        }
        let (least, rounds) = match self.shared.options.stealing.batch {
            Batch::Half | Batch::One => (1, 0),
            Batch::Min(k) => (k, 1),
            Batch::MinRarely(k, rounds) => (k, rounds),
        };
        // Nobody offers as much as it should be: better little than an idle processor.
        (0..rounds).find_map(|_| self.round(least.into())).or_else(|| self.round(1))
    }

    /// Asks everybody who offers so much, in the order of the victims.
    fn round(&mut self, least: u64) -> Option<Ready<M>> {
        let count = self.shared.parts.len();
        let ranges = distances(self.shared.options.stealing.victims, self.index, count);
        ranges.into_iter().flatten().find_map(|(first, last)| {
            let many = last - first + 1;
            let start = self.random.below(many);
            (0..many).find_map(|i| self.steal_from((self.index + first + (start + i) % many) % count, least))
        })
    }

    /// Steals from one processor, if it offers so much.
    pub(super) fn steal_from(&mut self, victim: usize, least: u64) -> Option<Ready<M>> {
        if victim == self.index {
            return None;
        }
        let Self { shared, rings, random, tried, won, .. } = self;
        let victim = shared.parts[victim].get()?;
        if victim.offers() < least {
            return None;
        }
        let mut max = if shared.options.stealing.batch == Batch::One { 1 } else { AT_ONCE };
        for _ in 0..PERSISTENCE {
            *tried += 1;
            match rings.steal_from(victim, random.below(rings::WIDTH), max) {
                Stolen::Taken { first, .. } => {
                    *won += 1;
                    return Some(first);
                }
                Stolen::Empty => return None,
                Stolen::Lost => max = max.div_ceil(8),
            }
        }
        None
    }
}

impl<M: Machine> Local<M> for LocalPart<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        let options = &self.shared.options;
        let shared = cause == Cause::Spawned && options.share > 0 && self.random.below(100) < options.share as usize;
        if cause == Cause::Yielded || shared {
            self.common.push(thread);
            return Notify::Anyone;
        }
        if !options.slot || cause == Cause::Submitted || self.shared.others.hungry() {
            self.place(thread);
            return Notify::Anyone;
        }
        match self.slot.replace(thread) {
            None => Notify::Nobody,
            Some(displaced) => {
                self.place(displaced);
                Notify::Anyone
            }
        }
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.take()
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.search_all()
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        self.steal_from(victim, 1)
    }

    fn has_work(&self) -> bool {
        self.holds_private() || self.shared.offers()
    }

    fn holds_private(&self) -> bool {
        self.slot.is_some() || !self.behind.is_empty()
    }

    fn crowded(&self) -> bool {
        !self.behind.is_empty()
    }

    fn publish(&mut self) -> Notify {
        self.behind.drain(..).for_each(|thread| self.common.push(thread));
        if let Some(thread) = self.slot.take() {
            self.place(thread);
        }
        if self.has_work() { Notify::Anyone } else { Notify::Nobody }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        self.slot.take().into_iter().chain(self.behind.drain(..)).for_each(&mut *out);
        while let Some(thread) = self.rings.pop(&mut || ()) {
            out(thread);
        }
        self.common.drain(out);
    }

    fn steals(&self) -> (u64, u64) {
        (self.tried, self.won)
    }
}
