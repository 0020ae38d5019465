//! The benchmarks: workloads, the programs that run them on one runtime each, and the harness that compares the
//! runtimes.
//!
//! A *program* (`raddle-bench-raddle`, `raddle-bench-std`, and the peers' under `bench/peers`) runs one workload in a
//! fresh process and prints one line of JSON ([`program`]). Workloads for runtimes that look like std are written once,
//! in [`bodies`]. The *harness* ([`harness`]) starts the programs in interleaved rounds, checks that their checksums
//! agree and reports ([`report`]).
#![forbid(unsafe_code)]

pub mod args;
#[cfg(feature = "raddle")]
pub mod blocked;
pub mod bodies;
pub mod catalogue;
pub mod child;
pub mod harness;
mod lacks;
pub mod load;
pub mod memory;
pub mod native_switch;
pub mod of_std;
#[cfg(feature = "raddle")]
pub mod ours;
pub mod processor_time;
pub mod program;
pub mod quiet;
pub mod report;
pub mod runtimes;
pub mod smoke;
pub mod stats;
pub mod waits;
