//! A bounded first-in first-out queue of small numbers in which every operation is one fetch-and-add and one
//! compare-and-exchange.
//!
//! Source: the queue of the MSc report *Effective parallelism with OCaml schedulers*, section 5.1, for many producers
//! and consumers: a fetch-and-add draws a ticket, which names a slot, and a compare-and-exchange there hands the number
//! over. Differs from it:
//! - slots carry rounds, after R. Nikolaev, "A Scalable, Portable, and Memory-Efficient Lock-Free FIFO Queue", 2019,
//!   section 4: a dequeuer that comes before its enqueuer makes their ticket void and goes on, where the report's waits
//!   or takes its ticket back;
//! - an enqueuer whose tickets keep turning out void gives up ([`TRIES`]), which in Nikolaev's queue the dequeuers do
//!   by counting;
//! - a dequeuer takes what it finds under its ticket, of an earlier round too: tickets are interchangeable, numbers are
//!   not lost.
//!
//! Roles: anyone enqueues and dequeues.
//!
//! Words: `tail`, `head`, the next ticket to enqueue and to dequeue with; per slot `round:32 | number+1:32`. Ticket t
//! is of round t div N, and its slot is t mod N (neighbours in different cache lines).
//!
//! | slot, seen with a ticket of round r | changes to | by |
//! |---|---|---|
//! | `(≤ r, 0)` | `(r, n+1)`: holds n | enqueuer |
//! | `(≤ r, 0)` | `(r+1, 0)`: the ticket is void | dequeuer |
//! | `(≤ r, n+1)` | `(r+1, 0)`: n is the dequeuer's | dequeuer |
//! | `(≤ r, n+1)`, and any of a later round | unchanged: the ticket is void | enqueuer |
//! | any of a later round | unchanged: the ticket is void | dequeuer |
//!
//! An enqueuer that finds dequeuers ahead, since several came for one number, moves `tail` on to `head`: what it
//! enqueues is not for one of them that stands still.
//!
//! Invariants:
//! - I1. Rounds of a slot never decrease, and a dequeuer leaves the slot with a round above its own. So who enqueues
//!   with a ticket whose dequeuer has been there fails: no number is put where only tickets that are used up lead.
//! - I2. Hence while nobody is inside, all numbers are under tickets from `head` on, below `tail`: `dequeue` finds each
//!   of them.
//! - I3. `dequeue` returns `None` only when it has loaded a `tail` not above a `head`. Whatever the order of these
//!   loads: a number with whose enqueuer the caller has synchronised has its ticket below that `tail`, hence below that
//!   `head`; so it is taken, or under the ticket of a dequeuer that is still inside.
//!
//! Progress: `enqueue` is wait-free: it draws at most [`TRIES`] tickets, and as a slot's word only grows, an exchange
//! under a ticket fails at most twice for each earlier ticket of the slot that somebody stands with or is still to
//! draw. `dequeue` is lock-free: while no operation ends, enqueuers move `tail` by at most `TRIES` each, and the
//! dequeuer whose ticket is not below it sees that and leaves. A dequeuer frozen with a ticket keeps at most the number
//! under it from the others, until a dequeuer of a later round comes by: if there is too little traffic for that, as
//! long as it is frozen. That number is one whose enqueuer came before it froze, or was under way.
//! Rounds wrap: who stood for 2³¹ rounds between its ticket and its look at the slot would take the slot's for earlier
//! ones (of a queue with one slot in less than a minute at full speed, with the 4096 of `overflow=tickets` in two
//! days).
//!
//! Memory: a word a slot, allocated at the beginning.
//!
//! Edges: `ticket-slot` exchange → load (the number, and what it names).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::tickets::Tickets;
//! let queue = Tickets::<Real>::new(2).unwrap();
//! assert_eq!((queue.enqueue(7), queue.enqueue(8)), (Ok(()), Ok(())));
//! assert!(queue.enqueue(9).is_err());
//! assert_eq!((queue.dequeue(), queue.dequeue(), queue.dequeue()), (Some(7), Some(8), None));
//! ```

use crate::pad::Padded;
use crate::ring_buffer::{Full, MAX_CAPACITY};
use raddle_machine::{Atomic, Machine, Ordering};

/// How many tickets an enqueuer draws before it gives up. With 2, 8 and 32, `local(overflow=tickets)` differs by no
/// more than `local` without tickets (2026-11-28, docs/constants.md).
pub const TRIES: u32 = 8;

/// Slots in a cache line.
const LINE: u64 = 8;

/// The queue.
pub struct Tickets<M: Machine> {
    tail: Padded<M::Atomic<u64>>,
    head: Padded<M::Atomic<u64>>,
    slots: Box<[M::Atomic<u64>]>,
    shift: u32,
}

/// A slot's word.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    fn new(round: u32, content: u32) -> Self {
        Slot(u64::from(round) << 32 | u64::from(content))
    }
    /// True if its round is later than this one, cyclically.
    fn is_beyond(self, round: u32) -> bool {
        ((self.0 >> 32) as u32).wrapping_sub(round) as i32 > 0
    }
    /// The number, plus one; 0: none.
    fn content(self) -> u32 {
        self.0 as u32
    }
}

impl<M: Machine> Tickets<M> {
    /// An empty queue for so many numbers, rounded up to a power of two.
    pub fn new(capacity: usize) -> Result<Self, Full> {
        let count = capacity.max(1).checked_next_power_of_two().ok_or(Full)?;
        let mut slots = Vec::new();
        if count as u64 > MAX_CAPACITY || slots.try_reserve_exact(count).is_err() {
            return Err(Full);
        }
        slots.extend((0..count).map(|_| M::Atomic::new(0)));
        let word = || Padded(M::Atomic::new(0));
        Ok(Self { tail: word(), head: word(), slots: slots.into(), shift: count.trailing_zeros() })
    }

    /// A ticket's slot and round. Tickets that follow each other are of different cache lines, where there are as many.
    #[inline(always)]
    fn place(&self, ticket: u64) -> (&M::Atomic<u64>, u32) {
        let count = self.slots.len() as u64;
        let within = ticket & (count - 1);
        let slot = if count >= LINE * LINE { within % (count / LINE) * LINE + within / (count / LINE) } else { within };
        (&self.slots[slot as usize], (ticket >> self.shift) as u32)
    }

    /// Appends a number. It fails when there is no room, or after [`TRIES`] tickets that others have made void. For
    /// `u32::MAX` there is never room.
    #[inline]
    pub fn enqueue(&self, number: u32) -> Result<(), Full> {
        let content = number.checked_add(1).ok_or(Full)?;
        for _ in 0..TRIES {
            // A moment's view: a ticket too many is void.
            let (head, tail) = self.ends();
            let ahead = tail.wrapping_sub(head) as i64;
            if ahead >= self.slots.len() as i64 {
                return Err(Full);
            }
            // Relaxed: only passes over tickets that dequeuers have drawn. If it fails, another enqueuer has moved it:
            // look again.
            if ahead < 0 && self.tail.compare_exchange(tail, head, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            // Relaxed: draws a ticket; the slot tells what it is worth.
            let (slot, round) = self.place(self.tail.fetch_add(1, Ordering::Relaxed));
            let new = Slot::new(round, content);
            let mut seen = Slot(slot.load(Ordering::Relaxed));
            while seen.content() == 0 && !seen.is_beyond(round) {
                // Ordering[ticket-slot]: Release. Pairs with the load in `dequeue`. Makes visible: what the number
                // names.
                match slot.compare_exchange(seen.0, new.0, Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => return Ok(()),
                    Err(now) => seen = Slot(now),
                }
            }
        }
        Err(Full)
    }

    /// Takes the oldest number.
    #[inline]
    pub fn dequeue(&self) -> Option<u32> {
        while !self.is_empty() {
            // Relaxed: draws a ticket; the slot tells what it is worth.
            let (slot, round) = self.place(self.head.fetch_add(1, Ordering::Relaxed));
            // Ordering[ticket-slot]: Acquire. Pairs with the exchange in `enqueue`. Makes visible: what the number
            // names.
            let mut seen = Slot(slot.load(Ordering::Acquire));
            while !seen.is_beyond(round) {
                let new = Slot::new(round.wrapping_add(1), 0);
                // Ordering[ticket-slot]: Acquire on failure, as the load. Relaxed on success: the content was acquired
                // with the load.
                match slot.compare_exchange(seen.0, new.0, Ordering::Relaxed, Ordering::Acquire) {
                    Ok(_) if seen.content() == 0 => break,
                    Ok(_) => return Some(seen.content() - 1),
                    Err(now) => seen = Slot(now),
                }
            }
        }
        None
    }

    /// True if nothing is in it now (racy; I3).
    #[inline]
    pub fn is_empty(&self) -> bool {
        let (head, tail) = self.ends();
        tail.wrapping_sub(head) as i64 <= 0
    }

    /// `head`, then `tail` (racy).
    #[inline(always)]
    fn ends(&self) -> (u64, u64) {
        // Relaxed: only compared (I3). Who must know of numbers that are just coming fences before, as policies' users
        // do.
        #[cfg(not(feature = "loom"))]
        let read = |word: &M::Atomic<u64>| word.load(Ordering::Relaxed);
        // Loom remembers one access of a word: it would not try what happens when a ticket is drawn between another's
        // look at the word and its own. Of an addition it does. That old values do no harm is I3, and Miri tries it.
        #[cfg(feature = "loom")]
        let read = |word: &M::Atomic<u64>| word.fetch_add(0, Ordering::Relaxed);
        let head = read(&self.head);
        (head, read(&self.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn order_and_room_are_kept_over_many_rounds() {
        for capacity in [1, 2, 3, 16, 64, 100] {
            let queue = Tickets::<Real>::new(capacity).unwrap();
            let room = capacity.next_power_of_two() as u32;
            for round in 0..50 {
                assert!(queue.is_empty() && queue.dequeue().is_none());
                (0..room).for_each(|i| queue.enqueue(i + round).unwrap());
                assert_eq!(queue.enqueue(0), Err(Full));
                (0..room).for_each(|i| assert_eq!(queue.dequeue(), Some(i + round)));
            }
        }
    }

    #[test]
    fn tickets_lead_to_different_slots() {
        for capacity in [1, 8, 32, 64, 128, 4096] {
            let queue = Tickets::<Real>::new(capacity).unwrap();
            let mut slots: Vec<_> = (0..capacity as u64).map(|t| std::ptr::from_ref(queue.place(t).0)).collect();
            slots.sort();
            slots.dedup();
            assert_eq!(slots.len(), capacity);
        }
    }

    #[test]
    fn rounds_wrap() {
        let queue = Tickets::<Real>::new(2).unwrap();
        // As if 2³² - 2 rounds had passed.
        let start = (u64::from(u32::MAX) - 1) << 1;
        [&queue.tail, &queue.head].iter().for_each(|word| word.store(start, Ordering::Relaxed));
        queue.slots.iter().for_each(|slot| slot.store(Slot::new(u32::MAX - 1, 0).0, Ordering::Relaxed));
        for i in 0..10 {
            queue.enqueue(i).unwrap();
            assert_eq!(queue.dequeue(), Some(i));
        }
    }

    #[test]
    fn who_stops_with_a_ticket_stops_nobody() {
        let queue = Tickets::<Real>::new(4).unwrap();
        // An enqueuer has drawn ticket 0 and goes no further: its dequeuer makes it void.
        queue.tail.fetch_add(1, Ordering::Relaxed);
        assert_eq!(queue.dequeue(), None);
        queue.enqueue(1).unwrap();
        // A dequeuer has drawn ticket 1 and goes no further: the next round's takes the number.
        queue.head.fetch_add(1, Ordering::Relaxed);
        assert_eq!(queue.dequeue(), None);
        let mut came = Vec::new();
        for i in 2..10 {
            queue.enqueue(i).unwrap();
            came.extend(queue.dequeue());
        }
        came.extend(std::iter::from_fn(|| queue.dequeue()));
        came.sort();
        assert_eq!(came, Vec::from_iter(1..10));
    }

    #[test]
    fn a_dequeuer_that_stands_ahead_keeps_nothing_that_comes_later() {
        let queue = Tickets::<Real>::new(4).unwrap();
        // Ten dequeuers, more than an enqueuer has tries, have drawn tickets for which there is nothing, and go no
        // further.
        queue.head.fetch_add(10, Ordering::Relaxed);
        for i in 0..10 {
            queue.enqueue(i).unwrap();
            assert_eq!(queue.dequeue(), Some(i), "a number waits for a dequeuer that stood before it came");
        }
    }

    #[test]
    fn who_stands_for_nearly_half_of_all_rounds_does_no_harm() {
        let (old, now) = (5, 5 + i32::MAX as u32);
        assert!(Slot::new(now, 0).is_beyond(old) && Slot::new(now, 1).is_beyond(old));
        assert!(!Slot::new(now + 1, 0).is_beyond(old), "the header says when it does");
    }

    #[test]
    fn absurd_sizes_and_numbers_are_refused() {
        assert!(Tickets::<Real>::new(1 << 40).is_err() && Tickets::<Real>::new(usize::MAX).is_err());
        let queue = Tickets::<Real>::new(0).unwrap();
        assert_eq!((queue.enqueue(u32::MAX), queue.dequeue()), (Err(Full), None));
        assert_eq!((queue.enqueue(u32::MAX - 1), queue.dequeue()), (Ok(()), Some(u32::MAX - 1)));
    }
}
