//! `pthread_barrier_t`: who has come and in which round, in one word.
//!
//! Lifetime: the thread that gets `PTHREAD_BARRIER_SERIAL_THREAD` may destroy the barrier while others are about to
//! leave; `destroy` waits for them.

use crate::futex::{self, For};
use crate::os::c;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

type Raw = *mut c::pthread_barrier_t;

#[repr(C)]
struct Barrier {
    /// Threads that have come to this round in the low half, the round in the high one.
    state: AtomicU64,
    /// From here on as the C library's `init` leaves it.
    count: AtomicU32,
    /// Not 0 when shared with other processes.
    shared: AtomicU32,
    /// Threads inside, times two; the lowest bit: somebody waits to destroy.
    inside: AtomicU32,
}
const _: () = assert!(size_of::<Barrier>() <= size_of::<c::pthread_barrier_t>());

const ROUND: u64 = 1 << 32;
const DESTROYING: u32 = 1;
const THREAD: u32 = 2;

impl Barrier {
    /// # Safety
    /// A barrier of the program, initialised, alive during the call.
    unsafe fn of<'a>(barrier: Raw) -> &'a Self {
        // SAFETY: as promised; all that is written is atomic.
        unsafe { &*barrier.cast() }
    }

    fn round(&self) -> &AtomicU32 {
        // SAFETY: the second half of a live atomic word (little-endian); it is read only.
        unsafe { AtomicU32::from_ptr(self.state.as_ptr().cast::<u32>().add(1)) }
    }

    fn wait(&self) -> c_int {
        self.inside.fetch_add(THREAD, Ordering::Relaxed);
        let count = u64::from(self.count.load(Ordering::Relaxed));
        let mut state = self.state.load(Ordering::Relaxed);
        let (round, last) = loop {
            let last = (state & (ROUND - 1)) + 1 == count;
            let new = if last { (state & !(ROUND - 1)).wrapping_add(ROUND) } else { state + 1 };
            // AcqRel: whoever comes last has seen what all did before, and those who leave see it through the round.
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break ((state >> 32) as u32, last),
                Err(now) => state = now,
            }
        };
        if last {
            futex::wake(self.round().as_ptr().addr(), usize::MAX);
        } else {
            // Acquire: pairs with the exchange that began the next round.
            while self.round().load(Ordering::Acquire) == round {
                futex::wait(For::ABarrier, self.round(), round, None, false);
            }
        }
        let address = self.inside.as_ptr().addr();
        // Release: pairs with `destroy`. The last access.
        if self.inside.fetch_sub(THREAD, Ordering::Release) == THREAD | DESTROYING {
            futex::wake(address, usize::MAX);
        }
        if last { c::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
    }

    fn destroy(&self) {
        // Acquire: pairs with the last access of those who leave.
        let mut inside = self.inside.fetch_or(DESTROYING, Ordering::Acquire) | DESTROYING;
        while inside >= THREAD {
            futex::wait(For::ABarrier, &self.inside, inside, None, false);
            inside = self.inside.load(Ordering::Acquire);
        }
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: Raw) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Barrier::of(barrier) };
    if this.shared.load(Ordering::Relaxed) != 0 {
        // SAFETY: the caller's argument.
        return unsafe { next!(pthread_barrier_wait: fn(Raw) -> c_int)(barrier) };
    }
    this.wait()
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: Raw) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Barrier::of(barrier) };
    if this.shared.load(Ordering::Relaxed) != 0 {
        // SAFETY: the caller's argument.
        return unsafe { next!(pthread_barrier_destroy: fn(Raw) -> c_int)(barrier) };
    }
    this.destroy();
    0
}
