//! Who has entered a group and not left it, so that one who cancels the group finds them all: a flag, and slots for
//! handles.
//!
//! Source: our own. The members of a scope are threads, and their handles the addresses of their descriptors
//! (`crates/raddle/src/threads/members.rs`); this file knows neither.
//!
//! Roles: *members* enter and leave, any number, each for itself; *cancellers* cancel, any number, of which the first
//! one does it.
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `cancelled` | the first canceller, once | 1: all are cancelled, those to come included |
//! | a slot | its member | a handle; 0: free |
//! | `chunks` | a member that finds no free slot | the newest and largest chunk of slots, which leads to the older ones |
//!
//! | slot | state changes to | by |
//! |---|---|---|
//! | free | taken | a member, by exchange |
//! | taken | free | the same member, by a store |
//!
//! Invariants:
//! - I1: a member that enters finds the group cancelled, or the canceller finds the member. Events: E the member takes
//!   its slot, L it looks at `cancelled`; C the canceller raises `cancelled`, S it looks at the slot; all sequentially
//!   consistent. Forbidden: L misses C and S misses E. In their total order E is before L and C before S; if S misses E
//!   it is before E, so C is before L.
//! - I2: the same where the slot is in a chunk, and the canceller misses the chunk. Events, sequentially consistent
//!   too: A the exchange that adds the chunk, F the member's load that finds it (or A itself), G the canceller's load.
//!   If G misses A it is before A, A before F, F before L; and C is before G.
//! - I3: what a canceller finds may have left since. Who tells it must do no harm to a stranger with the same handle.
//!
//! Progress: entering is lock-free (a loser lost its slot, or its chunk, to another member), leaving wait-free. A
//! canceller that is frozen delays those that it has not told yet, and nobody else tells them.
//!
//! Reclamation: chunks go with the group, which its owner keeps until all have left and no canceller is at work.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `members.cancel` | [`Members::enter`]: E, then L | [`Members::cancel`]: C, then S |
//! | `members.chunk` | the exchange that adds a chunk | the loads of `chunks` |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::members::Members;
//! let group = Members::<Real>::default();
//! let (first, cancelled) = group.enter(1);
//! assert!(!cancelled);
//! group.enter(2);
//! // SAFETY: the place that the group has just given, once.
//! unsafe { first.leave() };
//! let mut told = Vec::new();
//! group.cancel(|handle| told.push(handle));
//! assert_eq!(told, [2]);
//! // Who enters from now on is told at once.
//! assert!(group.enter(3).1);
//! ```

use raddle_machine::{Atomic, Machine, Ordering};

/// Slots in the group itself.
const NEAR: usize = 4;
/// Slots of the first chunk; each further one has twice as many.
const FIRST: usize = 32;
/// Slots of a chunk that a member tries.
const TRIES: usize = 8;
/// Handles are addresses of records of at least 1 << 7 bytes: what tells two of them apart.
const HANDLE_SHIFT: u32 = 7;

/// See the module.
pub struct Members<M: Machine> {
    cancelled: M::Atomic<u8>,
    near: [M::Atomic<usize>; NEAR],
    chunks: M::Atomic<*mut Chunk<M>>,
}

struct Chunk<M: Machine> {
    older: *mut Chunk<M>,
    /// Where a free slot is likely.
    next: M::Atomic<usize>,
    slots: Box<[M::Atomic<usize>]>,
}

// SAFETY: `older` leads to a chunk that is never changed but through its atomics, and stays as long as this one (they
// go together).
unsafe impl<M: Machine> Send for Chunk<M> {}
// SAFETY: the same: a shared chunk gives its atomics, and `older`, which is never written.
unsafe impl<M: Machine> Sync for Chunk<M> {}

/// A member's slot.
pub struct MemberSlot<M: Machine>(*const M::Atomic<usize>);

impl<M: Machine> Clone for MemberSlot<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for MemberSlot<M> {}

impl<M: Machine> MemberSlot<M> {
    /// Of who has not entered.
    pub const NONE: Self = Self(std::ptr::null());

    /// Its member leaves.
    ///
    /// # Safety
    /// A place that [`Members::enter`] gave, of a group that is still there; given back once.
    #[inline(always)]
    pub unsafe fn leave(self) {
        // SAFETY: by the caller's promise. Relaxed: single writer, while it is taken; a canceller that sees it late
        // tells one who has left (I3). Who enters next does so by an exchange.
        unsafe { &*self.0 }.store(0, Ordering::Relaxed);
    }
}

impl<M: Machine> Default for Members<M> {
    #[inline(always)]
    fn default() -> Self {
        Self {
            cancelled: M::Atomic::new(0),
            near: std::array::from_fn(|_| M::Atomic::new(0)),
            chunks: M::Atomic::new(std::ptr::null_mut()),
        }
    }
}

impl<M: Machine> Members<M> {
    /// A member enters, by a handle that is not 0: its place, and whether the group was cancelled.
    #[inline]
    pub fn enter(&self, handle: usize) -> (MemberSlot<M>, bool) {
        debug_assert_ne!(handle, 0, "that is a free slot");
        let from = handle >> HANDLE_SHIFT;
        let near = (from..from + NEAR).map(|at| &self.near[at % NEAR]).find(|slot| take::<M>(slot, handle));
        let slot = near.unwrap_or_else(|| self.far(handle));
        // Ordering[members.cancel]: SeqCst. Pairs with the fence in `cancel` (proof at I1).
        M::model_fence(Ordering::SeqCst);
        // Event L.
        // Ordering[members.cancel]: SeqCst. Pairs with C, in `cancel` (proof at I1).
        // Not weakened: the model has the fence above instead.
        let cancelled = self.cancelled.load(Ordering::SeqCst) != 0;
        (MemberSlot(slot), cancelled)
    }

    /// A slot in a chunk.
    #[inline(never)]
    fn far(&self, handle: usize) -> &M::Atomic<usize> {
        loop {
            // Event F.
            // Ordering[members.chunk]: SeqCst. Pairs with the exchange below. Makes visible: the chunk (proof at I2).
            let newest = self.chunks.load(Ordering::SeqCst);
            let mut at = newest;
            // SAFETY: chunks stay as long as the group.
            while let Some(chunk) = unsafe { at.as_ref() } {
                if let Some(slot) = chunk.take(handle) {
                    return slot;
                }
                at = chunk.older;
            }
            // SAFETY: null, or the newest chunk, which stays as long as the group.
            let length = unsafe { newest.as_ref() }.map_or(FIRST, |chunk| chunk.slots.len() * 2);
            let slots = (0..length).map(|_| M::Atomic::new(0)).collect();
            let made = Box::into_raw(Box::new(Chunk { older: newest, next: M::Atomic::new(0), slots }));
            // Event A.
            // Ordering[members.chunk]: SeqCst. Pairs with the loads of `chunks`. Makes visible: the chunk (proof at
            // I2).
            let added = self.chunks.compare_exchange(newest, made, Ordering::SeqCst, Ordering::Relaxed);
            if added.is_err() {
                // SAFETY: made above and shown to nobody.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    /// True once the group was cancelled. For a member that has been told of it: the telling orders.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: ordered by what told the member; whoever was not told looks in `enter`.
        self.cancelled.load(Ordering::Relaxed) != 0
    }

    /// Cancels the group: `tell` is called with the handle of each member, of some who may have left since (I3), and of
    /// none that comes from now on. Nothing, if it was cancelled before.
    pub fn cancel(&self, mut tell: impl FnMut(usize)) {
        // Event C.
        // Ordering[members.cancel]: SeqCst. Pairs with L, in `enter` (proof at I1).
        // Not weakened: the model has the fence below instead.
        let before = self.cancelled.swap(1, Ordering::SeqCst);
        if before != 0 {
            return;
        }
        // Ordering[members.cancel]: SeqCst. Pairs with the fence in `enter` (proof at I1).
        M::model_fence(Ordering::SeqCst);
        let mut look = |slot: &M::Atomic<usize>| {
            // Event S.
            // Ordering[members.cancel]: SeqCst. Pairs with E, in `take` (proof at I1).
            // Not weakened: the model has the fence above instead.
            let handle = slot.load(Ordering::SeqCst);
            if handle != 0 {
                tell(handle);
            }
        };
        self.near.iter().for_each(&mut look);
        // Event G.
        // Ordering[members.chunk]: SeqCst. Pairs with the exchange in `far`. Makes visible: the chunk (proof at I2).
        let mut at = self.chunks.load(Ordering::SeqCst);
        // SAFETY: chunks stay as long as the group.
        while let Some(chunk) = unsafe { at.as_ref() } {
            chunk.slots.iter().for_each(&mut look);
            at = chunk.older;
        }
    }
}

impl<M: Machine> Drop for Members<M> {
    #[inline]
    fn drop(&mut self) {
        // Relaxed: nobody else is here any more, and whoever knows that has seen what they did.
        let mut at = self.chunks.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: made by `Box::into_raw`; all members have left, and no canceller is at work.
            at = unsafe { Box::from_raw(at) }.older;
        }
    }
}

impl<M: Machine> Chunk<M> {
    fn take(&self, handle: usize) -> Option<&M::Atomic<usize>> {
        // Relaxed, here and below, a hint: two members that find the same one try the slots after it.
        let from = self.next.load(Ordering::Relaxed);
        let found = (from..from + TRIES).find(|at| take::<M>(&self.slots[at % self.slots.len()], handle));
        self.next.store(found.map_or(from + TRIES, |at| at + 1), Ordering::Relaxed);
        found.map(|at| &self.slots[at % self.slots.len()])
    }
}

/// Event E, if the slot is free.
#[inline(always)]
fn take<M: Machine>(slot: &M::Atomic<usize>, handle: usize) -> bool {
    // Relaxed: validated by the exchange.
    if slot.load(Ordering::Relaxed) != 0 {
        return false;
    }
    // Ordering[members.cancel]: SeqCst. Pairs with S, in `cancel` (proof at I1).
    // Not weakened: the model has the fence in `enter` instead.
    slot.compare_exchange(0, handle, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;
    use std::collections::BTreeSet;

    #[test]
    fn all_who_have_not_left_are_told_once_and_those_to_come_see_it() {
        for count in [0, 1, NEAR, NEAR + 1, NEAR + FIRST, 1_000] {
            let members = Members::<Real>::default();
            let places: Vec<_> = (1..=count).map(|handle| members.enter(handle << HANDLE_SHIFT)).collect();
            assert!(places.iter().all(|(_, cancelled)| !cancelled));
            let distinct: BTreeSet<_> = places.iter().map(|(place, _)| place.0).collect();
            assert_eq!(distinct.len(), count, "each has a slot of its own");
            // SAFETY: each is given back once.
            places.iter().step_by(2).for_each(|(place, _)| unsafe { place.leave() });
            let mut told = Vec::new();
            members.cancel(|handle| told.push(handle >> HANDLE_SHIFT));
            told.sort();
            assert_eq!(told, (2..=count).step_by(2).collect::<Vec<_>>());
            members.cancel(|_| panic!("all were told before"));
            assert!(members.is_cancelled() && members.enter(1).1);
        }
    }

    #[test]
    fn slots_that_were_left_are_taken_again() {
        let members = Members::<Real>::default();
        for handle in 1..10_000 {
            let (place, _) = members.enter(handle);
            // SAFETY: given back once.
            unsafe { place.leave() };
        }
        assert!(members.chunks.load(Ordering::Relaxed).is_null(), "one at a time needs no chunk");
    }
}
