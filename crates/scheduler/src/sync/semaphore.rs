//! A counting semaphore.
//!
//! One word: `WAITED:1 | LEFT:1 | many:30 | permits:32`; `WAITED` once a thread has ever waited, `many` the number of
//! threads that wait for more than one permit.
//!
//! Who owes a wake-up: a release of k permits wakes k waiters, or all while one of them wants several: these then see
//! for themselves who can go on. Acquiring barges, so a waiter for many permits can starve behind a stream of takers of
//! one. One that was too late again after a quantum says so, as of a mutex ([`super::mutex`]): then a release leaves
//! its permits for whom it wakes (`LEFT`), and who comes by gives way once before it takes them. Whoever takes some
//! clears the bit, on which nothing else depends.
//!
//! Invariants:
//! - I1: a thread asleep for one permit while one is free does not last: each release after it has looked pops a
//!   waiter, who tries after that release; the permits of those releases are gone only when each was taken by such a
//!   waiter or by another thread that came along, and in the latter case the counter was lower by that much.
//! - I2: a releaser that does not see `WAITED` (or `many`) adds its permits before the waiter's look, which then sees
//!   them.
//!
//! Progress: lock-free. A kernel thread frozen in `release` holds at most one waiter, and k-1 wake-ups.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `semaphore.state` | `release`, and a waiter that sets `WAITED` | `acquire`, and the release that sees `WAITED` |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # type Semaphore = raddle_scheduler::sync::Semaphore<KernelThreads>;
//! static PLACES: Semaphore = Semaphore::new(3);
//! let place = PLACES.enter(1);
//! assert!(!PLACES.try_acquire(3));
//! drop(place);
//! assert!(PLACES.try_acquire(3));
//! ```

use super::waiters::{Queue, Waiters};
use super::{Patience, WaitError};
use crate::runtime::Runtime;
use crate::thread::Wake;
use core::time::Duration;
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

const WAITED: u64 = 1 << 63;
const LEFT: u64 = 1 << 62;
const MANY: u64 = 1 << 32;

fn permits(word: u64) -> u32 {
    word as u32
}
fn many(word: u64) -> u64 {
    (word & !(WAITED | LEFT)) / MANY
}

/// See the module.
pub struct Semaphore<R: Runtime> {
    state: <R::Machine as Machine>::Atomic<u64>,
    waiters: Waiters<R>,
}

impl<R: Runtime<Machine = Real>> Semaphore<R> {
    /// A semaphore with so many permits.
    pub const fn new(permits: u32) -> Self {
        Self { state: RealAtomic::<u64>::constant(permits as u64), waiters: Waiters::new() }
    }
}

impl<R: Runtime> Semaphore<R> {
    /// A semaphore with so many permits, on any machine.
    pub fn with_permits(permits: u32) -> Self {
        Self { state: <R::Machine as Machine>::Atomic::new(permits as u64), waiters: Waiters::default() }
    }

    /// Takes `count` permits if they are there.
    #[inline]
    pub fn try_acquire(&self, count: u32) -> bool {
        self.take(count, 0)
    }

    /// As [`Semaphore::try_acquire`] while the word has no bit that `blocks`.
    #[inline]
    fn take(&self, count: u32, blocks: u64) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        while permits(word) >= count && word & blocks == 0 {
            let new = (word & !LEFT) - count as u64;
            // Ordering[semaphore.state]: Acquire. Pairs with `release`. Makes visible: what was done before it.
            match self.state.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes `count` permits, waiting for them. Masked from cancellation.
    #[inline]
    pub fn acquire(&self, count: u32) {
        if !self.take(count, LEFT) {
            self.acquire_slow(count, Patience::MASKED).expect("a masked wait without a deadline ended early");
        }
    }

    /// Takes `count` permits, waiting for them at most so long, or until the thread is cancelled.
    ///
    /// # Errors
    /// If they were not had; none are taken then.
    pub fn acquire_timeout(&self, count: u32, timeout: Duration) -> Result<(), WaitError> {
        if self.take(count, LEFT) {
            return Ok(());
        }
        self.acquire_slow(count, Patience::timeout::<R::Machine>(timeout))
    }

    /// Takes `count` permits, waiting for them until the thread is cancelled.
    ///
    /// # Errors
    /// If they were not had; none are taken then.
    pub fn acquire_cancellable(&self, count: u32) -> Result<(), WaitError> {
        if self.take(count, LEFT) {
            return Ok(());
        }
        self.acquire_slow(count, Patience::CANCELLABLE)
    }

    #[cold]
    fn acquire_slow(&self, count: u32, patience: Patience) -> Result<(), WaitError> {
        // Gives way, once, to whom permits are left for.
        if self.state.load(Ordering::Relaxed) & LEFT != 0 {
            R::yield_now();
        }
        if count > 1 {
            // Relaxed: a releaser that misses it adds its permits before, and `look` sees them (I2).
            self.state.fetch_add(MANY, Ordering::Relaxed);
        }
        let (mut woken, mut too_late) = (false, None);
        let result = loop {
            if self.try_acquire(count) {
                break Ok(());
            }
            if woken {
                self.waiters.was_too_late(&mut too_late);
            }
            R::note_wait("a semaphore", std::ptr::from_ref(self).addr(), None);
            match self.waiters.wait(patience, || self.announce(count)) {
                Ok(wake) => woken |= wake == Wake::Signalled,
                Err(error) => break Err(error),
            }
        };
        if count > 1 {
            self.state.fetch_sub(MANY, Ordering::Relaxed);
        }
        result
    }

    /// After publishing: true if the permits are there; otherwise releasers know from now on that somebody waits.
    fn announce(&self, count: u32) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        while permits(word) < count {
            if word & WAITED != 0 {
                return false;
            }
            // Relaxed: the wait's fence comes before (wait.look); with it whoever reads the mark in `release` sees that
            // the list has a queue.
            match self.state.compare_exchange_weak(word, word | WAITED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
        true
    }

    /// Adds permits.
    ///
    /// # Panics
    /// If there would be more than `u32::MAX`.
    #[inline]
    pub fn release(&self, count: u32) {
        // Ordering[semaphore.state]: Acquire. Pairs with the fence before `look`. Makes visible: the list's queue.
        let mut word = self.state.load(Ordering::Acquire);
        let mut left = None;
        let (queue, word) = loop {
            assert!(permits(word).checked_add(count).is_some(), "a semaphore with more than u32::MAX permits");
            let queue = (word & WAITED != 0).then(|| self.waiters.queue());
            let left = match queue {
                Some(_) => *left.get_or_insert_with(|| if self.waiters.somebody_starved() { LEFT } else { 0 }),
                None => 0,
            };
            let new = (word + count as u64) | left;
            // Ordering[semaphore.state]: SeqCst. Pairs with `try_acquire`. Makes visible: what was done before. SeqCst
            // so that no fence is needed (`raddle_queues::wait_list::Queue::is_empty`).
            // Point of no return: who takes the permit may free the semaphore.
            match self.state.compare_exchange_weak(word, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => break (queue, word),
                Err(now) => word = now,
            }
        };
        if let Some(queue) = queue {
            Self::wake(queue, count, many(word) > 0);
        }
    }

    #[cold]
    fn wake(queue: Queue<R>, count: u32, all: bool) {
        R::Machine::light_fence();
        if all { queue.wake_all() } else { queue.wake_many(count as usize) }
    }

    /// How many permits there are (racy).
    pub fn available(&self) -> u32 {
        permits(self.state.load(Ordering::Relaxed))
    }

    /// Takes `count` permits, waiting for them, and gives them back when the result is dropped. Masked from
    /// cancellation.
    pub fn enter(&self, count: u32) -> Permit<'_, R> {
        self.acquire(count);
        Permit { semaphore: self, count }
    }
}

impl<R: Runtime> std::fmt::Debug for Semaphore<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

/// Permits that return to their semaphore when this is dropped.
#[must_use = "dropping a permit gives it back at once"]
#[derive(Debug)]
pub struct Permit<'a, R: Runtime> {
    semaphore: &'a Semaphore<R>,
    count: u32,
}

impl<R: Runtime> Permit<'_, R> {
    /// Keeps the permits: they do not return.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl<R: Runtime> Drop for Permit<'_, R> {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::kernel_threads::KernelThreads;

    #[test]
    fn who_takes_permits_takes_the_mark_away_that_they_are_left_for_another_one() {
        let semaphore = Semaphore::<KernelThreads>::new(0);
        for take in [|s: &Semaphore<_>| s.acquire(1), |s: &Semaphore<_>| assert!(s.try_acquire(1))] {
            semaphore.state.store(WAITED | LEFT | (3 * MANY) | 2, Ordering::Relaxed);
            assert_eq!(many(semaphore.state.load(Ordering::Relaxed)), 3);
            take(&semaphore);
            assert_eq!(semaphore.state.load(Ordering::Relaxed), WAITED | (3 * MANY) | 1);
        }
    }
}
