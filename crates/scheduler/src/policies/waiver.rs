//! `waiver`: a private queue per processor, and one beside it from which anybody takes, under a lock. The rotator's
//! predecessor.
//!
//! Source: the earlier version of Lesser Bear, as Oguma and Nakayama describe it in *Lesser Bear: a Light-Weight
//! Process Library for SMP Computers*, sections 2.2 and 3.1. Differs: the lock is our own, not a call of the kernel's
//! semaphores for each use; while some processor is idle the others protect one thread and waive the rest; of [`ROUND`]
//! selections one takes from the processor's own Waiver queue, so that a Protect queue that never runs dry starves
//! nobody; threads from outside come through an inbox.
//!
//! Processor i has a *Protect* queue, which nobody else touches, and a *Waiver* queue, into which i alone puts (no
//! lock: one producer) and from which anybody takes, one at a time, under its lock. What exceeds the capacity of
//! Protect is waived. A processor that has nothing locks a Waiver queue, its own first, then the others' from a random
//! one on, and fills Protect up to its capacity while it holds the lock. The capacity is the same everywhere but for
//! the age of the counts, as for [`rotator`](super::rotator): ready threads / processors, rounded up, at least one.
//!
//! Order: first in, first out within Protect; what is waived waits until somebody runs dry, or for its processor's next
//! fetch.
//!
//! Suits: to be measured against the rotator. Bad at: many processors that run dry at once, which queue for the same
//! lock.
//!
//! A frozen processor strands its running thread and its Protect queue until it is taken over; frozen within a Waiver
//! queue's lock, it strands that queue too, and every processor that wants to take from it until it thaws.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let policy = policies::build::<Real>(&"waiver".parse().unwrap(), 2, std::sync::Arc::new(Busy)).unwrap();
//! assert!(!policy.ring() && policy.strands().contains("Protect"));
//! ```
#![forbid(unsafe_code)]

use super::Others;
use super::victims::Random;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use crate::tokens::{Gauge, Inbox, Locked, WaiverIn, WaiverOut, WaiverView, waiver};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Operations of a processor between two looks at all counts, as in the rotator.
pub const RECOUNT: u32 = 64;
/// Selections of a processor between two looks into its own Waiver queue and the inbox.
pub const ROUND: u32 = 16;

/// The end of a Waiver queue at which one at a time takes.
struct Outlet<M: Machine> {
    view: WaiverView<M>,
    from: Locked<WaiverOut<M>, M>,
}

struct Shared<M: Machine> {
    outlets: Box<[Outlet<M>]>,
    inbox: Inbox<M>,
    /// Per processor: threads that came in there less threads selected there (wrapping; the sum is what counts).
    balances: Box<[Gauge<M>]>,
    others: Arc<dyn Others>,
}

impl<M: Machine> Shared<M> {
    fn offers(&self) -> bool {
        !self.inbox.is_empty() || self.outlets.iter().any(|outlet| !outlet.view.is_empty())
    }
}

/// The policy.
pub struct Waiver<M: Machine> {
    shared: Arc<Shared<M>>,
    /// Wait for [`Policy::local`]; touched only before the pool runs.
    inlets: Mutex<Vec<Option<WaiverIn<M>>>>,
}

impl<M: Machine> Waiver<M> {
    /// For at most `processors` processors.
    pub fn new(processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        let pairs = (0..processors).map(|_| waiver()).collect::<Result<Vec<_>, _>>()?;
        let outlet =
            |(into, from): (WaiverIn<M>, _)| (Outlet { view: into.view(), from: Locked::new(from) }, Some(into));
        let (outlets, inlets): (Vec<_>, Vec<_>) = pairs.into_iter().map(outlet).unzip();
        let balances = (0..processors).map(|_| Gauge::default()).collect();
        let shared = Shared { outlets: outlets.into(), inbox: Inbox::default(), balances, others };
        Ok(Self { shared: Arc::new(shared), inlets: Mutex::new(inlets) })
    }
}

impl<M: Machine> Policy<M> for Waiver<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let into = self.inlets.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index].take();
        let into = into.unwrap_or_else(|| panic!("processor {index} of `waiver` was made twice"));
        Box::new(WaiverLocal {
            protect: VecDeque::new(),
            into,
            capacity: 1,
            until_recount: 0,
            balance: 0,
            turn: 0,
            random: Random::new::<M>(),
            index,
            shared: self.shared.clone(),
        })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.shared.inbox.push(thread);
        Notify::Anyone
    }

    fn describe(&self) -> String {
        "waiver".to_string()
    }

    fn offers(&self) -> bool {
        self.shared.offers()
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread and its Protect queue until it is taken over; frozen within a Waiver \
         queue's lock, also that queue, and whoever wants to take from it until it thaws"
    }
}

struct WaiverLocal<M: Machine> {
    protect: VecDeque<Ready<M>>,
    into: WaiverIn<M>,
    capacity: usize,
    until_recount: u32,
    balance: u64,
    turn: u32,
    random: Random,
    index: usize,
    shared: Arc<Shared<M>>,
}

impl<M: Machine> WaiverLocal<M> {
    /// Notes that `came` threads came in here, or (negative) were selected here.
    fn count(&mut self, came: i64) {
        self.balance = self.balance.wrapping_add_signed(came);
        self.shared.balances[self.index].set(self.balance);
    }

    /// How many threads this processor may keep now.
    fn allowance(&mut self) -> usize {
        if self.shared.outlets.len() == 1 {
            return usize::MAX;
        }
        if self.shared.others.hungry() {
            return 1;
        }
        if self.until_recount == 0 {
            self.until_recount = RECOUNT;
            let total = self.shared.balances.iter().fold(0u64, |sum, balance| sum.wrapping_add(balance.get()));
            // Counts of different age may not add up: what looks like less than none is none.
            let total = u64::try_from(total as i64).unwrap_or(0);
            self.capacity = total.div_ceil(self.shared.balances.len() as u64).max(1) as usize;
        }
        self.until_recount -= 1;
        self.capacity
    }

    /// Protects a thread, or waives it: then true.
    fn settle(&mut self, thread: Ready<M>) -> bool {
        if self.protect.is_empty() || self.protect.len() < self.allowance() {
            self.protect.push_back(thread);
            return false;
        }
        self.waive(thread)
    }

    fn waive(&mut self, thread: Ready<M>) -> bool {
        match self.into.push(thread) {
            Ok(()) => true,
            Err(thread) => {
                self.protect.push_back(thread);
                false
            }
        }
    }

    /// Fills Protect, which is empty, from a Waiver queue: with one thread at least if there is one.
    fn fetch(&mut self, from: usize) {
        let allowance = self.allowance();
        let Self { protect, shared, .. } = self;
        let outlet = &shared.outlets[from];
        if outlet.view.is_empty() {
            return;
        }
        outlet.from.with(|from| {
            while protect.len() < allowance
                && let Some(thread) = from.pop()
            {
                protect.push_back(thread);
            }
        });
    }

    #[cold]
    fn open_inbox(&mut self) {
        let mut taken = Vec::new();
        self.shared.inbox.take_all(|thread| taken.push(thread));
        self.count(taken.len() as i64);
        let mut waived = false;
        for thread in taken {
            waived |= self.settle(thread);
        }
        if waived {
            self.shared.others.wake(Notify::Anyone);
        }
    }

    /// The oldest of Protect.
    fn take(&mut self) -> Option<Ready<M>> {
        let thread = self.protect.pop_front()?;
        self.count(-1);
        Some(thread)
    }
}

impl<M: Machine> Local<M> for WaiverLocal<M> {
    fn push(&mut self, thread: Ready<M>, _cause: Cause) -> Notify {
        self.count(1);
        if self.settle(thread) { Notify::Anyone } else { Notify::Nobody }
    }

    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.turn = self.turn.wrapping_add(1);
        let in_turn = self.turn.is_multiple_of(ROUND);
        if (in_turn || self.protect.is_empty()) && !self.shared.inbox.is_empty() {
            self.open_inbox();
        }
        if in_turn {
            // Selected at once: put back, it could be waived again for ever.
            let outlet = &self.shared.outlets[self.index];
            let thread = if outlet.view.is_empty() { None } else { outlet.from.with(|from| from.pop()) };
            if let Some(thread) = thread {
                self.count(-1);
                return Some(thread);
            }
        }
        if self.protect.is_empty() {
            self.fetch(self.index);
        }
        // Somebody is idle: what is here beyond one thread is everybody's.
        if self.protect.len() > 1 && self.shared.outlets.len() > 1 && self.shared.others.hungry() {
            let notify = self.publish();
            self.shared.others.wake(notify);
            self.fetch(self.index);
        }
        self.take()
    }

    fn search(&mut self) -> Option<Ready<M>> {
        if let Some(thread) = self.next(u8::MAX) {
            return Some(thread);
        }
        let count = self.shared.outlets.len();
        let start = self.random.below(count);
        for i in 0..count {
            self.fetch((start + i) % count);
            if !self.protect.is_empty() {
                break;
            }
        }
        self.take()
    }

    fn has_work(&self) -> bool {
        !self.protect.is_empty() || self.shared.offers()
    }

    fn holds_private(&self) -> bool {
        !self.protect.is_empty()
    }

    fn publish(&mut self) -> Notify {
        while let Some(thread) = self.protect.pop_front() {
            if let Err(thread) = self.into.push(thread) {
                self.protect.push_front(thread);
                break;
            }
        }
        if self.into.is_empty() { Notify::Nobody } else { Notify::Anyone }
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        let mut taken = std::mem::take(&mut self.protect);
        self.shared.outlets[self.index].from.with(|from| from.take_all(|thread| taken.push_back(thread)));
        self.count(-(taken.len() as i64));
        taken.into_iter().for_each(&mut *out);
        // Never counted in.
        self.shared.inbox.take_all(out);
    }
}
