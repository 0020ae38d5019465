//! The token of a ready thread.
//!
//! A [`Ready`] is the right, and the duty, to run one thread once. It is neither `Clone` nor forgeable in safe code, so
//! a policy cannot run a thread twice; dropping one is reported through the hook that the runtime set, which rescues
//! the thread.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::{Ready, Thread};
//! // SAFETY: a record that no runtime knows, leaked, and its only token.
//! let token = unsafe { Ready::new(Box::leak(Box::new(Thread::<Real>::new(3, 0))).into()) };
//! assert_eq!(token.priority(), 3);
//! // Into a queue of words, and out of it.
//! let word = token.into_word();
//! // SAFETY: the word of a token that became one just now, taken back once.
//! let token = unsafe { Ready::<Real>::from_word(word) };
//! token.into_thread();
//! ```

use crate::thread::Thread;
use raddle_machine::{Atomic, Machine, Ordering};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A thread that may run: a linear token.
#[must_use = "dropping a ready thread loses it: hand it to a queue or return it"]
pub struct Ready<M: Machine>(NonNull<Thread<M>>);

// SAFETY: the token is the unique right to run the thread; a `Thread` record is shared memory made of atomics (Sync),
// and its stack and locals were released by the push that made the token (wait.park, or the queue's release store).
unsafe impl<M: Machine> Send for Ready<M> {}

impl<M: Machine> Ready<M> {
    /// Makes the token of a thread that has just become ready.
    ///
    /// # Safety
    /// The caller holds the right to make this thread ready, exactly once: it created the thread, suspended it off its
    /// stack, or won its claim. The record is type-stable.
    #[inline(always)]
    pub unsafe fn new(thread: NonNull<Thread<M>>) -> Self {
        Ready(thread)
    }

    /// The thread, which stays ready.
    #[inline(always)]
    pub fn thread(&self) -> NonNull<Thread<M>> {
        self.0
    }

    /// Consumes the token: the caller runs the thread.
    #[inline(always)]
    pub fn into_thread(self) -> NonNull<Thread<M>> {
        ManuallyDrop::new(self).0
    }

    /// The word that queues store. The token lives on in it.
    #[inline(always)]
    pub fn into_word(self) -> usize {
        self.into_thread().as_ptr().expose_provenance()
    }

    /// Takes the token back out of a word.
    ///
    /// # Safety
    /// `word` came from [`Ready::into_word`] and is given back once.
    #[inline(always)]
    pub unsafe fn from_word(word: usize) -> Self {
        // SAFETY: a word from `into_word` is the address of a record, never zero.
        Ready(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(word)) })
    }

    /// The priority of the thread: 0 is the highest.
    #[inline(always)]
    pub fn priority(&self) -> u8 {
        // SAFETY: records are type-stable (condition of `new`), so the reference is to a live record.
        unsafe { self.0.as_ref() }.priority.load(Ordering::Relaxed)
    }
}

/// Where the record of a thread is that will probably be selected soon: a hint for fetching it, not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming(usize);

impl Upcoming {
    /// The record of a token that lies in a queue as this word.
    pub(crate) fn of(word: usize) -> Self {
        Upcoming(word)
    }

    /// Its address, which is that of a record that can be read for ever.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0
    }
}

impl<M: Machine> Drop for Ready<M> {
    fn drop(&mut self) {
        dropped(self.0.as_ptr().expose_provenance());
    }
}

/// What happens to a token that a policy drops; set once by the runtime.
pub type DropHook = fn(word: usize);
static HOOK: std::sync::OnceLock<DropHook> = std::sync::OnceLock::new();

/// Sets what is done with dropped tokens. The first caller wins.
pub fn set_drop_hook(hook: DropHook) {
    let _ = HOOK.set(hook);
}

#[cold]
fn dropped(word: usize) {
    match HOOK.get() {
        Some(hook) => hook(word),
        None => eprintln!("raddle: a policy dropped a ready thread; it will never run"),
    }
}
