//! Queues of [`Ready`] tokens: the thin typed skin over `raddle_queues`, which moves words.
//!
//! This is the only file of the policies with `unsafe`, and what it claims is one thing: a word that goes into a queue is a
//! token given up, a word that comes out is that token, and the queues return each word once (their invariants, tested
//! there). So the policies themselves are safe code that cannot run a thread twice.
//!
//! A queue that is dropped gives its tokens up one by one, so that each is reported like any other dropped token.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::queue::Fifo;
//! let mut queue = Fifo::<Real>::new(64).unwrap();
//! assert!(queue.pop().is_none());
//! assert!(queue.view().is_empty());
//! ```

use crate::ready::Ready;
use crate::thread::Thread;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::Full;
use raddle_queues::fifo_ring::{self, FifoRing, Steal};
use raddle_queues::lifo_ring::{self, LifoRing};
use raddle_queues::pad::Padded;
use raddle_queues::slab::{Cache, Slab};
use raddle_queues::spsc::{self, Spsc};
use raddle_queues::unbounded::{Hazards, Item, Seat, Unbounded};
use std::ptr::NonNull;
use std::sync::Arc;

#[inline(always)]
fn token<M: Machine>(word: usize) -> Ready<M> {
    // SAFETY: the queues of this file are private to it and hold only what `into_word` gave; each word leaves a queue once.
    unsafe { Ready::from_word(word) }
}

/// The outcome of one attempt on one victim.
fn stolen<M: Machine>(outcome: Steal) -> Stolen<M> {
    match outcome {
        Steal::Empty => Stolen::Empty,
        Steal::Lost => Stolen::Lost,
        Steal::Taken { first, more } => Stolen::Taken { first: token(first), more },
    }
}

/// What became of an attempt to steal.
#[must_use = "what was stolen must run"]
pub enum Stolen<M: Machine> {
    /// There was nothing.
    Empty,
    /// Somebody else took something at that moment.
    Lost,
    /// The oldest, to run now; the others are in the thief's queue.
    Taken {
        /// The oldest.
        first: Ready<M>,
        /// How many others.
        more: usize,
    },
}

/// The owner's end of a first-in first-out queue of which others may steal.
pub struct Fifo<M: Machine>(fifo_ring::Owner<M>);

/// What thieves see of a [`Fifo`].
pub struct FifoView<M: Machine>(Arc<FifoRing<M>>);

impl<M: Machine> FifoView<M> {
    /// How many threads a thief could take now (racy).
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// True if a thief would find nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<M: Machine> Fifo<M> {
    /// An empty queue of `capacity` slots, to which it shrinks back after a burst.
    pub fn new(capacity: u64) -> Result<Self, Full> {
        Ok(Self(FifoRing::new(capacity)?.1))
    }

    /// For thieves.
    pub fn view(&self) -> FifoView<M> {
        FifoView(self.0.ring().clone())
    }

    /// Appends. Gives the token back when the queue cannot grow.
    #[inline]
    pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        let word = thread.into_word();
        self.0.push(word).map_err(|Full| token(word))
    }

    /// The oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready<M>> {
        self.0.pop().map(token)
    }

    /// Makes the owner's private batch stealable.
    pub fn publish(&mut self) {
        // Without memory for the move the batch stays private: nothing is lost, only later.
        let _ = self.0.publish_all();
    }

    /// How many pushes to come may be private, so that they need no locked instruction when they are popped.
    pub fn set_window(&mut self, window: u64) {
        self.0.set_window(window);
    }

    /// How many threads only the owner sees.
    #[inline]
    pub fn private_len(&self) -> u64 {
        self.0.private_len()
    }

    /// How many threads are here (racy but for the private ones).
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// True if the owner would find nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One attempt to take half of `victim`'s, at most `max`; all but the first are appended here.
    pub fn steal_from(&mut self, victim: &FifoView<M>, max: u64) -> Stolen<M> {
        stolen(self.0.steal_from(&victim.0, max))
    }
}

impl<M: Machine> Drop for Fifo<M> {
    fn drop(&mut self) {
        while let Some(thread) = self.pop() {
            drop(thread);
        }
    }
}

/// Threads that only their processor sees: a short first-in first-out queue of plain words. Selecting from it and adding to it
/// costs a few instructions, none of them locked.
pub struct Near<M: Machine> {
    words: Box<[usize; NEAR]>,
    head: u32,
    tail: u32,
    tokens: std::marker::PhantomData<Ready<M>>,
}

/// Slots of a [`Near`]. An untested guess: two pages of stack tops fit a second-level cache for so many threads.
pub const NEAR: usize = 256;

impl<M: Machine> Default for Near<M> {
    fn default() -> Self {
        Self { words: Box::new([0; NEAR]), head: 0, tail: 0, tokens: std::marker::PhantomData }
    }
}

impl<M: Machine> Near<M> {
    /// How many threads are here.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// True if none is here.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The word of the thread that is `n` places behind the oldest: an address to prefetch, not a token.
    #[inline(always)]
    pub fn peek(&self, n: u32) -> Option<usize> {
        (n < self.len()).then(|| self.words[self.head.wrapping_add(n) as usize % NEAR])
    }

    /// True if no more fits.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len() as usize == NEAR
    }

    /// Appends; there must be room.
    #[inline(always)]
    pub fn push(&mut self, thread: Ready<M>) {
        assert!(!self.is_full(), "a push into a full queue");
        self.words[self.tail as usize % NEAR] = thread.into_word();
        self.tail = self.tail.wrapping_add(1);
    }

    /// The oldest.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Ready<M>> {
        if self.is_empty() {
            return None;
        }
        let word = self.words[self.head as usize % NEAR];
        self.head = self.head.wrapping_add(1);
        Some(token(word))
    }
}

impl<M: Machine> Drop for Near<M> {
    fn drop(&mut self) {
        while let Some(thread) = self.pop() {
            drop(thread);
        }
    }
}

/// The owner's end of a last-in first-out queue, of whose old end others may steal what was published.
pub struct Lifo<M: Machine>(lifo_ring::Owner<M>);

/// What thieves see of a [`Lifo`].
pub struct LifoView<M: Machine>(Arc<LifoRing<M>>);

impl<M: Machine> LifoView<M> {
    /// How many threads a thief could take now (racy).
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// True if a thief would find nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<M: Machine> Lifo<M> {
    /// An empty queue of `capacity` slots, to which it shrinks back after a burst.
    pub fn new(capacity: u64) -> Result<Self, Full> {
        Ok(Self(LifoRing::new(capacity)?.1))
    }

    /// For thieves.
    pub fn view(&self) -> LifoView<M> {
        LifoView(self.0.ring().clone())
    }

    /// Adds a private thread. Gives the token back when the queue cannot grow.
    #[inline]
    pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        let word = thread.into_word();
        self.0.push(word).map_err(|Full| token(word))
    }

    /// The youngest.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready<M>> {
        self.0.pop().map(token)
    }

    /// The oldest, for fairness.
    pub fn pop_oldest(&mut self) -> Option<Ready<M>> {
        self.0.pop_oldest().map(token)
    }

    /// Makes all but the `keep` youngest stealable.
    #[inline]
    pub fn publish(&mut self, keep: u64) {
        self.0.publish(keep);
    }

    /// How many threads only the owner sees.
    #[inline]
    pub fn private_len(&self) -> u64 {
        self.0.private_len()
    }

    /// How many threads are here (racy but for the private ones).
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// True if the owner would find nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One attempt to take half of what `victim` published, at most `max`; all but the oldest are added here, private.
    pub fn steal_from(&mut self, victim: &LifoView<M>, max: u64) -> Stolen<M> {
        stolen(self.0.steal_from(&victim.0, max))
    }
}

impl<M: Machine> Drop for Lifo<M> {
    fn drop(&mut self) {
        while let Some(thread) = self.pop() {
            drop(thread);
        }
    }
}

/// A queue that anybody fills and anybody empties as a whole: the way in for those who own no processor. It needs no memory
/// (threads are linked through [`Thread::link`]), so it never refuses.
///
/// Source: R. K. Treiber, *Systems Programming: Coping with Parallelism*, 1986, with removal of all at once, which needs no
/// tag: nobody compares against a link that could have come back.
///
/// Progress: `push` is lock-free, `take_all` wait-free. Who freezes inside `take_all` holds what it took.
pub struct Inbox<M: Machine> {
    newest: M::Atomic<*mut Thread<M>>,
}

impl<M: Machine> Default for Inbox<M> {
    fn default() -> Self {
        Self { newest: M::Atomic::new(std::ptr::null_mut()) }
    }
}

impl<M: Machine> Inbox<M> {
    /// True if there is nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint; `take_all` acquires.
        self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Adds a thread.
    pub fn push(&self, thread: Ready<M>) {
        let record = thread.into_thread();
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: the record is type-stable, and its link is ours: we hold the token.
            unsafe { record.as_ref() }.link.store(newest.expose_provenance(), Ordering::Relaxed);
            // Ordering[inbox.push]: Release. Pairs with `take_all`. Makes visible: the link, and the thread behind the token.
            match self.newest.compare_exchange_weak(newest, record.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => newest = now,
            }
        }
    }

    /// Takes everything, oldest first.
    pub fn take_all(&self, mut give: impl FnMut(Ready<M>)) {
        if self.is_empty() {
            return;
        }
        // Ordering[inbox.push]: Acquire. Pairs with `push`. Makes visible: the links and the threads behind them.
        let mut next = self.newest.swap(std::ptr::null_mut(), Ordering::Acquire);
        let mut oldest: *mut Thread<M> = std::ptr::null_mut();
        while let Some(record) = NonNull::new(next) {
            // SAFETY: `push` linked records whose tokens it had; the swap gave the whole chain to us alone.
            let link = &unsafe { record.as_ref() }.link;
            next = std::ptr::with_exposed_provenance_mut(link.load(Ordering::Relaxed));
            link.store(oldest.expose_provenance(), Ordering::Relaxed);
            oldest = record.as_ptr();
        }
        while let Some(record) = NonNull::new(oldest) {
            // SAFETY: as above. The link is read before the token goes, since its next holder may use the link.
            oldest = std::ptr::with_exposed_provenance_mut(unsafe { record.as_ref() }.link.load(Ordering::Relaxed));
            // SAFETY: `push` gave this token up, and the chain came out once.
            give(unsafe { Ready::new(record) });
        }
    }
}

impl<M: Machine> Drop for Inbox<M> {
    fn drop(&mut self) {
        self.take_all(drop);
    }
}

/// The end of a Waiver queue at which its processor adds.
pub struct WaiverIn<M: Machine>(spsc::Producer<M>);

/// The end of a Waiver queue at which the next processor of the ring takes.
pub struct WaiverOut<M: Machine>(spsc::Consumer<M>);

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

/// What stands for a thread in a [`Global`] queue: the item whose node is reused, and the token.
#[repr(C)]
struct Carrier<M: Machine> {
    item: Item<M>,
    word: M::Atomic<usize>,
}

// SAFETY: a carrier is atomics and an item, whose node only the carrier's holder touches (through the queue's functions).
unsafe impl<M: Machine> Send for Carrier<M> {}
// SAFETY: as above.
unsafe impl<M: Machine> Sync for Carrier<M> {}

/// One first-in first-out queue for all processors: the lock-free scheduler's, with node reuse. A thread rides on a carrier
/// that keeps its node, so there are at most as many nodes as threads were ever ready at once, and some for each processor.
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
        let carriers = Slab::new(|_| Carrier { item: Item::without_node(), word: M::Atomic::new(0) });
        Ok(Arc::new(Self { queue, domain, carriers }))
    }

    /// The end of processor `index`; none if it is in use, or there is no such processor.
    pub fn end(self: &Arc<Self>, index: usize) -> Option<GlobalEnd<M>> {
        let seat = self.domain.seat(index)?;
        Some(GlobalEnd { seat, cache: self.carriers.cache(), queue: self.clone() })
    }

    /// True if it is empty now (racy: who is in the middle of a push has yet to tell).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The oldest token and its carrier, which is the caller's now.
    fn take(&self, seat: &mut Seat<M>) -> Option<(Ready<M>, NonNull<Carrier<M>>)> {
        // The item is the first field of its carrier.
        let carrier: NonNull<Carrier<M>> = self.queue.dequeue(seat)?.cast();
        // SAFETY: carriers are type-stable, and `push` enqueued this one after it had stored the word. Relaxed: acquired with
        // the item.
        let word = unsafe { carrier.as_ref() }.word.load(Ordering::Relaxed);
        Some((token(word), carrier))
    }
}

impl<M: Machine> Drop for Global<M> {
    fn drop(&mut self) {
        // All ends are gone, so the seats are free.
        let Some(mut seat) = self.domain.seat(0) else { return };
        while let Some((thread, _)) = self.take(&mut seat) {
            drop(thread);
        }
        for (_, carrier) in self.carriers.iterate() {
            // SAFETY: the queue is empty and nobody else has it: each carrier is ours, with a node of this domain or none.
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
        // SAFETY: the item has a node, fresh or of this domain; it is ours and type-stable, and the token may be used by
        // whoever dequeues it.
        unsafe { self.queue.queue.enqueue(&mut self.seat, carrier.cast()) };
        Ok(())
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Ready<M>> {
        let (thread, carrier) = self.queue.take(&mut self.seat)?;
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
