//! A lock-free, type-stable pool of small records that are named by 32-bit indices.
//!
//! Source: the free list is R. K. Treiber's stack (*Systems Programming: Coping with Parallelism*, IBM RJ 5118, 1986)
//! with counted links. Differs from it: links are indices, so index and counter fit one word and no double-width
//! exchange is needed.
//!
//! Roles: any kernel thread takes and gives records; the *owner* of a record is whoever took it last.
//!
//! The top word, and the link word of a free record, are `tag:31 | mark:1 | index:32` (see [`Link`]); index 0 names
//! nothing.
//!
//! Invariants:
//! - I1: the memory of a record is only ever a record of this type until the pool is dropped, so reading one through a
//!   stale index yields a stale value, never a fault.
//! - I2: every write of a link word, and every change of the top word, adds to its tag; an exchange that compares a
//!   stale word fails, unless the tag wraps (2³¹ writes of one word while a kernel thread stands between its load and
//!   its exchange).
//! - I3: an index leaves [`Pool::take`] once until it is given back.
//!
//! Progress: lock-free (a failed exchange means that another one succeeded). A thread frozen inside `take` or `give`
//! keeps at most one record and stops nobody.
//!
//! Reclamation: chunks are freed when the pool is dropped; a pool's size is the largest number of records in use at a
//! time.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `pool.chunk` | [`Pool::take`] installs a chunk | [`Pool::get`] |
//! | `pool.give` | [`Pool::give`] | [`Pool::take`] |

use raddle_machine::{Atomic, Machine, Ordering};
use std::alloc::Layout;
use std::marker::PhantomData;

/// Records of the first chunk. A chunk is known by a power of two, from this one's on: it holds as many records, of the
/// indices from that power to the next one, so where a record lies is told by its index's highest bit.
const FIRST: u32 = 64;
/// The chunks, and places for the powers below the first.
const CHUNKS: usize = 32;
const END: u32 = 1 << 31;

/// A counted link: index, mark and tag in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(u64);

impl Link {
    const MARK: u64 = 1 << 32;
    const TAG_ONE: u64 = 1 << 33;

    /// Reads a word.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        Link(word)
    }
    /// The word to store.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }
    /// The record it names; 0: none.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.0 as u32
    }
    /// True when the record that holds this link is leaving its list.
    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0 & Self::MARK != 0
    }
    /// The link that takes this one's place and names `index`.
    #[inline(always)]
    pub fn successor(self, index: u32) -> Self {
        Link((self.0 & !(Self::TAG_ONE - 1)).wrapping_add(Self::TAG_ONE) | index as u64)
    }
    /// The same link, marked.
    #[inline(always)]
    pub fn marked(self) -> Self {
        Link(self.successor(self.index()).0 | Self::MARK)
    }
}

/// A record of a [`Pool`]: words only, so that a stale reader reads stale values.
///
/// # Safety
/// All fields are atomics (or are accessed only by the owner of the record), [`Record::fresh`] needs no drop, and a
/// record that is all zeroes may be read: that is what an index shows that this pool has not given out (but under a
/// model checker, whose words are more than their bits).
pub unsafe trait Record<M: Machine> {
    /// A record that was never used.
    fn fresh() -> Self;
    /// The word that links free records, and is the owner's while the record is in use.
    fn link(&self) -> &M::Atomic<u64>;
}

/// See the module.
#[repr(align(64))]
pub struct Pool<M: Machine, T: Record<M>> {
    free: M::Atomic<u64>,
    fresh: M::Atomic<u32>,
    /// Addresses of the first records; 0: not allocated yet.
    chunks: [M::Atomic<usize>; CHUNKS],
    records: PhantomData<T>,
}

// SAFETY: records are shared memory made of atomics, or belong to one owner at a time (condition of `Record`).
unsafe impl<M: Machine, T: Record<M> + Send> Send for Pool<M, T> {}
// SAFETY: shared, it gives records to one owner at a time: T: Send.
unsafe impl<M: Machine, T: Record<M> + Send> Sync for Pool<M, T> {}

impl<T: Record<raddle_machine::Real>> Pool<raddle_machine::Real, T> {
    /// An empty pool, in a constant.
    pub const fn constant() -> Self {
        use raddle_machine::RealAtomic;
        Self {
            free: RealAtomic::<u64>::constant(0),
            fresh: RealAtomic::<u32>::constant(FIRST),
            chunks: [const { RealAtomic::<usize>::constant(0) }; CHUNKS],
            records: PhantomData,
        }
    }
}

impl<M: Machine, T: Record<M>> Default for Pool<M, T> {
    fn default() -> Self {
        Self {
            free: M::Atomic::new(0),
            fresh: M::Atomic::new(FIRST),
            chunks: std::array::from_fn(|_| M::Atomic::new(0)),
            records: PhantomData,
        }
    }
}

impl<M: Machine, T: Record<M>> Pool<M, T> {
    /// The record `index`, which [`Pool::take`] returned at some time; of another index, some record.
    ///
    /// # Panics
    /// If no record near `index` was ever taken.
    #[inline(always)]
    pub fn get(&self, index: u32) -> &T {
        let (chunk, offset) = place(index);
        // Ordering[pool.chunk]: Acquire. Pairs with the exchange in `ensure`. Makes visible: the chunk's allocation.
        // Not weakened: whoever has an index has it by an edge that carries the chunk too; where two make the chunk,
        // loom does not follow raw memory; Miri does.
        let base = self.chunks[chunk].load(Ordering::Acquire);
        assert!(base != 0, "an index that was never taken");
        let base = std::ptr::with_exposed_provenance::<T>(base);
        // SAFETY: `place` lies within its chunk, whose records were initialised by `take` or are zeroes, which may be
        // read; chunks live as long as the pool (I1).
        unsafe { &*base.add(offset) }
    }

    /// Takes a record; its content is what its last owner left. `None` when there is no memory for another one.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        // Ordering[pool.give]: Acquire. Pairs with `give`. Makes visible: the free record's link.
        let mut top = Link(self.free.load(Ordering::Acquire));
        while top.index() != 0 {
            let record = self.get(top.index());
            // Validated by the exchange below: a stale top fails there (I2).
            let next = Link(record.link().load(Ordering::Relaxed));
            let new = top.successor(next.index());
            match self.free.compare_exchange_weak(top.0, new.0, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    // Who takes one often takes the next one soon, whose link may have left the caches. Its place, if
                    // it is in the same chunk; otherwise, or if there is none, any address will do.
                    let ahead = (next.index() as isize - top.index() as isize) * size_of::<T>() as isize;
                    M::prefetch(std::ptr::from_ref(record).addr().wrapping_add_signed(ahead));
                    return Some(top.index());
                }
                Err(word) => top = Link(word),
            }
        }
        self.take_fresh()
    }

    #[cold]
    fn take_fresh(&self) -> Option<u32> {
        let hint = self.fresh.load(Ordering::Relaxed);
        if hint >= END || self.ensure(hint).is_none() {
            return None;
        }
        let index = self.fresh.fetch_add(1, Ordering::Relaxed);
        if index >= END {
            self.fresh.store(END, Ordering::Relaxed);
            return None;
        }
        let base = self.ensure(index)?;
        // SAFETY: `index` was handed out to this call alone (counter), so nobody else knows the record; the place lies
        // inside the chunk, which `ensure` allocated for this many records.
        unsafe { base.add(place(index).1).write(T::fresh()) };
        Some(index)
    }

    /// Gives back a record that the caller owns.
    #[inline]
    pub fn give(&self, index: u32) {
        let link = self.get(index).link();
        let mut top = Link(self.free.load(Ordering::Relaxed));
        loop {
            let old = Link(link.load(Ordering::Relaxed));
            // Ordering[pool.link]: Release. Pairs with the acquire loads of link words by stale readers. Makes visible:
            // that the record has left its list.
            link.store(old.successor(top.index()).0, Ordering::Release);
            // Ordering[pool.give]: Release. Pairs with `take`. Makes visible: the free record's link.
            match self.free.compare_exchange_weak(top.0, top.successor(index).0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(word) => top = Link(word),
            }
        }
    }

    /// How many records were ever made: the largest number in use at a time.
    pub fn made(&self) -> u32 {
        self.fresh.load(Ordering::Relaxed).min(END) - FIRST
    }

    /// The chunk of `index`, allocated if it is not there yet.
    fn ensure(&self, index: u32) -> Option<*mut T> {
        let (chunk, _) = place(index);
        let base = self.chunks[chunk].load(Ordering::Acquire);
        if base != 0 {
            return Some(std::ptr::with_exposed_provenance_mut(base));
        }
        let layout = layout::<T>(chunk)?;
        // SAFETY: records are not zero-sized (they hold a link word), so the layout is not.
        let new = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<T>();
        if new.is_null() {
            return None;
        }
        // Ordering[pool.chunk]: AcqRel. Pairs with `get`. Makes visible: the chunk's allocation.
        // Not weakened: as the load in `get`.
        match self.chunks[chunk].compare_exchange(0, new.expose_provenance(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(new),
            Err(theirs) => {
                // SAFETY: allocated above with this layout, and never shown to anybody.
                unsafe { std::alloc::dealloc(new.cast(), layout) };
                Some(std::ptr::with_exposed_provenance_mut(theirs))
            }
        }
    }
}

/// The chunk of an index, and the place in it, which is inside whatever the index is.
#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    let power = (index | FIRST).ilog2();
    (power as usize, (index & !(1 << power)) as usize)
}

fn layout<T>(chunk: usize) -> Option<Layout> {
    Layout::array::<T>(1 << chunk).ok()
}

impl<M: Machine, T: Record<M>> Drop for Pool<M, T> {
    fn drop(&mut self) {
        for (chunk, base) in self.chunks.iter().enumerate() {
            let base = base.load(Ordering::Relaxed);
            if let (1.., Some(layout)) = (base, layout::<T>(chunk)) {
                // SAFETY: allocated by `ensure` with this layout; `&mut self` says that nobody reads it any more;
                // records need no drop (condition of `Record`).
                unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(base), layout) };
            }
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use raddle_machine::{Real, RealAtomic};

    struct Number {
        link: RealAtomic<u64>,
        number: RealAtomic<u32>,
    }

    // SAFETY: two atomic words.
    unsafe impl Record<Real> for Number {
        fn fresh() -> Self {
            Self { link: Atomic::new(0), number: Atomic::new(7) }
        }
        fn link(&self) -> &RealAtomic<u64> {
            &self.link
        }
    }

    #[test]
    fn an_index_of_another_pool_shows_some_record_and_is_never_outside() {
        let pool = Pool::<Real, Number>::default();
        let number = |index| pool.get(index).number.load(Ordering::Relaxed);
        let outside = |index| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| number(index))).is_err();
        assert!(outside(FIRST));
        let first = pool.take().unwrap();
        assert_eq!((first, number(first)), (FIRST, 7));
        // Zeroes, or the one record that there is.
        assert_eq!((0..2 * FIRST).map(number).filter(|&number| number == 7).count(), 2);
        assert!((0..2 * FIRST).all(|index| [0, 7].contains(&number(index))));
        assert!([2 * FIRST, END - 1, END, u32::MAX].into_iter().all(outside));
    }
}
