//! Arenas of stack slots.
//!
//! One arena holds the slots of one size. Its address space is reserved at once and costs nothing until it is touched;
//! pages that were touched stay with the slot, and idle slots are reused hottest first. A slot, lowest address first:
//!
//! ```text
//! guard page(s) | stack, growing down from Slot::top | TLS block, thread pointer | header | table | colour | reach
//! ```
//!
//! *Colour*: a few cache lines left free, different from slot to slot, so that the stack tops and thread control
//! blocks of many threads do not all fall into the same sets of the caches. The colours are so few that the
//! block and the first part of the stack stay within the slot's last two pages before the reach, which is all that a
//! parked thread touches.
//!
//! *Table*: the block's table of modules (dtv). It may grow through what the colour leaves free into the *reach*, pages
//! that are never touched unless very many libraries are loaded. The reach is in addition to the slot's size.
//!
//! *Guards* are installed when a slot is first used, and stay.
//!
//! *Core dumps* hold the slots that were ever used, or up to twice as many, not the rest of the reservation, at which
//! the kernel would look for minutes.
//!
//! Where address space is limited, slots are mapped *one by one* instead, each when a right to one more is asked for,
//! at places that follow each other. Where it comes to be limited later, an arena gives back what nobody has, and goes
//! on so (`rights.rs`).
//!
//! Source: the free list is R. K. Treiber, "Systems Programming: Coping with Parallelism" (1986), with a tag against
//! ABA.
//! Differs from the paper: the nodes are slot indices in a side table, so that a reader never touches a foreign stack.
//!
//! Roles: takers, givers, and one or more trimmers ([`Arena::shrink`]).
//!
//! State of a slot (its word in the side table; the free lists say who owns it):
//!
//! | state | means | left by |
//! |---|---|---|
//! | 0 | never used | taker: guard installed, with those of some more → `GUARDED` |
//! | 0, in the list of unmapped ones | there was no room for it, or it went back | who asks for a right, and maps it |
//! | `GUARDED` + `PREPARED` | used; block valid | trimmer: block released, pages returned → `GUARDED` |
//! | `GUARDED` | cold: pages are zero | taker: block prepared → `GUARDED` + `PREPARED` |
//!
//! I1. taken ≤ reserved ≤ limit: who holds a reservation finds a slot. A trimmer reserves before it takes. Slots
//!     whose guards a taker makes beside its own count as neither: if all others come to be reserved meanwhile, the
//!     last takers wait for that call.
//! I2. Each index is in exactly one place: a list, a token [`Slot`], or not yet handed out (≥ `fresh`).
//!
//! Progress: `reserve` and `give` are lock-free, and so is `take` but for that wait; `shrink` gives up where it would
//! have to wait, and holds the loader's lock while it takes blocks out of the list of threads. Reclamation: the side
//! table of slots that were handed out is never unmapped while the process lives, so a late reader of `next` reads a
//! stale index and fails its CAS on the tag. A slot is unmapped by who has it and the right to it.
//!
//! | edge | from | to |
//! |---|---|---|
//! | `slots` | push's CAS (Release) | pop's load (Acquire): the slot's contents and state |
//!
//! # Example
//! ```
//! use raddle_context::stack::Arena;
//! let arena = Arena::new(64 << 10, 8).unwrap();
//! arena.reserve().unwrap();
//! let slot = arena.take();
//! assert!(slot.top() > slot.limit());
//! assert_eq!(arena.slot_containing(slot.top().addr() - 1).unwrap().index, slot.index());
//! arena.give(slot);
//! arena.unreserve();
//! ```

mod first_use;
mod guard;
mod list;
mod pages_into;
mod rights;
mod size;
mod slot;

use crate::tls;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use first_use::{NOTHING, SLOTS_AT_ONCE, range};
use list::{Entry, List};
use pages_into::PagesInto;
use raddle_machine::{Machine, Real};
use raddle_queues::rights::Rights;
use slot::Header;

pub use guard::{GuardMethod, guard_method};
pub use size::{StackError, StackSize, address_space, are_to_be_locked, has_filters, has_no_filters, lock};
pub use slot::Slot;

/// Pages at the end of a slot that a parked thread keeps: at least so many, more when TLS is large.
const HOT_PAGES: usize = 2;
/// Bytes of stack that must fit below the block within the hot pages: a parked thread of this runtime uses 820, one of
/// std's under the drop-in library 2,784, for which there is no room beside the colours.
const HOT_STACK: usize = 1536;
/// The most colours used: a page has 64 lines.
const MAX_COLOURS: usize = 64;
/// Cache lines of stack that are fetched ahead: what a thread that waits at once writes (about one KiB).
const FETCHED_STACK: usize = 12;
pub(crate) const HEADER: usize = 64;
const _: () = assert!(size_of::<Header>() <= HEADER);

/// Slots that are in core dumps when the first is used. The kernel looks at each page of them, used or not.
const FIRST_DUMPED: usize = 4;

const GUARDED: u32 = 1;
const PREPARED: u32 = 2;

/// How an arena stands. Numbers are read one by one, so they may not fit together while others work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// Bytes of a slot, guard and block included.
    pub slot_size: usize,
    /// The most slots that can be reserved.
    pub limit: usize,
    /// Slots reserved now.
    pub reserved: usize,
    /// Slots that were ever used.
    pub touched: usize,
    /// Idle slots that keep their pages.
    pub hot: usize,
    /// Idle slots whose pages went back to the system.
    pub cold: usize,
}

/// What lies at an address of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InArena {
    /// The slot's number.
    pub index: u32,
    /// The slot's first byte.
    pub base: usize,
    /// The lowest address of its stack, above the guard.
    pub limit: usize,
    /// Bytes of the whole slot.
    pub slot_size: usize,
    /// Usable bytes of stack.
    pub stack_size: usize,
    /// Whether the address is in the slot's guard: a stack overflow.
    pub in_guard: bool,
    /// Bytes of guard at the slot's base, and bytes behind it.
    guard: usize,
    length: usize,
}

/// Slots of one size. Lives as long as the process.
#[derive(Debug)]
pub struct Arena {
    base: usize,
    slot_size: usize,
    /// From one slot to the next: pages.
    stride: usize,
    /// Divides by the stride.
    by_stride: PagesInto,
    guard: usize,
    /// Where a slot's header lies when its colour is 0, relative to the slot's base.
    header: usize,
    colour_unit: usize,
    colours: usize,
    /// What threads touch at a slot's end, if it goes no deeper.
    hot_bytes: usize,
    /// The most slots that can be reserved: all at first, fewer once address space was given back.
    limit: AtomicUsize,
    entries: *const Entry,
    hot: List,
    cold: List,
    rights: Rights<Real>,
    /// Address space was asked back ([`Arena::give_back_rest`]).
    asked_back: AtomicBool,
    /// So many slots are in core dumps, from the first.
    dumped: AtomicUsize,
    /// Slots that could not be mapped, or are not any more.
    unmapped: List,
    /// The arena created before this one.
    older: *const Arena,
}

// SAFETY: the pointers are to mappings and arenas that live as long as the process; everything shared is atomic.
unsafe impl Send for Arena {}
// SAFETY: shared, it gives atomics and addresses of mappings that are never taken away.
unsafe impl Sync for Arena {}

/// All arenas, newest first, for [`find`].
static NEWEST: AtomicPtr<Arena> = AtomicPtr::new(core::ptr::null_mut());

/// Makes a slot's stack executable, if a library that was loaded since the arena was made asks for that: the C library
/// does it with the stacks that it knows. For the handler of a fault of code that lies there. False if nobody asks, or
/// it cannot be done.
pub(crate) fn make_executable(place: &InArena) -> bool {
    !place.in_guard && size::executable_stacks_wanted() && size::allow_execution(place.base + place.guard, place.length)
}

/// What lies at an address, in whichever arena. Async-signal-safe.
pub fn find(address: usize) -> Option<InArena> {
    // Ordering[arenas]: Acquire. Pairs with the CAS in `Arena::new`. Makes visible: the arena's fields.
    let mut arena = NEWEST.load(Ordering::Acquire).cast_const();
    while !arena.is_null() {
        // SAFETY: arenas live as long as the process.
        let this = unsafe { &*arena };
        if let Some(place) = this.slot_containing(address) {
            return Some(place);
        }
        arena = this.older;
    }
    None
}

impl Arena {
    /// Reserves address space for `max_slots` slots of `slot_size` bytes (a power of two from 16 KiB to 1 GiB).
    ///
    /// # Errors
    /// A size that is none, no address space, or no support for thread-local storage blocks ([`tls::init`]).
    pub fn new(slot_size: usize, max_slots: usize) -> Result<&'static Arena, StackError> {
        Self::build(slot_size, max_slots, false)
    }

    /// As [`Arena::new`], for processes whose address space is limited: as many slots as fit into it, at most, and each
    /// is mapped when a right to one more is asked for.
    ///
    /// # Errors
    /// As for [`Arena::new`].
    pub fn one_by_one(slot_size: usize, max_slots: usize) -> Result<&'static Arena, StackError> {
        let fitting = (size::address_space() / slot_size.max(1)).clamp(1, list::MAX_INDEX);
        Self::build(slot_size, max_slots.min(fitting), true)
    }

    fn build(slot_size: usize, max_slots: usize, one_by_one: bool) -> Result<&'static Arena, StackError> {
        StackSize::new(slot_size)?;
        if !slot_size.is_power_of_two() {
            return Err(StackError::new(format!(
                "a slot of {slot_size} bytes is not a power of two; round it with StackSize::slot_size"
            )));
        }
        if max_slots == 0 || max_slots > list::MAX_INDEX {
            return Err(StackError::new(format!("{max_slots} stack slots; ask for 1 to {}", list::MAX_INDEX)));
        }
        let tls = tls::init().map_err(|why| StackError::new(why.to_string()))?;
        let page = size::page_size();
        let colour_unit = tls.align();
        let tail = (HEADER + tls.table_size()).next_multiple_of(colour_unit);
        let fixed = tail + tls.block_size();
        let hot_bytes = (fixed + HOT_STACK).next_multiple_of(page).max(HOT_PAGES * page);
        let spare = hot_bytes - fixed - HOT_STACK;
        let colours = (spare / colour_unit + 1).min(MAX_COLOURS);
        let colours = if colours.is_power_of_two() { colours } else { colours.next_power_of_two() / 2 };
        let guard = guard::length(slot_size, page);
        if fixed + colours * colour_unit + guard + page > slot_size {
            return Err(StackError::new(format!(
                "a slot of {slot_size} bytes has no room for {fixed} bytes of thread-local storage; ask for {} or more",
                2 * slot_size
            )));
        }
        let stride = slot_size + tls.table_reach().next_multiple_of(page);
        let base = if one_by_one {
            size::far_away(stride.saturating_mul(max_slots))
        } else {
            size::map_arena(stride, max_slots)?.expose_provenance()
        };
        let entries = match size::map_table(max_slots * size_of::<Entry>()) {
            Ok(table) => table.cast::<Entry>(),
            Err(why) if one_by_one => return Err(why),
            Err(why) => {
                // SAFETY: mapped above, not handed out.
                unsafe { libc::munmap(core::ptr::with_exposed_provenance_mut(base), stride * max_slots) };
                return Err(why);
            }
        };
        let arena = Box::new(Arena {
            base,
            slot_size,
            stride,
            by_stride: PagesInto::new(stride),
            guard,
            header: slot_size - tail,
            colour_unit,
            colours,
            hot_bytes,
            limit: AtomicUsize::new(max_slots),
            entries,
            hot: List::new(),
            cold: List::new(),
            rights: Rights::new(guard::are_scarce(), (!one_by_one).then_some(max_slots as u32)),
            asked_back: AtomicBool::new(false),
            dumped: AtomicUsize::new(if one_by_one { max_slots } else { 0 }),
            unmapped: List::new(),
            older: core::ptr::null(),
        });
        if one_by_one {
            // The first one, so that an arena without any is none.
            if let Err(why) = arena.reserve() {
                // SAFETY: mapped above, and nobody has it.
                unsafe { libc::munmap(entries.cast(), max_slots * size_of::<Entry>()) };
                return Err(why);
            }
            arena.unreserve();
        }
        let arena = Box::leak(arena);
        let this = &raw mut *arena;
        let mut newest = NEWEST.load(Ordering::Relaxed);
        loop {
            arena.older = newest;
            // Ordering[arenas]: Release. Pairs with the loads in `find`. Makes visible: the arena's fields.
            match NEWEST.compare_exchange_weak(newest, this, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(arena),
                Err(now) => newest = now,
            }
        }
    }

    /// Takes a slot under a reservation, hottest first. Its TLS block is prepared or renewed: nothing is to be done
    /// before a context runs on it. Only a slot that goes from one thread to the next without `give` and `take` is for
    /// the caller to renew ([`tls::Tls::renew`]).
    pub fn take(&'static self) -> Slot {
        loop {
            if let Some(index) = self.hot.pop(self.entries()) {
                self.fetch_next();
                // I2: popped, so ours; it was used, so its header is whole.
                let slot = Slot::of(self.header_of(index));
                if let Ok(tls) = tls::init() {
                    // SAFETY: the former thread is gone, the block was prepared here.
                    unsafe { tls.renew(slot.fs()) };
                }
                return slot;
            }
            if let Some(index) = self.cold.pop(self.entries()) {
                return self.set_up(index);
            }
            if let Some(slot) = self.take_fresh() {
                return slot;
            }
            assert!(self.rights.count() > 0, "take without a reservation");
            // I1: someone gave a slot back between our looks at the lists.
            core::hint::spin_loop();
        }
    }

    /// Takes idle slots that keep their pages, under as many reservations, at most so many: at once, where `take` is an
    /// exchange with all others for each. Unlike there, the caller renews their blocks ([`tls::Tls::renew`]) before a
    /// context runs on them.
    pub fn take_some(&'static self, most: usize, mut each: impl FnMut(Slot)) {
        // I2: popped, so ours; each was used, so its header is whole.
        self.hot.pop_some(most, self.entries(), |index| each(Slot::of(self.header_of(index))));
    }

    /// Brings the slot that is taken next closer, which has often left the caches where slots are taken one after the
    /// other.
    #[inline]
    fn fetch_next(&self) {
        if let Some(index) = self.hot.first() {
            self.fetch(index);
        }
    }

    /// Brings a slot closer that will be taken soon. Nothing is read of it: addresses follow from its number, and
    /// whoever takes it meanwhile is not disturbed.
    #[inline]
    pub fn fetch(&self, index: u32) {
        let Ok(tls) = tls::init() else { return };
        let header = self.header_of(index).as_ptr().cast::<u8>();
        Real::prefetch(header.addr());
        Real::prefetch(header.addr() + HEADER);
        Real::prefetch(core::ptr::from_ref(self.entry(index)).addr());
        tls.fetch(header);
        let top = header.addr() - tls.block_size();
        for line in 1..=FETCHED_STACK {
            Real::prefetch(top - 64 * line);
        }
    }

    /// Gives a slot back, pages and block as they are. The thread that used it is gone.
    pub fn give(&self, slot: Slot) {
        self.hot.push(self.own(&slot), self.entries());
    }

    /// As [`Arena::give`] of each, at once; the last is the hottest.
    pub fn give_some(&self, slots: impl Iterator<Item = Slot>) {
        self.hot.push_all(slots.map(|slot| self.own(&slot)), self.entries());
    }

    /// The number of a slot of this arena: another one's would be memory of somebody else.
    fn own(&self, slot: &Slot) -> u32 {
        assert!(core::ptr::eq(slot.arena(), self), "a slot given to another arena");
        slot.index()
    }

    /// Idle slots that keep their pages though nobody has needed them since the last call: nobody would have missed so
    /// many. None at the first.
    pub fn rested(&self) -> usize {
        self.hot.rested()
    }

    /// Gives the memory of idle slots back to the system, but for `keep` of them. Returns how many were emptied: none
    /// where somebody keeps the loader's lock, so it is to be called again.
    pub fn shrink(&'static self, keep: usize) -> usize {
        let mut emptied = 0;
        loop {
            let some = self.empty_some(keep);
            emptied += some;
            if some == 0 {
                return emptied;
            }
        }
    }

    /// Empties idle slots, at most half of those that are not reserved at once.
    fn empty_some(&'static self, keep: usize) -> usize {
        if self.hot.len() <= keep {
            return 0;
        }
        let Some(back) = tls::init().ok().and_then(|tls| tls.take_back()) else { return 0 };
        let most = (self.limit().saturating_sub(self.rights.count()) / 2).max(1);
        let (ours, mut count) = (List::new(), 0);
        // I1: the slots in our hands count as taken.
        while count < most && self.hot.len() > keep && self.reserve_idle() {
            let Some(index) = self.hot.pop(self.entries()) else {
                self.unreserve();
                break;
            };
            // SAFETY: popped, so ours (I2): the former thread is gone; the state below makes the next taker prepare
            // anew.
            unsafe { back.take(Slot::of(self.header_of(index)).fs()) };
            ours.push(index, self.entries());
            count += 1;
        }
        drop(back);
        loop {
            let (mut indices, mut ranges) = ([0; SLOTS_AT_ONCE], [NOTHING; SLOTS_AT_ONCE]);
            let mut some = 0;
            ours.pop_some(SLOTS_AT_ONCE, self.entries(), |index| {
                (indices[some], ranges[some]) =
                    (index, range(self.slot_base(index) + self.guard, self.stride - self.guard));
                some += 1;
            });
            if some == 0 {
                return count;
            }
            // SAFETY: the slots' own memory above their guards; the blocks were taken back.
            unsafe { size::empty(&ranges[..some]) };
            for &index in &indices[..some] {
                // Ordering: Relaxed: published by the push (edge `slots`).
                self.entry(index).state.store(GUARDED, Ordering::Relaxed);
            }
            self.cold.push_all(indices[..some].iter().copied(), self.entries());
            self.unreserve_some(some);
        }
    }

    /// What lies at an address, when it is in this arena. Async-signal-safe.
    pub fn slot_containing(&self, address: usize) -> Option<InArena> {
        let offset = address.checked_sub(self.base)?;
        let index = self.by_stride.quotient(offset);
        if index >= self.limit() {
            return None;
        }
        let base = self.slot_base(index as u32);
        Some(InArena {
            index: index as u32,
            base,
            limit: base + self.guard,
            slot_size: self.slot_size,
            stack_size: self.stack_size(index as u32),
            in_guard: address - base < self.guard,
            guard: self.guard,
            length: self.stride - self.guard,
        })
    }

    /// Bytes of stack below an address in one of this arena's stacks; 0 for any other address.
    #[inline]
    pub fn room(&self, address: usize) -> usize {
        let offset = address.wrapping_sub(self.base);
        let index = self.by_stride.quotient(offset);
        if index < self.limit() { (offset - index * self.stride).saturating_sub(self.guard) } else { 0 }
    }

    /// The most slots that can be reserved.
    #[inline]
    pub fn limit(&self) -> usize {
        // Ordering: Relaxed: a number alone; whoever holds a slot or a right to one is below each that it has been.
        self.limit.load(Ordering::Relaxed)
    }

    /// How the arena stands.
    pub fn stats(&self) -> ArenaStats {
        ArenaStats {
            slot_size: self.slot_size,
            limit: self.limit(),
            reserved: self.rights.count(),
            touched: self.rights.fresh.handed_out(),
            hot: self.hot.len(),
            cold: self.cold.len(),
        }
    }

    /// The first use of a slot, or of one whose memory was returned.
    #[cold]
    fn set_up(&'static self, index: u32) -> Slot {
        let base = self.slot_base(index);
        // Ordering: Relaxed: ours (I2), made visible by the pop.
        if self.entry(index).state.load(Ordering::Relaxed) & GUARDED == 0 {
            self.put_guards(index..index + 1);
        }
        let header = self.header_of(index);
        let Ok(tls) = tls::init() else { unreachable!("Arena::new has checked") };
        let block_top = header.as_ptr().cast::<u8>();
        // SAFETY: the slot is ours (I2), its memory zero, the end of the block aligned as the colours are, and the
        // table behind the header.
        unsafe {
            let table = block_top.add(HEADER);
            let fs = tls.prepare(block_top, table, base + self.stride - table.addr());
            header.write(Header {
                fs,
                top: block_top.sub(tls.block_size()),
                limit: core::ptr::with_exposed_provenance_mut(base + self.guard),
                arena: self,
                index,
            });
        }
        self.entry(index).state.store(GUARDED | PREPARED, Ordering::Relaxed);
        Slot::of(header)
    }

    /// Core dumps hold the first slots, so many at least: in steps that double, since each costs a call.
    fn have_dumped(&self, slots: usize) {
        // Ordering: Relaxed, a counter only: each step is advised by who took it.
        let mut dumped = self.dumped.load(Ordering::Relaxed);
        while dumped < slots {
            let more = slots.next_power_of_two().max(FIRST_DUMPED).min(self.limit());
            match self.dumped.compare_exchange(dumped, more, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return size::dump(self.slot_base(dumped as u32), (more - dumped) * self.stride),
                Err(now) => dumped = now,
            }
        }
    }

    fn entries(&self) -> &[Entry] {
        // SAFETY: a zeroed mapping of `limit` entries that lives as long as the process.
        unsafe { core::slice::from_raw_parts(self.entries, self.limit()) }
    }

    fn entry(&self, index: u32) -> &Entry {
        &self.entries()[index as usize]
    }

    fn slot_base(&self, index: u32) -> usize {
        self.base + index as usize * self.stride
    }

    fn header_of(&self, index: u32) -> core::ptr::NonNull<Header> {
        let colour = index as usize & (self.colours - 1);
        let address = self.slot_base(index) + self.header - colour * self.colour_unit;
        core::ptr::NonNull::new(core::ptr::with_exposed_provenance_mut(address)).expect("not at address 0")
    }

    fn stack_size(&self, index: u32) -> usize {
        let block = tls::init().map_or(0, |tls| tls.block_size());
        self.header_of(index).as_ptr().addr() - block - self.slot_base(index) - self.guard
    }
}
