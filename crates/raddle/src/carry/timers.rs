//! The timers behind every deadline.
//!
//! Each processor has a heap of its own, touched by its owner only: what a frozen processor holds may be late, never
//! lost. While it sleeps, its heap lies where the monitor finds it ([`Bedside`]), should the sleeper be frozen when its
//! time comes. An entry names a thread and an epoch; when the wait ended otherwise, the entry is stale, its claim
//! fails, and it is swept when stale entries outnumber live ones.

use crate::carry::witness::Lent;
use raddle_machine::{Machine, Real};
use raddle_scheduler::{Claim, Epoch, Thread, Wake};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

struct Entry {
    deadline: u64,
    thread: &'static Thread<Real>,
    epoch: Epoch,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the standard heap gives the greatest first, we want the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

/// The deadlines of one processor.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Entry>,
    /// The heap is swept when it has grown to this size.
    sweep_at: usize,
}

/// Below this size nothing is swept.
const SWEEP_FLOOR: usize = 1024;

impl Timers {
    pub fn add(&mut self, deadline: u64, thread: &'static Thread<Real>, epoch: Epoch) {
        if self.heap.len() >= self.sweep_at.max(SWEEP_FLOOR) {
            self.heap.retain(|entry| entry.thread.current_wait() == Some(entry.epoch));
            self.sweep_at = self.heap.len() * 2;
        }
        self.heap.push(Entry { deadline, thread, epoch });
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.deadline)
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Takes over all deadlines of `other`.
    pub fn inherit(&mut self, other: &mut Timers) {
        self.heap.append(&mut other.heap);
    }

    /// Wakes the sleepers whose time has come, from a kernel thread that owns no processor.
    pub fn fire_outside(&mut self) {
        if self.is_empty() {
            return;
        }
        let now = Real::now();
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            let Some(entry) = self.heap.pop() else { return };
            if entry.thread.claim(entry.epoch, Wake::TimedOut) == Claim::WonParked {
                crate::carry::ready::ready_outside(entry.thread);
            }
        }
    }
}

/// Where a processor that sleeps leaves its deadlines: whoever takes them has them, the owner when it is awake again,
/// or the monitor when the owner has not come though it is long past the earliest.
pub(crate) type Bedside = raddle_scheduler::bedside::Bedside<Timers, Real>;

/// Leaves what is in `timers`, if anything, in the box that the owner keeps for it.
pub(crate) fn leave(bedside: &Bedside, timers: &mut Timers, kept: &mut Option<Box<Timers>>) {
    let Some(earliest) = timers.next_deadline() else { return };
    let mut there = kept.take().unwrap_or_default();
    std::mem::swap(&mut *there, timers);
    bedside.leave(there, earliest);
}

/// The owner is awake: takes back what it has left, if the monitor has not.
pub(crate) fn take_back(bedside: &Bedside, timers: &mut Timers, kept: &mut Option<Box<Timers>>) {
    if let Some(mut there) = bedside.take() {
        std::mem::swap(&mut *there, timers);
        *kept = Some(there);
    }
}

/// Wakes the sleepers whose time has come. Inside the mark of the owner.
#[inline(always)]
pub(crate) fn fire_due(mut inside: Lent<'_>) {
    if !inside.owned().timers.is_empty() {
        fire(inside);
    }
}

#[inline(never)]
fn fire(mut inside: Lent<'_>) {
    let now = Real::now();
    while inside.owned().timers.next_deadline().is_some_and(|deadline| deadline <= now) {
        let Some(entry) = inside.owned().timers.heap.pop() else { return };
        if entry.thread.claim(entry.epoch, Wake::TimedOut) == Claim::WonParked {
            crate::carry::ready::ready_inside(inside.lend(), entry.thread);
        }
    }
}

/// The absolute time `duration` from now, saturating.
pub(crate) fn deadline_after(duration: Duration) -> u64 {
    Real::now().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
