//! Doing something once: std's `Once` and `OnceLock`.
//!
//! One word: `WAITED | state`. The first thread to come runs the initialiser, the others sleep until it is done. A
//! panic in the initialiser poisons a [`Once`], as std's; a [`OnceLock`] stays empty.
//!
//! | state | set by | meaning |
//! |---|---|---|
//! | `NEW` | | nobody has tried |
//! | `RUNNING` | first thread, from `NEW` (or `POISONED`, if forced or a `OnceLock`) | the initialiser runs |
//! | `DONE` | that thread | for ever |
//! | `POISONED` | that thread | it panicked |
//!
//! Progress: lock-free but for the initialiser.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `once.state` | the end of the initialiser, and a waiter that sets `WAITED` | who sees `DONE`, and that end |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # type OnceLock<T> = raddle_scheduler::sync::OnceLock<T, KernelThreads>;
//! static NAME: OnceLock<String> = OnceLock::new();
//! assert_eq!(NAME.get_or_init(|| "first".into()), "first");
//! assert_eq!(NAME.set("second".into()), Err("second".into()));
//! ```

use super::waiters::Waiters;
use super::{Patience, WaitError};
use crate::code_of_program;
use crate::runtime::Runtime;
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;

const NEW: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
const POISONED: u32 = 3;
const STATE: u32 = 3;
const WAITED: u32 = 4;

/// Runs one initialiser. See the module.
pub struct Once<R: Runtime> {
    state: <R::Machine as Machine>::Atomic<u32>,
    waiters: Waiters<R>,
}

/// What [`Once::call_once_force`] tells its closure.
#[derive(Clone, Copy, Debug)]
pub struct OnceState(bool);

impl OnceState {
    /// True if an initialiser panicked before.
    pub fn is_poisoned(&self) -> bool {
        self.0
    }
}

impl<R: Runtime<Machine = Real>> Once<R> {
    /// Not done.
    pub const fn new() -> Self {
        Self { state: RealAtomic::<u32>::constant(NEW), waiters: Waiters::new() }
    }
}

impl<R: Runtime> Default for Once<R> {
    fn default() -> Self {
        Self { state: <R::Machine as Machine>::Atomic::new(NEW), waiters: Waiters::default() }
    }
}

/// Ends the initialiser, also when it unwinds.
struct Running<'a, R: Runtime> {
    once: &'a Once<R>,
    end: u32,
}

impl<R: Runtime> Drop for Running<'_, R> {
    fn drop(&mut self) {
        // Ordering[once.state]: Acquire. Pairs with `look`. Makes visible: the list's queue.
        let mut word = self.once.state.load(Ordering::Acquire);
        loop {
            let queue = (word & WAITED != 0).then(|| self.once.waiters.queue());
            // Ordering[once.state]: SeqCst. Pairs with `is_completed`. Makes visible: what the initialiser did. No
            // fence is needed: each look is an exchange, of which this one acquires all that came before it (and see
            // `wait_list::Queue::is_empty`).
            // Point of no return: who sees it may free the object.
            match self.once.state.compare_exchange_weak(word, self.end, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => {
                    if let Some(queue) = queue {
                        queue.wake_all();
                    }
                    return;
                }
                Err(now) => word = now,
            }
        }
    }
}

impl<R: Runtime> Once<R> {
    /// True once the initialiser has ended.
    #[inline(always)]
    pub fn is_completed(&self) -> bool {
        // Ordering[once.state]: Acquire. Pairs with the end of the initialiser. Makes visible: what it did.
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Runs `f` unless it or another one has run; returns when one has. Masked from cancellation.
    ///
    /// # Panics
    /// If an initialiser has panicked.
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        self.call_once_with(false, |_| code_of_program::call(f));
    }

    /// As [`Once::call_once`], but runs `f` also after a panic.
    #[inline]
    pub fn call_once_force(&self, f: impl FnOnce(&OnceState)) {
        self.call_once_with(true, f);
    }

    #[inline]
    fn call_once_with(&self, force: bool, f: impl FnOnce(&OnceState)) {
        if !self.is_completed() {
            let Some(before) =
                self.begin(force, Patience::MASKED).expect("a masked wait without a deadline ended early")
            else {
                return;
            };
            let mut running = Running { once: self, end: POISONED };
            code_of_program::call_with(f, &OnceState(before == POISONED));
            running.end = DONE;
        }
    }

    /// Becomes the thread that runs the initialiser (the state before), or waits for its end (`None`).
    #[cold]
    fn begin(&self, force: bool, patience: Patience) -> Result<Option<u32>, WaitError> {
        loop {
            // Ordering[once.state]: Acquire. Pairs with the end of the initialiser. Makes visible: what it did.
            let word = self.state.load(Ordering::Acquire);
            match word & STATE {
                DONE => return Ok(None),
                RUNNING => drop(self.waiters.wait(patience, || self.announce())?),
                POISONED if !force => panic!("the initialiser of a Once panicked before"),
                state => {
                    let new = word & WAITED | RUNNING;
                    // Ordering[once.state]: Acquire. Pairs with an initialiser that panicked. Makes visible: what it
                    // left.
                    if self.state.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                        return Ok(Some(state));
                    }
                }
            }
        }
    }

    /// Waits until an initialiser has ended well, whoever runs it. Masked from cancellation.
    ///
    /// # Panics
    /// If an initialiser has panicked.
    pub fn wait(&self) {
        self.await_end(false, Patience::MASKED).expect("a masked wait without a deadline ended early");
    }

    /// As [`Once::wait`], but also after a panic: until a later one has ended well.
    pub fn wait_force(&self) {
        self.await_end(true, Patience::MASKED).expect("a masked wait without a deadline ended early");
    }

    /// As [`Once::wait`], until the thread is cancelled.
    ///
    /// # Errors
    /// If it was cancelled.
    ///
    /// # Panics
    /// If an initialiser has panicked.
    pub fn wait_cancellable(&self) -> Result<(), WaitError> {
        self.await_end(false, Patience::CANCELLABLE)
    }

    fn await_end(&self, force: bool, patience: Patience) -> Result<(), WaitError> {
        // Poisoned is an end for one that would panic.
        let over = |state| state == DONE || !force && state == POISONED;
        while !self.is_completed() {
            self.waiters.wait(patience, || self.announce_unless(over))?;
            // Relaxed: `is_completed` makes visible what a good end did.
            if !force && self.state.load(Ordering::Relaxed) & STATE == POISONED {
                panic!("the initialiser of a Once panicked before");
            }
        }
        Ok(())
    }

    /// After publishing: true if nobody runs the initialiser; otherwise its end will wake this thread.
    fn announce(&self) -> bool {
        self.announce_unless(|state| state != RUNNING)
    }

    fn announce_unless(&self, ready: impl Fn(u32) -> bool) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        while !ready(word & STATE) {
            // Ordering[once.state]: Release. Pairs with the end of the initialiser. Makes visible: that the list has a
            // queue.
            match self.state.compare_exchange_weak(word, word | WAITED, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
        true
    }
}

impl<R: Runtime> fmt::Debug for Once<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}

/// A value that is written once. See the module.
pub struct OnceLock<T, R: Runtime> {
    once: Once<R>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value moves in from whichever thread initialises (Send), and is dropped by whichever owns the lock.
unsafe impl<T: Send, R: Runtime> Send for OnceLock<T, R> {}
// SAFETY: as above, and all threads share the value once it is there (Sync).
unsafe impl<T: Send + Sync, R: Runtime> Sync for OnceLock<T, R> {}

impl<T, R: Runtime<Machine = Real>> OnceLock<T, R> {
    /// Empty.
    pub const fn new() -> Self {
        Self { once: Once::new(), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

impl<T, R: Runtime> Default for OnceLock<T, R> {
    fn default() -> Self {
        Self { once: Once::default(), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

impl<T, R: Runtime> OnceLock<T, R> {
    /// The value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: done means that the initialiser has written the value; it is never written again while borrowed.
        self.once.is_completed().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, without a race: the borrow shows that nobody else is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`, and `&mut self` makes this the only way to it.
        self.once.is_completed().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Writes the value if none is there. Waits for an initialiser that runs.
    ///
    /// # Errors
    /// With `value`, if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("an initialiser runs once"));
        value.map_or(Ok(()), Err)
    }

    /// The value, which `f` makes if none is there. If `f` panics the lock stays empty. Masked from cancellation.
    #[inline]
    pub fn get_or_init(&self, f: impl FnOnce() -> T) -> &T {
        self.once.call_once_force(|_| {
            let value = code_of_program::call(f);
            // SAFETY: one initialiser runs at a time, and nobody reads before it has ended well.
            unsafe { (*self.value.get()).write(value) };
        });
        self.get().expect("an initialiser has ended well")
    }

    /// Waits for the value, whoever writes it. Masked from cancellation.
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.get().expect("an initialiser has ended well")
    }

    /// As [`OnceLock::wait`], until the thread is cancelled.
    ///
    /// # Errors
    /// If it was cancelled.
    pub fn wait_cancellable(&self) -> Result<&T, WaitError> {
        self.once.await_end(true, Patience::CANCELLABLE)?;
        Ok(self.get().expect("an initialiser has ended well"))
    }

    /// Takes the value out; the lock is empty again.
    pub fn take(&mut self) -> Option<T> {
        self.once.is_completed().then(|| {
            self.once = Once::default();
            // SAFETY: the value was there, and the new state says that it is not any more, so it is read once.
            unsafe { self.value.get_mut().assume_init_read() }
        })
    }

    /// The value, by taking the lock apart.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }
}

impl<T, R: Runtime> Drop for OnceLock<T, R> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T: Clone, R: Runtime> Clone for OnceLock<T, R> {
    /// Empty if this is, or with a copy of its value.
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(Self::default, Self::from)
    }
}

impl<T, R: Runtime> From<T> for OnceLock<T, R> {
    fn from(value: T) -> Self {
        let lock = Self::default();
        assert!(lock.set(value).is_ok(), "a new lock is empty");
        lock
    }
}

impl<T: PartialEq, R: Runtime> PartialEq for OnceLock<T, R> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq, R: Runtime> Eq for OnceLock<T, R> {}

impl<T: fmt::Debug, R: Runtime> fmt::Debug for OnceLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceLock").field(value).finish(),
            None => f.write_str("OnceLock(<empty>)"),
        }
    }
}
