//! A queue lock that can be tried: who finds it held leaves its node behind in the queue, and an unlock collects it.
//!
//! Source: Unrau et al., section 3.2, the second variant ("a true TryLock"); similar: T. Craig, 1993. The first
//! variant, which waits unless the caller has interrupted the holder, is [`super::Masked`]'s neighbour
//! `Lock::with_own`.
//!
//! Roles: *holder*; *waiters*; *triers*, who never wait; the *collector* is the holder that unlocks.
//!
//! Words: `tail` and `next` as in MCS. A node's `state`:
//!
//! | state | set by | from | meaning |
//! |---|---|---|---|
//! | `FREE` | collector, granter | any | in no queue, or the head of it |
//! | `WAITING` | waiter | `FREE` | in the queue; its owner waits |
//! | `ABANDONED` | trier, before it enters | `FREE` | in the queue, if the trier does not head it; nobody waits |
//! | `ORPHAN` | a trier that is dropped | `ABANDONED` | as above; the collector frees the node |
//! | `HELD` | a trier whose try was lucky | `ABANDONED` | heads the queue; `FREE` again after its unlock |
//!
//! Invariants: I1. A trier's node is its own while `FREE`. I2. A collector reads a node's `next`, and takes it out of
//! the queue, before it sets `FREE`. I3. Memory of triers is allocated, so a trier may end while its node is queued.
//!
//! Progress: a try is wait-free (a load, a swap, a store). Lock and unlock block as MCS does; an unlock passes over the
//! nodes of all tries that have failed, and of those that fail meanwhile. Fairness: waiters first come, first served;
//! triers not at all: a lock that somebody always waits for is never seen free, which the paper observed and
//! [`super::Deferred`] mends.
//!
//! Edges: `try.tail` release → swap; `try.next` link → holder; `try.grant` → waiter (the value); `try.free` collector →
//! trier (the node).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Lock, TryMcs, Trying};
//! let lock = Lock::<u32, TryMcs<Real>, Real>::new(1);
//! let (mut a, mut b) = (Trying::new(), Trying::new());
//! let held = lock.try_lock(&mut a).unwrap();
//! assert!(lock.try_lock(&mut b).is_none());
//! drop(held);
//! assert!(lock.try_lock(&mut b).is_some());
//! ```

use super::{Algorithm, Lock};
use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, from_ref, null_mut};

const FREE: u32 = 0;
const WAITING: u32 = 1;
const ABANDONED: u32 = 2;
const ORPHAN: u32 = 3;
/// So that the node of a guard that is forgotten is never freed.
const HELD: u32 = 4;

/// A node, on cache lines of its own.
#[repr(align(128))]
pub struct Node<M: Machine> {
    next: M::Atomic<*mut Node<M>>,
    state: M::Atomic<u32>,
}

/// See the module.
pub struct TryMcs<M: Machine> {
    tail: M::Atomic<*mut Node<M>>,
}

impl<M: Machine> TryMcs<M> {
    fn successor(node: &Node<M>) -> *mut Node<M> {
        loop {
            // Ordering[try.next]: Acquire. Pairs with the stores of `next`. Makes visible: the successor's state.
            let next = node.next.load(Ordering::Acquire);
            if !next.is_null() {
                node.next.store(null_mut(), Ordering::Relaxed);
                return next;
            }
            M::spin_hint();
        }
    }

    /// # Safety
    /// `before` was the tail when `node` became it.
    unsafe fn link(node: *mut Node<M>, before: *mut Node<M>) {
        // SAFETY: who owns or collects `before` waits for this link (I2).
        let before = unsafe { &*before };
        // Ordering[try.next]: Release. Pairs with the load in `successor`. Makes visible: the node's state.
        before.next.store(node, Ordering::Release);
    }

    /// Takes the lock if it is free, and leaves the node in the queue if it is not. True if it was free.
    ///
    /// # Safety
    /// The node is a trier's (allocated, and freed only as I3 says), and tries nowhere else.
    unsafe fn try_once(&self, whole: NonNull<Node<M>>) -> bool {
        // SAFETY: the trier's, which is not freed meanwhile. The queue gets the pointer of the box, not one of this
        // reference: who collects the node may free it.
        let node = unsafe { whole.as_ref() };
        // Ordering[try.free]: Acquire. Pairs with the collector's swap. Makes visible: that it has left the node.
        if node.state.load(Ordering::Acquire) != FREE {
            // It is still queued behind somebody who holds the lock, or heads a queue itself.
            return false;
        }
        node.state.store(ABANDONED, Ordering::Relaxed);
        // Ordering[try.tail]: AcqRel. Pairs with unlock, and with the next swap. Makes visible: the value; our node's
        // fields.
        let before = self.tail.swap(whole.as_ptr(), Ordering::AcqRel);
        if before.is_null() {
            node.state.store(HELD, Ordering::Relaxed);
            return true;
        }
        // SAFETY: it was the tail until just now.
        unsafe { Self::link(whole.as_ptr(), before) };
        false
    }

    /// A node that was passed over is its trier's again, or nobody's.
    ///
    /// # Safety
    /// It is abandoned, and out of the queue.
    unsafe fn collect(node: NonNull<Node<M>>) {
        // SAFETY: a trier's node stays until it is `FREE`, or ours to free.
        let state = &unsafe { node.as_ref() }.state;
        // Ordering[try.free]: AcqRel. Pairs with the trier's load and its `drop`. Makes visible: that we have left the
        // node.
        if state.swap(FREE, Ordering::AcqRel) == ORPHAN {
            // SAFETY: its trier has left it to who collects it (I3); it came from a box.
            drop(unsafe { Box::from_raw(node.as_ptr()) });
        }
    }
}

// SAFETY: one node heads the queue, and its owner alone is inside; the orderings are tagged.
unsafe impl<M: Machine> Algorithm<M> for TryMcs<M> {
    type Node = Node<M>;

    fn new() -> Self {
        Self { tail: M::Atomic::new(null_mut()) }
    }

    fn node() -> Node<M> {
        Node { next: M::Atomic::new(null_mut()), state: M::Atomic::new(FREE) }
    }

    #[inline]
    unsafe fn lock(&self, node: &Node<M>) {
        node.state.store(WAITING, Ordering::Relaxed);
        // Ordering[try.tail]: AcqRel. Pairs with unlock, and with the next swap. Makes visible: the value; our node's
        // fields.
        let before = self.tail.swap(from_ref(node).cast_mut(), Ordering::AcqRel);
        if before.is_null() {
            node.state.store(FREE, Ordering::Relaxed);
            return;
        }
        // SAFETY: it was the tail until just now.
        unsafe { Self::link(from_ref(node).cast_mut(), before) };
        // Ordering[try.grant]: Acquire. Pairs with the exchange in unlock. Makes visible: the value.
        while node.state.load(Ordering::Acquire) == WAITING {
            M::spin_hint();
        }
    }

    #[inline]
    unsafe fn unlock(&self, node: &Node<M>) {
        let mut head = NonNull::from(node);
        loop {
            // SAFETY: the caller's own, or one that was abandoned and is not collected yet.
            let current = unsafe { head.as_ref() };
            let mine = std::ptr::eq(current, node);
            let alone = current.next.load(Ordering::Relaxed).is_null()
                // Ordering[try.tail]: Release. Pairs with the swaps. Makes visible: the value.
                && self.tail.compare_exchange(head.as_ptr(), null_mut(), Ordering::Release, Ordering::Relaxed).is_ok();
            let next = (!alone).then(|| Self::successor(current));
            if !mine {
                // SAFETY: abandoned, and out of the queue just now.
                unsafe { Self::collect(head) };
            }
            let Some(next) = next.and_then(NonNull::new) else { return };
            // SAFETY: linked, so it stays until it is granted or collected.
            let state = &unsafe { next.as_ref() }.state;
            // Ordering[try.grant]: Release. Pairs with the loop in lock. Makes visible: the value.
            if state.compare_exchange(WAITING, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
            head = next;
        }
    }

    fn touch(node: &Node<M>) {
        node.next.store(null_mut(), Ordering::Relaxed);
        node.state.store(FREE, Ordering::Relaxed);
    }

    /// Also by a trier, who has gone.
    fn is_awaited(&self, node: &Node<M>) -> bool {
        self.tail.load(Ordering::Relaxed) != from_ref(node).cast_mut()
    }
}

/// What one needs to try a lock of [`TryMcs`]. After a try that failed it belongs to that lock's queue until an unlock
/// has collected it: until then each try fails, on every lock.
pub struct Trying<M: Machine> {
    node: NonNull<Node<M>>,
}

// SAFETY: the node is made of atomics.
unsafe impl<M: Machine> Send for Trying<M> {}

impl<M: Machine> Trying<M> {
    /// A node of one's own.
    pub fn new() -> Self {
        Self { node: NonNull::from(Box::leak(Box::new(TryMcs::node()))) }
    }

    fn node(&self) -> &Node<M> {
        // SAFETY: ours until `drop`.
        unsafe { self.node.as_ref() }
    }

    /// True when no queue has the node.
    pub fn is_collected(&self) -> bool {
        self.node().state.load(Ordering::Relaxed) == FREE
    }
}

impl<M: Machine> Default for Trying<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> Drop for Trying<M> {
    fn drop(&mut self) {
        let state = &self.node().state;
        if state.load(Ordering::Relaxed) == HELD {
            return;
        }
        // Ordering[try.free]: AcqRel. Pairs with the collector's swap. Makes visible: that either side has left the
        // node. Not weakened: what it orders is the end of the box, which loom does not watch.
        if state.compare_exchange(ABANDONED, ORPHAN, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: in no queue, so ours alone; it came from a box.
            drop(unsafe { Box::from_raw(self.node.as_ptr()) });
        }
    }
}

impl<M: Machine> TryMcs<M> {
    /// Takes the lock if it is free; never waits. True if it is the caller's.
    ///
    /// # Safety
    /// Nobody else tries with `trying` meanwhile; if it says true, nobody does until [`TryMcs::leave`] with it.
    pub unsafe fn enter(&self, trying: &Trying<M>) -> bool {
        // SAFETY: a trier's node, which is tried nowhere else, as the caller promises.
        unsafe { self.try_once(trying.node) }
    }

    /// Gives the lock up.
    ///
    /// # Safety
    /// The caller has entered this lock with `trying`, and not left it since.
    pub unsafe fn leave(&self, trying: &Trying<M>) {
        // SAFETY: `enter` has locked with this node.
        unsafe { self.leave_with(trying.node()) };
    }

    /// # Safety
    /// `try_once` has locked with this node, which has not been unlocked since.
    unsafe fn leave_with(&self, node: &Node<M>) {
        // SAFETY: `try_once` has locked this lock with the node, and nobody has unlocked it since.
        unsafe { self.unlock(node) };
        node.state.store(FREE, Ordering::Relaxed);
    }
}

impl<T: ?Sized, M: Machine> Lock<T, TryMcs<M>, M> {
    /// Takes the lock if it is free; never waits.
    pub fn try_lock<'a>(&'a self, trying: &'a mut Trying<M>) -> Option<TryGuard<'a, T, M>> {
        // SAFETY: the borrow keeps it from being tried elsewhere while the guard lives.
        let had = unsafe { self.algorithm.enter(trying) };
        had.then(|| TryGuard { lock: self, node: trying.node, borrow: PhantomData })
    }
}

/// The right to the value of a lock that was tried; dropping it unlocks. One that is forgotten leaves the lock held.
#[must_use = "dropping the guard unlocks at once"]
pub struct TryGuard<'a, T: ?Sized, M: Machine> {
    lock: &'a Lock<T, TryMcs<M>, M>,
    node: NonNull<Node<M>>,
    borrow: PhantomData<(&'a mut Trying<M>, *const ())>,
}

impl<T: ?Sized, M: Machine> Drop for TryGuard<'_, T, M> {
    fn drop(&mut self) {
        // SAFETY: locked with this node by `try_once`; the trier is borrowed.
        let node = unsafe { self.node.as_ref() };
        // SAFETY: `try_once` locked with this node, on this lock, and the guard is dropped once.
        unsafe { self.lock.algorithm.leave_with(node) };
    }
}

impl<T: ?Sized, M: Machine> Deref for TryGuard<'_, T, M> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, M: Machine> DerefMut for TryGuard<'_, T, M> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `&mut self` is the only way to the value.
        unsafe { &mut *self.lock.value.get() }
    }
}
