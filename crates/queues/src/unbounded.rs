//! The unbounded lock-free queue whose nodes are reused under hazard pointers that belong to activations, not threads.
//!
//! Source: F. Negele, F. Friedrich, S. Oh and B. Egger, "On the Design and Implementation of an Efficient Lock-Free
//! Scheduler", section 4, figures 4 to 6; after M. M. Michael, "Hazard Pointers", 2004, and M. M. Michael and M. L.
//! Scott, "Simple, Fast, and Practical Non-Blocking and Blocking Concurrent Queue Algorithms", 1996.
//! Differs from the paper:
//! - Figure 6, lines 18 and 19 change places: the tail is moved before the hazard pointer is given up. As printed, the
//!   old tail can be dequeued, reused and become the tail again in between; then line 19 moves the tail to a node that
//!   has left.
//! - Figure 6, line 30 compares `head` with the queue's head, not `next` with the head's next, which stays the same
//!   after both nodes have left: as printed, `next` can have been deallocated when its item is read.
//! - In line 40, `first` is the old head. Line 35 is done only when the tail is the head.
//! - The 2N pooled nodes are made at the beginning, and an item's node with the item; so `enqueue` never allocates,
//!   never fails.
//!
//! Roles: activations, each with a [`Seat`], of which there are N; a seat is used by one kernel thread at a time. Each
//! may enqueue and dequeue at every queue of its domain.
//!
//! Words: per queue `head` (a node whose item has left) and `tail` (the last node, or one before it); per node `next`
//! and `item`; per seat `hazards[2]`, written by the seat only, and `pool[2]`, exchanged by anyone; per item `node`,
//! touched by the item's owner only.
//!
//! | node | state changes to | by |
//! |---|---|---|
//! | with an item | last of a queue (`tail.next` exchanged), or into a pool for another | enqueuer |
//! | in a queue | its head (`head` exchanged): its item has left | dequeuer of its item |
//! | head | with the item of its successor (`head` exchanged) | the next dequeuer |
//! | pooled | with an item | enqueuer, releaser |
//!
//! Invariants:
//! - I1. A node that a seat protects *and has validated* is not reused. The reader stores the hazard (H), fences (F1),
//!   loads the queue's word as still leading to the node (V). The reuser learnt that the node has left (L: its own or
//!   its item's previous owner's exchange of `head`, which comes after the tail has left it), fences (F2), loads the
//!   hazard (S). Forbidden: V sees the node in place and S does not see H. If F1 precedes F2, S sees H or what the same
//!   seat stored later. Else F2 precedes F1, so V sees what L knew, or something later: the node is not there, unless
//!   it was reused in between, which needs an S.
//! - I2. `head` and `tail` never return to a node that someone protects (I1), so an exchange that succeeds under
//!   protection finds the queue as the last load left it: no tag is needed.
//! - I3. The tail is never behind the head: who moves the head from a node first sees, or sees to it, that the tail has
//!   left it. (Since an enqueuer protects the old tail until it has moved the tail, I1 would hold without this; with it
//!   the proof is local.)
//! - I4. Pools and the node that `acquire` holds are pairwise different, and 2N + 1 of them face at most 2N hazards:
//!   while the hazards stand still, each exchange puts one hazardous node where it is found no more, so 2N exchanges
//!   suffice.
//! - I5. Nodes: one for each item that is alive, one sentinel for each queue, 2N in the pools. Nothing else is ever
//!   allocated.
//!
//! Progress: acquire and release are wait-free as in the paper (I4; a hazard stored meanwhile for a node that has left
//! is transient, one for each other seat); enqueue and dequeue are lock-free. A seat frozen anywhere protects two
//! nodes, for which the pool has two others: it delays nobody and costs nothing.
//!
//! Memory: a node is freed with its item ([`Seat::release`]), its queue or its domain; when freed it is in no hazard
//! (I1). Under the interleaving tests released nodes are kept as corpses, so that a late reader is caught.
//!
//! Edges: `unb-link` exchange → load (the node's item and what it names); `unb-tail`, `unb-head` exchange → validating
//! load (the node itself, its reset `next`); `unb-clear` store → `unb-scan` load (the seat's looks are over);
//! `unb-pool` exchanges (the node changes hands); fences `unb-protect` and `unb-scan` as in I1.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::unbounded::{Hazards, Item, Unbounded};
//! use std::ptr::NonNull;
//! let domain = Hazards::<Real>::new(4).unwrap();
//! let queue = Unbounded::new(&domain).unwrap();
//! let mut seat = domain.seat(0).expect("nobody has it");
//! let item = Item::new().unwrap();
//! // SAFETY: the item outlives its stay in the queue, and is in one queue once.
//! unsafe {
//!     queue.enqueue(&mut seat, NonNull::from(&item));
//!     assert_eq!(queue.dequeue(&mut seat), Some(NonNull::from(&item)));
//!     assert_eq!(queue.dequeue(&mut seat), None);
//!     seat.release(&item);
//! }
//! ```

use crate::pad::Padded;
use crate::ring_buffer::Full;
use raddle_machine::{Atomic, Machine, Ordering};
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Pointers between nodes are erased: a type that contains an atomic pointer to itself overwhelms the trait solver.
struct Node<M: Machine> {
    next: M::Atomic<*mut ()>,
    item: M::Atomic<*mut ()>,
}

type Pointer<M> = *mut Node<M>;

impl<M: Machine> Node<M> {
    fn allocate() -> Result<Pointer<M>, Full> {
        // SAFETY: the layout is not empty.
        let node = unsafe { std::alloc::alloc(Layout::new::<Self>()) }.cast::<Self>();
        if node.is_null() {
            return Err(Full);
        }
        // SAFETY: just allocated with this layout.
        unsafe { node.write(Self { next: M::Atomic::new(null_mut()), item: M::Atomic::new(null_mut()) }) };
        Ok(node)
    }

    /// # Safety
    /// Came from `allocate`; nobody looks at it now or later.
    unsafe fn free(node: Pointer<M>) {
        // SAFETY: by the contract; `allocate` used the layout with which a Box frees.
        drop(unsafe { Box::from_raw(node) });
    }
}

/// What an item must contain, to be in one queue at a time: its node.
///
/// Dropping it without [`Seat::release`] leaks the node.
pub struct Item<M: Machine> {
    node: M::Atomic<*mut ()>,
}

impl<M: Machine> Item<M> {
    /// An item, with its node.
    pub fn new() -> Result<Self, Full> {
        Ok(Self { node: M::Atomic::new(Node::<M>::allocate()?.cast()) })
    }

    /// An item without a node; [`Item::prepare`] it before it is enqueued. For items in static or recycled memory.
    pub fn without_node() -> Self {
        Self { node: M::Atomic::new(null_mut()) }
    }

    /// Sees to it that the item has a node. Only the item's owner may call this.
    pub fn prepare(&self) -> Result<(), Full> {
        // Relaxed: touched by the item's owner only.
        if self.node.load(Ordering::Relaxed).is_null() {
            self.node.store(Node::<M>::allocate()?.cast(), Ordering::Relaxed);
        }
        Ok(())
    }
}

struct Record<M: Machine> {
    hazards: [M::Atomic<Pointer<M>>; 2],
    pool: [M::Atomic<Pointer<M>>; 2],
    taken: M::Atomic<u32>,
}

/// A domain: the hazard pointers and pools that a set of queues shares.
pub struct Hazards<M: Machine> {
    records: Box<[Padded<Record<M>>]>,
    #[cfg(feature = "loom")]
    corpses: std::sync::Mutex<Vec<usize>>,
}

// SAFETY: nodes are reached through atomics; who may follow which pointer is the header's I1.
unsafe impl<M: Machine> Send for Hazards<M> {}
// SAFETY: shared, it gives atomics; a record is its owner's alone (the promise of whoever claims one).
unsafe impl<M: Machine> Sync for Hazards<M> {}

impl<M: Machine> Hazards<M> {
    /// A domain of `seats` seats, with the nodes of its pools.
    pub fn new(seats: usize) -> Result<Arc<Self>, Full> {
        let null = || [M::Atomic::new(null_mut()), M::Atomic::new(null_mut())];
        let record = |_| Padded(Record { hazards: null(), pool: null(), taken: M::Atomic::new(0) });
        let domain = Self {
            records: (0..seats).map(record).collect(),
            #[cfg(feature = "loom")]
            corpses: Default::default(),
        };
        for pool in domain.records.iter().flat_map(|record| &record.pool) {
            // Relaxed: nobody else has the domain yet.
            pool.store(Node::allocate()?, Ordering::Relaxed);
        }
        Ok(Arc::new(domain))
    }

    /// How many seats there are.
    pub fn seats(&self) -> usize {
        self.records.len()
    }

    /// The seat of this index, unless somebody has it or there is none.
    pub fn seat(self: &Arc<Self>, index: usize) -> Option<Seat<M>> {
        // Ordering[unb-seat]: Acquire. Pairs with the store in the drop of a seat. Makes visible: the predecessor's
        // stores.
        // Not weakened: what it orders is the hazards' history only, and both left them null.
        let old = self.records.get(index)?.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        old.is_ok().then(|| Seat { index, domain: self.clone() })
    }
}

impl<M: Machine> Drop for Hazards<M> {
    fn drop(&mut self) {
        #[cfg(feature = "loom")]
        for corpse in self.corpses.get_mut().unwrap().drain(..) {
            // SAFETY: released once, kept until now.
            unsafe { Node::<M>::free(std::ptr::with_exposed_provenance_mut(corpse)) }
        }
        for pool in self.records.iter().flat_map(|record| &record.pool) {
            // Relaxed: alone by `&mut`.
            let node = pool.load(Ordering::Relaxed);
            if !node.is_null() {
                // SAFETY: pooled nodes are in no queue and with no item; no seat is left.
                unsafe { Node::free(node) };
            }
        }
    }
}

/// The right of one activation to use the domain's queues; given back when dropped.
pub struct Seat<M: Machine> {
    index: usize,
    domain: Arc<Hazards<M>>,
}

impl<M: Machine> Seat<M> {
    /// Which one it is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Stores a hazard; the caller then validates.
    fn protect(&self, which: usize, node: Pointer<M>) {
        // Ordering[unb-clear]: Release. Pairs with unb-scan. Makes visible: that the looks at the node protected before
        // are over.
        // Not weakened: it keeps earlier loads from being delayed beyond it, and loom never delays a load.
        self.domain.records[self.index].hazards[which].store(node, Ordering::Release);
        // Ordering[unb-protect]: SeqCst. Pairs with the fence of unb-scan, proof in I1.
        M::fence(Ordering::SeqCst);
    }

    fn clear(&self, which: usize) {
        // Ordering[unb-clear]: Release. Pairs with unb-scan. Makes visible: that the looks at the node are over.
        // Not weakened: as in `protect`.
        self.domain.records[self.index].hazards[which].store(null_mut(), Ordering::Release);
    }

    /// The paper's Acquire: a node in no hazard, for one that has left its queue.
    fn acquire(&self, mut node: Pointer<M>) -> Pointer<M> {
        loop {
            // Ordering[unb-scan]: SeqCst. Pairs with the fence of unb-protect, proof in I1.
            M::fence(Ordering::SeqCst);
            let mut exchanged = false;
            for record in &self.domain.records {
                for (hazard, pool) in record.hazards.iter().zip(&record.pool) {
                    // Ordering[unb-scan]: Acquire. Pairs with unb-clear. Makes visible: that the seat's looks are over.
                    // Not weakened: as unb-clear.
                    if hazard.load(Ordering::Acquire) == node {
                        // Ordering[unb-pool]: AcqRel. Pairs with itself. Makes visible: that the node has left its
                        // queue.
                        // Not weakened: the fences before and after do as much, but ThreadSanitizer does not understand
                        // them.
                        node = pool.swap(node, Ordering::AcqRel);
                        exchanged = true;
                    }
                }
            }
            if !exchanged {
                return node;
            }
        }
    }

    /// The paper's Release: frees the item's node, or one that it is exchanged for. The item is without a node then.
    ///
    /// # Safety
    /// The item is the caller's own, in no queue, and its node is of this domain or fresh.
    pub unsafe fn release(&mut self, item: &Item<M>) {
        // Relaxed: touched by the item's owner only.
        let node = item.node.load(Ordering::Relaxed).cast::<Node<M>>();
        item.node.store(null_mut(), Ordering::Relaxed);
        if !node.is_null() {
            let node = self.acquire(node);
            #[cfg(feature = "loom")]
            self.domain.corpses.lock().unwrap().push(node.expose_provenance());
            #[cfg(not(feature = "loom"))]
            // SAFETY: in no queue, and in no hazard that is or will be validated (I1).
            unsafe {
                Node::free(node)
            };
        }
    }
}

impl<M: Machine> Drop for Seat<M> {
    fn drop(&mut self) {
        // Ordering[unb-seat]: Release. Pairs with the exchange in `seat`. Makes visible: this user's stores.
        // Not weakened: as the exchange.
        self.domain.records[self.index].taken.store(0, Ordering::Release);
    }
}

/// The queue. Items left in it when it is dropped are forgotten, their nodes freed.
pub struct Unbounded<M: Machine> {
    head: Padded<M::Atomic<Pointer<M>>>,
    tail: Padded<M::Atomic<Pointer<M>>>,
    domain: Arc<Hazards<M>>,
}

// SAFETY: as for the domain; the items are the enqueuers' promise.
unsafe impl<M: Machine> Send for Unbounded<M> {}
// SAFETY: shared, it gives atomics; nodes are followed under hazards (I1).
unsafe impl<M: Machine> Sync for Unbounded<M> {}

impl<M: Machine> Unbounded<M> {
    /// An empty queue of a domain.
    pub fn new(domain: &Arc<Hazards<M>>) -> Result<Self, Full> {
        let sentinel = Node::allocate()?;
        let word = || Padded(M::Atomic::new(sentinel));
        Ok(Self { head: word(), tail: word(), domain: domain.clone() })
    }

    /// Whether it is empty at this moment, as far as that can be told without protection: a moment's view.
    pub fn is_empty(&self) -> bool {
        // Relaxed: only compared. A lagging tail can make it look empty while an enqueuer has not finished.
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }

    fn check(&self, seat: &Seat<M>) {
        assert!(Arc::ptr_eq(&self.domain, &seat.domain), "a seat of another domain protects nothing here");
    }

    /// Appends an item.
    ///
    /// # Safety
    /// The item has a node, is the caller's own, stays valid until it is dequeued, and may be used by whichever kernel
    /// thread dequeues it. Its node is fresh or of this domain.
    pub unsafe fn enqueue(&self, seat: &mut Seat<M>, item: NonNull<Item<M>>) {
        self.check(seat);
        // SAFETY: valid and the caller's own. Relaxed: touched by the item's owner only.
        let own = unsafe { item.as_ref() }.node.load(Ordering::Relaxed);
        assert!(!own.is_null(), "an item without a node is enqueued");
        let node = seat.acquire(own.cast());
        // SAFETY: acquired, so ours alone (I1). Relaxed: published by the exchange of unb-link.
        unsafe {
            (*node).item.store(item.as_ptr().cast(), Ordering::Relaxed);
            (*node).next.store(null_mut(), Ordering::Relaxed);
        }
        let tail = loop {
            // Relaxed: validated below.
            let tail = self.tail.load(Ordering::Relaxed);
            seat.protect(0, tail);
            // Ordering[unb-tail]: Acquire. Pairs with the exchanges of the tail. Makes visible: the node's reset
            // `next`.
            // Not weakened: the fence in `protect` has acquired it, unless the node came round between the loads: no
            // test reaches that.
            if self.tail.load(Ordering::Acquire) != tail {
                continue;
            }
            // SAFETY: protected and validated (I1).
            let last = unsafe { &(*tail).next };
            // Ordering[unb-link]: Acquire. Pairs with the exchange of unb-link. Makes visible: the node that we help to
            // the tail.
            // Not weakened: only a third activation can rely on it, and no test has three.
            let next = last.load(Ordering::Acquire);
            if !next.is_null() {
                self.advance(tail, next.cast());
                continue;
            }
            // Ordering[unb-link]: Release. Pairs with the loads of unb-link. Makes visible: the node, its item, what it
            // names.
            // Not weakened: a fence in `protect` comes before, but ThreadSanitizer does not understand fences.
            if last.compare_exchange(null_mut(), node.cast(), Ordering::Release, Ordering::Relaxed).is_ok() {
                break tail;
            }
        };
        // Point of no return: the item may have been dequeued, its node may be another's.
        self.advance(tail, node);
        seat.clear(0);
    }

    /// Moves the tail on from a node that the caller protects.
    fn advance(&self, from: Pointer<M>, to: Pointer<M>) {
        // Ordering[unb-tail]: Release. Pairs with the validating load. Makes visible: the node's reset `next`.
        // Not weakened: as the release of unb-link.
        // A failure means that somebody else did it.
        let _ = self.tail.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// Removes the oldest item; its old head goes with it as its node.
    pub fn dequeue(&self, seat: &mut Seat<M>) -> Option<NonNull<Item<M>>> {
        self.check(seat);
        let (head, item) = loop {
            // Relaxed: validated below.
            let head = self.head.load(Ordering::Relaxed);
            seat.protect(0, head);
            // Ordering[unb-head]: Acquire. Pairs with the exchange of the head. Makes visible: the node.
            // Not weakened: as the validating load of the tail.
            if self.head.load(Ordering::Acquire) != head {
                continue;
            }
            // Ordering[unb-link]: Acquire. Pairs with the exchange of unb-link. Makes visible: the node, its item, what
            // it names.
            // Not weakened: the fence in `protect` follows, but ThreadSanitizer does not understand fences.
            // SAFETY: protected and validated (I1).
            let next = unsafe { (*head).next.load(Ordering::Acquire) }.cast::<Node<M>>();
            if next.is_null() {
                seat.clear(0);
                seat.clear(1);
                return None;
            }
            seat.protect(1, next);
            // Relaxed: `head` is protected, so if it is in place it has been all the time, and `next` is still its
            // successor.
            if self.head.load(Ordering::Relaxed) != head {
                continue;
            }
            // Relaxed: I3 needs only that someone has moved it; the proof of I1 takes care of who sees that.
            if self.tail.load(Ordering::Relaxed) == head {
                self.advance(head, next);
            }
            #[cfg(feature = "loom")]
            assert!(!self.domain.corpses.lock().unwrap().contains(&next.addr()), "a released node is read");
            // SAFETY: protected and validated (I1). Relaxed: acquired with `next`.
            let item = unsafe { (*next).item.load(Ordering::Relaxed) };
            // Ordering[unb-head]: Release. Pairs with the validating load. Makes visible: the new head's `next` as
            // acquired.
            // Not weakened: as the release of unb-link.
            if self.head.compare_exchange(head, next, Ordering::Release, Ordering::Relaxed).is_ok() {
                break (head, item);
            }
        };
        seat.clear(0);
        seat.clear(1);
        let item = NonNull::new(item.cast::<Item<M>>()).expect("nodes in a queue have items");
        // SAFETY: dequeued by us alone, valid by the enqueuer's promise. Relaxed: touched by the item's owner only.
        unsafe { item.as_ref() }.node.store(head.cast(), Ordering::Relaxed);
        Some(item)
    }
}

impl<M: Machine> Drop for Unbounded<M> {
    fn drop(&mut self) {
        // Relaxed, here and below: alone by `&mut`.
        let mut node = self.head.load(Ordering::Relaxed);
        while !node.is_null() {
            // SAFETY: nobody uses the queue, so nobody follows a hazard to its nodes.
            unsafe {
                let next = (*node).next.load(Ordering::Relaxed).cast();
                Node::free(node);
                node = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn items_change_queues_in_order_and_keep_as_many_nodes() {
        let domain = Hazards::<Real>::new(2).unwrap();
        let queues = [Unbounded::new(&domain).unwrap(), Unbounded::new(&domain).unwrap()];
        let mut seat = domain.seat(1).unwrap();
        assert!(domain.seat(1).is_none() && domain.seat(2).is_none());
        let items: Vec<_> = (0..10).map(|_| Item::new().unwrap()).collect();
        let nodes = |items: &[Item<Real>]| {
            let mut nodes: Vec<_> = items.iter().map(|item| item.node.load(Ordering::Relaxed)).collect();
            nodes.sort();
            nodes.dedup();
            nodes.len()
        };
        for round in 0..5 {
            for item in &items {
                // SAFETY: `items` outlives the queues' use of them; each is in one queue at most.
                unsafe { queues[round % 2].enqueue(&mut seat, NonNull::from(item)) };
            }
            for item in &items {
                assert!(!queues[round % 2].is_empty());
                assert_eq!(queues[round % 2].dequeue(&mut seat), Some(NonNull::from(item)));
            }
            assert!(queues[round % 2].dequeue(&mut seat).is_none() && queues[round % 2].is_empty());
            assert_eq!(nodes(&items), 10);
        }
        for item in &items {
            // SAFETY: in no queue.
            unsafe { seat.release(item) };
        }
        drop(seat);
        assert!(domain.seat(1).is_some());
    }

    #[test]
    fn a_hazardous_node_is_exchanged_for_a_pooled_one() {
        let domain = Hazards::<Real>::new(3).unwrap();
        let (reader, seat) = (domain.seat(0).unwrap(), domain.seat(2).unwrap());
        let item = Item::<Real>::new().unwrap();
        let node = item.node.load(Ordering::Relaxed).cast();
        reader.protect(1, node);
        let other = seat.acquire(node);
        assert_ne!(other, node);
        assert_eq!(domain.records[0].pool[1].load(Ordering::Relaxed), node);
        reader.protect(1, other);
        assert_eq!(seat.acquire(other), node);
        item.node.store(node.cast(), Ordering::Relaxed);
        let mut seat = seat;
        // SAFETY: in no queue.
        unsafe { seat.release(&item) };
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn a_foreign_seat_is_refused() {
        let queue = Unbounded::new(&Hazards::<Real>::new(1).unwrap()).unwrap();
        queue.dequeue(&mut Hazards::new(1).unwrap().seat(0).unwrap());
    }
}
