//! Something that goes on for a while, once at a time: who begins it claims the right to, who uses it finds what there
//! is to use, late or not.
//!
//! Source: our own.
//!
//! Roles: *beginners*, any number, who end what they have begun; *users*, any number.
//!
//! | claimed | open | who changes it |
//! |---|---|---|
//! | no | null | a beginner claims: [`OneAtATime::claim`] |
//! | yes | null | that one opens ([`Claim::begin`]) or gives up (the claim's drop) |
//! | yes | an object | that one ends it ([`OneAtATime::end`]): null, then not claimed |
//!
//! Invariants:
//! - I1: one claim at a time, and none while anything goes on. Who claims sees what the one before did.
//! - I2: a user has one object, all of it. One that is late has the object of before, which is never freed.
//!
//! Progress: wait-free. Objects are leaked: nobody knows whether a user is on its way.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `one.open` | [`Claim::begin`] | [`OneAtATime::get`] |
//! | `one.claim` | [`OneAtATime::end`], the claim's drop | [`OneAtATime::claim`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::one_at_a_time::OneAtATime;
//! static ONE: OneAtATime<u32, Real> = OneAtATime::constant();
//! let claim = ONE.claim().unwrap();
//! assert!(ONE.claim().is_none() && ONE.get().is_none());
//! claim.begin(7);
//! assert_eq!(ONE.get(), Some(&7));
//! assert!(ONE.end() && !ONE.end());
//! assert!(ONE.get().is_none() && ONE.claim().is_some());
//! ```

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};
use std::marker::PhantomData;

/// See the module.
pub struct OneAtATime<T: 'static, M: Machine> {
    open: M::Atomic<*mut T>,
    claimed: M::Atomic<u32>,
    _leaks: PhantomData<&'static T>,
}

// SAFETY: it gives out shared references to what it takes in, which is never taken out.
unsafe impl<T: Send + Sync, M: Machine> Sync for OneAtATime<T, M> {}
// SAFETY: what it has taken in is shared by all, wherever this object is.
unsafe impl<T: Send + Sync, M: Machine> Send for OneAtATime<T, M> {}

/// The right to begin.
pub struct Claim<'a, T: 'static, M: Machine>(&'a OneAtATime<T, M>);

impl<T> OneAtATime<T, Real> {
    /// Nothing goes on, in a constant.
    pub const fn constant() -> Self {
        let (open, claimed) = (RealAtomic::<*mut T>::null(), RealAtomic::<u32>::constant(0));
        Self { open, claimed, _leaks: PhantomData }
    }
}

impl<T, M: Machine> Default for OneAtATime<T, M> {
    fn default() -> Self {
        Self { open: M::Atomic::new(std::ptr::null_mut()), claimed: M::Atomic::new(0), _leaks: PhantomData }
    }
}

impl<T, M: Machine> OneAtATime<T, M> {
    /// `None` while somebody has a claim, or anything goes on.
    pub fn claim(&self) -> Option<Claim<'_, T, M>> {
        // Ordering[one.claim]: Acquire. Pairs with `end` and the claim's drop. Makes visible: what the one before did.
        (self.claimed.swap(1, Ordering::Acquire) == 0).then(|| Claim(self))
    }

    /// Whether anything goes on (racy).
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        !self.open.load(Ordering::Relaxed).is_null()
    }

    /// What goes on.
    pub fn get(&self) -> Option<&'static T> {
        // Ordering[one.open]: Acquire. Pairs with `begin`. Makes visible: what is used.
        let open = self.open.load(Ordering::Acquire);
        // SAFETY: null, or what `begin` has leaked.
        unsafe { open.as_ref() }
    }

    /// Ends what goes on, but for users on their way. False if nothing does.
    pub fn end(&self) -> bool {
        // Relaxed: one that finds nothing looks at nothing.
        let ended = !self.open.swap(std::ptr::null_mut(), Ordering::Relaxed).is_null();
        if ended {
            drop(Claim(self));
        }
        ended
    }
}

impl<T, M: Machine> Claim<'_, T, M> {
    /// From now on users find it, until somebody ends it.
    pub fn begin(self, what: T) -> &'static T {
        let what = Box::into_raw(Box::new(what));
        // Ordering[one.open]: Release. Pairs with `get`. Makes visible: what is used.
        self.0.open.store(what, Ordering::Release);
        // `end` gives it up.
        std::mem::forget(self);
        // SAFETY: leaked.
        unsafe { &*what }
    }
}

impl<T, M: Machine> Drop for Claim<'_, T, M> {
    fn drop(&mut self) {
        // Ordering[one.claim]: Release. Pairs with `claim`. Makes visible: what was done while something went on.
        self.0.claimed.store(0, Ordering::Release);
    }
}
