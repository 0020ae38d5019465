//! A queue lock for threads: first come, first served, and who waits leaves its processor.
//!
//! Source: the queue of Mellor-Crummey and Scott as in [`super::H1Mcs`]; Unrau et al., section 5.3, name
//! spin-then-block as the next step. A waiter spins briefly, and only while the holder is on a processor, which the
//! runtime knows; then it parks.
//!
//! Roles: *holder*; *waiters*.
//!
//! Words: `tail` and `next` as in MCS. `holder`: the record of who holds it, or 0: between two holders, and for a
//! moment after. A node's `state`:
//!
//! | state | set by | from |
//! |---|---|---|
//! | `WAITING` | waiter | `GRANTED`, or its own publication after a wake-up for nothing |
//! | published: record and part of the wait's epoch | waiter, as it arms | `WAITING` |
//! | `GRANTED` | holder | either; from a publication it wakes |
//!
//! Invariants: I1. As in MCS. I2. No wake-up is lost: publication and grant are read-modify-writes of one word; the
//! grant finds the publication and wakes, or the publication finds the grant and does not sleep. I3. After the grant's
//! exchange the node is not touched. A wake-up that comes late (the thread waits elsewhere by then) finds another
//! epoch, but once in 2^19 waits; then it is a spurious one, which every wait bears.
//!
//! Progress: blocking. Fairness: first come, first served, at a price: the lock is handed to a thread that may have to
//! be switched to, so under contention each acquisition costs a switch, where [`crate::sync::Mutex`] lets those who run
//! barge in. A holder that is late delays all.
//!
//! Edges: `parked.tail` release → swap; `parked.next` link → holder; `parked.grant` → waiter (the value).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{Lock, Parked};
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! assert_eq!(Lock::<u32, Parked<KernelThreads>, Real>::new(1).with(|value| *value), 1);
//! ```

use super::Algorithm;
use crate::runtime::{Runtime, Word, wait_until, wake};
use crate::sync::mutex::{PAUSES, SPINS};
use crate::thread::{Epoch, Thread, Wake};
use raddle_machine::{Atomic, Machine, Ordering};
use std::ptr::{from_ref, null_mut};

const GRANTED: u64 = 0;
const WAITING: u64 = 1;

/// A record's address has so many low bits that are 0, and is so wide.
const ALIGNED: u64 = 3;
const WIDE: u64 = 48;
const RECORD: u64 = (1 << WIDE) - (1 << ALIGNED);

/// Record and epoch in one word: the epoch's low bits where a record's address has none.
fn pack(record: u64, epoch: u64) -> u64 {
    debug_assert_eq!(record & !RECORD, 0, "a record's address");
    record | epoch << WIDE | epoch >> (64 - WIDE) & ((1 << ALIGNED) - 1)
}

/// A node, on cache lines of its own.
#[repr(align(128))]
pub struct Node<M: Machine> {
    next: M::Atomic<*mut Node<M>>,
    state: M::Atomic<u64>,
}

/// See the module.
pub struct Parked<R: Runtime> {
    tail: Word<R, *mut Node<R::Machine>>,
    holder: Word<R, usize>,
}

impl<R: Runtime> Parked<R> {
    fn successor(node: &Node<R::Machine>) -> *mut Node<R::Machine> {
        loop {
            // Ordering[parked.next]: Acquire. Pairs with the store in `queue_up`. Makes visible: that the successor
            // waits.
            let next = node.next.load(Ordering::Acquire);
            if !next.is_null() {
                node.next.store(null_mut(), Ordering::Relaxed);
                return next;
            }
            // It is between two instructions, unless its kernel thread was stopped there.
            R::Machine::spin_hint();
        }
    }

    /// # Safety
    /// `before` was the tail when `node` became it.
    #[cold]
    #[inline(never)]
    unsafe fn queue_up(&self, node: &Node<R::Machine>, before: *mut Node<R::Machine>) {
        node.state.store(WAITING, Ordering::Relaxed);
        // SAFETY: the owner of `before` does not return from unlock until it has seen this link.
        let before = unsafe { &*before };
        // Ordering[parked.next]: Release. Pairs with the load in `successor`. Makes visible: that the node waits.
        before.next.store(from_ref(node).cast_mut(), Ordering::Release);
        for _ in 0..SPINS {
            if self.granted(node) {
                return;
            }
            if !self.holder_runs() {
                break;
            }
            (0..PAUSES).for_each(|_| R::Machine::spin_hint());
        }
        R::note_wait("a fair lock", from_ref(self).addr(), self.holder());
        while !self.granted(node) {
            self.sleep(node);
        }
    }

    fn granted(&self, node: &Node<R::Machine>) -> bool {
        // Ordering[parked.grant]: Acquire. Pairs with the swap in `grant`. Makes visible: the value.
        node.state.load(Ordering::Acquire) == GRANTED
    }

    /// Who holds it, if that is known just now.
    fn holder(&self) -> Option<&'static Thread<R::Machine>> {
        let holder = self.holder.load(Ordering::Relaxed);
        // SAFETY: only addresses of thread records are stored there, and records stay readable for ever.
        (holder != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Thread<R::Machine>>(holder) })
    }

    fn holder_runs(&self) -> bool {
        self.holder().is_none_or(R::is_running)
    }

    fn sleep(&self, node: &Node<R::Machine>) {
        // What an earlier wait published is taken back, unless the lock was granted meanwhile.
        let mut state = node.state.load(Ordering::Relaxed);
        while state != WAITING && state != GRANTED {
            match node.state.compare_exchange(state, WAITING, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let publish = |thread: &'static Thread<R::Machine>, epoch: Epoch| {
            let published = pack(from_ref(thread).expose_provenance() as u64, epoch.to_bits());
            // Ordering[parked.publish]: Release. Pairs with the swap in `grant`. Makes visible: the armed wait.
            let _ = node.state.compare_exchange(WAITING, published, Ordering::Release, Ordering::Relaxed);
        };
        // SAFETY: `grant` alone takes the word, and claims the epoch that it names.
        let _ = unsafe { wait_until::<R>(None, false, publish, || node.state.load(Ordering::Relaxed) == GRANTED) };
    }

    /// # Safety
    /// `next` waits right behind the caller, who holds the lock.
    #[inline]
    unsafe fn grant(next: *mut Node<R::Machine>) {
        // SAFETY: its owner waits until the swap.
        let next = unsafe { &*next };
        // Ordering[parked.grant]: AcqRel. Pairs with `granted` and with the publication. Makes visible: the value; the
        // armed wait.
        // Point of no return: the node may be gone.
        let published = next.state.swap(GRANTED, Ordering::AcqRel);
        if published == WAITING {
            return;
        }
        let record = std::ptr::with_exposed_provenance::<Thread<R::Machine>>((published & RECORD) as usize);
        // SAFETY: published by `sleep`; records stay readable for ever.
        let thread = unsafe { &*record };
        if let Some(epoch) = thread.current_wait()
            && pack(published & RECORD, epoch.to_bits()) == published
        {
            wake::<R>(thread, epoch, Wake::Signalled);
        }
    }

    /// The caller, as it is named as the holder.
    #[inline]
    fn me() -> usize {
        // SAFETY: becomes an address, which is compared, and looked at for `is_running`.
        from_ref(unsafe { R::current() }).expose_provenance()
    }

    #[cold]
    #[inline(never)]
    fn tell() -> ! {
        panic!("a thread locks a `Fair` lock that it holds already: it would wait for itself for ever")
    }
}

// SAFETY: as in MCS, one node heads the queue; the orderings are tagged.
unsafe impl<R: Runtime> Algorithm<R::Machine> for Parked<R> {
    type Node = Node<R::Machine>;

    fn new() -> Self {
        Self { tail: Atomic::new(null_mut()), holder: Atomic::new(0) }
    }

    fn node() -> Node<R::Machine> {
        Node { next: Atomic::new(null_mut()), state: Atomic::new(GRANTED) }
    }

    #[inline]
    unsafe fn lock(&self, node: &Node<R::Machine>) {
        let me = Self::me();
        // Before the node is in the queue. A thread finds its own name as long as it holds the lock, and never else.
        if self.holder.load(Ordering::Relaxed) == me {
            Self::tell();
        }
        // Ordering[parked.tail]: AcqRel. Pairs with unlock, and with the next swap here. Makes visible: the value; our
        // node's fields.
        let before = self.tail.swap(from_ref(node).cast_mut(), Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: it was the tail until just now.
            unsafe { self.queue_up(node, before) };
        }
        self.holder.store(me, Ordering::Relaxed);
    }

    #[inline]
    unsafe fn unlock(&self, node: &Node<R::Machine>) {
        self.holder.store(0, Ordering::Relaxed);
        let me = from_ref(node).cast_mut();
        if node.next.load(Ordering::Relaxed).is_null()
            // Ordering[parked.tail]: Release. Pairs with the swap in lock. Makes visible: the value.
            && self.tail.compare_exchange(me, null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
        {
            return;
        }
        let next = Self::successor(node);
        // SAFETY: right behind us.
        unsafe { Self::grant(next) };
    }

    fn is_awaited(&self, node: &Node<R::Machine>) -> bool {
        self.tail.load(Ordering::Relaxed) != from_ref(node).cast_mut()
    }
}
