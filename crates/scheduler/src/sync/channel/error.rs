//! What can go wrong in a channel.

use std::error::Error;
use std::fmt;

/// The message was not sent: there is no receiver any more, or the thread was cancelled while it waited for room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// The message was not sent at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room.
    Full(T),
    /// There is no receiver any more.
    Disconnected(T),
}

/// The message was not sent in time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// There was no room.
    Timeout(T),
    /// There is no receiver any more.
    Disconnected(T),
    /// The thread was cancelled.
    Cancelled(T),
}

/// No message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The channel is empty and there is no sender any more.
    Disconnected,
    /// The thread was cancelled while it waited.
    Cancelled,
}

/// No message was received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The channel is empty.
    Empty,
    /// The channel is empty and there is no sender any more.
    Disconnected,
}

/// No message was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The channel is empty.
    Timeout,
    /// The channel is empty and there is no sender any more.
    Disconnected,
    /// The thread was cancelled while it waited.
    Cancelled,
}

const NO_RECEIVER: &str = "sending into a channel that has no receiver";
const NO_SENDER: &str = "receiving from an empty channel that has no sender";

impl<T> TrySendError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(value) | TrySendError::Disconnected(value) => value,
        }
    }
}

impl<T> SendTimeoutError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(value)
            | SendTimeoutError::Disconnected(value)
            | SendTimeoutError::Cancelled(value) => value,
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
            SendTimeoutError::Cancelled(_) => "Cancelled(..)",
        })
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sending into a channel that has no receiver, or cancelled")
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "sending into a full channel",
            TrySendError::Disconnected(_) => NO_RECEIVER,
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "the channel was full for too long",
            SendTimeoutError::Disconnected(_) => NO_RECEIVER,
            SendTimeoutError::Cancelled(_) => "the send was cancelled",
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Disconnected => NO_SENDER,
            RecvError::Cancelled => "the receive was cancelled",
        })
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "receiving from an empty channel",
            TryRecvError::Disconnected => NO_SENDER,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout => "no message came in time",
            RecvTimeoutError::Disconnected => NO_SENDER,
            RecvTimeoutError::Cancelled => "the receive was cancelled",
        })
    }
}

impl<T> Error for SendError<T> {}
impl<T> Error for TrySendError<T> {}
impl<T> Error for SendTimeoutError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}
