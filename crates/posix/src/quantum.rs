//! Quantum checks that a compiler has put in (`yields/`): what happens when the count of instructions is used up.
//!
//! A program counts in a word of its own, one for each thread and module. Below zero it calls [`raddle_quantum_used`],
//! which fills the word again and looks: a thread of a higher priority goes first at once; the others, when the
//! quantum's time is over. The count says only when to look at the clock, so it need not be exact: what the compiler
//! takes for too much is looked at more often.

pub(crate) mod gaps;

use crate::os::c;
use crate::process::masks;
use crate::process::preempt::Preempt;
use raddle::drop_in::now;
use std::cell::Cell;

/// Instructions, as the compiler counts them, between two looks at the clock: 5 to 20 µs.
const LOOK_INSTRUCTIONS: i64 = 32_768;
/// A thread that cannot give way here is asked seldom.
const SELDOM_INSTRUCTIONS: i64 = 1 << 20;
/// The quantum, unless `RADDLE_QUANTUM` says something else.
pub(crate) const QUANTUM_MICROSECONDS: u64 = 1000;
pub(crate) const LONGEST_MICROSECONDS: u64 = 1_000_000;

thread_local! {
    /// When the quantum began; 0 before the first look.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The quantum that the thread has set for itself, in nanoseconds; 0: none.
    static OWN: Cell<u64> = const { Cell::new(0) };
    /// Ticks of the timer since the thread gave way to one.
    static TICKS: Cell<u32> = const { Cell::new(0) };
    /// Sections of the program in which the thread does not give way.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The quantum of the calling thread, in nanoseconds.
pub(crate) fn of_caller() -> u64 {
    match OWN.get() {
        0 => crate::start::settings().quantum.of(raddle::drop_in::preemption::priority()),
        own => own,
    }
}

/// The quantum's word of the calling thread has gone below zero.
///
/// # Safety
/// The word of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_quantum_used(word: *mut i64) {
    // The program may be between a call that failed and its look at the reason.
    // SAFETY: the calling thread's own.
    let errno = unsafe { *c::__errno_location() };
    let may = crate::start::settings().preempt != Preempt::Never
        && raddle::drop_in::is_lightweight()
        && HELD.get() == 0
        && !masks::is_in_handler();
    let quantum = if may { of_caller() } else { 0 };
    let look = if may { LOOK_INSTRUCTIONS.min(quantum as i64 / 4).max(1) } else { SELDOM_INSTRUCTIONS };
    // In a section the next look comes after it.
    let look = if HELD.get() > 0 { LOOK_INSTRUCTIONS } else { look };
    // SAFETY: the calling thread's own word, as the caller promises.
    unsafe { *word = look };
    if may {
        gaps::looks(now);
        let time = now();
        if BEGUN.get() == 0 {
            BEGUN.set(time);
        }
        let over = time - BEGUN.get() >= quantum;
        raddle::drop_in::preemption::at_check(over);
        raddle::thread::check();
        if over {
            raddle::thread::yield_now();
            BEGUN.set(now());
        }
        gaps::goes_on(now);
    }
    crate::os::set_errno(errno);
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
    OWN.set(u64::from(microseconds) * 1000);
    0
}

/// A tick of the timer, which comes each so many nanoseconds, has found the calling thread: true if its quantum is
/// over.
pub(crate) fn is_over_by_ticks(period_ns: u64) -> bool {
    TICKS.set(TICKS.get() + 1);
    u64::from(TICKS.get()) * period_ns >= of_caller()
}

/// Runs `f`, in which the calling thread gives way; its quantum begins after that.
pub(crate) fn begin_anew<T>(f: impl FnOnce() -> T) -> T {
    let result = f();
    TICKS.set(0);
    BEGUN.set(now());
    result
}

/// The calling thread is in a section in which it does not give way.
pub(crate) fn is_held() -> bool {
    HELD.get() > 0
}

/// A section begins in which the thread gives way neither at a quantum check nor to the timer; sections nest.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_hold() {
    HELD.set(HELD.get() + 1);
}

/// The innermost section ends.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_release() {
    HELD.set(HELD.get().saturating_sub(1));
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
