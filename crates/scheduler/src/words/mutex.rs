//! The word of a mutex.
//!
//! Source: the three states of Drepper, *Futexes Are Tricky* (2011), section 6. Differs from the paper: one that was
//! woken takes the mutex as nobody's if it sees nobody else asleep, so that the last one does not wake in vain.
//!
//! | word | meaning | becomes |
//! |---|---|---|
//! | 0 | free | 1 by a locker; 2 by one that was woken and leaves others asleep |
//! | 1 | held | 0 by its holder; 2 by a thread that is about to sleep |
//! | 2 | held, others may sleep | 0 by its holder, who then wakes one |
//!
//! Invariant: a thread that sleeps (it published itself and then saw 2) is covered by the 2 in the word of a holder, by
//! an unlocker that has stored 0 and not yet woken anybody, or by a woken thread that has not yet taken the mutex or
//! stored 2 again. Proof: the unlocker of a 2 wakes one; that one takes the mutex with 1 only if it sees nobody asleep,
//! read before its exchange. A sleeper that it missed saw 2 after the unlocker's 0 (else the unlocker's fence makes its
//! publication visible to the woken one), so a later holder has the 2. A time-out ends a wait only if it consumed no
//! wake-up.
//!
//! Progress: the lock barges; a waiter may starve. After the exchange in [`MutexWord::release`] the mutex may be gone.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.mutex` | [`MutexWord::release`] | [`MutexWord::try_acquire`], [`MutexWord::wait_for`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::mutex::MutexWord;
//! let word = MutexWord::<raddle_machine::Real>::default();
//! assert!(word.try_acquire() && !word.try_acquire());
//! word.release(|_| unreachable!("nobody waits"));
//! assert!(!word.is_held());
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// What those who sleep compare the word with.
pub const WAITED_FOR: u32 = 2;

/// See the module.
#[repr(transparent)]
pub struct MutexWord<M: Machine>(M::Atomic<u32>);

impl<M: Machine> Default for MutexWord<M> {
    fn default() -> Self {
        Self(M::Atomic::new(FREE))
    }
}

impl<M: Machine> MutexWord<M> {
    /// The word that waiters sleep on.
    #[inline(always)]
    pub fn word(&self) -> &M::Atomic<u32> {
        &self.0
    }

    /// True while somebody holds it (racy).
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// True while others may sleep (racy).
    #[inline(always)]
    pub fn is_waited_for(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WAITED_FOR
    }

    /// Takes it if it is free.
    #[inline(always)]
    pub fn try_acquire(&self) -> bool {
        // Ordering[words.mutex]: Acquire. Pairs with `release`. Makes visible: what the last holder did.
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it, sleeping while it is held. `sleep` sleeps while the word is [`WAITED_FOR`], and says whether it may
    /// have consumed a wake-up, or why it gives up, having consumed none; `others_sleep` says whether anybody seems to.
    ///
    /// # Errors
    /// What `sleep` says.
    #[inline]
    pub fn wait_for<E>(
        &self,
        others_sleep: impl Fn() -> bool,
        mut sleep: impl FnMut(&M::Atomic<u32>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut woken = false;
        loop {
            let word = self.0.load(Ordering::Relaxed);
            let new = match word {
                // Whether others sleep is read before the exchange (module).
                FREE if woken && others_sleep() => WAITED_FOR,
                FREE => HELD,
                _ => WAITED_FOR,
            };
            // Ordering[words.mutex]: Acquire. Pairs with `release`. Makes visible: what the last holder did.
            let exchanged = || self.0.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if word != WAITED_FOR && !exchanged() {
                continue;
            }
            if word == FREE {
                return Ok(());
            }
            woken |= sleep(&self.0)?;
        }
    }

    /// The holder gives it up; `wake` wakes one that sleeps on the word, which is a name only by then.
    #[inline(always)]
    pub fn release(&self, wake: impl FnOnce(usize)) {
        let address = std::ptr::from_ref(self).addr();
        // Ordering[words.mutex]: Release. Pairs with whoever takes it next. Makes visible: what the holder did.
        // Point of no return: the mutex may be gone.
        if self.0.swap(FREE, Ordering::Release) == WAITED_FOR {
            wake(address);
        }
    }
}
