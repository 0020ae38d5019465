//! A processor's own queues, of which others may steal.

use super::token;
use crate::ready::{Ready, Upcoming};
use crate::thread::Thread;
use raddle_machine::Machine;
use raddle_queues::Full;
use raddle_queues::fifo_ring::{self, FifoRing, Steal};
use raddle_queues::lifo_ring::{self, LifoRing};
use std::sync::Arc;

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

/// A queue of tokens over a ring of words: what both kinds have in common.
macro_rules! queue_of_tokens {
    ($(#[doc = $about:literal])* $Queue:ident, $View:ident, $of:ident, $Ring:ident, $next:literal, $stolen:literal) => {
        $(#[doc = $about])*
        pub struct $Queue<M: Machine>($of::Owner<M>);

        #[doc = concat!("What thieves see of a [`", stringify!($Queue), "`].")]
        pub struct $View<M: Machine>(Arc<$Ring<M>>);

        impl<M: Machine> $View<M> {
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

        impl<M: Machine> $Queue<M> {
            /// An empty queue of `capacity` slots, to which it shrinks back after a burst.
            pub fn new(capacity: u64) -> Result<Self, Full> {
                Ok(Self($Ring::new(capacity)?.1))
            }

            /// For thieves.
            pub fn view(&self) -> $View<M> {
                $View(self.0.ring().clone())
            }

            /// Adds a thread. Gives the token back when the queue cannot grow.
            #[inline]
            pub fn push(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
                let word = thread.into_word();
                self.0.push(word).map_err(|Full| token(word))
            }

            #[doc = $next]
            #[inline]
            pub fn pop(&mut self) -> Option<Ready<M>> {
                self.0.pop().map(token)
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

            #[doc = $stolen]
            pub fn steal_from(&mut self, victim: &$View<M>, max: u64) -> Stolen<M> {
                stolen(self.0.steal_from(&victim.0, max))
            }
        }

        impl<M: Machine> Drop for $Queue<M> {
            fn drop(&mut self) {
                while let Some(thread) = self.pop() {
                    drop(thread);
                }
            }
        }
    };
}

queue_of_tokens! {
    /// The owner's end of a first-in first-out queue of which others may steal.
    Fifo, FifoView, fifo_ring, FifoRing, "The oldest.",
    "One attempt to take half of `victim`'s, at most `max`; all but the first are appended here."
}

impl<M: Machine> Fifo<M> {
    /// Makes the owner's private batch stealable.
    pub fn publish(&mut self) {
        // Without memory for the move the batch stays private: nothing is lost, only later.
        let _ = self.0.publish_all();
    }

    /// How many pushes to come may be private, so that they need no locked instruction when they are popped.
    pub fn set_window(&mut self, window: u64) {
        self.0.set_window(window);
    }

    /// How many threads the owner claims at a time when it has to: with 1 nothing is private while no window is open.
    pub fn set_batch(&mut self, batch: u64) {
        self.0.set_batch(batch);
    }
}

queue_of_tokens! {
    /// The owner's end of a last-in first-out queue, of whose old end others may steal what was published. A thread
    /// that is added is private.
    Lifo, LifoView, lifo_ring, LifoRing, "The youngest.",
    "One attempt to take half of what `victim` published, at most `max`; all but the oldest are added here, private."
}

impl<M: Machine> Lifo<M> {
    /// The youngest; calls `uncovered` if others may have missed what they can take.
    #[inline]
    pub fn pop_telling(&mut self, uncovered: impl FnMut()) -> Option<Ready<M>> {
        self.0.pop_telling(uncovered).map(token)
    }

    /// The youngest, if only the owner sees it and it is this thread.
    #[inline]
    pub fn pop_if(&mut self, thread: &'static Thread<M>) -> Option<Ready<M>> {
        let word = std::ptr::from_ref(thread).expose_provenance();
        self.0.pop_if(word).then(|| token(word))
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
}

/// Threads that only their processor sees: a short first-in first-out queue of plain words. Selecting from it and
/// adding to it costs a few instructions, none of them locked.
pub struct Near<M: Machine> {
    words: Box<[usize; NEAR]>,
    head: u32,
    tail: u32,
    tokens: std::marker::PhantomData<Ready<M>>,
}

/// Slots of a [`Near`]: two pages of stack tops fit a second-level cache for so many threads. Simulated with 64 and
/// with 256, threads that yield differ by -16 to +9 %, packets and trees not at all (2026-11-28, docs/constants.md).
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

    /// The thread that is `n` places behind the oldest.
    #[inline(always)]
    pub fn peek(&self, n: u32) -> Option<Upcoming> {
        (n < self.len()).then(|| Upcoming::of(self.words[self.head.wrapping_add(n) as usize % NEAR]))
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
