//! Creating, joining and detaching.

use super::record::{DETACHED, ENDED, JOINABLE, JOINING, Record};
use crate::os::c;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The stack of a thread whose attributes do not say: what the C library would take (`ulimit -s`), at least the kernel's default.
const STACK: usize = 8 << 20;

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    id: *mut c::pthread_t,
    attributes: *const c::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    if raddle::drop_in::is_native() || !crate::start::lightweight() {
        let create =
            next!(pthread_create: fn(*mut c::pthread_t, *const c::pthread_attr_t, Start, *mut c_void) -> c_int);
        // SAFETY: the caller's arguments.
        return unsafe { create(id, attributes, start, argument) };
    }
    let (mut detached, mut stack) = (false, STACK);
    if !attributes.is_null() {
        let mut state = 0;
        // SAFETY: initialised attributes, as POSIX asks of the caller.
        unsafe {
            c::pthread_attr_getdetachstate(attributes, &mut state);
            c::pthread_attr_getstacksize(attributes, &mut stack);
        }
        detached = state == c::PTHREAD_CREATE_DETACHED;
    }
    let record = Box::into_raw(Box::new(Record {
        state: AtomicU32::new(if detached { DETACHED } else { JOINABLE }),
        handle: AtomicPtr::new(std::ptr::null_mut()),
        start,
        argument,
    }));
    let own = record.expose_provenance();
    let body = move || {
        let record = std::ptr::with_exposed_provenance::<Record>(own);
        Record::set_current(record);
        // SAFETY: the record outlives its thread.
        let (start, argument) = unsafe { ((*record).start, (*record).argument) };
        start(argument).expose_provenance()
    };
    // SAFETY: `id` is the caller's place for it; filled before the thread can run.
    unsafe { *id = Record::id(record) };
    match crate::c_interface::spawn(raddle::thread::Builder::new().stack_size(stack), body) {
        Ok(handle) => {
            if detached {
                drop(handle);
            } else {
                // SAFETY: a joinable record is freed by a join, which the id allows from now on.
                unsafe { (*record).handle.store(handle.into_raw().cast_mut(), Ordering::Release) };
            }
            0
        }
        Err(error) => {
            // SAFETY: nobody has used the id.
            unsafe { Record::free(record) };
            if matches!(error, raddle::thread::SpawnError::Priority(_)) { c::EINVAL } else { c::EAGAIN }
        }
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(id: c::pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: a live id, as POSIX asks.
    let Some(record) = (unsafe { Record::of(id) }) else {
        // SAFETY: the caller's arguments.
        return unsafe { next!(pthread_join: fn(c::pthread_t, *mut *mut c_void) -> c_int)(id, value) };
    };
    if Record::current().is_some_and(|me| std::ptr::eq(me, record)) {
        return c::EDEADLK;
    }
    if record.state.compare_exchange(JOINABLE, JOINING, Ordering::AcqRel, Ordering::Acquire).is_err()
        && record.load() != ENDED
    {
        return c::EINVAL;
    }
    let raw = record.handle.load(Ordering::Acquire);
    // SAFETY: stored by the creator, whose `pthread_create` returned the id; the exchange above makes this the only join.
    let handle = unsafe { raddle::JoinHandle::<usize>::from_raw(raw) };
    let result = handle.join().unwrap_or(usize::MAX);
    if !value.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *value = std::ptr::with_exposed_provenance_mut(result) };
    }
    // SAFETY: the join ends the id's life.
    unsafe { Record::free(record) };
    0
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(id: c::pthread_t) -> c_int {
    // SAFETY: a live id, as POSIX asks.
    let Some(record) = (unsafe { Record::of(id) }) else {
        // SAFETY: the caller's argument.
        return unsafe { next!(pthread_detach: fn(c::pthread_t) -> c_int)(id) };
    };
    if record.state.compare_exchange(JOINABLE, DETACHED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return c::EINVAL;
    }
    // SAFETY: stored by the creator; the exchange above makes this the only use.
    drop(unsafe { raddle::JoinHandle::<usize>::from_raw(record.handle.load(Ordering::Acquire)) });
    0
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_self() -> c::pthread_t {
    match Record::current() {
        Some(record) => Record::id(record),
        // SAFETY: takes nothing.
        None => unsafe { next!(pthread_self: fn() -> c::pthread_t)() },
    }
}
