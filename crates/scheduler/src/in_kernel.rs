//! Whether a thread waits in the kernel by itself, and must be signalled to come out: one word.
//!
//! Source: our own, the store-and-look handshake of [`crate::runtime::wait_until`] with the kernel in the place of the scheduler.
//!
//! Roles: the *thread*, which waits in system calls of its own; *askers*, any number, who want it to come out.
//!
//! | state | who leaves it, and how |
//! |---|---|
//! | out | the thread: [`InKernel::enter`], then it looks at what is asked of it, then it makes the call |
//! | in | the thread: [`InKernel::leave`]. Askers mark their request elsewhere first, then look ([`InKernel::is_inside`]), and send a signal |
//!
//! Invariant:
//! - I1: a request is seen by the thread before its call, or the asker signals. Proof, events E (entered), L (the thread's look at the request),
//!   R (the request marked), S (the asker's look at the word): forbidden is L misses R and S misses E. A fence stands between E and L, another
//!   one between R and S; whichever comes first, the later look of the other side sees what came before it.
//!
//! What is not its business: a signal that comes between L and the call. Whoever handles it takes the thread out of the instructions in between.
//!
//! Progress: wait-free. No memory is reclaimed.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `kernel.look` | [`InKernel::enter`], between E and L | [`InKernel::is_inside`], between R and S |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::in_kernel::InKernel;
//! let word = InKernel::<Real>::default();
//! word.enter();
//! // Here the thread looks at what was asked of it, and then calls the kernel; who asks now sends it a signal.
//! assert!(word.is_inside());
//! word.leave();
//! assert!(!word.is_inside());
//! ```

use raddle_machine::{Atomic, Machine, Ordering};

/// Whether a thread is in the kernel, or about to be.
#[derive(Debug)]
pub struct InKernel<M: Machine> {
    inside: M::Atomic<u8>,
}

impl<M: Machine> Default for InKernel<M> {
    fn default() -> Self {
        Self { inside: M::Atomic::new(0) }
    }
}

impl<M: Machine> InKernel<M> {
    /// The thread is about to make its call. It looks at what is asked of it after this.
    #[inline]
    pub fn enter(&self) {
        // Relaxed: single writer; ordered by the fence.
        self.inside.store(1, Ordering::Relaxed);
        // Ordering[kernel.look]: SeqCst. Pairs with the fence in `is_inside` (proof at I1).
        M::fence(Ordering::SeqCst);
    }

    /// The call is over, or was not made.
    #[inline]
    pub fn leave(&self) {
        // Relaxed: single writer; who sees it late signals for nothing.
        self.inside.store(0, Ordering::Relaxed);
    }

    /// True if the thread has to be signalled for a request that the caller has marked before.
    pub fn is_inside(&self) -> bool {
        // Ordering[kernel.look]: SeqCst. Pairs with the fence in `enter` (proof at I1).
        M::fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        self.inside.load(Ordering::Relaxed) != 0
    }
}
