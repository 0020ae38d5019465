//! Rights to slots of memory, while some of the memory is given back: who has a right finds a slot that is mapped.
//!
//! Source: this project, for the stacks of an arena where address space comes to be limited. The memory itself and the
//! lists of idle slots are the caller's ([`Slots`]).
//!
//! Roles: *reservers* want a right to one more slot, *takers* have one and take a slot, *idle takers* want a right only
//! if a slot is left over, and unmap it ([`Rights::unmap_idle`]) or not ([`Rights::add_covered`]); *limiters* give back
//! what nobody has ([`Rights::give_back`]). Each is anyone, also a signal handler that has interrupted another.
//!
//! | word | layout |
//! |---|---|
//! | `reserved` | low 62 bits: rights out; above: a guard (`GUARDS`), a mapped slot (`ONE_BY_ONE`) each |
//! | `guards` | guards that were paid for: the most rights out at once |
//! | `mapped` | low 62 bits: slots that count as mapped; `COUNTED`, the count has begun |
//! | `Fresh::word` | low half: slots handed out, from the first; high half: where the mapped ones end |
//! | `Fresh::open` | 1: slots from the end on may be mapped |
//!
//! | word | changes | by |
//! |---|---|---|
//! | `reserved` | one right more, without a condition | reserver, who then pays or takes it back |
//! | `reserved` | one right more, fewer than are mapped | idle taker, who then looks again, and takes it back or not |
//! | `reserved` | `ONE_BY_ONE` set, the rights as they were | one limiter, once as many slots are handed out |
//! | `mapped` | from nothing to the slots handed out, and `COUNTED` | one limiter, before the flag is set |
//! | `mapped` | more | who has listed a mapped slot: reserver, or limiter before the flag is set |
//! | `mapped` | one less | idle taker that has unmapped a slot, and still has its right |
//! | `Fresh::word` | the end to what is handed out: the caller has what is above | limiter, after the flag is set |
//! | `Fresh::open` | 1 | the limiter that had the rest, once that is unmapped |
//!
//! Invariants:
//! - R1: where `ONE_BY_ONE` is set, rights that are relied on ≤ slots that are mapped and handed out. Who adds a
//!   right looks at `mapped` *after* that, and relies on the right only if `mapped` is not below its number.
//!   `mapped` ≤ slots that are mapped and handed out: it grows after them. It falls after them, too: until then the
//!   right of who unmaps stands for the slot. What takers hand out between the first count and the flag is not in it:
//!   so many fewer rights can be had where the limit is near.
//! - R2: slots at or above the end are not mapped, or are the limiter's who lowered it; below it those not handed out
//!   are mapped. The end equals what is handed out once it was lowered, and follows it.
//! - R3: a slot from the end on is handed out only when `open`, that is below the last limit that there is.
//!
//! R1, in full. Let m be `mapped`, and suppose that more rights are relied on than m at some time; those of idle takers
//! that have lowered m are not. Of all rights that are out then, or were when their owner lowered m after the last
//! addition, let X be the last that was added. X's number n counts all of them, so n > m plus the idle takers among
//! them. X read `mapped` ≥ n after it had added, and so after each lowering whose right was back by then (edge
//! `share`). Only those idle takers have lowered it since, each by one: m ≥ n - idle takers > m. The look *before*
//! the addition does not suffice: between it and the exchange one can unmap and give its right back, and another add
//! one, which leaves `reserved` as it was.
//!
//! Progress: lock-free. A limiter that is frozen while it unmaps the rest keeps others from the slots there until it
//! thaws: they are refused. In an arena all of whose slots are handed out, who finds each in others' hands is refused.
//! Memory: five words, for ever.
//!
//! Edges: `share` unmap_idle → who adds a right after it (that `mapped` is lower); `base` the first count → limiters
//! that hand out more, and who sees the flag; `open` the lower limit and the unmapping of the rest → who maps there.
//! What a taker sees of a slot comes through the caller's lists.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::rights::Fresh;
//! let fresh = Fresh::<Real>::new(3);
//! assert_eq!((fresh.hand_out(2), fresh.hand_out(2), fresh.hand_out(2)), (Some(0..2), Some(2..3), None));
//! ```

use core::ops::Range;
use raddle_machine::{Atomic, Machine, Ordering};

/// Each right is paid for with a guard of the process's budget.
const GUARDS: usize = 1 << 63;
/// Each right is paid for with a slot that is mapped.
const ONE_BY_ONE: usize = 1 << 62;
const COUNT: usize = ONE_BY_ONE - 1;

/// In `mapped`: the slots that had been handed out are in it.
const COUNTED: usize = 1 << 63;

/// The slots' memory, and the lists of those that are idle.
pub trait Slots {
    /// Why there is none.
    type Error;
    /// The most slots that can be reserved; it may come to be lower, once.
    fn limit(&self) -> usize;
    /// All slots are in use, or in the hands of others.
    fn refused(&self) -> Self::Error;
    /// Pays for a guard.
    ///
    /// # Errors
    /// None is left.
    fn pay_guard(&self) -> Result<(), Self::Error>;
    /// Maps a slot that is not, and is the caller's.
    ///
    /// # Errors
    /// There is no room for it.
    fn map(&self, slot: u32) -> Result<(), Self::Error>;
    /// Unmaps a slot that was popped.
    fn unmap(&self, slot: u32);
    /// Unmaps slots that nobody has had, and lowers the limit, first.
    fn unmap_rest(&self, rest: Range<u32>);
    /// Lists slots that are mapped.
    fn push_mapped(&self, slots: Range<u32>);
    /// Takes a mapped one that is idle.
    fn pop_mapped(&self) -> Option<u32>;
    /// Lists a slot that was handed out and is not mapped.
    fn push_unmapped(&self, slot: u32);
    /// Takes such a one.
    fn pop_unmapped(&self) -> Option<u32>;
}

/// Rights, and what was paid for them.
pub struct Rights<M: Machine> {
    reserved: M::Atomic<usize>,
    guards: M::Atomic<usize>,
    mapped: M::Atomic<usize>,
    /// The slots that were never handed out.
    pub fresh: Fresh<M>,
}

impl<M: Machine> core::fmt::Debug for Rights<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rights").field("count", &self.count()).field("mapped", &self.mapped()).finish_non_exhaustive()
    }
}

impl<M: Machine> Rights<M> {
    /// None out. Of guards there are few, or not. The first slots are mapped, or (`None`) they are mapped one by one.
    pub fn new(scarce: bool, mapped: Option<u32>) -> Self {
        let one_by_one = mapped.is_none();
        let flags = if scarce { GUARDS } else { 0 } | if one_by_one { ONE_BY_ONE } else { 0 };
        Self {
            reserved: M::Atomic::new(flags),
            guards: M::Atomic::new(0),
            mapped: M::Atomic::new(if one_by_one { COUNTED } else { 0 }),
            fresh: Fresh {
                word: M::Atomic::new(word(0, mapped.unwrap_or(0))),
                open: M::Atomic::new(one_by_one.into()),
            },
        }
    }

    /// How many are out.
    #[inline]
    pub fn count(&self) -> usize {
        // Relaxed: a counter only.
        self.reserved.load(Ordering::Relaxed) & COUNT
    }

    /// How many slots count as mapped, where they are mapped one by one.
    pub fn mapped(&self) -> usize {
        // Relaxed: a counter only; who relies on it has an edge from those who have lowered it (`share`).
        self.mapped.load(Ordering::Relaxed) & COUNT
    }

    /// Whether each right is paid for with a mapped slot.
    #[inline]
    pub fn is_one_by_one(&self) -> bool {
        // Relaxed: who relies on it has added its right to the same word.
        self.reserved.load(Ordering::Relaxed) & ONE_BY_ONE != 0
    }

    /// The right to one slot: whoever has it finds one.
    ///
    /// # Errors
    /// All are reserved, or what a right costs is not left.
    #[inline]
    pub fn reserve<S: Slots>(&self, slots: &S) -> Result<(), S::Error> {
        // Relaxed: a counter only, until a flag is seen in it: then `pay` has the fence.
        let before = self.reserved.fetch_add(1, Ordering::Relaxed);
        // A flag makes it larger than any limit.
        if before >= slots.limit()
            && let Err(why) = self.pay(before, slots)
        {
            // Relaxed: a counter only.
            self.reserved.fetch_sub(1, Ordering::Relaxed);
            return Err(why);
        }
        Ok(())
    }

    /// The rights to at most so many slots at once; how many.
    #[inline]
    pub fn reserve_some<S: Slots>(&self, most: usize, slots: &S) -> usize {
        let limit = slots.limit();
        let room = |reserved: usize| most.min(limit.saturating_sub(reserved));
        // Relaxed: validated by the exchange; a counter only. Never beyond the limit, where others would be refused
        // meanwhile.
        let mut word = self.reserved.load(Ordering::Relaxed);
        while word == word & COUNT {
            match self.reserved.compare_exchange(word, word + room(word), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return room(word),
                Err(now) => word = now,
            }
        }
        (0..most).take_while(|_| self.reserve(slots).is_ok()).count()
    }

    /// Gives so many rights back.
    #[inline]
    pub fn unreserve(&self, count: usize) {
        // Relaxed: a counter only.
        let before = self.reserved.fetch_sub(count, Ordering::Relaxed) & COUNT;
        assert!(before >= count, "a reservation given back twice");
    }

    /// One right more, where slots are mapped one by one, if it is covered by what is mapped.
    pub fn add_covered(&self) -> bool {
        // Relaxed: validated by the exchange.
        let mut word = self.reserved.load(Ordering::Relaxed);
        loop {
            if word & COUNT >= self.mapped() {
                return false;
            }
            // Ordering[share]: Acquire. Pairs with the subtraction in `unmap_idle`. Makes visible: `mapped`.
            match self.reserved.compare_exchange(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // R1: what was seen before the exchange may have changed, and `reserved` be the same again.
        let covered = word & COUNT < self.mapped();
        if !covered {
            self.unreserve(1);
        }
        covered
    }

    /// What a right costs beyond a number: where guards are scarce, one of the process's budget, and where slots are
    /// mapped one by one, a slot; for each right beyond the most that there were.
    #[cold]
    fn pay<S: Slots>(&self, before: usize, slots: &S) -> Result<(), S::Error> {
        // Ordering[share]: Acquire fence, behind the addition of the right. Pairs with the subtraction in `unmap_idle`,
        // and with the exchange that sets the flag (`base`). Makes visible: `mapped`.
        M::fence(Ordering::Acquire);
        let reserved = (before & COUNT) + 1;
        if reserved > slots.limit() {
            return Err(slots.refused());
        }
        if before & GUARDS != 0 {
            Self::pay_up_to(reserved, &self.guards, || slots.pay_guard())?;
        }
        if before & ONE_BY_ONE != 0 {
            Self::pay_up_to(reserved, &self.mapped, || self.map_one(slots))?;
        }
        Ok(())
    }

    /// Pays for each right beyond those that `paid` counts. What was paid beside others stays, as one more.
    fn pay_up_to<E>(reserved: usize, paid: &M::Atomic<usize>, pay: impl Fn() -> Result<(), E>) -> Result<(), E> {
        // Relaxed: counters only: see `mapped`.
        while reserved > paid.load(Ordering::Relaxed) & COUNT {
            pay()?;
            paid.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Maps a slot that is not, and lists it.
    fn map_one<S: Slots>(&self, slots: &S) -> Result<(), S::Error> {
        let slot = match slots.pop_unmapped() {
            Some(slot) => slot,
            None => {
                if let Some(some) = self.fresh.hand_out(1) {
                    slots.push_mapped(some);
                    return Ok(());
                }
                // None: those that do not count are in the hands of others, who map them, for themselves.
                self.fresh.hand_out_unmapped(|| slots.limit()).ok_or_else(|| slots.refused())?
            }
        };
        if let Err(why) = slots.map(slot) {
            slots.push_unmapped(slot);
            return Err(why);
        }
        slots.push_mapped(slot..slot + 1);
        Ok(())
    }

    /// Has slots mapped one by one from now on, and all unmapped that were never handed out and nobody has a right to.
    /// Does nothing more when called again.
    pub fn give_back<S: Slots>(&self, slots: &S) {
        // Once, by whoever is first: later the slots handed out are not those that are mapped.
        let counted = COUNTED | self.fresh.handed_out();
        // Ordering[base]: Release. Pairs with the fence below. Makes visible: nothing; what is handed out was read
        // before others hand out more. Not weakened: no model makes a store before an earlier load.
        let _ = self.mapped.compare_exchange(0, counted, Ordering::Release, Ordering::Relaxed);
        // Ordering[base]: Acquire fence. Pairs with the exchange above. Makes visible: that it is counted, before more
        // is handed out and added. Not weakened: as there.
        M::fence(Ordering::Acquire);
        loop {
            // Relaxed: validated by the exchange.
            let now = self.reserved.load(Ordering::Relaxed);
            if now & ONE_BY_ONE != 0 {
                break;
            }
            // Each right has a slot.
            let missing = (now & COUNT).saturating_sub(self.fresh.handed_out());
            if let Some(some) = (missing > 0).then(|| self.fresh.hand_out(missing)).flatten() {
                let count = some.len();
                slots.push_mapped(some);
                // Relaxed: a counter only.
                self.mapped.fetch_add(count, Ordering::Relaxed);
                continue;
            }
            // Ordering[base]: Release. Pairs with the fence in `pay`. Makes visible: that what is handed out is in
            // `mapped`. Not weakened: in a model an exchange is made where it stands, and who reads less pays more.
            let set = self.reserved.compare_exchange(now, now | ONE_BY_ONE, Ordering::Release, Ordering::Relaxed);
            if set.is_ok() {
                break;
            }
        }
        let rest = self.fresh.cut();
        if !rest.is_empty() {
            slots.unmap_rest(rest);
            // Ordering[open]: Release. Pairs with the load in `hand_out_unmapped`. Makes visible: the lower limit.
            self.fresh.open.store(1, Ordering::Release);
        }
    }

    /// Unmaps idle slots, where slots are mapped one by one. Returns how many.
    pub fn unmap_idle<S: Slots>(&self, slots: &S) -> usize {
        let mut count = 0;
        while self.is_one_by_one() && self.add_covered() {
            let Some(slot) = slots.pop_mapped() else {
                self.unreserve(1);
                break;
            };
            slots.unmap(slot);
            slots.push_unmapped(slot);
            self.lower();
            count += 1;
        }
        count
    }

    /// There is one mapped slot less, and one right.
    fn lower(&self) {
        // In this order (R1): until the end the right stands for the slot.
        // Relaxed: made visible by the subtraction below.
        self.mapped.fetch_sub(1, Ordering::Relaxed);
        // Ordering[share]: Release. Pairs with the exchange in `add_covered` and the fence in `pay`. Makes visible:
        // that `mapped` is lower.
        self.reserved.fetch_sub(1, Ordering::Release);
    }
}

/// Slots that were never handed out.
pub struct Fresh<M: Machine> {
    word: M::Atomic<u64>,
    open: M::Atomic<u32>,
}

/// Handed out, and where the mapped ones end.
fn parts(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn word(handed_out: u32, end: u32) -> u64 {
    u64::from(handed_out) | u64::from(end) << 32
}

impl<M: Machine> Fresh<M> {
    /// So many, all mapped.
    pub fn new(mapped: u32) -> Self {
        Self { word: M::Atomic::new(word(0, mapped)), open: M::Atomic::new(0) }
    }

    /// How many were handed out.
    #[inline]
    pub fn handed_out(&self) -> usize {
        // Relaxed: a number; each change of the word is validated by its exchange.
        parts(self.word.load(Ordering::Relaxed)).0 as usize
    }

    /// As std's `fetch_update`.
    fn update(&self, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // Relaxed: validated by the exchange; the slots were never touched by anyone, or are mapped by who claims them.
        let mut now = self.word.load(Ordering::Relaxed);
        loop {
            match self.word.compare_exchange(now, next(now)?, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(now),
                Err(other) => now = other,
            }
        }
    }

    /// Hands out mapped slots, at most so many: they are the caller's.
    pub fn hand_out(&self, most: usize) -> Option<Range<u32>> {
        let end = |from: u32, end: u32| (from as usize + most).min(end as usize) as u32;
        let next = |now: u64| {
            let (from, mapped) = parts(now);
            (from < mapped).then(|| word(end(from, mapped), mapped))
        };
        let (from, mapped) = parts(self.update(next)?);
        Some(from..end(from, mapped))
    }

    /// Hands out one that is not mapped, below `limit`, which the caller is to map.
    fn hand_out_unmapped(&self, limit: impl Fn() -> usize) -> Option<u32> {
        // Ordering[open]: Acquire. Pairs with the store in `give_back`. Makes visible: the lower limit.
        if self.open.load(Ordering::Acquire) == 0 {
            return None;
        }
        let limit = limit();
        let next = |now: u64| {
            let (from, mapped) = parts(now);
            (from == mapped && (from as usize) < limit).then(|| word(from + 1, mapped + 1))
        };
        self.update(next).map(|before| parts(before).0)
    }

    /// The mapped ones that were not handed out, which are the caller's to unmap.
    fn cut(&self) -> Range<u32> {
        let next = |now: u64| {
            let (from, mapped) = parts(now);
            (from < mapped).then(|| word(from, from))
        };
        self.update(next).map_or(0..0, |before| parts(before).0..parts(before).1)
    }
}
