//! System V's semaphores and messages: calls that wait in the kernel and that no handler restarts. A signal of ours
//! ends them as any signal would; here they begin again, unless a handler of the program's has run.

use super::{dump_signal, signals, watch};
use crate::io::left;
use crate::os::{answer, c, deadline_after, reach};
use crate::thread::caller::Caller;
use raddle_macros::entry;
use std::ffi::{c_int, c_long, c_void};

/// Repeats `call`, which answers in the C library's form, while nothing but a signal of ours has ended it.
fn uncut(call: impl Fn() -> isize) -> isize {
    // SAFETY: the C library's place for it, in the calling thread's own storage.
    let kernels = |result: isize| if result == -1 { -(unsafe { *c::__errno_location() } as isize) } else { result };
    match Caller::here() {
        Caller::Light(_) => {}
        Caller::Handler(_) => return answer(watch::tell(watch::uncut(|| kernels(call())))),
        Caller::Native => return dump_signal::uncut(None, || call() as c_int, |_| call() as c_int) as isize,
    }
    let handlers = watch::begin();
    loop {
        let kicks = signals::kicks_here();
        let result = call();
        let cut = kernels(result) == -(c::EINTR as isize);
        if !cut || handlers.interrupted() || signals::kicks_here() == kicks {
            if cut {
                watch::tell(-(c::EINTR as isize));
            }
            return result;
        }
    }
}

#[entry]
pub unsafe extern "C-unwind" fn semop(set: c_int, operations: *mut c_void, count: usize) -> c_int {
    uncut(|| natively!() as isize) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn semtimedop(
    set: c_int,
    operations: *mut c_void,
    count: usize,
    time: *const c::timespec,
) -> c_int {
    let next = next!(semtimedop: fn(c_int, *mut c_void, usize, *const c::timespec) -> c_int);
    // On kernel threads the kernel looks first.
    let cut = (dump_signal::is_caught() || !matches!(Caller::here(), Caller::Native)) && reach::reads(time);
    // SAFETY: the caller's time.
    let deadline = cut.then(|| deadline_after(unsafe { &*time }));
    let Some(Ok(deadline)) = deadline else {
        // SAFETY: the caller's arguments.
        return uncut(|| unsafe { next(set, operations, count, time) } as isize) as c_int;
    };
    let call = || {
        let left = left(Some(deadline));
        // SAFETY: the caller's arguments, a time on the stack.
        (unsafe { next(set, operations, count, left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)) }) as isize
    };
    uncut(call) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn msgrcv(
    queue: c_int,
    message: *mut c_void,
    size: usize,
    kind: c_long,
    flags: c_int,
) -> isize {
    uncut(|| natively!())
}

#[entry]
pub unsafe extern "C-unwind" fn msgsnd(queue: c_int, message: *const c_void, size: usize, flags: c_int) -> c_int {
    uncut(|| natively!() as isize) as c_int
}
