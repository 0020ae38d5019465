//! `sem_t`: the C library's own layout, so that its `init`, `destroy` and `getvalue` serve; process-shared and named
//! semaphores are its own.
//!
//! `sem_post` may come from a signal handler: it raises the value and wakes one waiter, and takes no lock.
//!
//! None starves behind a thread that takes it again and again: [`super::starving`].

use super::Until;
use super::starving::{Patience, leaves};
use crate::futex::{self, For, Woken};
use crate::os::{c, failed};
use crate::process::watch;
use crate::thread::cancel;
use crate::thread::undo::Undo;
use raddle::drop_in::words::semaphore::{Overflows, SemaphoreWord, Slept};
use raddle_machine::Real;
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

type Raw = *mut c::sem_t;

#[repr(C)]
struct Semaphore {
    /// The value in the low half, the number of waiters in the high one, and whether a permit is left for one of them.
    word: SemaphoreWord<Real>,
    /// Not 0 when shared with other processes.
    shared: AtomicU32,
    /// Not 0 once a waiter was too late again and again. The C library has no use for it and does not set it: a hint.
    starved: AtomicU32,
}

const _: () = assert!(size_of::<Semaphore>() <= size_of::<c::sem_t>());

impl Semaphore {
    /// # Safety
    /// A semaphore of the program, initialised, alive during the call.
    unsafe fn of<'a>(semaphore: Raw) -> &'a Self {
        // SAFETY: as promised; all that is written is atomic.
        unsafe { &*semaphore.cast() }
    }

    /// None for one that is shared with other processes: it is the C library's.
    ///
    /// # Safety
    /// As for [`Semaphore::of`].
    unsafe fn private<'a>(semaphore: Raw) -> Option<&'a Self> {
        // SAFETY: a semaphore of the program, which lives during the call.
        let this = unsafe { Self::of(semaphore) };
        (this.shared.load(Ordering::Relaxed) == 0).then_some(this)
    }

    /// The half that waiters sleep on.
    fn value(word: &SemaphoreWord<Real>) -> &AtomicU32 {
        const { assert!(cfg!(target_endian = "little")) };
        // SAFETY: the first half of a live atomic word; the futex protocol reads it only.
        unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut().cast()) }
    }

    #[inline(always)]
    fn wait(&self, until: Until) -> Result<(), c_int> {
        cancel::point();
        if self.word.take_unless_left() { Ok(()) } else { self.wait_slow(until) }
    }

    #[cold]
    #[inline(never)]
    fn wait_slow(&self, until: Until) -> Result<(), c_int> {
        if self.word.is_left() {
            crate::io::sleep::give_way();
        }
        if raddle::drop_in::is_lightweight() && raddle::drop_in::yield_before_wait() && self.word.take() {
            return Ok(());
        }
        let deadline = until.deadline()?;
        // Most waits are for what another thread has yet to do: the clock is asked once one was woken too late.
        let (mut patience, mut was_too_late) = (Patience::default(), false);
        self.word
            .wait_for(|word| {
                if std::mem::replace(&mut was_too_late, true) {
                    patience.sleeps(&self.starved);
                }
                let undo = Undo::new(|| word.leave());
                let woken = futex::wait(For::ASemaphore, Self::value(word), 0, deadline, true);
                undo.forget();
                match woken {
                    Woken::LookAgain => Slept::LookAgain,
                    Woken::Interrupted => Slept::Interrupted(c::EINTR),
                    Woken::TimedOut => Slept::Over(c::ETIMEDOUT),
                    Woken::Cancelled => {
                        word.leave();
                        cancel::point();
                        word.arrive();
                        Slept::LookAgain
                    }
                }
            })
            .map_err(|error| -watch::tell(-(error as isize)) as c_int)
    }

    #[inline(always)]
    fn post(&self) -> Result<(), c_int> {
        self.word.post(|| leaves(&self.starved), wake_one).map_err(|Overflows| c::EOVERFLOW)
    }
}

#[cold]
#[inline(never)]
fn wake_one(address: usize) {
    futex::wake(address, 1);
}

/// 0, or -1 with `errno`.
#[inline(always)]
fn answer(result: Result<(), c_int>) -> c_int {
    result.map_or_else(failed, |()| 0)
}

#[entry(if let Some(this) = Semaphore::private(semaphore))]
pub unsafe extern "C-unwind" fn sem_wait(semaphore: Raw) -> c_int {
    answer(this.wait(Until::NEVER))
}

#[entry(if let Some(this) = Semaphore::private(semaphore))]
pub unsafe extern "C-unwind" fn sem_timedwait(semaphore: Raw, time: *const c::timespec) -> c_int {
    // SAFETY: the caller's time, used during the call.
    answer(unsafe { Until::checked(c::CLOCK_REALTIME, time) }.and_then(|until| this.wait(until)))
}

#[entry(if let Some(this) = Semaphore::private(semaphore))]
pub unsafe extern "C-unwind" fn sem_clockwait(semaphore: Raw, clock: c::clockid_t, time: *const c::timespec) -> c_int {
    // SAFETY: the caller's time, used during the call.
    answer(unsafe { Until::checked(clock, time) }.and_then(|until| this.wait(until)))
}

#[entry]
#[unsafe(link_section = "raddle_leaves")]
pub unsafe extern "C" fn sem_trywait(semaphore: Raw) -> c_int {
    // SAFETY: the caller's object. A shared one has the same layout, and nobody is woken here.
    let this = unsafe { Semaphore::of(semaphore) };
    answer(code_or(this.word.take(), c::EAGAIN))
}

#[entry(if let Some(this) = Semaphore::private(semaphore))]
#[unsafe(link_section = "raddle_leaves")]
pub unsafe extern "C" fn sem_post(semaphore: Raw) -> c_int {
    answer(this.post())
}

fn code_or(done: bool, error: c_int) -> Result<(), c_int> {
    if done { Ok(()) } else { Err(error) }
}
