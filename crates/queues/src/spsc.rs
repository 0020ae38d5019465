//! An unbounded queue of one producer and one consumer in which no operation is a read-modify-write.
//!
//! Source: the Waiver Queue of K. Oguma and Y. Nakayama, "Lesser Bear", section 3 (one writer and one reader per ring
//! need no lock); blocks linked as in the unbounded queues of M. Aldinucci et al., "An Efficient Unbounded Lock-Free
//! Queue for Multi-Core Systems", 2012. Differs: one spare block goes back to the producer through a word that both
//! write, in turn; what else a burst took is freed by the consumer as it goes.
//!
//! Roles: [`Producer`] pushes, [`Consumer`] pops, one of each; anyone may look at [`Spsc::len`].
//!
//! Words: `tail` (items ever pushed), stored by the producer; `head` (items ever popped), stored by the consumer;
//! `spare`, null or a block. Items lie in blocks of 63 slots; a block's `next` leads to the following block.
//!
//! | `spare` | changes to | by |
//! |---|---|---|
//! | null | a block that the consumer has left | consumer |
//! | a block | null; the producer has it | producer |
//!
//! Invariants:
//! - I1. Slots and links of items below `tail` do not change until the consumer has left the block: the producer writes
//!   only at and beyond `tail`.
//! - I2. A block that the consumer has left is reachable by nobody: the producer is in a later one, as an item beyond
//!   it has been pushed. So it is the consumer's, to hand on or to free.
//! - I3. Who finds `spare` in a state in which it may write it knows that the other will not: null is left by the
//!   consumer only, a block is removed by the producer only.
//!
//! Progress: all operations are wait-free (the allocator is called for a block when no spare is there). A frozen
//! producer strands nothing, a frozen consumer all that is here.
//!
//! Edges: `spsc-tail` store → load (slots, links, items); `spsc-spare` store → load (the consumer's looks at the block
//! are over); `spsc-head` for nobody's safety: a count.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::spsc::Spsc;
//! let (mut producer, mut consumer) = Spsc::<Real>::new().unwrap();
//! for i in 1..=100 {
//!     producer.push(i).unwrap();
//! }
//! assert_eq!(consumer.pop(), Some(1));
//! let mut rest = Vec::new();
//! assert_eq!(consumer.take_all(|item| rest.push(item)), 99);
//! assert_eq!((rest[0], rest[98], consumer.pop()), (2, 100, None));
//! ```

use crate::pad::Padded;
use crate::ring_buffer::Full;
use raddle_machine::{Atomic, Machine, Ordering};
use std::alloc::Layout;
use std::ptr::null_mut;
use std::sync::Arc;

/// Items per block: with its link half a kilobyte. With 15, 63 and 255 `create` under `rotator`, whose ring is
/// of these queues, takes the same instructions to 0.3 % (2026-11-28, docs/constants.md).
const BLOCK: usize = if cfg!(feature = "loom") { 2 } else { 63 };

struct Block<M: Machine> {
    /// To a `Block<M>`; erased, since a type that contains an atomic pointer to itself overwhelms the trait solver.
    next: M::Atomic<*mut ()>,
    slots: [M::Atomic<usize>; BLOCK],
}

impl<M: Machine> Block<M> {
    fn allocate() -> Result<*mut Self, Full> {
        // SAFETY: the layout is not empty.
        let block = unsafe { std::alloc::alloc(Layout::new::<Self>()) }.cast::<Self>();
        if block.is_null() {
            return Err(Full);
        }
        let fresh = Self { next: M::Atomic::new(null_mut()), slots: std::array::from_fn(|_| M::Atomic::new(0)) };
        // SAFETY: just allocated with this layout.
        unsafe { block.write(fresh) };
        Ok(block)
    }

    /// # Safety
    /// Came from `allocate`; nobody else reaches it.
    unsafe fn free(block: *mut Self) {
        // SAFETY: by the contract; `allocate` used the layout with which a Box frees.
        drop(unsafe { Box::from_raw(block) });
    }
}

/// The shared part.
pub struct Spsc<M: Machine> {
    tail: Padded<M::Atomic<u64>>,
    head: Padded<M::Atomic<u64>>,
    spare: Padded<M::Atomic<*mut Block<M>>>,
    /// The consumer's block: kept here so that the last to leave can free what is left. Written by the consumer only.
    first: M::Atomic<*mut Block<M>>,
}

// SAFETY: blocks are reached through atomics, and owned as the table in the header says.
unsafe impl<M: Machine> Send for Spsc<M> {}
// SAFETY: shared, it gives atomics; which end owns which block the table in the header says.
unsafe impl<M: Machine> Sync for Spsc<M> {}

impl<M: Machine> Spsc<M> {
    /// An empty queue's two ends.
    #[allow(clippy::new_ret_no_self, reason = "a queue is its two ends")]
    pub fn new() -> Result<(Producer<M>, Consumer<M>), Full> {
        let block = Block::<M>::allocate()?;
        let shared = Arc::new(Self {
            tail: Padded(M::Atomic::new(0)),
            head: Padded(M::Atomic::new(0)),
            spare: Padded(M::Atomic::new(null_mut())),
            first: M::Atomic::new(block),
        });
        let producer = Producer { block, within: 0, tail: 0, shared: shared.clone() };
        Ok((producer, Consumer { block, within: 0, head: 0, seen: 0, shared }))
    }

    /// How many items are there: a moment's view.
    pub fn len(&self) -> u64 {
        // Relaxed: counter only.
        let head = self.head.load(Ordering::Relaxed);
        self.tail.load(Ordering::Relaxed).saturating_sub(head)
    }

    /// Whether nothing is there at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<M: Machine> Drop for Spsc<M> {
    fn drop(&mut self) {
        // Relaxed, here and below: alone by `&mut`.
        let mut block = self.first.load(Ordering::Relaxed);
        while !block.is_null() {
            // SAFETY: both ends are gone; blocks from the consumer's on are reachable from here only.
            unsafe {
                let next = (*block).next.load(Ordering::Relaxed).cast();
                Block::free(block);
                block = next;
            }
        }
        let spare = self.spare.load(Ordering::Relaxed);
        if !spare.is_null() {
            // SAFETY: a spare block is reachable from here only.
            unsafe { Block::free(spare) };
        }
    }
}

/// The end that pushes.
pub struct Producer<M: Machine> {
    block: *mut Block<M>,
    within: usize,
    tail: u64,
    shared: Arc<Spsc<M>>,
}

// SAFETY: the block stays allocated while the consumer has not left it, which it cannot before the producer has.
unsafe impl<M: Machine> Send for Producer<M> {}

impl<M: Machine> Producer<M> {
    /// The shared part.
    pub fn queue(&self) -> &Arc<Spsc<M>> {
        &self.shared
    }

    /// Appends an item (never 0). On `Full` (out of memory) nothing changed.
    #[inline]
    pub fn push(&mut self, item: usize) -> Result<(), Full> {
        self.place(item)?;
        self.publish();
        Ok(())
    }

    /// Appends items, visible to the consumer at once. Err with how many were appended, when memory runs out.
    pub fn push_batch(&mut self, items: &[usize]) -> Result<(), usize> {
        let placed = items.iter().try_fold(0, |n, &item| self.place(item).map(|()| n + 1).map_err(|Full| n));
        self.publish();
        placed.map(|_| ())
    }

    #[inline]
    fn place(&mut self, item: usize) -> Result<(), Full> {
        debug_assert_ne!(item, 0, "0 is not a handle");
        if self.within == BLOCK {
            self.extend()?;
        }
        // SAFETY: the producer's current block (I1). Relaxed: published with the tail.
        unsafe { (*self.block).slots[self.within].store(item, Ordering::Relaxed) };
        self.within += 1;
        self.tail += 1;
        Ok(())
    }

    #[inline]
    fn publish(&mut self) {
        // Ordering[spsc-tail]: Release. Pairs with the consumer's load. Makes visible: slots, links, items below it.
        self.shared.tail.store(self.tail, Ordering::Release);
    }

    #[cold]
    fn extend(&mut self) -> Result<(), Full> {
        // Ordering[spsc-spare]: Acquire. Pairs with the consumer's store. Makes visible: that its looks at the block
        // are over.
        // Not weakened: it keeps stores from overtaking the consumer's loads, and loom never delays a load.
        let spare = self.shared.spare.load(Ordering::Acquire);
        let block = if spare.is_null() {
            Block::allocate()?
        } else {
            // Relaxed: the consumer stores only where it sees null, and learns no more from it (I3).
            self.shared.spare.store(null_mut(), Ordering::Relaxed);
            // SAFETY: ours now (I2). Relaxed: published with the tail.
            unsafe { (*spare).next.store(null_mut(), Ordering::Relaxed) };
            spare
        };
        // SAFETY: the consumer cannot have left our block. Relaxed: published with the tail.
        unsafe { (*self.block).next.store(block.cast(), Ordering::Relaxed) };
        (self.block, self.within) = (block, 0);
        Ok(())
    }
}

/// The end that pops.
pub struct Consumer<M: Machine> {
    block: *mut Block<M>,
    within: usize,
    head: u64,
    /// The tail as last loaded.
    seen: u64,
    shared: Arc<Spsc<M>>,
}

// SAFETY: as for the producer.
unsafe impl<M: Machine> Send for Consumer<M> {}

impl<M: Machine> Consumer<M> {
    /// The shared part.
    pub fn queue(&self) -> &Arc<Spsc<M>> {
        &self.shared
    }

    /// Removes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<usize> {
        if self.head == self.seen && self.refresh() == 0 {
            return None;
        }
        let item = self.remove();
        self.count();
        Some(item)
    }

    /// Removes all items that are there at the beginning, oldest first; returns how many.
    pub fn take_all(&mut self, mut each: impl FnMut(usize)) -> u64 {
        let n = self.refresh();
        for _ in 0..n {
            each(self.remove());
        }
        if n > 0 {
            self.count();
        }
        n
    }

    /// Loads the tail; returns how many items are there.
    fn refresh(&mut self) -> u64 {
        // Ordering[spsc-tail]: Acquire. Pairs with the producer's store. Makes visible: slots, links, items below it.
        self.seen = self.shared.tail.load(Ordering::Acquire);
        self.seen - self.head
    }

    #[inline]
    fn remove(&mut self) -> usize {
        debug_assert!(self.head < self.seen);
        if self.within == BLOCK {
            self.advance();
        }
        // SAFETY: the consumer's current block. Relaxed: acquired with the tail.
        let item = unsafe { (*self.block).slots[self.within].load(Ordering::Relaxed) };
        self.within += 1;
        self.head += 1;
        item
    }

    #[inline]
    fn count(&mut self) {
        // Relaxed: counter only.
        self.shared.head.store(self.head, Ordering::Relaxed);
    }

    #[cold]
    fn advance(&mut self) {
        let left = self.block;
        // SAFETY: the consumer's current block. Relaxed: acquired with the tail, which is beyond the block.
        self.block = unsafe { (*left).next.load(Ordering::Relaxed).cast() };
        self.within = 0;
        // Relaxed: single writer; read by the drop.
        self.shared.first.store(self.block, Ordering::Relaxed);
        // Relaxed: null means that the producer has taken what was there, and we learn no more from it (I3).
        if self.shared.spare.load(Ordering::Relaxed).is_null() {
            // Ordering[spsc-spare]: Release. Pairs with the producer's load. Makes visible: that our looks are over.
            // Not weakened: as the load.
            self.shared.spare.store(left, Ordering::Release);
        } else {
            // SAFETY: left by both (I2).
            unsafe { Block::free(left) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn a_burst_leaves_one_spare_block() {
        const ITEMS: usize = if cfg!(miri) { 4 * BLOCK } else { 1000 };
        let (mut producer, mut consumer) = Spsc::<Real>::new().unwrap();
        for round in 0..3 {
            producer.push_batch(&(1..=ITEMS).collect::<Vec<_>>()).unwrap();
            assert_eq!(producer.queue().len(), ITEMS as u64, "round {round}");
            for i in 1..=ITEMS {
                assert_eq!(consumer.pop(), Some(i));
            }
            assert_eq!(consumer.pop(), None);
            assert!(consumer.queue().is_empty() && !consumer.queue().spare.load(Ordering::Relaxed).is_null());
        }
        producer.push(5).unwrap();
    }

    #[test]
    fn what_comes_while_taking_stays() {
        let (mut producer, mut consumer) = Spsc::<Real>::new().unwrap();
        producer.push_batch(&[1, 2]).unwrap();
        let mut seen = Vec::new();
        consumer.take_all(|item| {
            seen.push(item);
            producer.push(item + 10).unwrap();
        });
        assert_eq!(
            (seen.as_slice(), consumer.pop(), consumer.pop(), consumer.pop()),
            (&[1, 2][..], Some(11), Some(12), None)
        );
    }
}
