//! How many threads an owner still waits for: the end of a scope.
//!
//! Source: our own.
//!
//! Roles: the *owner*, who adds threads, or lets those add that are counted, and waits; the *threads*, each of which
//! finishes once.
//!
//! The word is `mark:40 | count:24`: how many threads have not finished, and, once the owner has waited, the low bits
//! of that wait's epoch plus one.
//!
//! | change | by |
//! |---|---|
//! | count + 1 | the owner, or a thread that is counted itself ([`Countdown::add`]) |
//! | count − 1 | a thread, as the last that it does here ([`Countdown::finish`]); or whoever has added, if no thread came of it |
//! | mark | the owner, before it looks whether the count is 0 and sleeps |
//!
//! Invariants:
//! - I1: the owner goes on only when the count is 0, whatever ended its wait: it looks again.
//! - I2: whose exchange brings the count to 0 finds the mark of the owner's wait, or the owner finds 0. Both exchange
//!   the same word, so one is first.
//! - I3: it wakes no other wait of the owner, which may have found 0 by itself and be somewhere else: it claims the
//!   epoch that it compared with the mark. (A mark comes again after 2^40 waits.)
//!
//! Progress: wait-free but for the owner, who waits, and for retries of its exchange.
//!
//! Reclamation: the word goes when the owner goes on. `finish` touches it once and no more; the owner's record, which
//! it touches then, is type-stable.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `countdown.word` | [`Countdown::finish`]: all that the threads did | the owner's looks |
//! | `countdown.word` | the owner's exchange: its armed wait | [`Countdown::finish`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::Runtime;
//! use raddle_scheduler::countdown::Countdown;
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! // SAFETY: the record is used for the owner's waits here.
//! let owner = unsafe { KernelThreads::current() };
//! let count = Countdown::<KernelThreads>::new();
//! assert!(count.add(3));
//! std::thread::scope(|s| {
//!     // SAFETY: the owner's record; once for each that was added.
//!     s.spawn(|| unsafe { count.finish(owner) });
//!     // SAFETY: by the owner.
//!     unsafe { count.wait() };
//!     assert!(count.is_over());
//! });
//! ```

use crate::runtime::{Runtime, Word, wait_until};
use crate::thread::{Claim, Thread, Wake};
use raddle_machine::{Atomic, Ordering};

const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const MARK: u64 = (1 << (u64::BITS - COUNT_BITS)) - 1;

/// The most that a count may be: far enough below its width for all who may overshoot together.
pub const LIMIT: u64 = 1 << (COUNT_BITS - 1);

/// See the module.
pub struct Countdown<R: Runtime> {
    word: Word<R, u64>,
}

impl<R: Runtime> Default for Countdown<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Runtime> Countdown<R> {
    /// Of nobody yet.
    #[inline]
    pub fn new() -> Self {
        Self { word: Word::<R, u64>::new(0) }
    }

    /// One more is waited for. False if that would be more than `limit` (at most [`LIMIT`]).
    #[inline]
    pub fn add(&self, limit: u64) -> bool {
        // Relaxed: the spawn publishes it; only the way down orders anything.
        let fits = self.word.fetch_add(1, Ordering::Relaxed) & COUNT < limit;
        if !fits {
            self.take_back();
        }
        fits
    }

    /// Of what was added no thread has come. Called where another one is counted, or by the owner, so that nobody waits
    /// for this.
    #[inline]
    pub fn take_back(&self) {
        // Relaxed: it did nothing.
        self.word.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if nobody is waited for.
    #[inline]
    pub fn is_over(&self) -> bool {
        // Ordering[countdown.word]: Acquire. Pairs with `finish`. Makes visible: all that the threads did.
        self.word.load(Ordering::Acquire) & COUNT == 0
    }

    /// A thread has done all that it does here: after its exchange the owner goes on, and this is gone.
    ///
    /// # Safety
    /// Once for each that was added. `owner` is the record of the thread that waits.
    #[inline]
    pub unsafe fn finish(&self, owner: &'static Thread<R::Machine>) {
        // Ordering[countdown.word]: AcqRel. Pairs with `is_over`, and with the owner's exchange. Makes visible: there
        // all that the thread did, here the armed wait.
        // Point of no return: the word may be gone.
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        let mark = before >> COUNT_BITS;
        if before & COUNT == 1
            && mark != 0
            && let Some(wait) = owner.current_wait()
            && (wait.to_bits() + 1) & MARK == mark
            && owner.claim(wait, Wake::Signalled) == Claim::WonParked
        {
            // SAFETY: the claim was won just now.
            unsafe { R::make_ready(owner) };
        }
    }

    /// Blocks the owner until nobody is waited for; no cancellation ends that.
    ///
    /// # Safety
    /// Called by the thread whose record is given to [`Countdown::finish`].
    #[cold]
    pub unsafe fn wait(&self) {
        while !self.is_over() {
            R::note_wait("the end of its scope's threads", std::ptr::from_ref(self).addr(), None);
            // SAFETY: whoever finishes last claims the epoch that it finds in the word.
            unsafe {
                wait_until::<R>(None, false, |_, epoch| self.set_mark((epoch.to_bits() + 1) & MARK), || self.is_over())
            };
        }
    }

    fn set_mark(&self, mark: u64) {
        // Relaxed: validated by the exchange.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let new = word & COUNT | mark << COUNT_BITS;
            // Ordering[countdown.word]: Release. Pairs with `finish`. Makes visible: the armed wait.
            match self.word.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::kernel_threads::KernelThreads;

    #[test]
    fn more_than_the_limit_are_refused_and_forgotten() {
        let count = Countdown::<KernelThreads>::new();
        assert!(count.add(2) && count.add(2) && !count.add(2) && !count.is_over());
        count.take_back();
        assert!(count.add(2) && !count.add(2));
        count.take_back();
        count.take_back();
        assert!(count.is_over());
    }
}
