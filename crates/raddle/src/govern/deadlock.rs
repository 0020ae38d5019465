//! The diagnosis of a dead-lock: nothing can run, and nothing is awaited that could change that.
//!
//! The monitor asks when all processors of all pools sleep. It is a dead-lock only if every kernel thread of the
//! process is known to wait for lightweight threads without a deadline: sleeping activations without timers, spares,
//! the monitor itself and the kernel thread that looks for it, sleeping standbys, kernel threads inside a wait of ours,
//! and activations whose thread is apart and waits for a word in memory. Any other kernel thread could still wake
//! somebody, so nothing is said then; but nothing tells when that one ends, so the monitor looks again later and later,
//! and a dead-lock that its end has left is told within twice the time that nothing has run. The report is a diagnosis
//! on standard error, once per dead-lock; the program goes on waiting, since a signal handler or another process
//! (through shared memory) is still conceivable.

use crate::carry::activation::Activation;
use crate::carry::foreign::FOREIGN_WAITERS;
use crate::carry::pool;
use crate::govern::info::DumpOptions;
use crate::os::{TaskState, task_state};
use raddle_machine::{Machine, Real};
use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lightweight threads that wait until a signal handler has run: another process may send one.
static SIGNAL_WAITERS: AtomicU64 = AtomicU64::new(0);
/// Spawns and exits at the last report: another is due only after a thread has begun or ended.
static REPORTED_AT: [AtomicU64; 2] = [const { AtomicU64::new(u64::MAX) }; 2];

thread_local! {
    /// How often the calling thread is among them: a handler that ends one wait may begin another.
    static OWN_WAITS: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread is one of [`SIGNAL_WAITERS`] as long as this lives. (The handler may end the thread.)
pub(crate) struct WaitsForSignal(());

impl WaitsForSignal {
    pub fn begin() -> Self {
        OWN_WAITS.set(OWN_WAITS.get() + 1);
        SIGNAL_WAITERS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for WaitsForSignal {
    fn drop(&mut self) {
        OWN_WAITS.set(OWN_WAITS.get() - 1);
        SIGNAL_WAITERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// In the child of a fork: of the threads only the caller is left, and no dead-lock was reported.
pub(crate) fn forget() {
    SIGNAL_WAITERS.store(OWN_WAITS.get(), Ordering::SeqCst);
    REPORTED_AT.iter().for_each(|count| count.store(u64::MAX, Ordering::Relaxed));
}

/// Its thread is apart and sleeps until another one changes a word. (One that was woken and has not come up yet does
/// not sleep.)
fn waits_for_us(activation: &Activation) -> bool {
    activation.waits_for.load(Ordering::SeqCst) != 0
        && task_state(activation.tid.load(Ordering::Relaxed)) == TaskState::Blocked
}

/// Its kernel thread runs: it has said that it sleeps, and looks for the last time, which may take long (one that a
/// debugger, or the program itself, has stepped by instructions).
fn comes_to_sleep(processor: &crate::carry::processor::Processor) -> bool {
    let owner = crate::carry::activations::find(processor.seat.owner.owner());
    owner.is_some_and(|owner| task_state(owner.tid.load(Ordering::Relaxed)) == TaskState::Running)
}

/// A dead-lock of all threads was reported, and since then none has begun or ended.
pub(crate) fn is_reported() -> bool {
    let stats = crate::govern::info::stats();
    REPORTED_AT.each_ref().map(|a| a.load(Ordering::Relaxed)) == [stats.spawned, stats.exited]
}

/// Nanoseconds until it is looked for again where only a kernel thread stands against it; each time twice as long, so
/// that a program which rests for a day is woken 23 times for it.
const AGAIN_NS: u64 = 10_000_000;

/// Nanoseconds for which nothing has switched until a ready thread's wake-up counts as lost. An instruction of a thread
/// that has itself stepped takes 40 us (a handler of SIGTRAP on a loaded host, 2026-11-28), so 8,000 of them fit.
const STEPPED_NS: u64 = 32 * AGAIN_NS;

/// The monitor's search.
#[derive(Default)]
pub(crate) struct Search {
    /// Switches at the last look that a kernel thread stood against, and how long it waited from there.
    last: Option<(u64, u64)>,
}

impl Search {
    /// Reports a dead-lock, if there is one. The time to look again, if another look may find what none will tell.
    pub fn look(&mut self) -> Option<u64> {
        let sure = |switches| self.last.is_some_and(|(at, wait_ns)| at == switches && wait_ns >= STEPPED_NS);
        let switches = report(sure)?;
        let wait_ns = match self.last {
            Some((at, wait_ns)) if at == switches => wait_ns.saturating_mul(2),
            _ => AGAIN_NS,
        };
        self.last = Some((switches, wait_ns));
        Some(Real::now().saturating_add(wait_ns))
    }
}

/// Reports a dead-lock, if there is one. How often all threads have switched, where there is none only because a kernel
/// thread might wake somebody: that may end without a word. (A ready thread stands against it, unless `sure` says that
/// so many switches have been all for long: then its wake-up was lost.)
fn report(sure: impl Fn(u64) -> bool) -> Option<u64> {
    let stats = crate::govern::info::stats();
    let now = [stats.spawned, stats.exited];
    if stats.spawned == stats.exited || REPORTED_AT.each_ref().map(|a| a.load(Ordering::Relaxed)) == now {
        return None;
    }
    let mut ours = FOREIGN_WAITERS.count() + 1 + u64::from(crate::os::looks::is_there());
    for pool in pool::pools() {
        // Nor was any called since the monitor looked: one that has work, and is kept by the kernel from coming up,
        // still says that it sleeps.
        let asleep = pool.all_asleep() && pool.nobody_called();
        let timers = pool.processors().iter().any(|p| p.deadline.load(Ordering::Relaxed) != u64::MAX);
        if !asleep || timers {
            return None;
        }
        ours += u64::from(pool.kernel_threads());
    }
    if crate::carry::events::table::is_any_awaited() || SIGNAL_WAITERS.load(Ordering::SeqCst) != 0 {
        return None;
    }
    // A spare that carries a thread is in the kernel with it.
    if crate::carry::activations::all().any(|a| !a.current.load(Ordering::Relaxed).is_null() && !waits_for_us(a)) {
        return None;
    }
    ours += crate::carry::arming::asleep() as u64;
    let there = crate::os::kernel_threads()?;
    if crate::govern::info::stats().switches != stats.switches {
        return None;
    }
    if there != ours {
        // One of the program's, or of ours that has said that it ends and is still there.
        return Some(stats.switches);
    }
    let ready = crate::govern::metrics::is_any_ready() && !sure(stats.switches);
    if ready || pool::pools().flat_map(|pool| pool.processors()).any(comes_to_sleep) {
        return Some(stats.switches);
    }
    REPORTED_AT.iter().zip(now).for_each(|(a, n)| a.store(n, Ordering::Relaxed));
    let mut out = std::io::stderr().lock();
    let _ = writeln!(
        out,
        "raddle: dead-lock: {} threads wait, nothing can run, and no kernel thread, timer or descriptor is awaited that \
         could wake one. Who waits for what:",
        stats.spawned - stats.exited
    );
    let _ = crate::govern::info::dump(&mut out, DumpOptions { threads: 50, backtraces: 10 });
    None
}
