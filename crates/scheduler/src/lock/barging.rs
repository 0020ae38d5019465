//! [`crate::sync::Mutex`]'s algorithm in a [`super::Lock`]: no order, parked waiters, fast where holds are short. A
//! holder that panics unlocks and poisons nothing, so neither end asks whether its thread panics.
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
use std::cell::UnsafeCell;

/// See the module.
pub struct Barging<R: Runtime>(RawMutex<R>);

/// The holder's name, kept from the lock for the unlock: no atomic, so that it can stay in a register.
pub struct Name(UnsafeCell<u64>);

// SAFETY: touched by `lock` and `unlock` alone, between which a node is given to nobody else.
unsafe impl Sync for Name {}

// SAFETY: the mutex excludes, and its edges are told in its file.
unsafe impl<R: Runtime> Algorithm<R::Machine> for Barging<R> {
    type Node = Name;

    fn new() -> Self {
        Self(RawMutex::default())
    }

    #[inline(always)]
    fn node() -> Name {
        Name(UnsafeCell::new(0))
    }

    #[inline(always)]
    unsafe fn lock(&self, node: &Name) {
        let name = self.0.lock_for_bits();
        // SAFETY: the caller gives the node to nobody else until it has unlocked.
        unsafe { *node.0.get() = name };
    }

    #[inline(always)]
    unsafe fn unlock(&self, node: &Name) {
        // SAFETY: as in `lock`; written there.
        let name = unsafe { *node.0.get() };
        // SAFETY: locked by the calling thread, as the caller promises, whose name this is.
        unsafe { self.0.unlock_as(name) };
    }

    /// The mutex does not tell.
    fn is_awaited(&self, _: &Name) -> bool {
        false
    }
}
