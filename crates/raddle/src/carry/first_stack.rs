//! How a thread that starts gets its stack.
//!
//! The stack that this runs on is often that of a thread which parks in favour of the new one. It goes deepest in here,
//! and the pages that it touches stay its own while it is parked; so what needs much stack runs in no other frame.

use crate::carry::descriptor::Descriptor;
use crate::carry::pool;
use crate::carry::switching::thread_entry;
use crate::carry::witness::Lent;
use raddle_context::stack::{Arena, Slot};

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
    let class = pool::class_of(next);
    take_kept(inside, pool::arena_of_class(class), class).map(|slot| prepare(slot, next)).is_some()
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

/// The slot of a thread of `class` that starts, of the class's `arena`, its storage as new.
#[inline(always)]
pub(crate) fn take_slot(inside: Lent<'_>, arena: &'static Arena, class: u32) -> Slot {
    take_kept(inside, arena, class).unwrap_or_else(|| arena.take())
}

/// One that the processor keeps, if it does.
#[inline(always)]
fn take_kept(mut inside: Lent<'_>, arena: &'static Arena, class: u32) -> Option<Slot> {
    let slot = inside.owned().kept.of(class).take_stack(arena)?;
    // SAFETY: the former thread is gone (its finalizer kept the slot), the block was prepared by the arena.
    unsafe { pool::tls().renew(slot.fs()) };
    Some(slot)
}
