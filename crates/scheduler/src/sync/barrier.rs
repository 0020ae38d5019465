//! A point that threads pass together: std's `Barrier`, whose waits may also end early.
//!
//! One word: `round:32 | WAITED:1 | arrived:31`. The last thread to arrive begins the next round and wakes the others,
//! who wait for the round to change. A thread that gives up takes its arrival back, unless the round has changed: then
//! it has passed.
//!
//! Progress: lock-free but for threads that have not arrived. A kernel thread frozen between the new round and the
//! wake-ups holds the threads that sleep for it.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `barrier.state` | arrivals, and a waiter that sets `WAITED` | the last arrival, and who sees the new round |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # type Barrier = raddle_scheduler::sync::Barrier<KernelThreads>;
//! static TWO: Barrier = Barrier::new(2);
//! let other = std::thread::spawn(|| TWO.wait().is_leader());
//! let leader = TWO.wait().is_leader();
//! assert!(leader != other.join().unwrap());
//! ```

use super::waiters::Waiters;
use super::{Patience, WaitError};
use crate::runtime::Runtime;
use core::time::Duration;
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

const WAITED: u64 = 1 << 31;
const ARRIVED: u64 = WAITED - 1;
const ROUND: u64 = 1 << 32;

/// See the module.
pub struct Barrier<R: Runtime> {
    state: <R::Machine as Machine>::Atomic<u64>,
    threads: u64,
    waiters: Waiters<R>,
}

/// Whether a thread was the last to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for one thread of each round.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

/// As many as can be counted.
const fn clamp(threads: usize) -> u64 {
    match threads as u64 {
        0 => 1,
        threads if threads > ARRIVED => ARRIVED,
        threads => threads,
    }
}

impl<R: Runtime<Machine = Real>> Barrier<R> {
    /// A barrier for so many threads; 0 is taken for 1.
    pub const fn new(threads: usize) -> Self {
        Self { state: RealAtomic::<u64>::constant(0), threads: clamp(threads), waiters: Waiters::new() }
    }
}

impl<R: Runtime> Barrier<R> {
    /// A barrier for so many threads, on any machine.
    pub fn with_threads(threads: usize) -> Self {
        Self { state: <R::Machine as Machine>::Atomic::new(0), threads: clamp(threads), waiters: Waiters::default() }
    }

    /// Waits until all have arrived. Masked from cancellation.
    pub fn wait(&self) -> BarrierWaitResult {
        self.wait_with(|| Patience::MASKED).expect("a masked wait without a deadline ended early")
    }

    /// Waits until all have arrived, at most so long, or until the thread is cancelled.
    ///
    /// # Errors
    /// If it did not pass; its arrival does not count any more.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<BarrierWaitResult, WaitError> {
        self.wait_with(|| Patience::timeout::<R::Machine>(timeout))
    }

    /// Waits until all have arrived or the thread is cancelled.
    ///
    /// # Errors
    /// If it did not pass; its arrival does not count any more.
    pub fn wait_cancellable(&self) -> Result<BarrierWaitResult, WaitError> {
        self.wait_with(|| Patience::CANCELLABLE)
    }

    fn wait_with(&self, patience: impl FnOnce() -> Patience) -> Result<BarrierWaitResult, WaitError> {
        // Ordering[barrier.state]: Acquire. Pairs with `look`. Makes visible: the list's queue.
        let mut word = self.state.load(Ordering::Acquire);
        let round = loop {
            let last = (word & ARRIVED) + 1 == self.threads;
            let queue = (last && word & WAITED != 0).then(|| self.waiters.queue());
            let new = if last { (word & !ARRIVED).wrapping_add(ROUND) } else { word + 1 };
            // Ordering[barrier.state]: SeqCst. Pairs with itself and `passed`. Makes visible: what was done before
            // arriving. SeqCst so that no fence is needed (`raddle_queues::wait_list::Queue::is_empty`).
            // Point of no return, for the last: who passes may free the barrier.
            match self.state.compare_exchange_weak(word, new, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) if last => {
                    if let Some(queue) = queue {
                        R::Machine::light_fence();
                        queue.wake_all();
                    }
                    return Ok(BarrierWaitResult(true));
                }
                Ok(_) => break word / ROUND,
                Err(now) => word = now,
            }
        };
        let patience = patience();
        while !self.passed(round) {
            R::note_wait("a barrier", std::ptr::from_ref(self).addr(), None);
            match self.waiters.wait(patience, || self.announce(round)) {
                Ok(_) => {}
                Err(_) if !self.take_back(round) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(BarrierWaitResult(false))
    }

    fn passed(&self, round: u64) -> bool {
        // Ordering[barrier.state]: Acquire. Pairs with the arrivals. Makes visible: what the others did before.
        self.state.load(Ordering::Acquire) / ROUND != round
    }

    /// After publishing: true if the round is over; otherwise the last to arrive knows that somebody sleeps.
    fn announce(&self, round: u64) -> bool {
        let mut word = self.state.load(Ordering::Relaxed);
        while word / ROUND == round {
            if word & WAITED != 0 {
                return false;
            }
            // Ordering[barrier.state]: Release. Pairs with the last arrival. Makes visible: that the list has a queue.
            // Not weakened: the waiter's fence between publishing and this look does it too (ThreadSanitizer knows no
            // fences).
            match self.state.compare_exchange_weak(word, word | WAITED, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
        true
    }

    /// Takes an arrival back; false if the round is over.
    fn take_back(&self, round: u64) -> bool {
        let mut word = self.state.load(Ordering::Acquire);
        while word / ROUND == round {
            // Ordering[barrier.state]: Acquire, on failure. Pairs with the arrivals. Makes visible: what the others did
            // before. Success passes nothing on, and carries the arrivals' releases.
            match self.state.compare_exchange_weak(word, word - 1, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

impl<R: Runtime> std::fmt::Debug for Barrier<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Barrier").field("threads", &self.threads).finish_non_exhaustive()
    }
}
