//! The controlled machine: policies, queues and protocols on simulated cores, under a driver that decides each step.
//!
//! What is generic over [`raddle_machine::Machine`] runs here unchanged. A [`run`] makes some coroutines, all on one
//! kernel thread; each atomic operation, fence, wait, wake-up and spin hint of theirs is a step, and before each the
//! [`Driver`] is asked who goes on. Executions are sequentially consistent; the happens-before relation of the memory
//! model is kept beside them ([`clock`]), so that a hand-over with too weak an ordering is found by whoever watches
//! what is handed over ([`Published`], [`Tokens`]).
//!
//! The same seed and driver make the same run, step by step: atomic words are known by the order of their creation,
//! never by address. (A bug by which a freed address returns may differ from run to run.)
//!
//! Reading order: [`world`] (what a driver sees), [`driver`], `machine`, `execution` (whose turn it is), `coroutine`,
//! [`clock`], `published`, `tokens`; then what stands on them: [`check`].
//!
//! On it stands the simulated machine: [`cost`] (what a machine is), [`virtual_time`] (the driver with clocks, caches
//! and clusters), [`threads`] (lightweight threads with the real policies, idle protocol and primitives),
//! [`workloads`], [`simulate`] and [`report`]; [`calibrate`] measures what this machine costs, [`claims`] and
//! [`papers`] hold the model against the papers; [`hurricane`] has processors instead of threads.
//!
//! Architecture invariant: production code never names this crate. `unsafe` is where stacks are switched (`coroutine`,
//! `execution`, [`threads`]) and where tokens are made (`tokens`, [`threads`]).
//!
//! # Example
//! ```
//! use raddle_machine::{Atomic, Machine, Ordering};
//! use raddle_sim::{ByChance, Controlled, Options, Outcome, run, start};
//! use std::rc::Rc;
//!
//! let lost = (0..100).any(|seed| {
//!     let run = run(&Options::default(), ByChance::new(seed), || {
//!         let count = Rc::new(<Controlled as Machine>::Atomic::<u32>::new(0));
//!         for name in ["first", "second"] {
//!             let count = count.clone();
//!             start(name, move || {
//!                 let seen = count.load(Ordering::Relaxed);
//!                 count.store(seen + 1, Ordering::Relaxed);
//!             });
//!         }
//!         count
//!     });
//!     assert_eq!(run.outcome, Outcome::Done);
//!     run.value.load(Ordering::Relaxed) == 1
//! });
//! assert!(lost, "some interleaving loses an update");
//! ```

pub mod activations;
pub mod calibrate;
pub mod check;
pub mod claims;
pub mod clock;
mod coroutine;
pub mod cost;
pub mod driver;
mod execution;
pub mod hurricane;
mod lines;
mod machine;
pub mod papers;
mod published;
pub mod records;
pub mod report;
pub mod simulate;
pub mod threads;
mod tokens;
pub mod virtual_time;
pub mod watch;
pub mod workloads;
pub mod world;

pub use driver::{ByChance, Choice, Driver};
pub use execution::{Options, Outcome, Run, current, run, start, work};
pub use machine::{Controlled, ControlledAtomic};
pub use published::Published;
pub use tokens::Tokens;
pub use world::{Access, Op, Status, Step, World};
