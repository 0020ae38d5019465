//! How a thread that starts gets its stack.
//!
//! The stack that this runs on is often that of a thread which parks in favour of the new one. It goes deepest in here,
//! and the pages that it touches stay its own while it is parked; so what needs much stack runs in no other frame.

use crate::carry::descriptor::Descriptor;
use crate::carry::pool;
use crate::carry::switching::thread_entry;
use crate::carry::witness::Lent;
use raddle_context::stack::Slot;

/// Gives a thread that starts its stack, thread-local storage and first context. Never fails: the right to a slot was
/// reserved when it was spawned.
#[inline(always)]
pub(super) fn materialise(inside: Lent<'_>, next: &'static Descriptor) {
    if !materialise_kept(inside, next) {
        materialise_elsewhere(next);
    }
}

/// On a stack that the processor keeps, if it does.
#[cold]
#[inline(never)]
fn materialise_kept(inside: Lent<'_>, next: &'static Descriptor) -> bool {
    take_kept(inside, next).map(|slot| prepare(slot, next)).is_some()
}

/// On one of the arena's: its guard may have to be made, and its storage.
#[cold]
#[inline(never)]
fn materialise_elsewhere(next: &'static Descriptor) {
    prepare(pool::arena_of(next).take(), next);
}

#[inline(always)]
fn prepare(slot: Slot, next: &'static Descriptor) {
    // SAFETY: the slot is exclusively ours; `thread_entry` never returns and lets no panic out.
    unsafe { (*next.context.get()).prepare(slot.top(), slot.fs(), thread_entry) };
    next.slot.set(slot.into_raw());
}

/// The slot of a thread that starts, its storage as new.
#[inline]
pub(crate) fn take_slot(inside: Lent<'_>, next: &'static Descriptor) -> Slot {
    take_kept(inside, next).unwrap_or_else(|| pool::arena_of(next).take())
}

/// One that the processor keeps, if it does.
#[inline(always)]
fn take_kept(mut inside: Lent<'_>, next: &'static Descriptor) -> Option<Slot> {
    let arena = pool::arena_of(next);
    let slot = inside.owned().kept.of(pool::class_of(next)).take_stack(arena)?;
    // SAFETY: the former thread is gone (its finalizer kept the slot), the block was prepared by the arena.
    unsafe { pool::tls().renew(slot.fs()) };
    Some(slot)
}
