//! A lock-free stack of slot indices: the Treiber stack of [`super`], tagged against ABA.
//!
//! Word layout of `head`: low half the index plus one (0: empty), high half a tag that grows with each push and pop.
//! Invariant: an index is in at most one list. Progress: lock-free. Reclamation: entries live as long as the process.
//!
//! | edge | from | to |
//! |---|---|---|
//! | `slots` | the CAS of `push` (Release) | the load or failed CAS of `pop` (Acquire) |

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
}

impl List {
    pub const fn new() -> List {
        List { head: AtomicU64::new(0), length: AtomicUsize::new(0) }
    }

    pub fn len(&self) -> usize {
        // Ordering: Relaxed, a counter only. It may lag behind, but not below zero: see `pop`.
        self.length.load(Ordering::Relaxed)
    }

    pub fn push(&self, index: u32, entries: &[Entry]) {
        // Ordering: Relaxed, a counter only; before the push, so that no pop counts first.
        self.length.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Ordering: Relaxed: validated by the CAS; readers before it hold another tag.
            entries[index as usize].next.store(head as u32, Ordering::Relaxed);
            let new = tag_after(head) | u64::from(index + 1);
            // Ordering[slots]: Release. Pairs with Acquire in `pop`. Makes visible: the slot's contents, state and `next`.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub fn pop(&self, entries: &[Entry]) -> Option<u32> {
        // Ordering[slots]: Acquire. Pairs with Release in `push`. Makes visible: the slot's contents, state and `next`.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            // Ordering: Relaxed: validated by the CAS, whose tag differs once the entry has left this place.
            let next = entries[index as usize].next.load(Ordering::Relaxed);
            let new = tag_after(head) | u64::from(next);
            // Ordering[slots]: Acquire on failure, for the next round. Success needs none: the load above was Acquire.
            match self.head.compare_exchange_weak(head, new, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => {
                    self.length.fetch_sub(1, Ordering::Relaxed);
                    return Some(index);
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
