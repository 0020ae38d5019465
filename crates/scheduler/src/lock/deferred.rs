//! What to do in place of waiting: leave the work to who holds the lock, or to the processor that was interrupted.
//!
//! Source: Unrau et al., section 3.2. [`Deferred`] is the design that they call better in hindsight: a work queue with
//! the second TryLock. [`Masked`] is what they built: a flag of each processor at the top of the lock hierarchy, with a
//! queue of what came while it was set (after Stodolsky, Chen and Bershad, 1993). [`Own`] is their first TryLock: it
//! waits, unless the caller has interrupted the holder itself.
//!
//! Roles: *holders*; *leavers*, who never wait; *handlers*, which run on the processor that they interrupt, and end
//! before it goes on.
//!
//! Words: `left`: a list of work, last come first, taken as a whole. `Masked::set`, `Own::used`: 0 or 1, of one
//! processor and its handlers.
//!
//! Invariants: I1. Work is done once, inside the lock, in the order of its coming. I2. Work that was left is not
//! forgotten: events P push, T try (leaver); U unlock, L look (holder). Forbidden: T fails because of a holder whose L
//! misses P. Both sides have a sequentially consistent fence between their two; if L misses P, the holder's fence is
//! first, so T comes after U.
//!
//! Progress: leaving is lock-free (a push and a try). Who unlocks may have to do others' work; each takes all that is
//! there, and looks again. Fairness: work is done in order, so a leaver is not starved by those who wait for the lock,
//! as one that tries again and again is. Memory: each piece of work is a box, made by who leaves it (before an
//! interruption, if it is a handler that must not allocate).
//!
//! Edges: `left.push` push → take (the work).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Deferred, Trying};
//! let sum = Deferred::<u32, Real>::new(1);
//! let mut trying = Trying::new();
//! sum.with(|value| {
//!     assert_eq!(*value, 1);
//!     // A handler interrupts the holder: it does not wait.
//!     assert!(!sum.do_or_leave(&mut trying, |value| *value += 10));
//! });
//! assert_eq!(sum.with(|value| *value), 11);
//! ```

use super::{Algorithm, Lock, TryMcs, Trying};
use crate::discard::discard;
use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

type Work<T> = Box<dyn FnOnce(&mut T) + Send>;

/// A piece of work, in a list.
struct Job<T: ?Sized, M: Machine> {
    next: *mut Job<T, M>,
    work: Work<T>,
    machine: PhantomData<fn() -> M>,
}

/// Work that waits for somebody to do it.
struct Left<T: ?Sized + 'static, M: Machine> {
    last: M::Atomic<*mut Job<T, M>>,
}

impl<T: ?Sized, M: Machine> Left<T, M> {
    fn new() -> Self {
        Self { last: M::Atomic::new(null_mut()) }
    }

    fn push(&self, work: Work<T>) {
        let mut before = self.last.load(Ordering::Relaxed);
        let job = Box::into_raw(Box::new(Job { next: before, work, machine: PhantomData }));
        loop {
            // Ordering[left.push]: Release. Pairs with the swap in `each`. Makes visible: the work.
            match self.last.compare_exchange_weak(before, job, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
            // SAFETY: not published yet, so ours alone.
            unsafe { (*job).next = before };
        }
    }

    fn is_empty(&self) -> bool {
        self.last.load(Ordering::Relaxed).is_null()
    }

    /// Takes all that is there, and shows each piece to `f` in the order of coming.
    fn each(&self, mut f: impl FnMut(Work<T>)) {
        // Ordering[left.push]: Acquire. Pairs with the exchange in `push`. Makes visible: the work.
        let mut last = self.last.swap(null_mut(), Ordering::Acquire);
        let mut jobs = Vec::new();
        while !last.is_null() {
            // SAFETY: a job that was pushed, taken by this swap alone.
            let job = unsafe { Box::from_raw(last) };
            last = job.next;
            jobs.push(job.work);
        }
        let mut rest = Rest(self, jobs);
        while let Some(work) = rest.1.pop() {
            f(work);
        }
    }
}

/// Work that was taken and is not done; it is left again if a piece of it panics.
struct Rest<'a, T: ?Sized + 'static, M: Machine>(&'a Left<T, M>, Vec<Work<T>>);

impl<T: ?Sized, M: Machine> Drop for Rest<'_, T, M> {
    fn drop(&mut self) {
        while let Some(work) = self.1.pop() {
            self.0.push(work);
        }
    }
}

/// Calls its function on the way out, also when a closure panics. Work that panics while another panic is on its way
/// would end the process: the panic hook has told it, it goes no further, and the rest of the work is done.
struct Then<F: Fn()>(F);

impl<F: Fn()> Drop for Then<F> {
    fn drop(&mut self) {
        if !raddle_machine::panicking() {
            return (self.0)();
        }
        while let Err(payload) = catch_unwind(AssertUnwindSafe(&self.0)) {
            discard(payload);
        }
    }
}

impl<T: ?Sized, M: Machine> Drop for Left<T, M> {
    fn drop(&mut self) {
        self.each(drop);
    }
}

/// A value behind a lock, to which work can be left.
pub struct Deferred<T: 'static, M: Machine> {
    lock: Lock<T, TryMcs<M>, M>,
    left: Left<T, M>,
}

// SAFETY: the list is made of atomics, and its jobs are Send; the lock keeps its own promise.
unsafe impl<T: Send, M: Machine> Send for Deferred<T, M> {}
// SAFETY: the lock lets one in at a time, and whoever leaves work pushes a job that is Send.
unsafe impl<T: Send, M: Machine> Sync for Deferred<T, M> {}

impl<T: 'static, M: Machine> Deferred<T, M> {
    /// Free, and nothing to do.
    pub fn new(value: T) -> Self {
        Self { lock: Lock::new(value), left: Left::new() }
    }

    /// The value, by taking it apart; nothing is left by then.
    pub fn into_inner(self) -> T {
        let Self { lock, left } = self;
        debug_assert!(left.is_empty(), "who unlocked last has looked");
        lock.into_inner()
    }

    /// Calls `f` with the value, alone, waiting for it if need be; then does what was left meanwhile.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _then = Then(|| self.look_again());
        self.lock.with(|value| {
            let result = f(value);
            self.left.each(|work| work(value));
            result
        })
    }

    /// Does the work now, if nobody is inside, or leaves it to who is: it is done when that one leaves. True if it is
    /// done.
    pub fn do_or_leave(&self, trying: &mut Trying<M>, work: impl FnOnce(&mut T) + Send + 'static) -> bool {
        self.left.push(Box::new(work));
        // Ordering[left.look]: SeqCst. Pairs with the fence in `look_again` (I2).
        M::fence(Ordering::SeqCst);
        let Some(mut inside) = self.lock.try_lock(trying) else { return false };
        let _then = Then(|| self.look_again());
        self.left.each(|work| work(&mut inside));
        // Before `_then`, which is dropped last.
        drop(inside);
        true
    }

    /// After an unlock: what was left in the last moment.
    fn look_again(&self) {
        loop {
            // Ordering[left.look]: SeqCst. Pairs with the fence in `do_or_leave` (I2).
            M::fence(Ordering::SeqCst);
            if self.left.is_empty() {
                return;
            }
            let mut trying = Trying::new();
            // Who holds it now looks, too.
            let Some(mut inside) = self.lock.try_lock(&mut trying) else { return };
            self.left.each(|work| work(&mut inside));
        }
    }
}

/// A processor's flag: while it is set, handlers on this processor leave their work behind.
///
/// Not `Sync`: the flag is of one kernel thread and of the signal handlers that interrupt it.
pub struct Masked<M: Machine> {
    set: M::Atomic<u32>,
    left: Left<(), M>,
    local: PhantomData<*const ()>,
}

impl<M: Machine> Masked<M> {
    /// Not set, nothing left.
    pub fn new() -> Self {
        Self { set: M::Atomic::new(0), left: Left::new(), local: PhantomData }
    }

    /// Calls `f` with the flag set: no handler of this processor does its work meanwhile, so `f` may take locks that
    /// handlers take. What they left is done before this returns (by the outermost call, if they nest).
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.set.load(Ordering::Relaxed);
        self.set.store(1, Ordering::Relaxed);
        M::light_fence();
        let _then = Then(|| {
            M::light_fence();
            self.set.store(before, Ordering::Relaxed);
            M::light_fence();
            // If the flag is not set any more, a handler from here on does its work itself.
            while before == 0 && !self.left.is_empty() {
                self.left.each(|work| work(&mut ()));
            }
        });
        f()
    }

    /// What a handler does: the work at once, or later if the processor's flag is set. True if it is done.
    pub fn handle(&self, work: impl FnOnce() + Send + 'static) -> bool {
        if self.set.load(Ordering::Relaxed) == 0 {
            work();
            return true;
        }
        self.left.push(Box::new(|()| work()));
        false
    }
}

impl<M: Machine> Default for Masked<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// A processor's node for one lock, that knows whether it is in use.
///
/// Not `Sync`: it is of one kernel thread and of the signal handlers that interrupt it.
pub struct Own<A: Algorithm<M>, M: Machine> {
    used: M::Atomic<u32>,
    node: A::Node,
    local: PhantomData<*const ()>,
}

impl<A: Algorithm<M>, M: Machine> Own<A, M> {
    /// Not in use.
    pub fn new() -> Self {
        Self { used: M::Atomic::new(0), node: A::node(), local: PhantomData }
    }
}

impl<A: Algorithm<M>, M: Machine> Default for Own<A, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized, A: Algorithm<M>, M: Machine> Lock<T, A, M> {
    /// Calls `f` with the value, alone, unless the caller has interrupted its own processor inside the lock or on the
    /// way to it: `None`. It is no true TryLock, since it waits for others; it cannot dead-lock.
    pub fn with_own<R>(&self, own: &Own<A, M>, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if own.used.load(Ordering::Relaxed) != 0 {
            return None;
        }
        struct Used<'a, A: Algorithm<M>, M: Machine>(&'a Own<A, M>);
        impl<A: Algorithm<M>, M: Machine> Drop for Used<'_, A, M> {
            fn drop(&mut self) {
                M::light_fence();
                self.0.used.store(0, Ordering::Relaxed);
            }
        }
        own.used.store(1, Ordering::Relaxed);
        M::light_fence();
        let _used = Used(own);
        // SAFETY: the flag keeps the node from being used again before this returns; `own` is borrowed meanwhile, and
        // not `Sync`.
        Some(unsafe { self.with_node(&own.node, f) })
    }
}
