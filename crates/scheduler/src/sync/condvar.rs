//! Waiting, with a mutex given up, until another thread says that something has changed: std's `Condvar`.
//!
//! A waiter publishes itself while it holds the mutex, gives the mutex up, and sleeps; so a notifier that holds, or has
//! since held, the mutex finds it. A notification is a claim: it wakes one thread that is still waiting, never one that
//! is about to return a time-out; so `Err(WaitError::TimedOut)` means that no notification was consumed.
//!
//! Spurious wake-ups happen, as with std's: on a masked cancellation, and when there is no memory to wait in.
//!
//! Progress: `notify_one` and `notify_all` are lock-free. A kernel thread frozen in one holds at most one waiter.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `list.link` | the waiter's publication | the notifier's pop |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # type Mutex<T> = raddle_scheduler::sync::Mutex<T, KernelThreads>;
//! # type Condvar = raddle_scheduler::sync::Condvar<KernelThreads>;
//! static OPEN: Mutex<bool> = Mutex::new(false);
//! static CHANGED: Condvar = Condvar::new();
//! let opener = std::thread::spawn(|| {
//!     *OPEN.lock().unwrap() = true;
//!     CHANGED.notify_one();
//! });
//! let open = CHANGED.wait_while(OPEN.lock().unwrap(), |open| !*open).unwrap();
//! assert!(*open);
//! # opener.join().unwrap();
//! ```

use super::mutex::MutexGuard;
use super::waiters::Waiters;
use super::{LockResult, Patience, PoisonError, WaitError};
use crate::code_of_program;
use crate::runtime::Runtime;
use core::time::Duration;
use raddle_machine::Real;

/// See the module.
pub struct Condvar<R: Runtime> {
    waiters: Waiters<R>,
}

/// Whether a timed wait ended by its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time-out passed and no notification was consumed.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A guard, and how the wait for it went; poisoned if the mutex is.
pub type WaitResult<'a, T, R> = LockResult<(MutexGuard<'a, T, R>, Result<(), WaitError>)>;

impl<R: Runtime<Machine = Real>> Condvar<R> {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { waiters: Waiters::new() }
    }
}

impl<R: Runtime> Default for Condvar<R> {
    fn default() -> Self {
        Self { waiters: Waiters::default() }
    }
}

impl<R: Runtime> std::fmt::Debug for Condvar<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

impl<R: Runtime> Condvar<R> {
    /// Gives the mutex up, waits for a notification, takes the mutex again.
    fn sleep<T: ?Sized>(&self, guard: &MutexGuard<'_, T, R>, patience: Patience) -> (Result<(), WaitError>, bool) {
        let mut unlocked = false;
        R::note_wait("a condition variable", std::ptr::from_ref(self).addr(), None);
        let waited = self.waiters.wait(patience, || {
            // SAFETY: relocked below before the guard is used.
            unsafe { guard.unlock_for_a_while() };
            unlocked = true;
            false
        });
        // Not given up: the thread was cancelled before, or there was no memory to wait in.
        let poisoned = if unlocked { guard.relock() } else { guard.mutex().is_poisoned() };
        (waited.map(drop), poisoned)
    }

    /// Waits for a notification. Masked from cancellation, as its signature cannot tell of one.
    ///
    /// # Errors
    /// If the mutex is poisoned; the guard is inside the error.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T, R>) -> LockResult<MutexGuard<'a, T, R>> {
        match self.sleep(&guard, Patience::MASKED) {
            (_, false) => Ok(guard),
            (_, true) => Err(PoisonError::new(guard)),
        }
    }

    /// Waits until `condition` is false.
    ///
    /// # Errors
    /// If the mutex is poisoned.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T, R>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T, R>> {
        while code_of_program::call_with(&mut condition, &mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits for a notification, at most so long. Masked from cancellation.
    ///
    /// # Errors
    /// If the mutex is poisoned.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T, R>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T, R>, WaitTimeoutResult)> {
        let patience = Patience { cancellable: false, ..Patience::timeout::<R::Machine>(timeout) };
        let (waited, poisoned) = self.sleep(&guard, patience);
        let result = (guard, WaitTimeoutResult(waited == Err(WaitError::TimedOut)));
        if poisoned { Err(PoisonError::new(result)) } else { Ok(result) }
    }

    /// As [`Condvar::wait_timeout`], in milliseconds; true unless they have passed. An old form that std has, too.
    ///
    /// # Errors
    /// If the mutex is poisoned.
    #[deprecated = "replaced by `wait_timeout`, as in std"]
    pub fn wait_timeout_ms<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T, R>,
        milliseconds: u32,
    ) -> LockResult<(MutexGuard<'a, T, R>, bool)> {
        let in_time = |(guard, waited): (MutexGuard<'a, T, R>, WaitTimeoutResult)| (guard, !waited.timed_out());
        self.wait_timeout(guard, Duration::from_millis(milliseconds.into()))
            .map(in_time)
            .map_err(|poisoned| PoisonError::new(in_time(poisoned.into_inner())))
    }

    /// Waits until `condition` is false, at most so long; `timed_out` if it is still true then.
    ///
    /// # Errors
    /// If the mutex is poisoned.
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T, R>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T, R>, WaitTimeoutResult)> {
        let patience = Patience { cancellable: false, ..Patience::timeout::<R::Machine>(timeout) };
        let mut timed_out = false;
        loop {
            if !code_of_program::call_with(&mut condition, &mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if timed_out {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let (waited, poisoned) = self.sleep(&guard, patience);
            timed_out = waited == Err(WaitError::TimedOut);
            if poisoned {
                return Err(PoisonError::new((guard, WaitTimeoutResult(timed_out))));
            }
        }
    }

    /// Waits for a notification, at most so long if there is a time-out, or until the thread is cancelled. The mutex is
    /// taken again in any case.
    ///
    /// # Errors
    /// If the mutex is poisoned.
    pub fn wait_cancellable<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T, R>,
        timeout: Option<Duration>,
    ) -> WaitResult<'a, T, R> {
        let patience = timeout.map_or(Patience::CANCELLABLE, Patience::timeout::<R::Machine>);
        let (waited, poisoned) = self.sleep(&guard, patience);
        if poisoned { Err(PoisonError::new((guard, waited))) } else { Ok((guard, waited)) }
    }

    /// Wakes one thread that waits, if any does.
    pub fn notify_one(&self) {
        self.waiters.queue().wake_one();
    }

    /// Wakes all threads that wait now.
    pub fn notify_all(&self) {
        self.waiters.queue().wake_all();
    }
}
