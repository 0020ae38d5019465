//! `pthread_cond_t`: a sequence number to sleep on.
//!
//! How it waits, and why no signal is lost: [`raddle::drop_in::words::condition`]. A signal wakes one sleeper of each
//! kind, lightweight and kernel: one of them may be a stranger to it, and wakes spuriously, but none that slept before
//! the signal is passed over for one of the other kind that came later. Among the lightweight threads, as among the
//! kernel's, the one that has waited longest is woken. A wait that ends by its time-out or a cancellation has consumed
//! no wake-up.

use super::{Until, code, mutex};
use crate::futex::{self, For, Woken};
use crate::os::c;
use crate::thread::cancel;
use crate::thread::undo::Undo;
use raddle::drop_in::words::condition::Condition;
use raddle_machine::Real;
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

type Raw = *mut c::pthread_cond_t;
type Mutex = *mut c::pthread_mutex_t;

#[repr(C)]
struct Cond {
    words: Condition<Real>,
    _unused: [u32; 7],
    /// The C library's flags, set by its `init`.
    flags: AtomicU32,
}
const _: () = assert!(size_of::<Cond>() <= size_of::<c::pthread_cond_t>());
const _: () = assert!(std::mem::offset_of!(Cond, flags) == 36);

const PROCESS_SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

impl Cond {
    /// None for one that is shared with other processes: it is the C library's.
    ///
    /// # Safety
    /// A condition variable of the program, initialised, alive during the call.
    unsafe fn private<'a>(cond: Raw) -> Option<&'a Self> {
        // SAFETY: as promised; all that is written is atomic.
        let this: &Self = unsafe { &*cond.cast() };
        (this.flags.load(Ordering::Relaxed) & PROCESS_SHARED == 0).then_some(this)
    }

    fn clock(&self) -> c::clockid_t {
        if self.flags.load(Ordering::Relaxed) & MONOTONIC != 0 { c::CLOCK_MONOTONIC } else { c::CLOCK_REALTIME }
    }

    /// # Safety
    /// The calling thread holds the mutex.
    unsafe fn wait(&self, mutex: Mutex, until: Until) -> Result<(), c_int> {
        let deadline = until.deadline()?;
        cancel::point();
        let before = self.words.arrive();
        // SAFETY: the calling thread holds the mutex.
        if let Err(error) = unsafe { mutex::unlock_to_wait(mutex) } {
            self.leave();
            return Err(error);
        }
        // With the mutex, as after a cancellation.
        let undo = Undo::new(|| {
            self.leave();
            // SAFETY: given up above.
            let _ = unsafe { mutex::relock(mutex) };
        });
        let woken = loop {
            match futex::wait(For::ACondition, futex::plain(self.words.sequence()), before, deadline, true) {
                // Woken in somebody else's stead: not worth telling the program.
                Woken::LookAgain | Woken::Interrupted if !self.words.was_signalled(before) => {}
                woken => break woken,
            }
        };
        undo.forget();
        self.leave();
        // SAFETY: given up above.
        unsafe { mutex::relock(mutex)? };
        match woken {
            Woken::TimedOut => Err(c::ETIMEDOUT),
            // With the mutex, which the program's clean-up handlers give up.
            Woken::Cancelled => {
                cancel::point();
                Ok(())
            }
            Woken::LookAgain | Woken::Interrupted => Ok(()),
        }
    }

    /// The last access of a waiter.
    fn leave(&self) {
        self.words.leave(&futex::All);
    }

    #[inline]
    fn wake(&self, count: usize) {
        self.words.signal(count, &futex::All);
    }

    fn destroy(&self) {
        self.words.destroy(|word, expected| {
            futex::wait(For::ACondition, futex::plain(word), expected, None, false);
        });
    }
}

#[entry(version "GLIBC_2.3.2", if let Some(this) = Cond::private(cond))]
pub unsafe extern "C-unwind" fn pthread_cond_wait(cond: Raw, mutex: Mutex) -> c_int {
    // SAFETY: the caller holds the mutex.
    code(unsafe { this.wait(mutex, Until::NEVER) })
}

#[entry(version "GLIBC_2.3.2", if let Some(this) = Cond::private(cond))]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(cond: Raw, mutex: Mutex, time: *const c::timespec) -> c_int {
    // SAFETY: the caller's time, used during the call; the caller holds the mutex.
    code(unsafe { Until::new(this.clock(), time).and_then(|until| this.wait(mutex, until)) })
}

#[entry(if let Some(this) = Cond::private(cond))]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: Raw,
    mutex: Mutex,
    clock: c::clockid_t,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: the caller's time, used during the call; the caller holds the mutex.
    code(unsafe { Until::new(clock, time).and_then(|until| this.wait(mutex, until)) })
}

#[entry(version "GLIBC_2.3.2", if let Some(this) = Cond::private(cond))]
pub unsafe extern "C" fn pthread_cond_signal(cond: Raw) -> c_int {
    this.wake(1);
    0
}

#[entry(version "GLIBC_2.3.2", if let Some(this) = Cond::private(cond))]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: Raw) -> c_int {
    this.wake(usize::MAX);
    0
}

#[entry(version "GLIBC_2.3.2", if let Some(this) = Cond::private(cond))]
pub unsafe extern "C" fn pthread_cond_destroy(cond: Raw) -> c_int {
    this.destroy();
    0
}
