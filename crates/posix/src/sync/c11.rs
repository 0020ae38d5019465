//! C11's names for mutexes and condition variables; their objects are pthread's.

use super::cond::{
    pthread_cond_broadcast, pthread_cond_destroy, pthread_cond_signal, pthread_cond_timedwait, pthread_cond_wait,
};
use super::mutex::{
    pthread_mutex_destroy, pthread_mutex_lock, pthread_mutex_timedlock, pthread_mutex_trylock, pthread_mutex_unlock,
};
use crate::os::c;
use raddle_macros::entry;
use std::ffi::c_int;

type Mutex = *mut c::pthread_mutex_t;
type Cond = *mut c::pthread_cond_t;

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

fn answer(code: c_int) -> c_int {
    match code {
        0 => SUCCESS,
        c::EBUSY => BUSY,
        c::ENOMEM => NO_MEMORY,
        c::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

macro_rules! c11 {
    ($($name:ident = $function:ident($($argument:ident: $type:ty),*)),* $(,)?) => {$(
        #[entry]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the caller's promise, the same for both names.
            answer(unsafe { $function($($argument),*) })
        }
    )*};
}

c11! {
    mtx_lock = pthread_mutex_lock(mutex: Mutex),
    mtx_trylock = pthread_mutex_trylock(mutex: Mutex),
    mtx_timedlock = pthread_mutex_timedlock(mutex: Mutex, time: *const c::timespec),
    mtx_unlock = pthread_mutex_unlock(mutex: Mutex),
    cnd_wait = pthread_cond_wait(cond: Cond, mutex: Mutex),
    cnd_timedwait = pthread_cond_timedwait(cond: Cond, mutex: Mutex, time: *const c::timespec),
    cnd_signal = pthread_cond_signal(cond: Cond),
    cnd_broadcast = pthread_cond_broadcast(cond: Cond),
}

#[entry]
pub unsafe extern "C" fn mtx_destroy(mutex: Mutex) {
    // SAFETY: the program's mutex, which nobody uses any more.
    unsafe { pthread_mutex_destroy(mutex) };
}

#[entry]
pub unsafe extern "C" fn cnd_destroy(cond: Cond) {
    // SAFETY: the program's condition variable, on which nobody waits any more.
    unsafe { pthread_cond_destroy(cond) };
}
