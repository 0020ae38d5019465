//! The threads of a scope that have begun and not ended, so that a cancellation finds them.
//!
//! A thread enters itself when it begins and leaves before it gives its count back, so spawning costs nothing more, and neither do threads
//! outside scopes. It has a slot: one of four in the scope itself, or of a chunk that is added when they do not suffice.
//!
//! Who cancels raises `cancelled`, then looks at all slots and *interrupts* whom it finds: sets a flag and ends a wait for no reason, which
//! every wait here allows. So it does no harm that the thread may have ended meanwhile and its descriptor, which is type-stable,
//! may stand for a stranger: that one looks, and finds nothing. The thread itself looks at its scope, in [`look`], at
//! its next wait at the latest; it is cancelled then, whatever it waits for, and hands the cancellation on to the scopes that it has open, while
//! it goes on to wait for their threads, masked as before. So a tree of scopes is cancelled from its root to its leaves, each thread seeing
//! to its own. A thread that computes hands nothing on until it waits.
//!
//! Invariant: a thread that enters finds its scope cancelled, or who cancels finds the thread. Events: E enter the slot, L look at `cancelled`
//! (thread); C raise `cancelled`, S look at the slot (canceller); all sequentially consistent. Forbidden: L misses C and S misses E. In their
//! total order E is before L and C before S; if S misses E it is before E, so C is before L.
//!
//! Progress: lock-free. A kernel thread that is frozen in [`Members::cancel`] delays those that it has not interrupted until it thaws, or
//! until they wait next.
//!
//! Reclamation: chunks go with the scope, when all its threads have left; a canceller is one of them, or the scope's owner.

use crate::descriptor::Descriptor;
use crate::tasks;
use raddle_scheduler::{Claim, Runtime};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Slots in the scope itself.
const NEAR: usize = 4;
/// Slots of the first chunk; each further one has twice as many.
const FIRST: usize = 32;
/// Slots of a chunk that a thread tries.
const TRIES: usize = 8;

type Slot = AtomicPtr<Descriptor>;

/// See the module.
pub(crate) struct Members {
    cancelled: AtomicBool,
    /// Opened where cancellation was masked: its owner's does not reach it.
    shielded: bool,
    near: [Slot; NEAR],
    /// The newest and largest one first.
    chunks: AtomicPtr<Chunk>,
}

struct Chunk {
    older: *mut Chunk,
    /// Where a free slot is likely.
    next: AtomicUsize,
    slots: Box<[Slot]>,
}

/// A thread's place in its scope. It lies on the thread's stack, below all scopes that the thread opens, and is found where the list of these
/// ends ([`tasks::member`]): each word of thread-local storage would be paid for by every thread that starts.
#[repr(align(8))]
pub(crate) struct Member {
    scope: Cell<*const Members>,
    slot: Cell<*const Slot>,
}

impl Member {
    /// Of no scope yet.
    #[inline(always)]
    pub fn new() -> Self {
        Self { scope: Cell::new(std::ptr::null()), slot: Cell::new(std::ptr::null()) }
    }
}

impl Members {
    /// Of a scope that the calling thread opens.
    #[inline(always)]
    pub fn new(shielded: bool) -> Self {
        Self {
            cancelled: AtomicBool::new(false),
            shielded,
            near: [const { AtomicPtr::new(std::ptr::null_mut()) }; NEAR],
            chunks: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its owner's cancellation does not reach it.
    pub fn is_shielded(&self) -> bool {
        self.shielded
    }

    /// The calling thread, which is one of the scope's, begins. `owner_cancelled`: its owner was cancelled.
    ///
    /// # Safety
    /// The scope and `member`, which is the thread's, stay until [`Members::leave`] has returned, which the same thread calls.
    #[inline]
    pub unsafe fn enter(&self, member: &Member, owner_cancelled: bool) {
        // Where threads are kernel threads, none is cancelled.
        let Some(me) = crate::switching::current() else { return };
        let this = std::ptr::from_ref(me).cast_mut();
        let from = this.addr() >> 7;
        let slot = (from..from + NEAR).map(|at| &self.near[at % NEAR]).find(|slot| take(slot, this));
        let slot = slot.unwrap_or_else(|| self.far(this));
        member.scope.set(self);
        member.slot.set(slot);
        tasks::set_member(member);
        // Event L.
        if self.cancelled.load(Ordering::SeqCst) || owner_cancelled && !self.shielded {
            cancel_self(me);
        }
    }

    /// The calling thread, which has entered, ends.
    #[inline]
    pub fn leave() {
        // SAFETY: null, or what the thread gave `enter`.
        if let Some(member) = unsafe { tasks::member().as_ref() } {
            tasks::set_member(std::ptr::null());
            // SAFETY: a slot of a scope that stays, by the promise of `enter`.
            unsafe { &*member.slot.get() }.store(std::ptr::null_mut(), Ordering::Release);
        }
    }

    /// A slot in a chunk.
    #[inline(never)]
    fn far(&self, this: *mut Descriptor) -> &Slot {
        loop {
            // SeqCst, here and below: a chunk that a thread has entered is found by who cancels, like its slot.
            let newest = self.chunks.load(Ordering::SeqCst);
            let mut at = newest;
            // SAFETY: chunks stay as long as the scope.
            while let Some(chunk) = unsafe { at.as_ref() } {
                if let Some(slot) = chunk.take(this) {
                    return slot;
                }
                at = chunk.older;
            }
            // SAFETY: as above.
            let length = unsafe { newest.as_ref() }.map_or(FIRST, |chunk| chunk.slots.len() * 2);
            let slots = (0..length).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
            let made = Box::into_raw(Box::new(Chunk { older: newest, next: AtomicUsize::new(0), slots }));
            if self.chunks.compare_exchange(newest, made, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                // SAFETY: made above and shown to nobody.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    /// Cancels all threads of the scope, those to come included.
    pub fn cancel(&self) {
        // Events C and S.
        if self.cancelled.swap(true, Ordering::SeqCst) {
            return;
        }
        self.near.iter().for_each(interrupt);
        let mut at = self.chunks.load(Ordering::SeqCst);
        // SAFETY: chunks stay as long as the scope.
        while let Some(chunk) = unsafe { at.as_ref() } {
            chunk.slots.iter().for_each(interrupt);
            at = chunk.older;
        }
    }
}

impl Drop for Members {
    #[inline]
    fn drop(&mut self) {
        let mut at = *self.chunks.get_mut();
        while !at.is_null() {
            // SAFETY: made by `Box::into_raw`; all threads of the scope have left.
            at = unsafe { Box::from_raw(at) }.older;
        }
    }
}

impl Chunk {
    fn take(&self, this: *mut Descriptor) -> Option<&Slot> {
        // A hint: two threads that find the same one try the slots after it.
        let from = self.next.load(Ordering::Relaxed);
        let found = (from..from + TRIES).find(|at| take(&self.slots[at % self.slots.len()], this));
        self.next.store(found.map_or(from + TRIES, |at| at + 1), Ordering::Relaxed);
        found.map(|at| &self.slots[at % self.slots.len()])
    }
}

/// Event E, if the slot is free.
#[inline(always)]
fn take(slot: &Slot, this: *mut Descriptor) -> bool {
    slot.load(Ordering::Relaxed).is_null()
        && slot.compare_exchange(std::ptr::null_mut(), this, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Has whoever is in the slot look.
fn interrupt(slot: &Slot) {
    // SAFETY: null, or a descriptor, which are type-stable.
    if let Some(thread) = unsafe { slot.load(Ordering::SeqCst).as_ref() }
        && thread.thread.interrupt() == Claim::WonParked
    {
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

/// The calling thread was interrupted: is it cancelled with its scope? Whether so or otherwise, its cancellation goes on to the scopes that it has
/// open. Called outside of its waits.
#[cold]
pub(crate) fn look(me: &'static Descriptor) {
    // SAFETY: null, or what the thread gave `enter`; it has not left.
    if let Some(member) = unsafe { tasks::member().as_ref() }
        // SAFETY: the scope that it has entered.
        && let scope = unsafe { &*member.scope.get() }
        && scope.cancelled.load(Ordering::SeqCst)
        && !me.thread.is_cancelled()
    {
        cancel_self(me);
    }
    if me.thread.is_cancelled() {
        tasks::cancel_open_scopes();
        crate::forkjoin::cancel_promoted();
    }
}
