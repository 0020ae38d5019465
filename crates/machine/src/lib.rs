//! The door to the world: atomics, fences, time, randomness and waiting.
//!
//! `queues` and `scheduler` are written once against [`Machine`] and run on several of them: [`Real`] (the operating
//! system), `Loom` (feature `loom`: every interleaving and weak ordering, in tests) and, later, a controlled one under
//! a model checker or virtual time. Architecture invariant: nothing in this crate knows what a thread or a queue is.
//!
//! # Example
//! ```
//! use raddle_machine::{Atomic, Machine, Ordering, Real};
//! fn bump<M: Machine>(counter: &M::Atomic<u64>) -> u64 {
//!     counter.fetch_add(1, Ordering::Relaxed)
//! }
//! let counter = <Real as Machine>::Atomic::<u64>::new(41);
//! assert_eq!(bump::<Real>(&counter), 41);
//! assert_eq!(counter.load(Ordering::Relaxed), 42);
//! ```

mod atomic;
#[doc(hidden)]
pub mod child;
#[cfg(feature = "loom")]
mod loom_machine;
#[doc(hidden)]
pub mod raw;
mod real;
#[cfg(not(miri))]
#[doc(hidden)]
pub mod vdso;

pub use atomic::{Atomic, Integer, Word};
#[cfg(feature = "loom")]
pub use loom_machine::Loom;
pub use real::{Deadline, Real, RealAtomic, left_until};
pub use std::sync::atomic::Ordering;
/// True while the calling thread unwinds: what poisoning asks.
pub use std::thread::panicking;

use std::alloc::Layout;

/// A world in which lock-free code runs.
///
/// Implementations are zero-sized tags; all functions are associated, so that the production build of generic code is
/// the same machine code as one written against `std::sync::atomic`.
///
/// # Safety
/// Unsafe code reads shared memory on the word of these functions: fences and the operations of [`Machine::Atomic`]
/// order as they say, [`Machine::heavy_fence`] returns only when it has done what it promises, and memory of
/// [`Machine::map`] is nobody else's.
pub unsafe trait Machine: Copy + Send + Sync + Sized + 'static {
    /// An atomic word.
    type Atomic<T: Word>: Atomic<T>;

    /// A fence of the given ordering (as `std::sync::atomic::fence`).
    fn fence(order: Ordering);

    /// The cheap side of an asymmetric fence: orders the caller's earlier stores before its later loads, provided that
    /// the other side runs [`Machine::heavy_fence`]. On [`Real`] it only stops the compiler.
    fn light_fence();

    /// The dear side: on return, every other kernel thread of the process has passed a full barrier since the call
    /// began (`membarrier`, 2 to 4 µs on [`Real`]). Models treat both sides as sequentially consistent fences.
    fn heavy_fence();

    /// Between two sequentially consistent accesses of one thread, the first of them a read-modify-write: nothing, on a
    /// machine that keeps the total order of such accesses. A model that takes them for acquire and release alone needs
    /// a fence instead.
    #[inline(always)]
    fn model_fence(order: Ordering) {
        let _ = order;
    }

    /// Monotonic time in nanoseconds from an arbitrary origin.
    fn now() -> u64;

    /// A random word; need not be cryptographic. Models return values from their seed.
    fn random() -> u64;

    /// Tells the core that the caller spins.
    fn spin_hint();

    /// Brings the cache line at `address` closer, if the machine has caches. Any address will do.
    #[inline(always)]
    fn prefetch(address: usize) {
        let _ = address;
    }

    /// Memory of this layout, or null where there is none. On [`Real`] straight from the kernel: who asks may be in the
    /// middle of the allocator, or be what somebody waits for who is. Whole pages, so for what is large.
    ///
    /// # Safety
    /// The layout has a size, and is aligned to at most a page.
    unsafe fn map(layout: Layout) -> *mut u8 {
        // SAFETY: the layout has a size, by the caller's promise.
        unsafe { std::alloc::alloc(layout) }
    }

    /// Gives back what [`Machine::map`] answered.
    ///
    /// # Safety
    /// `memory` came from there with this layout, and nobody uses it.
    unsafe fn unmap(memory: *mut u8, layout: Layout) {
        // SAFETY: it came from `alloc` above with this layout, and is used no more, by the caller's promise.
        unsafe { std::alloc::dealloc(memory, layout) }
    }

    /// Blocks the calling kernel thread while `*word == expected`, until a [`Machine::wake`], the absolute time
    /// `deadline` ([`Machine::now`]'s clock), a signal or for no reason at all: callers look again.
    fn wait(word: &Self::Atomic<u32>, expected: u32, deadline: Option<u64>);

    /// Wakes at most `count` waiters of `word`.
    fn wake(word: &Self::Atomic<u32>, count: u32);
}
