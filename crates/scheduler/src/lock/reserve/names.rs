//! Who holds an element: the name of each thread that does, so that one which would wait for itself is told.
//!
//! Words: a place is 0, or the name of a thread. The first place is in the element; others come in blocks, when more
//! readers than there is room for are there at the same time, and go with the element.
//!
//! Roles: *reservers*, who give a place that is 0 a name: readers under the coarse lock, one at a time, and who has the
//! element alone; *holders*, who set it to 0 before they end their reservation; *waiters*, who look for their own name.
//!
//! Invariants: I1. A place belongs to one holder: readers claim under the coarse lock, and a place that is not 0 is
//! touched by its holder alone. I2. Who has the element alone finds all places 0, for each reader's end, which its
//! reservation follows, comes after its name's. I3. A name is looked for where it is claimed, so who is named is found.
//!
//! Progress: an end is wait-free; a claim and a look touch [`PROBES`] places of each block. Orderings: all Relaxed,
//! since a thread compares a name with its own alone, and I2 rests on the reservation's edges.

use raddle_machine::{Atomic, Machine, Ordering};
use std::sync::OnceLock;

/// Places of the first block; each has four times as many as the one before, up to the last of these.
const SIZES: [usize; 5] = [8, 32, 128, 512, 2048];
/// Places of a block that are looked at for one name.
const PROBES: usize = 4;

/// The names of an element's holders.
pub(super) struct Names<M: Machine> {
    first: M::Atomic<usize>,
    more: More<M>,
}

type More<M> = OnceLock<Box<Block<M>>>;

struct Block<M: Machine> {
    places: Box<[M::Atomic<usize>]>,
    more: More<M>,
}

/// Where a holder's name stands: in the first place, or in a place of a block.
pub(super) struct Place(Option<(usize, usize)>);

/// The places of a block for a name.
fn probes(name: usize, places: usize) -> impl Iterator<Item = usize> {
    // Names are addresses and lives: mixed, so that those of one page do not meet.
    let first = ((name as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    (0..PROBES).map(move |probe| (first + probe) % places)
}

impl<M: Machine> Names<M> {
    pub(super) fn new() -> Self {
        Self { first: Atomic::new(0), more: OnceLock::new() }
    }

    /// Names who has the element alone. By that one only (I2).
    pub(super) fn alone(&self, name: usize) -> Place {
        self.first.store(name, Ordering::Relaxed);
        Place(None)
    }

    /// Names a reader, which is not 0. By it, under the coarse lock (I1).
    pub(super) fn beside_others(&self, name: usize) -> Place {
        if self.first.load(Ordering::Relaxed) == 0 {
            return self.alone(name);
        }
        let mut more = &self.more;
        for depth in 0.. {
            let block = more.get_or_init(|| {
                let places = SIZES[depth.min(SIZES.len() - 1)];
                Box::new(Block { places: (0..places).map(|_| Atomic::new(0)).collect(), more: OnceLock::new() })
            });
            let free = |place: &usize| block.places[*place].load(Ordering::Relaxed) == 0;
            if let Some(place) = probes(name, block.places.len()).find(free) {
                block.places[place].store(name, Ordering::Relaxed);
                return Place(Some((depth, place)));
            }
            more = &block.more;
        }
        unreachable!("a new block has room")
    }

    fn blocks(&self) -> impl Iterator<Item = &Block<M>> {
        std::iter::successors(self.more.get(), |block| block.more.get()).map(|block| &**block)
    }

    /// Takes a name away, before what it stands for ends.
    pub(super) fn leave(&self, place: &Place) {
        let place = match place.0 {
            None => &self.first,
            Some((depth, place)) => {
                let Some(block) = self.blocks().nth(depth) else { unreachable!("claimed there") };
                &block.places[place]
            }
        };
        place.store(0, Ordering::Relaxed);
    }

    /// True if the calling thread, whose name this is, holds the element.
    pub(super) fn has(&self, name: usize) -> bool {
        let named = |place: &M::Atomic<usize>| place.load(Ordering::Relaxed) == name;
        let in_block = |block: &Block<M>| probes(name, block.places.len()).any(|place| named(&block.places[place]));
        named(&self.first) || self.blocks().any(in_block)
    }
}
