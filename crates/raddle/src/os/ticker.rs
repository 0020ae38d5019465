//! A timer for each kernel thread that carries a processor, which asks the thread that runs there to give way.
//!
//! The timer sends the kernel thread a signal once a quantum while it is on. The monitor switches it on where a
//! processor computes; the signal's handler, on the kernel thread itself, switches it off where nobody waits
//! ([`crate::guest::preemption`]).
//!
//! Where only threads that spin are asked ([`Asked::Spinning`]), the monitor has it go off once. The handler switches
//! it on if it has found a thread that spins.
//!
//! | word | written by |
//! |---|---|
//! | `timer`, `task` | the monitor |
//! | `state` | the monitor to ON; the kernel thread's handler to any |
//! | `switches`, `traffic`, `calm` | the kernel thread's handler |
//!
//! Only the monitor makes and deletes timers, and it deletes one only when its kernel thread has ended: a number that
//! another thread uses is never that of a timer of the program's. If the monitor and the handler change the state at
//! the same time, the timer may go where nobody waits: then the next tick stops it. It does not stand still where
//! somebody waits, since the monitor compares `traffic` at each look.

use raddle_machine::raw::system_call;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Nanoseconds between two ticks; 0: programs are not asked.
static QUANTUM_NS: AtomicU64 = AtomicU64::new(0);
/// What a tick comes with.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static SPINNING_ONLY: AtomicBool = AtomicBool::new(false);
/// What tells a tick from the program's own timers: its address.
static TICK: u8 = 0;

/// A shorter quantum is taken for this: a signal takes about 12 us of a core.
const SHORTEST_NS: u64 = 20_000;
/// Nanoseconds until a thread is asked again, at least, that was where it could not give way.
const AGAIN_NS: u64 = 100_000;
/// Ticks at which nobody waited until the timer rests.
const CALM_TICKS: u32 = 8;

const OFF: u32 = 0;
/// It goes off once, when a deadline comes.
const FAR: u32 = 1;
const ON: u32 = 2;

/// `traffic` of a ticker that is to be switched on at the monitor's next look, whatever that finds.
const ANY: u64 = u64::MAX;

/// Who is asked to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Each thread that computes.
    All,
    /// One that spins: it waits for what another thread is to do.
    Spinning,
}

/// From now on kernel threads that compute get `signal`, once a quantum while one is `asked`.
pub(crate) fn begin(signal: c_int, quantum_ns: u64, asked: Asked) {
    SIGNAL.store(signal, Ordering::Relaxed);
    SPINNING_ONLY.store(asked == Asked::Spinning, Ordering::Relaxed);
    QUANTUM_NS.store(quantum_ns.max(SHORTEST_NS), Ordering::Release);
}

/// Whom timers ask to give way, if there are any.
#[inline]
pub(crate) fn asked() -> Option<Asked> {
    if QUANTUM_NS.load(Ordering::Acquire) == 0 {
        return None;
    }
    // After that: it was written before.
    Some(if SPINNING_ONLY.load(Ordering::Relaxed) { Asked::Spinning } else { Asked::All })
}

/// True if that is what a tick's `siginfo_t` carries.
pub(crate) fn is_tick(value: usize) -> bool {
    value == (&raw const TICK).addr()
}

#[derive(Debug)]
pub(crate) struct Ticker {
    /// The kernel's number of the timer; less than 0: none.
    timer: AtomicI32,
    /// The kernel thread to which it sends.
    task: AtomicU32,
    state: AtomicU32,
    /// How often the processor had switched at the last tick.
    switches: AtomicU64,
    /// What had happened to the processor when the timer was switched off.
    traffic: AtomicU64,
    /// Ticks in a row at which nobody waited.
    calm: AtomicU32,
}

impl Ticker {
    pub const fn new() -> Self {
        Self {
            timer: AtomicI32::new(-1),
            task: AtomicU32::new(0),
            state: AtomicU32::new(OFF),
            switches: AtomicU64::new(0),
            traffic: AtomicU64::new(ANY),
            calm: AtomicU32::new(0),
        }
    }

    /// The monitor's: sees to it that there is a timer for that kernel thread, which lives. False where the kernel
    /// refuses one.
    pub fn prepare(&self, task: u32) -> bool {
        let timer = self.timer.load(Ordering::Relaxed);
        if timer >= 0 && self.task.load(Ordering::Relaxed) == task {
            return true;
        }
        if timer >= 0 {
            self.timer.store(-1, Ordering::Relaxed);
            // SAFETY: a timer that was made below, whose kernel thread has ended.
            unsafe { system_call(libc::SYS_timer_delete as usize, [timer as usize, 0, 0, 0, 0, 0]) };
        }
        self.state.store(OFF, Ordering::Relaxed);
        self.traffic.store(ANY, Ordering::Relaxed);
        let made = make(task);
        self.task.store(task, Ordering::Relaxed);
        // Release: whoever rings it sees for whom it is.
        self.timer.store(made, Ordering::Release);
        made >= 0
    }

    /// The monitor's, of a processor that computes, to which so much has happened: it ticks from now on, unless nothing
    /// has changed since it was found that nobody waits.
    pub fn arm(&self, traffic: u64) {
        let quantum = QUANTUM_NS.load(Ordering::Relaxed);
        if self.state.load(Ordering::Relaxed) == ON || self.traffic.load(Ordering::Relaxed) == traffic {
            return;
        }
        self.calm.store(0, Ordering::Relaxed);
        self.state.store(ON, Ordering::Relaxed);
        self.set(quantum, quantum);
    }

    /// The next tick comes at once: a more urgent thread waits. For anybody.
    pub fn ring(&self) {
        if asked() == Some(Asked::All) {
            self.set(1, QUANTUM_NS.load(Ordering::Relaxed));
        }
    }

    /// The monitor's, of a processor that computes: one tick comes, unless it ticks already.
    pub fn ask_once(&self) {
        if self.state.load(Ordering::Relaxed) != ON {
            self.set(1, 0);
        }
    }

    /// In the handler: it ticks.
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ON
    }

    /// In the handler: the thread spins and is to give way, and those that have their turns next may spin, too. The
    /// processor has switched so often, the next thread's beginning included: that one has had its quantum at the next
    /// tick.
    pub fn spins(&self, switches: u64) {
        self.switches.store(switches, Ordering::Relaxed);
        self.calm.store(0, Ordering::Relaxed);
        if !self.is_on() {
            let quantum = QUANTUM_NS.load(Ordering::Relaxed);
            self.state.store(ON, Ordering::Relaxed);
            self.set(quantum, quantum);
        }
    }

    /// In the handler: true if the thread that runs has had a quantum, and does not run since the last tick only.
    pub fn has_run_for_long(&self, switches: u64) -> bool {
        self.switches.swap(switches, Ordering::Relaxed) == switches
    }

    /// In the handler: the thread could not give way where it was. The next tick comes sooner.
    pub fn again(&self) {
        let quantum = QUANTUM_NS.load(Ordering::Relaxed);
        self.calm.store(0, Ordering::Relaxed);
        self.set((quantum / 8).max(AGAIN_NS), quantum);
    }

    /// In the handler: the thread spins, and is to give way a few instructions on. The processor has switched so often.
    pub fn is_to_ask_soon(&self, switches: u64) {
        self.switches.store(switches, Ordering::Relaxed);
        self.state.store(ON, Ordering::Relaxed);
        self.again();
    }

    /// In the handler: somebody waited.
    pub fn was_of_use(&self) {
        self.calm.store(0, Ordering::Relaxed);
    }

    /// In the handler: nobody waited, or the processor switches by itself. After some such ticks the timer rests, until
    /// `deadline` if there is one.
    pub fn was_idle(&self, traffic: Option<u64>, deadline: Option<u64>, now: u64) {
        let calm = self.calm.load(Ordering::Relaxed) + 1;
        self.calm.store(calm, Ordering::Relaxed);
        if calm < CALM_TICKS {
            return;
        }
        match deadline {
            Some(deadline) => {
                let first = deadline.saturating_sub(now).max(SHORTEST_NS);
                self.set(first, QUANTUM_NS.load(Ordering::Relaxed));
                self.traffic.store(traffic.unwrap_or(ANY), Ordering::Relaxed);
                self.state.store(FAR, Ordering::Relaxed);
            }
            None => self.rest(traffic),
        }
    }

    /// In the handler: no ticks until the monitor finds the processor computing, with other traffic than this.
    pub fn rest(&self, traffic: Option<u64>) {
        self.set(0, 0);
        self.traffic.store(traffic.unwrap_or(ANY), Ordering::Relaxed);
        self.state.store(OFF, Ordering::Relaxed);
    }

    fn set(&self, first_ns: u64, period_ns: u64) {
        let timer = self.timer.load(Ordering::Acquire);
        if timer < 0 {
            return;
        }
        let time = |ns: u64| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        let times = libc::itimerspec { it_interval: time(period_ns), it_value: time(first_ns) };
        // SAFETY: a timer of ours; the kernel reads the times.
        unsafe {
            let place = (&raw const times).expose_provenance();
            system_call(libc::SYS_timer_settime as usize, [timer as usize, 0, place, 0, 0, 0]);
        }
    }
}

/// A timer that sends that kernel thread ticks; -1 where the kernel refuses one.
fn make(task: u32) -> c_int {
    let mut timer: c_int = -1;
    // SAFETY: zeroes are an event; the kernel reads it, and writes the number.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL.load(Ordering::Relaxed);
        event.sigev_notify_thread_id = task as c_int;
        event.sigev_value.sival_ptr = (&raw const TICK).cast_mut().cast();
        let places = [(&raw const event).expose_provenance(), (&raw mut timer).expose_provenance()];
        let clock = libc::CLOCK_MONOTONIC as usize;
        if system_call(libc::SYS_timer_create as usize, [clock, places[0], places[1], 0, 0, 0]) != 0 {
            return -1;
        }
    }
    timer
}
