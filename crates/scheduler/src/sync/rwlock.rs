//! Many readers or one writer: std's `RwLock`, poisoning included.
//!
//! One word: `writers waiting:27 | readers:32 | LEFT | WRITERS_WAITED | READERS_WAITED | POISONED | WRITER`; the two
//! `WAITED` bits are set once a thread has ever waited in that list, and never cleared: a bit says that its list has a
//! queue.
//!
//! A reader goes in while no writer holds the lock or waits for it, so writers do not starve; under a stream of writers
//! readers wait, and a thread that reads twice can wait for itself, both as with std's.
//!
//! Those who come by may take a free lock before one that was woken for it. `LEFT` says of a free lock that such a one
//! was too late again after a quantum, as of a mutex ([`super::mutex`]): who comes by gives way once before it takes
//! the lock. Whoever takes it clears the bit. Nothing else depends on it: what is free may be taken by anybody.
//!
//! Who owes a wake-up: who leaves the lock free wakes one writer if writers wait, else all readers; a writer that gives
//! up wakes the readers that waited only because of it. A woken writer tries before it gives up: if it fails, somebody
//! holds the lock and owes the next wake-up.
//!
//! Progress: lock-free but for holders. A kernel thread frozen in an unlock holds the threads that it was about to
//! wake.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `rwlock.state` | unlock, and a waiter that sets a `WAITED` bit | lock, and the unlock that sees the bit |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # type RwLock<T> = raddle_scheduler::sync::RwLock<T, KernelThreads>;
//! static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
//! NAMES.write().unwrap().push("a");
//! let (one, two) = (NAMES.read().unwrap(), NAMES.read().unwrap());
//! assert_eq!(one.len() + two.len(), 2);
//! assert!(NAMES.try_write().is_err());
//! ```

use super::waiters::{Queue, Waiters};
use super::{LockError, LockResult, Patience, PoisonError, TryLockError, TryLockResult, WaitError};
use crate::runtime::Runtime;
use crate::thread::Wake;
use core::time::Duration;
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

const WRITER: u64 = 1;
const POISONED: u64 = 2;
const READERS_WAITED: u64 = 4;
const WRITERS_WAITED: u64 = 8;
const LEFT: u64 = 16;
const READER: u64 = 32;
const READERS: u64 = (u32::MAX as u64) * READER;
const WAITING: u64 = READER << 32;

/// True if a reader may go in: there is no writer, none waits, and one more reader can be counted.
fn readable(word: u64) -> bool {
    word & WRITER == 0 && word < READERS
}

/// True if as many readers are in as can be counted (their guards may have been forgotten).
fn is_full(word: u64) -> bool {
    word & READERS == READERS
}

/// True if a writer may go in.
fn writable(word: u64) -> bool {
    word & (WRITER | READERS) == 0
}

/// As [`readable`], and the lock is not left for another one.
fn readable_by_all(word: u64) -> bool {
    word & (WRITER | LEFT) == 0 && word < READERS
}

/// As [`writable`], and the lock is not left for another one.
fn writable_by_all(word: u64) -> bool {
    word & (WRITER | READERS | LEFT) == 0
}

/// See the module.
pub struct RwLock<T: ?Sized, R: Runtime> {
    state: <R::Machine as Machine>::Atomic<u64>,
    readers: Waiters<R>,
    writers: Waiters<R>,
    data: UnsafeCell<T>,
}

// SAFETY: a writer has the data alone (Send), readers share it (Sync).
unsafe impl<T: ?Sized + Send, R: Runtime> Send for RwLock<T, R> {}
// SAFETY: shared, it gives `&T` to readers (Sync) and `&mut T` to a writer of any thread (Send).
unsafe impl<T: ?Sized + Send + Sync, R: Runtime> Sync for RwLock<T, R> {}

impl<T: ?Sized, R: Runtime> std::panic::UnwindSafe for RwLock<T, R> {}
impl<T: ?Sized, R: Runtime> std::panic::RefUnwindSafe for RwLock<T, R> {}

impl<T, R: Runtime<Machine = Real>> RwLock<T, R> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        let state = RealAtomic::<u64>::constant(0);
        Self { state, readers: Waiters::new(), writers: Waiters::new(), data: UnsafeCell::new(value) }
    }
}

impl<T, R: Runtime> RwLock<T, R> {
    /// A free lock, on any machine.
    pub fn with_value(value: T) -> Self {
        let state = <R::Machine as Machine>::Atomic::new(0);
        Self { state, readers: Waiters::default(), writers: Waiters::default(), data: UnsafeCell::new(value) }
    }

    /// The value, by taking the lock apart.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        poison(poisoned, self.data.into_inner())
    }
}

fn poison<G>(poisoned: bool, guard: G) -> LockResult<G> {
    if poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
}

type Locked<G> = Result<G, LockError<G>>;

impl<T: ?Sized, R: Runtime> RwLock<T, R> {
    /// Changes the word by `change` while `may` allows it, and takes `LEFT` away; the word it had.
    #[inline]
    fn enter(&self, may: fn(u64) -> bool, change: u64) -> Option<u64> {
        let mut word = self.state.load(Ordering::Relaxed);
        while may(word) {
            // Ordering[rwlock.state]: Acquire. Pairs with `leave`. Makes visible: the data.
            match self.state.compare_exchange_weak(
                word,
                (word & !LEFT).wrapping_add(change),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(word),
                Err(now) => word = now,
            }
        }
        None
    }

    #[inline]
    fn read_with(&self, patience: impl FnOnce() -> Patience) -> Result<u64, WaitError> {
        match self.enter(readable_by_all, READER) {
            Some(word) => Ok(word),
            None => self.read_slow(patience()),
        }
    }

    /// Gives way, once, to whom the lock is left for.
    fn give_way(&self) {
        if self.state.load(Ordering::Relaxed) & LEFT != 0 {
            R::yield_now();
        }
    }

    #[cold]
    fn read_slow(&self, patience: Patience) -> Result<u64, WaitError> {
        self.give_way();
        let (mut woken, mut too_late) = (false, None);
        loop {
            if let Some(word) = self.enter(readable, READER) {
                return Ok(word);
            }
            assert!(
                !is_full(self.state.load(Ordering::Relaxed)),
                "too many active read locks: more than can be counted"
            );
            if woken {
                self.readers.was_too_late(&mut too_late);
            }
            R::note_wait("a reader-writer lock, to read", std::ptr::from_ref(self).addr(), None);
            woken |= self.readers.wait(patience, || self.announce(readable, READERS_WAITED))? == Wake::Signalled;
        }
    }

    #[inline]
    fn write_with(&self, patience: impl FnOnce() -> Patience) -> Result<u64, WaitError> {
        match self.enter(writable_by_all, WRITER) {
            Some(word) => Ok(word),
            None => self.write_slow(patience()),
        }
    }

    #[cold]
    fn write_slow(&self, patience: Patience) -> Result<u64, WaitError> {
        self.give_way();
        // Relaxed: an unlock that misses it leaves the lock free before, and `look` sees that.
        self.state.fetch_add(WAITING, Ordering::Relaxed);
        let (mut woken, mut too_late) = (false, None);
        loop {
            if let Some(word) = self.enter(writable, WRITER.wrapping_sub(WAITING)) {
                return Ok(word);
            }
            if woken {
                self.writers.was_too_late(&mut too_late);
            }
            R::note_wait("a reader-writer lock, to write", std::ptr::from_ref(self).addr(), None);
            match self.writers.wait(patience, || self.announce(writable, WRITERS_WAITED)) {
                Ok(wake) => woken |= wake == Wake::Signalled,
                Err(error) => {
                    // SeqCst so that no fence is needed before readers are woken
                    // (`raddle_queues::wait_list::Queue::is_empty`).
                    let word = self.state.fetch_sub(WAITING, Ordering::SeqCst) - WAITING;
                    if readable(word) {
                        R::Machine::light_fence();
                        self.readers.queue().wake_all();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// After publishing: true if it is worth trying; otherwise those who leave know from now on that somebody waits.
    fn announce(&self, may: fn(u64) -> bool, waited: u64) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        while !may(word) {
            if word & waited != 0 {
                return false;
            }
            // Relaxed: the wait's fence comes before (wait.look); with it whoever reads the mark in `leave` sees that
            // the list has a queue.
            match self.state.compare_exchange_weak(word, word | waited, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
        true
    }

    #[inline]
    fn leave(&self, change: u64, poisoned: u64) {
        // Ordering[rwlock.state]: Acquire. Pairs with the fence before `look`. Makes visible: the lists' queues.
        let mut word = self.state.load(Ordering::Acquire);
        let mut left = None;
        loop {
            let writers = (word & WRITERS_WAITED != 0).then(|| self.writers.queue());
            let readers = (word & READERS_WAITED != 0).then(|| self.readers.queue());
            let mut new = word.wrapping_sub(change) | poisoned;
            if writable(new) && (writers.is_some() || readers.is_some()) {
                new |= *left.get_or_insert_with(|| self.left_for_the_woken(new));
            }
            // Ordering[rwlock.state]: SeqCst. Pairs with `enter`. Makes visible: the data. SeqCst so that no fence is
            // needed (`raddle_queues::wait_list::Queue::is_empty`).
            // Point of no return: the next holder may free the lock.
            match self.state.compare_exchange_weak(word, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) if writable(new) && (writers.is_some() || readers.is_some()) => {
                    return Self::wake(writers, readers, new);
                }
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// `LEFT` if the caller, about to leave the lock as `word` says, is to leave it for those that it wakes.
    #[cold]
    fn left_for_the_woken(&self, word: u64) -> u64 {
        let woken = if word >= WAITING { &self.writers } else { &self.readers };
        if woken.somebody_starved() { LEFT } else { 0 }
    }

    #[cold]
    fn wake(writers: Option<Queue<R>>, readers: Option<Queue<R>>, word: u64) {
        R::Machine::light_fence();
        if word >= WAITING && writers.is_some_and(Queue::wake_one) {
            return;
        }
        // Writers that are counted and not in the list are awake, or about to look.
        if let Some(readers) = readers {
            readers.wake_all();
        }
    }

    fn patient<'a, G>(&'a self, word: u64, guard: impl FnOnce(&'a Self) -> G) -> Locked<G> {
        poison(word & POISONED != 0, guard(self)).map_err(LockError::Poisoned)
    }

    /// Waits until the caller may read. Masked from cancellation.
    ///
    /// # Errors
    /// If a writer panicked; the guard is inside the error.
    ///
    /// # Panics
    /// If 2^32 - 1 readers are in, which somebody must have forgotten.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T, R>> {
        let word = self.read_with(|| Patience::MASKED).expect("a masked wait without a deadline ended early");
        poison(word & POISONED != 0, RwLockReadGuard::new(self))
    }

    /// Waits until the caller may write. Masked from cancellation.
    ///
    /// # Errors
    /// If a writer panicked; the guard is inside the error.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T, R>> {
        let word = self.write_with(|| Patience::MASKED).expect("a masked wait without a deadline ended early");
        poison(word & POISONED != 0, RwLockWriteGuard::new(self))
    }

    /// Reads if that is possible at once.
    ///
    /// # Errors
    /// If it is not, or the lock is poisoned.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T, R>> {
        let word = self.enter(readable, READER).ok_or(TryLockError::WouldBlock)?;
        Ok(poison(word & POISONED != 0, RwLockReadGuard::new(self))?)
    }

    /// Writes if that is possible at once.
    ///
    /// # Errors
    /// If it is not, or the lock is poisoned.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T, R>> {
        let word = self.enter(writable, WRITER).ok_or(TryLockError::WouldBlock)?;
        Ok(poison(word & POISONED != 0, RwLockWriteGuard::new(self))?)
    }

    /// Waits for reading at most so long, or until the thread is cancelled.
    ///
    /// # Errors
    /// If the lock was not had, or is poisoned.
    pub fn read_timeout(&self, timeout: Duration) -> Locked<RwLockReadGuard<'_, T, R>> {
        let word = self.read_with(|| Patience::timeout::<R::Machine>(timeout))?;
        self.patient(word, RwLockReadGuard::new)
    }

    /// Waits for writing at most so long, or until the thread is cancelled.
    ///
    /// # Errors
    /// If the lock was not had, or is poisoned.
    pub fn write_timeout(&self, timeout: Duration) -> Locked<RwLockWriteGuard<'_, T, R>> {
        let word = self.write_with(|| Patience::timeout::<R::Machine>(timeout))?;
        self.patient(word, RwLockWriteGuard::new)
    }

    /// Waits for reading until the thread is cancelled.
    ///
    /// # Errors
    /// If the lock was not had, or is poisoned.
    pub fn read_cancellable(&self) -> Locked<RwLockReadGuard<'_, T, R>> {
        let word = self.read_with(|| Patience::CANCELLABLE)?;
        self.patient(word, RwLockReadGuard::new)
    }

    /// Waits for writing until the thread is cancelled.
    ///
    /// # Errors
    /// If the lock was not had, or is poisoned.
    pub fn write_cancellable(&self) -> Locked<RwLockWriteGuard<'_, T, R>> {
        let word = self.write_with(|| Patience::CANCELLABLE)?;
        self.patient(word, RwLockWriteGuard::new)
    }

    /// True if a thread panicked while it wrote.
    pub fn is_poisoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) & POISONED != 0
    }

    /// Declares the data sound again.
    pub fn clear_poison(&self) {
        self.state.fetch_and(!POISONED, Ordering::Relaxed);
    }

    /// The value, without locking: the borrow shows that nobody else is there.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        poison(poisoned, self.data.get_mut())
    }
}

impl<T: Default, R: Runtime> Default for RwLock<T, R> {
    fn default() -> Self {
        Self::with_value(T::default())
    }
}

impl<T, R: Runtime> From<T> for RwLock<T, R> {
    fn from(value: T) -> Self {
        Self::with_value(value)
    }
}

impl<T: ?Sized + fmt::Debug, R: Runtime> fmt::Debug for RwLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => out.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => out.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => out.field("data", &format_args!("<locked>")),
        };
        out.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// The right to read.
#[must_use = "dropping the guard unlocks at once"]
pub struct RwLockReadGuard<'a, T: ?Sized, R: Runtime> {
    lock: &'a RwLock<T, R>,
    not_send: PhantomData<*const ()>,
}

/// The right to write.
#[must_use = "dropping the guard unlocks at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized, R: Runtime> {
    lock: &'a RwLock<T, R>,
    was_panicking: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: ?Sized + Sync, R: Runtime> Sync for RwLockReadGuard<'_, T, R> {}
// SAFETY: a shared guard of a writer gives `&T` as well, and no more.
unsafe impl<T: ?Sized + Sync, R: Runtime> Sync for RwLockWriteGuard<'_, T, R> {}

impl<'a, T: ?Sized, R: Runtime> RwLockReadGuard<'a, T, R> {
    fn new(lock: &'a RwLock<T, R>) -> Self {
        Self { lock, not_send: PhantomData }
    }
}

impl<'a, T: ?Sized, R: Runtime> RwLockWriteGuard<'a, T, R> {
    fn new(lock: &'a RwLock<T, R>) -> Self {
        Self { lock, was_panicking: raddle_machine::panicking(), not_send: PhantomData }
    }
}

impl<'a, T: ?Sized, R: Runtime> RwLockWriteGuard<'a, T, R> {
    /// Goes on as a reader, without letting a writer in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T, R> {
        let lock = std::mem::ManuallyDrop::new(guard).lock;
        lock.leave(WRITER.wrapping_sub(READER), 0);
        // The right to read keeps the lock alive.
        let reading = RwLockReadGuard::new(lock);
        if readable(lock.state.load(Ordering::Relaxed)) {
            // As a writer that gives up: the word was changed by a SeqCst operation just now.
            R::Machine::light_fence();
            lock.readers.queue().wake_all();
        }
        reading
    }
}

impl<T: ?Sized, R: Runtime> Deref for RwLockReadGuard<'_, T, R> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: while this guard counts as a reader nobody has a `&mut T`.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized, R: Runtime> Deref for RwLockWriteGuard<'_, T, R> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard's thread has the data alone.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized, R: Runtime> DerefMut for RwLockWriteGuard<'_, T, R> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard's thread has the data alone, and `&mut self` makes this the only way to it.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized, R: Runtime> Drop for RwLockReadGuard<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave(READER, 0);
    }
}

impl<T: ?Sized, R: Runtime> Drop for RwLockWriteGuard<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        let poisons = !self.was_panicking && raddle_machine::panicking();
        self.lock.leave(WRITER, if poisons { POISONED } else { 0 });
    }
}

impl<T: ?Sized + fmt::Display, R: Runtime> fmt::Display for RwLockReadGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, R: Runtime> fmt::Display for RwLockWriteGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug, R: Runtime> fmt::Debug for RwLockReadGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug, R: Runtime> fmt::Debug for RwLockWriteGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::kernel_threads::KernelThreads;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// As if so many guards had been forgotten.
    fn with_readers(count: u64) -> RwLock<u32, KernelThreads> {
        let lock = RwLock::<u32, KernelThreads>::new(7);
        lock.state.store(count * READER, Ordering::Relaxed);
        lock
    }

    #[test]
    fn readers_that_cannot_be_counted_are_refused() {
        let lock = with_readers(u32::MAX as u64 - 1);
        let last = lock.try_read().unwrap();
        let word = lock.state.load(Ordering::Relaxed);
        assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.read()))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.read_timeout(Duration::from_secs(60))))).is_err());
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        assert_eq!(lock.state.load(Ordering::Relaxed), word);
        drop(last);
        assert_eq!(*lock.read().unwrap(), 7);
    }

    #[test]
    fn a_writer_goes_on_as_a_reader_and_others_come_in() {
        let lock: &'static RwLock<u32, KernelThreads> = Box::leak(Box::new(RwLock::new(0)));
        let mut writing = lock.write().unwrap();
        let reader = std::thread::spawn(|| *lock.read().unwrap());
        // It waits: what it reads would be 0 otherwise.
        while lock.state.load(Ordering::Relaxed) & READERS_WAITED == 0 {
            std::thread::yield_now();
        }
        *writing = 7;
        let reading = RwLockWriteGuard::downgrade(writing);
        assert_eq!((reader.join().unwrap(), *reading), (7, 7));
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        drop(reading);
        assert!(lock.try_write().is_ok());
    }

    #[test]
    fn who_comes_in_takes_the_mark_away_that_it_is_left_for_another_one() {
        let lock = RwLock::<u32, KernelThreads>::new(7);
        let inside = |is: u64, guard: &dyn Fn()| {
            lock.state.store(LEFT, Ordering::Relaxed);
            guard();
            assert_eq!(lock.state.load(Ordering::Relaxed), is);
        };
        inside(READER, &|| std::mem::forget(lock.read()));
        inside(READER, &|| std::mem::forget(lock.try_read()));
        inside(WRITER, &|| std::mem::forget(lock.write()));
        inside(WRITER, &|| std::mem::forget(lock.try_write()));
        inside(0, &|| drop(lock.write()));
    }

    #[test]
    fn a_writer_that_waits_is_no_reader() {
        let lock = with_readers(u32::MAX as u64);
        assert!(matches!(lock.write_timeout(Duration::ZERO), Err(LockError::TimedOut)));
        assert!(is_full(lock.state.load(Ordering::Relaxed)));
        // One is left, and all goes on.
        lock.leave(READER, 0);
        assert_eq!(*lock.read().unwrap(), 7);
    }
}
