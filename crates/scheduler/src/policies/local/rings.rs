//! The queues of one processor: one that is bounded, or grows, or several that take turns.
//!
//! Source: the SPMC queue and the SPMC stack with FIFO stealing of the MSc report *Effective parallelism with OCaml
//! schedulers*, sections 5.4 and 5.5, and its resizing, section 4.4.2: vertical (a larger array) or horizontal (more
//! arrays, which contend less). Differs: the rings are ours, see `raddle_queues`; nothing in them stays private.
#![forbid(unsafe_code)]

use crate::expression::{Growth, Order};
use crate::ready::Ready;
use crate::tokens::{Fifo, FifoView, Lifo, LifoView, Stolen};
use raddle_machine::Machine;
use raddle_queues::Full;

/// Rings of a processor that grows horizontally; beyond these the last one grows vertically. Simulated with
/// 2, 8 and 32, packets on two cores take 3.3, 3.9 and 3.9 ms, yields on 16 cores 35, 41 and 41, trees there 0.12, 0.12
/// and 0.14, all else the same to 3 % (2026-11-28, docs/constants.md).
pub(in super::super) const WIDTH: usize = 2;

enum Ring<M: Machine> {
    Fifo(Fifo<M>),
    Lifo(Lifo<M>),
}

enum View<M: Machine> {
    Fifo(FifoView<M>),
    Lifo(LifoView<M>),
}

/// What thieves see of [`Rings`].
pub(in super::super) struct Views<M: Machine>(Box<[View<M>]>);

impl<M: Machine> Views<M> {
    /// How many threads could be stolen (racy).
    pub fn offers(&self) -> u64 {
        let len = |view: &View<M>| match view {
            View::Fifo(view) => view.len(),
            View::Lifo(view) => view.len(),
        };
        self.0.iter().map(len).sum()
    }
}

impl<M: Machine> Ring<M> {
    fn len(&self) -> u64 {
        match self {
            Ring::Fifo(ring) => ring.len(),
            Ring::Lifo(ring) => ring.len(),
        }
    }

    fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        match self {
            Ring::Fifo(ring) => ring.push(thread),
            Ring::Lifo(ring) => {
                let pushed = ring.push(thread);
                ring.publish(0);
                pushed
            }
        }
    }

    fn pop(&mut self, oldest: bool, uncovered: &mut dyn FnMut()) -> Option<Ready<M>> {
        match self {
            Ring::Fifo(ring) => ring.pop(),
            Ring::Lifo(ring) => {
                let thread = if oldest { ring.pop_oldest() } else { ring.pop_telling(uncovered) };
                // A pop reclaims half.
                ring.publish(0);
                thread
            }
        }
    }

    fn steal_from(&mut self, victim: &View<M>, max: u64) -> Stolen<M> {
        match (self, victim) {
            (Ring::Fifo(ring), View::Fifo(victim)) => ring.steal_from(victim, max),
            (Ring::Lifo(ring), View::Lifo(victim)) => {
                let stolen = ring.steal_from(victim, max);
                ring.publish(0);
                stolen
            }
            // The processors of a policy have rings of one kind.
            _ => Stolen::Empty,
        }
    }
}

/// The owner's end of its rings.
pub(in super::super) struct Rings<M: Machine> {
    rings: Vec<Ring<M>>,
    order: Order,
    capacity: u64,
    growth: Option<Growth>,
    /// Those in use are `first..=last`, cyclically when the order is first in first out, from 0 when it is last in
    /// first out.
    first: usize,
    last: usize,
}

impl<M: Machine> Rings<M> {
    pub fn new(order: Order, capacity: u32, growth: Option<Growth>) -> Result<Self, Full> {
        let capacity = u64::from(capacity);
        let ring = |_| {
            Ok(match order {
                Order::Fifo => {
                    let mut ring = Fifo::new(capacity)?;
                    ring.set_batch(1);
                    Ring::Fifo(ring)
                }
                Order::Lifo => Ring::Lifo(Lifo::new(capacity)?),
            })
        };
        let count = if growth == Some(Growth::Horizontal) { WIDTH } else { 1 };
        let rings = (0..count).map(ring).collect::<Result<_, Full>>()?;
        Ok(Self { rings, order, capacity, growth, first: 0, last: 0 })
    }

    /// For thieves.
    pub fn views(&self) -> Views<M> {
        let view = |ring: &Ring<M>| match ring {
            Ring::Fifo(ring) => View::Fifo(ring.view()),
            Ring::Lifo(ring) => View::Lifo(ring.view()),
        };
        Views(self.rings.iter().map(view).collect())
    }

    /// How many threads are here (racy).
    pub fn len(&self) -> u64 {
        self.rings.iter().map(Ring::len).sum()
    }

    /// Adds the newest. Gives it back when there is no room and the queue does not grow.
    pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        if self.rings[self.last].len() >= self.capacity {
            match (self.growth, self.order) {
                (None, _) => return Err(thread),
                (Some(Growth::Vertical), _) => {}
                (Some(Growth::Horizontal), Order::Fifo) => {
                    let next = (self.last + 1) % WIDTH;
                    if next != self.first {
                        self.last = next;
                    }
                }
                (Some(Growth::Horizontal), Order::Lifo) => self.last = (self.last + 1).min(WIDTH - 1),
            }
        }
        self.rings[self.last].push(thread)
    }

    /// The next in order.
    pub fn pop(&mut self, uncovered: &mut dyn FnMut()) -> Option<Ready<M>> {
        loop {
            let from = if self.order == Order::Fifo { self.first } else { self.last };
            if let Some(thread) = self.rings[from].pop(false, uncovered) {
                return Some(thread);
            }
            if self.first == self.last {
                return None;
            }
            match self.order {
                Order::Fifo => self.first = (self.first + 1) % WIDTH,
                Order::Lifo => self.last -= 1,
            }
        }
    }

    /// The oldest, whatever the order.
    pub fn pop_oldest(&mut self) -> Option<Ready<M>> {
        match self.order {
            Order::Fifo => self.pop(&mut || ()),
            Order::Lifo => self.rings.iter_mut().find_map(|ring| ring.pop(true, &mut || ())),
        }
    }

    /// One attempt on a victim's rings, from the one after `start` on: half of the first that is not empty, at most
    /// `max` threads, and no more than there is room for.
    pub fn steal_from(&mut self, victim: &Views<M>, start: usize, max: u64) -> Stolen<M> {
        let own = &mut self.rings[self.last];
        let room = if self.growth.is_some() { u64::MAX } else { 1 + self.capacity.saturating_sub(own.len()) };
        let count = victim.0.len();
        for i in 0..count {
            match own.steal_from(&victim.0[(start + i) % count], max.min(room)) {
                Stolen::Empty => {}
                outcome => return outcome,
            }
        }
        Stolen::Empty
    }
}
