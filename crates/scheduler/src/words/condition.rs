//! The words of a condition variable: a number to sleep on, and how many wait.
//!
//! Source: our own.
//!
//! A waiter counts itself in and notes the number while it holds the mutex, gives the mutex up, and sleeps while the
//! number is what it was. A signal raises the number and wakes one.
//!
//! Invariants:
//! - I1: no signal is lost: a waiter that has noted the number and does not sleep yet sees that it was raised. Whoever
//!   makes the condition true after a waiter noted the number holds the mutex after it, so it sees the waiter counted,
//!   and raises the number after that.
//! - I2: who destroys goes on when all have left: a waiter's last access is [`Condition::leave`]; a signal's is the
//!   raise.
//!
//! Progress: a signal is wait-free. (A number that comes again after 2^32 signals while one goes to sleep is taken for
//! the old one.)
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.leave` | [`Condition::leave`] | [`Condition::destroy`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::condition::Condition;
//! let condition = Condition::<raddle_machine::Real>::default();
//! condition.signal(|_| unreachable!("nobody waits"));
//! let number = condition.arrive();
//! condition.signal(|_| ());
//! assert!(condition.was_signalled(number));
//! condition.leave(|_| unreachable!("nobody destroys it"));
//! condition.destroy(|_, _| unreachable!("nobody waits"));
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const DESTROYING: u32 = 1;
const WAITER: u32 = 2;

/// See the module.
#[repr(C)]
pub struct Condition<M: Machine> {
    sequence: M::Atomic<u32>,
    /// Waiters that have not left yet, times two; the lowest bit: somebody waits to destroy.
    waiters: M::Atomic<u32>,
}

impl<M: Machine> Default for Condition<M> {
    fn default() -> Self {
        Self { sequence: M::Atomic::new(0), waiters: M::Atomic::new(0) }
    }
}

impl<M: Machine> Condition<M> {
    /// The number that waiters sleep on.
    #[inline(always)]
    pub fn sequence(&self) -> &M::Atomic<u32> {
        &self.sequence
    }

    /// The caller, which holds the mutex, is about to wait while the number is as answered.
    #[inline]
    pub fn arrive(&self) -> u32 {
        // Relaxed, both: whoever makes the condition true after us holds the mutex after us, and raises the number
        // after that.
        self.waiters.fetch_add(WAITER, Ordering::Relaxed);
        self.sequence.load(Ordering::Relaxed)
    }

    /// True if the number was raised since.
    #[inline]
    pub fn was_signalled(&self, before: u32) -> bool {
        // Relaxed: the mutex, which the waiter takes then, orders the rest.
        self.sequence.load(Ordering::Relaxed) != before
    }

    /// The last access of a waiter; `wake` wakes whoever destroys.
    #[inline]
    pub fn leave(&self, wake: impl FnOnce(usize)) {
        let address = std::ptr::from_ref(&self.waiters).addr();
        // Ordering[words.leave]: Release. Pairs with `destroy`. Makes visible: that the waiter is through with the
        // object.
        // Point of no return: it may be gone.
        if self.waiters.fetch_sub(WAITER, Ordering::Release) == WAITER | DESTROYING {
            wake(address);
        }
    }

    /// The condition may have come true; `wake` wakes those who sleep on the number, which is a name only by then.
    #[inline]
    pub fn signal(&self, wake: impl FnOnce(usize)) {
        // Relaxed: a waiter that was there when the condition came true is counted: it did that holding the mutex.
        if self.waiters.load(Ordering::Relaxed) < WAITER {
            return;
        }
        let address = std::ptr::from_ref(&self.sequence).addr();
        // Ordering[words.signal]: Release. Pairs with the look of whoever sleeps on the number. Makes visible: what was
        // done before.
        // Not weakened: what makes the condition true goes by the mutex.
        // Point of no return: the object may be gone.
        self.sequence.fetch_add(1, Ordering::Release);
        wake(address);
    }

    /// Nobody begins to wait any more: goes on when all have left. `sleep` sleeps while the word is as given.
    pub fn destroy(&self, mut sleep: impl FnMut(&M::Atomic<u32>, u32)) {
        // Ordering[words.leave]: Acquire. Pairs with `leave`. Makes visible: that the waiters are through with it.
        let mut waiters = self.waiters.fetch_or(DESTROYING, Ordering::Acquire) | DESTROYING;
        while waiters >= WAITER {
            sleep(&self.waiters, waiters);
            // Ordering[words.leave]: Acquire. Pairs with `leave`. Makes visible: that the waiters are through with it.
            waiters = self.waiters.load(Ordering::Acquire);
        }
        self.waiters.store(0, Ordering::Relaxed);
    }
}
