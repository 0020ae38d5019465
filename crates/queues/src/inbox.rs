//! An inbox: anyone puts items in, the receiver takes all of them at once, in the order in which they came.
//!
//! Source: the push of R. K. Treiber, "Systems Programming: Coping with Parallelism", 1986. Differs: nothing is ever
//! popped singly, all is taken by one swap and reversed; so nodes may be reused at will and no tag is needed.
//!
//! Roles: *senders* push; the *receiver* takes. (Several receivers are safe too: each gets a part.)
//!
//! Words: `top`, the youngest item's link or null; per item `next`, the item pushed before it.
//!
//! | item | state changes to | by |
//! |---|---|---|
//! | owned by its sender | in the inbox: `top` is exchanged for it | sender |
//! | in the inbox | owned by the receiver, with all others there | receiver |
//!
//! Invariants: I1. `next` of an item in the inbox does not change: only its sender wrote it, before the exchange. I2. A
//! sender whose exchange from t succeeds has t below it, whatever happened to t in between: t itself is not looked at,
//! and if it is on top again, it is in the inbox again.
//!
//! Progress: push is lock-free (a loser lost to another push or a take), take is wait-free but for the walk. A frozen
//! sender strands its own item only; a frozen receiver strands what it took. Memory: none of its own.
//!
//! Edges: `inbox` exchange → swap (the items and their links).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::inbox::{Inbox, Link};
//! use std::ptr::NonNull;
//! let (a, b) = (Link::<Real>::new(), Link::<Real>::new());
//! let inbox = Inbox::<Real>::new();
//! // SAFETY: both live longer than the inbox, and are pushed once.
//! unsafe {
//!     assert!(inbox.push(NonNull::from(&a)), "it was empty: the receiver may have to be woken");
//!     assert!(!inbox.push(NonNull::from(&b)));
//! }
//! assert_eq!(inbox.take_all().collect::<Vec<_>>(), [NonNull::from(&a), NonNull::from(&b)]);
//! assert!(inbox.is_empty());
//! ```

use raddle_machine::{Atomic, Machine, Ordering};
use std::ptr::{NonNull, null_mut};

/// What an item must contain, to be in one inbox at a time.
pub struct Link<M: Machine> {
    /// To a `Link<M>`; erased, since a type that contains an atomic pointer to itself overwhelms the trait solver.
    next: M::Atomic<*mut ()>,
}

impl<M: Machine> Link<M> {
    /// A link that is in no inbox.
    pub fn new() -> Self {
        Self { next: M::Atomic::new(null_mut()) }
    }
}

impl<M: Machine> Default for Link<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// The inbox. Dropping it forgets what is in it.
pub struct Inbox<M: Machine> {
    top: M::Atomic<*mut Link<M>>,
}

// SAFETY: links are reached through atomics only; what they are part of is the pushers' promise (see `push`).
unsafe impl<M: Machine> Send for Inbox<M> {}
// SAFETY: shared, it gives one atomic; what is pushed is given to the one that takes it.
unsafe impl<M: Machine> Sync for Inbox<M> {}

impl<M: Machine> Inbox<M> {
    /// An empty inbox.
    pub fn new() -> Self {
        Self { top: M::Atomic::new(null_mut()) }
    }

    /// Puts an item in. True if the inbox was empty: then nobody else will tell the receiver.
    ///
    /// # Safety
    /// The link stays valid, and in no other inbox, until a [`Inbox::take_all`] has handed it out; its item may be used
    /// by whichever kernel thread takes.
    pub unsafe fn push(&self, item: NonNull<Link<M>>) -> bool {
        // SAFETY: valid and the caller's own, by the contract.
        let link = unsafe { item.as_ref() };
        // Relaxed: only compared (I2).
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            link.next.store(top.cast(), Ordering::Relaxed);
            // Ordering[inbox]: Release. Pairs with the swap of inbox. Makes visible: the item and its link.
            match self.top.compare_exchange_weak(top, item.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                // Point of no return: the receiver may have the item already.
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    /// Whether nothing is there at this moment.
    pub fn is_empty(&self) -> bool {
        // Relaxed: a moment's view.
        self.top.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything, oldest first. What the returned batch does not hand out is forgotten.
    pub fn take_all(&self) -> Batch<M> {
        if self.is_empty() {
            return Batch { first: null_mut() };
        }
        // Ordering[inbox]: Acquire. Pairs with the senders' exchanges, all of them: exchanges continue each other's
        // release.
        // Makes visible: the items and their links.
        let mut young = self.top.swap(null_mut(), Ordering::Acquire);
        let mut first: *mut Link<M> = null_mut();
        while !young.is_null() {
            // SAFETY: taken by us alone, valid by the pushers' promise. Relaxed: our own now.
            let next = unsafe { &(*young).next };
            let older = next.load(Ordering::Relaxed).cast();
            next.store(first.cast(), Ordering::Relaxed);
            first = young;
            young = older;
        }
        Batch { first }
    }
}

impl<M: Machine> Default for Inbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// What was taken; each item is the iterating caller's own once it is handed out.
pub struct Batch<M: Machine> {
    first: *mut Link<M>,
}

// SAFETY: the batch owns its items, which may be used by any kernel thread by the pushers' promise.
unsafe impl<M: Machine> Send for Batch<M> {}

impl<M: Machine> Iterator for Batch<M> {
    type Item = NonNull<Link<M>>;
    fn next(&mut self) -> Option<Self::Item> {
        let item = NonNull::new(self.first)?;
        // SAFETY: valid and ours until handed out. Relaxed: our own.
        self.first = unsafe { item.as_ref() }.next.load(Ordering::Relaxed).cast();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn items_come_out_in_order_and_can_go_in_again() {
        let links: Vec<Link<Real>> = (0..100).map(|_| Link::new()).collect();
        let inbox = Inbox::new();
        for round in 1..4 {
            for (i, link) in links.iter().enumerate() {
                // SAFETY: `links` outlives the inbox's use of it, each is in once.
                assert_eq!(unsafe { inbox.push(NonNull::from(link)) }, i == 0, "round {round}");
            }
            let out: Vec<_> = inbox.take_all().collect();
            assert!(out.iter().zip(&links).all(|(a, b)| *a == NonNull::from(b)) && out.len() == links.len());
            assert!(inbox.is_empty() && inbox.take_all().next().is_none());
        }
    }
}
