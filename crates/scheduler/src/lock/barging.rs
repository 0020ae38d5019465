//! [`crate::sync::Mutex`]'s algorithm in a [`super::Lock`]: no order, parked waiters, fast where holds are short.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Barging, Lock};
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! assert_eq!(Lock::<u32, Barging<KernelThreads>, Real>::new(1).with(|value| *value), 1);
//! ```

use super::Algorithm;
use crate::runtime::Runtime;
use crate::sync::RawMutex;

/// See the module.
pub struct Barging<R: Runtime>(RawMutex<R>);

// SAFETY: the mutex excludes, and its edges are told in its file.
unsafe impl<R: Runtime> Algorithm<R::Machine> for Barging<R> {
    type Node = ();

    fn new() -> Self {
        Self(RawMutex::default())
    }

    fn node() {}

    #[inline]
    unsafe fn lock(&self, (): &()) {
        self.0.lock_masked();
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // SAFETY: locked by the calling thread, as the caller promises.
        unsafe { self.0.unlock(false) };
    }

    /// The mutex does not tell.
    fn is_awaited(&self, (): &()) -> bool {
        false
    }
}
