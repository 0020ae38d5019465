//! The word of a semaphore: `LEFT:1 | waiters:31 | value:32`.
//!
//! Source: our own; the layout is the C library's.
//!
//! Invariant: nobody sleeps while the value is not 0 and no wake-up is under way. Who is about to sleep is in the
//! waiters' half before it compares the value's half with 0; a post changes the same word, so it finds the waiter
//! counted, and wakes one, or the waiter finds the value. Of several posts each wakes one.
//!
//! `LEFT`: the last post has left its permit for the one that it wakes, and who comes by gives way before it takes it.
//! It is a request: whoever takes one clears it, and nothing depends on it.
//!
//! Progress: taking is lock-free; a waiter may starve where no post leaves it a permit, since others barge.
//! [`SemaphoreWord::post`] may come from a signal handler. After its exchange the semaphore may be gone.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.semaphore` | [`SemaphoreWord::post`]: what was done before | [`SemaphoreWord::take`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::semaphore::SemaphoreWord;
//! let word = SemaphoreWord::<raddle_machine::Real>::new(1);
//! assert!(word.take() && !word.take());
//! word.post(|| false, |_| unreachable!("nobody waits")).unwrap();
//! assert!(word.take());
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const LEFT: u64 = 1 << 63;
const WAITER: u64 = 1 << 32;
const VALUE: u64 = WAITER - 1;
const MOST: u64 = i32::MAX as u64;

/// See the module.
#[repr(transparent)]
pub struct SemaphoreWord<M: Machine>(M::Atomic<u64>);

/// A post would make the value larger than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflows;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept<E> {
    /// It is worth looking again.
    LookAgain,
    /// The waiter is to give up unless a wake-up came with that: then what it stands for is taken.
    Interrupted(E),
    /// It gives up, and has consumed no wake-up.
    Over(E),
}

impl<M: Machine> SemaphoreWord<M> {
    /// With that value.
    pub fn new(value: u32) -> Self {
        Self(M::Atomic::new(u64::from(value)))
    }

    /// The word, the low half of which waiters sleep on while it is 0.
    #[inline(always)]
    pub fn word(&self) -> &M::Atomic<u64> {
        &self.0
    }

    /// Takes one if there is one.
    #[inline(always)]
    pub fn take(&self) -> bool {
        self.take_and_leave(0, 0)
    }

    /// Takes one if there is one that is left for nobody.
    #[inline(always)]
    pub fn take_unless_left(&self) -> bool {
        self.take_and_leave(0, LEFT)
    }

    /// Whether the last post has left its permit for a waiter.
    pub fn is_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LEFT != 0
    }

    #[inline(always)]
    fn take_and_leave(&self, waiter: u64, blocks: u64) -> bool {
        let mut data = self.0.load(Ordering::Relaxed);
        while data & VALUE != 0 && data & blocks == 0 {
            let new = (data & !LEFT) - 1 - waiter;
            // Ordering[words.semaphore]: Acquire. Pairs with `post`. Makes visible: what was done before it.
            match self.0.compare_exchange_weak(data, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => data = now,
            }
        }
        false
    }

    /// A waiter counts itself in.
    pub fn arrive(&self) {
        // Relaxed: the same word as the value's.
        self.0.fetch_add(WAITER, Ordering::Relaxed);
    }

    /// A waiter counts itself out.
    pub fn leave(&self) {
        self.0.fetch_sub(WAITER, Ordering::Relaxed);
    }

    /// Takes one, sleeping while there is none. `sleep` sleeps while the value's half is 0; the caller is counted in
    /// meanwhile.
    ///
    /// # Errors
    /// What `sleep` says.
    #[inline]
    pub fn wait_for<E>(&self, mut sleep: impl FnMut(&Self) -> Slept<E>) -> Result<(), E> {
        self.arrive();
        loop {
            if self.take_and_leave(WAITER, 0) {
                return Ok(());
            }
            let error = match sleep(self) {
                Slept::LookAgain => continue,
                Slept::Interrupted(_) if self.take_and_leave(WAITER, 0) => return Ok(()),
                Slept::Interrupted(error) | Slept::Over(error) => error,
            };
            self.leave();
            return Err(error);
        }
    }

    /// Adds one; `wake` wakes one that sleeps on the word, which is a name only by then. Where somebody waits, `leaves`
    /// says whether the permit is left for the one that is woken.
    ///
    /// # Errors
    /// [`Overflows`].
    #[inline(always)]
    pub fn post(&self, leaves: impl FnOnce() -> bool, wake: impl FnOnce(usize)) -> Result<(), Overflows> {
        let address = std::ptr::from_ref(self).addr();
        let mut data = self.0.load(Ordering::Relaxed);
        let left = if data >= WAITER && leaves() { LEFT } else { 0 };
        loop {
            if data & VALUE == MOST {
                return Err(Overflows);
            }
            // Ordering[words.semaphore]: Release. Pairs with `take`. Makes visible: what was done before.
            // Point of no return: the semaphore may be gone.
            match self.0.compare_exchange_weak(data, (data + 1) | left, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => data = now,
            }
        }
        if data & !LEFT >= WAITER {
            wake(address);
        }
        Ok(())
    }
}
