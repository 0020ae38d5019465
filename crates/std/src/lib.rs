//! Raddle for Rust programs whose own `std::thread`, locks, channels and sockets are to be lightweight: all of the
//! library `raddle`, the entry points that take the C library's place, and the attribute [`main`].
//!
//! ```toml
//! [dependencies]
//! raddle = { package = "raddle-std", version = "0.1" }
//! ```
//!
//! ```
//! # use raddle_std as raddle;
//! #[raddle::main]
//! fn main() {
//!     // Lightweight threads, each a few kilobytes: the standard library makes them with `pthread_create`, ours here.
//!     let threads: Vec<_> = (0..1000).map(|i| std::thread::spawn(move || i)).collect();
//!     let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
//!     assert_eq!(sum, 499_500);
//! }
//! ```
//!
//! The whole program is taken over, libraries in C that it links included, from the first thread that it creates on;
//! without the attribute too, but for the first thread, which then stays a kernel thread. `RADDLE_PROCESSORS` and
//! `RADDLE_POLICY` in the environment choose the processors and the policy, `RADDLE_KERNEL_THREADS=1` turns everything
//! off.
//!
//! The attribute is for a plain `main` that may return what `main` may:
//!
//! ```
//! # use raddle_std as raddle;
//! #[raddle::main]
//! fn main() -> std::io::Result<()> {
//!     let (sender, receiver) = std::sync::mpsc::channel();
//!     std::thread::spawn(move || sender.send(42));
//!     assert_eq!(receiver.recv(), Ok(42));
//!     assert_eq!(std::thread::current().name(), Some("main"));
//!     Ok(())
//! }
//! ```
//! Blocking code needs no `async`:
//! ```compile_fail
//! # use raddle_std as raddle;
//! #[raddle::main]
//! async fn main() {}
//! ```
//! Arguments are read with [`std::env::args`]:
//! ```compile_fail
//! # use raddle_std as raddle;
//! #[raddle::main]
//! fn main(arguments: Vec<String>) {}
//! ```
//! It is for `main` only, and takes nothing:
//! ```compile_fail
//! # use raddle_std as raddle;
//! #[raddle::main]
//! fn other() {}
//! fn main() {}
//! ```
//! ```compile_fail
//! # use raddle_std as raddle;
//! #[raddle::main(processors = 4)]
//! fn main() {}
//! ```
//!
//! Why a package of its own: `raddle` alone takes nothing over; a program that only wants [`spawn`] keeps its std as it
//! is.
#![forbid(unsafe_code)]

pub use raddle::*;
pub use raddle_macros::main;

// Rust's linker keeps exported functions of every crate that is linked; this names it.
#[doc(hidden)]
pub use raddle_posix::link;
