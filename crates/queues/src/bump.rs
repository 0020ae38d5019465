//! A region that is given out from its beginning, and is whole again when everything has come back.
//!
//! Source: our own; for memory that is needed seldom and briefly.
//!
//! Roles: anyone takes and gives back.
//!
//! Word: `live:32 | next:32`: how many blocks are out, and the first place that none of them has reached.
//!
//! | word | changes to | by |
//! |---|---|---|
//! | `(n, p)`, there is room | `(n+1, q)`: the block ends at q | who takes |
//! | `(1, p)` | `(0, 0)` | who gives the last one back |
//! | `(n, p)`, the block ends at p | `(n-1, q)`: it began at q | who gives it back |
//! | `(n, p)` otherwise | `(n-1, p)` | who gives one back |
//!
//! Invariant I1: the blocks that are out lie below `next` and do not overlap. A taker's begins at `next` or above, and
//! `next` moves back only over the block that is given back, or when none is out.
//!
//! Progress: lock-free. The same word again means the same region again: an exchange that compares no more than that
//! does what it would have done at once.
//!
//! Edges: `bump-word` give → take (what the block's last owner did with it).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::bump::Bump;
//! let region = Bump::<Real>::new(8);
//! let (first, second) = (region.take(3, 1).unwrap(), region.take(4, 4).unwrap());
//! assert_eq!((first, second, region.take(1, 1)), (0, 4, None));
//! region.give(second, 4);
//! assert_eq!((region.take(5, 1), region.take(4, 1)), (None, Some(4)));
//! ```

use raddle_machine::{Atomic, Machine, Ordering};

/// The region: places 0 to its length, whatever they stand for.
pub struct Bump<M: Machine> {
    word: M::Atomic<u64>,
    places: u32,
}

fn join(live: u32, next: u32) -> u64 {
    u64::from(live) << 32 | u64::from(next)
}

fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl<M: Machine> Bump<M> {
    /// A region of so many places, all free.
    pub fn new(places: u32) -> Self {
        Self { word: M::Atomic::new(0), places }
    }

    /// The first of `count` places, a multiple of `align` (a power of two). `None`: there is no such room.
    pub fn take(&self, count: u32, align: u32) -> Option<u32> {
        // Relaxed: validated by the exchange.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (live, next) = parts(word);
            let begin = next.checked_next_multiple_of(align)?;
            let end = begin.checked_add(count).filter(|&end| end <= self.places)?;
            // Ordering[bump-word]: Acquire. Pairs with the exchange in `give`, or with one before it, whose release
            // sequence the others continue. Makes visible: that the block's last owners are done with it.
            let taken = join(live.checked_add(1)?, end);
            match self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(begin),
                Err(now) => word = now,
            }
        }
    }

    /// Gives back what `take` has answered for this count; once, or other blocks may overlap (which whoever keeps
    /// memory there must rule out).
    pub fn give(&self, begin: u32, count: u32) {
        // Relaxed: validated by the exchange.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let (live, next) = parts(word);
            let rest = match live {
                1 => 0,
                _ if begin + count == next => begin,
                _ => next,
            };
            // Ordering[bump-word]: Release. Pairs with the exchange in `take`. Makes visible: that the caller is done
            // with the block.
            match self.word.compare_exchange_weak(word, join(live - 1, rest), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn blocks_do_not_overlap_and_all_room_comes_back() {
        let region = Bump::<Real>::new(64);
        for round in 0..50 {
            let mut blocks: Vec<(u32, u32)> = Vec::new();
            for count in (1..20).map(|n| (n * 7 + round) % 9 + 1) {
                let Some(begin) = region.take(count, 1 << (count % 3)) else { continue };
                assert_eq!(begin % (1 << (count % 3)), 0);
                assert!(blocks.iter().all(|&(at, had)| begin >= at + had || begin + count <= at));
                blocks.push((begin, count));
                if count == 5 {
                    let (begin, count) = blocks.swap_remove(round as usize % blocks.len());
                    region.give(begin, count);
                }
            }
            blocks.drain(..).for_each(|(begin, count)| region.give(begin, count));
            assert_eq!(region.take(64, 1), Some(0), "all of it is free");
            region.give(0, 64);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let region = Bump::<Real>::new(10);
        assert_eq!((region.take(11, 1), region.take(u32::MAX, 1), region.take(1, 1)), (None, None, Some(0)));
        assert_eq!((region.take(3, 8), region.take(1, 1 << 31), region.take(9, 1)), (None, None, Some(1)));
        region.give(0, 1);
        region.give(1, 9);
        assert_eq!(region.take(10, 1), Some(0));
    }
}
