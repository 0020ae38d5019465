//! Quantum checks that a compiler has put in (`yields/`), as `raddle run` sees them: the environment says how long a
//! quantum is and whether threads give way, and gaps between checks are measured. What a check does is
//! `raddle`'s `threads/quantum.rs`.

pub(crate) mod gaps;

use crate::os::c;
use crate::process::masks;
use crate::process::preempt::Preempt;
use raddle::drop_in::now;
use raddle::drop_in::preemption::{self, Rules};
use std::time::Duration;

/// The quantum, unless `RADDLE_QUANTUM` says something else.
pub(crate) const QUANTUM_MICROSECONDS: u64 = 1000;
pub(crate) const LONGEST_MICROSECONDS: u64 = 1_000_000;

/// From now on the settings' rules hold for quantum checks.
pub(crate) fn begin() {
    preemption::rule(Rules {
        quantum: |priority| crate::start::settings().quantum.of(priority),
        may: || crate::start::settings().preempt != Preempt::Never && !masks::is_in_handler(),
        looks: || gaps::looks(now),
        goes_on: || gaps::goes_on(now),
    });
}

/// What the environment says of quanta: one for all threads, or one for each priority, the most urgent first; those
/// below have the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quanta(Vec<u64>);

impl Quanta {
    /// `None`: the text is none, nor are there numbers.
    pub fn read(text: &str) -> Option<Quanta> {
        let number = |part: &str| part.trim().parse().ok().filter(|&quantum: &u64| quantum <= LONGEST_MICROSECONDS);
        let quanta: Option<Vec<u64>> = text.split(',').map(|part| number(part).map(|quantum| quantum * 1000)).collect();
        quanta.map(Quanta)
    }

    /// Nanoseconds for threads of that priority.
    pub fn of(&self, priority: usize) -> u64 {
        self.0.get(priority).or(self.0.last()).copied().unwrap_or(QUANTUM_MICROSECONDS * 1000)
    }

    /// The shortest of all.
    pub fn shortest(&self) -> u64 {
        self.0.iter().copied().min().unwrap_or(QUANTUM_MICROSECONDS * 1000)
    }
}

/// Sets the calling thread's own quantum, in microseconds; 0: as for all threads of its priority. 0, or EINVAL for one
/// that is too long.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_set_quantum(microseconds: std::ffi::c_uint) -> std::ffi::c_int {
    if u64::from(microseconds) > LONGEST_MICROSECONDS {
        return c::EINVAL;
    }
    preemption::set_quantum((microseconds > 0).then(|| Duration::from_micros(microseconds.into())));
    0
}

/// A section begins in which the thread gives way neither at a quantum check nor to the timer; sections nest.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_hold() {
    preemption::enter_section();
}

/// The innermost section ends.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_release() {
    preemption::leave_section();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quanta_are_one_for_all_or_one_for_each_priority() {
        let quanta = Quanta::read("200, 1000,5000").unwrap();
        assert_eq!([0, 1, 2, 3].map(|priority| quanta.of(priority)), [200_000, 1_000_000, 5_000_000, 5_000_000]);
        assert_eq!((quanta.shortest(), Quanta::read("7").unwrap().of(9)), (200_000, 7_000));
        for wrong in ["", "soon", "1,", "-1", "1000001"] {
            assert_eq!(Quanta::read(wrong), None, "{wrong}");
        }
    }
}
