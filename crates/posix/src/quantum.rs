//! Quantum checks that a compiler has put in (`yields/`): what happens when the count of instructions is used up.
//!
//! A program counts in a word of its own, one for each thread and module. Below zero it calls [`raddle_quantum_used`], which fills the word again and looks:
//! a thread of a higher priority goes first at once; the others, when the quantum's time is over. The count says only when to look
//! at the clock, so it need not be exact: what the compiler takes for too much is looked at more often.

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
    /// Sections of the program in which the thread does not give way.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The quantum's word of the calling thread has gone below zero.
///
/// # Safety
/// The word of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_quantum_used(word: *mut i64) {
    let settings = crate::start::settings();
    let may = settings.preempt != Preempt::Never
        && raddle::drop_in::is_lightweight()
        && HELD.get() == 0
        && !masks::is_in_handler();
    let quantum = settings.quantum_ns;
    let look = if may { LOOK_INSTRUCTIONS.min(quantum as i64 / 4).max(1) } else { SELDOM_INSTRUCTIONS };
    // In a section the next look comes after it.
    let look = if HELD.get() > 0 { LOOK_INSTRUCTIONS } else { look };
    // SAFETY: as promised by the caller.
    unsafe { *word = look };
    if !may {
        return;
    }
    // The program may be between a call that failed and its look at the reason.
    // SAFETY: the calling thread's own.
    let errno = unsafe { *c::__errno_location() };
    raddle::thread::check();
    let time = now();
    if BEGUN.get() == 0 {
        BEGUN.set(time);
    }
    if time - BEGUN.get() >= quantum {
        raddle::thread::yield_now();
        BEGUN.set(now());
    }
    crate::os::set_errno(errno);
}

/// Runs `f`, in which the calling thread gives way; its quantum begins after that.
pub(crate) fn begin_anew<T>(f: impl FnOnce() -> T) -> T {
    let result = f();
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
