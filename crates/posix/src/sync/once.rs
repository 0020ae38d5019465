//! `pthread_once`; the word's states stand in [`raddle::drop_in::words::once`].
//!
//! An initialiser that leaves by an exception, a panic or the end of its thread leaves the object as if it had not run,
//! as C++'s `std::call_once` wants. The end of a thread comes by here also where it cannot be unwound, in code without
//! tables for that. One that was in progress in another thread when the process was forked runs again in the child.

use crate::futex::{self, For};
use crate::os::c;
use crate::thread::trampoline;
use raddle::drop_in::words::once::OnceWord;
use raddle_machine::{Real, RealAtomic};
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks behind this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork: what other threads were at is not in progress any more.
pub(crate) extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Says how the initialiser ended.
struct Ending<'a> {
    control: &'a OnceWord<Real>,
    done: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.control.end(self.done, |address| {
            futex::wake(address, usize::MAX);
        });
    }
}

/// # Safety
/// An object of the program, initialised, alive during the call.
unsafe fn once(control: *mut c_int, initialise: extern "C-unwind" fn()) {
    // SAFETY: the caller's promise; the word is an atomic of the object's size, and all that is written is atomic.
    let control = unsafe { &*control.cast::<OnceWord<Real>>() };
    let sleep = |word: &RealAtomic<u32>, state| {
        futex::wait(For::AnInitialiser, futex::plain(word), state, None, false);
    };
    if !control.begin(|| FORKS.load(Ordering::Relaxed), sleep) {
        return;
    }
    let mut ending = Ending { control, done: false };
    let mut buffer = trampoline::Buffer::new();
    // SAFETY: the buffer is unregistered below, or by who unwinds; the call is the program's own.
    if unsafe { trampoline::call_ending(initialise, &mut buffer) } {
        drop(ending);
        // SAFETY: the calling thread ends, and has come to this buffer.
        unsafe { trampoline::end_goes_on(&mut buffer) }
    }
    ending.done = true;
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_once(
    control: *mut c::pthread_once_t,
    initialise: extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's object, initialised.
    unsafe { once(control.cast(), initialise) };
    0
}

/// # Safety
/// As for [`pthread_once`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pthread_once(
    control: *mut c::pthread_once_t,
    initialise: extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the program's object and its initialiser, as the caller got them.
    unsafe { pthread_once(control, initialise) }
}

#[entry]
pub unsafe extern "C-unwind" fn call_once(control: *mut c_int, initialise: extern "C-unwind" fn()) {
    // SAFETY: the caller's object, initialised.
    unsafe { once(control.cast(), initialise) };
}
