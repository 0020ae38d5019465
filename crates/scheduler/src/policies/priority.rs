//! `priority(n, P)`: n priorities, each ordered by a policy P of its own.
//!
//! Source: the priority levels of *On the Design and Implementation of an Efficient Lock-Free Scheduler* (Negele et
//! al.), section 4.1: one ready queue per priority, the highest first. Differs: the queue is any policy.
//!
//! Strict: a thread is not selected while one of a higher priority is ready that this processor may take, be it on
//! another processor (which is why each level is searched before the next one is looked at). Within a priority P
//! decides: round robin with `fifo`, nearly so with `steal`. A thread whose priority number exceeds the lowest counts
//! as of the lowest.
//!
//! Starvation is what strict means: as long as threads of a higher priority are ready, and yield only to their own
//! kind, lower ones do not run. With `aging=k` each k-th selection of a processor begins at the *lowest* priority,
//! whatever the floor: a lowest thread runs at least every k selections, for a quantum.
//!
//! Suits: a few urgent threads among many (timers, control loops, user interfaces). Bad at: large n (each selection
//! looks at each level above what it finds, and at all processors' queues of them), fairness without aging, priority
//! inversion (a lock held by a low thread is not passed on by raising it).
//!
//! A frozen processor strands what P strands, at each level.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let shape = "priority(3, fifo, aging=64)".parse().unwrap();
//! let policy = policies::build::<Real>(&shape, 2, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.priorities(), 3);
//! ```
#![forbid(unsafe_code)]

use super::{AnyPolicy, Others};
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::Ready;
use raddle_machine::Machine;
use std::sync::Arc;

/// The policy.
pub struct Priority<M: Machine> {
    levels: Vec<AnyPolicy<M>>,
    aging: Option<u32>,
    others: Arc<dyn Others>,
}

impl<M: Machine> Priority<M> {
    /// One policy per priority, the highest first; at least one, at most 255.
    pub fn new(levels: Vec<AnyPolicy<M>>, aging: Option<u32>, others: Arc<dyn Others>) -> Self {
        assert!((1..=255).contains(&levels.len()), "priority() of {} policies", levels.len());
        Self { levels, aging, others }
    }
}

fn level_of<M: Machine>(thread: &Ready<M>, levels: usize) -> usize {
    usize::from(thread.priority()).min(levels - 1)
}

impl<M: Machine> Policy<M> for Priority<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        let levels = self.levels.iter().map(|policy| policy.local(index)).collect();
        let others = (!self.ring()).then(|| self.others.clone());
        Box::new(PriorityLocal { levels, aging: self.aging, turn: 0, others })
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.levels[level_of(&thread, self.levels.len())].submit(thread)
    }

    fn describe(&self) -> String {
        let (levels, inner) = (self.levels.len(), self.levels[0].describe());
        match self.aging {
            None => format!("priority({levels}, {inner})"),
            Some(k) => format!("priority({levels}, {inner}, aging={k})"),
        }
    }

    fn priorities(&self) -> u8 {
        self.levels.len() as u8
    }

    fn ring(&self) -> bool {
        self.levels[0].ring()
    }

    fn offers(&self) -> bool {
        self.levels.iter().any(|level| level.offers())
    }

    fn takes_anywhere(&self) -> bool {
        self.levels.iter().all(|level| level.takes_anywhere())
    }

    fn strands(&self) -> &'static str {
        self.levels[0].strands()
    }
}

struct PriorityLocal<M: Machine> {
    levels: Vec<Box<dyn Local<M>>>,
    aging: Option<u32>,
    turn: u32,
    /// None in a ring, where nobody moves what another one could take.
    others: Option<Arc<dyn Others>>,
}

/// One level: at hand, or else elsewhere, so that a higher thread on another processor goes before a lower one here.
///
/// Who looks elsewhere may bring more than the thread that it selects, and does not count as searching: a searcher that
/// looked while those were on their way has gone to sleep, and nobody else would tell it.
fn take<M: Machine>(level: &mut dyn Local<M>, others: Option<&dyn Others>) -> Option<Ready<M>> {
    if let Some(thread) = level.next(u8::MAX) {
        return Some(thread);
    }
    let thread = if level.has_work() { level.search() } else { None }?;
    if let Some(others) = others
        && level.has_work()
    {
        others.wake(Notify::Anyone);
    }
    Some(thread)
}

impl<M: Machine> Local<M> for PriorityLocal<M> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        let level = level_of(&thread, self.levels.len());
        self.levels[level].push(thread, cause)
    }

    fn has_own(&self) -> bool {
        self.levels.iter().any(|level| level.has_own())
    }

    // It hides nothing: a thread that became ready at a high priority would wait for a running one of a low priority,
    // beside an idle processor.

    fn next(&mut self, floor: u8) -> Option<Ready<M>> {
        if let Some(aging) = self.aging {
            self.turn += 1;
            if self.turn >= aging {
                self.turn = 0;
                let others = self.others.as_deref();
                return self.levels.iter_mut().rev().find_map(|level| take(&mut **level, others));
            }
        }
        let others = self.others.as_deref();
        self.levels.iter_mut().take(usize::from(floor) + 1).find_map(|level| take(&mut **level, others))
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.levels.iter_mut().find_map(|level| level.search())
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        self.levels.iter_mut().find_map(|level| level.relieve(victim))
    }

    fn has_work(&self) -> bool {
        self.levels.iter().any(|level| level.has_work())
    }

    fn holds_private(&self) -> bool {
        self.levels.iter().any(|level| level.holds_private())
    }

    fn publish(&mut self) -> Notify {
        // All levels are of one kind: they name anybody, or (rings) the same neighbour.
        let mut whom = Notify::Nobody;
        for level in &mut self.levels {
            match level.publish() {
                Notify::Nobody => {}
                notify => whom = notify,
            }
        }
        whom
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        self.levels.iter_mut().for_each(|level| level.drain(out));
    }

    fn steals(&self) -> (u64, u64) {
        self.levels.iter().map(|level| level.steals()).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }
}
