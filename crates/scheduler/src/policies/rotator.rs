//! `rotator`: the processors form a ring; each passes what it has too much of to the next. No operation on a thread's
//! way through it is a read-modify-write or a fence.
//!
//! Source: Oguma, Nakayama, *Lesser Bear: a Light-Weight Process Library for SMP Computers*, sections 2.2 (Protect and
//! Waiver queues) and 3.2 (the ring). Differs: the Waiver queue is bounded, in that a processor keeps what a neighbour
//! that does not take leaves standing; threads from outside come through an inbox per processor (read-modify-writes of
//! the outsider's, and of the receiver's when there is something); the capacity is computed from counts that the
//! processors state.
//!
//! Processor i has a *Protect* queue, which nobody else touches, and a *Waiver* queue, into which i alone puts and from
//! which i+1 alone takes. At each selection i takes **all** of its backward neighbour's Waiver queue, fills Protect up
//! to its capacity, puts the rest into its own Waiver queue, and has a sleeping forward neighbour woken. It sleeps when
//! Protect and the backward Waiver queue are empty ([`Policy::ring`]: who sleeps looks once more after a heavy fence).
//!
//! The capacity is the same everywhere but for the age of the counts: ready threads / processors, rounded up, at least
//! one; each processor recounts every [`RECOUNT`] operations. While the forward neighbour sleeps it is one: what the
//! other processors could share goes to it.
//!
//! A Waiver queue holds at most [`BOUND`] threads, and at most as many for each of the other processors as its own
//! keeps. So a neighbour that takes nothing gets less than all of few threads and a fixed number of many, however many
//! come and go while it stands still; one that takes gets the rest at the following selections.
//!
//! Order: first in, first out within a processor; a thread that is passed on goes behind what the next one has. A
//! thread that yields goes behind all that its processor protects, so a loop of yields lets each of them run; one that
//! was passed on runs on the next processor or beyond, but while every Protect queue is full, surplus threads travel:
//! with the capacity above there is a place for each, so they settle at the next recount.
//!
//! Suits: many equal threads, evenly made: spreading them costs plain loads and stores. Bad at: work that appears in
//! one place (it reaches the far side of the ring in as many steps as there are processors, each at a selection),
//! threads that compute long between selections (the neighbour waits for the whole quantum), many processors,
//! priorities.
//!
//! A frozen processor k strands its running thread and Protect(k), which nobody adds to; of Waiver(k-1) at most
//! [`BOUND`] threads; and of its inbox what was there, and threads from outside while it is the shortest of all: at
//! most one more than the shortest of the others ever held, and as many as are submitted at once. Threads reach k+1
//! only as new ones there; until k is taken over. A pool under `rotator` keeps its processors: one that stops for good
//! would cut the ring.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let policy = policies::build::<Real>(&"rotator".parse().unwrap(), 2, std::sync::Arc::new(Busy)).unwrap();
//! assert!(policy.ring() && policy.strands().contains("Protect"));
//! ```
#![forbid(unsafe_code)]

use super::Others;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::{CountedInbox, Gauge, WaiverIn, WaiverOut, waiver};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Operations of a processor between two looks at all counts. Simulated on 16 cores, 256 threads that yield take 0.52,
/// 0.25 and 0.37 ms with 16, 64 and 256, packets 4.1, 2.9 and 3.0 (2026-11-28, docs/constants.md).
pub const RECOUNT: u32 = 64;
/// Threads that a Waiver queue may hold: what a neighbour that does not take can strand. A neighbour that takes
/// empties it at each selection, so it limits how fast threads spread, not how far. With 16, 32, 64 and 256 those that
/// yield take 0.30, 0.30, 0.25 and 0.42 ms, and a tree, which this policy is not for, 0.38, 0.48, 0.59 and 0.60 (as
/// above).
pub const BOUND: u64 = 64;

/// The two ends that a processor gets: the one to put in, the backward neighbour's to take from.
type Ends<M> = (WaiverIn<M>, WaiverOut<M>);

struct Shared<M: Machine> {
    inboxes: Box<[CountedInbox<M>]>,
    /// Per processor: threads that came in there less threads selected there (wrapping: a thread may come in at one and
    /// be selected at another; the sum is what counts).
    balances: Box<[Gauge<M>]>,
    others: Arc<dyn Others>,
}

/// The policy.
pub struct Rotator<M: Machine> {
    shared: Arc<Shared<M>>,
    /// Waits for [`Policy::local`]; touched only before the pool runs.
    ends: Mutex<Vec<Option<Ends<M>>>>,
}

impl<M: Machine> Rotator<M> {
    /// A ring of `processors`.
    pub fn new(processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let pairs = (0..processors).map(|_| waiver()).collect::<Result<Vec<_>, _>>()?;
        let (into, mut from): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        from.rotate_right(1);
        Ok(Self {
            shared: Arc::new(Shared {
                inboxes: (0..processors).map(|_| CountedInbox::default()).collect(),
                balances: (0..processors).map(|_| Gauge::default()).collect(),
                others,
            }),
            ends: Mutex::new(into.into_iter().zip(from).map(Some).collect()),
        })
    }
}

impl<M: Machine> Policy<M> for Rotator<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let ends = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index].take();
        let (into, from) = ends.unwrap_or_else(|| panic!("processor {index} of `rotator` was made twice"));
        Box::new(RotatorLocal {
            keeper: Keeper {
                protect: VecDeque::new(),
                into,
                capacity: 1,
                until_recount: 0,
                balance: 0,
                index,
                forward: (index + 1) % self.shared.inboxes.len(),
                shared: self.shared.clone(),
            },
            from,
        })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        // Random instead of in turn: outsiders would have to count together.
        let inboxes = &self.shared.inboxes;
        let mut index = (M::random() % inboxes.len() as u64) as usize;
        if !inboxes[index].is_empty() {
            // Its processor may have stopped taking: the shortest one then, which is never long because of one that
            // stands still.
            let shortest = inboxes.iter().enumerate().min_by_key(|(_, inbox)| inbox.len());
            index = shortest.map_or(index, |(shortest, _)| shortest);
        }
        inboxes[index].push(thread);
        Notify::Processor(index)
    }

    fn describe(&self) -> String {
        "rotator".to_string()
    }

    fn ring(&self) -> bool {
        true
    }

    fn offers(&self) -> bool {
        // Each thread is for one processor.
        false
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread, its Protect queue and what its backward neighbour passed to it (at \
         most 64 threads), and of the threads from outside no more than others had waiting, until it is taken over"
    }
}

/// What a processor keeps and where it passes the rest.
struct Keeper<M: Machine> {
    protect: VecDeque<Ready<M>>,
    into: WaiverIn<M>,
    capacity: usize,
    until_recount: u32,
    balance: u64,
    index: usize,
    forward: usize,
    shared: Arc<Shared<M>>,
}

impl<M: Machine> Keeper<M> {
    /// Notes that `came` threads came in here, or (negative) were selected here.
    #[inline]
    fn count(&mut self, came: i64) {
        self.balance = self.balance.wrapping_add_signed(came);
        self.shared.balances[self.index].set(self.balance);
    }

    /// How many threads this processor may keep now.
    #[inline]
    fn allowance(&mut self) -> usize {
        if self.forward == self.index {
            return usize::MAX;
        }
        if self.shared.others.asleep(self.forward) {
            return 1;
        }
        if self.until_recount == 0 {
            self.recount();
        }
        self.until_recount -= 1;
        self.capacity
    }

    #[cold]
    fn recount(&mut self) {
        self.until_recount = RECOUNT;
        let total = self.shared.balances.iter().fold(0u64, |sum, balance| sum.wrapping_add(balance.get()));
        // Counts of different age may not add up: what looks like less than none is none.
        let total = u64::try_from(total as i64).unwrap_or(0);
        self.capacity = total.div_ceil(self.shared.balances.len() as u64).max(1) as usize;
    }

    /// Protects a thread, or passes it on: then true.
    #[inline]
    fn settle(&mut self, thread: Ready<M>) -> bool {
        if self.protect.is_empty() || self.protect.len() < self.allowance() {
            self.protect.push_back(thread);
            return false;
        }
        self.waive(thread)
    }

    /// True if one more thread may be passed on, besides those that are protected: the neighbour has taken what came
    /// before, or there are not too many of them.
    #[inline]
    fn may_waive(&self) -> bool {
        let others = self.shared.inboxes.len() as u64 - 1;
        self.into.len() < BOUND.min(others * self.protect.len().max(1) as u64)
    }

    /// Passes a thread on, unless the neighbour does not take: then it is kept, and the answer false.
    fn waive(&mut self, thread: Ready<M>) -> bool {
        if !self.may_waive() {
            self.protect.push_back(thread);
            return false;
        }
        match self.into.push(thread) {
            Ok(()) => true,
            Err(thread) => {
                self.protect.push_back(thread);
                false
            }
        }
    }

    #[cold]
    fn open_inbox(&mut self) -> bool {
        let mut taken = Vec::new();
        self.shared.inboxes[self.index].take_all(|thread| taken.push(thread));
        self.count(taken.len() as i64);
        let mut passed = false;
        for thread in taken {
            passed |= self.settle(thread);
        }
        passed
    }

    /// Passes on what is protected beyond the allowance, the newest first.
    #[inline]
    fn trim(&mut self) -> bool {
        let allowance = self.allowance();
        let mut passed = false;
        while self.protect.len() > allowance {
            let Some(thread) = self.protect.pop_back() else { break };
            if !self.waive(thread) {
                break;
            }
            passed = true;
        }
        passed
    }
}

struct RotatorLocal<M: Machine> {
    keeper: Keeper<M>,
    from: WaiverOut<M>,
}

impl<M: Machine> RotatorLocal<M> {
    /// Takes all that the backward neighbour passed on and what came from outside; passes on what is too much.
    #[inline]
    fn collect(&mut self) {
        let Self { keeper, from } = self;
        let mut passed = false;
        if !from.is_empty() {
            from.take_all(|thread| passed |= keeper.settle(thread));
        }
        if !keeper.shared.inboxes[keeper.index].is_empty() {
            passed |= keeper.open_inbox();
        }
        if keeper.protect.len() > 1 {
            passed |= keeper.trim();
        }
        if passed {
            keeper.shared.others.wake(Notify::Processor(keeper.forward));
        }
    }
}

impl<M: Machine> Local<M> for RotatorLocal<M> {
    fn push(&mut self, thread: Ready<M>, _cause: Cause) -> Notify {
        self.keeper.count(1);
        if self.keeper.settle(thread) { Notify::Processor(self.keeper.forward) } else { Notify::Nobody }
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.collect();
        let thread = self.keeper.protect.pop_front()?;
        self.keeper.count(-1);
        Some(thread)
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.next(u8::MAX)
    }

    fn has_work(&self) -> bool {
        let keeper = &self.keeper;
        !keeper.protect.is_empty() || !self.from.is_empty() || !keeper.shared.inboxes[keeper.index].is_empty()
    }

    fn holds_private(&self) -> bool {
        !self.keeper.protect.is_empty()
    }

    fn publish(&mut self) -> Notify {
        if self.keeper.forward == self.keeper.index {
            return Notify::Nobody;
        }
        self.collect();
        let keeper = &mut self.keeper;
        // The neighbour may stand still as well, so not all at once: the rest follows when it has taken these.
        while let Some(thread) = keeper.protect.pop_front() {
            let refused = if keeper.may_waive() { keeper.into.push(thread).err() } else { Some(thread) };
            if let Some(thread) = refused {
                keeper.protect.push_front(thread);
                break;
            }
        }
        if keeper.into.is_empty() { Notify::Nobody } else { Notify::Processor(keeper.forward) }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        let Self { keeper, from } = self;
        let mut came = 0;
        let protect = &mut keeper.protect;
        keeper.shared.inboxes[keeper.index].take_all(|thread| {
            came += 1;
            protect.push_back(thread);
        });
        from.take_all(|thread| protect.push_back(thread));
        keeper.count(came - keeper.protect.len() as i64);
        keeper.protect.drain(..).for_each(out);
    }
}
