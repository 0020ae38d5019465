//! Channels: any number of senders and receivers, bounded or not.
//!
//! std's shapes, with receivers that can be cloned, time-outs, and cancellation: a receive that ends because the
//! calling thread was cancelled says so in its error. A message is received by one receiver; messages of one sender
//! arrive in order.
//!
//! Who owes a wake-up: a sender that has added a message wakes one receiver, a receiver that has made room wakes one
//! sender, unless one is on its way already, which then wakes the next (see `gate.rs`); whoever drops the last handle
//! of one side wakes all of the other. So each message finds a receiver that will look after it was added; a woken
//! receiver tries before it gives up, and fails only because somebody else took the message. So no wait that ends early
//! loses a message: none is handed to a waiter.
//!
//! Nobody waits for the message, or the place, that a kernel thread holds which stands still inside an operation. It
//! may also hold one thread that it was about to wake, or has woken, and delays those that rely on that one's coming.
//!
//! A channel of capacity 0 is a rendezvous: a send returns when its message has been received.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `channel.end` | the last handle of a side is dropped | the other side sees the count at 0 |
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::{channel, kernel_threads::KernelThreads};
//! let (sender, receiver) = channel::bounded::<u32, KernelThreads>(4);
//! let producer = std::thread::spawn(move || (0..10).try_for_each(|i| sender.send(i)).unwrap());
//! assert_eq!(receiver.iter().sum::<u32>(), 45);
//! producer.join().unwrap();
//! ```

mod bounded;
mod error;
mod gate;
mod index_ring;
mod single;
mod unbounded;

pub use error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};

use super::select::{Parted, Source};
use super::{Patience, WaitError};
use crate::runtime::Runtime;
use crate::thread::{Epoch, Thread};
use core::time::Duration;
use gate::Gate;
use raddle_machine::{Atomic, Machine, Ordering};
use std::fmt;
use std::sync::Arc;

/// The largest capacity of a bounded channel.
pub const MAX_CAPACITY: usize = 1 << 30;

enum Queue<T, M: Machine> {
    /// One place.
    Single(single::Single<T, M>),
    /// One place, and the sender stays until it is empty again.
    Rendezvous(single::Single<T, M>),
    /// Several places.
    Bounded(bounded::Buffer<T, M>),
    Unbounded(unbounded::List<T, M>),
}

struct Shared<T, R: Runtime> {
    queue: Queue<T, R::Machine>,
    /// Threads that wait for a message.
    receiving: Gate<R>,
    /// Threads that wait for room, or for their message to be received (rendezvous).
    sending: Gate<R>,
    senders: <R::Machine as Machine>::Atomic<usize>,
    receivers: <R::Machine as Machine>::Atomic<usize>,
}

/// Why a wait in a channel ended without success.
enum Failed {
    Disconnected,
    Wait(WaitError),
}

impl<T, R: Runtime> Shared<T, R> {
    fn create(queue: Queue<T, R::Machine>) -> (Sender<T, R>, Receiver<T, R>) {
        let shared = Arc::new(Self {
            queue,
            receiving: Gate::default(),
            sending: Gate::default(),
            senders: <R::Machine as Machine>::Atomic::new(1),
            receivers: <R::Machine as Machine>::Atomic::new(1),
        });
        (Sender { shared: shared.clone() }, Receiver { shared })
    }

    #[inline]
    fn no_receivers(&self) -> bool {
        // Relaxed: it makes nothing visible; who waits for it has a fence before (wait.look).
        self.receivers.load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn no_senders(&self) -> bool {
        // Ordering[channel.end]: Acquire. Pairs with the drop of the last sender. Makes visible: all messages.
        self.senders.load(Ordering::Acquire) == 0
    }

    /// Adds a message if there is room; its position. The receiver is not woken yet.
    #[inline]
    fn push(&self, value: T) -> Result<u64, T> {
        match &self.queue {
            Queue::Single(single) | Queue::Rendezvous(single) => single.push(value),
            _ => self.push_beside_others(value),
        }
    }

    /// [`Shared::push`] of a queue with several places: a call of its own, so that one with a single place saves no
    /// registers.
    #[inline(never)]
    fn push_beside_others(&self, value: T) -> Result<u64, T> {
        match &self.queue {
            Queue::Single(single) | Queue::Rendezvous(single) => single.push(value),
            Queue::Bounded(buffer) => buffer.push(value).map(|()| 0),
            Queue::Unbounded(list) => {
                list.push(value);
                Ok(0)
            }
        }
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        let Queue::Single(single) = &self.queue else { return self.pop_beside_others() };
        let value = single.pop()?;
        self.wake_sender();
        Some(value)
    }

    /// [`Shared::pop`] of all other queues: a call of its own, as for a push.
    #[inline(never)]
    fn pop_beside_others(&self) -> Option<T> {
        let value = match &self.queue {
            Queue::Single(single) => single.pop()?,
            Queue::Bounded(buffer) => buffer.pop()?,
            Queue::Rendezvous(single) => {
                let value = single.pop()?;
                self.wake_senders();
                return Some(value);
            }
            Queue::Unbounded(list) => return list.pop(),
        };
        self.wake_sender();
        Some(value)
    }

    /// After room was made.
    #[inline(always)]
    fn wake_sender(&self) {
        if self.sending.wake_one() {
            self.call_both();
        }
    }

    /// After a message was added.
    #[inline(always)]
    fn wake_receiver(&self) {
        if self.receiving.wake_one() {
            self.call_both();
        }
    }

    /// In a rendezvous both the sender of the message taken and those that wait for room look.
    fn wake_senders(&self) {
        R::Machine::light_fence();
        self.sending.waiters().queue().wake_all();
    }

    /// Wakes a receiver if there is something for it; see [`Gate::wake_one`].
    fn call_receiver(&self) -> bool {
        !self.is_empty() && self.receiving.wake_one()
    }

    /// Wakes a sender if there is room; see [`Gate::wake_one`]. In a rendezvous whoever makes room wakes all.
    fn call_sender(&self) -> bool {
        matches!(self.queue, Queue::Single(_) | Queue::Bounded(_)) && !self.is_full() && self.sending.wake_one()
    }

    /// Looks at both sides, for those who relied on a thread that does not come.
    #[cold]
    #[inline(never)]
    fn call_both(&self) {
        while self.call_receiver() | self.call_sender() {}
    }

    /// A sender that others relied upon is through, or about to wait again: it looks at both sides ([`gate`], I2).
    fn pass_on_from_sender(&self) {
        if self.call_receiver() | (!self.receiving.is_coming() && self.call_sender()) {
            self.call_both();
        }
    }

    /// A receiver that others relied upon is through, or about to wait again: it looks at both sides ([`gate`], I2).
    fn pass_on_from_receiver(&self) {
        if self.call_sender() | (!self.sending.is_coming() && self.call_receiver()) {
            self.call_both();
        }
    }

    fn is_empty(&self) -> bool {
        match &self.queue {
            Queue::Single(single) | Queue::Rendezvous(single) => single.is_empty(),
            Queue::Bounded(buffer) => buffer.is_empty(),
            Queue::Unbounded(list) => list.is_empty(),
        }
    }

    fn is_full(&self) -> bool {
        match &self.queue {
            Queue::Single(single) | Queue::Rendezvous(single) => single.is_full(),
            Queue::Bounded(buffer) => buffer.is_full(),
            Queue::Unbounded(_) => false,
        }
    }

    #[inline]
    fn send(&self, value: T, patience: impl FnOnce() -> Patience) -> Result<(), (T, Failed)> {
        if self.no_receivers() {
            return Err((value, Failed::Disconnected));
        }
        match self.push(value) {
            Ok(position) => {
                self.wake_receiver();
                match &self.queue {
                    Queue::Rendezvous(single) => self.stay(single, position, patience()),
                    _ => Ok(()),
                }
            }
            Err(value) => self.send_slow(value, patience()),
        }
    }

    #[cold]
    fn send_slow(&self, mut value: T, patience: Patience) -> Result<(), (T, Failed)> {
        let (mut yielded, mut expected) = (self.sending.waiters().yield_first(), false);
        // As for a receiver.
        let mut looks = yielded;
        loop {
            if std::mem::replace(&mut looks, true) {
                if self.no_receivers() {
                    return Err((value, Failed::Disconnected));
                }
                match self.push(value) {
                    Ok(position) => {
                        match expected {
                            true => self.pass_on_from_sender(),
                            false => self.wake_receiver(),
                        }
                        return match &self.queue {
                            Queue::Rendezvous(single) => self.stay(single, position, patience),
                            _ => Ok(()),
                        };
                    }
                    Err(back) => value = back,
                }
                if std::mem::take(&mut expected) {
                    self.pass_on_from_sender();
                }
                if yielded {
                    self.sending.waiters().yield_was_lost();
                } else if self.sending.waiters().yield_first() {
                    yielded = true;
                    continue;
                }
            }
            R::note_wait("room in a channel", std::ptr::from_ref(self).addr(), None);
            match self.sending.wait(patience, || !self.is_full() || self.no_receivers()) {
                Ok(relied_upon) => expected = relied_upon,
                Err(error) => return Err((value, Failed::Wait(error))),
            }
        }
    }

    /// The second half of a rendezvous: until the message at `position` has been received, or is taken back.
    #[cold]
    fn stay(
        &self,
        single: &single::Single<T, R::Machine>,
        position: u64,
        patience: Patience,
    ) -> Result<(), (T, Failed)> {
        loop {
            if single.is_taken(position) {
                return Ok(());
            }
            let failed = if self.no_receivers() {
                Failed::Disconnected
            } else {
                R::note_wait("room in a channel", std::ptr::from_ref(self).addr(), None);
                match self.sending.waiters().wait(patience, || single.is_taken(position) || self.no_receivers()) {
                    Ok(_) => continue,
                    Err(error) => Failed::Wait(error),
                }
            };
            return match self.withdraw(single, position) {
                Some(value) => Err((value, failed)),
                None => Ok(()),
            };
        }
    }

    fn withdraw(&self, single: &single::Single<T, R::Machine>, position: u64) -> Option<T> {
        let value = single.withdraw(position)?;
        self.wake_senders();
        Some(value)
    }

    #[inline]
    fn recv(&self, patience: impl FnOnce() -> Patience) -> Result<T, Failed> {
        match self.pop() {
            Some(value) => Ok(value),
            None => self.recv_slow(patience()),
        }
    }

    #[cold]
    fn recv_slow(&self, patience: Patience) -> Result<T, Failed> {
        let over = self.no_senders();
        let (mut yielded, mut expected) = (!over && self.receiving.waiters().yield_first(), false);
        // The caller has looked just now; without a yield the next look is that of the wait.
        let mut looks = yielded || over;
        loop {
            if std::mem::replace(&mut looks, true) {
                if let Some(value) = self.pop() {
                    if expected {
                        self.pass_on_from_receiver();
                    }
                    return Ok(value);
                }
                if self.no_senders() {
                    // What was sent before the last sender went is visible now.
                    return self.pop().ok_or(Failed::Disconnected);
                }
                if std::mem::take(&mut expected) {
                    self.pass_on_from_receiver();
                }
                if yielded {
                    self.receiving.waiters().yield_was_lost();
                } else if self.receiving.waiters().yield_first() {
                    yielded = true;
                    continue;
                }
            }
            R::note_wait("a message from a channel", std::ptr::from_ref(self).addr(), None);
            expected = self.receiving.wait(patience, || !self.is_empty() || self.no_senders()).map_err(Failed::Wait)?;
        }
    }
}

/// A channel that holds at most `capacity` messages; 0 makes senders wait for their receiver.
///
/// # Panics
/// If `capacity` is above [`MAX_CAPACITY`].
pub fn bounded<T, R: Runtime>(capacity: usize) -> (Sender<T, R>, Receiver<T, R>) {
    assert!(capacity <= MAX_CAPACITY, "a channel of {capacity} messages: at most {MAX_CAPACITY} are possible");
    Shared::create(match capacity {
        0 => Queue::Rendezvous(single::Single::new()),
        1 => Queue::Single(single::Single::new()),
        _ => Queue::Bounded(bounded::Buffer::new(capacity)),
    })
}

/// A channel whose senders never wait. What a burst of messages took is freed with the channel.
pub fn unbounded<T, R: Runtime>() -> (Sender<T, R>, Receiver<T, R>) {
    Shared::create(Queue::Unbounded(unbounded::List::new()))
}

/// The sending side. Clones send into the same channel.
pub struct Sender<T, R: Runtime> {
    shared: Arc<Shared<T, R>>,
}

/// The receiving side. Clones take messages from the same channel.
pub struct Receiver<T, R: Runtime> {
    shared: Arc<Shared<T, R>>,
}

impl<T, R: Runtime> Sender<T, R> {
    /// Sends, waiting for room. In an unbounded channel it never waits.
    ///
    /// # Errors
    /// With the message, if there is no receiver any more or the thread was cancelled while it waited.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.shared.send(value, || Patience::CANCELLABLE).map_err(|(value, _)| SendError(value))
    }

    /// Sends if there is room (a rendezvous: if a receiver waits).
    ///
    /// # Errors
    /// With the message, if there is no room or no receiver any more.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let shared = &*self.shared;
        if shared.no_receivers() {
            return Err(TrySendError::Disconnected(value));
        }
        let position = shared.push(value).map_err(TrySendError::Full)?;
        let Queue::Rendezvous(single) = &shared.queue else {
            shared.wake_receiver();
            return Ok(());
        };
        R::Machine::light_fence();
        if shared.receiving.waiters().queue().wake_one() {
            return Ok(());
        }
        shared.withdraw(single, position).map_or(Ok(()), |value| Err(TrySendError::Full(value)))
    }

    /// Sends, waiting for room at most so long.
    ///
    /// # Errors
    /// With the message, if it was not sent.
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        let sending = self.shared.send(value, || Patience::timeout::<R::Machine>(timeout));
        sending.map_err(|(value, failed)| match failed {
            Failed::Disconnected => SendTimeoutError::Disconnected(value),
            Failed::Wait(WaitError::TimedOut) => SendTimeoutError::Timeout(value),
            Failed::Wait(WaitError::Cancelled) => SendTimeoutError::Cancelled(value),
        })
    }
}

impl<T, R: Runtime> Parted<R> for Receiver<T, R> {
    fn is_ready(&self) -> bool {
        !self.shared.is_empty() || self.shared.no_senders()
    }

    fn publish(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) -> bool {
        self.shared.receiving.waiters().publish(thread, epoch)
    }

    fn part(&self, woken: bool) {
        self.shared.receiving.waiters().abandon();
        if woken {
            // The wake-up may have been this channel's, and another source is taken: it is passed on.
            self.shared.receiving.part();
            self.shared.call_both();
        }
    }
}

impl<T, R: Runtime> Source<R> for Receiver<T, R> {}

impl<T, R: Runtime> Receiver<T, R> {
    /// Receives, waiting for a message.
    ///
    /// # Errors
    /// If the channel is empty and has no sender any more, or if the thread was cancelled.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.shared.recv(|| Patience::CANCELLABLE).map_err(|failed| match failed {
            Failed::Wait(WaitError::Cancelled) => RecvError::Cancelled,
            _ => RecvError::Disconnected,
        })
    }

    /// Receives if a message is there.
    ///
    /// # Errors
    /// If none is, or there will never be one.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        if let Some(value) = self.shared.pop() {
            return Ok(value);
        }
        if self.shared.no_senders() {
            return self.shared.pop().ok_or(TryRecvError::Disconnected);
        }
        Err(TryRecvError::Empty)
    }

    /// Receives, waiting for a message at most so long.
    ///
    /// # Errors
    /// If none came.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.shared.recv(|| Patience::timeout::<R::Machine>(timeout)).map_err(|failed| match failed {
            Failed::Disconnected => RecvTimeoutError::Disconnected,
            Failed::Wait(WaitError::TimedOut) => RecvTimeoutError::Timeout,
            Failed::Wait(WaitError::Cancelled) => RecvTimeoutError::Cancelled,
        })
    }

    /// Receives, waiting for a message at most until then.
    ///
    /// # Errors
    /// If none came.
    pub fn recv_deadline(&self, deadline: raddle_machine::Deadline) -> Result<T, RecvTimeoutError> {
        self.recv_timeout(raddle_machine::left_until(deadline))
    }

    /// Messages until the channel has no sender any more (or the thread is cancelled), waiting for each.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// The messages that are there, without waiting.
    pub fn try_iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    /// True when no message is there (racy).
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// How many messages are there (racy); `None` for an unbounded channel, which does not count.
    pub fn len(&self) -> Option<usize> {
        match &self.shared.queue {
            Queue::Bounded(buffer) => Some(buffer.len()),
            Queue::Single(single) => Some(usize::from(!single.is_empty())),
            Queue::Rendezvous(_) => Some(0),
            Queue::Unbounded(_) => None,
        }
    }

    /// How many messages the channel can hold.
    pub fn capacity(&self) -> Option<usize> {
        match &self.shared.queue {
            Queue::Bounded(buffer) => Some(buffer.capacity()),
            Queue::Single(_) => Some(1),
            Queue::Rendezvous(_) => Some(0),
            Queue::Unbounded(_) => None,
        }
    }
}

/// The iterator of a receiver that stays.
pub struct Iter<'a, T, R: Runtime>(&'a Receiver<T, R>);

impl<T, R: Runtime> Iterator for Iter<'_, T, R> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<'a, T, R: Runtime> IntoIterator for &'a Receiver<T, R> {
    type Item = T;
    type IntoIter = Iter<'a, T, R>;
    fn into_iter(self) -> Iter<'a, T, R> {
        Iter(self)
    }
}

/// The iterator of a receiver that is consumed.
pub struct IntoIter<T, R: Runtime>(Receiver<T, R>);

impl<T, R: Runtime> Iterator for IntoIter<T, R> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T, R: Runtime> IntoIterator for Receiver<T, R> {
    type Item = T;
    type IntoIter = IntoIter<T, R>;
    fn into_iter(self) -> IntoIter<T, R> {
        IntoIter(self)
    }
}

impl<T, R: Runtime> Clone for Sender<T, R> {
    fn clone(&self) -> Self {
        // Counter only: this handle keeps it above 0.
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T, R: Runtime> Clone for Receiver<T, R> {
    fn clone(&self) -> Self {
        // Counter only: this handle keeps it above 0.
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone() }
    }
}

impl<T, R: Runtime> Drop for Sender<T, R> {
    fn drop(&mut self) {
        // Ordering[channel.end]: SeqCst. Pairs with `no_senders`. Makes visible: all messages. SeqCst: see
        // [`Gate::wake_one`].
        if self.shared.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            R::Machine::light_fence();
            self.shared.receiving.waiters().queue().wake_all();
        }
    }
}

impl<T, R: Runtime> Drop for Receiver<T, R> {
    fn drop(&mut self) {
        // Ordering[channel.end]: SeqCst. Pairs with `no_receivers`. Makes visible: nothing. SeqCst: see
        // [`Gate::wake_one`].
        if self.shared.receivers.fetch_sub(1, Ordering::SeqCst) == 1 {
            R::Machine::light_fence();
            self.shared.sending.waiters().queue().wake_all();
            if !matches!(self.shared.queue, Queue::Rendezvous(_)) {
                // Nobody will read them; a sender that has just looked may still add one, which is dropped with the
                // channel.
                while self.shared.pop().is_some() {}
            }
        }
    }
}

impl<T, R: Runtime> fmt::Debug for Sender<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T, R: Runtime> fmt::Debug for Receiver<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
