//! What to do in place of waiting: leave the work to who holds the lock, or to the processor that was interrupted.
//!
//! Source: Unrau et al., section 3.2. [`Deferred`] is the design that they call better in hindsight: a work queue with
//! the second TryLock. [`Masked`] is what they built: a flag of each processor at the top of the lock hierarchy, and a
//! queue of what came while it was set (after Stodolsky, Chen and Bershad, 1993). [`Own`] is their first TryLock: it
//! waits, unless the caller has interrupted the holder itself. Differs from the paper: the try is a compare-exchange
//! of an MCS lock's tail, so one that fails leaves nothing in the queue ([`super::TryMcs`] has the paper's, by swaps).
//!
//! Roles: *holders*; *leavers*, who never wait; *handlers*, which run on the processor that they interrupt, and end
//! before it goes on.
//!
//! Words: `last`: a list of work, last come first, taken as a whole. `admitted`: how many pieces there are, those
//! counted that a holder has done and not given back. `Masked::set`, `Own::used`: 0 or 1, of one processor and its
//! handlers.
//!
//! Invariants: I1. Work is done once, inside the lock, in the order of its coming. I2. Work that was left is not
//! forgotten: events P push, T try (leaver); U unlock, L look (holder). Forbidden: T fails because of a holder whose L
//! misses P. Both sides have a sequentially consistent fence between their two; if L misses P, the holder's fence is
//! first, so T comes after U. I3. Admitted pieces are `most` at most, and one more of a leaver who is inside. A holder
//! gives its pieces' room back when it goes, so it does so many pieces of others at most, however many come meanwhile:
//! who finds no room keeps the work, and knows.
//!
//! Progress: leaving is lock-free (a count, a push and a try). Who unlocks may have to do others' work, `most` pieces.
//! Fairness: work is done in order, so a leaver is not starved by those who wait for the lock, as one that tries again
//! and again is. Memory: each piece of work is a box, made by who leaves it, or room that its owner lends
//! ([`Deferred::leave_job`], for handlers that must not allocate).
//!
//! Edges: `left.push` push → take (the work).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Deferred, Full};
//! let sum = Deferred::<u32, Real>::new(1, 2);
//! sum.with(|value| {
//!     assert_eq!(*value, 1);
//!     // A handler interrupts the holder: it does not wait.
//!     for _ in 0..2 {
//!         assert!(!sum.do_or_leave(|value| *value += 10).unwrap());
//!     }
//!     // There is room for two.
//!     let Err(Full(work)) = sum.do_or_leave(|value| *value += 100) else { panic!() };
//!     work(value);
//! });
//! assert_eq!(sum.with(|value| *value), 121);
//! ```

use super::{Algorithm, H1Mcs, Lock};
use crate::discard::discard;
use raddle_machine::{Atomic, Machine, Ordering};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

/// The head of a piece of work: what follows it is its maker's.
#[repr(C)]
pub struct Job<T> {
    next: *mut Job<T>,
    run: unsafe fn(NonNull<Job<T>>, Option<&mut T>),
}

impl<T> Job<T> {
    /// `run` is called once, with the job itself, which nobody else looks at from then on: with the value, inside the
    /// lock; or without, when the lock is gone.
    pub const fn new(run: unsafe fn(NonNull<Job<T>>, Option<&mut T>)) -> Self {
        Self { next: null_mut(), run }
    }
}

/// A piece of work in a box of its own.
#[repr(C)]
struct Boxed<T, F> {
    job: Job<T>,
    work: F,
}

impl<T, F: FnOnce(&mut T)> Boxed<T, F> {
    fn leak(work: F) -> NonNull<Job<T>> {
        NonNull::from(Box::leak(Box::new(Self { job: Job::new(Self::run), work }))).cast()
    }

    /// # Safety
    /// `job` comes from `leak`, and nobody else has it.
    unsafe fn take(job: NonNull<Job<T>>) -> F {
        // SAFETY: the job is the first of a box's fields (`repr(C)`), which the caller alone has.
        unsafe { Box::from_raw(job.cast::<Self>().as_ptr()) }.work
    }

    /// # Safety
    /// As of `take`.
    unsafe fn run(job: NonNull<Job<T>>, value: Option<&mut T>) {
        // SAFETY: the job comes from `leak`, and was given to this call alone.
        let work = unsafe { Self::take(job) };
        if let Some(value) = value {
            work(value);
        }
    }
}

/// Nobody was there to leave the work to, or no room: it is its maker's again.
pub struct Full<F>(pub F);

impl<F> fmt::Debug for Full<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

/// Work that waits for somebody to do it.
struct Left<T: 'static, M: Machine> {
    last: M::Atomic<*mut Job<T>>,
    admitted: M::Atomic<usize>,
    most: usize,
}

impl<T, M: Machine> Left<T, M> {
    fn new(most: usize) -> Self {
        Self { last: M::Atomic::new(null_mut()), admitted: M::Atomic::new(0), most }
    }

    /// True if there was room for one more, which the caller has now.
    fn admit(&self) -> bool {
        let mut admitted = self.admitted.load(Ordering::Relaxed);
        while admitted < self.most {
            // Relaxed: a count, which shows nothing else.
            match self.admitted.compare_exchange_weak(admitted, admitted + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => admitted = now,
            }
        }
        false
    }

    fn push(&self, job: NonNull<Job<T>>) {
        let mut before = self.last.load(Ordering::Relaxed);
        loop {
            // SAFETY: not published yet, so ours alone.
            unsafe { (*job.as_ptr()).next = before };
            // Ordering[left.push]: Release. Pairs with the swap in `each`. Makes visible: the work.
            match self.last.compare_exchange_weak(before, job.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.last.load(Ordering::Relaxed).is_null()
    }

    /// Takes all that is there, and shows each piece to `f` in the order of coming, to be run.
    fn each(&self, mut f: impl FnMut(NonNull<Job<T>>)) {
        // Ordering[left.push]: Acquire. Pairs with the exchange in `push`. Makes visible: the work.
        let mut last = self.last.swap(null_mut(), Ordering::Acquire);
        let mut rest = Rest { left: self, first: null_mut() };
        while let Some(job) = NonNull::new(last) {
            // SAFETY: a job that was pushed, taken by this swap alone. (No reference to the job itself: the pointer is
            // also good for what lies behind it.)
            let next = unsafe { &mut (*job.as_ptr()).next };
            last = std::mem::replace(next, rest.first);
            rest.first = job.as_ptr();
        }
        while let Some(job) = rest.pop() {
            f(job);
        }
    }
}

/// Work that was taken and is not done, in the order of coming; it is left again if a piece of it panics.
struct Rest<'a, T: 'static, M: Machine> {
    left: &'a Left<T, M>,
    first: *mut Job<T>,
}

impl<T, M: Machine> Rest<'_, T, M> {
    fn pop(&mut self) -> Option<NonNull<Job<T>>> {
        let job = NonNull::new(self.first)?;
        // SAFETY: taken by our maker's swap, and not run.
        self.first = unsafe { job.as_ref() }.next;
        Some(job)
    }
}

impl<T, M: Machine> Drop for Rest<'_, T, M> {
    fn drop(&mut self) {
        while let Some(job) = self.pop() {
            self.left.push(job);
        }
    }
}

/// Calls its function on the way out, also when a closure panics, and again each time when it panics itself: what is
/// behind work that panics is done, too. The first panic goes on; another one beside it would end the process: the
/// panic hook has told it, and it goes no further.
struct Then<F: Fn()>(F);

/// Calls a function until it returns.
struct Until<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for Until<'_, F> {
    fn drop(&mut self) {
        while let Err(payload) = catch_unwind(AssertUnwindSafe(self.0)) {
            discard(payload);
        }
    }
}

impl<F: Fn()> Drop for Then<F> {
    fn drop(&mut self) {
        let until = Until(&self.0);
        if !raddle_machine::panicking() {
            (self.0)();
            std::mem::forget(until);
        }
    }
}

impl<T, M: Machine> Drop for Left<T, M> {
    fn drop(&mut self) {
        // SAFETY: taken out of the list, and run once.
        self.each(|job| unsafe { (job.as_ref().run)(job, None) });
    }
}

/// A value behind a lock, to which work can be left.
pub struct Deferred<T: 'static, M: Machine> {
    lock: Lock<T, H1Mcs<M>, M>,
    left: Left<T, M>,
}

// SAFETY: the list is made of atomics, and its jobs are Send; the lock keeps its own promise.
unsafe impl<T: Send, M: Machine> Send for Deferred<T, M> {}
// SAFETY: the lock lets one in at a time, and whoever leaves work pushes a job that is Send.
unsafe impl<T: Send, M: Machine> Sync for Deferred<T, M> {}

/// What a holder has done of others' work: its room is given back on the way out.
struct Done<'a, T: 'static, M: Machine>(&'a Left<T, M>, Cell<usize>);

impl<T, M: Machine> Done<'_, T, M> {
    /// # Safety
    /// The caller holds the lock of `value`.
    unsafe fn all(&self, value: *mut T) {
        self.0.each(|job| {
            self.1.set(self.1.get() + 1);
            // SAFETY: taken out of the list, so run once; the value is the holder's alone, and this reference to it the
            // only one that lives.
            unsafe { (job.as_ref().run)(job, Some(&mut *value)) };
        });
    }
}

impl<T, M: Machine> Drop for Done<'_, T, M> {
    fn drop(&mut self) {
        // Relaxed: a count, which shows nothing else.
        self.0.admitted.fetch_sub(self.1.get(), Ordering::Relaxed);
    }
}

/// What who takes a [`Deferred`] lends to it: a node of its queue.
pub struct Turn<M: Machine>(<H1Mcs<M> as Algorithm<M>>::Node);

impl<M: Machine> Turn<M> {
    /// In no queue.
    pub fn new() -> Self {
        Self(H1Mcs::node())
    }
}

impl<M: Machine> Default for Turn<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// Leaves the lock, also when a closure panics.
struct Inside<'a, T: 'static, M: Machine>(&'a Deferred<T, M>, &'a Turn<M>);

impl<T, M: Machine> Drop for Inside<'_, T, M> {
    fn drop(&mut self) {
        // SAFETY: made by who has taken the lock with this turn; dropped once.
        unsafe { self.0.leave(self.1) };
    }
}

impl<T: 'static, M: Machine> Deferred<T, M> {
    /// Free, and nothing to do; there is room for `most` pieces of work.
    pub fn new(value: T, most: usize) -> Self {
        Self { lock: Lock::new(value), left: Left::new(most) }
    }

    /// The value, by taking it apart; nothing is left by then.
    pub fn into_inner(self) -> T {
        let Self { lock, left } = self;
        debug_assert!(left.is_empty(), "who unlocked last has looked");
        lock.into_inner()
    }

    /// Calls `f` with the value, alone, waiting for it if need be; then does what was left meanwhile.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let turn = Turn::new();
        // SAFETY: the turn is new, and stays here until `_inside` has left.
        unsafe { self.take(&turn) };
        let _inside = Inside(self, &turn);
        // SAFETY: the lock is ours until `_inside` is dropped, which the reference does not outlive.
        f(unsafe { &mut *self.lock.value.get() })
    }

    /// Waits until the lock is the caller's.
    ///
    /// # Safety
    /// `turn` is in no queue, stays where it is and is lent to nobody else until [`Deferred::leave`] with it returns.
    pub unsafe fn take(&self, turn: &Turn<M>) {
        // SAFETY: the caller's promise, for the node in it.
        unsafe { self.lock.algorithm.lock(&turn.0) };
    }

    /// Does what was left meanwhile, and gives the lock up.
    ///
    /// # Safety
    /// The caller has taken this lock with this turn, and not left it since.
    pub unsafe fn leave(&self, turn: &Turn<M>) {
        struct Unlock<'a, A: Algorithm<M>, M: Machine>(&'a A, &'a A::Node);
        impl<A: Algorithm<M>, M: Machine> Drop for Unlock<'_, A, M> {
            fn drop(&mut self) {
                // SAFETY: the node is the one that the lock was taken with; dropped once.
                unsafe { self.0.unlock(self.1) };
            }
        }
        let done = Done(&self.left, Cell::new(0));
        let _then = Then(|| self.look_again(&done));
        let _unlock = Unlock(&self.lock.algorithm, &turn.0);
        // On the way out of a panic, where another one must not get out, `_then` does it.
        if !raddle_machine::panicking() {
            // SAFETY: the lock is the caller's until `_unlock` is dropped, and no reference to the value lives.
            unsafe { done.all(self.lock.value.get()) };
        }
    }

    /// Does the work now, if nobody is inside, or leaves it to who is: it is done when that one leaves. True if it is
    /// done. It never waits, and may do other work that was left.
    ///
    /// # Errors
    /// If somebody is inside, and as much work has been left as there is room for: the work, not done.
    pub fn do_or_leave<F: FnOnce(&mut T) + Send + 'static>(&self, work: F) -> Result<bool, Full<F>> {
        let job = Boxed::leak(work);
        // SAFETY: a box of its own, which its `run` frees; its work is `Send` and borrows nothing.
        let answer = unsafe { self.leave_job(job) };
        // SAFETY: not admitted, so nobody else has it.
        answer.map_err(|_| Full(unsafe { Boxed::<T, F>::take(job) }))
    }

    /// As [`Deferred::do_or_leave`], without a box: for who must not allocate.
    ///
    /// # Safety
    /// The job stays where it is, and nobody else touches it, until its `run` has been called (or this has returned an
    /// error). `run` may be called on any thread, and may do there what it does.
    ///
    /// # Errors
    /// As of [`Deferred::do_or_leave`]: the job is the caller's again.
    pub unsafe fn leave_job(&self, job: NonNull<Job<T>>) -> Result<bool, Full<NonNull<Job<T>>>> {
        let room = self.left.admit();
        if room {
            self.left.push(job);
            // Ordering[left.look]: SeqCst. Pairs with the fence in `look_again` (I2).
            M::fence(Ordering::SeqCst);
        }
        let turn = Turn::new();
        // SAFETY: the turn is new, and stays here until `_inside` has left.
        if !unsafe { self.lock.algorithm.try_lock(&turn.0) } {
            return if room { Ok(false) } else { Err(Full(job)) };
        }
        let _inside = Inside(self, &turn);
        if !room {
            // Behind those that were left before, which `_inside` does. The lock lets one in, so this is one more.
            self.left.admitted.fetch_add(1, Ordering::Relaxed);
            self.left.push(job);
        }
        Ok(true)
    }

    /// After an unlock: what was left in the last moment.
    fn look_again(&self, done: &Done<'_, T, M>) {
        loop {
            // Ordering[left.look]: SeqCst. Pairs with the fence in `leave_job` (I2).
            M::fence(Ordering::SeqCst);
            if self.left.is_empty() {
                return;
            }
            let turn = Turn::new();
            // Who holds it now looks, too.
            // SAFETY: the turn is new, and stays here until the lock has been left.
            if !unsafe { self.lock.algorithm.try_lock(&turn.0) } {
                return;
            }
            let _inside = super::Inside::<_, M> { algorithm: &self.lock.algorithm, node: &turn.0 };
            // SAFETY: the lock is ours until `_inside` is dropped.
            unsafe { done.all(self.lock.value.get()) };
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
    /// Not set, nothing left; there is room for `most` pieces of work.
    pub fn new(most: usize) -> Self {
        Self { set: M::Atomic::new(0), left: Left::new(most), local: PhantomData }
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
                let done = Done(&self.left, Cell::new(0));
                // SAFETY: there is no lock: handlers that come now do their own work, and nobody has a `&mut ()`.
                unsafe { done.all(&mut ()) };
            }
        });
        f()
    }

    /// What a handler does: the work at once, or later if the processor's flag is set. True if it is done.
    ///
    /// # Errors
    /// If the flag is set, and as much work has been left as there is room for: the work, not done.
    pub fn handle<F: FnOnce() + Send + 'static>(&self, work: F) -> Result<bool, Full<F>> {
        if self.set.load(Ordering::Relaxed) == 0 {
            work();
            return Ok(true);
        }
        if !self.left.admit() {
            return Err(Full(work));
        }
        self.left.push(Boxed::leak(|()| work()));
        Ok(false)
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
