//! `pthread_once`: 0 not yet, 2 done (the C library's value), in progress: 1 and the number of forks times four.
//!
//! An initialiser that leaves by an exception, a panic or the end of its thread leaves the object as if it had not run,
//! as C++'s `std::call_once` wants. The end of a thread comes by here also where it cannot be unwound, in code without
//! tables for that. One that was in progress in another thread when the process was forked runs again in the child.

use crate::futex::{self, For};
use crate::os::c;
use crate::thread::trampoline;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

const NOT_YET: u32 = 0;
const IN_PROGRESS: u32 = 1;
const DONE: u32 = 2;
const FORK: u32 = 4;

/// Forks behind this process, times [`FORK`].
static FORKS: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork: what other threads were at is not in progress any more.
pub(crate) fn forked() {
    FORKS.fetch_add(FORK, Ordering::Relaxed);
}

/// Says how the initialiser ended.
struct Ending<'a> {
    control: &'a AtomicU32,
    state: u32,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let address = self.control.as_ptr().addr();
        // Release: pairs with the acquire of those who find it done.
        self.control.store(self.state, Ordering::Release);
        futex::wake(address, usize::MAX);
    }
}

fn once(control: &AtomicU32, initialise: extern "C-unwind" fn()) {
    loop {
        // Acquire: pairs with `Ending`.
        let state = control.load(Ordering::Acquire);
        if state == DONE {
            return;
        }
        let mine = IN_PROGRESS | FORKS.load(Ordering::Relaxed);
        if state == mine {
            futex::wait(For::AnInitialiser, control, state, None, false);
            continue;
        }
        // Not yet, or in progress in a parent process.
        if control.compare_exchange(state, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let mut ending = Ending { control, state: NOT_YET };
            let mut buffer = trampoline::Buffer::new();
            // SAFETY: the buffer is unregistered below, or by who unwinds; the call is the program's own.
            if unsafe { trampoline::call_ending(initialise, &mut buffer) } {
                drop(ending);
                // SAFETY: the calling thread ends, and has come to this buffer.
                unsafe { trampoline::end_goes_on(&mut buffer) }
            }
            ending.state = DONE;
            return;
        }
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(
    control: *mut c::pthread_once_t,
    initialise: extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's object, initialised.
    once(unsafe { AtomicU32::from_ptr(control.cast()) }, initialise);
    0
}

/// # Safety
/// As for [`pthread_once`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pthread_once(
    control: *mut c::pthread_once_t,
    initialise: extern "C-unwind" fn(),
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { pthread_once(control, initialise) }
}

/// # Safety
/// As C11 says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(control: *mut c_int, initialise: extern "C-unwind" fn()) {
    // SAFETY: the caller's object, initialised.
    once(unsafe { AtomicU32::from_ptr(control.cast()) }, initialise);
}
