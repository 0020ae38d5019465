//! The word of a thread's cancellation, and the handle by which others end its waits: its creator stores that when the
//! thread may be running, and be known to others, already.
//!
//! Source: our own. Who asks sets the word's bit and then looks for the handle; the creator stores the handle and then
//! looks at the word. What the other bits of the word mean is its user's business: the thread's own state, mostly.
//!
//! Invariant: a wait that is to end is ended by one of the two at least (twice does no harm). Events: B the bit is set,
//! H the asker's look for the handle; S the handle is stored, L the creator's look at the word. Forbidden: H misses S
//! and L misses B. All four are sequentially consistent; if H misses S, it precedes S, so B precedes L.
//!
//! Who needs the handle sleeps until it is stored, by the same argument: it sets a bit of its own ([`AWAITED`], event
//! B), looks (H), and sleeps while the word is what it was; the creator that finds the bit (L) takes it away and wakes.
//! A sleeper that sets the bit again after that does so after L, hence after S, and sees the handle.
//!
//! Progress: wait-free, but for [`Request::await_handle`]. The handle goes with the record that this is part of, when
//! nobody holds that any more.
//!
//! # Example
//! ```
//! use raddle_scheduler::words::{Sleepers, request::Request};
//! struct Nobody;
//! impl Sleepers for Nobody {
//!     fn wake(&self, _: usize, _: usize) -> usize {
//!         unreachable!("nobody waits for the handle")
//!     }
//!     fn wake_each(&self, _: usize, _: usize) {}
//! }
//! let request = Request::<raddle_machine::Real>::default();
//! // Nobody can be woken yet.
//! assert!(request.ask(|_| unreachable!("there is no handle")));
//! let mut handle = 7;
//! let raw = (&raw mut handle).cast();
//! let mut woken = None;
//! request.created(raw, |handle| woken = Some(handle), &Nobody);
//! assert_eq!(woken, Some(raw));
//! ```
#![forbid(unsafe_code)]

use super::Sleepers;
use raddle_machine::{Atomic, Machine, Ordering};

/// The bit that is set by who asks.
pub const REQUESTED: u32 = 1;
/// The bit that is set by who waits for the handle.
pub const AWAITED: u32 = 1 << 31;

/// See the module.
pub struct Request<M: Machine> {
    word: M::Atomic<u32>,
    handle: M::Atomic<*mut ()>,
}

impl<M: Machine> Default for Request<M> {
    fn default() -> Self {
        Self { word: M::Atomic::new(0), handle: M::Atomic::new(std::ptr::null_mut()) }
    }
}

impl<M: Machine> Request<M> {
    /// The word.
    #[inline(always)]
    pub fn word(&self) -> &M::Atomic<u32> {
        &self.word
    }

    /// Asks; `wake`, given the handle if it is stored, ends the thread's wait. True for the first that asks.
    pub fn ask(&self, wake: impl FnOnce(*mut ())) -> bool {
        // Ordering[words.request]: SeqCst. Pairs with the look in `created` (event B).
        // Not weakened: the model has the fence in `reach` instead.
        let first = self.word.fetch_or(REQUESTED, Ordering::SeqCst) & REQUESTED == 0;
        if first {
            let handle = self.reach();
            if !handle.is_null() {
                wake(handle);
            }
        }
        first
    }

    /// The handle, for who has left something for the thread by a sequentially consistent operation; null: the creator
    /// will see it.
    pub fn reach(&self) -> *mut () {
        // Ordering[words.request]: SeqCst. Pairs with the fence in `created`: what the model has for event H.
        M::model_fence(Ordering::SeqCst);
        // Ordering[words.handle]: SeqCst. Pairs with `created` (event H). Makes visible: what the handle stands for.
        // Not weakened: the model has the fence above, and watches no more than the pointer.
        self.handle.load(Ordering::SeqCst)
    }

    /// The handle, or null.
    #[inline(always)]
    pub fn handle(&self) -> *mut () {
        // Ordering[words.handle]: Acquire. Pairs with `created`. Makes visible: what the handle stands for.
        // Not weakened: the model watches no more than the pointer.
        self.handle.load(Ordering::Acquire)
    }

    /// The handle, once the creator has stored it. `sleep` sleeps while the word is as given, or gives up.
    ///
    /// # Errors
    /// What `sleep` says.
    pub fn await_handle<E>(&self, mut sleep: impl FnMut(&M::Atomic<u32>, u32) -> Result<(), E>) -> Result<*mut (), E> {
        let mut handle = self.handle();
        while handle.is_null() {
            // Ordering[words.request]: SeqCst. Pairs with the look in `created` (event B).
            // Not weakened: the model has the fence in `reach` instead.
            let word = self.word.fetch_or(AWAITED, Ordering::SeqCst) | AWAITED;
            handle = self.reach();
            if handle.is_null() {
                sleep(&self.word, word)?;
                handle = self.handle();
            }
        }
        Ok(handle)
    }

    /// The creator stores the handle; `wake` ends the thread's wait if somebody has asked meanwhile, which is the
    /// answer. Those who wait for the handle are among `sleepers`, on the word.
    pub fn created(&self, handle: *mut (), wake: impl FnOnce(*mut ()), sleepers: &impl Sleepers) -> bool {
        // Ordering[words.handle]: SeqCst. Pairs with `reach` (event S). Makes visible: what the handle stands for.
        // Not weakened: the model has the fence below, and watches no more than the pointer.
        self.handle.store(handle, Ordering::SeqCst);
        // Ordering[words.request]: SeqCst. Pairs with the fence in `reach`: what the model has for event S.
        M::model_fence(Ordering::SeqCst);
        // Ordering[words.request]: SeqCst. Pairs with the exchange in `ask` (event L).
        // Not weakened: the model has the fence above instead.
        let word = self.word.load(Ordering::SeqCst);
        if word & AWAITED != 0 {
            // Relaxed: who sets it again does so after the load above (module).
            self.word.fetch_and(!AWAITED, Ordering::Relaxed);
            sleepers.wake(std::ptr::from_ref(&self.word).addr(), usize::MAX);
        }
        let asked = word & REQUESTED != 0;
        if asked {
            wake(handle);
        }
        asked
    }

    /// Nobody uses the handle any more but the caller, to whom it belongs.
    pub fn take_handle(&self) -> *mut () {
        // Relaxed: whoever used it has let go of the record, with an edge of its own.
        self.handle.swap(std::ptr::null_mut(), Ordering::Relaxed)
    }
}
