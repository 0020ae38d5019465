//! Hemlock: a queue without links, in which the unlocker waits until its successor has taken note.
//!
//! Source: D. Dice and A. Kogan, *Hemlock: Compact and Scalable Mutual Exclusion*, 2021, listing 1. Differs: a node is
//! for one lock at a time, so the word says only that the lock is granted, not which lock.
//!
//! Roles: *holder*; *waiters*, each on its predecessor's node. Words: `tail`: null (free) or the last node. A node's
//! `grant`: 0, or 1 from the unlock until the successor has seen it.
//!
//! Invariants: I1. A node is looked at by its successor alone, which its owner waits for in unlock: so a node may lie
//! on a stack.
//!
//! Progress: blocking; unlock waits for the successor. Fairness: first come, first served. Memory: nodes are the
//! callers'; I1.
//!
//! Edges: `hemlock.tail` release → next swap of the tail; `hemlock.grant` grant → successor (the value), and back (the
//! node is free).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Hemlock, Lock};
//! assert_eq!(Lock::<u32, Hemlock<Real>, Real>::new(1).with(|value| *value), 1);
//! ```

use super::Algorithm;
use raddle_machine::{Atomic, Machine, Ordering};
use std::ptr::{from_ref, null_mut};

/// A node, on cache lines of its own.
#[repr(align(128))]
pub struct Node<M: Machine> {
    grant: M::Atomic<u32>,
}

/// See the module.
pub struct Hemlock<M: Machine> {
    tail: M::Atomic<*mut Node<M>>,
}

// SAFETY: who finds the tail null, or is granted, is alone until it empties the queue or grants; the orderings are
// tagged.
unsafe impl<M: Machine> Algorithm<M> for Hemlock<M> {
    type Node = Node<M>;

    fn new() -> Self {
        Self { tail: M::Atomic::new(null_mut()) }
    }

    fn node() -> Node<M> {
        Node { grant: M::Atomic::new(0) }
    }

    #[inline(always)]
    unsafe fn lock(&self, node: &Node<M>) {
        // Ordering[hemlock.tail]: AcqRel. Pairs with the unlock's exchange, and with the next swap here. Makes visible:
        // the value; our node.
        let before = self.tail.swap(from_ref(node).cast_mut(), Ordering::AcqRel);
        if before.is_null() {
            return;
        }
        // SAFETY: its owner waits in unlock until we have set its word to 0 (I1).
        let before = unsafe { &*before };
        // Ordering[hemlock.grant]: Acquire. Pairs with the unlock's store. Makes visible: the value.
        while before.grant.load(Ordering::Acquire) == 0 {
            M::spin_hint();
        }
        // Ordering[hemlock.grant]: Release. Pairs with the loop in unlock. Makes visible: that we have left the node.
        // Not weakened: nothing is read of the node afterwards; it keeps our loads of it before its end.
        before.grant.store(0, Ordering::Release);
    }

    #[inline(always)]
    unsafe fn unlock(&self, node: &Node<M>) {
        let me = from_ref(node).cast_mut();
        // Ordering[hemlock.tail]: Release. Pairs with the swap in lock. Makes visible: the value.
        if self.tail.compare_exchange(me, null_mut(), Ordering::Release, Ordering::Relaxed).is_err() {
            // Ordering[hemlock.grant]: Release. Pairs with the loop in lock. Makes visible: the value.
            node.grant.store(1, Ordering::Release);
            // Ordering[hemlock.grant]: Acquire. Pairs with the successor's store. Makes visible: that it has left the
            // node. Not weakened: nothing is read afterwards; it keeps the end of the node after the successor's last
            // look.
            while node.grant.load(Ordering::Acquire) != 0 {
                M::spin_hint();
            }
        }
    }

    fn touch(node: &Node<M>) {
        node.grant.store(0, Ordering::Relaxed);
    }

    fn is_awaited(&self, node: &Node<M>) -> bool {
        self.tail.load(Ordering::Relaxed) != from_ref(node).cast_mut()
    }
}
