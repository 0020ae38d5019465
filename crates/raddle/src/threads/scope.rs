//! Scoped threads: they may borrow from their spawner, and are joined before the scope ends. For work that need not be
//! a thread, see [`crate::threads::tasks`].
//!
//! How its owner waits for them is [`raddle_scheduler::countdown`]'s business.

use crate::carry::pool::Shared;
use crate::threads::members::{Member, Members};
use crate::threads::tasks::Tasks;
use crate::threads::thread::{Builder, Hook, JoinHandle, Result, SpawnError};
use raddle_machine::Real;
use raddle_scheduler::code_of_program;
use raddle_scheduler::countdown::{Countdown, LIMIT};
use raddle_scheduler::{Runtime, Thread};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// How many regions are open in which cancellation must not end the thread's waits.
    static MASKED: Cell<u32> = const { Cell::new(0) };
}

/// True while the calling thread's waits ignore cancellation.
pub(crate) fn cancel_masked() -> bool {
    MASKED.get() != 0
}

/// Runs `f` with cancellation masked: what scope ends and destructors do.
pub(crate) fn masked<T>(f: impl FnOnce() -> T) -> T {
    MASKED.set(MASKED.get() + 1);
    let result = f();
    MASKED.set(MASKED.get() - 1);
    result
}

/// Opens (true) or closes a region in which the calling thread's waits ignore cancellation.
pub(crate) fn mask_cancellation(open: bool) {
    MASKED.set(if open { MASKED.get() + 1 } else { MASKED.get().saturating_sub(1) });
}

pub(crate) struct Data {
    count: Countdown<crate::Host>,
    owner: &'static Thread<Real>,
    panicked: AtomicBool,
    members: Members,
}

/// Where scoped threads are spawned: see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    data: Data,
    tasks: Tasks,
    // Invariant in both, as in std: threads may read and write what they borrow.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs on a scoped thread once its result is stored.
pub(crate) struct ScopeHook(*const Data, &'static Thread<Real>);

// SAFETY: the data outlives the hook (the scope's end waits for its count), and is made of atomics.
unsafe impl Send for ScopeHook {}

impl Hook for ScopeHook {
    #[inline]
    fn begun(&self, member: &Member) {
        // SAFETY: the scope waits until the count that this hook holds is given back, after `leave`; the caller keeps
        // `member` until then.
        unsafe { (*self.0).enter(member) };
    }

    #[inline]
    fn finished(self, unjoined_panic: bool) {
        Members::leave();
        // SAFETY: the scope waits until the count that this hook holds is given back, below.
        let data = unsafe { &*self.0 };
        if unjoined_panic {
            data.panicked.store(true, Ordering::Relaxed);
        }
        // Point of no return: after it the scope may be gone.
        // SAFETY: the owner's record, which comes with the hook; once for the count that the hook holds.
        unsafe { data.count.finish(self.1) };
    }
}

/// Runs `f`, in which threads may be spawned that borrow from outside; returns when all of them have ended.
///
/// # Panics
/// With `f`'s panic, or when a thread panicked that nobody joined.
///
/// # Example
/// ```
/// let pool = raddle::Builder::new().processors(2).build().unwrap();
/// pool.run(|| {
///     let mut numbers = [1, 2, 3];
///     raddle::scope(|s| {
///         for n in &mut numbers {
///             s.spawn(move || *n *= 10);
///         }
///     });
///     assert_eq!(numbers, [10, 20, 30]);
/// });
/// ```
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    // SAFETY: kept in the scope, whose threads claim its owner's waits only.
    let owner = unsafe { crate::Host::current() };
    let members = Members::new(cancel_masked());
    let data = Data { count: Countdown::new(), owner, panicked: AtomicBool::new(false), members };
    let scope = Scope { data, tasks: Tasks::new(), scope: PhantomData, env: PhantomData };
    scope.tasks.open(&raw const scope.data);
    let result = catch_unwind(AssertUnwindSafe(|| code_of_program::call_with(f, &scope)));
    // The scope's threads borrow from this frame and those below: nothing may unwind past this.
    crate::os::or_abort(
        || "the end of a scope panicked, whose threads may still run".into(),
        || {
            scope.tasks.finish();
            if !scope.data.count.is_over() {
                // SAFETY: by the owner, whose record the hooks have.
                masked(|| unsafe { scope.data.count.wait() });
            }
            // Open until here: a cancellation goes on to those that are waited for.
            scope.tasks.close();
        },
    );
    match result {
        Err(panic) => resume_unwind(panic),
        Ok(_) if scope.data.panicked.load(Ordering::Relaxed) => panic!("a scoped thread panicked"),
        Ok(value) => value,
    }
}

/// True while a processor of the calling thread's pool wants work.
#[inline(always)]
pub(crate) fn hungry() -> bool {
    crate::carry::switching::current()
        .is_some_and(|me| crate::carry::switching::activation_of(me).processor().pool.idle.hungry())
}

impl Data {
    /// The calling thread is one of the scope's, and begins.
    ///
    /// # Safety
    /// The scope and `member`, which is the thread's, stay until the thread has called [`Members::leave`].
    #[inline]
    pub unsafe fn enter(&self, member: &Member) {
        // SAFETY: scope and member stay until `leave`: so does the group, which is part of the scope.
        unsafe { self.members.enter(member, self.owner.is_cancelled()) };
    }

    /// The scope's owner was cancelled.
    pub fn owner_cancelled(&self) {
        if !self.members.is_shielded() {
            self.members.cancel();
        }
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a thread that may borrow from outside the scope.
    ///
    /// # Panics
    /// When no thread can be had; [`Scope::spawn_with`] returns the error instead.
    #[inline]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_with(Builder::new(), f).unwrap_or_else(|error| panic!("raddle: {error}"))
    }

    /// Runs `f` before the scope ends, perhaps at the same time as what follows: [`join`](crate::join) for any number
    /// of pieces of work.
    ///
    /// Like a half of `join` it needs not be a thread: what nobody else has taken is a plain call on the scope's own
    /// thread, when the scope's closure has returned, newest first. It becomes a thread of its own, with thread-local
    /// storage of its own, the oldest first, when another processor is idle, and when the scope's thread blocks, yields
    /// in vain or computes on. So it may wait for others and others for it; but which thread-local storage it sees is
    /// open. Where that matters, [`Scope::spawn`] it. A call from another thread than the scope's spawns at once.
    ///
    /// It costs a few stores where a thread costs a descriptor. Results go into what it borrows. A panic is the
    /// scope's, as that of a thread that nobody joined.
    ///
    /// # Panics
    /// From another thread than the scope's: when no thread can be had.
    ///
    /// # Example
    /// ```
    /// fn sum(numbers: &[u64]) -> u64 {
    ///     if numbers.len() <= 2 {
    ///         return numbers.iter().sum();
    ///     }
    ///     let mut sums = [0; 4];
    ///     raddle::scope(|s| {
    ///         for (sum_here, part) in sums.iter_mut().zip(numbers.chunks(numbers.len().div_ceil(4))) {
    ///             s.fork(move || *sum_here = sum(part));
    ///         }
    ///     });
    ///     sums.iter().sum()
    /// }
    /// let numbers: Vec<u64> = (0..1000).collect();
    /// let pool = raddle::Builder::new().processors(2).build().unwrap();
    /// assert_eq!(pool.run(|| sum(&numbers)), 499_500);
    /// ```
    #[inline]
    pub fn fork<F>(&'scope self, f: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        // SAFETY: 'scope outlives the end of the scope, where `scope` calls `finish`, and the scope is borrowed for as
        // long.
        match unsafe { self.tasks.add(&raw const self.data.panicked, f) } {
            Ok(()) if hungry() => crate::threads::forkjoin::offer(),
            Ok(()) => {}
            Err(f) => drop(self.spawn(f)),
        }
    }

    /// Spawns a thread with the given properties.
    ///
    /// # Errors
    /// [`SpawnError`]; the closure was dropped.
    #[inline]
    pub fn spawn_with<F, T>(
        &'scope self,
        builder: Builder,
        f: F,
    ) -> std::result::Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        builder.spawn_scoped_in(None::<&'static Shared>, self, f)
    }

    /// Asks all threads of the scope to end, those to come included, as [`ScopedJoinHandle::cancel`] asks one; and so
    /// on with the scopes that these have open, and the halves of [`join`](crate::join). The scope still waits for
    /// their end. May be called by any thread that can spawn here.
    ///
    /// A thread hands it on when it waits, for whatever, or comes to the end of its scope: one that computes on delays
    /// it for those below it. A scope is cancelled with its owner in the same way. Work that was forked
    /// ([`Scope::fork`]) is reached where it has become a thread; what the owner runs itself sees the owner's
    /// cancellation.
    ///
    /// Not reached are threads that belong to no scope ([`crate::spawn`]): who holds the handle cancels them. Where
    /// threads are kernel threads, nobody is cancelled.
    ///
    /// # Example
    /// ```
    /// use raddle::sync::channel::{self, RecvError};
    /// let pool = raddle::Builder::new().processors(2).build().unwrap();
    /// pool.run(|| {
    ///     let (_sender, receiver) = channel::bounded::<u32>(1);
    ///     raddle::scope(|s| {
    ///         for _ in 0..10 {
    ///             s.spawn(|| raddle::scope(|below| {
    ///                 below.spawn(|| assert_eq!(receiver.recv(), Err(RecvError::Cancelled)));
    ///             }));
    ///         }
    ///         s.cancel();
    ///     });
    /// });
    /// ```
    pub fn cancel(&self) {
        self.data.members.cancel();
    }

    /// For one more thread, which the scope waits for from now on, unless the second value is dropped.
    pub(crate) fn hook(&'scope self) -> (ScopeHook, Expected<'scope>) {
        if !self.data.count.add(LIMIT) {
            panic!("raddle: more than {LIMIT} threads at once in one scope: use several scopes");
        }
        (ScopeHook(&raw const self.data, self.data.owner), Expected(&self.data.count))
    }
}

/// One of a scope's count, of which no thread has come yet: dropped, it is given back. The scope does not end
/// meanwhile, since its owner or another one of its threads is the caller.
pub(crate) struct Expected<'scope>(&'scope Countdown<crate::Host>);

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.0.take_back();
    }
}

/// The right to wait for a scoped thread and take its result.
pub struct ScopedJoinHandle<'scope, T> {
    handle: Option<JoinHandle<T>>,
    panicked: &'scope AtomicBool,
}

impl<'scope, T> ScopedJoinHandle<'scope, T> {
    pub(crate) fn new(handle: JoinHandle<T>, scope: &'scope Scope<'scope, '_>) -> Self {
        Self { handle: Some(handle), panicked: &scope.data.panicked }
    }

    /// Blocks until the thread has ended and takes its result.
    ///
    /// # Errors
    /// The payload of the thread's panic.
    #[inline]
    pub fn join(mut self) -> Result<T> {
        self.handle.take().expect("a handle is joined once").join()
    }

    /// Asks the thread to end: all its cancellable waits return "cancelled" from now on, and those of the threads in
    /// scopes that it has open ([`Scope::cancel`]). The scope waits for its end all the same.
    pub fn cancel(&self) {
        if let Some(handle) = &self.handle {
            handle.cancel();
        }
    }

    /// A handle to the thread, as [`crate::current`] gives it there.
    pub fn thread(&self) -> &crate::thread::Thread {
        self.handle.as_ref().expect("a handle is joined once").thread()
    }

    /// True once the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && handle.detach_noting_panic()
        {
            self.panicked.store(true, Ordering::Relaxed);
        }
    }
}
