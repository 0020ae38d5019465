//! A value behind a lock, for the policies that are there to be measured against the lock-free ones.
//!
//! Source: the mutex of three states of U. Drepper, "Futexes Are Tricky", 2011, section 5. Differs: the value is
//! inside, and is reached through a closure, so that nobody keeps the lock while a thread is switched.
//!
//! Roles: anyone locks. A kernel thread that finds the lock held sleeps in the kernel; nobody spins.
//!
//! Words: `word`: 0 free, 1 held, 2 held and somebody may sleep.
//!
//! | transition | actor |
//! |---|---|
//! | 0 → 1 | who locks without a contender |
//! | any → 2 | who found it held; it has the lock if this was 0 |
//! | 1, 2 → 0 | the holder; from 2 it wakes one sleeper |
//!
//! Invariants: I1. One kernel thread at a time is inside: who exchanges 0 for another state has the lock. I2. Who
//! sleeps has left a 2 behind, and each holder that was preceded by a sleeper locks with 2, so that the last sleeper is
//! woken, too.
//!
//! Progress: **blocking**: who freezes inside keeps everybody out until it thaws. Each policy that is made of this says
//! so under what it strands. Memory: none of its own.
//!
//! Edges: `locked` exchange to 0 → exchange from 0 (the value).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::locked::Locked;
//! let list = Locked::<Vec<u32>, Real>::new(Vec::new());
//! list.with(|list| list.push(3));
//! assert_eq!(list.with(|list| list.pop()), Some(3));
//! ```

use crate::pad::Padded;
use raddle_machine::{Atomic, Machine, Ordering};
use std::cell::UnsafeCell;

/// The value and its lock.
pub struct Locked<T, M: Machine> {
    word: Padded<M::Atomic<u32>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one kernel thread at a time (I1), each of which may be another: T: Send.
unsafe impl<T: Send, M: Machine> Sync for Locked<T, M> {}
// SAFETY: the value goes with it.
unsafe impl<T: Send, M: Machine> Send for Locked<T, M> {}

/// Gives the lock up, also when the closure panics.
struct Inside<'a, M: Machine>(&'a M::Atomic<u32>);

impl<M: Machine> Drop for Inside<'_, M> {
    fn drop(&mut self) {
        // Ordering[locked]: Release. Pairs with the exchanges in `with`. Makes visible: the value.
        if self.0.swap(0, Ordering::Release) == 2 {
            M::wake(self.0, 1);
        }
    }
}

impl<T, M: Machine> Locked<T, M> {
    /// The value, free.
    pub fn new(value: T) -> Self {
        Self { word: Padded(M::Atomic::new(0)), value: UnsafeCell::new(value) }
    }

    /// Calls `f` with the value, alone. `f` must neither lock it again nor switch to another thread.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // Ordering[locked]: Acquire. Pairs with the holder's exchange. Makes visible: the value.
        if self.word.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.contend();
        }
        let _inside = Inside::<M>(&self.word.0);
        // SAFETY: we are alone inside until `_inside` is dropped (I1), and the reference does not outlive the call.
        f(unsafe { &mut *self.value.get() })
    }

    #[cold]
    fn contend(&self) {
        // Ordering[locked]: Acquire. Pairs with the holder's exchange. Makes visible: the value.
        while self.word.0.swap(2, Ordering::Acquire) != 0 {
            M::wait(&self.word.0, 2, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn a_panic_inside_frees_it() {
        let locked = Locked::<u32, Real>::new(1);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| locked.with(|_| panic!("inside"))));
        assert!(caught.is_err());
        assert_eq!(locked.with(|value| *value), 1);
    }

    #[test]
    fn kernel_threads_take_turns() {
        const EACH: u64 = if cfg!(miri) { 50 } else { 1000 };
        let locked = std::sync::Arc::new(Locked::<u64, Real>::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let locked = locked.clone();
                std::thread::spawn(move || (0..EACH).for_each(|_| locked.with(|value| *value += 1)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(locked.with(|value| *value), 4 * EACH);
    }
}
