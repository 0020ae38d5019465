//! The end of a thread and whoever waits for it: one word in the thread's record.
//!
//! Source: our own.
//!
//! Roles: the *thread*, which stores its result and ends, once each; the *handle*, of which there is one, and which
//! waits (several threads may, through it, at once), takes the result, or is dropped.
//!
//! The word is `value << 3 | stored << 2 | kind`; `STORED` says that the result is where the handle finds it and that
//! the thread touches it no more (set for results that need dropping only):
//!
//! | kind | set by | meaning |
//! |---|---|---|
//! | `RUNNING` | the spawn | the handle exists and nobody waits |
//! | `WAITING` | a joiner | `value` is the joiner's record (address / 128) and the low 21 bits of its wait's epoch |
//! | `DETACHED` | the handle's drop | nobody will join: the end frees the record |
//! | [`EXITED`] | the end | the result is there; the handle frees the record |
//!
//! Invariants:
//! - I1: the result goes to one: the handle that finds `EXITED` (a join), or `STORED` or `EXITED` (a drop); or the
//!   thread, which finds `DETACHED` as it stores. All exchange the same word.
//! - I2: the record is freed once: by the handle that finds `EXITED`, or by the end that finds `DETACHED`. After its
//!   exchange the end never reads the record again: the joiner and its epoch come out of the exchanged word.
//! - I3: each that waits is named by the word, or known to one that is awake or waits in turn: who takes the place of
//!   another joiner wakes that one when its own wait is over, for whatever reason; it then looks again.
//! - I4: no other wait of a joiner is ended: the epoch is compared. (21 bits of it: a stale end would need the joiner
//!   to have finished exactly a multiple of 2 million further waits between two instructions of the end.)
//!
//! Progress: wait-free but for retries of exchanges; a joiner waits. Reclamation: I2; joiners' records are type-stable.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `join.word` | [`JoinWord::end`]: all that the thread did | [`JoinWord::has_ended`], [`JoinWord::detach`] |
//! | `join.word` | [`JoinWord::store`]: the result | [`JoinWord::detach`] |
//! | `join.word` | the joiner's exchange: its armed wait | [`JoinWord::end`], `claim_joiner`, another joiner |
//! | `join.word` | [`JoinWord::detach`]: what the handle did with the record | [`JoinWord::store`], [`JoinWord::end`] |
//!
//! # Example
//! ```
//! use raddle_scheduler::Runtime;
//! use raddle_scheduler::join::{Ended, JoinWord};
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! let word = JoinWord::<raddle_machine::Real>::unused();
//! word.begin();
//! std::thread::scope(|s| {
//!     // SAFETY: makes ready whom the end has claimed.
//!     s.spawn(|| assert_eq!(word.end(|joiner| unsafe { KernelThreads::make_ready(joiner) }), Ended::Joined));
//!     // SAFETY: the word outlives the wait; this runtime's records are aligned so.
//!     unsafe { word.wait::<KernelThreads>(None, false, || ()).unwrap() };
//!     assert!(word.has_ended());
//! });
//! ```

use crate::runtime::{Runtime, Waited, wait_until};
use crate::sync::WaitError;
use crate::thread::{Claim, Epoch, Thread, Wake};
use raddle_machine::{Atomic, Machine, Ordering};
use std::cell::Cell;

const RUNNING: u64 = 0;
const WAITING: u64 = 1;
const DETACHED: u64 = 2;
/// The kind of the word of a thread that has ended, for debuggers.
pub const EXITED: u64 = 3;
const STORED: u64 = 4;
const KIND: u64 = 3;
const VALUE: u32 = 3;
const EPOCH_BITS: u32 = 21;
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;
/// Records are aligned so.
const ALIGNED_BITS: u32 = 7;

/// See the module.
#[repr(transparent)]
pub struct JoinWord<M: Machine>(M::Atomic<u64>);

/// Who cares for an ended thread's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the record of a detached thread is the caller's to free"]
pub enum Ended {
    /// The handle.
    Joined,
    /// The caller.
    Detached,
}

/// What became of a handle that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the record of an ended thread is the caller's to free"]
pub enum Dropped {
    /// The thread runs on; its end frees the record.
    Running,
    /// It has ended: the record is the caller's.
    Ended,
}

impl<M: Machine> JoinWord<M> {
    /// Of no thread.
    pub fn unused() -> Self {
        Self(M::Atomic::new(DETACHED))
    }

    /// A thread is about to be made ready, and has a handle.
    #[inline(always)]
    pub fn begin(&self) {
        // Relaxed: the hand-over of the thread publishes it.
        self.0.store(RUNNING, Ordering::Relaxed);
    }

    /// True once the thread has ended: for the handle, its result is there.
    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        // Ordering[join.word]: Acquire. Pairs with `end`. Makes visible: all that the thread did.
        self.0.load(Ordering::Acquire) & KIND == EXITED
    }

    /// The thread has stored a result that needs dropping. True if the handle is gone: the result is the thread's to
    /// drop.
    #[inline]
    pub fn store(&self) -> bool {
        // Ordering[join.word]: AcqRel. Pairs with `detach`, whichever comes first. Makes visible: there the result,
        // here what the handle did before.
        self.0.fetch_or(STORED, Ordering::AcqRel) & KIND == DETACHED
    }

    /// The thread is off its stack for ever, and has its result stored; `ready` makes a joiner ready that was claimed.
    #[inline(always)]
    pub fn end(&self, ready: impl FnOnce(&'static Thread<M>)) -> Ended {
        // Ordering[join.word]: AcqRel. Pairs with `has_ended`, `detach` and the joiner's exchange. Makes visible: there
        // all that the thread did, here the armed wait, or what the handle did.
        // Point of no return: with the exchange a joiner may free the record.
        let word = self.0.swap(EXITED, Ordering::AcqRel);
        match word & KIND {
            DETACHED => return Ended::Detached,
            WAITING => wake(word, ready),
            _ => {}
        }
        Ended::Joined
    }

    /// True while a joiner's wait is named here, which may be over (racy).
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        // Relaxed: a hint, which `claim_joiner` validates.
        self.0.load(Ordering::Relaxed) & KIND == WAITING
    }

    /// The thread is about to end, and can go on to its joiner at once: the joiner, if it waits off its stack and the
    /// caller has claimed its wait. It finds the end by looking again, so the caller lets nobody run it before
    /// [`JoinWord::end`].
    #[inline]
    pub fn claim_joiner(&self) -> Option<&'static Thread<M>> {
        // Ordering[join.word]: Acquire. Pairs with the joiner's exchange. Makes visible: the armed wait.
        let word = self.0.load(Ordering::Acquire);
        if word & KIND != WAITING {
            return None;
        }
        let (joiner, epoch) = waiting(word)?;
        (joiner.claim_parked(epoch, Wake::Signalled) == Claim::WonParked).then_some(joiner)
    }

    /// As [`JoinWord::end`], called by who has the handle, does not wait, and goes on when this returns.
    #[inline(always)]
    pub fn end_here(&self) {
        // Relaxed: the handle does not leave the caller.
        self.0.store(EXITED, Ordering::Relaxed);
    }

    /// The handle is dropped. `take` is called once if the thread has left a result that needs dropping, and touches it
    /// no more.
    pub fn detach(&self, take: impl FnOnce()) -> Dropped {
        let mut take = Some(take);
        // Ordering[join.word]: Acquire. Pairs with `store` and `end`. Makes visible: the result.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let ended = word & KIND == EXITED;
            if (ended || word & STORED != 0)
                && let Some(take) = take.take()
            {
                take();
            }
            if ended {
                return Dropped::Ended;
            }
            // Ordering[join.word]: Release. Pairs with `store` and `end`. Makes visible: there what the handle did.
            // Failed, Acquire: here, the result.
            match self.0.compare_exchange(word, DETACHED | word & STORED, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Dropped::Running,
                Err(now) => word = now,
            }
        }
    }

    /// Blocks until the thread has ended, or gives up. A joiner that gives up leaves the name of a wait that is over in
    /// the word, which the end then does not find. `note` is called before each wait.
    ///
    /// # Errors
    /// The deadline has passed, or, with `cancellable`, the caller was cancelled.
    ///
    /// # Safety
    /// The handle keeps the record from being freed meanwhile. The runtime's records of threads lie at multiples of 128
    /// bytes.
    pub unsafe fn wait<R: Runtime<Machine = M>>(
        &self,
        deadline: Option<u64>,
        cancellable: bool,
        note: impl Fn(),
    ) -> Result<(), WaitError> {
        while !self.has_ended() {
            note();
            let replaced = Cell::new(RUNNING);
            // SAFETY: the end claims the wait that it finds in the word, or another joiner does below.
            let waited = unsafe {
                let publish = |me, epoch| replaced.set(self.name(me, epoch));
                wait_until::<R>(deadline, cancellable, publish, || self.has_ended())
            };
            if replaced.get() & KIND == WAITING {
                // SAFETY: called once, with the claim won.
                wake(replaced.get(), |joiner| unsafe { R::make_ready(joiner) });
            }
            match waited {
                Waited::Woken(Wake::TimedOut) if !self.has_ended() => return Err(WaitError::TimedOut),
                Waited::Woken(Wake::Cancelled) if !self.has_ended() => return Err(WaitError::Cancelled),
                _ => {}
            }
        }
        Ok(())
    }

    /// Names a joiner's wait in the word, unless the thread has ended: what was there before.
    fn name(&self, me: &'static Thread<M>, epoch: Epoch) -> u64 {
        let waiting = pack(me, epoch);
        // Relaxed: validated by the exchange.
        let mut word = self.0.load(Ordering::Relaxed);
        while word & KIND != EXITED {
            // Ordering[join.word]: AcqRel. Pairs with `end`, and with the exchange of a joiner that comes later or came
            // before. Makes visible: the armed waits.
            match self.0.compare_exchange_weak(word, waiting | word & STORED, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return word,
                Err(now) => word = now,
            }
        }
        RUNNING
    }
}

/// The word of a joiner that waits.
fn pack<M: Machine>(joiner: &'static Thread<M>, epoch: Epoch) -> u64 {
    let address = std::ptr::from_ref(joiner).expose_provenance() as u64;
    debug_assert!(address.trailing_zeros() >= ALIGNED_BITS && address >> 47 == 0);
    (address >> ALIGNED_BITS) << (VALUE + EPOCH_BITS) | (epoch.to_bits() & EPOCH_MASK) << VALUE | WAITING
}

/// The joiner that the word names, and its wait, if it still waits there.
#[inline]
fn waiting<M: Machine>(word: u64) -> Option<(&'static Thread<M>, Epoch)> {
    let address = (word >> (VALUE + EPOCH_BITS) << ALIGNED_BITS) as usize;
    // SAFETY: the address of a type-stable record, exposed by `pack`.
    let joiner: &'static Thread<M> = unsafe { &*std::ptr::with_exposed_provenance(address) };
    let epoch = joiner.current_wait()?;
    (epoch.to_bits() & EPOCH_MASK == word >> VALUE & EPOCH_MASK).then_some((joiner, epoch))
}

/// Wakes the joiner that the word names, if it still waits there.
fn wake<M: Machine>(word: u64, ready: impl FnOnce(&'static Thread<M>)) {
    if let Some((joiner, epoch)) = waiting(word)
        && joiner.claim(epoch, Wake::Signalled) == Claim::WonParked
    {
        ready(joiner);
    }
}
