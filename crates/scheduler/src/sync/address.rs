//! Waiting on an address: what a futex is to kernel threads, for whoever a [`Runtime`] runs.
//!
//! A table of wait lists, chosen by a hash of the address; nothing is stored at the address itself, and nothing has to
//! be made or given back. It serves locks whose memory is not ours to lay out (pthread objects, `std`'s futex words).
//!
//! Roles: *waiters* publish `(thread, epoch, hash of the address)`, look at their condition once more and
//! sleep; *wakers* make the condition true, fence, and pop. Addresses that share a list disturb each other only by
//! spurious wake-ups: a waker that pops somebody else's waiter wakes that one too, and it waits again. So nobody is
//! lost, at the price of a switch.
//!
//! The word in the list is `hash:32 | epoch:32`: a stale entry would need its thread to have waited exactly a multiple
//! of 2^32 times since to be taken for a live one, and even then the claim costs a spurious wake-up only.
//!
//! Progress: as the lists (lock-free). A kernel thread frozen between its pop and the claim strands that one waiter.
//!
//! # Example
//! ```
//! use raddle_scheduler::sync::address::{AddressTable, Waker};
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! static TABLE: AddressTable<KernelThreads, 16> = AddressTable::new();
//! // The condition holds already: the wait does not sleep.
//! assert!(TABLE.wait(0x1000, None, true, || true).is_ok());
//! assert_eq!(TABLE.waker(0x1000).wake(1), 0);
//! ```

use super::{Patience, WaitError};
use crate::runtime::{Runtime, Waited, wait_until, wake};
use crate::thread::{Epoch, Thread, Wake};
use raddle_machine::{Machine, Ordering, Real};
use raddle_queues::wait_list::WaitList;
use std::cell::Cell;
use std::marker::PhantomData;

/// Wait lists for all addresses; `N`, a power of two, is how many lists they share.
pub struct AddressTable<R: Runtime, const N: usize> {
    lists: [WaitList<R::Machine>; N],
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime<Machine = Real>, const N: usize> AddressTable<R, N> {
    /// Nobody waits, in a constant.
    pub const fn new() -> Self {
        assert!(N.is_power_of_two());
        Self { lists: [const { WaitList::new() }; N], runtime: PhantomData }
    }
}

impl<R: Runtime, const N: usize> Default for AddressTable<R, N> {
    fn default() -> Self {
        assert!(N.is_power_of_two());
        Self { lists: std::array::from_fn(|_| WaitList::default()), runtime: PhantomData }
    }
}

/// Fibonacci hashing: the high half of the product depends on all bits of the address.
fn hash(address: usize) -> u32 {
    ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn pack(epoch: u64, hash: u32) -> u64 {
    u64::from(hash) << 32 | epoch & 0xffff_ffff
}

/// The wait that a list's word names, if it goes on.
fn current<M: Machine>(thread: &Thread<M>, word: u64) -> Option<Epoch> {
    thread.current_wait().filter(|epoch| epoch.to_bits() & 0xffff_ffff == word & 0xffff_ffff)
}

/// # Safety
/// `word` is a thread's word out of a list of a table.
unsafe fn thread_of<R: Runtime>(word: usize) -> &'static Thread<R::Machine> {
    // SAFETY: only `AddressTable::wait` pushes, the address of a type-stable record.
    unsafe { &*std::ptr::with_exposed_provenance(word) }
}

impl<R: Runtime, const N: usize> AddressTable<R, N> {
    fn list(&self, hash: u32) -> &WaitList<R::Machine> {
        &self.lists[hash as usize & (N - 1)]
    }

    /// Waits once for a wake-up at `address`, unless `ready` says that there is no need (it looks after the wait was
    /// published). `Ok` says only that it is worth looking again: wake-ups may be spurious.
    ///
    /// # Errors
    /// The deadline ([`Machine::now`]'s clock) has passed, or, with `cancellable`, the calling thread was cancelled.
    pub fn wait(
        &self,
        address: usize,
        deadline: Option<u64>,
        cancellable: bool,
        ready: impl FnOnce() -> bool,
    ) -> Result<(), WaitError> {
        let patience = Patience { deadline, cancellable };
        let hash = hash(address);
        let list = self.list(hash);
        let published = Cell::new(false);
        let publish = |thread: &'static Thread<R::Machine>, epoch: Epoch| {
            let word = std::ptr::from_ref(thread).expose_provenance();
            published.set(list.push(R::nodes(), word, pack(epoch.to_bits(), hash)));
        };
        let look = || !published.get() || ready();
        // SAFETY: the lists are private to the table, whose wakers claim the epochs that they pop.
        let waited = unsafe { wait_until::<R>(patience.deadline, patience.cancellable, publish, look) };
        if published.get() && !matches!(waited, Waited::Woken(Wake::Signalled)) {
            list.abandon(R::nodes(), |thread, word| {
                // SAFETY: a sweeper shows words of its own list only.
                current(unsafe { thread_of::<R>(thread) }, word).is_some()
            });
        }
        match waited {
            Waited::Woken(Wake::TimedOut) => Err(WaitError::TimedOut),
            Waited::Woken(Wake::Cancelled) => Err(WaitError::Cancelled),
            Waited::Woken(_) => Ok(()),
            Waited::Retry => {
                if !published.get() {
                    // No memory for a node: wait by asking again, at the price of the processor's time.
                    R::yield_now();
                }
                Ok(())
            }
        }
    }

    /// What wakes those who wait at `address`. Take it before the store that may end the life of what lies there, or
    /// after: the address is never followed.
    #[inline]
    pub fn waker(&self, address: usize) -> Waker<'_, R> {
        let hash = hash(address);
        Waker { list: self.list(hash), hash }
    }

    /// True when nobody waits at `address`, nor at one that shares its list (racy; true means that every wait published
    /// before is over).
    #[inline]
    pub fn is_empty(&self, address: usize) -> bool {
        self.list(hash(address)).queue().is_empty(R::nodes())
    }
}

/// Wakes those who wait at one address.
pub struct Waker<'a, R: Runtime> {
    list: &'a WaitList<R::Machine>,
    hash: u32,
}

impl<R: Runtime> Waker<'_, R> {
    /// Wakes at most `count` threads that wait at the address, and says how many it woke. The caller has made their
    /// condition true.
    pub fn wake(self, count: usize) -> usize {
        // Events: C condition made true, D dequeue here; P publish, L look (`wait_until`). Forbidden: L misses C and D
        // misses P. Both sides have a SeqCst fence between their two.
        // Ordering[wait.look]: SeqCst. Pairs with `wait_until`'s fence.
        R::Machine::fence(Ordering::SeqCst);
        self.wake_after_fence(count)
    }

    /// As [`Waker::wake`], for a caller that has had a SeqCst fence since it made the condition true.
    pub fn wake_after_fence(self, count: usize) -> usize {
        // Read after the fence: read before, it could miss the list's very first waiter.
        let queue = self.list.queue();
        let mut woken = 0;
        while woken < count {
            let Some((thread, word)) = queue.pop(R::nodes()) else { break };
            // SAFETY: only `AddressTable::wait` puts words into these lists.
            let thread = unsafe { thread_of::<R>(thread) };
            // Somebody else's waiter was popped with ours: it wakes as well, and does not count.
            let ours = (word >> 32) as u32 == self.hash;
            if let Some(epoch) = current(thread, word)
                && wake::<R>(thread, epoch, Wake::Signalled)
                && ours
            {
                woken += 1;
            }
        }
        woken
    }
}
