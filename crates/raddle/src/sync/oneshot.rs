//! One value from one thread to another: [`raddle_scheduler::sync::oneshot`].
//!
//! ```
//! use raddle::sync::oneshot;
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let (promise, future) = oneshot::channel();
//!     let keeper = raddle::spawn(move || promise.set(42).is_ok());
//!     assert_eq!(future.get(), Ok(42));
//!     assert!(keeper.join().unwrap());
//! });
//! ```

use crate::Host;
use raddle_scheduler::sync::oneshot as generic;

pub use generic::GetError;

/// The duty to give a value.
pub type Promise<T> = generic::Promise<T, Host>;
/// The right to get it.
pub type Future<T> = generic::Future<T, Host>;

/// A promise and its future.
pub fn channel<T>() -> (Promise<T>, Future<T>) {
    generic::channel()
}
