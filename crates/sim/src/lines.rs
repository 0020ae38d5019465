//! Which words share a cache line.
//!
//! Words are known by number, in the order of creation; the elements of an array and the fields of a record are created
//! one after the other. So two words of neighbouring numbers whose addresses are neighbours, too, lie in one allocation
//! (between two there is something of the allocator's), and eight such words in a row share a line. So nothing depends
//! on where memory was allocated. An array whose words are used out of order may get more lines than it has.
//!
//! When all words of a line that were used are dropped, the line is what the core that dropped the last one uses next:
//! as with an allocator that keeps what a core frees for that core. So who allocates and frees all the time finds its
//! lines in its cache.

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

/// What keeps its words together: the first of those side by side, and how many lines after it.
type Part = (u32, i64);

/// The lines of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    words: Vec<Word>,
    known: HashMap<Part, u32>,
    /// How many words of each line were used and not dropped.
    users: Vec<u32>,
    /// Lines without users, by the core that freed them.
    free: HashMap<usize, Vec<u32>>,
}

impl Lines {
    /// A location is used by a core.
    #[inline]
    pub fn note(&mut self, location: u32, address: usize, core: usize) {
        if self.words.get(location as usize).is_none_or(|word| word.line == NONE) {
            self.add(location as usize, address as i64, core);
        }
    }

    /// The word of a location is dropped by a core.
    pub fn dropped(&mut self, location: u32, core: usize) {
        let Some(word) = self.words.get_mut(location as usize).filter(|word| word.line != NONE) else { return };
        let line = std::mem::replace(&mut word.line, NONE);
        let part = (word.first, word.distance.div_euclid(WORDS));
        let users = &mut self.users[line as usize];
        *users -= 1;
        if *users == 0 {
            self.known.remove(&part);
            self.free.entry(core).or_default().push(line);
        }
    }

    #[cold]
    fn add(&mut self, location: usize, address: i64, core: usize) {
        if self.words.len() <= location {
            self.words.resize(location + 1, Word { address: 0, first: 0, distance: 0, line: NONE });
        }
        let beside = [-1, 1].into_iter().find_map(|distance| {
            let other = self.words.get(usize::try_from(location as i64 + distance).ok()?)?;
            (other.line != NONE && other.address == address + distance * STRIDE)
                .then_some((other.first, other.distance - distance))
        });
        let (first, distance) = beside.unwrap_or((location as u32, 0));
        let line = *self.known.entry((first, distance.div_euclid(WORDS))).or_insert_with(|| {
            self.free.get_mut(&core).and_then(Vec::pop).unwrap_or_else(|| {
                self.users.push(0);
                self.users.len() as u32 - 1
            })
        });
        self.users[line as usize] += 1;
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
                lines.note(index, base + 16 * index as usize, 0);
            }
            lines.note(20, base + 0x4000, 0);
            lines.note(22, base + 0x4020, 0);
            let line = |location| lines.of(location);
            assert_eq!([line(0), line(7), line(8), line(19)], [0, 0, 1, 2]);
            assert_eq!([line(20), line(22)], [3, 4]);
        }
    }

    #[test]
    fn who_frees_a_line_uses_it_next() {
        let mut lines = Lines::default();
        // Two words side by side, and one elsewhere.
        lines.note(0, 0x1000, 0);
        lines.note(1, 0x1010, 0);
        lines.note(2, 0x2000, 0);
        lines.dropped(0, 1);
        lines.note(3, 0x3000, 1);
        assert_eq!([lines.of(1), lines.of(2), lines.of(3)], [0, 1, 2]);
        lines.dropped(1, 1);
        lines.note(4, 0x4000, 0);
        lines.note(5, 0x5000, 1);
        assert_eq!([lines.of(4), lines.of(5)], [3, 0]);
    }
}
