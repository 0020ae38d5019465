//! The word of a mutex.
//!
//! Source: the three states of Drepper, *Futexes Are Tricky* (2011), section 6. Differs from the paper: one that was
//! woken takes the mutex as nobody's if it sees nobody else asleep, so that the last one does not wake in vain; and the
//! fourth state.
//!
//! | word | meaning | becomes |
//! |---|---|---|
//! | 0 | free | 1 by a locker; 2 by one that was woken and leaves others asleep |
//! | 1 | held | 0 by its holder; 2 by a thread that is about to sleep |
//! | 2 | held, others may sleep | 0 or 3 by its holder, who then wakes one |
//! | 3 | free, left for the woken one | as 0, but a locker that comes by offers its processor first |
//!
//! Invariant: a thread that sleeps (it published itself and then saw 2) is covered by the 2 in the word of a holder, by
//! an unlocker that has stored 0 or 3 and not yet woken anybody, or by a woken thread that has not yet taken the mutex
//! or stored 2 again. Proof: the unlocker of a 2 wakes one; that one takes the mutex with 1 only if it sees nobody
//! asleep, read before its exchange. A sleeper that it missed saw 2 after the unlocker's store (else the unlocker's
//! fence makes its publication visible to the woken one), so a later holder has the 2. A time-out ends a wait only if
//! it consumed no wake-up. What is free may be taken by anybody: 3 is a request, so nothing depends on who follows it.
//!
//! Progress: the lock barges. A waiter that was woken too late again and again asks that the mutex be left for it; it
//! has it then if lockers give way. After the exchange in [`MutexWord::release`] the mutex may be gone.
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
//! word.release(|| false, |_| unreachable!("nobody waits"));
//! assert!(!word.is_held());
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// What those who sleep compare the word with.
pub const WAITED_FOR: u32 = 2;
/// Free, for one that was woken.
pub const LEFT: u32 = 3;

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
        !matches!(self.0.load(Ordering::Relaxed), FREE | LEFT)
    }

    /// True while it is free for one that was woken (racy).
    #[inline(always)]
    pub fn is_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LEFT
    }

    /// Takes it if it is left for another one.
    pub fn try_acquire_left(&self) -> bool {
        // Ordering[words.mutex]: Acquire. Pairs with `release`. Makes visible: what the last holder did.
        self.is_left() && self.0.compare_exchange(LEFT, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
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
                FREE | LEFT if woken && others_sleep() => WAITED_FOR,
                FREE | LEFT => HELD,
                _ => WAITED_FOR,
            };
            // Ordering[words.mutex]: Acquire. Pairs with `release`. Makes visible: what the last holder did.
            let exchanged = || self.0.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if word != WAITED_FOR && !exchanged() {
                continue;
            }
            if matches!(word, FREE | LEFT) {
                return Ok(());
            }
            woken |= sleep(&self.0)?;
        }
    }

    /// The holder gives it up; `wake` wakes one that sleeps on the word, which is a name only by then. `leaves` says,
    /// while the caller still holds it, whether it is left for that one.
    #[inline(always)]
    pub fn release(&self, leaves: impl FnOnce() -> bool, wake: impl FnOnce(usize)) {
        // Ordering[words.mutex]: Release. Pairs with whoever takes it next. Makes visible: what the holder did.
        // Point of no return: the mutex may be gone.
        if let Err(word) = self.0.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed) {
            self.release_to_waiters(word, leaves, wake);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_to_waiters(&self, word: u32, leaves: impl FnOnce() -> bool, wake: impl FnOnce(usize)) {
        // One that nobody holds stays as it is, as with the C library.
        if word != WAITED_FOR {
            return;
        }
        let address = std::ptr::from_ref(self).addr();
        let free = if leaves() { LEFT } else { FREE };
        // Ordering[words.mutex]: Release. Pairs with whoever takes it next. Makes visible: what the holder did.
        // Point of no return: the mutex may be gone.
        // An exchange: a store would need that the exchange that failed before it has shown the newest value.
        if self.0.swap(free, Ordering::Release) == WAITED_FOR {
            wake(address);
        }
    }
}
