//! Rights to slots, and the address space behind them.
//!
//! Three words say how an arena stands:
//!
//! | word | layout | invariant |
//! |---|---|---|
//! | `Rights::reserved` | low 62 bits: rights out; above: [`GUARDS`], each right is paid for with a guard; [`ONE_BY_ONE`], with a mapped slot | R1 |
//! | `Rights::mapped` | slots that count as mapped, once `ONE_BY_ONE` is set | R1 |
//! | `Fresh` | low half: slots handed out, from the first; high half: where the mapped ones end | R2 |
//!
//! R1. Where `ONE_BY_ONE` is set, rights out ≤ `mapped` ≤ slots that are mapped and handed out, but for who has added
//!     its right and does not rely on it yet ([`Arena::reserve`]). So who has a right finds a slot (I1 of [`super`]).
//! R2. Slots at or above the end are not mapped, and are mapped by who hands them out; below it those not handed out
//!     are mapped. The end equals `handed out` once the rest was given back, and follows it.
//!
//! Where a limit on address space comes late ([`Arena::give_back_rest`]), as many slots are handed out as there are
//! rights, and the flag is set by an exchange that fails if there are more by then; whoever adds a right after it sees
//! the flag in the same word. Then the end is lowered, which gives the caller all slots above, and these are unmapped.
//! Idle slots go one by one ([`Arena::unmap_idle`]): who takes a right that `mapped` covers, and a slot, unmaps it, and
//! gives up first its share of `mapped`, then the right.
//!
//! Progress: lock-free. Who is frozen while it unmaps the rest keeps others from the slots there until it thaws: they
//! are refused.

use super::list::Entry;
use super::{Arena, StackError, guard, size};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Each right is paid for with a guard of the process's budget.
const GUARDS: usize = 1 << 63;
/// Each right is paid for with a slot that is mapped.
const ONE_BY_ONE: usize = 1 << 62;
const COUNT: usize = ONE_BY_ONE - 1;

/// The most slots that an arena has once its rest was given back: its table of them counts, too.
const MOST_AFTERWARDS: usize = 1 << 20;

/// Rights, and what was paid for them.
#[derive(Debug)]
pub(super) struct Rights {
    reserved: AtomicUsize,
    /// Guards that were paid for: the most rights out at once.
    guards: AtomicUsize,
    mapped: AtomicUsize,
}

impl Rights {
    pub fn new(scarce: bool, one_by_one: bool) -> Rights {
        let flags = if scarce { GUARDS } else { 0 } | if one_by_one { ONE_BY_ONE } else { 0 };
        Rights { reserved: AtomicUsize::new(flags), guards: AtomicUsize::new(0), mapped: AtomicUsize::new(0) }
    }

    /// How many are out.
    pub fn count(&self) -> usize {
        // Ordering: Relaxed, a counter only.
        self.reserved.load(Ordering::Relaxed) & COUNT
    }

    fn is_one_by_one(&self) -> bool {
        // Ordering: Relaxed: who relies on it has added its right to the same word.
        self.reserved.load(Ordering::Relaxed) & ONE_BY_ONE != 0
    }

    /// One more, if it is covered by what is mapped.
    fn add_covered(&self) -> bool {
        // Ordering: Relaxed, counters only: what a taker sees of a slot comes through the free lists. Nobody but
        // callers of this lowers `mapped`, by no more than their own share.
        let covered = |word: usize| (word & COUNT < self.mapped.load(Ordering::Relaxed)).then_some(word + 1);
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, covered).is_ok()
    }
}

/// Slots that were never handed out.
#[derive(Debug)]
pub(super) struct Fresh(AtomicU64);

/// Handed out, and where the mapped ones end.
fn parts(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn word(handed_out: u32, end: u32) -> u64 {
    u64::from(handed_out) | u64::from(end) << 32
}

impl Fresh {
    pub fn new(mapped: u32) -> Fresh {
        Fresh(AtomicU64::new(word(0, mapped)))
    }

    pub fn handed_out(&self) -> usize {
        // Ordering: Relaxed here and below: the slots were never touched by anyone, or are mapped by who claims them.
        parts(self.0.load(Ordering::Relaxed)).0 as usize
    }

    /// Hands out mapped slots, at most so many: they are the caller's.
    pub fn hand_out(&self, most: usize) -> Option<Range<u32>> {
        let end = |from: u32, end: u32| (from as usize + most).min(end as usize) as u32;
        let next = |now: u64| {
            let (from, mapped) = parts(now);
            (from < mapped).then(|| word(end(from, mapped), mapped))
        };
        let (from, mapped) = parts(self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?);
        Some(from..end(from, mapped))
    }

    /// Hands out one that is not mapped, below `limit`, which the caller is to map.
    fn hand_out_unmapped(&self, limit: usize) -> Option<u32> {
        let next = |now: u64| {
            let (from, mapped) = parts(now);
            (from == mapped && (from as usize) < limit).then(|| word(from + 1, mapped + 1))
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|before| parts(before).0)
    }

    /// The mapped ones that were not handed out, which are the caller's to unmap.
    fn cut(&self) -> Range<u32> {
        let next = |now: u64| Some(word(parts(now).0, parts(now).0));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_else(|now| now);
        parts(before).0..parts(before).1
    }
}

impl Arena {
    /// Reserves the right to one slot. After it, one [`Arena::take`] cannot fail.
    ///
    /// # Errors
    /// When all slots are reserved, or when the guards, or the address space, left do not suffice.
    pub fn reserve(&self) -> Result<(), StackError> {
        // Ordering: Relaxed, a counter only: what a taker sees of a slot comes through the free lists.
        let before = self.rights.reserved.fetch_add(1, Ordering::Relaxed);
        // A flag makes it larger than any limit.
        if before >= self.limit()
            && let Err(why) = self.pay(before)
        {
            self.rights.reserved.fetch_sub(1, Ordering::Relaxed);
            return Err(why);
        }
        Ok(())
    }

    /// Reserves at most so many slots at once; how many.
    pub fn reserve_some(&self, most: usize) -> usize {
        let limit = self.limit();
        let room = |reserved: usize| most.min(limit.saturating_sub(reserved));
        // Ordering: Relaxed, a counter only, as in `reserve`; never beyond the limit, where others would be refused
        // meanwhile.
        let plain = |word: usize| (word == word & COUNT).then(|| word + room(word));
        match self.rights.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, plain) {
            Ok(before) => room(before),
            Err(_) => (0..most).take_while(|_| self.reserve().is_ok()).count(),
        }
    }

    /// The right to one more slot than are in use, for who takes an idle one. False: those in use may need it.
    pub(super) fn reserve_idle(&self) -> bool {
        if self.is_one_by_one() { self.rights.add_covered() } else { self.reserve().is_ok() }
    }

    /// Whether slots are mapped one by one: nobody is to keep any without need.
    pub fn is_one_by_one(&self) -> bool {
        self.rights.is_one_by_one()
    }

    /// What a right costs beyond a number: where guards are scarce, one of the process's budget, and where slots are
    /// mapped one by one, a slot; for each right beyond the most that there were.
    #[cold]
    fn pay(&self, before: usize) -> Result<(), StackError> {
        let reserved = (before & COUNT) + 1;
        if reserved > self.limit() {
            return Err(StackError::new(format!(
                "all {} stack slots of {} bytes are in use; let threads end or raise the limit",
                self.limit(),
                self.slot_size
            )));
        }
        if before & GUARDS != 0 {
            pay_up_to(reserved, &self.rights.guards, guard::spend_one)?;
        }
        if before & ONE_BY_ONE != 0 {
            pay_up_to(reserved, &self.rights.mapped, || self.map_one())?;
        }
        Ok(())
    }

    /// Maps a slot that is not, and lists it as cold.
    fn map_one(&self) -> Result<(), StackError> {
        let index = match self.unmapped.pop(self.entries()) {
            Some(index) => index,
            None => {
                if let Some(slots) = self.fresh.hand_out(1) {
                    self.cold.push_all(slots, self.entries());
                    return Ok(());
                }
                // All are mapped: more than are reserved.
                let Some(index) = self.fresh.hand_out_unmapped(self.limit()) else { return Ok(()) };
                index
            }
        };
        match size::map_slot(self.slot_base(index), self.stride) {
            Ok(()) => self.cold.push(index, self.entries()),
            Err(why) => {
                self.unmapped.push(index, self.entries());
                return Err(why);
            }
        }
        Ok(())
    }

    /// Gives a reservation back.
    pub fn unreserve(&self) {
        self.unreserve_some(1);
    }

    /// Gives so many reservations back at once.
    pub fn unreserve_some(&self, count: usize) {
        if count > 0 {
            // Ordering: Relaxed, a counter only.
            let before = self.rights.reserved.fetch_sub(count, Ordering::Relaxed) & COUNT;
            assert!(before >= count, "a reservation given back twice");
        }
    }

    /// Gives the address space back that no slot handed out has, and maps slots one by one from now on, fewer than
    /// before: the process's address space is about to be limited. Does nothing more when called again.
    pub fn give_back_rest(&self) {
        // Ordering: Relaxed throughout: see `reserve`.
        loop {
            let now = self.rights.reserved.load(Ordering::Relaxed);
            if now & ONE_BY_ONE != 0 {
                break;
            }
            // Each right has a slot.
            let missing = (now & COUNT).saturating_sub(self.fresh.handed_out());
            if let Some(slots) = (missing > 0).then(|| self.fresh.hand_out(missing)).flatten() {
                self.cold.push_all(slots, self.entries());
                continue;
            }
            self.rights.mapped.fetch_max(self.fresh.handed_out(), Ordering::Relaxed);
            let flagged = now | ONE_BY_ONE;
            if self.rights.reserved.compare_exchange(now, flagged, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        let rest = self.fresh.cut();
        if rest.is_empty() {
            return;
        }
        // Core dumps hold what is left, and what is mapped later.
        self.have_dumped(rest.start as usize);
        self.dumped.fetch_max(rest.end as usize, Ordering::Relaxed);
        // Below what others map where the rest was, from its end on.
        let limit = (rest.end as usize / 2).min(MOST_AFTERWARDS).max(rest.start as usize);
        self.limit.store(limit, Ordering::Relaxed);
        let page = size::page_size();
        let table = self.entries.addr();
        let kept = (table + limit * size_of::<Entry>()).next_multiple_of(page);
        let end = (table + rest.end as usize * size_of::<Entry>()).next_multiple_of(page);
        // SAFETY: the slots are ours by `cut`, which happens once, and nobody has had them; nobody looks at an entry of
        // a slot that was not handed out.
        unsafe {
            size::unmap(self.slot_base(rest.start), rest.len() * self.stride);
            size::unmap(kept, end.saturating_sub(kept));
        }
    }

    /// Unmaps idle slots, where slots are mapped one by one. Returns how many.
    pub fn unmap_idle(&'static self) -> usize {
        if !self.is_one_by_one() {
            return 0;
        }
        self.shrink(0);
        let mut count = 0;
        while self.rights.add_covered() {
            let Some(index) = self.cold.pop(self.entries()) else {
                self.unreserve();
                break;
            };
            // SAFETY: popped, so ours (I2), and its block was taken back when it became cold.
            unsafe { size::unmap(self.slot_base(index), self.stride) };
            // Ordering: Relaxed: published by the push (edge `slots`).
            self.entry(index).state.store(0, Ordering::Relaxed);
            self.unmapped.push(index, self.entries());
            // In this order (R1): the right covers until the end that there is one slot less.
            self.rights.mapped.fetch_sub(1, Ordering::Relaxed);
            self.unreserve();
            count += 1;
        }
        count
    }
}

/// Pays for each right beyond those that `paid` counts. What was paid beside others stays, as one more.
fn pay_up_to(reserved: usize, paid: &AtomicUsize, pay: impl Fn() -> Result<(), StackError>) -> Result<(), StackError> {
    // Ordering: Relaxed, counters only: what a taker sees of a slot comes through the free lists.
    while reserved > paid.load(Ordering::Relaxed) {
        pay()?;
        paid.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
