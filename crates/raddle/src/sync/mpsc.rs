//! std's names for channels: `use raddle::sync::mpsc` stands in the place of `use std::sync::mpsc`.
//!
//! They are those of [`super::channel`], so receivers may be cloned, too, and each wait has a form with a time-out.
//!
//! ```
//! use raddle::sync::mpsc;
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let (sender, receiver) = mpsc::sync_channel(2);
//!     raddle::spawn(move || (1..=10).for_each(|i| sender.send(i).unwrap()));
//!     let mut sum = 0;
//!     for i in &receiver {
//!         sum += i;
//!     }
//!     assert_eq!(sum, 55);
//! });
//! ```

use super::channel;
pub use super::channel::{
    IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, SendError, Sender, TryRecvError, TrySendError,
};

/// No message was received, since there is no sender any more: std's name for the value. (A wait that is cancelled ends
/// with [`RecvError::Cancelled`].)
#[expect(non_upper_case_globals, reason = "in std it is a struct without fields, whose value has the type's name")]
pub const RecvError: RecvError = RecvError::Disconnected;

/// A sender of [`sync_channel`].
pub type SyncSender<T> = Sender<T>;

/// A channel whose senders never wait.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    channel::unbounded()
}

/// A channel that holds at most `bound` messages; 0 makes senders wait for their receiver.
///
/// # Panics
/// If `bound` is above [`channel::MAX_CAPACITY`].
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    channel::bounded(bound)
}
