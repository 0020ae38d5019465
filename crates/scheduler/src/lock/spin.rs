//! Test-and-set with exponential back-off.
//!
//! Source: Unrau et al., section 3.1 and figure 3c; T. Anderson, *The Performance of Spin Lock Alternatives for
//! Shared-Memory Multiprocessors*, 1990. Differs: whether a waiter reads before it swaps, and whether the lock is freed
//! by a swap (as on hardware where a word that is swapped must not be stored to), are parameters.
//!
//! Roles: anyone locks. Words: `held`: 0 or 1. A waiter pauses, at first `first` spin hints, then twice as many each
//! time, at most `cap`.
//!
//! Invariants: I1. Who swaps 0 for 1 holds the lock, and nobody else writes 0.
//!
//! Progress: blocking. Fairness: none; a waiter that has come to long pauses is overtaken by those who have just come
//! (with 16 processors, a hold of 25 µs and a cap of 2 ms the paper saw over 13 % of the acquisitions take longer than
//! 2 ms). Memory: none.
//!
//! Edges: `spin` store of 0 → swap of 1 (the value).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Lock, Spin};
//! let lock = Lock::<u32, Spin<Real>, Real>::with_algorithm(Spin::with_caps(8, 64), 3);
//! assert_eq!(lock.with(|value| *value), 3);
//! // Who must not wait tries: inside, nobody else is there.
//! assert_eq!(lock.with(|_| lock.try_with(|_| ())), None);
//! assert_eq!(lock.try_with(|value| *value), Some(3));
//! ```

use super::{Algorithm, Inside, Lock};
use raddle_machine::{Atomic, Machine, Ordering};

/// Pauses in spin hints: up to 25 µs (a hint takes 24 ns on an AMD EPYC), where the paper has 35 for locks that are
/// seldom wanted. Measured there on two busy cores, first pauses of 1 to 64 and caps of 16 to 16,384, 2 and 4 kernel
/// threads: the processor time of a turn differs by less than the rounds do, but that the least and the largest cap
/// take most where the lock is held for a microsecond (3.5 and 4.7 µs, all others 2.4 to 3.4; 2026-11-27).
const FIRST: u32 = 4;
const CAP: u32 = 1024;

/// See the module. `TEST`: read before each swap, which cached machines like; `SWAP`: free by a swap.
pub struct Spin<M: Machine, const TEST: bool = true, const SWAP: bool = false> {
    held: M::Atomic<u32>,
    first: u32,
    cap: u32,
}

impl<M: Machine, const TEST: bool, const SWAP: bool> Spin<M, TEST, SWAP> {
    /// Pauses from `first` to `cap` spin hints.
    pub fn with_caps(first: u32, cap: u32) -> Self {
        Self { held: M::Atomic::new(0), first: first.max(1), cap: cap.max(1) }
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    pub(super) fn try_once(&self) -> bool {
        // Ordering[spin]: Acquire. Pairs with the unlock's store or swap. Makes visible: the value.
        self.held.swap(1, Ordering::Acquire) == 0
    }

    #[cold]
    #[inline(never)]
    fn contend(&self) {
        let mut pause = self.first;
        loop {
            (0..pause).for_each(|_| M::spin_hint());
            pause = pause.saturating_mul(2).min(self.cap);
            if (!TEST || self.held.load(Ordering::Relaxed) == 0) && self.try_once() {
                return;
            }
        }
    }
}

impl<T: ?Sized, M: Machine, const TEST: bool, const SWAP: bool> Lock<T, Spin<M, TEST, SWAP>, M> {
    /// Calls `f` with the value, alone, if nobody has the lock just now; waits for nobody. None if somebody has it. A
    /// panic in `f` unlocks.
    #[inline]
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.algorithm.try_once() {
            return None;
        }
        let _inside = Inside::<Spin<M, TEST, SWAP>, M> { algorithm: &self.algorithm, node: &() };
        // SAFETY: the lock is ours (I1) until `_inside` is dropped, which the reference does not outlive.
        Some(f(unsafe { &mut *self.value.get() }))
    }
}

// SAFETY: by I1 one at a time; the orderings are tagged.
unsafe impl<M: Machine, const TEST: bool, const SWAP: bool> Algorithm<M> for Spin<M, TEST, SWAP> {
    type Node = ();

    fn new() -> Self {
        Self::with_caps(FIRST, CAP)
    }

    fn node() {}

    #[inline(always)]
    unsafe fn lock(&self, (): &()) {
        if !self.try_once() {
            self.contend();
        }
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): &()) {
        if SWAP {
            // Ordering[spin]: Release. Pairs with the swap in `try_once`. Makes visible: the value.
            self.held.swap(0, Ordering::Release);
        } else {
            // Ordering[spin]: Release. Pairs with the swap in `try_once`. Makes visible: the value.
            self.held.store(0, Ordering::Release);
        }
    }

    /// Nobody tells.
    fn is_awaited(&self, (): &()) -> bool {
        false
    }
}
