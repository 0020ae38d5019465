//! Blocking, straight-line, thread-per-task code on millions of lightweight threads, under a scheduler that you choose.
//!
//! ```
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! let sum: u64 = pool.run(|| {
//!     let handles: Vec<_> = (0..1000u64).map(|i| raddle::spawn(move || i * 2)).collect();
//!     handles.into_iter().map(|handle| handle.join().unwrap()).sum()
//! });
//! assert_eq!(sum, 999_000);
//! ```
//!
//! A thread here is a thread: it has its own thread-local storage and keeps it on whichever kernel thread it runs, so
//! `thread_local!`, `errno`, [`std::thread::current`], `Rc` on the stack and C libraries are right by construction.
//!
//! Reading order, by rooms: *carry*, what runs threads ([`thread`] for spawn, `processor`, `witness`, `switching` for
//! select, switch and finalize, `switching::duties` for what a processor does besides, `activation` for the kernel thread); *threads*, what they do (`host` for
//! park and wake, `park`, `scope`, `forkjoin`, [`sync`]); *services* (`time`, [`io`], [`stage`], [`signal`]); *govern*, what
//! watches and adapts (`monitor`, `standby`, `follow`, `crowd`, `requests`); *guest*, what a host needs ([`drop_in`],
//! `foreign`, `fallback`, `forked`, `dedicated`). The walk through one thread's life is in ARCHITECTURE.md.

mod activation;
mod activations;
mod clocks;
mod crowd;
mod deadlock;
mod debug_layout;
mod dedicated;
mod delays;
mod descriptor;
#[doc(hidden)]
pub mod drop_in;
mod dump;
mod event_loops;
mod fallback;
mod follow;
mod foreign;
mod forked;
mod forkjoin;
pub mod future;
mod giving_way;
mod guard;
mod handoff;
mod host;
pub mod info;
pub mod io;
mod kept;
pub mod lock;
mod members;
mod metrics;
mod monitor;
mod os;
pub mod park;
pub mod policy;
pub mod pool;
mod processor;
mod refused;
mod requests;
mod scope;
pub mod signal;
pub mod stage;
mod standby;
mod switching;
pub mod sync;
mod tasks;
pub mod thread;
pub mod time;
mod wander;
mod ways;
mod witness;

pub use forkjoin::join;
pub use host::Host;
pub use park::{block_on, current, park, park_timeout};
pub use pool::{BuildError, Builder, MoveError, Pool, blocking, move_to};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use thread::{JoinHandle, SpawnError, check, current_name, spawn, yield_now};
pub use time::sleep;
