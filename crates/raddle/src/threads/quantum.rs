//! Quantum checks that a compiler has put in (`yields/`): what happens when the count of instructions is used up.
//!
//! A program counts in a word of its own, one for each thread and module. Below zero it calls [`raddle_quantum_used`],
//! which fills the word again and looks: a thread of a higher priority goes first at once; the others, when the
//! quantum's time is over. The count says only when to look at the clock, so it need not be exact: what the compiler
//! takes for too much is looked at more often.
//!
//! How long a quantum is: what the thread has set for itself ([`set_quantum`]), or was spawned with
//! ([`crate::thread::Builder::quantum`]); else its pool's for threads of its priority ([`crate::Builder::quanta`]);
//! else [`DEFAULT_NS`]. In a program that runs under the drop-in library, that one's [`Rules`] say.
//!
//! The caller may be anywhere in the program, also in a handler of the program's that has interrupted the runtime: then
//! it is inside the mark, and nothing happens. A handler that has interrupted other code is not recognised here (the
//! drop-in library does): one that runs for tens of thousands of instructions must [`hold`].

use crate::carry::caller::{is_lightweight, is_outside};
use crate::carry::quanta::{DEFAULT_NS, Preempt, nanoseconds};
use crate::carry::switching::{activation_of, current};
use crate::carry::witness::Inside;
use raddle_machine::{Machine, Real};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Instructions, as the compiler counts them, between two looks at the clock: 5 to 20 µs.
const LOOK_INSTRUCTIONS: i64 = 32_768;
/// A thread that cannot give way here is asked seldom.
const SELDOM_INSTRUCTIONS: i64 = 1 << 20;

thread_local! {
    /// When the quantum began; 0 before the first look.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The quantum that the thread has set for itself, in nanoseconds and one more; 0: none.
    static OWN: Cell<u64> = const { Cell::new(0) };
    /// Ticks of the timer since the thread gave way to one.
    static TICKS: Cell<u32> = const { Cell::new(0) };
    /// Sections of the program in which the thread does not give way.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// What a host such as the drop-in library says in the pools' place.
pub struct Rules {
    /// Nanoseconds, for threads of that priority.
    pub quantum: fn(usize) -> u64,
    /// False where the caller must not give way.
    pub may: fn() -> bool,
    /// The caller looks.
    pub looks: fn(),
    /// The caller goes on after a look.
    pub goes_on: fn(),
}

static RULES: OnceLock<Rules> = OnceLock::new();

/// A thread has given way because its quantum was over: this program has checks.
static WAS_OVER: AtomicBool = AtomicBool::new(false);

/// From now on these hold. Only the first ones do.
pub fn rule(rules: Rules) {
    let _ = RULES.set(rules);
}

/// The quantum of the calling thread, in nanoseconds.
pub fn of_caller() -> u64 {
    let Some(me) = current() else { return DEFAULT_NS };
    if let Some(own) = OWN.get().checked_sub(1).or(me.quantum()) {
        return own;
    }
    let priority = usize::from(me.thread.priority_now());
    match RULES.get() {
        Some(rules) => (rules.quantum)(priority),
        None => crate::carry::pool::pool(me.pool()).quanta.of(priority),
    }
}

/// As [`of_caller`] once a thread's quantum has been over; until then endless.
#[inline]
pub fn if_one_was_over() -> u64 {
    if WAS_OVER.load(Ordering::Relaxed) { of_caller() } else { u64::MAX }
}

/// Whether the calling thread may give way at a check.
fn may() -> bool {
    is_lightweight()
        && HELD.get() == 0
        && match RULES.get() {
            Some(rules) => (rules.may)(),
            None => current().is_some_and(|me| crate::carry::pool::pool(me.pool()).quanta.preempt == Preempt::Yields),
        }
}

/// The quantum's word of the calling thread has gone below zero.
///
/// # Safety
/// The word of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_quantum_used(word: *mut i64) {
    // The program may be between a call that failed and its look at the reason.
    let errno = crate::os::errno();
    // Generic code of std that this calls has checks itself, which must not come back here.
    // SAFETY: the calling thread's own word, as the caller promises.
    unsafe { *word = SELDOM_INSTRUCTIONS };
    let may = may();
    let quantum = if may { of_caller() } else { 0 };
    let look = if may { LOOK_INSTRUCTIONS.min(quantum as i64 / 4).max(1) } else { SELDOM_INSTRUCTIONS };
    // In a section the next look comes after it.
    let look = if HELD.get() > 0 { LOOK_INSTRUCTIONS } else { look };
    if may {
        let rules = RULES.get();
        if let Some(rules) = rules {
            (rules.looks)();
        }
        let time = Real::now();
        if BEGUN.get() == 0 {
            BEGUN.set(time);
        }
        let over = time.saturating_sub(BEGUN.get()) >= quantum;
        look_for_others(over);
        crate::threads::giving_way::check();
        if over {
            // Not a store each time: others read it.
            if !WAS_OVER.load(Ordering::Relaxed) {
                WAS_OVER.store(true, Ordering::Relaxed);
            }
            crate::threads::giving_way::yield_now();
            BEGUN.set(Real::now());
        }
        if let Some(rules) = rules {
            (rules.goes_on)();
        }
    }
    crate::os::set_errno(errno);
    // SAFETY: the calling thread's own word, as the caller promises.
    unsafe { *word = look };
}

/// A quantum check of a thread that may give way: sleepers of its processor that are due become ready; if its quantum
/// is `over`, those whose events have come, too. Threads that switch at quantum checks alone come to the end of a
/// round (`carry/duties.rs`) once in 64 quanta only.
fn look_for_others(over: bool) {
    let Some(me) = current() else { return };
    if !is_outside(me) {
        return;
    }
    let activation = activation_of(me);
    if activation.after.get().is_without_processor() {
        return;
    }
    let Some(mut inside) = Inside::enter(activation) else { return };
    crate::carry::timers::fire_due(inside.lend());
    if over {
        crate::carry::events::watch::poll_in_turn(inside.lend());
    }
    inside.leave();
}

/// Sets the calling thread's own quantum: how long it runs on, once others wait, before it gives way at a quantum
/// check; at most a second. `None`: as for all threads of its priority.
///
/// Quantum checks are in programs that were built with `raddle cargo`; `docs/preemptible.md` says how.
pub fn set_quantum(quantum: Option<Duration>) {
    OWN.set(quantum.map_or(0, |quantum| nanoseconds(quantum) + 1));
}

/// A section in which the calling thread does not give way at quantum checks, until this is dropped. Sections nest.
///
/// For a thread that holds a spin lock of the program's own, for whose holder others would spin in vain:
/// ```
/// let section = raddle::thread::hold();
/// // … the lock is taken, and given back …
/// drop(section);
/// ```
#[must_use = "the section ends when this is dropped"]
pub fn hold() -> Hold {
    enter_section();
    Hold(PhantomData)
}

/// See [`hold`].
#[derive(Debug)]
pub struct Hold(PhantomData<*const ()>);

impl Drop for Hold {
    fn drop(&mut self) {
        leave_section();
    }
}

/// A section of the calling thread begins in which it does not give way.
pub fn enter_section() {
    HELD.set(HELD.get() + 1);
}

/// The innermost section ends.
pub fn leave_section() {
    HELD.set(HELD.get().saturating_sub(1));
}

/// The calling thread is in a section in which it does not give way.
pub fn is_held() -> bool {
    HELD.get() > 0
}

/// A tick of the timer, which comes each so many nanoseconds, has found the calling thread: true if its quantum is
/// over.
pub fn is_over_by_ticks(period_ns: u64) -> bool {
    TICKS.set(TICKS.get() + 1);
    u64::from(TICKS.get()) * period_ns >= of_caller()
}

/// Runs `f`, in which the calling thread gives way; its quantum begins after that.
pub fn begin_anew<T>(f: impl FnOnce() -> T) -> T {
    let result = f();
    TICKS.set(0);
    BEGUN.set(Real::now());
    result
}
