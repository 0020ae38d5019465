//! `pthread_barrier_t`: who has come and in which round ([`raddle::drop_in::words::barrier`]).
//!
//! Lifetime: the thread that gets `PTHREAD_BARRIER_SERIAL_THREAD` may destroy the barrier while others are about to
//! leave; `destroy` waits for them.

use crate::futex::{self, For};
use crate::os::c;
use raddle::drop_in::words::barrier::Rounds;
use raddle::drop_in::words::visitors::Visitors;
use raddle_machine::Real;
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

type Raw = *mut c::pthread_barrier_t;

#[repr(C)]
struct Barrier {
    rounds: Rounds<Real>,
    /// From here on as the C library's `init` leaves it.
    count: AtomicU32,
    /// Not 0 when shared with other processes.
    shared: AtomicU32,
    inside: Visitors<Real>,
}
const _: () = assert!(size_of::<Barrier>() <= size_of::<c::pthread_barrier_t>());

impl Barrier {
    /// None for one that is shared with other processes: it is the C library's.
    ///
    /// # Safety
    /// A barrier of the program, initialised, alive during the call.
    unsafe fn private<'a>(barrier: Raw) -> Option<&'a Self> {
        // SAFETY: as promised; all that is written is atomic.
        let this: &Self = unsafe { &*barrier.cast() };
        (this.shared.load(Ordering::Relaxed) == 0).then_some(this)
    }

    fn wait(&self) -> c_int {
        let count = self.count.load(Ordering::Relaxed);
        let sleep = |rounds: &Rounds<Real>, round| {
            futex::wait(For::ABarrier, futex::high_half(rounds.word()), round, None, false);
        };
        let last = self.rounds.pass(&self.inside, count, sleep, &futex::All);
        if last { c::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
    }

    fn destroy(&self) {
        self.inside.destroy(|word, inside| {
            futex::wait(For::ABarrier, futex::plain(word), inside, None, false);
        });
    }
}

#[entry(if let Some(this) = Barrier::private(barrier))]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: Raw) -> c_int {
    this.wait()
}

#[entry(if let Some(this) = Barrier::private(barrier))]
pub unsafe extern "C" fn pthread_barrier_destroy(barrier: Raw) -> c_int {
    this.destroy();
    0
}
