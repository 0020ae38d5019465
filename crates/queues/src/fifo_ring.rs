//! A growing first-in first-out ring of one owner and many thieves, whose owner pays a locked instruction once per
//! batch.
//!
//! Source: the order of the run queues of F. Negele, F. Friedrich, S. Oh and B. Egger, "On the Design and
//! Implementation of an Efficient Lock-Free Scheduler", section 4.4 (round robin), with steals of half a queue as in
//! the work-stealing literature (D. Chase and Y. Lev, 2005, for the growing array). Differs: the owner claims its own
//! items in batches, as a thief of itself, and takes them from the ring in place, with no atomic operation at all.
//!
//! Roles: the [`Owner`] pushes, pops, grows and shrinks; *thieves* have a `&`[`FifoRing`] and take up to half.
//!
//! Words: `head` (64 bits) moves by compare-exchange, by anyone; `tail` (64 bits) is stored by the owner only. The
//! owner alone knows `next` and `end`: its private batch. Indices are never reused: index i names one item for ever.
//!
//! ```text
//!    next          end = head at claim     head            tail
//!     | private batch |   taken by thieves   |  stealable    |        slot of index i: i mod capacity
//! ```
//! The batch may reach beyond `tail` (a *window*): then `head > tail`, thieves see an empty ring, and the next pushes
//! are private at once.
//!
//! | transition | actor |
//! |---|---|
//! | tail → tail+n, after the slots | owner |
//! | head: h → h+n; indices h..h+n become the owner's batch, or the thief's | owner, thief |
//! | head: end → next; the rest of the batch becomes stealable again ([`Owner::unclaim`]) | owner |
//! | next → next+1: index consumed | owner |
//!
//! Invariants:
//! - I1. An index is *free* if it is at least `head` and below `tail`. Who moves `head` past an index, from a state in
//!   which it is free, owns it. `unclaim` frees only indices that the owner holds and has not consumed, and only when
//!   no thief moved `head` since; so an index that a thief took or the owner consumed is never free again, and `head`
//!   never returns below it.
//! - I2. The slot of index i is overwritten (by index i + capacity) only when i is consumed by the owner or taken by a
//!   thief whose compare-exchange the owner has seen: `limit - capacity` never exceeds the first index of which neither
//!   holds.
//! - I3. A thief whose compare-exchange from h succeeds returns the right items. They are free at that moment (I1), so
//!   their slots hold them still in each array that ever was current since the `tail` that the thief saw (I2, and the
//!   copy in `replace` takes all from the first unconsumed index on); the thief loads the array after that `tail`. That
//!   `head` may have gone away from h and come back does no harm: what h stands for is the same. No tag is needed.
//!   By events: thief reads slot (a), then exchanges `head` (b); owner reads a `head` beyond the index (c), overwrites
//!   (d).
//!   Forbidden: a reads from d and b succeeds. If b succeeds, c reads from b or a later exchange, so (fifo-head) a
//!   happens before d.
//!
//! Progress: push and pop are wait-free but for a lost race, in which a thief won something (lock-free), and growth,
//! which copies; a steal is one attempt. A frozen owner strands at most its batch and its window (`batch`), no thief
//! strands anything.
//!
//! Memory: as in `ring_buffer`; the ring halves itself when seven eighths are empty, so a burst's memory goes back.
//!
//! Edges: `fifo-tail` store → thief's load (slots, items, the array); `fifo-head` thief's exchange → owner's loads (the
//! thief's slot reads are over).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::fifo_ring::{FifoRing, Steal};
//! let (_ring, mut a) = FifoRing::<Real>::new(64).unwrap();
//! let (_other, mut b) = FifoRing::<Real>::new(64).unwrap();
//! a.push_batch(&[1, 2, 3, 4]).unwrap();
//! assert_eq!(b.steal_from(a.ring(), 64), Steal::Taken { first: 1, more: 1 });
//! assert_eq!((a.pop(), a.pop(), a.pop()), (Some(3), Some(4), None));
//! assert_eq!((b.pop(), b.pop()), (Some(2), None));
//! ```

use crate::pad::Padded;
use crate::ring_buffer::{Full, Shared, Writer};
use raddle_machine::{Atomic, Machine, Ordering};
use std::sync::Arc;

/// The most that an owner claims from itself at once, unless told otherwise. A locked instruction of some 6 ns then
/// weighs 0.1 ns a pop; more would only be withheld from thieves. Simulated, `local` is the same with 16, 64 and 256
/// (2026-11-28, docs/constants.md).
pub const DEFAULT_BATCH: u64 = 64;

/// What became of an attempt to steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steal {
    /// There was nothing.
    Empty,
    /// Somebody else took something at the same moment: try again, here or elsewhere.
    Lost,
    /// The oldest item, to be run now, and how many more went to the thief's own ring or slice behind it.
    Taken {
        /// The oldest item.
        first: usize,
        /// How many others.
        more: usize,
    },
}

/// The shared part: what thieves see.
pub struct FifoRing<M: Machine> {
    head: Padded<M::Atomic<u64>>,
    tail: Padded<M::Atomic<u64>>,
    array: Shared<M>,
}

impl<M: Machine> FifoRing<M> {
    /// A ring of `capacity` slots (rounded up to a power of two, at least 2), which is also the size it shrinks back
    /// to.
    pub fn new(capacity: u64) -> Result<(Arc<Self>, Owner<M>), Full> {
        let least = capacity.max(2).checked_next_power_of_two().ok_or(Full)?;
        let (array, writer) = Shared::new(least)?;
        let ring = Arc::new(Self { head: Padded(M::Atomic::new(0)), tail: Padded(M::Atomic::new(0)), array });
        let owner = Owner {
            ring: ring.clone(),
            writer,
            tail: 0,
            limit: least,
            next: 0,
            end: 0,
            batch: DEFAULT_BATCH,
            window: 0,
            least,
        };
        Ok((ring, owner))
    }

    /// How many items thieves could take: a moment's view, the owner's private batch not included.
    pub fn len(&self) -> u64 {
        // Relaxed: counter only.
        let head = self.head.load(Ordering::Relaxed);
        self.tail.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Whether a thief would find nothing at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same under the name that says whose view it is.
    pub fn is_empty_for_thief(&self) -> bool {
        self.is_empty()
    }

    /// Takes half of what is there (rounded up, at most `out.len()`), oldest first, into `out`.
    pub fn steal(&self, out: &mut [usize]) -> Steal {
        let Some((head, n)) = self.plan(out.len() as u64) else { return Steal::Empty };
        if !self.take(head, n, |k, item| out[k as usize] = item) {
            return Steal::Lost;
        }
        Steal::Taken { first: out[0], more: n as usize - 1 }
    }

    /// From which index, and how many, a thief would take now.
    fn plan(&self, max: u64) -> Option<(u64, u64)> {
        // Relaxed: validated by the compare-exchange in `take`.
        let head = self.head.load(Ordering::Relaxed);
        // Ordering[fifo-tail]: Acquire. Pairs with the owner's store. Makes visible: the slots below it, the items they
        // name, and an array that has those slots. Not weakened: the fence in `enter` would do as well, but
        // ThreadSanitizer does not understand fences.
        let tail = self.tail.load(Ordering::Acquire);
        let n = tail.saturating_sub(head).div_ceil(2).min(max);
        (n > 0).then_some((head, n))
    }

    /// Reads the items of `head..head + n` and claims them; false if `head` is no longer the head.
    fn take(&self, head: u64, n: u64, mut place: impl FnMut(u64, usize)) -> bool {
        let view = self.array.enter();
        for k in 0..n {
            place(k, view.read(head + k));
        }
        // Ordering[fifo-head]: Release. Pairs with the owner's loads of fifo-head. Makes visible: that the slots have
        // been read (I3). What the items name was acquired with the tail.
        // Not weakened: it keeps a load from returning a store that comes later, which loom (and x86) never does.
        self.head.compare_exchange(head, head + n, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The one handle that pushes and pops. It may move between kernel threads, but only one may use it at a time.
pub struct Owner<M: Machine> {
    writer: Writer<M>,
    /// The true tail; the shared one is a copy.
    tail: u64,
    /// The tail at which room must be looked for (I2).
    limit: u64,
    /// The private batch.
    next: u64,
    end: u64,
    batch: u64,
    window: u64,
    least: u64,
    ring: Arc<FifoRing<M>>,
}

// SAFETY: the writer's raw pointers lead into the ring that `ring` keeps alive, and only the one owner uses them.
unsafe impl<M: Machine> Send for Owner<M> {}

impl<M: Machine> Owner<M> {
    /// The shared part.
    pub fn ring(&self) -> &Arc<FifoRing<M>> {
        &self.ring
    }

    /// Appends an item (never 0). No locked instruction. On `Full` nothing changed.
    #[inline]
    pub fn push(&mut self, item: usize) -> Result<(), Full> {
        debug_assert_ne!(item, 0, "0 is not a handle");
        if self.tail == self.limit {
            self.make_room(1)?;
        }
        self.writer.write(self.tail, item);
        self.set_tail(self.tail + 1);
        Ok(())
    }

    /// Appends all items, in order, visible to thieves at once; or none, on `Full`.
    pub fn push_batch(&mut self, items: &[usize]) -> Result<(), Full> {
        if items.is_empty() {
            return Ok(());
        }
        self.make_room(items.len() as u64)?;
        for (k, &item) in items.iter().enumerate() {
            debug_assert_ne!(item, 0, "0 is not a handle");
            self.writer.write(self.tail + k as u64, item);
        }
        self.set_tail(self.tail + items.len() as u64);
        Ok(())
    }

    #[inline(always)]
    fn set_tail(&mut self, tail: u64) {
        self.tail = tail;
        // Ordering[fifo-tail]: Release. Pairs with the thief's load. Makes visible: slots, items, array.
        self.ring.tail.store(tail, Ordering::Release);
    }

    /// Removes the oldest item. From the private batch: two loads, no atomic operation.
    #[inline]
    pub fn pop(&mut self) -> Option<usize> {
        if (self.next == self.end || self.next == self.tail) && (self.is_bare() || !self.claim()) {
            return None;
        }
        let item = self.writer.read(self.next);
        self.next += 1;
        Some(item)
    }

    /// True if there is nothing, and no array to give back: what [`Owner::claim`] would find, without a call.
    #[inline(always)]
    fn is_bare(&self) -> bool {
        // Relaxed: nothing is read after it. What the owner has pushed is below `tail`, and nobody else lowers `head`.
        self.next == self.end
            && self.ring.head.load(Ordering::Relaxed) == self.tail
            && self.writer.capacity() == self.least
    }

    /// Moves half of what is stealable into the private batch. False if there is nothing.
    #[cold]
    fn claim(&mut self) -> bool {
        if self.next != self.end {
            // The window is open and used up: nothing can be stealable before `end`.
            return false;
        }
        // Ordering[fifo-head]: Acquire. Pairs with the thief's exchange. Makes visible: thieves below it have read
        // their slots.
        // Not weakened: as the thief's exchange.
        let mut head = self.ring.head.load(Ordering::Acquire);
        loop {
            debug_assert!(head <= self.tail);
            let free = self.tail - head;
            self.shrink(head, free);
            if free == 0 {
                return false;
            }
            let n = free.div_ceil(2).min(self.batch).max(self.window);
            // Ordering[fifo-head]: Acquire on failure, as the load above. Relaxed on success: the value is the one that
            // the load acquired, and thieves need nothing from the owner's claim. Not weakened: as the thief's
            // exchange.
            match self.ring.head.compare_exchange(head, head + n, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    self.next = head;
                    self.end = head + n;
                    return true;
                }
                Err(now) => head = now,
            }
        }
    }

    /// Makes the rest of the private batch stealable again. False if thieves have taken what came after it: then the
    /// batch stays private, and [`Owner::pop`] returns it.
    pub fn unclaim(&mut self) -> bool {
        if self.next == self.end {
            return true;
        }
        // Relaxed: the slots were published with the tail, and consumed ones lie below `next` (I1).
        let back = self.ring.head.compare_exchange(self.end, self.next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if back {
            self.end = self.next;
        }
        back
    }

    /// Makes the whole private batch stealable: by [`Owner::unclaim`], or else by appending it anew (it loses its
    /// place). On `Full` the rest stays private; nothing is lost.
    pub fn publish_all(&mut self) -> Result<(), Full> {
        if self.unclaim() {
            return Ok(());
        }
        // A lost exchange means that a thief went beyond the batch, so no part of the batch lies beyond the tail.
        while self.next != self.end {
            if self.tail == self.limit {
                self.make_room(1)?;
            }
            self.writer.write(self.tail, self.writer.read(self.next));
            self.next += 1;
            self.set_tail(self.tail + 1);
        }
        Ok(())
    }

    /// How many items are private: popped with no atomic operation, seen by no thief.
    pub fn private_len(&self) -> u64 {
        self.end.min(self.tail) - self.next
    }

    /// How many items are here, private and stealable: exact for the private, a moment's view for the rest.
    pub fn len(&self) -> u64 {
        self.private_len() + self.ring.len()
    }

    /// Whether the owner would find nothing at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that one claim takes (at least 1): what a frozen owner may strand.
    pub fn set_batch(&mut self, batch: u64) {
        self.batch = batch.max(1);
    }

    /// Lets a claim take up to `window` indices even where fewer are there, so that the pushes to come are private at
    /// once (two threads that yield to each other then exchange no locked instruction). 0 withholds nothing from
    /// thieves. At most half the ring's least capacity.
    pub fn set_window(&mut self, window: u64) {
        self.window = window.min(self.least / 2);
    }

    /// Steals up to `max` from `victim`: half of it, oldest first. The first is returned, the rest is pushed here.
    pub fn steal_from(&mut self, victim: &FifoRing<M>, max: u64) -> Steal {
        let Some((head, mut n)) = victim.plan(max) else { return Steal::Empty };
        if self.make_room(n - 1).is_err() {
            n = 1;
        }
        let (mut first, tail) = (0, self.tail);
        let writer = &self.writer;
        // Beyond the tail nobody looks at our slots yet, so a lost race leaves nothing behind.
        let taken =
            victim.take(head, n, |k, item| if k == 0 { first = item } else { writer.write(tail + k - 1, item) });
        if !taken {
            return Steal::Lost;
        }
        if n > 1 {
            self.set_tail(tail + n - 1);
        }
        Steal::Taken { first, more: n as usize - 1 }
    }

    /// The first index whose slot must be kept.
    fn first_kept(&self) -> u64 {
        if self.next != self.end {
            return self.next;
        }
        // Ordering[fifo-head]: Acquire. Pairs with the thief's exchange. Makes visible: thieves below it have read
        // their slots.
        // Not weakened: as the thief's exchange.
        self.ring.head.load(Ordering::Acquire)
    }

    /// Sees to it that `n` more indices fit.
    #[cold]
    fn make_room(&mut self, n: u64) -> Result<(), Full> {
        if self.limit - self.tail >= n {
            return Ok(());
        }
        let kept = self.first_kept();
        let mut capacity = self.writer.capacity();
        self.limit = kept + capacity;
        let needed = self.tail.checked_add(n).ok_or(Full)?.max(self.end) - kept;
        if needed <= capacity {
            return Ok(());
        }
        capacity = needed.checked_next_power_of_two().ok_or(Full)?;
        // SAFETY: the writer is this ring's; all indices that are not consumed are copied, and later writes follow I2.
        unsafe { self.writer.replace(&self.ring.array, kept, self.tail, capacity)? };
        self.limit = kept + capacity;
        Ok(())
    }

    /// Gives memory back when little is left; the private batch is empty.
    #[inline(always)]
    fn shrink(&mut self, kept: u64, used: u64) {
        if self.writer.capacity() != self.least {
            self.shrink_grown(kept, used);
        }
    }

    #[inline(never)]
    fn shrink_grown(&mut self, kept: u64, used: u64) {
        let capacity = self.writer.capacity();
        if used * 8 >= capacity || !self.writer.free_retired(&self.ring.array) {
            return;
        }
        let smaller = (used * 4).next_power_of_two().max(self.least);
        // SAFETY: as in `make_room`. Without memory for the smaller array the larger one stays.
        if unsafe { self.writer.replace(&self.ring.array, kept, self.tail, smaller) }.is_ok() {
            self.limit = kept + smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    fn ring(capacity: u64) -> Owner<Real> {
        FifoRing::new(capacity).unwrap().1
    }

    #[test]
    fn items_leave_in_the_order_they_came() {
        const ITEMS: usize = if cfg!(miri) { 100 } else { 1000 };
        let mut a = ring(2);
        for i in 1..=ITEMS {
            a.push(i).unwrap();
        }
        for i in 1..=ITEMS {
            assert_eq!(a.pop(), Some(i));
        }
        assert_eq!(a.pop(), None);
    }

    #[test]
    fn a_burst_grows_the_ring_and_its_end_shrinks_it() {
        const ITEMS: usize = if cfg!(miri) { 200 } else { 5000 };
        let mut a = ring(8);
        let items: Vec<usize> = (1..=ITEMS).collect();
        a.push_batch(&items).unwrap();
        assert_eq!(a.writer.capacity(), ITEMS.next_power_of_two() as u64);
        for &i in &items {
            assert_eq!(a.pop(), Some(i));
        }
        assert_eq!(a.pop(), None);
        assert_eq!(a.writer.capacity(), 8);
        // Relaxed: this test is alone.
        assert!(a.ring.array.enter().read(0) == 0);
    }

    #[test]
    fn a_private_batch_goes_back_unless_thieves_passed_it() {
        let mut a = ring(8);
        a.push_batch(&[1, 2, 3, 4, 5, 6]).unwrap();
        assert_eq!(a.pop(), Some(1));
        assert_eq!((a.private_len(), a.ring().len()), (2, 3));
        assert!(a.unclaim());
        assert_eq!((a.private_len(), a.ring().len()), (0, 5));
        assert_eq!(a.pop(), Some(2));
        let mut out = [0; 1];
        assert_eq!(a.ring().steal(&mut out), Steal::Taken { first: 5, more: 0 });
        assert!(!a.unclaim());
        a.publish_all().unwrap();
        assert_eq!(a.private_len(), 0);
        assert_eq!([a.pop(), a.pop(), a.pop(), a.pop()], [Some(6), Some(3), Some(4), None]);
    }

    #[test]
    fn a_window_hides_coming_pushes_until_it_is_given_back() {
        let mut a = ring(64);
        a.set_window(16);
        a.push(1).unwrap();
        assert_eq!(a.pop(), Some(1));
        a.push(2).unwrap();
        assert!(a.ring().is_empty_for_thief());
        assert_eq!((a.private_len(), a.pop(), a.pop()), (1, Some(2), None));
        a.push_batch(&[3, 4]).unwrap();
        assert!(a.unclaim());
        assert_eq!(a.ring().len(), 2);
        let end = if cfg!(miri) { 100 } else { 500 };
        for i in 5..end {
            a.push(i).unwrap();
        }
        for i in 3..end {
            assert_eq!(a.pop(), Some(i));
        }
        assert_eq!(a.pop(), None);
    }

    #[test]
    fn refused_growth_loses_nothing() {
        let mut a = ring(2);
        a.push_batch(&[1, 2]).unwrap();
        assert_eq!(a.make_room(crate::ring_buffer::MAX_CAPACITY), Err(Full));
        assert_eq!(a.make_room(u64::MAX), Err(Full));
        assert_eq!((a.pop(), a.pop(), a.pop()), (Some(1), Some(2), None));
    }
}
