//! Memory for when there is none.
//!
//! Natively `sleep`, `sem_wait` or `raise` need no memory, and `pthread_create` answers EAGAIN. Here a wait may be what
//! makes a table grow, and Rust ends the process where that fails. So what is asked for while the C library has nothing
//! comes from here: a part of the library's own zeroed data, whose pages cost nothing until then.

use raddle_machine::Real;
use raddle_queues::bump::Bump;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::sync::OnceLock;

/// On two processors 8 KiB were enough for each case of tests/c/without.c without memory (x86-64, 2026-11-28); the
/// tables of a pool that begins grow with its processors.
const ROOM_BYTES: usize = 1 << 18;

/// Bytes of one of the region's places.
const PLACE_BYTES: usize = 16;

/// A power of two, as large as any alignment that is served.
#[repr(C, align(4096))]
struct Room(UnsafeCell<[u8; ROOM_BYTES]>);

// SAFETY: nothing here reads or writes it; who gets a block of it has that block alone (`Bump`'s I1).
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new([0; ROOM_BYTES]));

fn region() -> &'static Bump<Real> {
    static REGION: OnceLock<Bump<Real>> = OnceLock::new();
    REGION.get_or_init(|| Bump::new((ROOM_BYTES / PLACE_BYTES) as u32))
}

fn places(size: usize) -> u32 {
    size.div_ceil(PLACE_BYTES).max(1) as u32
}

/// A block for `layout`, with what the last one left there. Null: there is no room either.
pub(crate) fn take(layout: Layout) -> *mut u8 {
    if layout.size() > ROOM_BYTES || layout.align() > align_of::<Room>() {
        return std::ptr::null_mut();
    }
    match region().take(places(layout.size()), places(layout.align())) {
        Some(place) => ROOM.0.get().cast::<u8>().wrapping_add(place as usize * PLACE_BYTES),
        None => std::ptr::null_mut(),
    }
}

/// True if the block is one of `take`'s.
pub(crate) fn owns(block: *mut u8) -> bool {
    block.addr().wrapping_sub(ROOM.0.get().addr()) < ROOM_BYTES
}

/// Gives one back.
///
/// # Safety
/// `take` has answered it for `layout`, and nobody uses it.
pub(crate) unsafe fn give(block: *mut u8, layout: Layout) {
    let place = (block.addr() - ROOM.0.get().addr()) / PLACE_BYTES;
    region().give(place as u32, places(layout.size()));
}
