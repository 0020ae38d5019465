//! A growing last-in first-out ring of one owner and many thieves: a private part for the owner, a stealable part in
//! front.
//!
//! Source: the deque of D. Chase and Y. Lev, "Dynamic Circular Work-Stealing Deque", 2005. Differs from the paper:
//! steals take half of what is there, and then its owner-side fence is not enough; instead the owner keeps a private
//! part and reclaims half of the stealable part by one compare-exchange that changes a tag. Model-checked before it was
//! written: the project's design notes call it protocol 4.
//!
//! Roles: the [`Owner`] pushes and pops at the young end, publishes, reclaims, grows; *thieves* have a `&`[`LifoRing`]
//! and take from the old end.
//!
//! Words: `head` = tag (high 32 bits) and h (low 32 bits), changed by compare-exchange; `split` (s), stored by the
//! owner only; `bottom` (b), known to the owner only. Indices count modulo 2^32, a difference is below 2^26.
//! `[h, s)` is stealable, `[s, b)` private.
//!
//! | transition | actor |
//! |---|---|
//! | b → b+1, slot written; b → b-1 while b > s | owner |
//! | s → larger (publish), after the slots | owner |
//! | s → h + (b-h)/2, then head: (t,h) → (t+1,h) (reclaim, when b = s) | owner |
//! | head: (t,h) → (t,h+n), n at most s-h | thief, or the owner that takes its oldest |
//!
//! Invariants:
//! - I1. Each item is taken once. A thief loads `head`, then `split`. If its exchange succeeds, no reclaim completed in
//!   between, so every `split` it can have seen is at most the present one, or one that a reclaim in progress has
//!   lowered: `[h, h+n)` is stealable. A thief that loads `head` after a reclaim sees its lowered `split` (lifo-head).
//! - I2. A slot below s is not written by the owner: it must reclaim first, which changes the tag, and then every thief
//!   that read the slot before fails. Except that index i + capacity is written to the slot of i, when the owner has
//!   seen a `head` beyond i: by events, thief reads slot (a), exchanges `head` (b); owner loads `head` (c), writes (d).
//!   If b succeeds, c reads b or a later exchange, so a happens before d and cannot read it.
//! - I3. An array that a thief loads after `split` holds all of `[h, s)`, as in `fifo_ring`.
//! - I4. The tag repeats after 2^32 reclaims: a thief would have to be stopped between its load and its exchange for so
//!   many (over ten minutes of nothing but reclaims) and meet the same h. With tags of 4 bits the model did fail.
//!
//! Progress: push, pop from the private part and publish are wait-free; reclaim, steal and `pop_oldest` lock-free:
//! whoever fails, another took something. A frozen owner strands its private part.
//!
//! Memory: as in `ring_buffer`; the ring shrinks when seven eighths are empty at a reclaim.
//!
//! Edges: `lifo-split` and `lifo-lower` stores → thief's load (slots, items, array); `lifo-head` reclaim → thief's load
//! (the lowered split); `lifo-head` thief's exchange → owner's loads (slot reads are over).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_queues::{fifo_ring::Steal, lifo_ring::LifoRing};
//! let (ring, mut a) = LifoRing::<Real>::new(64).unwrap();
//! for i in 1..=4 {
//!     a.push(i).unwrap();
//! }
//! assert!(ring.is_empty_for_thief());
//! a.publish(1); // keep one private
//! let mut out = [0; 8];
//! assert_eq!(ring.steal(&mut out), Steal::Taken { first: 1, more: 1 });
//! assert_eq!((a.pop(), a.pop(), a.pop()), (Some(4), Some(3), None));
//! ```

use crate::fifo_ring::Steal;
use crate::pad::Padded;
use crate::ring_buffer::{Full, MAX_CAPACITY, Shared, Writer};
use raddle_machine::{Atomic, Machine, Ordering};
use std::sync::Arc;

/// `head` as one word.
#[derive(Clone, Copy)]
struct Head {
    tag: u32,
    index: u32,
}

impl Head {
    fn of(word: u64) -> Self {
        Self { tag: (word >> 32) as u32, index: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.index)
    }

    /// A thief's transition.
    fn taken(self, n: u32) -> Self {
        Self { index: self.index.wrapping_add(n), ..self }
    }

    /// The owner's transition.
    fn reclaimed(self) -> Self {
        Self { tag: self.tag.wrapping_add(1), ..self }
    }
}

/// How far `to` lies beyond `from`; 0 if a stale view has it behind.
fn distance(from: u32, to: u32) -> u32 {
    (to.wrapping_sub(from) as i32).max(0) as u32
}

/// The shared part: what thieves see.
pub struct LifoRing<M: Machine> {
    head: Padded<M::Atomic<u64>>,
    split: Padded<M::Atomic<u32>>,
    array: Shared<M>,
}

impl<M: Machine> LifoRing<M> {
    /// A ring of `capacity` slots (rounded up to a power of two, at least 2), which is also the size it shrinks back
    /// to.
    pub fn new(capacity: u64) -> Result<(Arc<Self>, Owner<M>), Full> {
        let least = capacity.max(2).checked_next_power_of_two().ok_or(Full)?;
        let (array, writer) = Shared::new(least)?;
        let ring = Arc::new(Self { head: Padded(M::Atomic::new(0)), split: Padded(M::Atomic::new(0)), array });
        let owner = Owner { ring: ring.clone(), writer, split: 0, bottom: 0, limit: least as u32, least };
        Ok((ring, owner))
    }

    /// How many items thieves could take: a moment's view.
    pub fn len(&self) -> u64 {
        // Relaxed: counter only.
        let head = Head::of(self.head.load(Ordering::Relaxed));
        u64::from(distance(head.index, self.split.load(Ordering::Relaxed)))
    }

    /// Whether a thief would find nothing at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same under the name that says whose view it is.
    pub fn is_empty_for_thief(&self) -> bool {
        self.is_empty()
    }

    /// Takes half of what is there (rounded up, at most `out.len()`), oldest first, into `out`.
    pub fn steal(&self, out: &mut [usize]) -> Steal {
        let Some((head, n)) = self.plan(out.len() as u64) else { return Steal::Empty };
        if !self.take(head, n, |k, item| out[k as usize] = item) {
            return Steal::Lost;
        }
        Steal::Taken { first: out[0], more: n as usize - 1 }
    }

    /// Which `head` a thief would change now, and how many it would take. `head` first, then `split` (I1).
    fn plan(&self, max: u64) -> Option<(Head, u32)> {
        // Ordering[lifo-head]: Acquire. Pairs with the reclaim's exchange. Makes visible: the split lowered before it
        // (I1).
        let head = Head::of(self.head.load(Ordering::Acquire));
        // Ordering[lifo-split]: Acquire. Pairs with the owner's store. Makes visible: the slots below it, the items
        // they name, and an array that has those slots. Not weakened: the fence in `enter` would do as well, but
        // ThreadSanitizer does not understand fences.
        let split = self.split.load(Ordering::Acquire);
        let n = u64::from(distance(head.index, split)).div_ceil(2).min(max).min(MAX_CAPACITY) as u32;
        (n > 0).then_some((head, n))
    }

    /// Reads the items of `head..head + n` and claims them; false if `head` is no longer the head.
    fn take(&self, head: Head, n: u32, mut place: impl FnMut(u32, usize)) -> bool {
        let view = self.array.enter();
        for k in 0..n {
            place(k, view.read(u64::from(head.index.wrapping_add(k))));
        }
        // Ordering[lifo-steal]: Release. Pairs with the owner's loads of lifo-steal. Makes visible: that the slots have
        // been read (I2). What the items name was acquired with the split.
        // Not weakened: it keeps a load from returning a store that comes later, which loom (and x86) never does.
        self.head.compare_exchange(head.word(), head.taken(n).word(), Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The one handle that pushes and pops. It may move between kernel threads, but only one may use it at a time.
pub struct Owner<M: Machine> {
    writer: Writer<M>,
    /// The true split; the shared one is a copy.
    split: u32,
    bottom: u32,
    /// The bottom at which room must be looked for.
    limit: u32,
    least: u64,
    ring: Arc<LifoRing<M>>,
}

// SAFETY: the writer's raw pointers lead into the ring that `ring` keeps alive, and only the one owner uses them.
unsafe impl<M: Machine> Send for Owner<M> {}

impl<M: Machine> Owner<M> {
    /// The shared part.
    pub fn ring(&self) -> &Arc<LifoRing<M>> {
        &self.ring
    }

    /// Adds an item (never 0) as the youngest, private. No locked instruction. On `Full` nothing changed.
    #[inline]
    pub fn push(&mut self, item: usize) -> Result<(), Full> {
        debug_assert_ne!(item, 0, "0 is not a handle");
        if self.bottom == self.limit {
            self.make_room(1)?;
        }
        self.writer.write(u64::from(self.bottom), item);
        self.bottom = self.bottom.wrapping_add(1);
        Ok(())
    }

    /// Adds all items, the last as the youngest, private; or none, on `Full`.
    pub fn push_batch(&mut self, items: &[usize]) -> Result<(), Full> {
        self.make_room(items.len() as u64)?;
        for &item in items {
            self.push(item)?;
        }
        Ok(())
    }

    /// Removes the youngest item. From the private part: no atomic operation.
    #[inline]
    pub fn pop(&mut self) -> Option<usize> {
        self.pop_telling(|| ())
    }

    /// As [`Owner::pop`]; calls `uncovered` if it hid for a moment what thieves can take now and before: one that
    /// looked just then has seen nothing, and may sleep.
    #[inline]
    pub fn pop_telling(&mut self, mut uncovered: impl FnMut()) -> Option<usize> {
        if self.bottom == self.split && (self.is_bare() || !self.reclaim(&mut uncovered)) {
            return None;
        }
        self.bottom = self.bottom.wrapping_sub(1);
        Some(self.writer.read(u64::from(self.bottom)))
    }

    /// Removes the youngest item if it is private and is `item`.
    #[inline]
    pub fn pop_if(&mut self, item: usize) -> bool {
        let last = self.bottom.wrapping_sub(1);
        let is = self.bottom != self.split && self.writer.read(u64::from(last)) == item;
        if is {
            self.bottom = last;
        }
        is
    }

    /// Makes all but the `keep` youngest items stealable. No locked instruction, no fence: the caller then looks
    /// whether someone sleeps that should be woken.
    pub fn publish(&mut self, keep: u64) {
        if self.private_len() > keep {
            self.set_split(self.bottom.wrapping_sub(keep as u32));
        }
    }

    fn set_split(&mut self, split: u32) {
        self.split = split;
        // Ordering[lifo-split]: Release. Pairs with the thief's load. Makes visible: slots, items, array.
        self.ring.split.store(split, Ordering::Release);
    }

    /// True if nothing is stealable, and there is no array to give back: what [`Owner::reclaim`] would find, without a
    /// call.
    #[inline(always)]
    fn is_bare(&self) -> bool {
        // Relaxed: nothing is read after it, and nobody else lowers the index.
        let head = Head::of(self.ring.head.load(Ordering::Relaxed));
        head.index == self.bottom && self.writer.capacity() == self.least
    }

    /// Takes the younger half of the stealable part back, when the private part is empty. False if there is nothing.
    #[cold]
    fn reclaim(&mut self, uncovered: &mut dyn FnMut()) -> bool {
        debug_assert_eq!(self.bottom, self.split);
        let mut undone = false;
        let mut head = self.head();
        loop {
            let there = distance(head.index, self.bottom);
            self.shrink(head.index, there);
            if there == 0 {
                return false;
            }
            let split = head.index.wrapping_add(there / 2);
            // Ordering[lifo-lower]: Release. Pairs with the thief's load. Makes visible: slots and items, to a
            // thief that loaded `head` before this attempt and wins against it. (A relaxed store would not do: a
            // release sequence has no plain stores since C++20. Store-buffer models cannot show it.)
            self.ring.split.store(split, Ordering::Release);
            // Ordering[lifo-head]: Release. Pairs with the thief's load of lifo-head. Makes visible: the lowered split
            // (I1).
            let done = self.ring.head.compare_exchange(
                head.word(),
                head.reclaimed().word(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if done.is_ok() {
                self.split = split;
                if undone {
                    uncovered();
                }
                return true;
            }
            // Undoes the lowering: a thief was faster.
            self.set_split(self.bottom);
            undone = true;
            head = self.head();
        }
    }

    fn head(&self) -> Head {
        // Ordering[lifo-steal]: Acquire. Pairs with the thief's exchange. Makes visible: thieves below it have read
        // their slots.
        // Not weakened: as the thief's exchange.
        Head::of(self.ring.head.load(Ordering::Acquire))
    }

    /// Removes the oldest item, as a thief of oneself: for a policy that must not starve its oldest.
    pub fn pop_oldest(&mut self) -> Option<usize> {
        loop {
            let head = self.head();
            if head.index == self.bottom {
                return None;
            }
            if head.index == self.split {
                self.set_split(self.split.wrapping_add(1));
            }
            let item = self.writer.read(u64::from(head.index));
            // Relaxed: the owner reads its slots before it overwrites them; thieves need nothing from this.
            let taken = head.taken(1).word();
            if self.ring.head.compare_exchange(head.word(), taken, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some(item);
            }
        }
    }

    /// How many items are private: seen by no thief.
    pub fn private_len(&self) -> u64 {
        u64::from(self.bottom.wrapping_sub(self.split))
    }

    /// How many items are here: exact for the private, a moment's view for the rest.
    pub fn len(&self) -> u64 {
        self.private_len() + self.ring.len()
    }

    /// Whether the owner would find nothing at this moment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Steals up to `max` from `victim`: half of it. The oldest is returned, the rest is pushed here, private.
    pub fn steal_from(&mut self, victim: &LifoRing<M>, max: u64) -> Steal {
        let Some((head, mut n)) = victim.plan(max) else { return Steal::Empty };
        if self.make_room(u64::from(n) - 1).is_err() {
            n = 1;
        }
        let (mut first, bottom) = (0, self.bottom);
        let writer = &self.writer;
        // Beyond the bottom nobody looks at our slots, so a lost race leaves nothing behind.
        let taken = victim.take(head, n, |k, item| {
            if k == 0 {
                first = item;
            } else {
                writer.write(u64::from(bottom.wrapping_add(k - 1)), item);
            }
        });
        if !taken {
            return Steal::Lost;
        }
        self.bottom = bottom.wrapping_add(n - 1);
        Steal::Taken { first, more: n as usize - 1 }
    }

    /// Sees to it that `n` more indices fit.
    #[cold]
    fn make_room(&mut self, n: u64) -> Result<(), Full> {
        if u64::from(self.limit.wrapping_sub(self.bottom)) >= n {
            return Ok(());
        }
        let kept = self.head().index;
        let capacity = self.writer.capacity();
        self.limit = kept.wrapping_add(capacity as u32);
        let needed = n.checked_add(u64::from(self.bottom.wrapping_sub(kept))).ok_or(Full)?;
        if needed <= capacity {
            return Ok(());
        }
        let larger = needed.checked_next_power_of_two().ok_or(Full)?;
        self.replace(kept, larger)
    }

    /// Gives memory back when little is left.
    #[inline(always)]
    fn shrink(&mut self, kept: u32, used: u32) {
        if self.writer.capacity() != self.least {
            self.shrink_grown(kept, used);
        }
    }

    #[inline(never)]
    fn shrink_grown(&mut self, kept: u32, used: u32) {
        let (capacity, used) = (self.writer.capacity(), u64::from(used));
        if used * 8 >= capacity || !self.writer.free_retired(&self.ring.array) {
            return;
        }
        // Without memory for the smaller array the larger one stays.
        let _ = self.replace(kept, (used * 4).next_power_of_two().max(self.least));
    }

    fn replace(&mut self, kept: u32, capacity: u64) -> Result<(), Full> {
        let used = u64::from(self.bottom.wrapping_sub(kept));
        // SAFETY: the writer is this ring's; all items from the head on are copied, and later writes follow I2.
        unsafe { self.writer.replace(&self.ring.array, u64::from(kept), u64::from(kept) + used, capacity)? };
        self.limit = kept.wrapping_add(capacity as u32);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    fn ring(capacity: u64) -> Owner<Real> {
        LifoRing::new(capacity).unwrap().1
    }

    #[test]
    fn items_leave_youngest_first_also_after_publishing() {
        const ITEMS: usize = if cfg!(miri) { 100 } else { 1000 };
        let mut a = ring(2);
        for i in 1..=ITEMS {
            a.push(i).unwrap();
            if i % 7 == 0 {
                a.publish(3);
            }
        }
        for i in (1..=ITEMS).rev() {
            assert_eq!(a.pop(), Some(i));
        }
        assert_eq!(a.pop(), None);
        assert_eq!(a.writer.capacity(), 2);
    }

    #[test]
    fn the_oldest_can_be_taken_from_either_part() {
        let mut a = ring(4);
        a.push_batch(&[1, 2, 3, 4, 5]).unwrap();
        assert_eq!((a.pop_oldest(), a.pop()), (Some(1), Some(5)));
        a.publish(0);
        // What others may take needs the locked way.
        assert!(!a.pop_if(4));
        assert_eq!((a.pop_oldest(), a.pop(), a.pop()), (Some(2), Some(4), Some(3)));
        assert_eq!((a.pop_oldest(), a.pop(), a.len()), (None, None, 0));
    }

    #[test]
    fn the_youngest_private_one_can_be_asked_for() {
        let mut a = ring(4);
        assert!(!a.pop_if(1));
        a.push_batch(&[1, 2]).unwrap();
        assert!(!a.pop_if(1) && a.pop_if(2) && !a.pop_if(2) && a.pop_if(1));
        assert_eq!((a.pop(), a.len()), (None, 0));
    }

    #[test]
    fn a_thief_gets_half_and_keeps_the_rest_private() {
        let (mut a, mut b) = (ring(4), ring(2));
        a.push_batch(&(1..=9).collect::<Vec<_>>()).unwrap();
        assert_eq!(b.steal_from(a.ring(), 64), Steal::Empty);
        a.publish(1);
        assert_eq!(b.steal_from(a.ring(), 64), Steal::Taken { first: 1, more: 3 });
        assert_eq!((b.private_len(), b.ring().len(), a.len()), (3, 0, 5));
        assert_eq!([b.pop(), b.pop(), b.pop(), b.pop()], [Some(4), Some(3), Some(2), None]);
        assert_eq!(a.make_room(u64::MAX), Err(Full));
    }

    #[test]
    fn indices_wrap() {
        let mut a = ring(4);
        let start = u32::MAX - 2;
        (a.split, a.bottom, a.limit) = (start, start, start.wrapping_add(4));
        a.ring.head.store(Head { tag: u32::MAX, index: start }.word(), Ordering::Relaxed);
        a.ring.split.store(start, Ordering::Relaxed);
        for round in 0..3 {
            a.push_batch(&(1..=20).collect::<Vec<_>>()).unwrap();
            a.publish(0);
            let mut out = [0; 5];
            assert_eq!(a.ring().steal(&mut out), Steal::Taken { first: 1, more: 4 }, "round {round}");
            for i in (6..=20).rev() {
                assert_eq!(a.pop(), Some(i));
            }
            assert_eq!(a.pop(), None);
        }
    }
}
