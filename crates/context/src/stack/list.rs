//! A lock-free stack of slot indices: the Treiber stack of [`super`], tagged against ABA.
//!
//! Word layout of `head`: low half the index plus one (0: empty), high half a tag that grows with each push and pop.
//! Invariant: an index is in at most one list. Progress: lock-free. Reclamation: entries live as long as the process.
//!
//! | edge | from | to |
//! |---|---|---|
//! | `slots` | the CAS of `push_all` (Release) | the load or failed CAS of `pop_some` (Acquire) |

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The most slots of an arena.
pub const MAX_INDEX: usize = u32::MAX as usize - 1;

/// A slot's entry in the side table. All zero: never used.
#[derive(Debug)]
pub struct Entry {
    next: AtomicU32,
    pub state: AtomicU32,
}

/// See the module's description.
#[derive(Debug)]
pub struct List {
    head: AtomicU64,
    length: AtomicUsize,
    /// The least that `length` has been since [`List::rested`] was called last.
    fewest: AtomicUsize,
}

impl List {
    pub const fn new() -> List {
        List { head: AtomicU64::new(0), length: AtomicUsize::new(0), fewest: AtomicUsize::new(0) }
    }

    pub fn len(&self) -> usize {
        // Ordering: Relaxed, a counter only. It may lag behind, but not below zero: see `pop`.
        self.length.load(Ordering::Relaxed)
    }

    /// How many have lain here without need since the last call: as many as were there all the time. (None, at first.)
    pub fn rested(&self) -> usize {
        // Ordering: Relaxed, a statistic: a pop between the two makes the next answer too large by what it took.
        let now = self.len();
        self.fewest.swap(now, Ordering::Relaxed).min(now)
    }

    pub fn push(&self, index: u32, entries: &[Entry]) {
        self.push_all(core::iter::once(index), entries);
    }

    /// Pushes all of them at once, the last on top.
    pub fn push_all(&self, mut indices: impl Iterator<Item = u32>, entries: &[Entry]) {
        let Some(first) = indices.next() else { return };
        let (mut top, mut count) = (first, 1);
        for index in indices {
            // Ordering: Relaxed: not in the list yet.
            entries[index as usize].next.store(top + 1, Ordering::Relaxed);
            (top, count) = (index, count + 1);
        }
        // Ordering: Relaxed, a counter only; before the push, so that no pop counts first.
        self.length.fetch_add(count, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Ordering: Relaxed: validated by the CAS; readers before it hold another tag.
            entries[first as usize].next.store(head as u32, Ordering::Relaxed);
            let new = tag_after(head) | u64::from(top + 1);
            // Ordering[slots]: Release. Pairs with Acquire in `pop_some`. Makes visible: the slots' contents, states
            // and `next`.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub fn pop(&self, entries: &[Entry]) -> Option<u32> {
        let mut popped = None;
        self.pop_some(1, entries, |index| popped = Some(index));
        popped
    }

    /// Pops at most so many at once, from the top, and shows `each` of them.
    pub fn pop_some(&self, most: usize, entries: &[Entry], mut each: impl FnMut(u32)) {
        // Ordering[slots]: Acquire. Pairs with Release in `push_all`. Makes visible: the slots' contents, states and
        // `next`, of all that are in the list, since each change of `head` is an exchange and goes on with what was
        // released before.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (mut next, mut count) = (head as u32, 0);
            while next != 0 && count < most {
                // Ordering: Relaxed: validated by the CAS, whose tag differs once an entry has left its place. A stale
                // one is in bounds.
                next = entries[next as usize - 1].next.load(Ordering::Relaxed);
                count += 1;
            }
            if count == 0 {
                return;
            }
            let new = tag_after(head) | u64::from(next);
            // Ordering[slots]: Acquire on failure, for the next round. Success needs none: the load above was Acquire.
            match self.head.compare_exchange_weak(head, new, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    let left = self.length.fetch_sub(count, Ordering::Relaxed) - count;
                    // Ordering: Relaxed, a statistic. Looked at first, since it is seldom lowered.
                    if left < self.fewest.load(Ordering::Relaxed) {
                        self.fewest.fetch_min(left, Ordering::Relaxed);
                    }
                    let mut top = head as u32;
                    for _ in 0..count {
                        let index = top - 1;
                        // Ordering: Relaxed: the entry is ours, until `each` gives it away.
                        top = entries[index as usize].next.load(Ordering::Relaxed);
                        each(index);
                    }
                    return;
                }
                Err(now) => head = now,
            }
        }
    }

    /// The index on top, if it still is: for a look ahead.
    pub fn first(&self) -> Option<u32> {
        // Ordering: Relaxed: a hint.
        (self.head.load(Ordering::Relaxed) as u32).checked_sub(1)
    }
}

/// The next tag, in place.
fn tag_after(head: u64) -> u64 {
    (head & !0xffff_ffff).wrapping_add(1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: usize) -> Vec<Entry> {
        (0..count).map(|_| Entry { next: AtomicU32::new(0), state: AtomicU32::new(0) }).collect()
    }

    #[test]
    fn the_last_of_several_is_on_top_and_no_more_are_popped_than_asked() {
        let (list, entries) = (List::new(), entries(8));
        list.push(7, &entries);
        list.push_all([1, 4, 2].into_iter(), &entries);
        list.push_all(core::iter::empty(), &entries);
        assert_eq!((list.len(), list.first()), (4, Some(2)));
        let mut popped = Vec::new();
        list.pop_some(0, &entries, |index| popped.push(index));
        list.pop_some(2, &entries, |index| popped.push(index));
        assert_eq!((popped.as_slice(), list.len()), ([2, 4].as_slice(), 2));
        list.pop_some(9, &entries, |index| popped.push(index));
        assert_eq!((popped.as_slice(), list.pop(&entries)), ([2, 4, 1, 7].as_slice(), None));
    }

    #[test]
    fn each_index_is_in_one_place_however_many_push_and_pop() {
        const COUNT: usize = 64;
        let (list, entries) = (List::new(), entries(COUNT));
        list.push_all(0..COUNT as u32, &entries);
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for thread in 1..4u32 {
                let (list, entries) = (&list, &entries);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for round in 0..rounds {
                        list.pop_some(1 + (round + thread as usize) % 9, entries, |index| mine.push(index));
                        for &index in &mine {
                            let holder = entries[index as usize].state.swap(thread, Ordering::Relaxed);
                            assert_eq!(holder, 0, "slot {index} is in the hands of two");
                        }
                        mine.iter().for_each(|&index| entries[index as usize].state.store(0, Ordering::Relaxed));
                        if round % 2 == 0 {
                            list.push_all(mine.drain(..), entries);
                        } else {
                            mine.drain(..).for_each(|index| list.push(index, entries));
                        }
                    }
                });
            }
        });
        let mut all = Vec::new();
        list.pop_some(COUNT + 1, &entries, |index| all.push(index));
        all.sort_unstable();
        assert_eq!((all, list.len()), ((0..COUNT as u32).collect(), 0));
    }
}
