//! A bounded queue for all processors: [`raddle_queues::tickets`] for the order, a slab for what its numbers name.

use super::token;
use crate::ready::Ready;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::Full;
use raddle_queues::slab::{Cache, Slab};
use raddle_queues::tickets;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a number names: a place for a token.
struct TokenPlace<M: Machine>(M::Atomic<usize>);

/// A bounded first-in first-out queue for all processors, without nodes or hazard pointers: by fetch-and-add and
/// compare-and-exchange.
pub struct Tickets<M: Machine> {
    queue: tickets::Tickets<M>,
    places: Arc<Slab<TokenPlace<M>, M>>,
}

impl<M: Machine> Tickets<M> {
    /// A queue for so many threads, rounded up to a power of two.
    pub fn new(capacity: usize) -> Result<Arc<Self>, Full> {
        let places = Slab::new(|_| TokenPlace(M::Atomic::new(0)));
        Ok(Arc::new(Self { queue: tickets::Tickets::new(capacity)?, places }))
    }

    /// An end of it; there may be any number.
    pub fn end(self: &Arc<Self>) -> TicketsEnd<M> {
        TicketsEnd { cache: self.places.cache(), queue: self.clone() }
    }

    /// True if it is empty now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn take(&self) -> Option<(Ready<M>, NonNull<TokenPlace<M>>)> {
        let place = self.places.at(self.queue.dequeue()?).expect("queued numbers have places");
        // SAFETY: places live as long as the slab. Relaxed: acquired with the number.
        let word = unsafe { place.as_ref() }.0.load(Ordering::Relaxed);
        Some((token(word), place))
    }
}

impl<M: Machine> Drop for Tickets<M> {
    fn drop(&mut self) {
        while let Some((thread, _)) = self.take() {
            drop(thread);
        }
    }
}

/// One processor's access to [`Tickets`].
pub struct TicketsEnd<M: Machine> {
    cache: Cache<TokenPlace<M>, M>,
    queue: Arc<Tickets<M>>,
}

impl<M: Machine> TicketsEnd<M> {
    /// Appends. Gives the token back when there is no room or no memory, or when the tickets drawn turned out void.
    #[inline]
    pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        let Ok(place) = self.cache.allocate() else { return Err(thread) };
        // SAFETY: allocated, so in nobody else's hands; of this slab.
        let (word, number) = unsafe { (&place.as_ref().0, self.queue.places.index_of(place)) };
        // Relaxed: published with the number.
        word.store(thread.into_word(), Ordering::Relaxed);
        self.queue.queue.enqueue(number).map_err(|Full| {
            let thread = token(word.load(Ordering::Relaxed));
            // SAFETY: allocated above, and not enqueued.
            unsafe { self.cache.free(place) };
            thread
        })
    }

    /// The oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready<M>> {
        let (thread, place) = self.queue.take()?;
        // SAFETY: of this slab, and ours since its number was dequeued; its word has been read.
        unsafe { self.cache.free(place) };
        Some(thread)
    }
}
