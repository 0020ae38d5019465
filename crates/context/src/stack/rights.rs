//! An arena's rights to slots, and the address space behind them: the protocol is [`raddle_queues::rights`], whose
//! interleavings are tested there; here is the memory that it maps and unmaps.
//!
//! Where a limit on address space comes late ([`Arena::give_back_rest`]), slots that were never handed out are
//! unmapped, and slots are mapped one by one from then on. Idle slots go one by one ([`Arena::unmap_idle`]).

use super::list::Entry;
use super::{Arena, StackError, guard, size};
use core::ops::Range;
use core::sync::atomic::Ordering;
use raddle_queues::rights::Slots;

/// The most slots that an arena has once its rest was given back: its table of them counts, too.
const MOST_AFTERWARDS: usize = 1 << 20;

/// An arena's memory and lists of idle slots, for its rights alone: those decide what is unmapped.
struct Memory<'a>(&'a Arena);

impl Slots for Memory<'_> {
    type Error = StackError;

    #[inline]
    fn limit(&self) -> usize {
        self.0.limit()
    }

    fn refused(&self) -> StackError {
        StackError::new(format!(
            "all {} stack slots of {} bytes are in use; let threads end or raise the limit",
            self.0.limit(),
            self.0.slot_size
        ))
    }

    fn pay_guard(&self) -> Result<(), StackError> {
        guard::spend_one()
    }

    fn map(&self, slot: u32) -> Result<(), StackError> {
        size::map_slot(self.0.slot_base(slot), self.0.stride)
    }

    fn unmap(&self, slot: u32) {
        let arena = self.0;
        // SAFETY: popped, so ours (I2), and its block was taken back when it became cold.
        unsafe { size::unmap(arena.slot_base(slot), arena.stride) };
        // Ordering: Relaxed: published by the push (edge `slots`).
        arena.entry(slot).state.store(0, Ordering::Relaxed);
    }

    fn unmap_rest(&self, rest: Range<u32>) {
        let arena = self.0;
        // Core dumps hold what is left, and what is mapped later.
        arena.have_dumped(rest.start as usize);
        arena.dumped.fetch_max(rest.end as usize, Ordering::Relaxed);
        // Below what others map where the rest was, from its end on.
        let limit = (rest.end as usize / 2).min(MOST_AFTERWARDS).max(rest.start as usize);
        // Ordering: Relaxed: who maps slots there sees it by the edge `open` of the rights.
        arena.limit.store(limit, Ordering::Relaxed);
        let page = size::page_size();
        let table = arena.entries.addr();
        let kept = (table + limit * size_of::<Entry>()).next_multiple_of(page);
        let end = (table + rest.end as usize * size_of::<Entry>()).next_multiple_of(page);
        // SAFETY: the rights give the rest to us, once, and nobody has had its slots; nobody looks at an entry of a
        // slot that was not handed out.
        unsafe {
            size::unmap(arena.slot_base(rest.start), rest.len() * arena.stride);
            size::unmap(kept, end.saturating_sub(kept));
        }
    }

    fn push_mapped(&self, slots: Range<u32>) {
        self.0.cold.push_all(slots, self.0.entries());
    }

    fn pop_mapped(&self) -> Option<u32> {
        self.0.cold.pop(self.0.entries())
    }

    fn push_unmapped(&self, slot: u32) {
        self.0.unmapped.push(slot, self.0.entries());
    }

    fn pop_unmapped(&self) -> Option<u32> {
        self.0.unmapped.pop(self.0.entries())
    }
}

impl Arena {
    /// Reserves the right to one slot. After it, one [`Arena::take`] cannot fail.
    ///
    /// # Errors
    /// When all slots are reserved, or when the guards, or the address space, left do not suffice.
    pub fn reserve(&self) -> Result<(), StackError> {
        self.rights.reserve(&Memory(self))
    }

    /// Reserves at most so many slots at once; how many.
    pub fn reserve_some(&self, most: usize) -> usize {
        self.rights.reserve_some(most, &Memory(self))
    }

    /// The right to one more slot than are in use, for who takes an idle one. False: those in use may need it.
    pub(super) fn reserve_idle(&self) -> bool {
        if self.is_one_by_one() { self.rights.add_covered() } else { self.reserve().is_ok() }
    }

    /// Whether slots are mapped one by one.
    pub fn is_one_by_one(&self) -> bool {
        self.rights.is_one_by_one()
    }

    /// Gives a reservation back.
    pub fn unreserve(&self) {
        self.unreserve_some(1);
    }

    /// Gives so many reservations back at once.
    pub fn unreserve_some(&self, count: usize) {
        if count > 0 {
            self.rights.unreserve(count);
        }
    }

    /// Gives the address space back that no slot handed out has, and maps slots one by one from now on, fewer than
    /// before: the process's address space is about to be limited. Does nothing more when called again.
    pub fn give_back_rest(&self) {
        // Ordering: Relaxed: who keeps slots looks now and then.
        self.asked_back.store(true, Ordering::Relaxed);
        self.rights.give_back(&Memory(self));
    }

    /// Whether address space was asked back: nobody is to keep any without need.
    pub fn is_asked_back(&self) -> bool {
        // Ordering: Relaxed: a hint.
        self.asked_back.load(Ordering::Relaxed)
    }

    /// Unmaps idle slots, where slots are mapped one by one. Returns how many.
    pub fn unmap_idle(&'static self) -> usize {
        if !self.is_one_by_one() {
            return 0;
        }
        self.shrink(0);
        self.rights.unmap_idle(&Memory(self))
    }
}
