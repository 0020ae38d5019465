//! A lock-free first-in-first-out list of waiting threads, from which time-outs and cancellations leave without
//! touching it.
//!
//! Source: the two-pointer queue with counted links of M. Michael and M. Scott (*Simple, Fast, and Practical
//! Non-Blocking and Blocking Concurrent Queue Algorithms*, 1996). Differs: a dequeuer first marks the link that it will
//! follow (as T. Harris, *A Pragmatic Implementation of Non-Blocking Linked-Lists*, 2001, for deletions), so that one
//! sweeper can unlink nodes in the middle; nodes and list heads are type-stable, so no hazard pointers are needed.
//!
//! Roles: *waiters* push `(thread, epoch)` and may abandon their node; *wakers* pop; one *sweeper* at a time, a waiter
//! that found too many abandoned nodes, unlinks them. Nobody waits for the sweeper.
//!
//! The list that lives in a user's object is one word, the index of its [head record](Queue) in the [`NodePool`]; 0
//! until the first wait. A waker reads that word before the store that may end the object's life, and from then on
//! touches only the pool: popping from a head record that has meanwhile become another object's is a spurious wake-up
//! there, which every waiter bears (it looks at its condition again).
//!
//! Most waits are alone in their list. Such a one needs no node: a word of the head record, its *seat*, says who waits
//! ([`WaitList::sit`], [`Queue::unseat`], [`WaitList::rise`]; 0: nobody). What the word means is the callers' business.
//! Who sits goes before all who queue, and nobody sits down while somebody queues; so the order is kept, but for waits
//! that begin at the same time.
//!
//! | node | owner | leaves by |
//! |---|---|---|
//! | pooled | pool | `take` (waiter) |
//! | spare | a thread that waited here ([`Spare`]) | its next push |
//! | queued, live | list | becomes the sentinel when it is popped (waker) |
//! | queued, abandoned (its epoch is over) | list | popped and skipped (waker), or unlinked (sweeper) |
//! | sentinel | list | `give`, or as a spare, by whoever pops its successor |
//!
//! Links are `tag:31 | mark:1 | index:32` ([`Link`]); tags grow with every write. Invariants:
//! - I1: `tail` is never behind `head`, and names a node of the list: a dequeuer and a sweeper move it on before they
//!   remove the node that it names.
//! - I2: a node whose link is marked is the sentinel or no longer in the list; its link never changes while marked, so
//!   no node is unlinked behind a leaving one.
//! - I3: the last node is never unlinked, so appending needs only its null link.
//! - I4: a node is given back once: by the winner of the exchange on `head` ([`Queue::pop_with_spare`]: by who gets it
//!   from there), or by the sweeper's exchange on the link before it.
//! - I5: a link read from a node is a link of *this* list if the word that led to the node is unchanged afterwards:
//!   nodes leave the list before they are given back, and links are written with release.
//!
//! Progress: push and pop are lock-free; sweep is bounded by the length of the list, and skipped when another one is at
//! work. A kernel thread frozen in `sweep` costs memory (no further sweep of this list), no thread; frozen in `push` it
//! holds its own node, in `pop` at most one waiter.
//! Abandoned nodes: at most `max(MIN_ABANDONED, nodes that the last sweep kept)` and those of waiters now leaving.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `list.head` | [`WaitList::push`] installs the head record | [`WaitList::queue`] |
//! | `list.link` | `append`, `mark`, `unlink` | whoever follows the link |
//! | `list.swing` | `pop` moves `head` | `pop` |
//! | `list.tail` | whoever moves `tail` | `append`, `pop` |
//! | `list.seat` | [`WaitList::sit`] | [`Queue::unseat`] |
//! | `list.sweeping` | end of `sweep` | begin of the next one |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::wait_list::{NodePool, WaitList};
//! static POOL: NodePool<Real> = NodePool::constant();
//! let mut list = WaitList::<Real>::new();
//! assert!(list.push(&POOL, 8, 1) && list.push(&POOL, 16, 1));
//! assert_eq!(list.queue().pop(&POOL), Some((8, 1)));
//! list.release(&POOL);
//! ```

pub mod pool;

use pool::{Link, Pool, Record};
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// Sweeps below this many abandoned nodes are not worth their walk; interleaving tests sweep at once. With 8, 32 and
/// 128 a wait for a condition that times out takes 5.3, 5.6 and 5.6 µs of processor time in rounds of 4.0 to 7.0 (200
/// threads, 2026-11-28, `timed` of docs/constants.md): any serves.
const MIN_ABANDONED: u32 = if cfg!(feature = "loom") { 1 } else { 32 };

/// A node that is in no list and not in the pool: kept by a thread for its next wait, so that a wait and its wake-up
/// need not go to the pool, whose top is one word for all processors. (As the scheduler's paper reuses the nodes of its
/// queue, section 4.3.)
#[derive(Debug)]
#[must_use = "a node that is dropped is lost to the pool"]
pub struct Spare(u32);

impl Spare {
    /// The node's number, not 0, for a word that keeps it.
    #[inline(always)]
    pub fn into_index(self) -> u32 {
        self.0
    }

    /// The node behind a number; 0: none.
    ///
    /// # Safety
    /// The number came from [`Spare::into_index`], of a spare of the same pool, and is used for this once.
    #[inline(always)]
    pub unsafe fn from_index(index: u32) -> Option<Self> {
        (index != 0).then_some(Spare(index))
    }

    /// Gives the node back.
    #[inline]
    pub fn give<M: Machine>(self, pool: &NodePool<M>) {
        pool.nodes.give(self.0);
    }
}

/// A place in a list: one wait of one thread.
#[doc(hidden)]
#[repr(align(32))]
pub struct Node<M: Machine> {
    next: M::Atomic<u64>,
    thread: M::Atomic<usize>,
    epoch: M::Atomic<u64>,
}

// SAFETY: three atomic words.
unsafe impl<M: Machine> Record<M> for Node<M> {
    fn fresh() -> Self {
        Self { next: M::Atomic::new(0), thread: M::Atomic::new(0), epoch: M::Atomic::new(0) }
    }
    fn link(&self) -> &M::Atomic<u64> {
        &self.next
    }
}

/// Both ends of a list.
#[doc(hidden)]
#[repr(align(64))]
pub struct Head<M: Machine> {
    head: M::Atomic<u64>,
    tail: M::Atomic<u64>,
    seat: M::Atomic<u64>,
    link: M::Atomic<u64>,
    abandoned: M::Atomic<u32>,
    threshold: M::Atomic<u32>,
    sweeping: M::Atomic<u32>,
}

// SAFETY: atomic words only.
unsafe impl<M: Machine> Record<M> for Head<M> {
    fn fresh() -> Self {
        Self {
            head: M::Atomic::new(0),
            tail: M::Atomic::new(0),
            seat: M::Atomic::new(0),
            link: M::Atomic::new(0),
            abandoned: M::Atomic::new(0),
            threshold: M::Atomic::new(0),
            sweeping: M::Atomic::new(0),
        }
    }
    fn link(&self) -> &M::Atomic<u64> {
        &self.link
    }
}

/// Where nodes and list heads come from: one for each machine in a program.
pub struct NodePool<M: Machine> {
    nodes: Pool<M, Node<M>>,
    heads: Pool<M, Head<M>>,
}

impl NodePool<Real> {
    /// An empty pool, in a constant.
    pub const fn constant() -> Self {
        Self { nodes: Pool::constant(), heads: Pool::constant() }
    }
}

impl<M: Machine> Default for NodePool<M> {
    fn default() -> Self {
        Self { nodes: Pool::default(), heads: Pool::default() }
    }
}

/// The list in a user's object. See the module.
pub struct WaitList<M: Machine> {
    head: M::Atomic<u32>,
}

impl WaitList<Real> {
    /// An empty list, in a constant.
    pub const fn new() -> Self {
        Self { head: RealAtomic::<u32>::constant(0) }
    }
}

impl<M: Machine> Default for WaitList<M> {
    fn default() -> Self {
        Self { head: M::Atomic::new(0) }
    }
}

impl<M: Machine> WaitList<M> {
    /// Publishes a wait, with release ordering. False when there is no memory for it: then the caller must not sleep.
    #[must_use = "a wait that was not published will not be woken"]
    pub fn push(&self, pool: &NodePool<M>, thread: usize, epoch: u64) -> bool {
        self.push_with_spare(pool, thread, epoch, &mut None)
    }

    /// As [`WaitList::push`], with the spare node if there is one; it is gone if this returns true.
    #[must_use = "a wait that was not published will not be woken"]
    pub fn push_with_spare(&self, pool: &NodePool<M>, thread: usize, epoch: u64, spare: &mut Option<Spare>) -> bool {
        let Some(queue) = self.queue_or_new(pool) else { return false };
        let index = match spare.take() {
            Some(spare) => spare.into_index(),
            None => match pool.nodes.take() {
                Some(index) => index,
                None => return false,
            },
        };
        let node = pool.nodes.get(index);
        // Single writer: the node is ours until it is appended.
        node.thread.store(thread, Ordering::Relaxed);
        node.epoch.store(epoch, Ordering::Relaxed);
        make_last(node);
        queue.append(pool, index);
        true
    }

    /// Publishes a wait without a node, with release ordering: `word`, not 0, until [`Queue::unseat`] or
    /// [`WaitList::rise`] takes it out. False when somebody waits already, or when there is no memory for the list:
    /// then [`WaitList::push`].
    #[inline(always)]
    #[must_use = "a wait that was not published will not be woken"]
    pub fn sit(&self, pool: &NodePool<M>, word: u64) -> bool {
        let mut queue = self.queue();
        if queue.0 == 0 {
            let Some(new) = self.install(pool) else { return false };
            queue = new;
        }
        let ends = pool.heads.get(queue.0);
        // Only for the order: who queues at the same time is no earlier.
        let head = Link::from_word(ends.head.load(Ordering::Relaxed)).index();
        let tail = Link::from_word(ends.tail.load(Ordering::Relaxed)).index();
        // Ordering[list.seat]: Release. Pairs with `unseat`. Makes visible: the wait that the word names.
        head == tail && ends.seat.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes a wait back that was published by [`WaitList::sit`], unless a waker has taken it out.
    #[inline]
    pub fn rise(&self, pool: &NodePool<M>, word: u64) {
        let queue = self.queue();
        if queue.0 != 0 {
            // Relaxed: the word is the caller's own, and nothing follows from it.
            let _ = pool.heads.get(queue.0).seat.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The list's queue, as a waker may keep it beyond the life of the object.
    #[inline(always)]
    pub fn queue(&self) -> Queue {
        // Ordering[list.head]: SeqCst. Pairs with `install`. Makes visible: the head record's content. SeqCst for
        // `is_empty`.
        Queue(self.head.load(Ordering::SeqCst))
    }

    /// Says that a wait published here ended without being popped; `is_live` tells which waits go on. May sweep.
    pub fn abandon(&self, pool: &NodePool<M>, is_live: impl Fn(usize, u64) -> bool) {
        let queue = self.queue();
        if queue.0 == 0 {
            return;
        }
        let head = pool.heads.get(queue.0);
        // Counter only: how often to sweep, not whether it is right to.
        let abandoned = head.abandoned.fetch_add(1, Ordering::Relaxed) + 1;
        if abandoned >= head.threshold.load(Ordering::Relaxed).max(MIN_ABANDONED) {
            queue.sweep(pool, is_live);
        }
    }

    /// Gives the list's memory back; the list is empty and usable afterwards. Waits still in it are forgotten.
    pub fn release(&mut self, pool: &NodePool<M>) {
        let queue = self.queue();
        if queue.0 != 0 {
            self.head.store(0, Ordering::Relaxed);
            queue.free(pool);
        }
    }

    fn queue_or_new(&self, pool: &NodePool<M>) -> Option<Queue> {
        let queue = self.queue();
        if queue.0 != 0 { Some(queue) } else { self.install(pool) }
    }

    #[cold]
    fn install(&self, pool: &NodePool<M>) -> Option<Queue> {
        let sentinel = pool.nodes.take()?;
        let Some(index) = pool.heads.take() else {
            pool.nodes.give(sentinel);
            return None;
        };
        make_last(pool.nodes.get(sentinel));
        let head = pool.heads.get(index);
        head.abandoned.store(0, Ordering::Relaxed);
        head.threshold.store(0, Ordering::Relaxed);
        // A stale waker of the record's former life may look at any time: the ends get a new tag, and `tail` comes
        // first, so that whoever sees the new `head` sees a `tail` that is not behind it (I1).
        let tail = Link::from_word(head.tail.load(Ordering::Relaxed)).successor(sentinel);
        // Ordering[list.tail]: Release. Pairs with `append` and `pop`. Makes visible: the sentinel's null link.
        head.tail.store(tail.word(), Ordering::Release);
        let first = Link::from_word(head.head.load(Ordering::Relaxed)).successor(sentinel);
        // Ordering[list.swing]: Release. Pairs with `pop`. Makes visible: `tail`.
        head.head.store(first.word(), Ordering::Release);
        // Ordering[list.head]: AcqRel. Pairs with `queue`. Makes visible: the head record's content.
        match self.head.compare_exchange(0, index, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(Queue(index)),
            Err(theirs) => {
                Queue(index).free(pool);
                Some(Queue(theirs))
            }
        }
    }
}

/// Gives an owned node a null link.
fn make_last<M: Machine>(node: &Node<M>) {
    let old = Link::from_word(node.next.load(Ordering::Relaxed));
    // Ordering[pool.link]: Release. Pairs with stale readers of the link (I5). Makes visible: that the node left its
    // list.
    node.next.store(old.successor(0).word(), Ordering::Release);
}

/// A list's head record in the pool: valid for ever, though after the object's end it may serve another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue(u32);

impl Queue {
    /// True when nobody has ever waited.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Takes the word of who waits without a node.
    ///
    /// As [`Queue::is_empty`] it needs no fence before it where the condition was made true by a SeqCst
    /// read-modify-write.
    #[inline(always)]
    pub fn unseat<M: Machine>(self, pool: &NodePool<M>) -> Option<u64> {
        if self.0 == 0 {
            return None;
        }
        let seat = &pool.heads.get(self.0).seat;
        // Ordering[list.seat]: SeqCst. Pairs with the waiter's fence between publishing and looking, as in `is_empty`.
        // Not weakened: as a model takes it, a light fence comes before it.
        if seat.load(Ordering::SeqCst) == 0 {
            return None;
        }
        // Ordering[list.seat]: AcqRel. Pairs with `sit` and `free`. Makes visible: the wait that the word names; that
        // this comes before the record's next life.
        match seat.swap(0, Ordering::AcqRel) {
            0 => None,
            word => Some(word),
        }
    }

    /// True when no wait is published, live or not (racy).
    ///
    /// A waker whose store that makes the condition true is a SeqCst read-modify-write needs no fence before it asks,
    /// or pops.
    /// Events: E that store, L any load here or in [`WaitList::queue`]; P what a waiter writes into the list, F its
    /// fence, K its look. Forbidden: K misses E and L misses P. If K misses E, F precedes E in the total order of
    /// SeqCst operations; E precedes L; so F precedes L, and P, which happened before F, is seen by L.
    #[inline]
    pub fn is_empty<M: Machine>(self, pool: &NodePool<M>) -> bool {
        if self.0 == 0 {
            return true;
        }
        let ends = pool.heads.get(self.0);
        // Ordering[list.seat]: SeqCst. As in `unseat`.
        // Not weakened: as there.
        ends.seat.load(Ordering::SeqCst) == 0 && Self::first(ends, pool).is_none()
    }

    /// True when more than one wait is published, live or not. Racy, and a guess: false as well while `tail` lags.
    #[inline]
    pub fn holds_several<M: Machine>(self, pool: &NodePool<M>) -> bool {
        if self.0 == 0 {
            return false;
        }
        let ends = pool.heads.get(self.0);
        let seated = ends.seat.load(Ordering::Relaxed) != 0;
        Self::first(ends, pool)
            .is_some_and(|(head, _, tail, next)| seated || ![head.index(), next.index()].contains(&tail.index()))
    }

    /// A consistent view of a list that is not empty: `head` and the node that it names, `tail`, and the node's link.
    #[inline(always)]
    fn first<'a, M: Machine>(ends: &Head<M>, pool: &'a NodePool<M>) -> Option<(Link, &'a Node<M>, Link, Link)> {
        loop {
            // Ordering[list.swing]: SeqCst. Pairs with the exchange on `head`. Makes visible: a `tail` not behind it
            // (I1). SeqCst for `is_empty`.
            let head = Link::from_word(ends.head.load(Ordering::SeqCst));
            if head.index() == 0 {
                return None;
            }
            // Ordering[list.tail]: Acquire. Pairs with whoever moved `tail`. Orders this read before the look at `head`
            // below: read later, `tail` could name the same node in its next life.
            let tail = Link::from_word(ends.tail.load(Ordering::Acquire));
            let node = pool.nodes.get(head.index());
            // Ordering[list.link]: SeqCst. Pairs with `append`. Makes visible: the successor's thread and epoch; and,
            // through pool.link, that `head` moved when the node was recycled. SeqCst for `is_empty`.
            let next = Link::from_word(node.next.load(Ordering::SeqCst));
            if ends.head.load(Ordering::Relaxed) == head.word() {
                return if next.index() != 0 { Some((head, node, tail, next)) } else { None };
            }
        }
    }

    /// Brings closer what a pop will read, for callers that are about to pop from many lists: `step` 0 to 2 one after
    /// the other, each for all lists, since each needs what the one before has brought. Step 3 answers with the thread
    /// that will be popped, perhaps.
    #[inline]
    pub fn approach<M: Machine>(self, pool: &NodePool<M>, step: u32) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        // The answers are hints: an index names a record that is readable for ever once it was made, whatever list it
        // is in by now.
        let ends = pool.heads.get(self.0);
        if step == 0 {
            M::prefetch(std::ptr::from_ref(ends).addr());
            return None;
        }
        // Ordering[list.swing]: Acquire. Pairs with `install` and the exchange on `head`. Makes visible: that the node
        // was made.
        // Not weakened: in a model a cell is there for all as soon as it is made.
        let first = Link::from_word(ends.head.load(Ordering::Acquire)).index();
        if first == 0 {
            return None;
        }
        let first = pool.nodes.get(first);
        if step == 1 {
            M::prefetch(std::ptr::from_ref(first).addr());
            return None;
        }
        // Ordering[list.link]: Acquire. Pairs with `append`. Makes visible: that the node was made, and a thread in it.
        // Not weakened: as above.
        let next = Link::from_word(first.next.load(Ordering::Acquire)).index();
        if next == 0 {
            return None;
        }
        let next = pool.nodes.get(next);
        if step == 2 {
            M::prefetch(std::ptr::from_ref(next).addr());
            return None;
        }
        Some(next.thread.load(Ordering::Relaxed)).filter(|word| *word != 0)
    }

    /// Takes the first wait out, live or not.
    pub fn pop<M: Machine>(self, pool: &NodePool<M>) -> Option<(usize, u64)> {
        self.pop_with_spare(pool).map(|(thread, epoch, spare)| {
            spare.give(pool);
            (thread, epoch)
        })
    }

    /// As [`Queue::pop`]; the node that left the list with it is the caller's.
    pub fn pop_with_spare<M: Machine>(self, pool: &NodePool<M>) -> Option<(usize, u64, Spare)> {
        self.pop_if(pool, |_, _| true)
    }

    /// Takes out what stands first and has ended, up to the first wait that goes on, as `is_live` tells. The list is
    /// empty afterwards if no wait in it went on, unless somebody came meanwhile.
    pub fn drop_ended<M: Machine>(self, pool: &NodePool<M>, is_live: impl Fn(usize, u64) -> bool) {
        while let Some((_, _, spare)) = self.pop_if(pool, |thread, epoch| !is_live(thread, epoch)) {
            spare.give(pool);
        }
    }

    /// Takes the first wait out if it is `wanted`; an answer about a wait must not change from yes to no.
    #[inline(always)]
    fn pop_if<M: Machine>(
        self,
        pool: &NodePool<M>,
        wanted: impl Fn(usize, u64) -> bool,
    ) -> Option<(usize, u64, Spare)> {
        if self.0 == 0 {
            return None;
        }
        let ends = pool.heads.get(self.0);
        loop {
            let (head, first, tail, mut next) = Self::first(ends, pool)?;
            if tail.index() == head.index() {
                Self::advance(ends, tail, next.index());
            }
            let node = pool.nodes.get(next.index());
            // Validated by the exchanges below, on the link and on `head`: until then the node is in the list and its
            // words are fixed. (Where it was not, a "no" may be about another wait: then somebody else took it out.)
            let wait = (node.thread.load(Ordering::Relaxed), node.epoch.load(Ordering::Relaxed));
            if !wanted(wait.0, wait.1) {
                return None;
            }
            if !next.is_marked() {
                // Ordering[list.link]: AcqRel. Pairs with `unlink`, whose exchange on the same word now fails. Makes
                // visible: nothing new. The word names what `first` has acquired, and this exchange carries the
                // appender's release on.
                // Not weakened: for that reason nothing can notice.
                let marking =
                    first.next.compare_exchange(next.word(), next.marked().word(), Ordering::AcqRel, Ordering::Relaxed);
                if marking.is_err() {
                    continue;
                }
                next = next.marked();
            }
            let new = head.successor(next.index());
            // Ordering[list.swing]: AcqRel. Pairs with `first`. Makes visible: that `tail` is not behind.
            match ends.head.compare_exchange(head.word(), new.word(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((wait.0, wait.1, Spare(head.index()))),
                Err(_) => continue,
            }
        }
    }

    /// Pops what is queued now, at most as far as the node that is last now.
    pub fn pop_all<M: Machine>(self, pool: &NodePool<M>, mut each: impl FnMut(usize, u64)) {
        self.pop_all_with_spares(pool, |thread, epoch, spare| {
            spare.give(pool);
            each(thread, epoch);
        });
    }

    /// As [`Queue::pop_all`]; the nodes are the caller's.
    pub fn pop_all_with_spares<M: Machine>(self, pool: &NodePool<M>, mut each: impl FnMut(usize, u64, Spare)) {
        if self.0 == 0 {
            return;
        }
        let ends = pool.heads.get(self.0);
        let last = Link::from_word(ends.tail.load(Ordering::Acquire)).index();
        while let Some((thread, epoch, spare)) = self.pop_with_spare(pool) {
            each(thread, epoch, spare);
            if Link::from_word(ends.head.load(Ordering::Acquire)).index() == last {
                return;
            }
        }
    }

    #[inline(always)]
    fn append<M: Machine>(self, pool: &NodePool<M>, index: u32) {
        let ends = pool.heads.get(self.0);
        loop {
            // Ordering[list.tail]: Acquire. Pairs with whoever moved `tail`. Makes visible: the last node's link.
            let tail = Link::from_word(ends.tail.load(Ordering::Acquire));
            let last = pool.nodes.get(tail.index());
            // Ordering[list.link]: Acquire. Pairs with another `append`. Makes visible: the next node's link; and,
            // through pool.link, that `tail` moved when the node was recycled.
            let next = Link::from_word(last.next.load(Ordering::Acquire));
            if ends.tail.load(Ordering::Relaxed) != tail.word() {
                continue;
            }
            if next.index() != 0 {
                Self::advance(ends, tail, next.index());
                continue;
            }
            // Ordering[list.link]: Release. Pairs with `first`. Makes visible: the node's thread, epoch and null link.
            let linking = last.next.compare_exchange(
                next.word(),
                next.successor(index).word(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if linking.is_ok() {
                Self::advance(ends, tail, index);
                return;
            }
        }
    }

    /// Moves `tail` on from the node that it names; whoever comes first does it.
    #[inline(always)]
    fn advance<M: Machine>(ends: &Head<M>, tail: Link, index: u32) {
        // Ordering[list.tail]: AcqRel. Pairs with `append` and `pop`. Makes visible: the link that was followed.
        let _ =
            ends.tail.compare_exchange(tail.word(), tail.successor(index).word(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Unlinks abandoned nodes in place, unless somebody else is at it.
    fn sweep<M: Machine>(self, pool: &NodePool<M>, is_live: impl Fn(usize, u64) -> bool) {
        let ends = pool.heads.get(self.0);
        // Ordering[list.sweeping]: Acquire. Pairs with the end of the last sweep. Makes visible: its unlinking, so that
        // an exchange here on the link of a node which that sweep took out comes after its giving back, and fails.
        // Not weakened: in a model exchanges come in the order in which they run.
        if ends.sweeping.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        ends.abandoned.store(0, Ordering::Relaxed);
        let kept = self.unlink_abandoned(pool, is_live);
        ends.threshold.store(kept, Ordering::Relaxed);
        // Ordering[list.sweeping]: Release. Pairs with the next sweep. Makes visible: the unlinking done here.
        // Not weakened: as the next sweep's exchange.
        ends.sweeping.store(0, Ordering::Release);
    }

    fn unlink_abandoned<M: Machine>(self, pool: &NodePool<M>, is_live: impl Fn(usize, u64) -> bool) -> u32 {
        let ends = pool.heads.get(self.0);
        let mut kept = 0;
        let Some((_, mut before, _, mut to_node)) = Self::first(ends, pool) else { return 0 };
        // `before` was in the list when `to_node` was read from it.
        while to_node.index() != 0 && !to_node.is_marked() {
            let node = pool.nodes.get(to_node.index());
            // Ordering[list.link]: Acquire. Pairs with `append`. Makes visible: the next node; see also I5.
            let next = Link::from_word(node.next.load(Ordering::Acquire));
            let (thread, epoch) = (node.thread.load(Ordering::Relaxed), node.epoch.load(Ordering::Relaxed));
            // Ordering[list.tail]: Acquire. Pairs with `append`. Orders this read before the next look.
            let tail = Link::from_word(ends.tail.load(Ordering::Acquire));
            // If the link is as it was, the node was in this list all the while, right behind `before` (I5). Relaxed:
            // the same word was acquired when it was followed; `next` and `tail` were acquired just now, so if they are
            // of a later life, what ended this one is seen here. Of `thread` and `epoch` that is not known: then the
            // exchange below fails.
            if before.next.load(Ordering::Relaxed) != to_node.word() || next.index() == 0 {
                break;
            }
            if is_live(thread, epoch) {
                kept += 1;
                (before, to_node) = (node, next);
                continue;
            }
            if tail.index() == to_node.index() {
                Self::advance(ends, tail, next.index());
            }
            let new = to_node.successor(next.index());
            // Ordering[list.link]: AcqRel. Pairs with `first`. Makes visible: the node behind the unlinked one.
            match before.next.compare_exchange(to_node.word(), new.word(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    pool.nodes.give(to_node.index());
                    to_node = new;
                }
                // A waker has come this far: what it passes it removes itself.
                Err(_) => break,
            }
        }
        kept
    }

    /// Ends the list: nodes, sentinel and head record return to the pool. No waiter is in a call on it; stale wakers
    /// may be.
    fn free<M: Machine>(self, pool: &NodePool<M>) {
        let ends = pool.heads.get(self.0);
        loop {
            while self.pop(pool).is_some() {}
            // An exchange: a stale waker's comes before it, and so before the record's next life.
            // Ordering[list.seat]: Acquire. Pairs with `unseat`. Makes visible: the waker's exchange.
            ends.seat.swap(0, Ordering::Acquire);
            // Relaxed: the exchange acquires.
            let head = Link::from_word(ends.head.load(Ordering::Relaxed));
            let none = head.successor(0);
            // Ordering[list.swing]: AcqRel. Pairs with a stale waker's `first`, which finds no list: it comes before
            // the sentinel is given back, whose link then becomes somebody else's. And with a stale waker's `pop`: its
            // reads of the node that is the sentinel now come before that node's next life.
            // Not weakened: a stale waker that sees that life sees this too, by the links; and in a model no load
            // returns a store that comes later.
            if ends.head.compare_exchange(head.word(), none.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                pool.nodes.give(head.index());
                pool.heads.give(self.0);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
