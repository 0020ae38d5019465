//! The threads of C11, which are those of POSIX under other names. (`tss_*` follow the thread pointer and need
//! nothing.)

use super::create::{Wanted, create, passes_through};
use super::record::Start;
use super::{exit, identity, join};
use crate::os::c;
use raddle_macros::entry;
use std::ffi::{c_int, c_void};

const SUCCESS: c_int = 0;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;

type Body = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

#[entry(if !raddle::drop_in::is_native() && !passes_through())]
pub unsafe extern "C" fn thrd_create(id: *mut c::pthread_t, start: Body, argument: *mut c_void) -> c_int {
    if raddle::drop_in::is_marked() {
        // SAFETY: both conventions return in the same register; the caller's arguments.
        return unsafe {
            match super::dedicated::create(id, std::ptr::null(), std::mem::transmute::<Body, Start>(start), argument) {
                0 => SUCCESS,
                c::EAGAIN | c::ENOMEM => NO_MEMORY,
                _ => ERROR,
            }
        };
    }
    // The low half of the result's register is the `int`: `thrd_join` looks at no more.
    // SAFETY: both conventions return in the same register; the caller's arguments.
    unsafe {
        let start = std::mem::transmute::<Body, Start>(start);
        match create(id, &Wanted::of(std::ptr::null()), start, argument) {
            0 => SUCCESS,
            c::EAGAIN | c::ENOMEM => NO_MEMORY,
            _ => ERROR,
        }
    }
}

#[entry]
pub unsafe extern "C-unwind" fn thrd_join(id: c::pthread_t, result: *mut c_int) -> c_int {
    let mut value = std::ptr::null_mut();
    // SAFETY: the caller's id.
    if unsafe { join::pthread_join(id, &mut value) } != 0 {
        return ERROR;
    }
    if !result.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *result = value.addr() as c_int };
    }
    SUCCESS
}

#[entry]
pub unsafe extern "C" fn thrd_detach(id: c::pthread_t) -> c_int {
    // SAFETY: the caller's id.
    if unsafe { join::pthread_detach(id) } == 0 { SUCCESS } else { ERROR }
}

#[entry]
pub unsafe extern "C-unwind" fn thrd_exit(result: c_int) -> ! {
    // SAFETY: the caller's own end.
    unsafe { exit::pthread_exit(std::ptr::without_provenance_mut(result as isize as usize)) }
}

#[entry]
pub unsafe extern "C" fn thrd_current() -> c::pthread_t {
    // SAFETY: takes nothing.
    unsafe { identity::pthread_self() }
}

#[entry]
pub unsafe extern "C" fn thrd_equal(one: c::pthread_t, other: c::pthread_t) -> c_int {
    c_int::from(one == other)
}

#[entry]
pub unsafe extern "C-unwind" fn thrd_sleep(time: *const c::timespec, left: *mut c::timespec) -> c_int {
    // SAFETY: the caller's arguments; the C library's clock of it is this one.
    match unsafe { crate::io::clock_nanosleep(c::CLOCK_REALTIME, 0, time, left) } {
        0 => 0,
        c::EINTR => -1,
        _ => -2,
    }
}

#[entry]
pub unsafe extern "C" fn thrd_yield() {
    crate::io::sleep::give_way();
}
