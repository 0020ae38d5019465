//! Mutual exclusion: std's `Mutex`, poisoning included.
//!
//! One word says who holds the mutex, whether threads wait and whether it is poisoned:
//! `owner:61 | GRANTING | POISONED | WAITERS`. Locking a free mutex and unlocking one that nobody waits for is one
//! compare-and-swap each, and neither waits for a load of the word: both know what it should be.
//!
//! Locks barge: a thread that comes along may take a free mutex before one that was woken for it, which is what makes
//! short critical sections fast. [`MutexGuard::unlock_to_waiter`] hands over instead, and so does the next unlock when
//! a woken thread has come too late again after it has waited for a quantum ([`Runtime::quantum`]): one that gives way
//! while it holds the mutex, and takes it again at once, would keep the others from it. A thread spins for a held mutex
//! only while the holder is on a processor, and briefly.
//!
//! | word | actor | becomes |
//! |---|---|---|
//! | free | locker | held by it; `WAITERS` if it was woken and others are still queued |
//! | held | waiter, after publishing itself | held, `WAITERS` |
//! | held, no `WAITERS` | holder | free |
//! | held, `WAITERS` | holder | free, no `WAITERS`; then it wakes one |
//! | held, `WAITERS` | holder that hands over | held by the waiter, `GRANTING` until the waiter has seen it |
//!
//! Invariants:
//! - I1: a published waiter that sleeps is covered: by `WAITERS` in the word of a holder, by an unlocker that has
//!   cleared `WAITERS` and not yet woken anybody, or by a woken thread that has not yet taken the mutex or queued
//!   again. Proof: the waiter sets `WAITERS` after publishing, and only on a held word. The unlocker that clears the
//!   bit acquires the waiter's publication with it and pops, in order. The popped thread either takes the mutex, and
//!   then sees by `WAITERS`' own rule whether the list is empty (all publications whose bit was cleared before are
//!   visible to it), or queues again with the bit.
//! - I2: the holder is the only one who takes its address out of the word.
//!
//! Progress: lock-free but for the holder; a kernel thread frozen in `unlock` holds the mutex, or at most one waiter.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `mutex.state` | unlock, and a waiter that sets `WAITERS` | lock, and the unlock that clears `WAITERS` |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! type Mutex<T> = raddle_scheduler::sync::Mutex<T, KernelThreads>;
//! static TOTAL: Mutex<u64> = Mutex::new(0);
//! *TOTAL.lock().unwrap() += 2;
//! assert_eq!(*TOTAL.lock().unwrap(), 2);
//! ```

use super::waiters::{Queue, Waiters};
use super::{LockResult, Patience, PoisonError, TryLockError, TryLockResult, WaitError};
use crate::runtime::{Runtime, wake};
use crate::thread::{Epoch, Thread, Wake};
use core::time::Duration;
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

const WAITERS: u64 = 1;
const POISONED: u64 = 2;
/// The owner named may not have the mutex yet, and may never get it (its wait may end before the grant).
const GRANTING: u64 = 4;
const OWNER: u64 = !7;
/// In a guard's bits: its thread panicked already when it locked, so the guard's end does not poison. No holder's word
/// has this bit, so the unlock's first exchange fails for such a guard, and nothing on the quick way has to ask.
const MADE_IN_PANIC: u64 = GRANTING;

/// How often to look again at a mutex whose holder runs before sleeping. Measured on two virtual cores beside other
/// work, 0, 1, 4, 16 and 64 looks in five interleaved rounds each, T = 2, 64 and 1000 threads: up to 4 the CPU time of
/// a turn differs by less than the rounds do; 16 take 0 to 3 % more of it and 64 take 1 to 7 % (64 threads, held for 20
/// and 100 pauses), with as many sleeps. (2026-11-26)
pub const SPINS: u32 = 4;
/// Pauses between two looks: a look takes the cache line from the holder.
pub const PAUSES: u32 = 30;

/// The address of the record of the thread that holds the mutex with this word, if one does and not only may come to.
pub fn holder_in(word: u64) -> Option<usize> {
    (word & OWNER != 0 && word & GRANTING == 0).then_some((word & OWNER) as usize)
}

/// The mutex without its data: what [`Mutex`], [`super::Condvar`] and the monitor share.
#[repr(C)]
pub(crate) struct RawMutex<R: Runtime> {
    state: <R::Machine as Machine>::Atomic<u64>,
    waiters: Waiters<R>,
}

impl<R: Runtime<Machine = Real>> RawMutex<R> {
    pub const fn new() -> Self {
        Self { state: RealAtomic::<u64>::constant(0), waiters: Waiters::new() }
    }
}

impl<R: Runtime> Default for RawMutex<R> {
    fn default() -> Self {
        Self { state: <R::Machine as Machine>::Atomic::new(0), waiters: Waiters::default() }
    }
}

/// The owner bits of a thread.
#[inline(always)]
fn owner<R: Runtime>(thread: &'static Thread<R::Machine>) -> u64 {
    std::ptr::from_ref(thread).expose_provenance() as u64
}

/// The calling thread in the word's owner bits.
#[inline(always)]
fn me<R: Runtime>() -> u64 {
    // SAFETY: becomes bits to compare; only the holder's record is looked at again, for `is_running`, by this file.
    owner::<R>(unsafe { R::current() })
}

/// Whether the end of a guard with these bits poisons.
fn poisons(bits: u64) -> bool {
    raddle_machine::panicking() && bits & MADE_IN_PANIC == 0
}

impl<R: Runtime> RawMutex<R> {
    /// Takes the mutex if it is free; the word it had.
    #[inline(always)]
    fn try_lock(&self) -> Result<u64, u64> {
        let me = me::<R>();
        // Ordering[mutex.state]: Acquire. Pairs with `unlock`. Makes visible: the data.
        match self.state.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(0),
            Err(word) if word & OWNER == 0 => self.try_lock_again(word, me),
            Err(word) => Err(word),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_lock_again(&self, mut word: u64, me: u64) -> Result<u64, u64> {
        while word & OWNER == 0 {
            // Ordering[mutex.state]: Acquire. Pairs with `unlock`. Makes visible: the data.
            match self.state.compare_exchange_weak(word, word | me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(word),
                Err(now) => word = now,
            }
        }
        Err(word)
    }

    /// Takes the mutex; whether it is poisoned.
    #[inline(always)]
    pub fn lock(&self, patience: Patience) -> Result<bool, WaitError> {
        match self.try_lock() {
            Ok(word) => Ok(word & POISONED != 0),
            Err(_) => self.lock_slow(patience),
        }
    }

    /// As [`RawMutex::lock`] with a wait that neither time nor cancellation ends: whether it is poisoned.
    #[inline(always)]
    pub fn lock_masked(&self) -> bool {
        self.lock_masked_as(me::<R>())
    }

    /// As [`RawMutex::lock_masked`], and the bits of a guard that does not poison. In registers: a guard that was made
    /// here would go through memory where it is made otherwise, too.
    #[cold]
    #[inline(never)]
    fn lock_in_panic(&self) -> (bool, u64) {
        (self.lock_masked(), me::<R>() | MADE_IN_PANIC)
    }

    /// As [`RawMutex::lock_masked`], for who does not ask about poison: the owner bits, for [`RawMutex::unlock_as`].
    #[inline(always)]
    pub fn lock_for_bits(&self) -> u64 {
        let me = me::<R>();
        self.lock_masked_as(me);
        me
    }

    /// As [`RawMutex::lock_masked`], of a thread that knows its owner bits.
    #[inline(always)]
    fn lock_masked_as(&self, me: u64) -> bool {
        // Ordering[mutex.state]: Acquire. Pairs with `unlock`. Makes visible: the data.
        let taken = self.state.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        taken.is_err() && self.lock_masked_slow()
    }

    /// A call of its own, so that little is inlined into callers.
    #[cold]
    #[inline(never)]
    fn lock_masked_slow(&self) -> bool {
        self.lock_slow(Patience::MASKED).expect("a masked wait without a deadline ended early")
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, patience: Patience) -> Result<bool, WaitError> {
        let me = me::<R>();
        let mut word = self.state.load(Ordering::Relaxed);
        if word & (OWNER | GRANTING) == me && patience.deadline.is_none() {
            panic!("a thread locks a mutex that it holds already: it would wait for itself for ever");
        }
        // True while this thread covers the others in the list (I1).
        let mut woken = false;
        let mut too_late = None;
        let mut spins = 0;
        loop {
            if word & OWNER == 0 {
                // Read before the exchange, while the word tells that nobody else has taken over the duty.
                let others = woken && !self.waiters.queue().is_empty();
                let new = word | me | if others { WAITERS } else { 0 };
                // Ordering[mutex.state]: Acquire. Pairs with `unlock`. Makes visible: the data.
                match self.state.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Ok(word & POISONED != 0),
                    Err(now) => word = now,
                }
                continue;
            }
            if spins < SPINS && R::is_running(self.holder(word)) {
                spins += 1;
                for _ in 0..PAUSES {
                    <R::Machine as Machine>::spin_hint();
                }
                word = self.state.load(Ordering::Relaxed);
                continue;
            }
            if woken {
                self.waiters.was_too_late(&mut too_late);
            }
            let kind = if patience.deadline.is_none() { "a mutex" } else { "a mutex, until a point in time" };
            // The address of the word: it is the first field.
            R::note_wait(kind, std::ptr::from_ref(self).addr(), Some(self.holder(word)));
            match self.waiters.wait(patience, || self.announce()) {
                // The previous holder wrote our address into the word before it granted.
                Ok(Wake::Granted) => return Ok(self.accept_grant()),
                Ok(wake) => {
                    // A duty stays when this wait finds the mutex free before it sleeps: its look has set no bit for
                    // the others.
                    woken |= wake == Wake::Signalled;
                    spins = 0;
                    word = self.state.load(Ordering::Relaxed);
                }
                Err(error) => {
                    // The wake-up that this thread consumed is owed to the next one (I1).
                    if woken && self.announce() {
                        self.waiters.queue().wake_one();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// After publishing: true if the mutex is free; otherwise its holder knows from now on that somebody waits.
    fn announce(&self) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            if word & OWNER == 0 {
                return true;
            }
            // An exchange even if the bit is set: the publication must come before it in the word's history.
            // Ordering[mutex.state]: Release. Pairs with the unlock that clears the bit. Makes visible: the queued
            // node. Not weakened: the waiter's fence between publishing and this look does it too (ThreadSanitizer
            // knows no fences).
            match self.state.compare_exchange_weak(word, word | WAITERS, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
    }

    /// The thread that the word names. Records are type-stable, so a stale word is harmless.
    fn holder(&self, word: u64) -> &'static Thread<R::Machine> {
        // SAFETY: only addresses of thread records are put into the word's owner bits, and records stay readable for
        // ever.
        unsafe { &*std::ptr::with_exposed_provenance((word & OWNER) as usize) }
    }

    /// Gives the mutex up.
    ///
    /// # Safety
    /// The calling thread holds it.
    #[inline(always)]
    pub unsafe fn unlock(&self, poison: bool) {
        if poison {
            self.unlock_slow(true);
        } else {
            // SAFETY: the calling thread holds it, which `me` names.
            unsafe { self.unlock_as(me::<R>()) };
        }
    }

    /// As [`RawMutex::unlock`] without poison, of a thread that knows its owner bits.
    ///
    /// # Safety
    /// The calling thread holds it, and `me` are its bits.
    #[inline(always)]
    pub unsafe fn unlock_as(&self, me: u64) {
        if !self.free_quickly(me) {
            self.unlock_slow(false);
        }
    }

    /// As [`RawMutex::unlock`], of a guard with these bits: poisons if its thread has begun to panic since it locked.
    ///
    /// # Safety
    /// The calling thread holds it, and the bits are its own, with [`MADE_IN_PANIC`] or not.
    #[inline(always)]
    unsafe fn unlock_guarded(&self, bits: u64) {
        if raddle_machine::panicking() || !self.free_quickly(bits) {
            self.unlock_guarded_slow(bits);
        }
    }

    #[cold]
    #[inline(never)]
    fn unlock_guarded_slow(&self, bits: u64) {
        self.unlock_and_wake(poisons(bits));
    }

    /// Frees a mutex that nobody waits for and that is not poisoned. True if it did.
    #[inline(always)]
    fn free_quickly(&self, me: u64) -> bool {
        // Not the word's value, for which the exchange would wait: after `lock`'s, no load goes ahead of it
        // (lock_local: 10.7 to 9.6 ns).
        // Ordering[mutex.state]: Release. Pairs with `try_lock`. Makes visible: the data.
        // Point of no return: the next holder may free the mutex.
        self.state.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn unlock_slow(&self, poison: bool) {
        self.unlock_and_wake(poison);
    }

    #[inline(always)]
    fn unlock_and_wake(&self, poison: bool) {
        // Ordering[mutex.state]: Acquire. Pairs with `look`. Makes visible: that the list has a queue.
        let mut word = self.state.load(Ordering::Acquire);
        loop {
            // Read while we hold the mutex, and not before the bit says that the list has a queue.
            let queue = (word & WAITERS != 0).then(|| self.waiters.queue());
            let free = if poison { POISONED } else { word & POISONED };
            if let Some(queue) = queue
                && self.waiters.somebody_starved()
                && self.hand_over(queue, free)
            {
                return;
            }
            // Ordering[mutex.state]: AcqRel. Pairs with `try_lock` and `look`. Makes visible: the data; acquires queued
            // nodes.
            // Point of no return: from here on only runtime memory is touched.
            match self.state.compare_exchange_weak(word, free, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if let Some(queue) = queue {
                        queue.wake_one();
                    }
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Gives the mutex to the thread that has waited longest, if any waits.
    ///
    /// # Safety
    /// The calling thread holds it.
    unsafe fn unlock_to_waiter(&self, poison: bool) {
        // Ordering[mutex.state]: Acquire. Pairs with `look`. Makes visible: queued nodes.
        // Not weakened: who sees too little goes on in `unlock_slow`, which looks again.
        let word = self.state.load(Ordering::Acquire);
        let poisoned = if poison { POISONED } else { word & POISONED };
        if word & WAITERS != 0 && self.hand_over(self.waiters.queue(), poisoned) {
            return;
        }
        self.unlock_slow(poison);
    }

    /// Of the holder: gives the mutex to the thread that has waited longest; false if nobody waits any more. A call of
    /// its own, so that an unlock that hands nothing over saves no registers for it.
    #[cold]
    #[inline(never)]
    fn hand_over(&self, queue: Queue<R>, poisoned: u64) -> bool {
        let grant = |heir| {
            // An exchange, so that the new holder's unlock acquires the nodes whose waiters had set the bit before.
            // Ordering[mutex.state]: AcqRel. Pairs with `accept_grant` and `look`. Makes visible: the data. WAITERS
            // stays: the new holder finds out at its unlock whether anybody is left. Not weakened: the wake-up shows
            // the data too, and an exchange carries on what a look released.
            self.state.swap(owner::<R>(heir) | GRANTING | WAITERS | poisoned, Ordering::AcqRel);
        };
        // Point of no return: the grant; a failed one leaves the mutex in our hands, so the next exchange is allowed.
        queue.grant_one(grant)
    }

    /// Offers the mutex to a thread whose wait `epoch` is for it. True if the thread has it now.
    ///
    /// # Safety
    /// The calling thread holds it, and treats it as given away if this returns true.
    pub unsafe fn grant_to(&self, heir: &'static Thread<R::Machine>, epoch: Epoch) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        loop {
            let new = word & (WAITERS | POISONED) | owner::<R>(heir) | GRANTING;
            // Ordering[mutex.state]: Release. Pairs with `accept_grant`. Makes visible: the data.
            // Not weakened: the wake-up shows the data too.
            match self.state.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return wake::<R>(heir, epoch, Wake::Granted),
                Err(now) => word = now,
            }
        }
    }

    /// After a wait that ended with [`Wake::Granted`]: the calling thread holds the mutex; whether it is poisoned.
    pub fn accept_grant(&self) -> bool {
        // Ordering[mutex.state]: Acquire. Pairs with `unlock_to_waiter` and `grant_to`. Makes visible: the data.
        // Not weakened: as `grant_to`.
        let word = self.state.fetch_and(!GRANTING, Ordering::Acquire);
        debug_assert_eq!(word & OWNER, me::<R>(), "granted to somebody else");
        word & POISONED != 0
    }

    pub fn is_poisoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) & POISONED != 0
    }

    pub fn poison(&self) {
        self.state.fetch_or(POISONED, Ordering::Relaxed);
    }

    pub fn clear_poison(&self) {
        self.state.fetch_and(!POISONED, Ordering::Relaxed);
    }
}

/// Mutual exclusion around a value. See the module.
pub struct Mutex<T: ?Sized, R: Runtime> {
    raw: RawMutex<R>,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached by the holder only, one thread at a time, so it needs Send and not Sync.
unsafe impl<T: ?Sized + Send, R: Runtime> Send for Mutex<T, R> {}
// SAFETY: shared, it lets one in at a time, of any thread: T: Send.
unsafe impl<T: ?Sized + Send, R: Runtime> Sync for Mutex<T, R> {}

impl<T: ?Sized, R: Runtime> std::panic::UnwindSafe for Mutex<T, R> {}
impl<T: ?Sized, R: Runtime> std::panic::RefUnwindSafe for Mutex<T, R> {}

/// Why a lock with a time-out or a cancellation was not had, or was had of a poisoned mutex.
pub enum LockError<G> {
    /// Locked, but a holder has panicked before.
    Poisoned(PoisonError<G>),
    /// The time-out passed.
    TimedOut,
    /// The calling thread's cancellation was requested.
    Cancelled,
}

impl<G> From<WaitError> for LockError<G> {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => LockError::TimedOut,
            WaitError::Cancelled => LockError::Cancelled,
        }
    }
}

impl<G> fmt::Debug for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::Poisoned(_) => "Poisoned(..)",
            LockError::TimedOut => "TimedOut",
            LockError::Cancelled => "Cancelled",
        })
    }
}

impl<G> fmt::Display for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::Poisoned(_) => "poisoned lock: another thread panicked while it held it",
            LockError::TimedOut => "the lock was not free in time",
            LockError::Cancelled => "the wait for the lock was cancelled",
        })
    }
}

impl<G> std::error::Error for LockError<G> {}

impl<T, R: Runtime<Machine = Real>> Mutex<T, R> {
    /// A free mutex.
    pub const fn new(value: T) -> Self {
        Self { raw: RawMutex::new(), data: UnsafeCell::new(value) }
    }
}

impl<T, R: Runtime> Mutex<T, R> {
    /// A free mutex, on any machine.
    pub fn with_value(value: T) -> Self {
        Self { raw: RawMutex::default(), data: UnsafeCell::new(value) }
    }

    /// The value, by taking the mutex apart.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.raw.is_poisoned();
        let Self { data, .. } = self;
        poison(poisoned, data.into_inner())
    }
}

fn poison<G>(poisoned: bool, guard: G) -> LockResult<G> {
    if poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
}

impl<T: ?Sized, R: Runtime> Mutex<T, R> {
    /// Waits until the mutex is the caller's. Masked from cancellation, as its signature cannot tell of one.
    ///
    /// # Errors
    /// If a thread panicked while it held the mutex; the guard is inside the error.
    ///
    /// # Panics
    /// If the calling thread holds the mutex.
    #[inline(always)]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T, R>> {
        // Both are read before the lock: a load after its exchange would delay the unlock's.
        let (poisoned, bits) = if raddle_machine::panicking() {
            self.raw.lock_in_panic()
        } else {
            let bits = me::<R>();
            (self.raw.lock_masked_as(bits), bits)
        };
        poison(poisoned, MutexGuard { mutex: self, bits, not_send: PhantomData })
    }

    /// Takes the mutex if it is free.
    ///
    /// # Errors
    /// If it is held, or poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T, R>> {
        match self.raw.try_lock() {
            Ok(word) => Ok(poison(word & POISONED != 0, MutexGuard::new(self))?),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Waits at most so long, or until the thread is cancelled.
    ///
    /// # Errors
    /// If the mutex was not had, or is poisoned.
    pub fn lock_timeout(&self, timeout: Duration) -> Result<MutexGuard<'_, T, R>, LockError<MutexGuard<'_, T, R>>> {
        self.lock_patiently(|| Patience::timeout::<R::Machine>(timeout))
    }

    /// Waits until the mutex is the caller's or the thread is cancelled.
    ///
    /// # Errors
    /// If the mutex was not had, or is poisoned.
    pub fn lock_cancellable(&self) -> Result<MutexGuard<'_, T, R>, LockError<MutexGuard<'_, T, R>>> {
        self.lock_patiently(|| Patience::CANCELLABLE)
    }

    fn lock_patiently(
        &self,
        patience: impl FnOnce() -> Patience,
    ) -> Result<MutexGuard<'_, T, R>, LockError<MutexGuard<'_, T, R>>> {
        let poisoned = match self.raw.try_lock() {
            Ok(word) => word & POISONED != 0,
            Err(_) => self.raw.lock_slow(patience())?,
        };
        poison(poisoned, MutexGuard::new(self)).map_err(LockError::Poisoned)
    }

    /// True if a thread panicked while it held the mutex.
    pub fn is_poisoned(&self) -> bool {
        self.raw.is_poisoned()
    }

    /// Declares the data sound again.
    pub fn clear_poison(&self) {
        self.raw.clear_poison();
    }

    /// The value, without locking: the borrow shows that nobody else is there.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        poison(self.raw.is_poisoned(), self.data.get_mut())
    }
}

impl<T: Default, R: Runtime> Default for Mutex<T, R> {
    fn default() -> Self {
        Self::with_value(T::default())
    }
}

impl<T, R: Runtime> From<T> for Mutex<T, R> {
    fn from(value: T) -> Self {
        Self::with_value(value)
    }
}

impl<T: ?Sized + fmt::Debug, R: Runtime> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => out.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => out.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => out.field("data", &format_args!("<locked>")),
        };
        out.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// The right to a mutex's value; gives the mutex up when it is dropped.
#[must_use = "dropping the guard unlocks at once"]
pub struct MutexGuard<'a, T: ?Sized, R: Runtime> {
    mutex: &'a Mutex<T, R>,
    /// The owner bits of the guard's thread, kept from the lock for the unlock, which would wait for a load of them;
    /// and [`MADE_IN_PANIC`].
    bits: u64,
    /// A guard stays with the thread that locked, since the word names it.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync, R: Runtime> Sync for MutexGuard<'_, T, R> {}

impl<'a, T: ?Sized, R: Runtime> MutexGuard<'a, T, R> {
    #[inline(always)]
    fn new(mutex: &'a Mutex<T, R>) -> Self {
        let made_in_panic = if raddle_machine::panicking() { MADE_IN_PANIC } else { 0 };
        Self { mutex, bits: me::<R>() | made_in_panic, not_send: PhantomData }
    }

    /// Unlocks by handing the mutex to the thread that has waited longest, so that nobody barges in between. Slower for
    /// all than dropping the guard, and fair.
    pub fn unlock_to_waiter(self) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: a guard's thread holds the mutex, and this guard is forgotten.
        unsafe { this.mutex.raw.unlock_to_waiter(poisons(this.bits)) };
    }

    /// The mutex that it guards.
    pub(crate) fn mutex(&self) -> &'a Mutex<T, R> {
        self.mutex
    }

    /// Gives the mutex up for a while: the guard is still there, and must not be used until [`MutexGuard::relock`].
    ///
    /// # Safety
    /// The caller calls `relock` before anything else can use or drop the guard.
    pub(crate) unsafe fn unlock_for_a_while(&self) {
        // Without poison, as in std: a thread that has begun to panic poisons when it drops the guard.
        // SAFETY: a guard's thread holds the mutex, with these bits; the rest is the caller's promise.
        unsafe { self.mutex.raw.unlock_as(self.bits & OWNER) };
    }

    /// Takes the mutex again; whether it is poisoned.
    pub(crate) fn relock(&self) -> bool {
        self.mutex.raw.lock_masked_as(self.bits & OWNER)
    }
}

impl<T: ?Sized, R: Runtime> Deref for MutexGuard<'_, T, R> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard's thread holds the mutex, so nobody else has a `&mut T`.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T: ?Sized, R: Runtime> DerefMut for MutexGuard<'_, T, R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's thread holds the mutex, so nobody else reaches the value; `&mut self` makes this the only
        // way.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T: ?Sized, R: Runtime> Drop for MutexGuard<'_, T, R> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard's thread holds the mutex, and a guard stays with its thread.
        unsafe { self.mutex.raw.unlock_guarded(self.bits) };
    }
}

impl<T: ?Sized + fmt::Debug, R: Runtime> fmt::Debug for MutexGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, R: Runtime> fmt::Display for MutexGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
