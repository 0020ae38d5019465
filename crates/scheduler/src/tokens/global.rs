//! One queue for all processors.

use super::token;
use crate::ready::Ready;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::Full;
use raddle_queues::slab::{Cache, Slab};
use raddle_queues::unbounded::{Hazards, Item, Seat, Unbounded};
use std::ptr::NonNull;
use std::sync::Arc;

/// What stands for a thread in a [`Global`] queue: the item whose node is reused, and the token.
#[repr(C)]
pub(super) struct Carrier<M: Machine> {
    pub item: Item<M>,
    pub word: M::Atomic<usize>,
}

// SAFETY: a carrier is atomics and an item, whose node only the carrier's holder touches (through the queue's
// functions).
unsafe impl<M: Machine> Send for Carrier<M> {}
// SAFETY: a shared carrier gives its atomics; the item is its holder's.
unsafe impl<M: Machine> Sync for Carrier<M> {}

/// The oldest token of a queue of carriers, with its carrier, which is the caller's now.
pub(super) fn take_from<M: Machine>(
    queue: &Unbounded<M>,
    seat: &mut Seat<M>,
) -> Option<(Ready<M>, NonNull<Carrier<M>>)> {
    // The item is the first field of its carrier.
    let carrier: NonNull<Carrier<M>> = queue.dequeue(seat)?.cast();
    // SAFETY: carriers are type-stable, and the push enqueued this one after it had stored the word. Relaxed: acquired
    // with the item.
    let word = unsafe { carrier.as_ref() }.word.load(Ordering::Relaxed);
    Some((token(word), carrier))
}

/// One first-in first-out queue for all processors: the lock-free scheduler's, with node reuse. A thread rides on a
/// carrier that keeps its node, so there are at most as many nodes as threads were ever ready at once, and some for
/// each processor.
pub struct Global<M: Machine> {
    queue: Unbounded<M>,
    domain: Arc<Hazards<M>>,
    carriers: Arc<Slab<Carrier<M>, M>>,
}

impl<M: Machine> Global<M> {
    /// A queue for `processors` ends.
    pub fn new(processors: usize) -> Result<Arc<Self>, Full> {
        let domain = Hazards::new(processors)?;
        let queue = Unbounded::new(&domain)?;
        let carriers =
            Slab::for_processors(processors, |_| Carrier { item: Item::without_node(), word: M::Atomic::new(0) });
        Ok(Arc::new(Self { queue, domain, carriers }))
    }

    /// The end of processor `index`; none if it is in use, or there is no such processor.
    pub fn end(self: &Arc<Self>, index: usize) -> Option<GlobalEnd<M>> {
        let seat = self.domain.seat(index)?;
        Some(GlobalEnd { seat, cache: self.carriers.cache_of(index), queue: self.clone() })
    }

    /// True if it is empty now (racy: who is in the middle of a push has yet to tell).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<M: Machine> Drop for Global<M> {
    fn drop(&mut self) {
        // All ends are gone, so the seats are free.
        let Some(mut seat) = self.domain.seat(0) else { return };
        while let Some((thread, _)) = take_from(&self.queue, &mut seat) {
            drop(thread);
        }
        for (_, carrier) in self.carriers.iterate() {
            // SAFETY: the queue is empty and nobody else has it: each carrier is ours, with a node of this domain or
            // none.
            unsafe { seat.release(&carrier.item) };
        }
    }
}

/// One processor's access to a [`Global`] queue.
pub struct GlobalEnd<M: Machine> {
    seat: Seat<M>,
    cache: Cache<Carrier<M>, M>,
    queue: Arc<Global<M>>,
}

impl<M: Machine> GlobalEnd<M> {
    /// Appends. Gives the token back when there is no memory for a carrier.
    pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        let Ok(carrier) = self.cache.allocate() else { return Err(thread) };
        // SAFETY: allocated, so in nobody else's hands; type-stable.
        let place = unsafe { carrier.as_ref() };
        if place.item.prepare().is_err() {
            // SAFETY: allocated above, and not enqueued.
            unsafe { self.cache.free(carrier) };
            return Err(thread);
        }
        // Relaxed: published with the item.
        place.word.store(thread.into_word(), Ordering::Relaxed);
        // SAFETY: the item has a node, fresh or of this domain; it is ours and type-stable, and the token may be used
        // by whoever dequeues it.
        unsafe { self.queue.queue.enqueue(&mut self.seat, carrier.cast()) };
        Ok(())
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Ready<M>> {
        let (thread, carrier) = take_from(&self.queue.queue, &mut self.seat)?;
        // SAFETY: of this slab, and ours since it was dequeued; its word has been read.
        unsafe { self.cache.free(carrier) };
        Some(thread)
    }

    /// True if the queue is empty now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
