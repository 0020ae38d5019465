//! A thread's token: it waits for one, others leave one.
//!
//! Source: std's `park` and `unpark`.
//!
//! Roles: the *owner*, who parks, known from its first wait on; *unparkers*, any number.
//!
//! | word | set by | meaning |
//! |---|---|---|
//! | 0 | the owner | nothing |
//! | 1 | an unparker | a token |
//! | `(epoch + 1) << 1` | the owner, from 0 | it waits, or has waited, in that epoch |
//!
//! Invariants:
//! - I1: a token is not lost: the owner's exchange from 0 fails where one is, and its look after that sees it; an
//!   unparker's exchange finds the epoch, and claims it.
//! - I2: an unparker that comes late claims an epoch that is over, which fails. So it ends no other wait of the owner.
//!
//! Progress: wait-free but for the owner, who waits. Nothing is reclaimed: records are type-stable, and who unparks
//! holds the word.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `parker.word` | [`Parker::unpark`]: what was done before | [`Parker::park`], which takes the token |
//! | `parker.word` | the owner's exchange: its armed wait | [`Parker::unpark`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::parker::Parker;
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! let parker = Parker::<KernelThreads>::new();
//! std::thread::scope(|s| {
//!     s.spawn(|| parker.unpark());
//!     // SAFETY: only the calling thread parks there.
//!     unsafe { parker.park(None) };
//! });
//! ```

use crate::runtime::{Runtime, Word, wait_until, wake};
use crate::thread::{Epoch, Thread, Wake};
use raddle_machine::{Atomic, Ordering};
use std::sync::OnceLock;

const EMPTY: u64 = 0;
const TOKEN: u64 = 1;

/// See the module.
pub struct Parker<R: Runtime> {
    /// Set before the first wait is published in the word.
    owner: OnceLock<&'static Thread<R::Machine>>,
    word: Word<R, u64>,
}

impl<R: Runtime> Default for Parker<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Runtime> Parker<R> {
    /// Of the thread that will park there, without a token.
    pub fn new() -> Self {
        Self { owner: OnceLock::new(), word: Word::<R, u64>::new(EMPTY) }
    }

    /// Blocks until there is a token, and takes it. May return for no reason, when the owner is cancelled, for one, or
    /// at the deadline.
    ///
    /// # Safety
    /// Called by one thread only, the owner, whose waits here may be ended by whoever has this.
    pub unsafe fn park(&self, deadline: Option<u64>) {
        if self.take() {
            return;
        }
        // SAFETY: kept here, where its waits in `park` are claimed only.
        self.owner.get_or_init(|| unsafe { R::current() });
        R::note_wait("a token from unpark", std::ptr::from_ref(self).addr(), None);
        let publish = |_: &'static Thread<R::Machine>, epoch: Epoch| {
            let waiting = (epoch.to_bits() + 1) << 1;
            // Ordering[parker.word]: Release. Pairs with `unpark`. Makes visible: the armed wait. Failed, Relaxed:
            // there is a token, which `ready` sees.
            let _ = self.word.compare_exchange(EMPTY, waiting, Ordering::Release, Ordering::Relaxed);
        };
        // Relaxed: who goes on takes it below.
        let ready = || self.word.load(Ordering::Relaxed) == TOKEN;
        // SAFETY: the unparker claims the epoch that it finds in the word.
        unsafe { wait_until::<R>(deadline, true, publish, ready) };
        // Whatever ended the wait, a token that is there is taken with it.
        self.take();
    }

    /// True if there was a token.
    fn take(&self) -> bool {
        // Ordering[parker.word]: Acquire. Pairs with `unpark`. Makes visible: what was done before it.
        self.word.swap(EMPTY, Ordering::Acquire) == TOKEN
    }

    /// Leaves a token, and wakes the owner if it waits for one. Tokens do not add up.
    pub fn unpark(&self) {
        // Ordering[parker.word]: AcqRel. Pairs with `take`, and with the exchange in `park`. Makes visible: there what
        // the caller did, here the armed wait.
        let before = self.word.swap(TOKEN, Ordering::AcqRel);
        if before > TOKEN
            && let Some(owner) = self.owner.get()
        {
            wake::<R>(owner, Epoch::from_bits((before >> 1) - 1), Wake::Signalled);
        }
    }
}
