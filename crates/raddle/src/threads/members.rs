//! The threads of a scope that have begun and not ended, so that a cancellation finds them.
//!
//! A thread enters itself when it begins and leaves before it gives its count back, so spawning costs nothing more, and
//! neither do threads outside scopes. How it is found is [`raddle_scheduler::members`]' business.
//!
//! Who cancels *interrupts* whom it finds: sets a flag and ends a wait for no reason, which every wait here allows. So
//! it does no harm that the thread may have ended meanwhile and its descriptor, which is type-stable, may stand for a
//! stranger: that one looks, and finds nothing. The thread itself looks at its scope, in [`pass_on_cancellation`], at
//! its next wait at the latest; it is cancelled then, whatever it waits for, and hands the cancellation on to the
//! scopes that it has open, while it goes on to wait for their threads, masked as before. So a tree of scopes is
//! cancelled from its root to its leaves, each thread seeing to its own. A thread that computes hands nothing on until
//! it waits.
//!
//! Progress: lock-free. A kernel thread that is frozen in [`Members::cancel`] delays those that it has not interrupted
//! until it thaws, or until they wait next.
//!
//! Reclamation: the group goes with the scope, when all its threads have left; a canceller is one of them, or the
//! scope's owner.

use crate::carry::descriptor::Descriptor;
use crate::threads::tasks;
use raddle_machine::Real;
use raddle_scheduler::members::{self, MemberSlot};
use raddle_scheduler::{Claim, Runtime};
use std::cell::Cell;

/// See the module.
pub(crate) struct Members {
    group: members::Members<Real>,
    /// Opened where cancellation was masked: its owner's does not reach it.
    shielded: bool,
}

/// A thread's place in its scope. It lies on the thread's stack, below all scopes that the thread opens, and is found
/// where the list of these ends ([`tasks::member`]): each word of thread-local storage would be paid for by every
/// thread that starts.
#[repr(align(8))]
pub(crate) struct Member {
    scope: Cell<*const Members>,
    place: Cell<MemberSlot<Real>>,
}

impl Member {
    /// Of no scope yet.
    #[inline(always)]
    pub fn new() -> Self {
        Self { scope: Cell::new(std::ptr::null()), place: Cell::new(MemberSlot::NONE) }
    }
}

impl Members {
    /// Of a scope that the calling thread opens.
    #[inline(always)]
    pub fn new(shielded: bool) -> Self {
        Self { group: members::Members::default(), shielded }
    }

    /// Its owner's cancellation does not reach it.
    pub fn is_shielded(&self) -> bool {
        self.shielded
    }

    /// The calling thread, which is one of the scope's, begins. `owner_cancelled`: its owner was cancelled.
    ///
    /// # Safety
    /// The scope and `member`, which is the thread's, stay until [`Members::leave`] has returned, which the same thread
    /// calls.
    #[inline]
    pub unsafe fn enter(&self, member: &Member, owner_cancelled: bool) {
        // Where threads are kernel threads, none is cancelled.
        let Some(me) = crate::carry::switching::current() else { return };
        let (place, cancelled) = self.group.enter(std::ptr::from_ref(me).expose_provenance());
        member.scope.set(self);
        member.place.set(place);
        tasks::set_member(member);
        if cancelled || owner_cancelled && !self.shielded {
            cancel_self(me);
        }
    }

    /// The calling thread, which has entered, ends.
    #[inline]
    pub fn leave() {
        // SAFETY: null, or what the thread gave `enter`.
        if let Some(member) = unsafe { tasks::member().as_ref() } {
            tasks::set_member(std::ptr::null());
            // SAFETY: of a scope that stays, by the promise of `enter`; the member was forgotten above, so this happens
            // once.
            unsafe { member.place.get().leave() };
        }
    }

    /// Cancels all threads of the scope, those to come included.
    pub fn cancel(&self) {
        self.group.cancel(|handle| {
            // SAFETY: handles are the addresses of descriptors, exposed in `enter`; these are type-stable.
            interrupt(unsafe { &*std::ptr::with_exposed_provenance(handle) });
        });
    }
}

/// Has it look.
fn interrupt(thread: &'static Descriptor) {
    if thread.thread.interrupt() == Claim::WonParked {
        // SAFETY: the claim was won just now, of a thread off its stack.
        unsafe { crate::Host::make_ready(&thread.thread) };
    }
}

/// Outside of its waits.
#[cold]
fn cancel_self(me: &'static Descriptor) {
    let claim = me.thread.cancel();
    debug_assert_eq!(claim, Claim::Lost, "a thread that looks is in no wait");
}

/// The calling thread was interrupted: is it cancelled with its scope? Whether so or otherwise, its cancellation goes
/// on to the scopes that it has open. Called outside of its waits.
#[cold]
pub(crate) fn pass_on_cancellation(me: &'static Descriptor) {
    // SAFETY: null, or what the thread gave `enter`; it has not left.
    if let Some(member) = unsafe { tasks::member().as_ref() }
        // SAFETY: the scope that it has entered.
        && let scope = unsafe { &*member.scope.get() }
        && scope.group.is_cancelled()
        && !me.thread.is_cancelled()
    {
        cancel_self(me);
    }
    if me.thread.is_cancelled() {
        tasks::cancel_open_scopes();
        crate::threads::forkjoin::cancel_promoted();
    }
}
