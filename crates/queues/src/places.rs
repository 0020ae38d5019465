//! A bag of places: anyone puts an item into a free one, for an owner; anyone takes it out, whom the owner's key tells
//! which.
//!
//! Source: this project, for signals on their way to threads: few at a time, from handlers that interrupted anything,
//! so nobody may wait for anybody, and nothing be allocated. Whoever looks for an owner's items looks at all places
//! that were ever in use; callers keep a count for the owners that have none.
//!
//! Roles: *putters* and *takers*, anyone. Words of a place:
//!
//! | word | meaning |
//! |---|---|
//! | `state` | phase (free, busy, full) in two bits, above it how often the place was emptied |
//! | `owner`, `key`, `ticket`, `words` | the item; of no meaning unless full |
//!
//! | phase | changes to | by |
//! |---|---|---|
//! | free | busy | putter, by an exchange: the place is its own |
//! | busy | full | the putter that made it busy |
//! | full | busy | taker, by an exchange: the item is its own |
//! | busy | free, one more emptied | the taker that made it busy |
//!
//! Invariants:
//! - I1: who turns a place from full to busy is the only one that takes that item: the state has not had that value
//!   since it was put (until the count of a place wraps, after 2^30 items).
//! - I2: a [`Seen`] tells of one item, not of parts of two. The state was the same before and after its words were
//!   read; each store of a word makes visible that the place was busy by then, so that who reads a later item's word
//!   finds the state changed.
//!
//! Progress: put is lock-free, and gives up when all places are in use; take is wait-free. One that is frozen in the
//! middle keeps its place from others.
//! Memory: a cache line or more a place, for ever.
//!
//! Edges: `places.item` put → seen, take. (What a putter did before it put is not meant to be seen by who takes, but
//! for the words.) `places.full` is a Dekker edge with words of the caller's: a putter puts (P) and then looks whether
//! the owner is still there (L); the owner says that it ends (E) and then looks for items (S). Forbidden: L misses E,
//! and S misses P. A fence lies behind P and one before S.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::places::Places;
//! static PLACES: Places<Real, 2, 1> = Places::constant();
//! assert!(PLACES.put(1, 10, [7]) && PLACES.put(2, 10, [8]) && !PLACES.put(1, 11, [9]));
//! let seen: Vec<_> = PLACES.seen(1).collect();
//! assert_eq!((seen.len(), seen[0].key), (1, 10));
//! assert_eq!((PLACES.take(&seen[0]), PLACES.take(&seen[0])), (Some([7]), None));
//! ```

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

const FREE: u32 = 0;
/// Being filled or emptied.
const BUSY: u32 = 1;
const FULL: u32 = 2;
const PHASE: u32 = 3;

#[repr(align(64))]
struct Slot<M: Machine, const WORDS: usize> {
    state: M::Atomic<u32>,
    key: M::Atomic<u32>,
    owner: M::Atomic<usize>,
    ticket: M::Atomic<u64>,
    words: [M::Atomic<u64>; WORDS],
}

/// So many places, for items of so many words.
pub struct Places<M: Machine, const PLACES: usize, const WORDS: usize> {
    places: [Slot<M, WORDS>; PLACES],
    /// One more than the highest place that was ever in use.
    used: M::Atomic<usize>,
    tickets: M::Atomic<u64>,
}

/// An item, as it was at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    place: usize,
    state: u32,
    /// What it was put with.
    pub key: u32,
    /// Items have them in the order in which they were put, as far as there is one.
    pub ticket: u64,
}

impl<const PLACES: usize, const WORDS: usize> Places<Real, PLACES, WORDS> {
    /// All free, in a constant.
    pub const fn constant() -> Self {
        Self {
            places: [const {
                Slot {
                    state: RealAtomic::<u32>::constant(FREE),
                    key: RealAtomic::<u32>::constant(0),
                    owner: RealAtomic::<usize>::constant(0),
                    ticket: RealAtomic::<u64>::constant(0),
                    words: [const { RealAtomic::<u64>::constant(0) }; WORDS],
                }
            }; PLACES],
            used: RealAtomic::<usize>::constant(0),
            tickets: RealAtomic::<u64>::constant(0),
        }
    }
}

impl<M: Machine, const PLACES: usize, const WORDS: usize> Default for Places<M, PLACES, WORDS> {
    fn default() -> Self {
        let place = |_| Slot {
            state: M::Atomic::new(FREE),
            key: M::Atomic::new(0),
            owner: M::Atomic::new(0),
            ticket: M::Atomic::new(0),
            words: std::array::from_fn(|_| M::Atomic::new(0)),
        };
        Self { places: std::array::from_fn(place), used: M::Atomic::new(0), tickets: M::Atomic::new(0) }
    }
}

impl<M: Machine, const PLACES: usize, const WORDS: usize> Places<M, PLACES, WORDS> {
    /// Puts an item. False: all places are in use.
    pub fn put(&self, owner: usize, key: u32, words: [u64; WORDS]) -> bool {
        for (index, place) in self.places.iter().enumerate() {
            // Relaxed: validated by the exchange.
            let state = place.state.load(Ordering::Relaxed);
            // Ordering[places.free]: Acquire. Pairs with the last store in `take`. Makes visible: that the words of the
            // item before were read.
            // Not weakened: no load reads in the model what is stored after it in time.
            if state & PHASE != FREE || !Self::exchange(place, state, BUSY, Ordering::Acquire) {
                continue;
            }
            // Ordering[places.item]: Release, each. Pairs with the loads in `seen`. Makes visible: that the place is
            // busy.
            place.owner.store(owner, Ordering::Release);
            place.key.store(key, Ordering::Release);
            // Relaxed: only the numbers matter.
            place.ticket.store(self.tickets.fetch_add(1, Ordering::Relaxed), Ordering::Release);
            // Relaxed: only its taker reads them, after the exchange.
            place.words.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            self.note(index + 1);
            // Ordering[places.item]: Release. Pairs with the load of the state in `seen`. Makes visible: the item.
            place.state.store(state & !PHASE | FULL, Ordering::Release);
            // Ordering[places.full]: SeqCst. Pairs with the fence in `seen`. Makes visible: what the caller looks at
            // afterwards is not looked at before.
            M::fence(Ordering::SeqCst);
            return true;
        }
        false
    }

    fn exchange(place: &Slot<M, WORDS>, state: u32, phase: u32, order: Ordering) -> bool {
        place.state.compare_exchange(state, state & !PHASE | phase, order, Ordering::Relaxed).is_ok()
    }

    /// So many places were in use.
    fn note(&self, used: usize) {
        // Relaxed: validated by the exchange.
        let mut before = self.used.load(Ordering::Relaxed);
        while before < used {
            // Relaxed: made visible with the place's state, by the fences of `places.full`.
            match self.used.compare_exchange(before, used, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// The owner's items.
    pub fn seen(&self, owner: usize) -> impl Iterator<Item = Seen> {
        // Ordering[places.full]: SeqCst. Pairs with the fence in `put`. Makes visible: what was put before that one;
        // and what the caller has said before is seen by whoever puts later.
        M::fence(Ordering::SeqCst);
        // Relaxed: behind the fence.
        let used = self.used.load(Ordering::Relaxed);
        self.places[..used].iter().enumerate().filter_map(move |(index, place)| {
            // Ordering[places.item]: Acquire. Pairs with the last store in `put`. Makes visible: the item.
            let state = place.state.load(Ordering::Acquire);
            // Ordering[places.item]: Acquire, each. Pairs with the stores in `put`. Makes visible: that the place was
            // busy, if these are a later item's.
            if state & PHASE != FULL || place.owner.load(Ordering::Acquire) != owner {
                return None;
            }
            let (key, ticket) = (place.key.load(Ordering::Acquire), place.ticket.load(Ordering::Acquire));
            // Relaxed: the loads before are Acquire.
            (place.state.load(Ordering::Relaxed) == state).then_some(Seen { place: index, state, key, ticket })
        })
    }

    /// Takes that item out. `None`: somebody else was faster.
    pub fn take(&self, seen: &Seen) -> Option<[u64; WORDS]> {
        let place = &self.places[seen.place];
        // Relaxed: whoever saw it full has the item before its eyes.
        if !Self::exchange(place, seen.state, BUSY, Ordering::Relaxed) {
            return None;
        }
        // Relaxed: as above.
        let words = place.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        // The next number: who has seen the place full does not take the next item for that one.
        let emptied = (seen.state & !PHASE).wrapping_add(PHASE + 1);
        // Ordering[places.free]: Release. Pairs with the exchange in `put`. Makes visible: that the words were read.
        // Not weakened: as in `put`.
        place.state.store(emptied | FREE, Ordering::Release);
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_old_sights_take_nothing() {
        let places = Places::<Real, 2, 1>::default();
        assert!(places.put(1, 5, [10]) && places.put(1, 6, [11]) && !places.put(1, 7, [12]));
        let old: Vec<_> = places.seen(1).collect();
        assert_eq!(old.iter().map(|seen| (seen.key, seen.ticket)).collect::<Vec<_>>(), [(5, 0), (6, 1)]);
        assert_eq!(places.take(&old[1]), Some([11]));
        assert!(places.put(2, 7, [12]) && places.take(&old[1]).is_none());
        assert_eq!((places.seen(1).count(), places.seen(2).count(), places.seen(3).count()), (1, 1, 0));
    }
}
