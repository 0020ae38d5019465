//! What the processors of a ring share: queues of one producer and one consumer, and numbers that one states.

use super::token;
use crate::ready::Ready;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::Full;
use raddle_queues::pad::Padded;
use raddle_queues::spsc::{self, Spsc};
use std::sync::Arc;

/// The end of a Waiver queue at which its processor adds.
pub struct WaiverIn<M: Machine>(spsc::Producer<M>);

/// The end of a Waiver queue at which the next processor of the ring takes.
pub struct WaiverOut<M: Machine>(spsc::Consumer<M>);

/// What anybody may know of a Waiver queue.
pub struct WaiverView<M: Machine>(Arc<Spsc<M>>);

impl<M: Machine> WaiverView<M> {
    /// True if there is nothing to take now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A Waiver queue: one processor adds, one takes, neither with a read-modify-write.
pub fn waiver<M: Machine>() -> Result<(WaiverIn<M>, WaiverOut<M>), Full> {
    let (producer, consumer) = Spsc::new()?;
    Ok((WaiverIn(producer), WaiverOut(consumer)))
}

impl<M: Machine> WaiverIn<M> {
    /// Appends. Gives the token back when memory runs out.
    #[inline]
    pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        let word = thread.into_word();
        self.0.push(word).map_err(|Full| token(word))
    }

    /// For those who are at neither end.
    pub fn view(&self) -> WaiverView<M> {
        WaiverView(self.0.queue().clone())
    }

    /// How many threads the other end has not taken yet (racy, never less).
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.queue().len()
    }

    /// True if the other end has taken everything (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<M: Machine> WaiverOut<M> {
    /// True if there is nothing to take now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.queue().is_empty()
    }

    /// The oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready<M>> {
        self.0.pop().map(token)
    }

    /// Takes all that is here at the beginning, oldest first.
    #[inline]
    pub fn take_all(&mut self, mut give: impl FnMut(Ready<M>)) {
        self.0.take_all(|word| give(token(word)));
    }
}

impl<M: Machine> Drop for WaiverOut<M> {
    fn drop(&mut self) {
        self.take_all(drop);
    }
}

/// A number that one processor states and all read: no read-modify-write, and a reader may see an older one.
pub struct Gauge<M: Machine>(Padded<M::Atomic<u64>>);

impl<M: Machine> Default for Gauge<M> {
    fn default() -> Self {
        Self(Padded(M::Atomic::new(0)))
    }
}

impl<M: Machine> Gauge<M> {
    /// States the number; only its processor does.
    #[inline]
    pub fn set(&self, value: u64) {
        // Relaxed: single writer, an estimate for the readers.
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number as last seen.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed)
    }
}
