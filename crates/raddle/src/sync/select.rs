//! Waiting for the first of several: [`select!`](crate::select), and what it is made of.
//!
//! ```
//! use raddle::sync::{channel, oneshot};
//! use std::time::Duration;
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let (orders, to_do) = channel::bounded::<u32>(4);
//!     let (stop, stopped) = oneshot::channel::<()>();
//!     let worker = raddle::spawn(move || {
//!         let mut sum = 0;
//!         loop {
//!             let order = raddle::select! {
//!                 recv(to_do) -> order => order.unwrap(),
//!                 get(stopped) -> _ => break sum,
//!                 default(Duration::from_secs(60)) => panic!("nothing came for a minute"),
//!             };
//!             sum += order;
//!             if sum == 55 {
//!                 break sum;
//!             }
//!         }
//!     });
//!     (1..=10).for_each(|order| orders.send(order).unwrap());
//!     assert_eq!(worker.join().unwrap(), 55);
//!     drop(stop);
//! });
//! ```
//!
//! A list whose length is not known beforehand is waited for by [`wait`]:
//!
//! ```
//! use raddle::sync::{channel, select};
//! let pool = raddle::Builder::new().processors(2).build().unwrap();
//! pool.run(|| {
//!     let (senders, receivers): (Vec<_>, Vec<_>) = (0..10).map(|_| channel::unbounded::<usize>()).unzip();
//!     raddle::spawn(move || senders[7].send(42));
//!     let sources: Vec<&dyn select::Source> = receivers[..8].iter().map(|receiver| receiver as _).collect();
//!     let place = select::wait(&sources).unwrap();
//!     // The others' senders go with the thread, so those are ready, too: they will never have a message.
//!     assert!(place == 7 || receivers[place].recv().is_err());
//! });
//! ```

use super::WaitError;
use crate::Host;
use raddle_scheduler::sync::select as generic;
use std::time::{Duration, Instant};

/// What can be waited for together with others: a channel's receiver, and the future of a promise.
pub trait Source: generic::Source<Host> {}
impl<S: generic::Source<Host>> Source for S {}

fn of_host<'b>(sources: &[&'b dyn Source]) -> Vec<&'b dyn generic::Source<Host>> {
    sources.iter().map(|source| *source as &dyn generic::Source<Host>).collect()
}

/// The place of one that is ready, if any is.
pub fn ready(sources: &[&dyn Source]) -> Option<usize> {
    generic::ready(&of_host(sources))
}

/// Waits until an operation on one of them would not wait; its place. The operation is then tried, since another thread
/// may come first.
///
/// # Errors
/// If the thread was cancelled.
pub fn wait(sources: &[&dyn Source]) -> Result<usize, WaitError> {
    generic::wait(&of_host(sources))
}

/// As [`wait`], at most so long.
///
/// # Errors
/// If the time-out passed or the thread was cancelled.
pub fn wait_timeout(sources: &[&dyn Source], timeout: Duration) -> Result<usize, WaitError> {
    generic::wait_timeout(&of_host(sources), timeout)
}

/// How long `select!` waits.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Patience {
    Always,
    Until(Instant),
    Not,
}

impl Patience {
    #[doc(hidden)]
    pub fn of(timeout: Duration) -> Self {
        Instant::now().checked_add(timeout).map_or(Self::Always, Self::Until)
    }

    /// One of the sources, or none: the time is over. An error: the thread was cancelled.
    #[doc(hidden)]
    pub fn wait(self, sources: &[&dyn generic::Source<Host>]) -> Result<Option<usize>, WaitError> {
        let found = match self {
            Self::Not => return Ok(generic::ready(sources)),
            Self::Always => generic::wait(sources),
            Self::Until(end) => generic::wait_timeout(sources, end.saturating_duration_since(Instant::now())),
        };
        match found {
            Err(WaitError::TimedOut) => Ok(None),
            found => found.map(Some),
        }
    }
}

/// Waits for the first of several, and runs what is written for it.
///
/// - `recv(receiver) -> message => …` when a message is there (`Ok`), or there will never be one (`Err`);
/// - `get(future) -> value => …` when a promise was kept or broken; this takes the future;
/// - `default(timeout) => …` when nothing came for so long, `default => …` when nothing is there now.
///
/// The branches have one type, which is that of the whole. Where several are ready, each has its turn. When the thread
/// is cancelled, the first branch gets that as its error. No branch sends: `try_send`, or a thread of its own, does
/// that beside. Async code waits for several by its executor's means, over [`future`](crate::future)'s waits. An
/// example: [`sync::select`](crate::sync::select).
///
/// ```
/// use raddle::sync::channel;
/// let (sender, receiver) = channel::bounded(1);
/// let look = || {
///     raddle::select! {
///         recv(receiver) -> message => message.ok(),
///         default => None,
///     }
/// };
/// assert_eq!(look(), None);
/// sender.send(7).unwrap();
/// assert_eq!(look(), Some(7));
/// ```
///
/// A lock is no source, and a value is taken once:
/// ```compile_fail
/// let lock = raddle::sync::Mutex::new(());
/// raddle::select! { recv(lock) -> _guard => () }
/// ```
/// ```compile_fail
/// let (_promise, future) = raddle::sync::oneshot::channel::<u32>();
/// raddle::select! { get(future) -> _value => () }
/// raddle::select! { get(future) -> _value => () }
/// ```
#[macro_export]
macro_rules! select {
    ($($branches:tt)+) => { $crate::__select!(@read [] $($branches)+) };
}

/// The steps of [`select!`](crate::select): each branch gets names of its own, then all are waited for, then the one
/// that came is run.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@read [$($read:tt)*]) => { $crate::__select!(@wait [$($read)*] ($crate::sync::select::Patience::Always) (unreachable!("a branch was chosen"))) };
    (@read [$($read:tt)*] recv($from:expr) -> $to:pat => $body:block , $($rest:tt)*) => {
        $crate::__select!(@read [$($read)* (recv source slot ($from) ($to) ($body))] $($rest)*)
    };
    (@read [$($read:tt)*] recv($from:expr) -> $to:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@read [$($read)* (recv source slot ($from) ($to) ($body))] $($rest)*)
    };
    (@read [$($read:tt)*] recv($from:expr) -> $to:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@read [$($read)* (recv source slot ($from) ($to) ($body))] $($($rest)*)?)
    };
    (@read [$($read:tt)*] get($from:expr) -> $to:pat => $body:block , $($rest:tt)*) => {
        $crate::__select!(@read [$($read)* (get source slot ($from) ($to) ($body))] $($rest)*)
    };
    (@read [$($read:tt)*] get($from:expr) -> $to:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@read [$($read)* (get source slot ($from) ($to) ($body))] $($rest)*)
    };
    (@read [$($read:tt)*] get($from:expr) -> $to:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@read [$($read)* (get source slot ($from) ($to) ($body))] $($($rest)*)?)
    };
    (@read [$($read:tt)*] default($timeout:expr) => $body:expr $(,)?) => {
        $crate::__select!(@wait [$($read)*] ($crate::sync::select::Patience::of($timeout)) ($body))
    };
    (@read [$($read:tt)*] default => $body:expr $(,)?) => {
        $crate::__select!(@wait [$($read)*] ($crate::sync::select::Patience::Not) ($body))
    };
    (@wait [$(($kind:ident $source:ident $slot:ident ($from:expr) ($to:pat) ($body:expr)))+] ($patience:expr) ($otherwise:expr)) => {{
        $(let mut $slot = None;)+
        let patience = $patience;
        {
            $(let $source = &$from;)+
            loop {
                let found = patience.wait(&[$($source),+]);
                let Some(place) = found.unwrap_or(Some(0)) else { break };
                let (mut here, mut taken) = (0, false);
                $(
                    if here == place {
                        $slot = $crate::__select!(@take $kind $source found);
                        taken = $slot.is_some();
                    }
                    here += 1;
                )+
                let _ = here;
                if taken {
                    break;
                }
            }
        }
        $crate::__select!(@run [$(($kind $slot ($from) ($to) ($body)))+] ($otherwise))
    }};
    (@take recv $source:ident $found:ident) => {
        match $source.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err($crate::sync::channel::TryRecvError::Disconnected) => Some(Err($crate::sync::channel::RecvError::Disconnected)),
            Err(_) if $found.is_err() => Some(Err($crate::sync::channel::RecvError::Cancelled)),
            // Another thread came first.
            Err(_) => None,
        }
    };
    (@take get $source:ident $found:ident) => { Some(()) };
    (@run [] ($otherwise:expr)) => { $otherwise };
    (@run [(recv $slot:ident ($from:expr) ($to:pat) ($body:expr)) $($rest:tt)*] ($otherwise:expr)) => {
        if let Some(message) = $slot {
            let $to = message;
            $body
        } else {
            $crate::__select!(@run [$($rest)*] ($otherwise))
        }
    };
    (@run [(get $slot:ident ($from:expr) ($to:pat) ($body:expr)) $($rest:tt)*] ($otherwise:expr)) => {
        if let Some(()) = $slot {
            let $to = $from.get();
            $body
        } else {
            $crate::__select!(@run [$($rest)*] ($otherwise))
        }
    };
}
