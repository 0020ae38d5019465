//! A processor that goes on switching and loses time all the same: its threads block in the kernel, where nothing tells
//! of it, for less than the two looks that [`crate::govern::stall`] needs to meet a block.
//!
//! What the kernel counts says so: between two looks at which the processor had not slept, its activation was on a
//! core for some of the time and waited for one for some; what is left it was blocked. A processor has lost much if
//! it was on a core for less than the part of the time below which a crowd has room ([`ROOM_SHARE`]). That leaves a
//! quarter: of a look's millisecond 250 us, and what is done about them costs about 10 us a block, so by calculation
//! it pays for blocks of 10 us and more. The wait for a core is asked about only where the rest is that long, since
//! it takes a look into `/proc`.
//!
//! # Example
//! ```
//! use raddle_scheduler::govern::short::{Sample, Short};
//! let mut short = Short::default();
//! let looks = (0..4).map(|ms| Sample { at: ms * 1_000_000, owner: 1, sleeps: 0, on_core: ms * 300_000 });
//! // It is on a core for 0.3 ms of each, and never waits for one.
//! let lost: Vec<bool> = looks.map(|sample| short.look(sample, || Some(0), |before, after| after - before)).collect();
//! assert_eq!(lost, [false, false, true, true]);
//! ```

use super::crowd::ROOM_SHARE;

/// A look at a processor that does not sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, in nanoseconds.
    pub at: u64,
    /// Who carries it.
    pub owner: u32,
    /// How often it has slept.
    pub sleeps: u64,
    /// How long its activation has been on a core, in nanoseconds.
    pub on_core: u64,
}

/// What the monitor remembers of one processor.
#[derive(Debug, Default)]
pub struct Short {
    last: Option<Sample>,
    /// What the kernel said about waits for a core at the last look, if it was asked.
    waited: Option<u64>,
}

impl Short {
    /// A look. True if the processor has lost much of the time since the last one to blocks. `waited` says how long its
    /// activation has waited for a core, and `between` how long between two of these answers.
    pub fn look(
        &mut self,
        now: Sample,
        waited: impl FnOnce() -> Option<u64>,
        between: impl FnOnce(u64, u64) -> u64,
    ) -> bool {
        let last = self.last.replace(now);
        let Some(last) = last.filter(|last| (last.owner, last.sleeps) == (now.owner, now.sleeps)) else {
            self.waited = None;
            return false;
        };
        let time = now.at.saturating_sub(last.at);
        let off = time.saturating_sub(now.on_core.saturating_sub(last.on_core));
        let much = (time as f64 * (1.0 - ROOM_SHARE)) as u64;
        if off < much {
            self.waited = None;
            return false;
        }
        let (before, after) = (self.waited, waited());
        self.waited = after;
        before.zip(after).is_some_and(|(before, after)| off.saturating_sub(between(before, after)) >= much)
    }

    /// It sleeps, or does not go on at all.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sample(at: u64, on_core: u64) -> Sample {
        Sample { at, owner: 1, sleeps: 0, on_core }
    }

    fn look(short: &mut Short, now: Sample, waited: u64) -> bool {
        short.look(now, || Some(waited), |before, after| after - before)
    }

    #[test]
    fn one_that_computes_is_not_asked_about() {
        let mut short = Short::default();
        for ms in 0..5 {
            assert!(!short.look(sample(ms * MS, ms * MS * 9 / 10), || unreachable!(), |_, _| unreachable!()));
        }
    }

    #[test]
    fn one_that_waits_for_a_core_has_not_blocked() {
        let mut short = Short::default();
        for ms in 0..5 {
            assert!(!look(&mut short, sample(ms * MS, ms * MS / 2), ms * MS / 2));
        }
        // From here on it blocks for half of the time: told at the next look, since the last one has asked.
        assert!(look(&mut short, sample(5 * MS, 5 * MS / 2), 2 * MS));
    }

    #[test]
    fn a_sleep_or_another_owner_begins_anew() {
        let mut short = Short::default();
        let other = Sample { owner: 2, ..sample(3 * MS, 0) };
        let slept = Sample { sleeps: 1, ..sample(4 * MS, 0) };
        for now in [sample(0, 0), sample(MS, 0), other, slept, Sample { at: 5 * MS, ..slept }] {
            assert!(!look(&mut short, now, 0));
        }
        assert!(look(&mut short, Sample { at: 6 * MS, ..slept }, 0));
        short.forget();
        assert!(!look(&mut short, Sample { at: 7 * MS, ..slept }, 0));
    }

    #[test]
    fn where_the_kernel_does_not_say_nothing_is_done() {
        let mut short = Short::default();
        for ms in 0..5 {
            assert!(!short.look(sample(ms * MS, 0), || None, |_, _| 0));
        }
    }
}
