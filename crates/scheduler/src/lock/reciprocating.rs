//! Reciprocating locks: arrivals pile up on a stack, which the holder takes as a whole and which is then served from
//! the top.
//!
//! Source: D. Dice and A. Kogan, *Reciprocating Locks*, PPoPP 2025, listing 1.
//!
//! Roles: *holder*; *waiters* of the segment that is being served; *arrivals*, who wait for theirs to be.
//!
//! Words: `arrivals`: null (free), `EMPTY` (held, nobody has come since the last segment was taken), or the node that
//! came last, each of whose successors is the one that came before it, known to it alone. A node's `gate`: 0, or the
//! end of its segment, which tells it to enter.
//!
//! | transition | actor |
//! |---|---|
//! | arrivals: null → N | who locks without a contender; its segment ends with itself |
//! | arrivals: A → N | a waiter; its successor is A |
//! | arrivals: end of segment → null | the last of a segment, nobody came |
//! | arrivals: A → EMPTY, A.gate = end | the last of a segment: those who came are the next one |
//! | successor.gate = end | the holder, while its segment goes on |
//!
//! Invariants: I1. The end of a segment is an address to compare, never followed. I2. A gate is opened once per
//! acquisition, by the one holder whose successor it is.
//!
//! Progress: blocking; lock is a swap and unlock at most two exchanges, without a loop. Fairness: a segment is served
//! last come first, but who comes during it is in a later one: so each is overtaken at most twice by any other. Memory:
//! nodes are the callers'; nobody reads a node whose gate is open.
//!
//! Edges: `recip.arrivals` unlock → next swap; `recip.gate` → waiter (the value).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Lock, Reciprocating};
//! assert_eq!(Lock::<u32, Reciprocating<Real>, Real>::new(1).with(|value| *value), 1);
//! ```

use super::Algorithm;
use raddle_machine::{Atomic, Machine, Ordering};
use std::cell::Cell;
use std::ptr::from_ref;

const FREE: usize = 0;
const EMPTY: usize = 1;

/// A node, on cache lines of its own.
#[repr(align(128))]
pub struct Node<M: Machine> {
    gate: M::Atomic<usize>,
    /// From lock to unlock, of the holder alone.
    successor: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: the cells are used by the node's owner alone, between its lock and its unlock.
unsafe impl<M: Machine> Sync for Node<M> {}

/// See the module.
pub struct Reciprocating<M: Machine> {
    arrivals: M::Atomic<usize>,
}

/// # Safety
/// `address` is that of a node whose owner waits for its gate.
unsafe fn open<M: Machine>(address: usize, end: usize) {
    // SAFETY: its address was exposed in `lock`; its owner waits.
    let node = unsafe { &*std::ptr::with_exposed_provenance::<Node<M>>(address) };
    // Ordering[recip.gate]: Release. Pairs with the loop in lock. Makes visible: the value.
    node.gate.store(end, Ordering::Release);
}

// SAFETY: who finds `arrivals` null, or whose gate was opened, is alone until it frees the lock or opens a gate (I2).
unsafe impl<M: Machine> Algorithm<M> for Reciprocating<M> {
    type Node = Node<M>;

    fn new() -> Self {
        Self { arrivals: M::Atomic::new(FREE) }
    }

    fn node() -> Node<M> {
        Node { gate: M::Atomic::new(0), successor: Cell::new(0), end: Cell::new(0) }
    }

    #[inline(always)]
    unsafe fn lock(&self, node: &Node<M>) {
        node.gate.store(0, Ordering::Relaxed);
        let me = from_ref(node).expose_provenance();
        let (mut successor, mut end) = (0, me);
        // Ordering[recip.arrivals]: AcqRel. Pairs with unlock's exchanges. Makes visible: the value; our closed gate.
        let before = self.arrivals.swap(me, Ordering::AcqRel);
        if before != FREE {
            successor = before & !EMPTY;
            loop {
                // Ordering[recip.gate]: Acquire. Pairs with the store in `open`. Makes visible: the value.
                end = node.gate.load(Ordering::Acquire);
                if end != 0 {
                    break;
                }
                M::spin_hint();
            }
            if successor == end {
                // The end of the segment has been served first of all.
                (successor, end) = (0, EMPTY);
            }
        }
        node.successor.set(successor);
        node.end.set(end);
    }

    #[inline(always)]
    unsafe fn unlock(&self, node: &Node<M>) {
        let (successor, end) = (node.successor.get(), node.end.get());
        if successor != 0 {
            // SAFETY: it waits for its gate, which is ours to open (I2).
            return unsafe { open::<M>(successor, end) };
        }
        // Ordering[recip.arrivals]: Release. Pairs with the swap in lock. Makes visible: the value.
        if self.arrivals.compare_exchange(end, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
        // Ordering[recip.arrivals]: Acquire. Pairs with the swap in lock. Makes visible: the closed gate of who came
        // last.
        let last = self.arrivals.swap(EMPTY, Ordering::Acquire);
        // SAFETY: it came since our segment was taken, and heads the next one.
        unsafe { open::<M>(last, end) };
    }

    fn touch(node: &Node<M>) {
        node.gate.store(0, Ordering::Relaxed);
    }

    fn is_awaited(&self, node: &Node<M>) -> bool {
        node.successor.get() != 0 || ![EMPTY, from_ref(node).addr()].contains(&self.arrivals.load(Ordering::Relaxed))
    }
}
