//! Which words share a cache line.
//!
//! Words are known by number, in the order of creation; the elements of an array and the fields of a record are created one after the
//! other. So two words of neighbouring numbers whose addresses are neighbours, too, lie in one allocation (between two there is something
//! of the allocator's), and eight such words in a row share a line. So nothing depends on where memory was allocated.
//! An array whose words are used out of order may get more lines than it has.

use std::collections::HashMap;

/// Words in a line: a word is taken to be of eight bytes.
const WORDS: i64 = 8;
/// From one word of the machine to the next.
const STRIDE: i64 = size_of::<crate::ControlledAtomic<u64>>() as i64;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Word {
    address: i64,
    /// The number of the first word that was used of those side by side, and the distance from it.
    first: u32,
    distance: i64,
    line: u32,
}

/// The lines of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    words: Vec<Word>,
    known: HashMap<(u32, i64), u32>,
    count: u32,
}

impl Lines {
    /// A location is used.
    #[inline]
    pub fn note(&mut self, location: u32, address: usize) {
        if self.words.get(location as usize).is_none_or(|word| word.line == NONE) {
            self.add(location as usize, address as i64);
        }
    }

    #[cold]
    fn add(&mut self, location: usize, address: i64) {
        if self.words.len() <= location {
            self.words.resize(location + 1, Word { address: 0, first: 0, distance: 0, line: NONE });
        }
        let beside = [-1, 1].into_iter().find_map(|distance| {
            let other = self.words.get(usize::try_from(location as i64 + distance).ok()?)?;
            (other.line != NONE && other.address == address + distance * STRIDE)
                .then_some((other.first, other.distance - distance))
        });
        let (first, distance) = beside.unwrap_or((location as u32, 0));
        let fresh = self.count;
        let line = *self.known.entry((first, distance.div_euclid(WORDS))).or_insert(fresh);
        self.count += u32::from(line == fresh);
        self.words[location] = Word { address, first, distance, line };
    }

    /// The line of a location; its own number where lines are not kept.
    pub fn of(&self, location: u32) -> usize {
        self.words.get(location as usize).map_or(location, |word| word.line) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_line_wherever_they_lie() {
        for base in [0x1000, 0x7770] {
            let mut lines = Lines::default();
            // An array of 20, and words apart of which one is at a distance by chance.
            for index in 0..20 {
                lines.note(index, base + 16 * index as usize);
            }
            lines.note(20, base + 0x4000);
            lines.note(22, base + 0x4020);
            let line = |location| lines.of(location);
            assert_eq!([line(0), line(7), line(8), line(19)], [0, 0, 1, 2]);
            assert_eq!([line(20), line(22)], [3, 4]);
        }
    }
}
