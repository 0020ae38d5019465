//! `pthread_cond_t`: a sequence number to sleep on.
//!
//! A waiter counts itself in and notes the number while it holds the mutex, gives the mutex up, and sleeps while the number is what it was.
//! A signal raises the number and wakes one sleeper of each kind, lightweight and kernel: one of them may be a stranger to it, and
//! wakes spuriously, but none that slept before the signal is passed over for one of the other kind that came later. Among the
//! lightweight threads, as among the kernel's, the one that has waited longest is woken.
//!
//! No signal is lost: a waiter that has noted the number and does not sleep yet sees that it was raised; a wait that ends by its
//! time-out or a cancellation has consumed no wake-up.
//!
//! Lifetime: a waiter reads the number until it sleeps and counts itself out when it has woken; `destroy` waits until all have left.
//! A signal's last access is the raise.

use super::{Until, code, mutex};
use crate::futex::{self, Woken};
use crate::os::c;
use crate::thread::cancel;
use crate::thread::undo::Undo;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

type Raw = *mut c::pthread_cond_t;
type Mutex = *mut c::pthread_mutex_t;

#[repr(C)]
struct Cond {
    sequence: AtomicU32,
    /// Waiters that have not left yet, times two; the lowest bit: somebody waits to destroy.
    waiters: AtomicU32,
    _unused: [u32; 7],
    /// The C library's flags, set by its `init`.
    flags: AtomicU32,
}
const _: () = assert!(size_of::<Cond>() <= size_of::<c::pthread_cond_t>());
const _: () = assert!(std::mem::offset_of!(Cond, flags) == 36);

const DESTROYING: u32 = 1;
const WAITER: u32 = 2;

const PROCESS_SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

impl Cond {
    /// # Safety
    /// A condition variable of the program, initialised, alive during the call.
    unsafe fn of<'a>(cond: Raw) -> &'a Self {
        // SAFETY: as promised; all that is written is atomic.
        unsafe { &*cond.cast() }
    }

    fn is_shared(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & PROCESS_SHARED != 0
    }

    fn clock(&self) -> c::clockid_t {
        if self.flags.load(Ordering::Relaxed) & MONOTONIC != 0 { c::CLOCK_MONOTONIC } else { c::CLOCK_REALTIME }
    }

    /// # Safety
    /// The calling thread holds the mutex.
    unsafe fn wait(&self, mutex: Mutex, until: Until) -> Result<(), c_int> {
        let deadline = until.deadline()?;
        cancel::point();
        self.waiters.fetch_add(WAITER, Ordering::Relaxed);
        // Whoever makes the condition true after us holds the mutex after us, and raises the number after that.
        let before = self.sequence.load(Ordering::Relaxed);
        // SAFETY: the caller's promise.
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
            match futex::wait(&self.sequence, before, deadline, true) {
                // Woken in somebody else's stead: not worth telling the program.
                Woken::LookAgain | Woken::Interrupted if self.sequence.load(Ordering::Relaxed) == before => {}
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
        let address = self.waiters.as_ptr().addr();
        // Release: pairs with `destroy`'s acquire.
        if self.waiters.fetch_sub(WAITER, Ordering::Release) == WAITER | DESTROYING {
            futex::wake(address, usize::MAX);
        }
    }

    #[inline]
    fn wake(&self, count: usize) {
        // A waiter that was there when the condition came true is counted: it did that holding the mutex.
        if self.waiters.load(Ordering::Relaxed) < WAITER {
            return;
        }
        let address = self.sequence.as_ptr().addr();
        // Release: pairs with the look of the wait. From here on the object may be gone.
        self.sequence.fetch_add(1, Ordering::Release);
        futex::wake_each(address, count);
    }

    fn destroy(&self) {
        // Acquire: pairs with `leave`.
        let mut waiters = self.waiters.fetch_or(DESTROYING, Ordering::Acquire) | DESTROYING;
        while waiters >= WAITER {
            futex::wait(&self.waiters, waiters, None, false);
            waiters = self.waiters.load(Ordering::Acquire);
        }
        self.waiters.store(0, Ordering::Relaxed);
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_wait(cond: Raw, mutex: Mutex) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Cond::of(cond) };
    if this.is_shared() {
        // SAFETY: the caller's arguments.
        return unsafe { next_version!(pthread_cond_wait, "GLIBC_2.3.2": fn(Raw, Mutex) -> c_int)(cond, mutex) };
    }
    // SAFETY: the caller holds the mutex.
    code(unsafe { this.wait(mutex, Until::NEVER) })
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(cond: Raw, mutex: Mutex, time: *const c::timespec) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Cond::of(cond) };
    if this.is_shared() {
        // SAFETY: the caller's arguments.
        return unsafe {
            next_version!(pthread_cond_timedwait, "GLIBC_2.3.2": fn(Raw, Mutex, *const c::timespec) -> c_int)(
                cond, mutex, time,
            )
        };
    }
    // SAFETY: the caller's time, used during the call; the caller holds the mutex.
    code(unsafe { Until::new(this.clock(), time).and_then(|until| this.wait(mutex, until)) })
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: Raw,
    mutex: Mutex,
    clock: c::clockid_t,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Cond::of(cond) };
    if this.is_shared() {
        // SAFETY: the caller's arguments.
        return unsafe {
            next!(pthread_cond_clockwait: fn(Raw, Mutex, c::clockid_t, *const c::timespec) -> c_int)(
                cond, mutex, clock, time,
            )
        };
    }
    // SAFETY: the caller's time, used during the call; the caller holds the mutex.
    code(unsafe { Until::new(clock, time).and_then(|until| this.wait(mutex, until)) })
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: Raw) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Cond::of(cond) };
    if this.is_shared() {
        // SAFETY: the caller's argument.
        return unsafe { next_version!(pthread_cond_signal, "GLIBC_2.3.2": fn(Raw) -> c_int)(cond) };
    }
    this.wake(1);
    0
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: Raw) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Cond::of(cond) };
    if this.is_shared() {
        // SAFETY: the caller's argument.
        return unsafe { next_version!(pthread_cond_broadcast, "GLIBC_2.3.2": fn(Raw) -> c_int)(cond) };
    }
    this.wake(usize::MAX);
    0
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(cond: Raw) -> c_int {
    // SAFETY: the caller's object.
    let this = unsafe { Cond::of(cond) };
    if this.is_shared() {
        // SAFETY: the caller's argument.
        return unsafe { next_version!(pthread_cond_destroy, "GLIBC_2.3.2": fn(Raw) -> c_int)(cond) };
    }
    this.destroy();
    0
}
