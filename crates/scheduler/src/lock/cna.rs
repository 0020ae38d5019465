//! A compact queue lock that prefers waiters of the holder's own cluster, for a bounded while.
//!
//! Source: D. Dice and A. Kogan, *Compact NUMA-aware Locks*, EuroSys 2019, figures 3 to 5. Differs: instead of a
//! pseudo-random choice, `HAND_OVERS` hand-overs within a cluster are followed by one to the others, so that the bound
//! is stated.
//!
//! Roles: *holder*; *waiters* of the main queue; *waiters aside*: passed over, in the order of their coming.
//!
//! Words: `tail`: null (free) or the last node of the main queue. A node's `next`; `state`: 0 while it waits, 1 when it
//! holds the lock and nobody is aside, else the address of the first node aside; `last`: of that first node, the last
//! one aside. `streak`: hand-overs within the cluster.
//!
//! | transition | actor |
//! |---|---|
//! | tail: null or P → N, P.next = N | as in MCS |
//! | nodes before the first of our cluster: main queue → aside | the holder, at unlock |
//! | tail: N → last aside | the holder, nobody behind it: those aside become the main queue |
//! | last aside.next = first of the main queue | the holder, its patience over or nobody of its cluster left |
//!
//! Invariants: I1. Links, `last` and `streak` are written by the holder alone, but for the first link of a waiter. I2.
//! The last node aside has no successor. I3. As in MCS, a node is read by others only until its owner returns from
//! unlock.
//!
//! Progress: blocking; unlock looks at each waiter of the main queue at most once. Fairness: within a cluster in order;
//! others wait for at most `HAND_OVERS` hand-overs. Memory: nodes are the callers'.
//!
//! Edges: `cna.tail` release → swap; `cna.next` link → holder; `cna.grant` → waiter (the value, and what is aside).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Cna, Lock, Place};
//! let lock = Lock::<u32, Cna<Real>, Real>::new(1);
//! assert_eq!(*lock.lock(Place::in_cluster(3)), 1);
//! // Who has no place of its own is asked.
//! struct Fourth;
//! impl raddle_scheduler::lock::OwnCluster for Fourth {
//!     fn cluster() -> usize {
//!         4
//!     }
//! }
//! assert_eq!(Lock::<u32, Cna<Real, Fourth>, Real>::new(1).with(|value| *value), 1);
//! ```

use super::{Algorithm, Place};
use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;
use std::ptr::{from_ref, null_mut};

const WAITING: usize = 0;
const GRANTED: usize = 1;
/// Hand-overs within a cluster before another one's turn: 88 % of the turns a second that there are without a bound, on
/// 128 simulated cores in clusters of 4, of which each wants the lock again 100 ns after it had it (1 hand-over in 4 to
/// another cluster: 46 %, in 16: 70 %, in 256: 97 %; `raddle sim --machine epyc --cores 128 --workload
/// locks:t=128:lock=9:patience=64`, 2026-11-27). Who waits in another cluster waits for so many turns more, for each
/// cluster that is before it.
const HAND_OVERS: u32 = 64;

/// A node, on cache lines of its own.
#[repr(align(128))]
pub struct Node<M: Machine> {
    next: M::Atomic<*mut Node<M>>,
    state: M::Atomic<usize>,
    last: M::Atomic<*mut Node<M>>,
    cluster: usize,
}

/// Says in which cluster the caller runs just now: what a node's cluster is that nobody has told.
pub trait OwnCluster {
    /// A hint: the caller may be elsewhere a moment later.
    fn cluster() -> usize;
}

/// Who is not told is in cluster 0.
pub struct Untold;

impl OwnCluster for Untold {
    fn cluster() -> usize {
        0
    }
}

/// See the module.
pub struct Cna<M: Machine, C = Untold> {
    tail: M::Atomic<*mut Node<M>>,
    streak: M::Atomic<u32>,
    patience: u32,
    own: PhantomData<fn() -> C>,
}

impl<M: Machine, C: OwnCluster> Place<Cna<M, C>, M> {
    /// A place of a processor of this cluster.
    pub fn in_cluster(cluster: usize) -> Self {
        Self::of(Node::of(cluster))
    }
}

impl<M: Machine> Node<M> {
    fn of(cluster: usize) -> Self {
        let [next, last] = [(); 2].map(|()| M::Atomic::new(null_mut()));
        Self { next, state: M::Atomic::new(GRANTED), last, cluster }
    }
}

/// # Safety
/// `node` is in a queue of the lock that the caller holds, and its owner waits.
unsafe fn at<'a, M: Machine>(node: *mut Node<M>) -> &'a Node<M> {
    // SAFETY: the owner waits until it is granted, which only the caller can do.
    unsafe { &*node }
}

impl<M: Machine, C: OwnCluster> Cna<M, C> {
    /// With another bound of hand-overs within a cluster.
    pub fn with_patience(patience: u32) -> Self {
        // What it reads at first it reads here, and not in a handler that locks.
        let _ = C::cluster();
        Self { tail: M::Atomic::new(null_mut()), streak: M::Atomic::new(0), patience, own: PhantomData }
    }

    fn next(node: &Node<M>) -> *mut Node<M> {
        // Ordering[cna.next]: Acquire. Pairs with the store in lock. Makes visible: the state of who waits there.
        node.next.load(Ordering::Acquire)
    }

    fn grant(next: &Node<M>, aside: usize) {
        // Ordering[cna.grant]: Release. Pairs with the loop in lock. Makes visible: the value, and who is aside.
        next.state.store(if aside > GRANTED { aside } else { GRANTED }, Ordering::Release);
    }

    /// The first waiter from `first` on that is of our cluster; those before it go aside. None if there is none.
    ///
    /// # Safety
    /// The caller holds the lock; `first` is right behind `node`, and `aside` is what its state says.
    unsafe fn of_our_cluster(node: &Node<M>, first: *mut Node<M>, aside: &mut usize) -> Option<*mut Node<M>> {
        // SAFETY: of the queue of the caller's lock.
        if unsafe { at(first) }.cluster == node.cluster {
            return Some(first);
        }
        let mut last = first;
        loop {
            // SAFETY: `last` waits like the first: queued, and granted by nobody but the caller.
            let after = Self::next(unsafe { at(last) });
            if after.is_null() {
                return None;
            }
            // SAFETY: linked behind `last`, so it waits, and is granted by nobody but the caller.
            if unsafe { at(after) }.cluster != node.cluster {
                last = after;
                continue;
            }
            // SAFETY: it waits, as in the loop above; links behind the head are the holder's alone.
            unsafe { at(last) }.next.store(null_mut(), Ordering::Relaxed);
            if *aside > GRANTED {
                // SAFETY: those aside wait, too.
                let head = unsafe { at::<M>(std::ptr::with_exposed_provenance_mut(*aside)) };
                // SAFETY: the last one aside, whom its head names: it waits, too.
                unsafe { at(head.last.load(Ordering::Relaxed)) }.next.store(first, Ordering::Relaxed);
                head.last.store(last, Ordering::Relaxed);
            } else {
                // SAFETY: it waits, and is the first one aside from now on.
                unsafe { at(first) }.last.store(last, Ordering::Relaxed);
                *aside = first.expose_provenance();
            }
            return Some(after);
        }
    }
}

// SAFETY: one node heads the queue, and its owner alone is inside; the orderings are tagged.
unsafe impl<M: Machine, C: OwnCluster> Algorithm<M> for Cna<M, C> {
    type Node = Node<M>;

    fn new() -> Self {
        Self::with_patience(HAND_OVERS)
    }

    fn node() -> Node<M> {
        Node::of(C::cluster())
    }

    #[inline]
    unsafe fn lock(&self, node: &Node<M>) {
        node.next.store(null_mut(), Ordering::Relaxed);
        node.state.store(WAITING, Ordering::Relaxed);
        let me = from_ref(node).cast_mut();
        // Ordering[cna.tail]: AcqRel. Pairs with unlock, and with the next swap here. Makes visible: the value; our
        // node's fields.
        let before = self.tail.swap(me, Ordering::AcqRel);
        if before.is_null() {
            node.state.store(GRANTED, Ordering::Relaxed);
            return;
        }
        // SAFETY: its owner does not return from unlock until it has seen this link (I3).
        let before = unsafe { &*before };
        // Ordering[cna.next]: Release. Pairs with the load in `next`. Makes visible: that the node waits, and where.
        before.next.store(me, Ordering::Release);
        // Ordering[cna.grant]: Acquire. Pairs with the store in `grant`. Makes visible: the value, and who is aside.
        while node.state.load(Ordering::Acquire) == WAITING {
            M::spin_hint();
        }
    }

    #[inline]
    unsafe fn unlock(&self, node: &Node<M>) {
        let me = from_ref(node).cast_mut();
        let mut aside = node.state.load(Ordering::Relaxed);
        let head = std::ptr::with_exposed_provenance_mut::<Node<M>>(aside);
        let mut next = Self::next(node);
        if next.is_null() {
            // SAFETY: who is aside waits.
            let new = if aside > GRANTED { unsafe { at(head) }.last.load(Ordering::Relaxed) } else { null_mut() };
            // Ordering[cna.tail]: Release. Pairs with the swap in lock. Makes visible: the value.
            if self.tail.compare_exchange(me, new, Ordering::Release, Ordering::Relaxed).is_ok() {
                if aside > GRANTED {
                    self.streak.store(0, Ordering::Relaxed);
                    // SAFETY: the first one aside, which waits until it is granted.
                    Self::grant(unsafe { at(head) }, GRANTED);
                }
                return;
            }
            while next.is_null() {
                M::spin_hint();
                next = Self::next(node);
            }
        }
        let streak = self.streak.load(Ordering::Relaxed);
        if streak < self.patience
            // SAFETY: we hold the lock, and `next` is right behind us.
            && let Some(heir) = unsafe { Self::of_our_cluster(node, next, &mut aside) }
        {
            self.streak.store(if aside > GRANTED { streak + 1 } else { 0 }, Ordering::Relaxed);
            // SAFETY: it waits.
            return Self::grant(unsafe { at(heir) }, aside);
        }
        self.streak.store(0, Ordering::Relaxed);
        if aside > GRANTED {
            // SAFETY: those aside wait; the last of them has no successor (I2).
            unsafe { at(at(head).last.load(Ordering::Relaxed)) }.next.store(next, Ordering::Relaxed);
            next = head;
        }
        // SAFETY: it waits.
        Self::grant(unsafe { at(next) }, GRANTED);
    }

    fn touch(node: &Node<M>) {
        node.next.store(null_mut(), Ordering::Relaxed);
        node.last.store(null_mut(), Ordering::Relaxed);
        node.state.store(GRANTED, Ordering::Relaxed);
    }

    fn is_awaited(&self, node: &Node<M>) -> bool {
        self.tail.load(Ordering::Relaxed) != from_ref(node).cast_mut()
    }
}
