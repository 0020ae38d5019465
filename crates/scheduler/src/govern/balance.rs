//! Which stage gives a processor to which.
//!
//! At each look a stage's *delay* is estimated as the number of threads that have not begun, divided by how many have
//! begun since the last look (Little's law): in looks, how long the last one will wait. A stage that is held up by a
//! full one behind it has threads that have begun and wait: they count for nothing here, so it asks for no processor,
//! which would not help it.
//!
//! The stage with the longest delay gains one from the stage with the shortest that has more than one, if its delay is
//! over `WORTH_LOOKS`, and over `LONGER_RATIO` times the other's, in `RUN_LOOKS` looks in a row with the
//! same two. So the number of processors stays what it is, none is left without, and what one move has done is seen
//! before the next.
//!
//! The numbers are from a model of two stages of four processors, one behind the other (`balance` of docs/constants.md,
//! 20 seeds): each 200 looks the other one takes three times as long. Without moves 4,600 threads wait on average, with
//! these 65, and 850 where ten looks of rest follow a move. At even load nothing moves.

/// A delay that is worth a move, in looks. With 0.25 there are 23 needless moves in 4,000 looks at even load; with 4
/// half as many moves, and 96 threads that wait instead of 65.
const WORTH_LOOKS: f64 = 1.0;
/// How much longer than the other's the delay has to be. With 1 and 4, 59 and 77 threads wait.
const LONGER_RATIO: f64 = 2.0;
/// Looks in a row that must find so. With 2 and 6, 31 and 329 threads wait; 3, since a processor moves by the next look
/// only, and that look is to be seen.
const RUN_LOOKS: u32 = 3;

/// What a look finds of one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Threads that have not begun.
    pub waiting: u64,
    /// Threads that have begun since the last look.
    pub begun: u64,
    /// Processors that it has.
    pub processors: usize,
}

impl Found {
    /// How many looks the last thread will wait for its beginning, if all goes on as it did.
    fn delay(&self) -> f64 {
        self.waiting as f64 / self.begun.max(1) as f64
    }
}

/// From which to which a processor should move.
fn wish(found: &[Found]) -> Option<(usize, usize)> {
    let by_delay = |a: &usize, b: &usize| found[*a].delay().total_cmp(&found[*b].delay());
    let to = (0..found.len()).max_by(by_delay)?;
    let from = (0..found.len()).filter(|&at| at != to && found[at].processors > 1).min_by(by_delay)?;
    let delay = found[to].delay();
    // With as few waiting as it has processors, one more would find nothing to do.
    let worth = delay >= WORTH_LOOKS && found[to].waiting > found[to].processors as u64;
    (worth && delay > LONGER_RATIO * found[from].delay()).then_some((from, to))
}

/// What a group's looks have found so far, without times: so it can be tested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Course {
    last: Option<(usize, usize)>,
    in_a_row: u32,
}

impl Course {
    /// One look; from which to which a processor moves now.
    pub fn step(&mut self, found: &[Found]) -> Option<(usize, usize)> {
        let wish = wish(found);
        self.in_a_row = if wish.is_some() && wish == self.last { self.in_a_row + 1 } else { 1 };
        self.last = wish;
        if wish.is_some() && self.in_a_row >= RUN_LOOKS {
            *self = Course::default();
            return wish;
        }
        None
    }

    /// In a word: `in_a_row:8 | from:16 | to:16`, `to` and `from` counted from 1.
    pub fn pack(self) -> u64 {
        let (from, to) = self.last.map_or((0, 0), |(from, to)| (from as u64 + 1, to as u64 + 1));
        u64::from(self.in_a_row.min(255)) << 32 | from << 16 | to
    }

    /// Out of a word.
    pub fn unpack(word: u64) -> Course {
        let stage = |shift: u32| (word >> shift & 0xffff) as usize;
        let last = (stage(0) > 0).then(|| (stage(16) - 1, stage(0) - 1));
        Course { last, in_a_row: (word >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(waiting: u64, begun: u64, processors: usize) -> Found {
        Found { waiting, begun, processors }
    }

    #[test]
    fn who_waits_longest_gains_and_who_waits_least_loses() {
        assert_eq!(wish(&[found(100, 10, 1), found(0, 50, 2), found(5, 50, 3)]), Some((1, 0)));
        // The last processor stays.
        assert_eq!(wish(&[found(100, 10, 1), found(0, 50, 1)]), None);
        assert_eq!(wish(&[found(100, 10, 4)]), None);
        assert_eq!(wish(&[]), None);
        // A long queue that moves quickly is no reason, nor is one that is not much longer than the other's.
        assert_eq!(wish(&[found(100, 1000, 1), found(0, 50, 2)]), None);
        assert_eq!(wish(&[found(100, 10, 1), found(60, 10, 2)]), None);
        // Nothing begins: the processors are busy with long ones.
        assert_eq!(wish(&[found(3, 0, 2), found(0, 0, 2)]), Some((1, 0)));
        assert_eq!(wish(&[found(2, 0, 2), found(0, 0, 2)]), None);
    }

    #[test]
    fn each_move_needs_several_looks() {
        let (busy, idle) = (found(100, 10, 1), found(0, 50, 2));
        let mut course = Course::default();
        let mut step = |found: &[Found]| {
            // Kept in a word between looks.
            let mut now = Course::unpack(course.pack());
            let moved = now.step(found);
            course = now;
            moved
        };
        assert_eq!((step(&[busy, idle]), step(&[busy, idle])), (None, None));
        // One look that finds otherwise, and it begins again.
        assert_eq!(step(&[idle, idle]), None);
        assert_eq!((step(&[busy, idle]), step(&[busy, idle])), (None, None));
        assert_eq!(step(&[busy, idle]), Some((1, 0)));
        for _ in 0..RUN_LOOKS - 1 {
            assert_eq!(step(&[busy, idle]), None);
        }
        assert_eq!(step(&[busy, idle]), Some((1, 0)));
    }

    #[test]
    fn load_that_sways_faster_than_the_looks_moves_nothing() {
        let (a, b) = ([found(100, 10, 2), found(0, 50, 2)], [found(0, 50, 2), found(100, 10, 2)]);
        let mut course = Course::default();
        assert!((0..100).all(|look| course.step(if look % 2 == 0 { &a } else { &b }).is_none()));
    }
}
