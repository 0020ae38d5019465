//! What policies that look at other processors share: chance, and whom to ask first.
#![forbid(unsafe_code)]

use crate::expression::Victims;
use raddle_machine::Machine;

/// A processor's own chance (xorshift64): victims and queues need no better.
pub(super) struct Random(u64);

impl Random {
    /// Seeded by the machine.
    pub fn new<M: Machine>() -> Self {
        Self(M::random() | 1)
    }

    /// A number below `n`, which is not 0.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// The distances of a processor's victims, first and last, of those asked first and those asked when none of these has
/// anything. A distance counts cyclically from the processor; one of them may lead to the processor itself.
pub(super) fn distances(victims: Victims, index: usize, count: usize) -> [Option<(usize, usize)>; 2] {
    let range = |first: usize, last: usize| (first <= last).then_some((first, last));
    let others = count - 1;
    match victims {
        Victims::Random => [range(1, others), None],
        Victims::Neighbours(k) => {
            let near = others.min(k as usize);
            [range(1, near), range(near + 1, others)]
        }
        Victims::Clusters(k) => {
            let first = index - index % k as usize;
            let (before, size) = (index - first, (k as usize).min(count - first));
            // The cluster begins so many before the processor; what follows it, and comes round to it, are the others.
            let near = if size > 1 { range(count - before, count - before + size - 1) } else { None };
            [near, range(size - before, (count - before).saturating_sub(1))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is asked, those asked first in front.
    fn asked(victims: Victims, index: usize, count: usize) -> [Vec<usize>; 2] {
        distances(victims, index, count).map(|range| {
            let range = range.into_iter().flat_map(|(first, last)| first..=last);
            range.map(|distance| (index + distance) % count).filter(|&victim| victim != index).collect()
        })
    }

    #[test]
    fn everybody_is_asked_once_and_oneself_never() {
        assert_eq!(asked(Victims::Random, 2, 4), [vec![3, 0, 1], vec![]]);
        assert_eq!(asked(Victims::Neighbours(2), 2, 5), [vec![3, 4], vec![0, 1]]);
        assert_eq!(asked(Victims::Clusters(2), 2, 5), [vec![3], vec![4, 0, 1]]);
        assert_eq!(asked(Victims::Clusters(2), 3, 5), [vec![2], vec![4, 0, 1]]);
        assert_eq!(asked(Victims::Clusters(2), 4, 5), [vec![], vec![0, 1, 2, 3]]);
        let neighbours = [1, 3, 9].map(Victims::Neighbours);
        let clusters = [1, 2, 3, 9].map(Victims::Clusters);
        for victims in neighbours.into_iter().chain(clusters).chain([Victims::Random]) {
            for count in 1..9 {
                for index in 0..count {
                    let mut all = asked(victims, index, count).concat();
                    all.sort_unstable();
                    assert_eq!(all, (0..count).filter(|&other| other != index).collect::<Vec<_>>());
                }
            }
        }
    }
}
