//! Reservations: a word in each element, set under a lock that is held briefly, that keeps the element for long.
//!
//! Source: Unrau et al., sections 2.1 and 2.3. Differs: waiters may park; a reservation may be shared by readers, who
//! count with atomic operations, since they end without the lock.
//!
//! Roles: *reservers*, who hold the coarse lock while they look at a word and set it; *holders* of a reservation, who
//! end it without the lock; *waiters*, who have marked the word under the lock, left the lock, and lock and search
//! again when the mark is gone.
//!
//! Word: `WAITERS | EXCLUSIVE | readers:30`.
//!
//! | transition | actor |
//! |---|---|
//! | 0 → EXCLUSIVE, with WAITERS if it covers others | reserver, by a plain store (I1) |
//! | n → n + 1, neither EXCLUSIVE nor WAITERS | reserver |
//! | n → n + 1, with WAITERS | reserver that reads it already: who waits there waits for it in any case |
//! | not 0 → with WAITERS | waiter, under the lock |
//! | with EXCLUSIVE → 0 | holder; it wakes if WAITERS was set |
//! | with EXCLUSIVE → 1 | holder that goes on as a reader; it wakes if WAITERS was set |
//! | n → n - 1; WAITERS alone → 0 | holder; the last one wakes |
//!
//! Invariants: I1. A word that is 0 is changed under the lock alone. I2. A waiter sleeps only while the word is marked,
//! or while somebody *covers* those who wait there. Who takes the mark away wakes one, who covers the others from then
//! on, until it marks the word again (it waits, or has the element alone), or passes on: a reader wakes the next one,
//! and who finds the element gone wakes all. I3. After a holder's last exchange the word is not touched, only its
//! address is used.
//!
//! Progress: blocking on the holder of a reservation. Fairness: none among waiters, who come back through the coarse
//! lock; new readers wait as soon as anybody waits, so readers do not starve a writer. Memory: the element is counted,
//! or of one type for ever ("note 2" of the paper).
//!
//! Edges: `reserve.end` end of a reservation → the next reserver's load (the element).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lock::{H2Mcs, Lock, Reservation, Spinning, Waits};
//! let (bits, table) = (Reservation::<Real>::new(), Lock::<(), H2Mcs<Real>, Real>::new(()));
//! let waits = Spinning::<Real>::new();
//! assert!(table.with(|()| bits.try_exclusive()));
//! assert!(!table.with(|()| bits.try_shared()));
//! bits.end_exclusive(&waits);
//! assert!(table.with(|()| bits.try_shared()));
//! ```

mod element;
mod guards;
mod map;
mod names;
mod order;
mod unless;

pub use guards::{Reserved, Shared};
pub use map::{Busy, ReserveMap, optimistic};
pub use order::Order;
pub(in crate::lock) use unless::never;

use crate::runtime::Runtime;
use crate::sync::address::AddressTable;
use raddle_machine::{Atomic, Machine, Ordering};
use std::marker::PhantomData;

const WAITERS: u32 = 1 << 31;
const EXCLUSIVE: u32 = 1 << 30;

/// How to wait for the end of a reservation.
pub trait Waits: Send + Sync {
    /// The world in which it waits.
    type Machine: Machine;
    /// Whether waiters mark the word, to be woken.
    const MARKS: bool;

    /// Nobody waits.
    fn new() -> Self;

    /// Waits until `over`, which becomes true before [`Waits::wake`] is called with the same address; or less long.
    fn wait(&self, address: usize, over: impl Fn() -> bool);

    /// Wakes those who wait there, so many at most.
    fn wake(&self, address: usize, most: usize);

    /// The caller, in a word that no other thread has; 0 where nobody knows.
    fn me() -> usize;
}

/// Spins with exponential back-off, as the paper's processors do.
pub struct Spinning<M> {
    cap: u32,
    machine: PhantomData<fn() -> M>,
}

impl<M: Machine> Spinning<M> {
    /// Pauses of at most so many spin hints.
    pub fn with_cap(cap: u32) -> Self {
        Self { cap: cap.max(1), machine: PhantomData }
    }
}

impl<M: Machine> Waits for Spinning<M> {
    type Machine = M;
    const MARKS: bool = false;

    fn new() -> Self {
        Self::with_cap(1024)
    }

    fn wait(&self, _: usize, over: impl Fn() -> bool) {
        let mut pause = 1;
        while !over() {
            (0..pause).for_each(|_| M::spin_hint());
            pause = (pause * 2).min(self.cap);
        }
    }

    fn wake(&self, _: usize, _: usize) {}

    fn me() -> usize {
        0
    }
}

/// Parks the thread.
pub struct Parking<R: Runtime> {
    table: AddressTable<R, 16>,
}

impl<R: Runtime> Waits for Parking<R> {
    type Machine = R::Machine;
    const MARKS: bool = true;

    fn new() -> Self {
        Self { table: AddressTable::default() }
    }

    fn wait(&self, address: usize, over: impl Fn() -> bool) {
        R::note_wait("an element of a map", address, None);
        // Without a deadline, and masked: it ends by a wake-up, or for nothing.
        let _ = self.table.wait(address, None, false, over);
    }

    fn wake(&self, address: usize, most: usize) {
        self.table.waker(address).wake(most);
    }

    fn me() -> usize {
        // Not the record: a guard may outlive the thread that took it, whose record then stands for another one.
        // SAFETY: becomes a number to compare.
        unsafe { R::current() }.number()
    }
}

/// The word of one element. See the module for who may call what.
pub struct Reservation<M: Machine> {
    word: M::Atomic<u32>,
}

impl<M: Machine> Reservation<M> {
    /// Nobody has it.
    pub fn new() -> Self {
        Self { word: M::Atomic::new(0) }
    }

    /// Already reserved, for an element that is made under the lock: a place-holder.
    pub fn exclusive() -> Self {
        Self { word: M::Atomic::new(EXCLUSIVE) }
    }

    /// Reserves it for the caller alone, if nobody has it. Under the coarse lock only.
    #[inline]
    pub fn try_exclusive(&self) -> bool {
        self.try_exclusive_covering(false)
    }

    /// As [`Reservation::try_exclusive`]. `covers`: the caller has waited for it, as others may do still, of whom the
    /// end of its reservation wakes the next one.
    #[inline]
    pub fn try_exclusive_covering(&self, covers: bool) -> bool {
        // Ordering[reserve.end]: Acquire. Pairs with `end_exclusive` and `end_shared`. Makes visible: the element.
        let free = self.word.load(Ordering::Acquire) == 0;
        if free {
            // Plain (I1).
            self.word.store(EXCLUSIVE | if covers { WAITERS } else { 0 }, Ordering::Relaxed);
        }
        free
    }

    /// Reserves it for reading, unless a writer has it or somebody waits. Under the coarse lock only.
    #[inline]
    pub fn try_shared(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (WAITERS | EXCLUSIVE) == 0 {
            // Ordering[reserve.end]: Acquire. Pairs with `end_exclusive`. Makes visible: the element.
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Reserves it for reading for one who reads it already, though somebody waits, who waits for it anyway. Under the
    /// coarse lock only.
    #[inline]
    pub fn try_shared_again(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & EXCLUSIVE == 0 && word & !WAITERS != 0 {
            // Ordering[reserve.end]: Acquire. Pairs with `downgrade`. Makes visible: the element, as another thread has
            // changed it to which the caller gave its reservation, and which reads on.
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Says that the caller waits. False if none of `for_what` is there to wait for any more. Under the coarse lock
    /// only.
    fn mark(&self, for_what: u32) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & for_what != 0 {
            match self.word.compare_exchange_weak(word, word | WAITERS, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// What a reserver does that found it reserved, in two parts: this under the lock, and then [`Reservation::wait`]
    /// without it.
    pub fn prepare<W: Waits<Machine = M>>(&self) -> bool {
        self.prepare_for::<W>(u32::MAX)
    }

    /// As [`Reservation::prepare`], for who wants to read: other readers are nothing to wait for.
    pub fn prepare_shared<W: Waits<Machine = M>>(&self) -> bool {
        self.prepare_for::<W>(WAITERS | EXCLUSIVE)
    }

    fn prepare_for<W: Waits<Machine = M>>(&self, for_what: u32) -> bool {
        if W::MARKS { self.mark(for_what) } else { self.word.load(Ordering::Relaxed) & for_what != 0 }
    }

    /// Waits for the end of the reservations that there are. Then the caller locks and searches again, and covers
    /// those who wait still (I2): [`Reservation::try_exclusive_covering`], [`Reservation::pass_on`].
    pub fn wait<W: Waits<Machine = M>>(&self, waits: &W) {
        self.wait_for(waits, u32::MAX);
    }

    /// As [`Reservation::wait`], after [`Reservation::prepare_shared`].
    pub fn wait_shared<W: Waits<Machine = M>>(&self, waits: &W) {
        self.wait_for(waits, EXCLUSIVE);
    }

    fn wait_for<W: Waits<Machine = M>>(&self, waits: &W, unmarked: u32) {
        let over = if W::MARKS { WAITERS } else { unmarked };
        waits.wait(self.address(), || self.word.load(Ordering::Relaxed) & over == 0);
    }

    /// Wakes the next one who waits: what a reader does that has waited, and reads now.
    pub fn pass_on<W: Waits<Machine = M>>(&self, waits: &W) {
        waits.wake(self.address(), 1);
    }

    /// Wakes all who wait: nobody finds what it is the word of any more.
    pub(super) fn wake_all<W: Waits<Machine = M>>(&self, waits: &W) {
        waits.wake(self.address(), usize::MAX);
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Ends an exclusive reservation, without the lock.
    #[inline]
    pub fn end_exclusive<W: Waits<Machine = M>>(&self, waits: &W) {
        let address = self.address();
        if W::MARKS {
            // Ordering[reserve.end]: Release. Pairs with `try_exclusive` and `try_shared`. Makes visible: the element.
            // Point of no return: the element may be gone.
            if self.word.swap(0, Ordering::Release) & WAITERS != 0 {
                waits.wake(address, 1);
            }
        } else {
            // Ordering[reserve.end]: Release. Pairs with `try_exclusive` and `try_shared`. Makes visible: the element.
            self.word.store(0, Ordering::Release);
        }
    }

    /// Makes an exclusive reservation a shared one, without the lock: others may read, too.
    #[inline]
    pub fn downgrade<W: Waits<Machine = M>>(&self, waits: &W) {
        // Ordering[reserve.end]: Release. Pairs with `try_shared` and `try_exclusive`. Makes visible: the element.
        if self.word.swap(1, Ordering::Release) & WAITERS != 0 {
            waits.wake(self.address(), 1);
        }
    }

    /// Ends a shared reservation, without the lock.
    #[inline]
    pub fn end_shared<W: Waits<Machine = M>>(&self, waits: &W) {
        let address = self.address();
        // Ordering[reserve.end]: Release. Pairs with `try_exclusive`. Makes visible: that the reader has left the
        // element.
        let before = self.word.fetch_sub(1, Ordering::Release);
        // While the mark alone is left nobody reserves it, so the element is still there for this.
        if before == WAITERS | 1
            // Ordering[reserve.end]: Release. Pairs with `try_exclusive`. Makes visible: that the readers have left the
            // element. Not weakened: an exchange carries on what the subtraction released.
            && self.word.compare_exchange(WAITERS, 0, Ordering::Release, Ordering::Relaxed).is_ok()
        {
            waits.wake(address, 1);
        }
    }
}

impl<M: Machine> Default for Reservation<M> {
    fn default() -> Self {
        Self::new()
    }
}
