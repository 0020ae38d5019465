//! Waiting for the first of several: messages of channels, and promises.
//!
//! A thread that waits has one wait, with one epoch. It publishes that in the list of each source and looks at each;
//! the first waker claims it, and the claims of the others fail as those of a wait that a time-out has ended. So each
//! source's own protocol holds, with one addition: the wake-up that was consumed may be of a source whose message the
//! thread does not take. Nobody knows which one it was, so a thread that was woken passes on a wake-up at every source
//! (`Parted::part`) before it chooses.
//!
//! Progress: that of the sources.
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::{channel, kernel_threads::KernelThreads, oneshot, select};
//! let (sender, receiver) = channel::bounded::<u32, KernelThreads>(4);
//! let (_promise, future) = oneshot::channel::<u32, KernelThreads>();
//! let sending = std::thread::spawn(move || sender.send(7).unwrap());
//! assert_eq!(select::wait(&[&receiver, &future]), Ok(0));
//! assert_eq!(receiver.try_recv(), Ok(7));
//! sending.join().unwrap();
//! ```

use super::{Patience, WaitError};
use crate::runtime::{Runtime, Waited, wait_until};
use crate::thread::{Epoch, Thread, Wake};
use core::time::Duration;
pub(super) use parted::Parted;
use raddle_machine::Machine;
use std::cell::Cell;

mod parted {
    use super::{Epoch, Runtime, Thread};

    /// What a source does for threads that wait for others besides. Nobody outside can name it.
    pub trait Parted<R: Runtime> {
        /// An operation would not wait (racy).
        fn is_ready(&self) -> bool;
        /// Publishes the calling thread's wait; false where there is no memory for it.
        fn publish(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) -> bool;
        /// The wait is over. `woken`: a wake-up was consumed, here or at another source.
        fn part(&self, woken: bool);
    }
}

/// What can be waited for together with others: a channel's receiver, and the future of a promise.
///
/// ```compile_fail
/// # use raddle_scheduler::sync::{kernel_threads::KernelThreads, select};
/// struct Mine;
/// impl select::Source<KernelThreads> for Mine {}
/// ```
pub trait Source<R: Runtime>: parted::Parted<R> {}

/// The place of one that is ready, if any is. Those behind the first have their turn too.
pub fn ready<R: Runtime>(sources: &[&dyn Source<R>]) -> Option<usize> {
    let start = R::Machine::now() as usize % sources.len().max(1);
    let places = (start..sources.len()).chain(0..start);
    places.into_iter().find(|&place| sources[place].is_ready())
}

/// Waits until an operation on one of them would not wait; its place. It may have to wait all the same, if another
/// thread comes first.
///
/// # Errors
/// If the thread was cancelled.
pub fn wait<R: Runtime>(sources: &[&dyn Source<R>]) -> Result<usize, WaitError> {
    until(sources, Patience::CANCELLABLE)
}

/// As [`wait`], at most so long.
///
/// # Errors
/// If the time-out passed or the thread was cancelled.
pub fn wait_timeout<R: Runtime>(sources: &[&dyn Source<R>], timeout: Duration) -> Result<usize, WaitError> {
    until(sources, Patience::timeout::<R::Machine>(timeout))
}

fn until<R: Runtime>(sources: &[&dyn Source<R>], patience: Patience) -> Result<usize, WaitError> {
    loop {
        if let Some(place) = ready(sources) {
            return Ok(place);
        }
        R::note_wait("the first of several", sources.as_ptr().addr(), None);
        let all = Cell::new(true);
        let publish = |thread, epoch| {
            // Each of them, though one has no memory for it: all are parted from below.
            let failed = sources.iter().filter(|source| !source.publish(thread, epoch)).count();
            all.set(failed == 0);
        };
        let look = || !all.get() || sources.iter().any(|source| source.is_ready());
        // SAFETY: the sources keep the record in their lists, whose wakers claim the epoch that they find.
        let waited = unsafe { wait_until::<R>(patience.deadline, patience.cancellable, publish, look) };
        let woken = matches!(waited, Waited::Woken(Wake::Signalled | Wake::Granted));
        sources.iter().for_each(|source| source.part(woken));
        match waited {
            Waited::Woken(Wake::TimedOut) => return ready(sources).ok_or(WaitError::TimedOut),
            Waited::Woken(Wake::Cancelled) => return Err(WaitError::Cancelled),
            // No memory for a node: wait by asking again, at the price of the processor's time.
            Waited::Retry if !all.get() => R::yield_now(),
            _ => {}
        }
    }
}
