//! A bounded lock-free queue of small numbers that can never overflow: which cells of a channel are free, which are
//! full.
//!
//! Source: the array queue of P. Tsigas and Y. Zhang (*A Simple, Fast and Scalable Non-Blocking Concurrent FIFO Queue
//! for Shared Memory Multiprocessor Systems*, 2001), with rounds in the slots instead of two null values. Differs from
//! it: both ends are hints written by plain stores, since the slots alone say where the ends are; so an operation is
//! one exchange. That the number of a cell, not the value, goes through the ring is what lets a producer stop anywhere
//! and block nobody (in D. Vyukov's bounded queue consumers wait behind a claimed and unpublished slot).
//!
//! Roles: any thread enqueues and dequeues.
//!
//! Position `p` is slot `p mod N` in round `p div N`. A slot is `round:32 | number+1:32`:
//!
//! | slot | for position p of round r | actor |
//! |---|---|---|
//! | `(r, 0)` | not filled yet | |
//! | `(r, n+1)` | holds n | enqueuer, from `(r, 0)` |
//! | `(r+1, 0)` | consumed; ready for the next round | dequeuer, from `(r, n+1)` |
//!
//! Invariants:
//! - I1: positions are filled in order, and consumed in order. Proof: an enqueuer goes to a position only after it has
//!   seen the one before filled or consumed; likewise a dequeuer.
//! - I2: no more numbers are in the ring than it has slots, so the slot of the first unfilled position is never still
//!   full.
//! - I3: an end's hint never exceeds the end; how far it lags costs time only, at most N steps.
//!
//! Progress: lock-free. Rounds wrap: an exchange could succeed wrongly if its thread stood for 2³² rounds before it.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `ring.slot` | [`IndexRing::enqueue`], [`IndexRing::dequeue`] | the other one |
//! | `ring.end` | whoever has moved an end | whoever starts at its hint |

use raddle_machine::{Atomic, Machine, Ordering};

/// Keeps the two ends apart.
#[repr(align(64))]
struct End<M: Machine>(M::Atomic<u64>);

/// See the module.
pub(super) struct IndexRing<M: Machine> {
    tail: End<M>,
    head: End<M>,
    slots: Box<[M::Atomic<u64>]>,
    shift: u32,
}

/// A slot's word.
#[derive(Clone, Copy, PartialEq)]
struct Slot(u64);

impl Slot {
    fn new(round: u32, content: u32) -> Self {
        Slot((round as u64) << 32 | content as u64)
    }
    fn round(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// The number, plus one; 0: none.
    fn content(self) -> u32 {
        self.0 as u32
    }
}

impl<M: Machine> IndexRing<M> {
    /// A ring for `capacity` numbers that holds `0..filled`.
    pub fn new(capacity: usize, filled: usize) -> Self {
        let slots = capacity.next_power_of_two();
        let slot = |i: usize| if i < filled { Slot::new(0, i as u32 + 1) } else { Slot::new(0, 0) };
        Self {
            tail: End(M::Atomic::new(filled as u64)),
            head: End(M::Atomic::new(0)),
            slots: (0..slots).map(|i| M::Atomic::new(slot(i).0)).collect(),
            shift: slots.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn slot(&self, position: u64) -> &M::Atomic<u64> {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    #[inline(always)]
    fn round(&self, position: u64) -> u32 {
        (position >> self.shift) as u32
    }

    /// The first position from `position` on that `slot`, which is ahead of it by whole rounds, does not show to be
    /// done.
    #[cold]
    fn skip(&self, position: u64, slot: Slot) -> u64 {
        // `(r', _)` says that this slot's position of round r'-1 was consumed, so all positions before that were as
        // well.
        let ahead = slot.round().wrapping_sub(self.round(position)) as u64;
        position + ((ahead - 1) << self.shift) + 1
    }

    /// Adds a number, of which there are never more than slots.
    #[inline]
    pub fn enqueue(&self, number: u32) {
        // Ordering[ring.end]: Acquire. Pairs with the store below. Makes visible: that the position before is filled.
        let mut position = self.tail.0.load(Ordering::Acquire);
        loop {
            let round = self.round(position);
            // Ordering[ring.slot]: Acquire. Pairs with `dequeue`. Makes visible: that the cells before are done with.
            let slot = Slot(self.slot(position).load(Ordering::Acquire));
            if slot == Slot::new(round, 0) {
                let new = Slot::new(round, number + 1);
                // Ordering[ring.slot]: SeqCst. Pairs with `dequeue`. Makes visible: the cell's content. SeqCst so that
                // a waker needs no fence (`raddle_queues::wait_list::Queue::is_empty`).
                if self.slot(position).compare_exchange(slot.0, new.0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    // Ordering[ring.end]: Release. Pairs with the load above. A plain store: the slots tell (I3).
                    self.tail.0.store(position + 1, Ordering::Release);
                    return;
                }
            } else if slot.round() == round {
                position += 1;
            } else if (slot.round().wrapping_sub(round) as i32) > 0 {
                position = self.skip(position, slot);
            } else {
                unreachable!("more numbers than slots in an index ring");
            }
        }
    }

    /// Takes the oldest number.
    #[inline]
    pub fn dequeue(&self) -> Option<u32> {
        let (mut position, mut slot) = self.front()?;
        loop {
            if let Some(number) = self.consume(position, slot) {
                // Ordering[ring.end]: Release. Pairs with `front`. A plain store: the slots tell (I3).
                self.head.0.store(position + 1, Ordering::Release);
                return Some(number);
            }
            (position, slot) = self.front_from(position)?;
        }
    }

    #[inline]
    fn consume(&self, position: u64, slot: Slot) -> Option<u32> {
        let new = Slot::new(slot.round().wrapping_add(1), 0);
        // Ordering[ring.slot]: SeqCst. Pairs with `enqueue`. SeqCst as there. Not
        // weakened: `front` has acquired the cell's content, what was read of it is released by the other ring's
        // `enqueue`, and models take the light fence before the wake-up for a full one.
        let taking = self.slot(position).compare_exchange(slot.0, new.0, Ordering::SeqCst, Ordering::Relaxed);
        taking.is_ok().then(|| slot.content() - 1)
    }

    /// The oldest number's position and slot.
    #[inline]
    fn front(&self) -> Option<(u64, Slot)> {
        // Ordering[ring.end]: Acquire. Pairs with `dequeue`. Makes visible: that the position before is consumed. Not
        // weakened: a slot that seems to be behind is skipped by 2³² rounds, and found there at a position of the same
        // round, which only `len` tells from the right one.
        self.front_from(self.head.0.load(Ordering::Acquire))
    }

    #[inline]
    fn front_from(&self, mut position: u64) -> Option<(u64, Slot)> {
        loop {
            let round = self.round(position);
            // Ordering[ring.slot]: Acquire. Pairs with `enqueue`. Makes visible: the cell's content.
            let slot = Slot(self.slot(position).load(Ordering::Acquire));
            if slot.round() != round {
                position = self.skip(position, slot);
            } else if slot.content() == 0 {
                // Not filled, and the one before is consumed: empty at the moment of the load.
                return None;
            } else {
                return Some((position, slot));
            }
        }
    }

    /// True when it holds nothing (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// How many numbers it holds (racy).
    pub fn len(&self) -> usize {
        let head = self.front().map(|(position, _)| position);
        head.map_or(0, |head| {
            self.tail.0.load(Ordering::Relaxed).saturating_sub(head).clamp(1, self.slots.len() as u64)
        }) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn keeps_order_over_many_rounds() {
        for capacity in [1, 2, 3, 16] {
            let ring = IndexRing::<Real>::new(capacity, 0);
            for round in 0..100 {
                assert_eq!(ring.dequeue(), None);
                for i in 0..capacity {
                    ring.enqueue(i as u32 + round);
                }
                assert_eq!(ring.len(), capacity);
                for i in 0..capacity {
                    assert_eq!(ring.dequeue(), Some(i as u32 + round));
                }
            }
        }
    }

    #[test]
    fn finds_its_ends_when_hints_lag() {
        let ring = IndexRing::<Real>::new(4, 4);
        for _ in 0..1003 {
            ring.enqueue(ring.dequeue().unwrap());
        }
        ring.head.0.store(2, Ordering::Relaxed);
        ring.tail.0.store(1, Ordering::Relaxed);
        let seen: Vec<_> = std::iter::from_fn(|| ring.dequeue()).collect();
        assert_eq!(seen, [3, 0, 1, 2]);
        ring.enqueue(7);
        assert_eq!(ring.tail.0.load(Ordering::Relaxed), 1008);
        assert_eq!(ring.dequeue(), Some(7));
    }

    #[test]
    fn each_number_is_held_by_one_thread() {
        let ring = IndexRing::<Real>::new(3, 3);
        let held: [AtomicU32; 3] = Default::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
                        if let Some(number) = ring.dequeue() {
                            assert_eq!(held[number as usize].fetch_add(1, SeqCst), 0);
                            held[number as usize].fetch_sub(1, SeqCst);
                            ring.enqueue(number);
                        }
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| ring.dequeue()).count(), 3);
    }
}
