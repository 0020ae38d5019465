//! Synchronisation primitives, each written once over a [`Runtime`](crate::Runtime).
//!
//! They have std's names and shapes. What is added: every wait has a form with a time-out and a form that cancellation
//! ends, and both endings are values. The forms with std's signatures that cannot express a cancellation are masked
//! from it.
//!
//! Who owes a wake-up: whoever makes a condition true first writes it (one read-modify-write that also tells whether
//! anyone ever waited), then pops waiters until it claims one ([`waiters`]). A waiter publishes itself, fences and
//! looks at the condition once more before it sleeps. A woken waiter *tries* before it gives up, so a wake-up is never
//! lost with a thread that returns a time-out: either it takes what it was woken for, or somebody else has taken it,
//! who owes the next wake-up.
//!
//! Wake-ups are hints: no primitive hands anything over with one, except where it says so with [`Wake::Granted`].
//!
//! What a kernel thread frozen inside an operation strands: the waiter that it has popped and not yet made ready, and
//! what it holds itself (the mutex it is unlocking, the message it is sending). Others go on.
//!
//! [`Wake::Granted`]: crate::Wake::Granted
//!
//! # Example
//! ```
//! use raddle_scheduler::sync::Semaphore;
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! use std::sync::Arc;
//! let permits = Arc::new(Semaphore::<KernelThreads>::with_permits(0));
//! let giver = permits.clone();
//! let giving = std::thread::spawn(move || giver.release(1));
//! permits.acquire(1);
//! giving.join().unwrap();
//! assert_eq!(permits.available(), 0);
//! ```

pub mod address;
pub mod barrier;
pub mod channel;
pub mod condvar;
pub mod gate;
#[doc(hidden)]
pub mod kernel_threads;
pub mod monitor;
pub mod mutex;
pub mod once;
pub mod oneshot;
pub mod rwlock;
pub mod select;
pub mod semaphore;
pub mod waiters;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitResult, WaitTimeoutResult};
pub use monitor::{Monitor, MonitorGuard};
pub(crate) use mutex::RawMutex;
pub use mutex::{LockError, Mutex, MutexGuard};
pub use once::{Once, OnceLock, OnceState};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use core::time::Duration;
use raddle_machine::Machine;

/// Why a wait that can end early did so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The time-out passed.
    TimedOut,
    /// The calling thread's cancellation was requested.
    Cancelled,
}

impl std::fmt::Display for WaitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WaitError::TimedOut => "the wait timed out",
            WaitError::Cancelled => "the wait was cancelled",
        })
    }
}

impl std::error::Error for WaitError {}

/// The time on the machine's clock at which a wait of `timeout` that begins now ends; `None` if that is beyond its
/// range.
pub(crate) fn deadline<M: Machine>(timeout: Duration) -> Option<u64> {
    u64::try_from(timeout.as_nanos()).ok()?.checked_add(M::now())
}

/// How a wait may end besides by its condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub deadline: Option<u64>,
    pub cancellable: bool,
}

impl Patience {
    /// Waits for ever, also when cancellation is requested.
    pub const MASKED: Self = Self { deadline: None, cancellable: false };
    /// Waits until it is cancelled.
    pub const CANCELLABLE: Self = Self { deadline: None, cancellable: true };

    /// Waits for so long, or until it is cancelled.
    pub fn timeout<M: Machine>(timeout: Duration) -> Self {
        Self { deadline: deadline::<M>(timeout), cancellable: true }
    }
}
