//! Scheduler activations' experiments on simulated processors: N-body, thread operations, and blocks in the kernel.
//!
//! Source: Anderson, Bershad, Lazowska and Levy, *Scheduler Activations: Effective Kernel Support for the User-Level
//! Management of Parallelism*, section 5. Threads, policy, idle protocol and mutexes are the library's own; what the
//! kernel does is a model: processors in turns ([`crate::virtual_time::Sharing`]), blocks of a fixed time, notices of a
//! fixed cost ([`crate::threads::Blocking`]), and daemons.
//!
//! Differs from the paper: a thread whose processor a daemon takes stays with it, as it stays with its activation in
//! `crates/raddle`, and is late by the daemon's run; it is not taken out of its activation.
//!
//! Numbers of the paper that are put in: 34 and 37 µs of FastThreads and 948 and 441 µs of Topaz threads (thread
//! operations are fitted to these four), 50 ms of a miss, and 2.4 ms of a signal and wait through activations, which is
//! two notices. The sizes of the N-body program are not told there and chosen here ([`nbody::Asked`]).
//!
//! # Example
//! ```
//! use raddle_sim::activations::{System, operations};
//! let of = |system| operations(system, 0).unwrap();
//! let (user, kernel) = (of(System::Activations), of(System::Kernel));
//! assert!(kernel.null_fork > 10.0 * user.null_fork && kernel.signal_wait > 5.0 * user.signal_wait);
//! ```
#![forbid(unsafe_code)]

pub mod nbody;
pub mod trace;

use crate::cost::Costs;
use crate::execution::{Options, Outcome, run, start, work};
use crate::machine::Controlled;
use crate::threads::{self, Blocking, Pool, Simulated, block, blocks_by, spawn};
use crate::virtual_time::{DAEMON, Sharing, VirtualTime};
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::policies;
use raddle_scheduler::sync::Semaphore;
use std::rc::Rc;

/// What runs the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The kernel itself, by one queue: Topaz threads.
    Kernel,
    /// The library on kernel threads that tell it nothing: original FastThreads.
    Oblivious,
    /// The library on activations.
    Activations,
}

impl System {
    /// All three, in the paper's order of growing cooperation.
    pub const ALL: [Self; 3] = [Self::Kernel, Self::Oblivious, Self::Activations];

    /// As it is called in plots.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel threads",
            Self::Oblivious => "user-level threads",
            Self::Activations => "user-level threads on activations",
        }
    }

    /// The kernel has one queue.
    fn policy(self, user: &'static str) -> &'static str {
        if self == Self::Kernel { "fifo" } else { user }
    }

    /// What things cost: a kernel's thread operations are fitted to Topaz's.
    pub fn costs(self) -> Result<Costs, String> {
        let costs = Costs::preset("firefly").ok_or("the preset is gone")?;
        Ok(match self {
            Self::Kernel => Costs { spawn: TOPAZ_SPAWN_NS, ready: TOPAZ_READY_NS, switch: TOPAZ_SWITCH_NS, ..costs },
            _ => costs,
        })
    }

    fn sharing(self, processors: usize) -> Sharing {
        Sharing {
            processors,
            quantum: QUANTUM_NS,
            idle_spins: self == Self::Oblivious,
            daemon_takes_idle: self == Self::Activations,
        }
    }
}

/// Of user-level threads: lists of their own, the last first, and theft.
pub const POLICY: &str = "steal(lifo)";
/// Nanoseconds, fitted to 948 and 441 µs.
const TOPAZ_SPAWN_NS: f64 = 720_000.0;
const TOPAZ_READY_NS: f64 = 203_000.0;
const TOPAZ_SWITCH_NS: f64 = 200_000.0;
/// Nanoseconds after which the kernel lets another kernel thread run. The paper gives none.
const QUANTUM_NS: u64 = 100_000_000;
/// The processors of the machine.
pub const PROCESSORS: usize = 6;
/// Nanoseconds of a notice: two of them make 2.4 ms.
pub const NOTICE_NS: u64 = 1_200_000;

/// A daemon that wakes now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Nanoseconds between two runs; 0: there is none.
    pub every: u64,
    /// Nanoseconds of a run.
    pub lasts: u64,
}

/// The first thread of a program.
type Main = Box<dyn FnOnce()>;

/// A run: one pool for each of these programs, on some processors each.
struct Programs {
    system: System,
    policy: &'static str,
    costs: Costs,
    /// What a kernel has: for all of them.
    sharing: Sharing,
    blocking: Blocking,
    daemon: Daemon,
    flags: u64,
    /// Processors that it has, or believes to have, and its first thread.
    mains: Vec<(usize, Main)>,
}

/// Nanoseconds until each of the programs has ended.
fn ends(programs: Programs) -> Result<Vec<u64>, String> {
    let Programs { system, policy, costs, sharing, blocking, daemon, flags, mains } = programs;
    let options = Options { seed: 1, steps: 2_000_000_000, clocks: false, trace: false, lines: true };
    let over = run(&options, VirtualTime::shared(costs.clone(), sharing), || {
        let policy = policy.parse().map_err(|why| format!("{why}"))?;
        let mut pools: Vec<Rc<Pool>> = Vec::new();
        for (processors, main) in mains {
            let make = |cores, others| policies::build(&policy, cores, others).map_err(|why| why.to_string());
            pools.push(threads::pool(make, processors, &costs, main)?);
        }
        for pool in &pools {
            blocks_by(pool, blocking);
            pool.flags_cost(flags);
        }
        if daemon.every > 0 {
            let pools = pools.clone();
            start(DAEMON, move || {
                let nobody = <Controlled as Machine>::Atomic::<u32>::new(0);
                while pools.iter().any(|pool| pool.left() > 0) {
                    Controlled::wait(&nobody, 0, Some(Controlled::now() + daemon.every));
                    work(daemon.lasts);
                }
                nobody.store(1, Ordering::Relaxed);
            });
        }
        Ok::<_, String>(pools)
    });
    let pools = over.value?;
    let ended = matches!(over.outcome, Outcome::Done) && pools.iter().all(|pool| pool.left() == 0);
    let times = pools.iter().map(|pool| pool.tally().ended_at).collect();
    pools.into_iter().for_each(Pool::end);
    if ended { Ok(times) } else { Err(format!("{system:?}: {}", over.outcome)) }
}

/// Alone on one processor, with nothing but what `main` does: nanoseconds.
fn alone(system: System, flags: u64, notice: u64, main: impl FnOnce() + 'static) -> Result<u64, String> {
    let blocking = if system == System::Oblivious { Blocking::Loses } else { Blocking::GoesOn { notice } };
    let programs = Programs {
        system,
        policy: system.policy(POLICY),
        costs: system.costs()?,
        sharing: system.sharing(1),
        blocking,
        daemon: Daemon { every: 0, lasts: 0 },
        flags,
        mains: vec![(1, Box::new(main))],
    };
    ends(programs)?.first().copied().ok_or_else(|| "no program".into())
}

/// Microseconds of thread operations.
#[derive(Clone, Copy, Debug)]
pub struct Operations {
    /// To make, schedule, run and end a thread that does nothing.
    pub null_fork: f64,
    /// To signal a thread that waits, and wait for its signal.
    pub signal_wait: f64,
}

const TIMES: u64 = 400;

/// Two threads that signal each other so often, beside what else each does in its turn; and their end.
fn signals(times: u64, beside: impl Fn() + Clone + 'static) {
    let ends: [Rc<Semaphore<Simulated>>; 2] = [(); 2].map(|()| Rc::new(Semaphore::with_permits(0)));
    for mine in 0..2 {
        let (ends, beside) = (ends.clone(), beside.clone());
        spawn(move || {
            for _ in 0..times {
                beside();
                if mine == 1 {
                    ends[mine].acquire(1);
                }
                ends[1 - mine].release(1);
                if mine == 0 {
                    ends[mine].acquire(1);
                }
            }
        });
    }
}

/// Null fork, and signal and wait, on one processor; each critical section of the runtime costs `flags` nanoseconds
/// more.
///
/// # Errors
/// If a run does not end.
pub fn operations(system: System, flags: u64) -> Result<Operations, String> {
    let forks = |times: u64| alone(system, flags, 0, move || (0..times).for_each(|_| spawn(|| ())));
    let waits = |times: u64| alone(system, flags, 0, move || signals(times, || ()));
    // Without what a run takes at its beginning and end.
    let each = |of: &dyn Fn(u64) -> Result<u64, String>, operations: u64| {
        Ok::<_, String>((of(2 * TIMES)? - of(TIMES)?) as f64 / (operations * TIMES) as f64 / 1e3)
    };
    Ok(Operations { null_fork: each(&forks, 1)?, signal_wait: each(&waits, 2)? })
}

/// Microseconds of a turn in which each of two threads makes so many signals and waits at the user level and one
/// through the kernel.
///
/// # Errors
/// As [`operations`].
pub fn mixed(system: System, notice: u64, user: u64) -> Result<f64, String> {
    const TURNS: u64 = 60;
    // A signal and wait through the kernel: what a kernel thread takes for it anyway, or a block of no length.
    let turns = |turns: u64| {
        alone(system, 0, notice, move || {
            signals(turns * (user + u64::from(system == System::Kernel)), || ());
            if system == System::Activations {
                (0..2).for_each(|_| spawn(move || (0..turns).for_each(|_| block(1))));
            }
        })
    };
    Ok((turns(2 * TURNS)? - turns(TURNS)?) as f64 / (2 * TURNS) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_figures_that_thread_operations_are_fitted_to_come_out() {
        let near =
            |ours: f64, paper: f64| assert!((ours / paper - 1.0).abs() < 0.03, "{ours:.1} µs, the paper's {paper}");
        let user = operations(System::Oblivious, 0).unwrap();
        near(user.null_fork, 34.0);
        near(user.signal_wait, 37.0);
        let kernel = operations(System::Kernel, 0).unwrap();
        near(kernel.null_fork, 948.0);
        near(kernel.signal_wait, 441.0);
    }
}
