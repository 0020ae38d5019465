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
//! - I2: who destroys goes on when all have left ([`Visitors`]): a waiter's last access is [`Condition::leave`]; a
//!   signal's is the raise.
//! - I3: a signal is not spent on a stranger: among those that sleep some may have come after it. Sleepers of one kind
//!   are woken in the order in which they came, those of different kinds in none, so one of each kind is woken.
//!
//! Progress: a signal is wait-free. (A number that comes again after 2^32 signals while one goes to sleep is taken for
//! the old one.)
//!
//! # Example
//! ```
//! use raddle_scheduler::words::{Sleepers, condition::Condition};
//! struct Nobody;
//! impl Sleepers for Nobody {
//!     fn wake(&self, _: usize, _: usize) -> usize {
//!         unreachable!("nobody destroys it")
//!     }
//!     fn wake_each(&self, _: usize, count: usize) {
//!         assert_eq!(count, 1);
//!     }
//! }
//! let condition = Condition::<raddle_machine::Real>::default();
//! let number = condition.arrive();
//! condition.signal(1, &Nobody);
//! assert!(condition.was_signalled(number));
//! condition.leave(&Nobody);
//! condition.destroy(|_, _| unreachable!("nobody waits"));
//! ```
#![forbid(unsafe_code)]

use super::Sleepers;
use super::visitors::Visitors;
use raddle_machine::{Atomic, Machine, Ordering};

/// See the module.
#[repr(C)]
pub struct Condition<M: Machine> {
    sequence: M::Atomic<u32>,
    /// Waiters that have not left yet.
    waiters: Visitors<M>,
}

impl<M: Machine> Default for Condition<M> {
    fn default() -> Self {
        Self { sequence: M::Atomic::new(0), waiters: Visitors::default() }
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
        self.waiters.arrive();
        self.sequence.load(Ordering::Relaxed)
    }

    /// True if the number was raised since.
    #[inline]
    pub fn was_signalled(&self, before: u32) -> bool {
        // Relaxed: the mutex, which the waiter takes then, orders the rest.
        self.sequence.load(Ordering::Relaxed) != before
    }

    /// The last access of a waiter.
    #[inline]
    pub fn leave(&self, sleepers: &impl Sleepers) {
        self.waiters.leave(sleepers);
    }

    /// The condition may have come true, for so many; `sleepers` are those who sleep on the number, which is a name
    /// only by then.
    #[inline]
    pub fn signal(&self, count: usize, sleepers: &impl Sleepers) {
        // A waiter that was there when the condition came true is counted: it did that holding the mutex.
        if !self.waiters.any() {
            return;
        }
        let address = std::ptr::from_ref(&self.sequence).addr();
        // Ordering[words.signal]: Release. Pairs with the look of whoever sleeps on the number. Makes visible: what was
        // done before.
        // Not weakened: what makes the condition true goes by the mutex.
        // Point of no return: the object may be gone.
        self.sequence.fetch_add(1, Ordering::Release);
        sleepers.wake_each(address, count);
    }

    /// Nobody begins to wait any more: goes on when all have left. `sleep` sleeps while the word is as given.
    pub fn destroy(&self, sleep: impl FnMut(&M::Atomic<u32>, u32)) {
        self.waiters.destroy(sleep);
    }
}
