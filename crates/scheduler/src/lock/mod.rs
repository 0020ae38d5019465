//! Locks that scale: for processors that meet on one structure, and for threads that are to be served in the order of
//! their coming.
//!
//! Sources: R. Unrau, O. Krieger, B. Gamsa and M. Stumm, *Experiences with Locking in a NUMA Multiprocessor Operating
//! System Kernel*, sections 3 and 4; J. Mellor-Crummey and M. Scott, *Algorithms for Scalable Synchronization on
//! Shared-Memory Multiprocessors*, 1991. Each other algorithm names its own.
//!
//! An [`Algorithm`] knows how to lock and unlock; a [`Lock`] puts a value behind one. Who waits in a queue needs a node
//! there: [`Lock::with`] has it on the caller's stack, a [`Place`] keeps one ready, as the paper's processors do, so
//! that nothing has to be initialised on the way. A guard owns its place: a guard that is forgotten leaks the node and
//! leaves the lock held, and nobody reads freed memory.
//!
//! | algorithm | waits on | order | starvation |
//! |---|---|---|---|
//! | [`Spin`] | the lock's word, with growing pauses | none | possible: who pauses long is overtaken by all who come meanwhile |
//! | [`SpinThenQueue`] | the word some times, then its own node | none: newcomers overtake | possible, of the head |
//! | [`Mcs`], [`H1Mcs`], [`H2Mcs`] | the waiter's own node | first come, first served | none |
//! | [`SwapMcs`], [`SwapH1Mcs`], [`SwapH2Mcs`] | the waiter's own node | as above but for those who come during a repair | not excluded: a repair can be overtaken again and again |
//! | [`Hemlock`] | the predecessor's node | first come, first served | none |
//! | [`Reciprocating`] | the waiter's own node | within a segment the last first, segments in order | none: each is overtaken at most once by each other in a segment |
//! | [`Cna`] | the waiter's own node | own cluster first, for a bounded while | none: after `HAND_OVERS` the other clusters come |
//! | [`TryMcs`] | the waiter's own node | first come, first served among those who wait | of those who only try: a lock in constant demand is never seen free |
//! | [`Parked`] | the waiter's own node, then asleep | first come, first served | none |
//!
//! Progress: **blocking**, all of them: who holds a lock keeps the others out, and in the queues also a waiter that is
//! frozen between entering the queue and linking itself. Nothing that spawn, switch and wake of the runtime touch lies
//! under one of these. All but the last spin, so they are for kernel threads or simulated cores that own their core; a
//! lightweight thread that spins on a holder which is not running wastes its processor. Threads use [`Parked`] (in
//! order) or [`crate::sync::Mutex`] (barging, faster).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{H2Mcs, Lock, Place};
//! let lock = Lock::<u64, H2Mcs<Real>, Real>::new(1);
//! lock.with(|value| *value += 1);
//! let guard = lock.lock(Place::new());
//! assert_eq!(*guard, 2);
//! let place = guard.unlock();
//! assert_eq!(*lock.lock(place), 2);
//! ```

mod barging;
mod clusters;
mod cna;
mod deferred;
mod hemlock;
mod mcs;
mod parked;
mod reciprocating;
mod reserve;
mod spin;
mod spin_then_queue;
mod try_mcs;

pub use barging::Barging;
pub use clusters::{Change, ClusterStats, Clustered, Clusters, Here, Hold, InUse, Protocol, Replica, Seat, Ways};
pub use cna::{Cna, OwnCluster};
pub use deferred::{Deferred, Full, Job, Masked, Own, Turn};
pub use hemlock::Hemlock;
pub use mcs::{H1Mcs, H2Mcs, Mcs, Queue, SwapH1Mcs, SwapH2Mcs, SwapMcs};
pub use parked::Parked;
pub use reciprocating::Reciprocating;
pub use reserve::{Busy, Order, Parking, Reservation, ReserveMap, Reserved, Shared, Spinning, Waits, optimistic};
pub use spin::Spin;
pub use spin_then_queue::SpinThenQueue;
pub use try_mcs::{TryGuard, TryMcs, Trying};

use raddle_machine::Machine;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// How to lock and unlock.
///
/// # Safety
/// Between the return of [`Algorithm::lock`] and the call of [`Algorithm::unlock`] on the same lock nobody else is
/// there, and what was done before the latter is visible after the next former.
pub unsafe trait Algorithm<M: Machine>: Send + Sync {
    /// What a waiter needs for itself.
    type Node: Send + Sync;

    /// A free lock.
    fn new() -> Self;

    /// A node that is in no queue.
    fn node() -> Self::Node;

    /// Waits until the lock is the caller's.
    ///
    /// # Safety
    /// `node` is in no queue, stays where it is and is given to nobody else until `unlock` with it has returned.
    unsafe fn lock(&self, node: &Self::Node);

    /// Gives the lock up.
    ///
    /// # Safety
    /// The caller has locked with this node, on this lock, and not unlocked since.
    unsafe fn unlock(&self, node: &Self::Node);

    /// Touches a new node, on machines where memory has its home with who touches it first.
    fn touch(node: &Self::Node) {
        let _ = node;
    }

    /// True if the lock, which the owner of `node` holds, is known to be waited for (it may be although this says no).
    fn is_awaited(&self, node: &Self::Node) -> bool;
}

/// A value behind a lock.
pub struct Lock<T: ?Sized, A, M> {
    algorithm: A,
    machine: PhantomData<fn() -> M>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder alone, who may be anyone: T: Send.
unsafe impl<T: ?Sized + Send, A: Algorithm<M>, M: Machine> Sync for Lock<T, A, M> {}
// SAFETY: who has the lock has the value, and may take it elsewhere: T: Send.
unsafe impl<T: ?Sized + Send, A: Algorithm<M>, M: Machine> Send for Lock<T, A, M> {}

/// Unlocks on the way out, also when a closure panics.
struct Inside<'a, A: Algorithm<M>, M: Machine> {
    algorithm: &'a A,
    node: &'a A::Node,
}

impl<A: Algorithm<M>, M: Machine> Drop for Inside<'_, A, M> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: made after `lock` with this node; dropped once.
        unsafe { self.algorithm.unlock(self.node) };
    }
}

impl<T, A: Algorithm<M>, M: Machine> Lock<T, A, M> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        Self::with_algorithm(A::new(), value)
    }

    /// With an algorithm that has been given its parameters.
    pub const fn with_algorithm(algorithm: A, value: T) -> Self {
        Self { algorithm, machine: PhantomData, value: UnsafeCell::new(value) }
    }

    /// The value, by taking the lock apart.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, A: Algorithm<M>, M: Machine> Lock<T, A, M> {
    /// Calls `f` with the value, alone; the node is on the stack. A panic in `f` unlocks.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let node = A::node();
        // SAFETY: the node is new, and stays here until this call has unlocked.
        unsafe { self.with_node(&node, f) }
    }

    /// As [`Lock::with`], with a node that is ready.
    #[inline]
    pub fn with_place<R>(&self, place: &mut Place<A, M>, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the place is borrowed alone for this call, and its node is in no queue between calls.
        unsafe { self.with_node(place.node(), f) }
    }

    /// # Safety
    /// As for [`Algorithm::lock`], until this returns or unwinds.
    #[inline(always)]
    unsafe fn with_node<R>(&self, node: &A::Node, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller promises for the node what `lock` asks, until this returns; `_inside` unlocks by then.
        unsafe { self.algorithm.lock(node) };
        let _inside = Inside::<A, M> { algorithm: &self.algorithm, node };
        // SAFETY: the lock is ours until `_inside` is dropped, which the reference does not outlive.
        f(unsafe { &mut *self.value.get() })
    }

    /// Waits until the lock is the caller's. [`Guard::unlock`] returns the place.
    #[inline]
    pub fn lock(&self, place: Place<A, M>) -> Guard<'_, T, A, M> {
        // SAFETY: the guard owns the place from here on, whose node does not move with it, and is leaked with a guard
        // that is forgotten.
        unsafe { self.algorithm.lock(place.node()) };
        Guard { lock: self, place: ManuallyDrop::new(place), not_send: PhantomData }
    }

    /// The value, without locking: the borrow shows that nobody else is there.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The algorithm, for what only it knows.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }
}

/// A node, ready to be used with any lock of its algorithm: what the paper's processors have for each lock.
pub struct Place<A: Algorithm<M>, M: Machine> {
    /// From a box, of which the place takes care. No box: to move one says that nobody else looks into it, and who
    /// comes after a holder writes to its node.
    node: NonNull<A::Node>,
    _owns: PhantomData<Box<A::Node>>,
}

// SAFETY: a place is the only way to its node, but for a queue, whose words are atomic; it goes where the node may.
unsafe impl<A: Algorithm<M, Node: Send>, M: Machine> Send for Place<A, M> {}
// SAFETY: a shared place gives nothing but a shared node.
unsafe impl<A: Algorithm<M, Node: Sync>, M: Machine> Sync for Place<A, M> {}

impl<A: Algorithm<M>, M: Machine> Place<A, M> {
    /// A node of one's own.
    pub fn new() -> Self {
        Self::of(A::node())
    }

    fn of(node: A::Node) -> Self {
        let node = Box::new(node);
        A::touch(&node);
        Self { node: NonNull::from(Box::leak(node)), _owns: PhantomData }
    }

    fn node(&self) -> &A::Node {
        // SAFETY: a box's, which lives as long as the place; nobody has it exclusively until it is dropped.
        unsafe { self.node.as_ref() }
    }
}

impl<A: Algorithm<M>, M: Machine> Drop for Place<A, M> {
    fn drop(&mut self) {
        // SAFETY: from a box, and in no queue: a guard that is in one keeps its place.
        drop(unsafe { Box::from_raw(self.node.as_ptr()) });
    }
}

impl<A: Algorithm<M>, M: Machine> Default for Place<A, M> {
    fn default() -> Self {
        Self::new()
    }
}

/// The right to a lock's value; dropping it unlocks.
#[must_use = "dropping the guard unlocks at once"]
pub struct Guard<'a, T: ?Sized, A: Algorithm<M>, M: Machine> {
    lock: &'a Lock<T, A, M>,
    place: ManuallyDrop<Place<A, M>>,
    /// An algorithm may know its holder.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync, A: Algorithm<M>, M: Machine> Sync for Guard<'_, T, A, M> {}

impl<T: ?Sized, A: Algorithm<M>, M: Machine> Guard<'_, T, A, M> {
    /// True if somebody is known to wait for the lock: a long piece of work may give it up for a moment.
    pub fn is_awaited(&self) -> bool {
        self.lock.algorithm.is_awaited(self.place.node())
    }

    /// Unlocks; the place can be used again.
    #[inline]
    pub fn unlock(self) -> Place<A, M> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: a guard has locked with its node; this one is forgotten.
        unsafe { this.lock.algorithm.unlock(this.place.node()) };
        // SAFETY: taken once, since the guard is forgotten.
        unsafe { ManuallyDrop::take(&mut this.place) }
    }
}

impl<T: ?Sized, A: Algorithm<M>, M: Machine> Drop for Guard<'_, T, A, M> {
    fn drop(&mut self) {
        // SAFETY: a guard has locked with its node, and is dropped once.
        unsafe { self.lock.algorithm.unlock(self.place.node()) };
        // SAFETY: out of every queue since the line before; dropped once.
        unsafe { ManuallyDrop::drop(&mut self.place) };
    }
}

impl<T: ?Sized, A: Algorithm<M>, M: Machine> Deref for Guard<'_, T, A, M> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, so nobody else has a `&mut T`.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, A: Algorithm<M>, M: Machine> DerefMut for Guard<'_, T, A, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock; `&mut self` makes this the only way to the value.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug, A: Algorithm<M>, M: Machine> fmt::Debug for Guard<'_, T, A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
