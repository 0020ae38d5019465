//! Channels with any number of senders and receivers: [`raddle_scheduler::sync::channel`].
//!
//! ```
//! use raddle::sync::channel;
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let (sender, receiver) = channel::bounded(4);
//!     let producer = raddle::spawn(move || (0..10u32).try_for_each(|i| sender.send(i)).is_ok());
//!     assert_eq!(receiver.iter().sum::<u32>(), 45);
//!     assert!(producer.join().unwrap());
//! });
//! ```

use crate::Host;
use raddle_scheduler::sync::channel as generic;

pub use generic::{MAX_CAPACITY, RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};

/// The sending side. Clones send into the same channel.
pub type Sender<T> = generic::Sender<T, Host>;
/// The receiving side. Clones take messages from the same channel.
pub type Receiver<T> = generic::Receiver<T, Host>;
/// The iterator of a receiver that stays.
pub type Iter<'a, T> = generic::Iter<'a, T, Host>;
/// The iterator of a receiver that is consumed.
pub type IntoIter<T> = generic::IntoIter<T, Host>;

/// A channel that holds at most `capacity` messages; 0 makes senders wait for their receiver.
///
/// # Panics
/// If `capacity` is above [`MAX_CAPACITY`].
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    generic::bounded(capacity)
}

/// A channel whose senders never wait.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    generic::unbounded()
}
