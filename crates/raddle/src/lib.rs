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
//! Reading order, by rooms: *carry*, what runs threads (`switching` for select, switch and finalize, `witness`,
//! `processor`, `duties` for what a processor does besides, `activation` for the kernel thread, `pool`); *govern*, what
//! watches and adapts (`monitor`, `standby`, `follow`, `crowd`) and tells of it ([`info`]); *threads*, what they do
//! ([`thread`] for spawn and join, `host` for park and wake, `park`, `scope`, `forkjoin`), with [`sync`] and
//! [`future`]; *services* ([`io`], [`stage`]); *guest*, what a host such as the drop-in library needs. System calls are
//! in
//! *os*. The walk through one thread's life is in ARCHITECTURE.md.

mod carry;
pub mod future;
mod govern;
#[doc(hidden)]
pub mod guest;
mod lanes;
pub mod lock;
mod os;
mod pace;
pub mod policy;
mod refused;
mod services;
pub mod sync;
mod threads;
mod topology;
pub mod trace;

pub use carry::quanta::Preempt;
pub use carry::signal;
pub use govern::info;
#[doc(hidden)]
pub use guest as drop_in;
pub use services::{events, io, stage};
pub use threads::forkjoin::join;
pub use threads::host::Host;
pub use threads::park::{self, block_on, current, park, park_timeout};
pub use threads::pool::{self, BuildError, Builder, MoveError, Pool, blocking, move_to};
pub use threads::scope::{Scope, ScopedJoinHandle, scope};
pub use threads::thread::{self, JoinHandle, SpawnError, check, current_name, spawn, yield_now};
pub use threads::time::{self, sleep};
