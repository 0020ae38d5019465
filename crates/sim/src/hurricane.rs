//! Hurricane's experiments on simulated processors: its locks under contention, and its page faults in clusters.
//!
//! Source: Unrau et al., *Experiences with Locking in a NUMA Multiprocessor Operating System Kernel*, section 4. Here a
//! coroutine is a processor, as in their kernel, and the locks are those of [`raddle_scheduler::lock`], unchanged.
//!
//! Two numbers of the paper are used to fit two of ours ([`LOOP`], and the preset's `step`): 3.65 µs for a pair of a
//! spin lock, 5.40 µs for one of MCS. All others are what comes out.
//!
//! # Example
//! ```
//! use raddle_sim::cost::Costs;
//! use raddle_sim::hurricane::locks::{Contention, Kind, contend};
//! let hector = Costs::preset("hector").unwrap();
//! let alone = |kind| contend(&hector, &Contention { kind, ..Contention::default() }).unwrap().mean / 1e3;
//! let (spin, mcs) = (alone(Kind::Spin { first: 1, cap: 70 }), alone(Kind::Mcs));
//! assert!((spin - 3.65).abs() < 0.01 && (mcs - 5.40).abs() < 0.01, "{spin} {mcs}");
//! ```
#![forbid(unsafe_code)]

pub mod clusters;
pub mod faults;
pub mod locks;

use crate::cost::Costs;
use crate::execution::{Options, Outcome, run, start};
use crate::virtual_time::VirtualTime;

/// Nanoseconds of the instructions round a pair of lock and unlock: calls, returns, the loop. Fitted: see the module.
pub const LOOP: u64 = 1_275;

/// A processor's part of an experiment.
pub(crate) type Body = Box<dyn FnOnce()>;

/// Runs one coroutine for each processor; what `setup` makes is dropped afterwards.
///
/// # Errors
/// If they do not all end.
pub(crate) fn processors<T>(costs: &Costs, setup: impl FnOnce() -> (Vec<Body>, T)) -> Result<T, String> {
    let options = Options { seed: 1, steps: 2_000_000_000, clocks: false, trace: false, lines: true };
    let over = run(&options, VirtualTime::new(costs.clone()), || {
        let (bodies, kept) = setup();
        for (number, body) in bodies.into_iter().enumerate() {
            start(format!("processor {number}"), body);
        }
        kept
    });
    match over.outcome {
        Outcome::Done => Ok(over.value),
        other => Err(other.to_string()),
    }
}
