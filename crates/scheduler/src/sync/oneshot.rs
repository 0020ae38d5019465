//! One value from one thread to another: a promise and its future.
//!
//! | state | set by | meaning |
//! |---|---|---|
//! | `EMPTY` | | no value, nobody waits |
//! | `WAITING` | the future, from `EMPTY` | its thread and epoch are written |
//! | `SET` | the promise | the value is written; for the future alone |
//! | `BROKEN` | the promise's drop | there will be no value |
//! | `CLOSED` | the future's drop, from `EMPTY` | nobody wants the value |
//!
//! Both sides hold the shared record, so a waker never touches memory that its wake-up frees.
//!
//! Progress: lock-free; a kernel thread frozen in [`Promise::set`] holds the one thread that waits for it.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `oneshot.state` | the promise; the future that begins to wait | the future; the promise that finds it waiting |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::{kernel_threads::KernelThreads, oneshot};
//! let (promise, future) = oneshot::channel::<u32, KernelThreads>();
//! std::thread::spawn(move || promise.set(42));
//! assert_eq!(future.get(), Ok(42));
//! ```

use super::select::{Parted, Source};
use super::{Patience, WaitError};
use crate::runtime::{Runtime, Waited, wait_until, wake};
use crate::thread::{Epoch, Thread, Wake};
use core::time::Duration;
use raddle_machine::{Atomic, Machine, Ordering};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const SET: u32 = 2;
const BROKEN: u32 = 3;
const CLOSED: u32 = 4;

struct Shared<T, R: Runtime> {
    state: <R::Machine as Machine>::Atomic<u32>,
    thread: <R::Machine as Machine>::Atomic<usize>,
    epoch: <R::Machine as Machine>::Atomic<u64>,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is accessed by the promise before `SET` and by the future after it, never by both.
unsafe impl<T: Send, R: Runtime> Sync for Shared<T, R> {}
// SAFETY: whoever has the last end drops the value: T: Send.
unsafe impl<T: Send, R: Runtime> Send for Shared<T, R> {}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetError {
    /// The promise was dropped without a value.
    Broken,
    /// The thread was cancelled.
    Cancelled,
    /// The value did not come in time.
    TimedOut,
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GetError::Broken => "the promise was dropped without a value",
            GetError::Cancelled => "the wait for the promise was cancelled",
            GetError::TimedOut => "the promise was not kept in time",
        })
    }
}

impl std::error::Error for GetError {}

/// The duty to give a value.
pub struct Promise<T, R: Runtime> {
    shared: Arc<Shared<T, R>>,
}

/// The right to get it. One thread at a time waits for it.
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<raddle_scheduler::sync::oneshot::Future<u32, raddle_scheduler::sync::kernel_threads::KernelThreads>>();
/// ```
pub struct Future<T, R: Runtime> {
    shared: Arc<Shared<T, R>>,
    /// There is room for one that waits.
    not_sync: PhantomData<Cell<()>>,
}

/// A promise and its future.
pub fn channel<T, R: Runtime>() -> (Promise<T, R>, Future<T, R>) {
    let shared = Arc::new(Shared {
        state: <R::Machine as Machine>::Atomic::new(EMPTY),
        thread: <R::Machine as Machine>::Atomic::new(0),
        epoch: <R::Machine as Machine>::Atomic::new(0),
        value: UnsafeCell::new(MaybeUninit::uninit()),
    });
    (Promise { shared: shared.clone() }, Future { shared, not_sync: PhantomData })
}

impl<T, R: Runtime> Shared<T, R> {
    /// The promise's last step; the state before.
    fn finish(&self, state: u32) -> u32 {
        // Ordering[oneshot.state]: AcqRel. Pairs with `ready` and `begin`. Makes visible: the value; acquires who
        // waits.
        let before = self.state.swap(state, Ordering::AcqRel);
        if before == WAITING {
            // The future writes these only in the states before and after `WAITING`, which has now gone for good.
            let epoch = Epoch::from_bits(self.epoch.load(Ordering::Relaxed));
            // SAFETY: `begin` wrote the address of a thread record; records are readable for ever.
            let thread: &'static Thread<R::Machine> =
                unsafe { &*std::ptr::with_exposed_provenance(self.thread.load(Ordering::Relaxed)) };
            wake::<R>(thread, epoch, Wake::Signalled);
        }
        before
    }

    /// The future's look: `SET`, `BROKEN` or neither.
    fn ready(&self) -> u32 {
        // Ordering[oneshot.state]: Acquire. Pairs with `finish`. Makes visible: the value.
        self.state.load(Ordering::Acquire)
    }

    fn begin(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) {
        // Single writer: the promise reads them only after it found `WAITING`, which this thread sets afterwards.
        self.thread.store(std::ptr::from_ref(thread).expose_provenance(), Ordering::Relaxed);
        self.epoch.store(epoch.to_bits(), Ordering::Relaxed);
        // Ordering[oneshot.state]: Release. Pairs with `finish`. Makes visible: who waits.
        let _ = self.state.compare_exchange(EMPTY, WAITING, Ordering::Release, Ordering::Relaxed);
    }

    fn wait(&self, patience: Patience) -> Result<(), WaitError> {
        while matches!(self.ready(), EMPTY | WAITING) {
            let publish = |thread, epoch| self.begin(thread, epoch);
            let ready = || self.ready() != WAITING;
            // SAFETY: the cell is private to promise and future; the promise claims the epoch it finds there.
            let waited = unsafe { wait_until::<R>(patience.deadline, patience.cancellable, publish, ready) };
            // Back, unless the promise came first: then its claim fails or has been taken into account.
            let _ = self.state.compare_exchange(WAITING, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
            match waited {
                Waited::Woken(Wake::TimedOut) if self.ready() == EMPTY => return Err(WaitError::TimedOut),
                Waited::Woken(Wake::Cancelled) if self.ready() == EMPTY => return Err(WaitError::Cancelled),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<T, R: Runtime> Parted<R> for Future<T, R> {
    fn is_ready(&self) -> bool {
        Self::is_ready(self)
    }

    fn publish(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) -> bool {
        self.shared.begin(thread, epoch);
        true
    }

    fn part(&self, _woken: bool) {
        // Back, unless the promise came first: then its claim fails or has been taken into account.
        let _ = self.shared.state.compare_exchange(WAITING, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl<T, R: Runtime> Source<R> for Future<T, R> {}

impl<T, R: Runtime> Promise<T, R> {
    /// Gives the value.
    ///
    /// # Errors
    /// With the value, if the future was dropped.
    pub fn set(self, value: T) -> Result<(), T> {
        // SAFETY: before `SET` the value belongs to the promise, which ends here.
        unsafe { (*self.shared.value.get()).write(value) };
        let before = self.shared.finish(SET);
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: the promise is not dropped, so its reference is taken out once.
        let shared = unsafe { std::ptr::read(&this.shared) };
        if before == CLOSED {
            // SAFETY: written above, and the future, which is gone, has not seen `SET`.
            return Err(unsafe { (*shared.value.get()).assume_init_read() });
        }
        Ok(())
    }

    /// True if the future was dropped: nobody wants the value.
    pub fn is_closed(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) == CLOSED
    }
}

impl<T, R: Runtime> Drop for Promise<T, R> {
    fn drop(&mut self) {
        self.shared.finish(BROKEN);
    }
}

impl<T, R: Runtime> Future<T, R> {
    /// Waits for the value.
    ///
    /// # Errors
    /// If the promise is broken or the thread was cancelled.
    pub fn get(self) -> Result<T, GetError> {
        self.wait()?;
        self.take()
    }

    /// Waits for the value at most so long.
    ///
    /// # Errors
    /// With the future, if the value can still come (a time-out or a cancellation); without it, if the promise is
    /// broken.
    pub fn get_timeout(self, timeout: Duration) -> Result<T, (Option<Self>, GetError)> {
        match self.wait_timeout(timeout) {
            Ok(()) => self.take().map_err(|error| (None, error)),
            Err(error) => Err((Some(self), error)),
        }
    }

    /// The value if it is there.
    ///
    /// # Errors
    /// With the future, if it is not.
    pub fn try_get(self) -> Result<T, Result<Self, GetError>> {
        if self.is_ready() { self.take().map_err(Err) } else { Err(Ok(self)) }
    }

    /// Waits until [`Future::get`] will not wait.
    ///
    /// # Errors
    /// If the thread was cancelled.
    pub fn wait(&self) -> Result<(), GetError> {
        self.shared.wait(Patience::CANCELLABLE).map_err(Self::error)
    }

    /// Waits, at most so long, until [`Future::get`] will not wait.
    ///
    /// # Errors
    /// If the time-out passed or the thread was cancelled.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), GetError> {
        self.shared.wait(Patience::timeout::<R::Machine>(timeout)).map_err(Self::error)
    }

    /// True when [`Future::get`] will not wait.
    pub fn is_ready(&self) -> bool {
        matches!(self.shared.ready(), SET | BROKEN)
    }

    fn error(error: WaitError) -> GetError {
        match error {
            WaitError::TimedOut => GetError::TimedOut,
            WaitError::Cancelled => GetError::Cancelled,
        }
    }

    /// Takes the value; the state is `SET` or `BROKEN`.
    fn take(self) -> Result<T, GetError> {
        let state = self.shared.ready();
        debug_assert!(matches!(state, SET | BROKEN));
        // The drop finds `BROKEN`: the value is not there any more.
        self.shared.state.store(BROKEN, Ordering::Relaxed);
        if state == SET {
            // SAFETY: `SET` gave the value to the future, which ends here; the store above says that it is taken.
            return Ok(unsafe { (*self.shared.value.get()).assume_init_read() });
        }
        Err(GetError::Broken)
    }
}

impl<T, R: Runtime> Drop for Future<T, R> {
    fn drop(&mut self) {
        // Ordering[oneshot.state]: Acquire. Pairs with `finish`. Makes visible: the value, to drop it.
        let closing = self.shared.state.compare_exchange(EMPTY, CLOSED, Ordering::Relaxed, Ordering::Acquire);
        if closing == Err(SET) {
            // SAFETY: `SET` gave the value to the future, which ends here.
            unsafe { (*self.shared.value.get()).assume_init_drop() };
        }
    }
}

impl<T, R: Runtime> fmt::Debug for Promise<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}

impl<T, R: Runtime> fmt::Debug for Future<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Future").field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}
