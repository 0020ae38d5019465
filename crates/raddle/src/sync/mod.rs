//! Synchronisation for lightweight threads, and for kernel threads that meet them.
//!
//! std's names and shapes; a thread that waits leaves its processor to others. Every wait also has a form with a
//! time-out and one that cancellation ends, and both endings are values; the forms that have std's signatures are
//! masked from cancellation. How they work, and what they promise when a kernel thread stands still, is in
//! [`raddle_scheduler::sync`].
//!
//! ```
//! use raddle::sync::{Condvar, Mutex};
//! static READY: Mutex<bool> = Mutex::new(false);
//! static CHANGED: Condvar = Condvar::new();
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let waiter = raddle::spawn(|| *CHANGED.wait_while(READY.lock().unwrap(), |ready| !*ready).unwrap());
//!     *READY.lock().unwrap() = true;
//!     CHANGED.notify_one();
//!     assert!(waiter.join().unwrap());
//! });
//! ```
//!
//! Monitors need no notification:
//!
//! ```
//! use raddle::sync::Monitor;
//! static STOCK: Monitor<u32> = Monitor::new(0);
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let consumer = raddle::spawn(|| {
//!         let mut stock = STOCK.enter().unwrap();
//!         stock.wait_until(|stock| *stock >= 2);
//!         *stock -= 2;
//!     });
//!     *STOCK.enter().unwrap() += 2;
//!     consumer.join().unwrap();
//! });
//! assert_eq!(*STOCK.enter().unwrap(), 0);
//! ```
//!
//! And so are the others used:
//!
//! ```
//! use raddle::sync::{Barrier, Once, OnceLock, RwLock, Semaphore};
//! static BARRIER: Barrier = Barrier::new(2);
//! static PLACES: Semaphore = Semaphore::new(1);
//! static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
//! static FIRST: OnceLock<&str> = OnceLock::new();
//! static HELLO: Once = Once::new();
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let both = ["a", "b"].map(|name| {
//!         raddle::spawn(move || {
//!             HELLO.call_once(|| ());
//!             FIRST.get_or_init(|| name);
//!             let place = PLACES.enter(1);
//!             NAMES.write().unwrap().push(name);
//!             drop(place);
//!             BARRIER.wait();
//!             NAMES.read().unwrap().len()
//!         })
//!     });
//!     assert_eq!(both.map(|thread| thread.join().unwrap()), [2, 2]);
//! });
//! ```

pub mod channel;
mod lazy;
pub mod mpsc;
pub mod oneshot;
pub mod select;

use crate::Host;
pub use lazy::LazyLock;
// Nothing of these waits, so they are std's.
use raddle_scheduler::sync as generic;
pub use std::sync::{Arc, Weak, atomic};

pub use generic::{
    BarrierWaitResult, LockError, LockResult, OnceState, PoisonError, TryLockError, TryLockResult, WaitError,
    WaitTimeoutResult,
};

/// Mutual exclusion: [`raddle_scheduler::sync::Mutex`].
pub type Mutex<T> = generic::Mutex<T, Host>;
/// The right to a [`Mutex`]'s value.
pub type MutexGuard<'a, T> = generic::MutexGuard<'a, T, Host>;
/// Waiting for notifications: [`raddle_scheduler::sync::Condvar`].
pub type Condvar = generic::Condvar<Host>;
/// Many readers or one writer: [`raddle_scheduler::sync::RwLock`].
pub type RwLock<T> = generic::RwLock<T, Host>;
/// The right to read a [`RwLock`]'s value.
pub type RwLockReadGuard<'a, T> = generic::RwLockReadGuard<'a, T, Host>;
/// The right to write a [`RwLock`]'s value.
pub type RwLockWriteGuard<'a, T> = generic::RwLockWriteGuard<'a, T, Host>;
/// Counted permits: [`raddle_scheduler::sync::Semaphore`].
pub type Semaphore = generic::Semaphore<Host>;
/// Permits of a [`Semaphore`] that return when this is dropped.
pub type Permit<'a> = generic::Permit<'a, Host>;
/// A point that threads pass together: [`raddle_scheduler::sync::Barrier`].
pub type Barrier = generic::Barrier<Host>;
/// Doing something once: [`raddle_scheduler::sync::Once`].
pub type Once = generic::Once<Host>;
/// A [`Once`] that is not done: an old form that std has, too.
#[deprecated = "replaced by `Once::new()`, as in std"]
#[expect(clippy::declare_interior_mutable_const, reason = "each use is a new one, as in std")]
pub const ONCE_INIT: Once = Once::new();
/// A value that is written once: [`raddle_scheduler::sync::OnceLock`].
pub type OnceLock<T> = generic::OnceLock<T, Host>;
/// Data with conditions: [`raddle_scheduler::sync::Monitor`].
pub type Monitor<T> = generic::Monitor<T, Host>;
/// The right to be inside a [`Monitor`].
pub type MonitorGuard<'a, T> = generic::MonitorGuard<'a, T, Host>;
