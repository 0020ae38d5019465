//! A few tries, then a queue: a lock that is as fast as a spin lock when nobody waits, and as quiet as a queue when
//! many do.
//!
//! Source: the kind of lock that Unrau et al., section 3.1, set aside for their two changes of MCS; B.-H. Lim and
//! A. Agarwal, *Reactive Synchronization Algorithms for Multiprocessors*, 1994, switch between the two protocols by the
//! contention that they see. Differs: nothing is switched; who has tried in vain queues up, and the head of the queue
//! alone tries on.
//!
//! Roles: *holder*; *newcomers*, who try [`TRIES`] times; *waiters*, in a queue of [`super::H1Mcs`]'s kind, of whom the
//! head tries.
//!
//! Words: those of [`Spin`] and of [`Queue`].
//!
//! Invariants: I1. Who swaps the word's 0 for 1 holds the lock. I2. The queue's head is not inside.
//!
//! Progress: blocking. Fairness: waiters first come, first served among themselves; newcomers overtake the queue, so
//! starvation of its head is possible. Memory: nodes are the callers'.
//!
//! Edges: `spin` of [`Spin`] (the value); the queue's show nothing that matters here.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Lock, SpinThenQueue};
//! let lock = Lock::<u32, SpinThenQueue<Real>, Real>::new(3);
//! assert_eq!(lock.with(|value| *value), 3);
//! ```

use super::mcs::Queue;
use super::{Algorithm, Spin};
use raddle_machine::Machine;

/// Tries of a newcomer before it queues up. On the simulated Hector 16 processors that hold it for 25 µs take 513, 517
/// and 470 µs a turn with 1, 4 and 16 tries (H2: 502): the more tries, the more newcomers overtake who waits.
const TRIES: u32 = 4;

/// See the module. `SWAP`: for machines that only swap.
pub struct SpinThenQueue<M: Machine, const SWAP: bool = false> {
    word: Spin<M, false, SWAP>,
    queue: Queue<M, false, true, SWAP>,
}

// SAFETY: the word lets one in at a time (I1), with `Spin`'s orderings.
unsafe impl<M: Machine, const SWAP: bool> Algorithm<M> for SpinThenQueue<M, SWAP> {
    type Node = <Queue<M, false, true, SWAP> as Algorithm<M>>::Node;

    fn new() -> Self {
        Self { word: Spin::new(), queue: Queue::new() }
    }

    fn node() -> Self::Node {
        Queue::<M, false, true, SWAP>::node()
    }

    #[inline]
    unsafe fn lock(&self, node: &Self::Node) {
        for _ in 0..TRIES {
            if self.word.try_once() {
                return;
            }
            M::spin_hint();
        }
        // SAFETY: the node is lent until the unlock of this lock, and out of the queue when this returns.
        unsafe { self.queue.lock(node) };
        while !self.word.try_once() {
            M::spin_hint();
        }
        // SAFETY: locked with this node above.
        unsafe { self.queue.unlock(node) };
    }

    #[inline]
    unsafe fn unlock(&self, _: &Self::Node) {
        // SAFETY: the caller holds the lock, that is the word.
        unsafe { self.word.unlock(&()) };
    }

    fn touch(node: &Self::Node) {
        Queue::<M, false, true, SWAP>::touch(node);
    }

    /// Nobody tells.
    fn is_awaited(&self, _: &Self::Node) -> bool {
        false
    }
}
