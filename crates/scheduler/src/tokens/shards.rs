//! Several queues for all processors, under one set of hazard pointers.

use super::global::{Carrier, take_from};
use crate::ready::Ready;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::Full;
use raddle_queues::pad::Padded;
use raddle_queues::slab::{Cache, Slab};
use raddle_queues::unbounded::{Hazards, Item, Seat, Unbounded};
use std::sync::Arc;

/// One of them, and how many threads have gone in and come out.
struct Shard<M: Machine> {
    queue: Unbounded<M>,
    pushed: Padded<M::Atomic<u64>>,
    popped: Padded<M::Atomic<u64>>,
}

/// First-in first-out queues, lock-free, each like [`Global`](super::Global) and counted. Nodes are as many as for one.
pub struct Shards<M: Machine> {
    shards: Box<[Shard<M>]>,
    domain: Arc<Hazards<M>>,
    carriers: Arc<Slab<Carrier<M>, M>>,
}

impl<M: Machine> Shards<M> {
    /// So many queues for `processors` ends.
    pub fn new(count: usize, processors: usize) -> Result<Arc<Self>, Full> {
        let domain = Hazards::new(processors)?;
        let word = || Padded(M::Atomic::new(0));
        let shard = |_| Ok(Shard { queue: Unbounded::new(&domain)?, pushed: word(), popped: word() });
        let shards = (0..count).map(shard).collect::<Result<_, Full>>()?;
        let carriers =
            Slab::for_processors(processors, |_| Carrier { item: Item::without_node(), word: M::Atomic::new(0) });
        Ok(Arc::new(Self { shards, domain, carriers }))
    }

    /// The end of processor `index`; none if it is in use, or there is no such processor.
    pub fn end(self: &Arc<Self>, index: usize) -> Option<ShardsEnd<M>> {
        let seat = self.domain.seat(index)?;
        Some(ShardsEnd { seat, cache: self.carriers.cache_of(index), shards: self.clone() })
    }

    /// How many queues there are.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// True if all are empty now (racy, as [`Global::is_empty`](super::Global::is_empty)).
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.queue.is_empty())
    }

    /// True if that one is empty now (racy).
    pub fn is_empty_at(&self, shard: usize) -> bool {
        self.shards[shard].queue.is_empty()
    }

    /// How many threads went into that one so far (racy; those count that are about to go in).
    pub fn pushed(&self, shard: usize) -> u64 {
        // Relaxed: counter only.
        self.shards[shard].pushed.load(Ordering::Relaxed)
    }

    /// How many threads came out of that one so far (racy).
    pub fn popped(&self, shard: usize) -> u64 {
        // Relaxed: counter only.
        self.shards[shard].popped.load(Ordering::Relaxed)
    }
}

impl<M: Machine> Drop for Shards<M> {
    fn drop(&mut self) {
        // All ends are gone, so the seats are free.
        let Some(mut seat) = self.domain.seat(0) else { return };
        for shard in &self.shards {
            while let Some((thread, _)) = take_from(&shard.queue, &mut seat) {
                drop(thread);
            }
        }
        for (_, carrier) in self.carriers.iterate() {
            // SAFETY: the queues are empty and nobody else has it: each carrier is ours, with a node of this domain or
            // none.
            unsafe { seat.release(&carrier.item) };
        }
    }
}

/// One processor's access to [`Shards`].
pub struct ShardsEnd<M: Machine> {
    seat: Seat<M>,
    cache: Cache<Carrier<M>, M>,
    shards: Arc<Shards<M>>,
}

impl<M: Machine> ShardsEnd<M> {
    /// What all ends share.
    pub fn shards(&self) -> &Arc<Shards<M>> {
        &self.shards
    }

    /// Appends to one queue. Gives the token back when there is no memory for a carrier.
    pub fn push(&mut self, shard: usize, thread: Ready<M>) -> Result<(), Ready<M>> {
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
        let shard = &self.shards.shards[shard];
        // Relaxed: counter only.
        shard.pushed.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the item has a node, fresh or of this domain; it is ours and type-stable, and the token may be used
        // by whoever dequeues it.
        unsafe { shard.queue.enqueue(&mut self.seat, carrier.cast()) };
        Ok(())
    }

    /// The oldest of one queue.
    pub fn pop(&mut self, shard: usize) -> Option<Ready<M>> {
        let shard = &self.shards.shards[shard];
        let (thread, carrier) = take_from(&shard.queue, &mut self.seat)?;
        // Relaxed: counter only.
        shard.popped.fetch_add(1, Ordering::Relaxed);
        // SAFETY: of this slab, and ours since it was dequeued; its word has been read.
        unsafe { self.cache.free(carrier) };
        Some(thread)
    }
}
