//! An unbounded lock-free queue of messages.
//!
//! Source: M. Michael and M. Scott's queue with counted links (1996), and the pairing of items with nodes from Negele
//! et al., *On the Design and Implementation of an Efficient Lock-Free Scheduler*, section 4: the node that an item
//! leaves behind is not the one that it came with. Differs from both: nodes and items are records of one type-stable
//! [`Pool`] of the channel's own, named by indices, so no hazard pointers are needed.
//!
//! Roles: any thread pushes and pops.
//!
//! A record is two things with separate lives: an *item* (a cell for a message) and a *node* (a link in the list, which
//! names the item). A free item owns one free node, its `node`. Pushing writes the message into the item and appends
//! its node; popping moves `head` on, which gives the popper the next node's item and the old sentinel node, and pairs
//! these two.
//!
//! Invariants:
//! - I1: an item belongs to one thread, or to the node in the list that names it, or to the pool.
//! - I2: a node is the sentinel, or behind it, or paired with exactly one item.
//! - I3: as in `raddle_queues::wait_list`: `tail` is not behind `head`; a link read from a node is a link of this list
//!   if the word that led to the node is unchanged afterwards.
//!
//! Progress: lock-free. A frozen sender holds its own message, a frozen receiver the one that it took.
//!
//! Reclamation: records return to the pool and are used again; their memory is freed with the channel.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `unbounded.link` | `push` appends | `pop` follows |
//! | `unbounded.head` | `pop` | `pop` |
//! | `unbounded.tail` | whoever moves `tail` | `push`, `pop` |

use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::wait_list::pool::{Link, Pool, Record};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

struct Cell<T, M: Machine> {
    /// Links free items.
    free: M::Atomic<u64>,
    /// As a node: the next one.
    next: M::Atomic<u64>,
    /// As a node: the item that it names.
    item: M::Atomic<u32>,
    /// As an item: the node that is paired with it; 0: its own. Written and read by the item's owner.
    node: M::Atomic<u32>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is accessed by the item's owner only (I1); the rest is atomic; `MaybeUninit` needs no drop.
unsafe impl<T, M: Machine> Record<M> for Cell<T, M> {
    fn fresh() -> Self {
        Self {
            free: M::Atomic::new(0),
            next: M::Atomic::new(0),
            item: M::Atomic::new(0),
            node: M::Atomic::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
    fn link(&self) -> &M::Atomic<u64> {
        &self.free
    }
}

#[repr(align(64))]
struct End<M: Machine>(M::Atomic<u64>);

pub(super) struct List<T, M: Machine> {
    head: End<M>,
    tail: End<M>,
    records: Pool<M, Cell<T, M>>,
}

// SAFETY: a message is reached only by the owner of its item, and items pass through the list with release and acquire;
// so messages need Send and no more.
unsafe impl<T: Send, M: Machine> Sync for List<T, M> {}
// SAFETY: messages go with the list: T: Send; the rest is atomics.
unsafe impl<T: Send, M: Machine> Send for List<T, M> {}

impl<T, M: Machine> List<T, M> {
    pub fn new() -> Self {
        let list = Self { head: End(M::Atomic::new(0)), tail: End(M::Atomic::new(0)), records: Pool::default() };
        // The first sentinel: its item is never used.
        let sentinel = list.take();
        let end = Link::from_word(0).successor(sentinel).word();
        list.head.0.store(end, Ordering::Relaxed);
        list.tail.0.store(end, Ordering::Relaxed);
        list
    }

    fn take(&self) -> u32 {
        self.records.take().unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<Cell<T, M>>()))
    }

    pub fn push(&self, value: T) {
        let item = self.take();
        let record = self.records.get(item);
        // SAFETY: the item is this call's own, and holds no message.
        unsafe { (*record.value.get()).write(value) };
        // Relaxed: belongs to the owner of the item, which the pool handed over.
        let paired = record.node.load(Ordering::Relaxed);
        let index = if paired == 0 { item } else { paired };
        let node = self.records.get(index);
        node.item.store(item, Ordering::Relaxed);
        let old = Link::from_word(node.next.load(Ordering::Relaxed));
        // Ordering[unbounded.link]: Release. Pairs with stale readers of the link (I3). Makes visible: that the node
        // left.
        node.next.store(old.successor(0).word(), Ordering::Release);
        self.append(index);
    }

    fn append(&self, index: u32) {
        loop {
            // Ordering[unbounded.tail]: Acquire. Pairs with `advance`. Makes visible: the last node's link.
            let tail = Link::from_word(self.tail.0.load(Ordering::Acquire));
            let last = self.records.get(tail.index());
            // Ordering[unbounded.link]: Acquire. Pairs with another `append`; and with `push`'s store: then `tail` has
            // moved.
            let next = Link::from_word(last.next.load(Ordering::Acquire));
            if self.tail.0.load(Ordering::Relaxed) != tail.word() {
                continue;
            }
            if next.index() != 0 {
                self.advance(tail, next.index());
                continue;
            }
            let new = next.successor(index).word();
            // Ordering[unbounded.link]: SeqCst. Pairs with `pop`. Makes visible: the node's item and the message.
            // SeqCst so that a waker needs no fence (`raddle_queues::wait_list::Queue::is_empty`).
            if last.next.compare_exchange(next.word(), new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                self.advance(tail, index);
                return;
            }
        }
    }

    fn advance(&self, tail: Link, index: u32) {
        let new = tail.successor(index).word();
        // Ordering[unbounded.tail]: AcqRel. Pairs with `append` and `pop`. Makes visible: the link that was followed.
        let _ = self.tail.0.compare_exchange(tail.word(), new, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// A consistent view of a list that is not empty: `head`, `tail`, the sentinel's link.
    fn first(&self) -> Option<(Link, Link, Link)> {
        loop {
            // Ordering[unbounded.head]: Acquire. Pairs with `pop`. Makes visible: a `tail` not behind it.
            let head = Link::from_word(self.head.0.load(Ordering::Acquire));
            // Ordering[unbounded.tail]: Acquire. Orders this read before the second look at `head`.
            let tail = Link::from_word(self.tail.0.load(Ordering::Acquire));
            // Ordering[unbounded.link]: Acquire. Pairs with `append`. Makes visible: the node's item and the message.
            let next = Link::from_word(self.records.get(head.index()).next.load(Ordering::Acquire));
            if self.head.0.load(Ordering::Relaxed) == head.word() {
                return (next.index() != 0).then_some((head, tail, next));
            }
        }
    }

    pub fn pop(&self) -> Option<T> {
        loop {
            let (head, tail, next) = self.first()?;
            if tail.index() == head.index() {
                self.advance(tail, next.index());
            }
            // Validated by the exchange: while `head` stands still the node is in the list and names its item.
            let item = self.records.get(next.index()).item.load(Ordering::Relaxed);
            let new = head.successor(next.index()).word();
            // Ordering[unbounded.head]: AcqRel. Pairs with `first`. Makes visible: that `tail` is not behind. Not
            // weakened: a sender moves `tail` itself, and fences before its wake-up, which does as well. It takes one
            // that stands before that, this popper in its place, and a second popper: three threads in a row are beyond
            // the bounds of the tests.
            if self.head.0.compare_exchange(head.word(), new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let record = self.records.get(item);
                // SAFETY: winning the exchange made the item ours (I1), and its sender has written the message.
                let value = unsafe { (*record.value.get()).assume_init_read() };
                record.node.store(head.index(), Ordering::Relaxed);
                self.records.give(item);
                return Some(value);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }
}

impl<T, M: Machine> Drop for List<T, M> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn keeps_order_and_reuses_records() {
        let list = List::<Box<u64>, Real>::new();
        for round in 0..if cfg!(miri) { 20 } else { 1000 } {
            for i in 0..3 {
                list.push(Box::new(round * 3 + i));
            }
            for i in 0..3 {
                assert_eq!(list.pop().as_deref(), Some(&(round * 3 + i)));
            }
            assert!(list.is_empty());
        }
        assert!(list.records.made() <= 4);
        list.push(Box::new(1));
    }
}
