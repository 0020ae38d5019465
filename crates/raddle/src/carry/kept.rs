//! Stacks, and rights to them, that a processor keeps: for each stack class its own.
//!
//! A right is taken when a thread is spawned, the stack when it starts. Both go to the arena of their class and come
//! from there in batches, so that its counter and its list of idle stacks are seldom fought for. An arena with few
//! slots, or of which address space was asked back, has no batches: what one processor kept of it would be missing
//! elsewhere.
//!
//! Invariant: `stacks.len() <= rights`: each stack that is kept is covered by a right, so that the arena never has more
//! slots out than rights.

use crate::carry::errors::SpawnError;
use crate::carry::pool;
use raddle_context::stack::{Arena, Slot, StackSize};

/// Stacks of a class that a processor keeps hot for the threads it starts next; the rest goes back to the arena.
pub(crate) const STACKS_KEPT: usize = 64;
/// Stacks that go to an arena and come from there at once, so that its list of idle ones is seldom fought for.
const STACKS_MOVED: usize = 32;
/// Rights to a stack are taken from and given to the arena's counter by so many.
const RIGHTS_BATCH: u32 = 64;
/// Slots of the smallest arena of which processors keep any: each keeps at most some 256 rights, a 64th of this.
const SLOTS_OF_BATCHES: usize = 1 << 14;

/// The class of the smallest stacks, and how many classes there are.
const SMALLEST: u32 = StackSize::MIN.bytes().trailing_zeros();
const CLASSES: usize = (StackSize::MAX.bytes().trailing_zeros() - SMALLEST + 1) as usize;

/// What a processor keeps of all classes; only its owner touches it.
pub(crate) struct Kept([OfClass; CLASSES]);

impl Kept {
    /// Nothing yet. Room for all is had now, since the owner is not to allocate inside its mark.
    pub fn new() -> Self {
        let nothing = || OfClass {
            stacks: Vec::with_capacity(STACKS_KEPT + 1),
            cold: 0,
            rights: 0,
            most_stacks: 0,
            most_rights: 0,
        };
        Kept(std::array::from_fn(|_| nothing()))
    }

    /// What it keeps of a class (the logarithm of the slots' size).
    #[inline(always)]
    pub fn of(&mut self, class: u32) -> &mut OfClass {
        &mut self.0[(class - SMALLEST) as usize]
    }

    /// The processor stops for good, or nobody is to keep anything: everything goes back to where others find it.
    pub fn give_back(&mut self) {
        for (kept, class) in self.0.iter_mut().zip(SMALLEST..) {
            if kept.rights > 0
                && let Ok(arena) = pool::arena(class)
            {
                arena.give_some(kept.stacks.drain(..));
                kept.cold = 0;
                arena.unreserve_some(std::mem::take(&mut kept.rights) as usize);
            }
            // The arena is looked at again.
            (kept.most_stacks, kept.most_rights) = (0, 0);
        }
    }
}

/// What a processor keeps of one class.
pub(crate) struct OfClass {
    stacks: Vec<Slot>,
    /// So many of them, the first, came from the arena and were not used since: no cache holds them.
    cold: u32,
    rights: u32,
    /// With so many stacks, or rights, some go back to the arena. 0, too, until the arena has been looked at.
    most_stacks: u32,
    most_rights: u32,
}

impl OfClass {
    /// Sees to it that [`OfClass::take_right`] finds a right.
    ///
    /// # Errors
    /// No slot of the class is left, or no address space for its arena.
    #[inline(always)]
    pub fn have_right(&mut self, class: u32) -> Result<(), SpawnError> {
        if self.rights as usize > self.stacks.len() { Ok(()) } else { self.fetch_rights(class) }
    }

    /// Takes the right to a stack for a thread to come, after [`OfClass::have_right`].
    #[inline(always)]
    pub fn take_right(&mut self) {
        self.rights -= 1;
    }

    #[cold]
    fn fetch_rights(&mut self, class: u32) -> Result<(), SpawnError> {
        let arena = pool::arena(class).map_err(|error| SpawnError::Stack(error.to_string()))?;
        if self.has_batches(arena) {
            self.rights += arena.reserve_some(RIGHTS_BATCH as usize) as u32;
        }
        // A kept stack holds its right; without it, the right serves.
        if self.rights as usize <= self.stacks.len() {
            let spare = self.stacks.pop();
            self.cold = self.cold.min(self.stacks.len() as u32);
            match spare {
                Some(slot) => arena.give(slot),
                // One more try, for what it says, or for one that has come back meanwhile.
                None => {
                    arena.reserve().map_err(|error| SpawnError::Stack(error.to_string()))?;
                    self.rights += 1;
                }
            }
        }
        Ok(())
    }

    /// Takes back the right of a thread of this class that has ended.
    #[inline(always)]
    pub fn give_right(&mut self, class: u32) {
        self.rights += 1;
        if self.rights >= self.most_rights {
            self.give_rights(class);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_rights(&mut self, class: u32) {
        let Ok(arena) = pool::arena(class) else { unreachable!("a thread's arena was made at its spawn") };
        let batch = if self.has_batches(arena) { 2 * RIGHTS_BATCH } else { 1 };
        if self.rights >= self.most_rights.max(batch) {
            arena.unreserve_some(batch as usize);
            self.rights -= batch;
        }
    }

    /// A stack for a thread that has its right to one and starts: a kept one, or one of those, the next of which is
    /// brought closer, that are fetched from `arena` at once when none is left. Its block is as the former thread left
    /// it.
    #[inline(always)]
    pub fn take_stack(&mut self, arena: &'static Arena) -> Option<Slot> {
        // The last one in a cache goes there, too: the next one is brought closer.
        let far = self.cold + u32::from(self.cold > 0);
        if self.stacks.len() > far as usize { self.stacks.pop() } else { self.take_far(arena) }
    }

    #[cold]
    #[inline(never)]
    fn take_far(&mut self, arena: &'static Arena) -> Option<Slot> {
        if self.stacks.is_empty() {
            self.fetch_stacks(arena);
        }
        let slot = self.stacks.pop();
        self.cold = self.cold.min(self.stacks.len() as u32);
        if let Some(next) = self.stacks.last() {
            arena.fetch(next.index());
        }
        slot
    }

    fn fetch_stacks(&mut self, arena: &'static Arena) {
        if !self.has_batches(arena) {
            return;
        }
        // Each but the first needs a right, which is taken from those for threads to come, or from the arena.
        let missing = (STACKS_MOVED - 1).saturating_sub(self.rights as usize);
        self.rights += arena.reserve_some(missing) as u32;
        let most = STACKS_MOVED.min(1 + self.rights as usize);
        arena.take_some(most, |slot| self.stacks.push(slot));
        // The hottest comes first.
        self.stacks.reverse();
        self.cold = self.stacks.len() as u32;
    }

    /// Keeps an ended thread's stack, whose right is kept too; the coldest of too many go back to their arena at once.
    #[inline(always)]
    pub fn keep_stack(&mut self, slot: Slot) {
        if self.stacks.len() < self.most_stacks as usize { self.stacks.push(slot) } else { self.give_stacks(slot) }
    }

    #[cold]
    #[inline(never)]
    fn give_stacks(&mut self, slot: Slot) {
        let arena = slot.arena();
        if !self.has_batches(arena) {
            return arena.give(slot);
        }
        if self.stacks.len() >= STACKS_KEPT {
            arena.give_some(self.stacks.drain(..STACKS_MOVED));
            self.cold = self.cold.saturating_sub(STACKS_MOVED as u32);
        }
        self.stacks.push(slot);
    }

    /// Whether anything of `arena`, the class's own, is kept; from the first look on the limits say so.
    fn has_batches(&mut self, arena: &Arena) -> bool {
        let has = arena.limit() >= SLOTS_OF_BATCHES && !arena.is_asked_back();
        if has {
            (self.most_stacks, self.most_rights) = (STACKS_KEPT as u32, 4 * RIGHTS_BATCH);
        }
        has
    }
}
