//! The first use of slots: guards are made, and what threads touch is had, for several slots by one call each.

use super::{Arena, GUARDED, HOT_PAGES, Slot, guard, size};
use core::sync::atomic::Ordering;

/// Slots whose guards are made, or whose memory goes, by one call. With 4, 16 and 64 each of 20,000 new threads takes
/// 2.5, 2.6 and 2.3 µs of processor time at best, in rounds of up to 6 to 12 (2026-11-28, `bursts` of
/// docs/constants.md): any serves.
pub const SLOTS_AT_ONCE: usize = 8;

/// Memory that the kernel is advised of.
pub fn range(start: usize, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(start), iov_len: bytes }
}

/// None of it.
pub const NOTHING: libc::iovec = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };

impl Arena {
    /// A slot that was never used, with some more for those who come next, whose guards are made in the same call: at
    /// most an eighth of those used so far, so that what is touched too early is little.
    ///
    /// Only of the first half: the slots in our hands are not reserved, so that nobody is refused for them; who has a
    /// reservation finds another slot meanwhile, of the other half at least (I1).
    #[cold]
    pub(super) fn take_fresh(&'static self) -> Option<Slot> {
        let used = self.rights.fresh.handed_out();
        let one = guard::are_scarce() || used >= self.limit() / 2;
        let more = if one { 0 } else { (used / 8).min(SLOTS_AT_ONCE - 1) };
        let slots = self.rights.fresh.hand_out(1 + more)?;
        let first = slots.start;
        self.put_guards(slots.clone());
        self.cold.push_all(first + 1..slots.end, self.entries());
        Some(self.set_up(first))
    }

    /// Makes the guards of slots that were never used and are ours (I2), and touches what threads on them do: a page
    /// fault for each would take longer.
    pub(super) fn put_guards(&self, slots: core::ops::Range<u32>) {
        self.have_dumped(slots.end as usize);
        self.install_guards(slots.clone());
        if slots.len() > 1 && self.hot_bytes <= HOT_PAGES * size::page_size() {
            self.have_tops(slots);
        }
    }

    /// Apart, as [`Arena::have_tops`]: the stack that this runs on is a parked thread's, and what it takes stays.
    #[inline(never)]
    fn install_guards(&self, slots: core::ops::Range<u32>) {
        let mut guards = [NOTHING; SLOTS_AT_ONCE];
        let count = slots.len();
        for (index, guard) in slots.zip(&mut guards) {
            *guard = range(self.slot_base(index), self.guard);
            // Ordering: Relaxed: ours (I2), published by the push or its thread's own use.
            self.entry(index).state.store(GUARDED, Ordering::Relaxed);
        }
        // SAFETY: the lowest bytes of slots that were taken just now for the first time.
        unsafe { guard::install(&guards[..count]) };
    }

    #[inline(never)]
    fn have_tops(&self, slots: core::ops::Range<u32>) {
        let mut tops = [NOTHING; SLOTS_AT_ONCE];
        let count = slots.len();
        for (index, top) in slots.zip(&mut tops) {
            *top = range(self.slot_base(index) + self.slot_size - self.hot_bytes, self.hot_bytes);
        }
        // Where it is refused they are touched when they are used.
        // SAFETY: reads and writes nothing.
        let _ = unsafe { size::advise(&tops[..count], libc::MADV_POPULATE_WRITE) };
    }
}
