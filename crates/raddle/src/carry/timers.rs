//! The timers behind every deadline.
//!
//! Each processor has a heap of its own, touched by its owner only: what a frozen processor holds may be late, never
//! lost. While it sleeps, its heap lies where the monitor finds it ([`Bedside`]), should the sleeper be frozen when its
//! time comes. An entry names a thread and an epoch; when the wait ended otherwise, the entry is stale, its claim
//! fails, and it is swept when stale entries outnumber live ones.
//!
//! A crowd of sleepers is woken several at a time: a deadline set where [`CROWD_DEADLINES`] others are pending may be
//! met late by a [`SLACK_PART`] of the wait, at most by [`MOST_SLACK_NS`], unless the processor is awake anyway. (Linux
//! leaves itself as much of each wait in `poll` and `select`.) So the heap is in the order of the latest times, until
//! the first of which a processor may sleep.

use crate::carry::witness::Lent;
use raddle_machine::{Machine, Real};
use raddle_scheduler::{Claim, Epoch, Thread, Wake};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

struct Entry {
    deadline: u64,
    /// The deadline, or later in a crowd: it is not to be slept through.
    latest: u64,
    thread: &'static Thread<Real>,
    epoch: Epoch,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.latest == other.latest
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
        other.latest.cmp(&self.latest)
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

/// Pending deadlines of a processor that make a crowd. Ten thousand sleepers of a second each, one wake-up apiece, took
/// 40 % of a core: a thousand some 4, by proportion.
const CROWD_DEADLINES: usize = 1000;
/// In a crowd a deadline may be met late by so small a part of the wait, which is Linux's for `poll` and `select`, and
/// by so many nanoseconds at most, which are the monitor's period, far below the kernel's 100 ms.
const SLACK_PART: u64 = 1000;
const MOST_SLACK_NS: u64 = 1_000_000;

impl Timers {
    pub fn add(&mut self, deadline: u64, thread: &'static Thread<Real>, epoch: Epoch) {
        self.add_at(Real::now, deadline, thread, epoch);
    }

    #[inline]
    fn add_at(&mut self, now: impl FnOnce() -> u64, deadline: u64, thread: &'static Thread<Real>, epoch: Epoch) {
        if self.heap.len() >= self.sweep_at.max(SWEEP_FLOOR) {
            self.heap.retain(|entry| entry.thread.current_wait() == Some(entry.epoch));
            self.sweep_at = self.heap.len() * 2;
        }
        let slack = if self.heap.len() < CROWD_DEADLINES {
            0
        } else {
            (deadline.saturating_sub(now()) / SLACK_PART).min(MOST_SLACK_NS)
        };
        self.heap.push(Entry { deadline, latest: deadline.saturating_add(slack), thread, epoch });
    }

    /// Until when none of them need be looked at.
    pub fn next_deadline(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.latest)
    }

    /// One whose time has come. (Behind one whose time has not, another's may have, while its latest is to come.)
    fn due(&mut self, now: u64) -> Option<Entry> {
        if self.heap.peek()?.deadline <= now { self.heap.pop() } else { None }
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
        while let Some(entry) = self.due(now) {
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
    while let Some(entry) = inside.owned().timers.due(now) {
        if entry.thread.claim(entry.epoch, Wake::TimedOut) == Claim::WonParked {
            crate::carry::ready::ready_inside(inside.lend(), entry.thread);
        }
    }
}

/// The absolute time `duration` from now, saturating.
pub(crate) fn deadline_after(duration: Duration) -> u64 {
    Real::now().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::descriptor::Descriptor;

    /// Sleepers whose deadlines lie `gap` apart, set at time 0 for waits of `wait` and more: how often a processor with
    /// nothing else to do wakes up for them. Each is woken at its time, and in time.
    fn wake_ups(sleepers: u64, wait: u64, gap: u64) -> usize {
        let thread = Box::leak(Box::new(Descriptor::default())).record();
        // None of them is stale, though the thread does not wait.
        let mut timers = Timers { sweep_at: usize::MAX, ..Timers::default() };
        for number in 0..sleepers {
            timers.add_at(|| 0, wait + number * gap, thread, Epoch::from_bits(0));
        }
        let (mut wakes, mut woken) = (0, 0);
        while let Some(now) = timers.next_deadline() {
            wakes += 1;
            while let Some(entry) = timers.due(now) {
                let slack = (entry.deadline / SLACK_PART).min(MOST_SLACK_NS);
                assert!(entry.deadline <= now && now <= entry.deadline + slack);
                woken += 1;
            }
        }
        assert_eq!(woken, sleepers);
        wakes
    }

    #[test]
    fn a_crowd_is_woken_several_at_a_time() {
        // A hundred microseconds apart, of half a second and more: the slack of each has six to eleven. The first ones
        // are no crowd.
        let few = wake_ups(CROWD_DEADLINES as u64, 500_000_000, 100_000);
        assert_eq!(few, CROWD_DEADLINES);
        let more = wake_ups(CROWD_DEADLINES as u64 + 9000, 500_000_000, 100_000) - few;
        assert!((9000 / 11..=9000 / 6).contains(&more), "{more}");
    }
}
