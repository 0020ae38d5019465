//! A board of numbers: anyone pins one, anyone takes one off; a number is there once or not at all.
//!
//! Source: the queue of tickets of the MSc report *Effective parallelism with OCaml schedulers*, sections 4.4.1 and
//! 7.1.1 (a busy processor publishes its number, one that looks for work takes it). Differs: a set of bits, not a
//! queue: a number that is there already need not be there twice, and then no memory is needed and a look at an empty
//! board is a plain load.
//!
//! Roles: *pinners* and *takers*, anyone. Words: `words[i]`, bit b: number 64 i + b is on the board.
//!
//! | bit | changes to | by |
//! |---|---|---|
//! | 0 | 1 | pinner |
//! | 1 | 0: the number is the taker's | taker |
//!
//! Invariant I1: who turns a bit from 1 to 0 is the only one that takes that pin.
//!
//! Progress: pin is wait-free; take is lock-free (whoever fails, another pinned or took). A frozen taker strands
//! nothing but the number it holds. Memory: a bit a number, for ever.
//!
//! Edges: `board` pin → take (what the pinner did before).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::board::Board;
//! let board = Board::<Real>::new(100);
//! assert!(board.pin(70) && !board.pin(70));
//! assert_eq!((board.take(3), board.take(3)), (Some(70), None));
//! ```

use crate::pad::Padded;
use raddle_machine::{Atomic, Machine, Ordering};

/// The board.
pub struct Board<M: Machine> {
    words: Box<[Padded<M::Atomic<u64>>]>,
}

impl<M: Machine> Board<M> {
    /// An empty board for the numbers below `numbers`.
    pub fn new(numbers: usize) -> Self {
        Self { words: (0..numbers.div_ceil(64)).map(|_| Padded(M::Atomic::new(0))).collect() }
    }

    /// Pins a number. False if it was there already.
    pub fn pin(&self, number: usize) -> bool {
        let (word, bit) = (&self.words[number / 64].0, 1 << (number % 64));
        // Relaxed: a hint that saves the exchange; who took the number in between saw what the earlier pin made
        // visible.
        if word.load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        // Ordering[board]: Release. Pairs with the exchange in `take`. Makes visible: what the pinner did before.
        word.fetch_or(bit, Ordering::Release) & bit == 0
    }

    /// Takes a number off: the first one cyclically from `from`'s word on.
    pub fn take(&self, from: usize) -> Option<usize> {
        let count = self.words.len();
        (0..count).map(|i| (from / 64 + i) % count).find_map(|index| {
            let word = &self.words[index].0;
            loop {
                // Relaxed: validated by the exchange.
                let bits = word.load(Ordering::Relaxed);
                if bits == 0 {
                    return None;
                }
                // The first at or after `from`, if this is its word.
                let turn = if index == from / 64 { (from % 64) as u32 } else { 0 };
                let bit = (bits.rotate_right(turn).trailing_zeros() + turn) % 64;
                // Ordering[board]: Acquire. Pairs with the exchange in `pin`. Makes visible: what the pinner did
                // before.
                if word.fetch_and(!(1 << bit), Ordering::Acquire) & 1 << bit != 0 {
                    return Some(index * 64 + bit as usize);
                }
            }
        })
    }

    /// True if no number is there now (racy).
    pub fn is_empty(&self) -> bool {
        // Relaxed: a moment's view.
        self.words.iter().all(|word| word.0.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn each_number_comes_off_once_the_nearest_first() {
        let board = Board::<Real>::new(130);
        for number in [5, 63, 64, 129] {
            assert!(board.pin(number) && !board.pin(number));
        }
        assert_eq!([board.take(6), board.take(6), board.take(128), board.take(200)], [63, 5, 129, 64].map(Some));
        assert!(board.take(0).is_none() && board.is_empty());
    }
}
