//! Counters and the dump of all threads.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! pool.run(|| raddle::spawn(|| ()).join().unwrap());
//! let stats = raddle::info::stats();
//! assert!(stats.spawned >= 2 && stats.switches >= 1);
//! ```

pub use crate::carry::delays::RunQueueDelay;
pub use crate::govern::dump::{DumpOptions, dump, dump_on_signal};
pub use crate::govern::metrics::metrics;

use crate::carry::pool;
use std::sync::atomic::Ordering;

/// Sums over all pools that are alive; racy, monotone but for `spare_activations` and `stack_slots`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Threads spawned.
    pub spawned: u64,
    /// Spawns after which the spawner had to let others run, because the policy had no room (`overflow=retry`).
    pub spawn_retries: u64,
    /// Threads that ended.
    pub exited: u64,
    /// Times a thread left one pool for another.
    pub moved: u64,
    /// Times a processor went on with another thread.
    pub switches: u64,
    /// Times a processor went to sleep.
    pub sleeps: u64,
    /// Attempts to steal.
    pub steals_tried: u64,
    /// Attempts to steal that brought something.
    pub steals_won: u64,
    /// Processors taken over from an activation that was blocked in the kernel.
    pub takeovers: u64,
    /// Those of them that a standby of the idle class took, microseconds after the block.
    pub takeovers_by_standby: u64,
    /// Blocked activations whose return the kernel was asked to tell of.
    pub returns_watched: u64,
    /// Threads that came back from such a block, waited until a processor had their turn, and went on with that.
    pub returns_in_turn: u64,
    /// Threads that came back from such a block and went on beside the processors, since none had their turn within two
    /// milliseconds.
    pub returns_beside: u64,
    /// Processors whose private threads were published because their activation computed on while others were idle.
    pub publications: u64,
    /// Times a spare activation went on with a processor beside one that computed.
    pub slices: u64,
    /// Times a computing thread was asked for a waiting half of its `join`, and times it gave one.
    pub halves_asked: u64,
    /// See `halves_asked`.
    pub halves_given: u64,
    /// Processors that retired because the process was allotted fewer cores, or does about as much on fewer
    /// ([`crate::Builder::at_most`]).
    pub processors_retired: u64,
    /// Processors that came back, or came first, because it was allotted more, or to see whether more do more.
    pub processors_returned: u64,
    /// Kernel threads beyond one per processor.
    pub spare_activations: u64,
}

/// The counters of the process.
pub fn stats() -> Stats {
    let mut stats = Stats {
        takeovers: crate::govern::monitor::TAKEOVERS.load(Ordering::Relaxed)
            + crate::govern::standby::CATCHES.load(Ordering::Relaxed),
        takeovers_by_standby: crate::govern::standby::CATCHES.load(Ordering::Relaxed),
        publications: crate::govern::monitor::PUBLICATIONS.load(Ordering::Relaxed),
        slices: crate::govern::monitor::SLICES.load(Ordering::Relaxed),
        halves_asked: crate::govern::monitor::HALVES_ASKED.load(Ordering::Relaxed),
        halves_given: crate::govern::monitor::HALVES_GIVEN.load(Ordering::Relaxed),
        processors_retired: crate::govern::follow::RETIRED.load(Ordering::Relaxed),
        processors_returned: crate::govern::follow::RETURNED.load(Ordering::Relaxed),
        returns_watched: crate::carry::turns::WATCHED.load(Ordering::Relaxed),
        returns_in_turn: crate::carry::turns::IN_TURN.load(Ordering::Relaxed),
        returns_beside: crate::carry::turns::BESIDE_OTHERS.load(Ordering::Relaxed),
        ..Stats::default()
    };
    for pool in pool::pools() {
        stats.spawned += pool.outside_spawned.load(Ordering::Relaxed);
        stats.exited += pool.ended_alone.load(Ordering::Relaxed);
        for processor in pool.processors() {
            let counters = &processor.counters;
            stats.spawned += counters.spawned.load(Ordering::Relaxed);
            stats.spawn_retries += counters.spawn_retries.load(Ordering::Relaxed);
            stats.exited += counters.exited.load(Ordering::Relaxed);
            stats.moved += counters.moved.load(Ordering::Relaxed);
            stats.switches += counters.switches.load(Ordering::Relaxed);
            stats.sleeps += counters.sleeps.load(Ordering::Relaxed);
            stats.steals_tried += counters.steals_tried.load(Ordering::Relaxed);
            stats.steals_won += counters.steals_won.load(Ordering::Relaxed);
        }
        stats.spare_activations += u64::from(pool.kernel_threads()).saturating_sub(pool.active() as u64);
    }
    stats
}

/// From now on, some threads are followed from when they become ready to when they run (or no more are): one in 64 of
/// each kind, one at a time for each processor. The environment variable `RADDLE_DELAYS=1` switches it on when the
/// first pool is built.
///
/// ```
/// raddle::info::sample_delays(true);
/// let pool = raddle::Builder::new().processors(1).build().unwrap();
/// pool.run(|| (0..1000).for_each(|_| raddle::spawn(|| ()).join().unwrap()));
/// let delay = raddle::info::run_queue_delay().unwrap();
/// assert!(delay.samples > 0 && delay.p50 <= delay.p99);
/// ```
pub fn sample_delays(on: bool) {
    crate::carry::delays::switch(on);
}

/// How long the followed threads waited to run; `None` when there was none.
pub fn run_queue_delay() -> Option<RunQueueDelay> {
    crate::carry::delays::percentiles()
}

/// Whether threads are lightweight in this process, or why each is a kernel thread.
///
/// ```
/// if let Err(why) = raddle::info::lightweight() {
///     eprintln!("every thread is a kernel thread: {why}");
/// }
/// ```
pub fn lightweight() -> Result<(), String> {
    if std::env::var_os("RADDLE_KERNEL_THREADS").is_some_and(|value| value == "1") {
        return Err(raddle_context::tls::KERNEL_THREADS_ASKED_FOR.into());
    }
    raddle_context::tls::init().map(|_| ()).map_err(|error| error.to_string())
}

/// Whether a program may be told of its own kernel threads' switches here (`perf_event_open` with `context_switch`), or
/// why not: asked of the kernel, not read from a setting, since a sandbox may forbid it all the same.
///
/// ```
/// println!("kernel events: {:?}", raddle::info::kernel_events());
/// ```
pub fn kernel_events() -> Result<(), String> {
    crate::os::kernel_events().map_err(|error| error.to_string())
}

/// Whether restartable sequences can be had here, or why not: asked of the kernel.
///
/// ```
/// println!("restartable sequences: {:?}", raddle::info::restartable_sequences());
/// ```
pub fn restartable_sequences() -> Result<(), String> {
    crate::os::rseq().map_err(|error| error.to_string())
}

/// Whether standbys of the idle class can be had, which tell of blocked threads in microseconds; asked by a kernel
/// thread that becomes one.
///
/// # Errors
/// Why not: then the monitor alone sees blocked threads, in milliseconds.
///
/// ```
/// match raddle::info::standbys() {
///     Ok(()) => println!("the kernel tells"),
///     Err(why) => println!("the monitor looks: {why}"),
/// }
/// ```
pub fn standbys() -> Result<(), String> {
    crate::os::probe_standby()
}

/// Whether the guard pages of stacks take no mapping each, so that memory alone limits the number of stacks.
///
/// ```
/// println!("millions of stacks: {}", raddle::info::guards_are_lightweight());
/// ```
pub fn guards_are_lightweight() -> bool {
    raddle_context::stack::guard_method() == raddle_context::stack::GuardMethod::Lightweight
}
