//! The word of an initialisation that runs once: 0 not yet, 2 done (the C library's value), in progress: 1 and the
//! number of forks behind the process, times four.
//!
//! Source: our own.
//!
//! | word | becomes | by |
//! |---|---|---|
//! | not yet | in progress | who comes first |
//! | in progress | done | that one, when the initialiser has returned |
//! | in progress | not yet | that one, when the initialiser has left otherwise |
//! | in progress before a fork | in progress | who comes first in the child: what other threads were at is not in progress there |
//!
//! Invariant: who is told that it is done sees what the initialiser did; one initialiser at a time. Who sleeps compares
//! the word with what it was, and each change away from "in progress" wakes all.
//!
//! Progress: waiting is blocking while an initialiser runs. After [`OnceWord::end`] the word may be gone.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.once` | [`OnceWord::end`] | [`OnceWord::begin`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::once::OnceWord;
//! let word = OnceWord::<raddle_machine::Real>::default();
//! assert!(word.begin(|| 0, |_, _| unreachable!("nobody else is here")));
//! word.end(true, |_| ());
//! assert!(!word.begin(|| 0, |_, _| unreachable!("it is done")));
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const NOT_YET: u32 = 0;
const IN_PROGRESS: u32 = 1;
const DONE: u32 = 2;
const FORK: u32 = 4;

/// See the module.
#[repr(transparent)]
pub struct OnceWord<M: Machine>(M::Atomic<u32>);

impl<M: Machine> Default for OnceWord<M> {
    fn default() -> Self {
        Self(M::Atomic::new(NOT_YET))
    }
}

impl<M: Machine> OnceWord<M> {
    /// True if it is done.
    #[inline(always)]
    pub fn is_done(&self) -> bool {
        // Ordering[words.once]: Acquire. Pairs with `end`. Makes visible: what the initialiser did.
        self.0.load(Ordering::Acquire) == DONE
    }

    /// True if the caller is to run the initialiser and say how it [ended](OnceWord::end); false when it is done.
    /// `forks` says how many forks are behind this process; `sleep` sleeps while the word is as given.
    #[inline]
    pub fn begin(&self, forks: impl Fn() -> u32, mut sleep: impl FnMut(&M::Atomic<u32>, u32)) -> bool {
        loop {
            // Ordering[words.once]: Acquire. Pairs with `end`. Makes visible: what the initialiser did.
            let state = self.0.load(Ordering::Acquire);
            if state == DONE {
                return false;
            }
            let mine = IN_PROGRESS | forks().wrapping_mul(FORK);
            if state == mine {
                sleep(&self.0, state);
                continue;
            }
            // Ordering[words.once]: Acquire. Pairs with `end`. Makes visible: what an initialiser did that left.
            if self.0.compare_exchange(state, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// The caller's initialiser has ended, or left; `wake` wakes all that sleep on the word, which is a name only by
    /// then.
    #[inline]
    pub fn end(&self, done: bool, wake: impl FnOnce(usize)) {
        let address = std::ptr::from_ref(self).addr();
        // An exchange: the model's sleepers compare by one, and loom orders a plain store among those in ways that no
        // machine does.
        // Ordering[words.once]: Release. Pairs with `begin`. Makes visible: what the initialiser did.
        self.0.swap(if done { DONE } else { NOT_YET }, Ordering::Release);
        wake(address);
    }
}
