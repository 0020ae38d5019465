//! What the drop-in library keeps in a program's own memory: locks and what goes with them, each a word or two of a C
//! object.
//!
//! Source: our own; the objects' outer layout is the C library's (`crates/posix/src/sync`). This file and those below
//! know neither layouts nor entry points, deadlines or cancellation: what sleeps and wakes is passed in.
//!
//! A *sleep* on a word is the kernel's futex, or the table of lightweight threads: it compares the word with what it is
//! to be and falls asleep in one step, as far as a waker is concerned, which changes the word, fences and looks for
//! sleepers ([`Bucket`]).
//!
//! Invariant of a bucket: a waker finds a sleeper, or the sleeper finds the word changed. Events: W the waker's store,
//! F its fence ([`Bucket::before_look`]), R its look; A the sleeper's addition, K its comparison. Forbidden: R misses A
//! and K misses W. A is a sequentially consistent read-modify-write; if R misses it, F precedes it, so W is visible to
//! K.
//!
//! Progress: wait-free. Buckets are never freed.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::words::Bucket;
//! static BUCKET: Bucket<Real> = Bucket::constant();
//! assert!(BUCKET.asleep(|| BUCKET.may_sleep()) && !BUCKET.may_sleep());
//! ```
#![forbid(unsafe_code)]

pub mod barrier;
pub mod condition;
pub mod mutex;
pub mod once;
pub mod request;
pub mod rwlock;
pub mod semaphore;
pub mod visitors;

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// Those who sleep at words, as a waker reaches them: by address, which is a name only, since the object may be gone.
/// They are of several kinds (lightweight and kernel threads) that nobody orders among each other.
pub trait Sleepers {
    /// Wakes so many at most of those who sleep there, of whatever kind. How many.
    fn wake(&self, address: usize, count: usize) -> usize;
    /// Wakes so many of each kind.
    fn wake_each(&self, address: usize, count: usize);
}

/// Where in a word of two halves the high one lies, in bytes: sleepers name their half by its address.
pub const HIGH_HALF: usize = if cfg!(target_endian = "little") { 4 } else { 0 };

/// How many sleep at some words; see the module.
#[repr(transparent)]
pub struct Bucket<M: Machine>(M::Atomic<u32>);

impl Bucket<Real> {
    /// Nobody sleeps, in a constant.
    pub const fn constant() -> Self {
        Self(RealAtomic::<u32>::constant(0))
    }
}

impl<M: Machine> Default for Bucket<M> {
    fn default() -> Self {
        Self(M::Atomic::new(0))
    }
}

impl<M: Machine> Bucket<M> {
    /// `sleep` compares a word, and sleeps.
    pub fn asleep<T>(&self, sleep: impl FnOnce() -> T) -> T {
        // Ordering[words.bucket]: SeqCst. Pairs with the fence in `before_look` (event A).
        // Not weakened: the model has the fence below instead.
        self.0.fetch_add(1, Ordering::SeqCst);
        // Ordering[words.bucket]: SeqCst. Pairs with the fence in `before_look`: what the model has for event A.
        M::model_fence(Ordering::SeqCst);
        let result = sleep();
        // Relaxed: a waker that sees it late asks the kernel in vain.
        self.0.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// A waker has changed the word, and is about to look for sleepers.
    pub fn before_look() {
        // Ordering[words.bucket]: SeqCst. Pairs with the addition in `asleep` (event F), and with the table's waiters.
        M::fence(Ordering::SeqCst);
    }

    /// True if somebody may sleep there. Racy; after [`Bucket::before_look`], false means that who comes later sees the
    /// word changed.
    pub fn may_sleep(&self) -> bool {
        // Relaxed: event R, behind the fence.
        self.0.load(Ordering::Relaxed) != 0
    }
}
