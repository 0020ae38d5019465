//! The queue lock of Mellor-Crummey and Scott, and the two changes of it that make it as fast as a spin lock when
//! nobody waits.
//!
//! Sources: J. Mellor-Crummey and M. Scott, 1991 (both forms of release); Unrau et al., section 3.1 and figure 3. H1:
//! nodes are initialised before they are first used and after each contention, not at each lock. H2: moreover, unlock
//! does not look for a successor before it tries to empty the queue.
//!
//! Roles: *holder*, whose node heads the queue; *waiters*, each on its own node.
//!
//! Words: `tail`: null (free) or the last node. A node's `next`: null or its successor; `state`: `WAITING` or
//! `GRANTED`.
//!
//! | transition | actor |
//! |---|---|
//! | tail: null → N | who locks without a contender, or tries |
//! | tail: P → N, then N.state = WAITING before P.next = N | a waiter |
//! | tail: N → null | the holder, nobody after it |
//! | successor.state: WAITING → GRANTED | the holder |
//! | swap form: tail: L → null → L again | the holder, although it has a successor; who comes between ("usurper") holds the lock and comes first |
//!
//! Invariants: I1. One node heads the queue, and its owner alone may be inside. I2. A node's `next` is null when its
//! owner is in no queue (H1, H2), or becomes so before it enters (MCS). I3. A node is read by others only between its
//! owner's swap and its owner's return from unlock.
//!
//! Progress: blocking; unlock waits for a successor that has swapped the tail and not yet linked itself. Fairness:
//! first come, first served; in the swap form a repair lets usurpers before those who wait. Memory: nodes are the
//! callers'; I3.
//!
//! Edges: `mcs.tail` release → next swap of the tail (the value, and a node's fields); `mcs.next` link → the holder's
//! look (the successor's state); `mcs.grant` → the waiter (the value).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{H1Mcs, Lock, Place, SwapH2Mcs};
//! let (a, b) = (Lock::<u32, H1Mcs<Real>, Real>::new(1), Lock::<u32, SwapH2Mcs<Real>, Real>::new(2));
//! assert_eq!(a.with(|value| *value) + *b.lock(Place::new()), 3);
//! ```

use super::Algorithm;
use raddle_machine::{Atomic, Machine, Ordering};
use std::ptr::{from_ref, null_mut};

const GRANTED: u32 = 0;
const WAITING: u32 = 1;

/// A waiter's node, on cache lines of its own.
#[repr(align(128))]
pub struct Node<M: Machine> {
    next: M::Atomic<*mut Node<M>>,
    state: M::Atomic<u32>,
}

/// `PREPARE`: initialise the node at each lock. `LOOK`: look for a successor before emptying the queue. `SWAP`: without
/// compare-and-swap.
pub struct Queue<M: Machine, const PREPARE: bool, const LOOK: bool, const SWAP: bool> {
    tail: M::Atomic<*mut Node<M>>,
}

/// The lock of 1991.
pub type Mcs<M> = Queue<M, true, true, false>;
/// With nodes that are ready.
pub type H1Mcs<M> = Queue<M, false, true, false>;
/// Moreover without a look for a successor.
pub type H2Mcs<M> = Queue<M, false, false, false>;
/// The lock of 1991 for machines that only swap.
pub type SwapMcs<M> = Queue<M, true, true, true>;
/// As [`H1Mcs`], for machines that only swap.
pub type SwapH1Mcs<M> = Queue<M, false, true, true>;
/// As [`H2Mcs`], for machines that only swap: each unlock with a successor repairs the queue.
pub type SwapH2Mcs<M> = Queue<M, false, false, true>;

impl<M: Machine, const PREPARE: bool, const LOOK: bool, const SWAP: bool> Queue<M, PREPARE, LOOK, SWAP> {
    /// # Safety
    /// `before` was the tail when `node` became it.
    #[cold]
    #[inline(never)]
    unsafe fn queue_up(&self, node: &Node<M>, before: *mut Node<M>) {
        node.state.store(WAITING, Ordering::Relaxed);
        // SAFETY: the owner of `before` does not return from unlock until it has seen this link (I3).
        let before = unsafe { &*before };
        // Ordering[mcs.next]: Release. Pairs with the loads of `next` in unlock. Makes visible: that the node waits.
        before.next.store(from_ref(node).cast_mut(), Ordering::Release);
        // Ordering[mcs.grant]: Acquire. Pairs with the store in `grant`. Makes visible: the value.
        while node.state.load(Ordering::Acquire) == WAITING {
            M::spin_hint();
        }
    }

    /// # Safety
    /// `next` waits right behind the caller, who holds the lock.
    #[inline(always)]
    unsafe fn grant(next: *mut Node<M>) {
        // SAFETY: its owner waits until the store (I3).
        let next = unsafe { &*next };
        // Ordering[mcs.grant]: Release. Pairs with the load in `queue_up`. Makes visible: the value.
        next.state.store(GRANTED, Ordering::Release);
    }

    /// The successor, if it has linked itself.
    #[inline(always)]
    fn next(node: &Node<M>) -> *mut Node<M> {
        // Ordering[mcs.next]: Acquire. Pairs with the store in `queue_up`. Makes visible: that the successor waits.
        node.next.load(Ordering::Acquire)
    }

    /// The successor, which has swapped the tail and may not have linked itself yet.
    fn successor(node: &Node<M>) -> *mut Node<M> {
        loop {
            let next = Self::next(node);
            if !next.is_null() {
                return next;
            }
            M::spin_hint();
        }
    }

    /// The node is as new again: after the successor has been told, so that it does not wait for this.
    #[inline(always)]
    fn renew(node: &Node<M>) {
        if !PREPARE {
            node.next.store(null_mut(), Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_over(node: &Node<M>, next: *mut Node<M>) {
        let next = if next.is_null() { Self::successor(node) } else { next };
        // SAFETY: right behind us.
        unsafe { Self::grant(next) };
        Self::renew(node);
    }

    /// Takes the lock if nobody holds it or waits for it, and leaves nothing behind if not. True if it is the caller's.
    ///
    /// # Safety
    /// As for [`Algorithm::lock`], if it says true.
    pub(super) unsafe fn try_lock(&self, node: &Node<M>) -> bool {
        if PREPARE {
            node.next.store(null_mut(), Ordering::Relaxed);
        }
        let me = from_ref(node).cast_mut();
        // Ordering[mcs.tail]: AcqRel. Pairs with unlock, and with the next swap in lock. Makes visible: the value; our
        // node's fields.
        self.tail.compare_exchange(null_mut(), me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The tail was taken away from under those who wait, whose last is `last`.
    #[cold]
    #[inline(never)]
    fn repair(&self, node: &Node<M>, last: *mut Node<M>) {
        // Ordering[mcs.tail]: AcqRel. Pairs with the swaps of lock and of this. Makes visible: what usurpers did inside
        // that have left; and the value, to who comes when there is none.
        let usurper = self.tail.swap(last, Ordering::AcqRel);
        let next = Self::successor(node);
        if usurper.is_null() {
            // SAFETY: right behind us, and nobody came between.
            unsafe { Self::grant(next) };
        } else {
            // SAFETY: the last of the usurpers finds that it is not the tail, and waits for this link.
            let usurper = unsafe { &*usurper };
            // Ordering[mcs.next]: Release. Pairs with the loads of `next` in unlock. Makes visible: that the successor
            // waits.
            usurper.next.store(next, Ordering::Release);
        }
        Self::renew(node);
    }
}

// SAFETY: by I1 one at a time; the orderings are tagged.
unsafe impl<M: Machine, const PREPARE: bool, const LOOK: bool, const SWAP: bool> Algorithm<M>
    for Queue<M, PREPARE, LOOK, SWAP>
{
    type Node = Node<M>;

    fn new() -> Self {
        Self { tail: M::Atomic::new(null_mut()) }
    }

    fn node() -> Node<M> {
        Node { next: M::Atomic::new(null_mut()), state: M::Atomic::new(GRANTED) }
    }

    #[inline(always)]
    unsafe fn lock(&self, node: &Node<M>) {
        if PREPARE {
            node.next.store(null_mut(), Ordering::Relaxed);
        }
        // Ordering[mcs.tail]: AcqRel. Pairs with unlock, and with the next swap here. Makes visible: the value; our
        // node's fields.
        let before = self.tail.swap(from_ref(node).cast_mut(), Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: it was the tail until just now.
            unsafe { self.queue_up(node, before) };
        }
    }

    #[inline(always)]
    unsafe fn unlock(&self, node: &Node<M>) {
        if LOOK {
            let next = Self::next(node);
            if !next.is_null() {
                return Self::hand_over(node, next);
            }
        }
        let me = from_ref(node).cast_mut();
        if SWAP {
            // Ordering[mcs.tail]: Release. Pairs with the swap in lock. Makes visible: the value.
            let last = self.tail.swap(null_mut(), Ordering::Release);
            if last != me {
                self.repair(node, last);
            }
            return;
        }
        // Ordering[mcs.tail]: Release. Pairs with the swap in lock. Makes visible: the value.
        if self.tail.compare_exchange(me, null_mut(), Ordering::Release, Ordering::Relaxed).is_err() {
            Self::hand_over(node, null_mut());
        }
    }

    fn touch(node: &Node<M>) {
        node.next.store(null_mut(), Ordering::Relaxed);
        node.state.store(GRANTED, Ordering::Relaxed);
    }

    fn is_awaited(&self, node: &Node<M>) -> bool {
        self.tail.load(Ordering::Relaxed) != from_ref(node).cast_mut()
    }
}
