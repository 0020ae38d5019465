//! A buffer of one cell: a bounded channel of one message, and what a rendezvous passes its messages through.
//!
//! One word says what the cell holds and who is at it, so an operation is two exchanges of one word. Rejected: two
//! rings of one slot each ([`mod@super::bounded`]), which is what a larger buffer needs so that nobody waits for a
//! thread that stands still in a cell; who holds the only cell holds up the others in both.
//!
//! Roles: any thread sends or receives.
//!
//! The word counts steps; its two lowest bits are the phase:
//!
//! | phase | the cell | goes on by |
//! |---|---|---|
//! | `FREE` | holds nothing | a sender, which claims it |
//! | 1 | is being written | that sender, when the message is in it |
//! | `FULL` | holds a message | a receiver, which claims it (or the sender, which takes its message back) |
//! | 3 | is being read | that receiver: `FREE`, a round later |
//!
//! Invariants:
//! - I1: in the phases 1 and 3 the cell belongs to whoever claimed it, and nobody else writes the word.
//! - I2: a word occurs once (it grows by one with each step), so whoever sent a message knows by the word of then
//!   whether that one is still there.
//!
//! Progress: lock-free, as the larger buffer for its last cell: a kernel thread frozen in a phase of its own holds the
//! one place there is; others find the channel full, or empty.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `single.state` | [`Single::push`], [`Single::pop`] | the other one |

use raddle_machine::{Atomic, Machine, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

const PHASE: u64 = 3;
const FREE: u64 = 0;
const FULL: u64 = 2;

/// See the module.
pub(super) struct Single<T, M: Machine> {
    state: M::Atomic<u64>,
    cell: Box<UnsafeCell<MaybeUninit<T>>>,
}

// SAFETY: the cell is reached only by the thread that has claimed it (I1), and the word goes on with release and
// acquire; so messages need Send and no more.
unsafe impl<T: Send, M: Machine> Sync for Single<T, M> {}
// SAFETY: a message goes with the buffer: T: Send; the rest is an atomic.
unsafe impl<T: Send, M: Machine> Send for Single<T, M> {}

impl<T, M: Machine> Single<T, M> {
    pub fn new() -> Self {
        Self { state: M::Atomic::new(FREE), cell: Box::new(UnsafeCell::new(MaybeUninit::uninit())) }
    }

    /// Claims the cell in the phase `from`, if it is in that; the word that it had.
    #[inline(always)]
    fn claim(&self, from: u64) -> Option<u64> {
        let mut word = self.state.load(Ordering::Relaxed);
        while word & PHASE == from {
            // Ordering[single.state]: Acquire. Pairs with `go_on`. Makes visible: the message, or that it was read.
            match self.state.compare_exchange(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(word),
                Err(now) => word = now,
            }
        }
        None
    }

    /// The cell, claimed at `word`, goes on to the phase after the claimed one; the word from then on.
    #[inline(always)]
    fn go_on(&self, word: u64) -> u64 {
        // Ordering[single.state]: SeqCst. Pairs with `claim`. Makes visible: what was done with the cell. SeqCst so
        // that a waker needs no fence (`raddle_queues::wait_list::Queue::is_empty`), be it for room, for a message, or
        // for the end of a rendezvous: whoever missed the claim has missed this, too.
        self.state.swap(word + 2, Ordering::SeqCst);
        word + 2
    }

    /// Adds a message, by whose answer [`Single::withdraw`] finds it; gives it back when there is no place.
    #[inline]
    pub fn push(&self, value: T) -> Result<u64, T> {
        let Some(word) = self.claim(FREE) else { return Err(value) };
        // SAFETY: claimed, so the cell is this call's (I1), and holds no message.
        unsafe { (*self.cell.get()).write(value) };
        Ok(self.go_on(word))
    }

    /// Takes the message.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.claim(FULL).map(|word| self.take(word))
    }

    /// Takes back the message that was pushed as `position`, unless it has been received.
    pub fn withdraw(&self, position: u64) -> Option<T> {
        // Relaxed: the message is the caller's own, of which nobody has taken anything.
        let claim = self.state.compare_exchange(position, position + 1, Ordering::Relaxed, Ordering::Relaxed);
        claim.is_ok().then(|| self.take(position))
    }

    #[inline(always)]
    fn take(&self, word: u64) -> T {
        // SAFETY: claimed at `FULL`, so the cell is the caller's (I1), and a sender has written it.
        let value = unsafe { (*self.cell.get()).assume_init_read() };
        self.go_on(word);
        value
    }

    /// True if the message that was pushed as `position` is gone, or going.
    pub fn is_taken(&self, position: u64) -> bool {
        // Relaxed: its sender wants nothing of what the receiver did.
        self.state.load(Ordering::Relaxed) != position
    }

    /// True when no message is there (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: who takes a message acquires it.
        self.state.load(Ordering::Relaxed) & PHASE != FULL
    }

    /// True when no place is there (racy).
    pub fn is_full(&self) -> bool {
        // Relaxed: as for `is_empty`.
        self.state.load(Ordering::Relaxed) & PHASE != FREE
    }
}

impl<T, M: Machine> Drop for Single<T, M> {
    fn drop(&mut self) {
        drop(self.pop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;
    use std::sync::Arc;

    #[test]
    fn a_message_is_taken_once_by_its_receiver_or_its_sender() {
        let single = Single::<_, Real>::new();
        let message = Arc::new(1);
        for _ in 0..3 {
            assert!(single.is_empty() && !single.is_full() && single.pop().is_none());
            let first = single.push(message.clone()).unwrap();
            assert!(!single.is_empty() && single.is_full() && !single.is_taken(first));
            assert!(single.push(message.clone()).is_err());
            assert_eq!(single.pop(), Some(message.clone()));
            assert!(single.is_taken(first) && single.withdraw(first).is_none());
            let second = single.push(message.clone()).unwrap();
            // By the word of an older message a newer one is not found.
            assert!(single.is_taken(first) && single.withdraw(first).is_none());
            assert_eq!(single.withdraw(second), Some(message.clone()));
            assert!(single.is_taken(second) && single.pop().is_none());
        }
        single.push(message.clone()).unwrap();
        drop(single);
        assert_eq!(Arc::strong_count(&message), 1);
    }

    #[test]
    fn each_message_reaches_one_of_several_receivers() {
        let single = Single::<Box<u32>, Real>::new();
        let (threads, each) = (2, if cfg!(miri) { 30 } else { 5_000 });
        let sum: u32 = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for i in 1..=each {
                        let mut message = Box::new(i);
                        while let Err(back) = single.push(message) {
                            message = back;
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let receive = || {
                let next = || loop {
                    match single.pop() {
                        Some(message) => return *message,
                        None => std::thread::yield_now(),
                    }
                };
                (0..each).map(|_| next()).sum::<u32>()
            };
            let receivers: Vec<_> = (0..threads).map(|_| scope.spawn(receive)).collect();
            receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum()
        });
        assert_eq!(sum, threads * each * (each + 1) / 2);
    }
}
