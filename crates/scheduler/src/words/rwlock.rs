//! The word of a readers-writer lock: who is inside, who waits, and a gate.
//!
//! Source: our own.
//!
//! `gate:32 | WRITER | READERS_WAIT | WRITERS_WAIT | LEFT | readers:28`. The *gate* is a number that grows whenever
//! those who wait should look again. A thread that must wait reads all at once and sleeps while the gate is what it
//! was. Whoever frees the lock changes both in one exchange, its last access, and wakes by address. Readers and writers
//! sleep under names of their own ([`Roles`]). `LEFT` says of a free lock that it is left for those who were woken, as
//! of a mutex ([`super::mutex`]): the first that comes in takes the bit away, and one that comes by gives way first.
//! Nothing else depends on it.
//!
//! Invariants:
//! - I1: a writer that sleeps is covered by `WRITERS_WAIT` in the word of a held lock, by an unlocker that has cleared
//!   it and not yet woken a writer, or by a woken writer that has not yet taken the lock, set the bit again, or given
//!   up.
//! - I2: one that gives up clears the bit only when no other seems to wait, looks again after that, and wakes who came
//!   in between.
//! - I3: a reader that sleeps is covered by `READERS_WAIT` in the word of a held lock; whoever frees the lock wakes all
//!   readers, or a writer, and when there was none to wake, the readers after all.
//!
//! Progress: the lock barges; a waiter may starve unless it is given way to. After the exchange in
//! [`RwLockWord::unlock`] the lock may be gone.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `words.rwlock` | [`RwLockWord::unlock`] | [`RwLockWord::try_read`], [`RwLockWord::try_write`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::words::rwlock::RwLockWord;
//! let word = RwLockWord::<raddle_machine::Real>::default();
//! assert!(word.try_read(true).is_ok() && word.try_read(true).is_ok() && word.try_write().is_err());
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const READERS: u64 = LEFT - 1;
const LEFT: u64 = 1 << 28;
const WRITERS_WAIT: u64 = 1 << 29;
const READERS_WAIT: u64 = 1 << 30;
const WRITER: u64 = 1 << 31;
const GATE: u64 = 1 << 32;

/// See the module.
#[repr(transparent)]
pub struct RwLockWord<M: Machine>(M::Atomic<u64>);

/// What the word was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

/// Those who sleep at a lock, by the address of its word, which is a name only.
pub trait Roles {
    /// True if writers may sleep there: racy; after a wake-up or a fence of the caller's, false means that who comes
    /// later sees the gate changed.
    fn writers_may_sleep(&self, lock: usize) -> bool;
    /// Wakes one writer at least, if any sleeps. How many were woken.
    fn wake_writer(&self, lock: usize) -> usize;
    /// Wakes all readers.
    fn wake_readers(&self, lock: usize);
}

/// Why a reader was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// There are as many readers as the word can count.
    Full,
    /// It gives up, as its sleep says.
    GivesUp(E),
}

impl State {
    /// What those who sleep compare the gate with.
    #[inline(always)]
    pub fn gate(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// A writer is inside.
    #[inline(always)]
    pub fn has_writer(self) -> bool {
        self.0 & WRITER != 0
    }

    /// Writers may wait.
    #[inline(always)]
    pub fn has_waiting_writers(self) -> bool {
        self.0 & WRITERS_WAIT != 0
    }

    /// It is free, for those who were woken.
    #[inline(always)]
    pub fn is_left(self) -> bool {
        self.0 & LEFT != 0
    }

    /// No further reader can be counted.
    #[inline(always)]
    pub fn is_full(self) -> bool {
        self.0 & READERS == READERS
    }
}

impl<M: Machine> Default for RwLockWord<M> {
    fn default() -> Self {
        Self(M::Atomic::new(0))
    }
}

impl<M: Machine> RwLockWord<M> {
    /// The word, whose high half is the gate.
    #[inline(always)]
    pub fn word(&self) -> &M::Atomic<u64> {
        &self.0
    }

    /// What it is (racy).
    #[inline(always)]
    pub fn state(&self) -> State {
        State(self.0.load(Ordering::Relaxed))
    }

    fn name(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Comes in as a reader if no writer is inside, nor, unless it `may_pass` them, waits, and if the lock is not left
    /// for others.
    ///
    /// # Errors
    /// What keeps it out.
    #[inline(always)]
    pub fn try_read(&self, may_pass: bool) -> Result<(), State> {
        self.come_to_read(if may_pass { WRITER | LEFT } else { WRITER | WRITERS_WAIT | LEFT })
    }

    /// As [`RwLockWord::try_read`], also if it is left for others.
    pub fn try_read_left(&self, may_pass: bool) -> Result<(), State> {
        self.come_to_read(if may_pass { WRITER } else { WRITER | WRITERS_WAIT })
    }

    #[inline(always)]
    fn come_to_read(&self, blocks: u64) -> Result<(), State> {
        let mut state = self.0.load(Ordering::Relaxed);
        while state & blocks == 0 && state & READERS != READERS {
            let new = if blocks & LEFT == 0 { (state & !LEFT) + 1 } else { state + 1 };
            // Ordering[words.rwlock]: Acquire. Pairs with `unlock`. Makes visible: what the last writer did.
            match self.0.compare_exchange_weak(state, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
        Err(State(state))
    }

    /// Comes in as the writer if nobody is inside, and the lock is not left for others.
    ///
    /// # Errors
    /// What keeps it out.
    #[inline(always)]
    pub fn try_write(&self) -> Result<(), State> {
        self.come_to_write(WRITER | READERS | LEFT, 0)
    }

    /// As [`RwLockWord::try_write`], also if it is left for others.
    pub fn try_write_left(&self) -> Result<(), State> {
        self.come_to_write(WRITER | READERS, 0)
    }

    /// As [`RwLockWord::try_write`] without what `blocks`; `waited_for` is set in the word then.
    #[inline(always)]
    fn come_to_write(&self, blocks: u64, waited_for: u64) -> Result<(), State> {
        let mut state = self.0.load(Ordering::Relaxed);
        while state & blocks == 0 {
            let new = if blocks & LEFT == 0 { state & !LEFT } else { state } | WRITER | waited_for;
            // Ordering[words.rwlock]: Acquire. Pairs with `unlock`. Makes visible: what all did who were inside.
            match self.0.compare_exchange_weak(state, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
        Err(State(state))
    }

    /// Comes in as a reader, sleeping meanwhile. `may_pass` says, at each try, whether it goes before writers that
    /// wait; the answer says what it said last. `sleep` sleeps, as a reader, while the gate is what it was.
    ///
    /// # Errors
    /// [`Refused`].
    #[inline]
    pub fn wait_to_read<E>(
        &self,
        mut may_pass: impl FnMut() -> bool,
        mut sleep: impl FnMut(State) -> Result<(), E>,
    ) -> Result<bool, Refused<E>> {
        loop {
            let passes = may_pass();
            let state = match self.try_read_left(passes) {
                Ok(()) => return Ok(passes),
                Err(state) if state.is_full() => return Err(Refused::Full),
                Err(state) => state,
            };
            if self.announce(state.0, READERS_WAIT) {
                sleep(state).map_err(Refused::GivesUp)?;
            }
        }
    }

    /// Comes in as the writer, sleeping meanwhile. `sleep` sleeps, as a writer, while the gate is what it was; an error
    /// of its means that it consumed no wake-up.
    ///
    /// # Errors
    /// What `sleep` says; the caller has [given up](RwLockWord::give_up) by then.
    #[inline]
    pub fn wait_to_write<E>(
        &self,
        sleepers: &impl Roles,
        mut sleep: impl FnMut(State) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut woken = false;
        loop {
            // Whether other writers sleep is read before the exchange, as for mutexes.
            let others = if woken && sleepers.writers_may_sleep(self.name()) { WRITERS_WAIT } else { 0 };
            let state = match self.come_to_write(WRITER | READERS, others) {
                Ok(()) => return Ok(()),
                Err(state) => state,
            };
            if self.announce(state.0, WRITERS_WAIT) {
                sleep(state).inspect_err(|_| self.give_up(sleepers))?;
                woken = true;
            }
        }
    }

    /// Says in the word that the caller waits. False if the word has changed: look again.
    fn announce(&self, state: u64, bit: u64) -> bool {
        state & bit != 0
            // Relaxed: nobody reads more than the bit.
            || self.0.compare_exchange(state, state | bit, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// A writer that waited leaves without the lock: readers that waited because of it go on.
    pub fn give_up(&self, sleepers: &impl Roles) {
        let lock = self.name();
        let readers = loop {
            let state = self.0.load(Ordering::Relaxed);
            // Who seems to sleep may be one that has left, like the caller. One that was woken covers the others.
            if sleepers.writers_may_sleep(lock) && sleepers.wake_writer(lock) > 0 {
                return;
            }
            let readers = if state & WRITER == 0 { READERS_WAIT } else { 0 };
            let new = (state & !(WRITERS_WAIT | readers)).wrapping_add(GATE);
            // Relaxed: the fence below is between this and the look.
            if self.0.compare_exchange(state, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break state & readers;
            }
        };
        // A writer that came in between has published itself before this look, or sees the gate changed.
        super::Bucket::<M>::before_look();
        if sleepers.writers_may_sleep(lock) {
            sleepers.wake_writer(lock);
        }
        // Last, since the fence takes as long as a reader takes to come: who gives up goes on before those behind it.
        if readers != 0 {
            sleepers.wake_readers(lock);
        }
    }

    /// Whoever is inside leaves; `state` was read meanwhile. With `writers_first` readers that wait are not woken while
    /// writers wait. `leaves`, asked once if others are woken, says whether the lock is left for them. False if nobody
    /// is inside.
    #[inline(always)]
    pub fn unlock(
        &self,
        state: State,
        writers_first: bool,
        leaves: impl FnOnce() -> bool,
        sleepers: &impl Roles,
    ) -> bool {
        let lock = self.name();
        let mut state = state.0;
        let (mut leaves, mut left) = (Some(leaves), 0);
        loop {
            let mut new = match state {
                _ if state & WRITER != 0 => state & !WRITER,
                _ if state & READERS != 0 => state - 1,
                _ => return false,
            };
            let (mut writers, mut readers) = (false, false);
            if new & READERS == 0 {
                writers = new & WRITERS_WAIT != 0;
                readers = new & READERS_WAIT != 0 && !(writers && writers_first);
                if writers || readers {
                    let cleared = if readers { WRITERS_WAIT | READERS_WAIT } else { WRITERS_WAIT };
                    if let Some(leaves) = leaves.take() {
                        left = if leaves() { LEFT } else { 0 };
                    }
                    new = ((new & !cleared) | left).wrapping_add(GATE);
                }
            }
            // Ordering[words.rwlock]: Release. Pairs with who comes next. Makes visible: what was done inside.
            // Point of no return: the lock may be gone.
            match self.0.compare_exchange_weak(state, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    if writers || readers {
                        wake(lock, sleepers, writers, readers, new & READERS_WAIT != 0);
                    }
                    return true;
                }
                Err(now) => state = now,
            }
        }
    }
}

/// After a lock was freed: `readers_stay` says that readers may sleep that are to be woken only if no writer was.
#[cold]
#[inline(never)]
fn wake(lock: usize, sleepers: &impl Roles, writers: bool, readers: bool, readers_stay: bool) {
    let woken = if writers { sleepers.wake_writer(lock) } else { 0 };
    if readers || readers_stay && woken == 0 {
        sleepers.wake_readers(lock);
    }
}
