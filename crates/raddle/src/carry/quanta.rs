//! What a pool says of quantum checks: how long its threads run on once others wait, and whether they give way there.
#![forbid(unsafe_code)]

use std::time::Duration;

/// The quantum of threads of which nothing else was said.
pub(crate) const DEFAULT_NS: u64 = 1_000_000;
/// What is longer is as long.
const LONGEST_NS: u64 = 1_000_000_000;

/// When threads give way that do not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preempt {
    /// Where they wait, yield, or call [`crate::check`] only.
    Never,
    /// At quantum checks that the compiler has put in, too.
    #[default]
    Yields,
}

/// What a pool says of quantum checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quanta {
    /// Nanoseconds, for each priority from the most urgent on; those below have the last.
    of: Vec<u64>,
    pub preempt: Preempt,
}

impl Quanta {
    /// These, one for each priority.
    pub fn set(&mut self, quanta: impl IntoIterator<Item = Duration>) {
        self.of = quanta.into_iter().map(nanoseconds).collect();
    }

    /// Nanoseconds for threads of that priority.
    pub fn of(&self, priority: usize) -> u64 {
        self.of.get(priority).or(self.of.last()).copied().unwrap_or(DEFAULT_NS)
    }
}

/// As many as can be told of.
pub(crate) fn nanoseconds(quantum: Duration) -> u64 {
    u64::try_from(quantum.as_nanos()).unwrap_or(LONGEST_NS).min(LONGEST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quanta_are_of_priorities() {
        let mut quanta = Quanta::default();
        assert_eq!(quanta.of(3), 1_000_000);
        quanta.set([Duration::from_micros(200), Duration::MAX]);
        assert_eq!([0, 1, 2].map(|priority| quanta.of(priority)), [200_000, LONGEST_NS, LONGEST_NS]);
    }
}
