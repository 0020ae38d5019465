//! Who a thread is: its id, its name, its attributes, and answers about scheduling that the kernel gives for kernel threads only.
//!
//! Scheduling policy, priority and processor mask of a lightweight thread are kept and answered, and have no effect: raddle's policy
//! decides which thread runs where. Its number, the answer to `gettid`, is its own as long as it lives and above all ids that the
//! kernel gives; it names nothing in `/proc`.

use super::record::{Held, Record};
use crate::os::{self, answer, c, system_call};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_self() -> c::pthread_t {
    match Record::current() {
        Some(record) => record.id(),
        // SAFETY: takes nothing.
        None => unsafe { next!(pthread_self: fn() -> c::pthread_t)() },
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_equal(one: c::pthread_t, other: c::pthread_t) -> c_int {
    c_int::from(one == other)
}

/// # Safety
/// As the manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettid() -> c::pid_t {
    match Record::current() {
        Some(record) => record.number() as c::pid_t,
        // SAFETY: takes nothing.
        None => unsafe { system_call(c::SYS_gettid, [0; 6]) as c::pid_t },
    }
}

/// The record of `id`, held, or the error for an id whose thread is gone.
///
/// # Safety
/// `id` is one of ours.
unsafe fn held(id: c::pthread_t) -> Result<Held, c_int> {
    // SAFETY: as promised.
    unsafe { Record::hold(id) }.ok_or(c::ESRCH)
}

/// Runs the body for a record of ours, or hands the call on.
macro_rules! ours_or_next {
    ($id:expr, $next:ident: $type:ty, ($($argument:expr),*), |$record:ident| $body:block) => {{
        if !Record::is_ours($id) {
            let found = next!($next: fn()) as *const ();
            // SAFETY: the C library's function of this name has this type; the caller's arguments.
            return unsafe { std::mem::transmute::<*const (), $type>(found)($($argument),*) };
        }
        // SAFETY: an id of ours.
        let $record = match unsafe { held($id) } {
            Ok(record) => record,
            Err(error) => return error,
        };
        $body
    }};
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(id: c::pthread_t, attributes: *mut c::pthread_attr_t) -> c_int {
    let next = next!(pthread_getattr_np: fn(c::pthread_t, *mut c::pthread_attr_t) -> c_int);
    let (low, end, guard, detached) = if Record::is_ours(id) {
        // SAFETY: an id of ours.
        let record = match unsafe { held(id) } {
            Ok(record) => record,
            Err(error) => return error,
        };
        let [low, end] = record.stack.each_ref().map(|word| word.load(Ordering::Relaxed));
        let detached = record.state.load(Ordering::Relaxed) == super::record::DETACHED;
        (low, end, record.guard.load(Ordering::Relaxed), detached)
    } else {
        // A lightweight thread that was not created here (by raddle::spawn) has an id of the C library's.
        // SAFETY: takes nothing.
        let own = raddle::drop_in::own_stack().filter(|_| unsafe { pthread_self() } == id);
        let Some((low, end)) = own else {
            // SAFETY: the caller's arguments.
            return unsafe { next(id, attributes) };
        };
        (low, end, 4096, false)
    };
    // SAFETY: the caller's place for attributes, initialised first.
    unsafe {
        let result = c::pthread_attr_init(attributes);
        if result != 0 {
            return result;
        }
        if end > low {
            c::pthread_attr_setstack(attributes, std::ptr::with_exposed_provenance_mut(low), end - low);
        }
        c::pthread_attr_setguardsize(attributes, guard);
        let state = if detached { c::PTHREAD_CREATE_DETACHED } else { c::PTHREAD_CREATE_JOINABLE };
        c::pthread_attr_setdetachstate(attributes, state)
    }
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(id: c::pthread_t, name: *const c_char) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, *const c_char) -> c_int;
    ours_or_next!(id, pthread_setname_np: Function, (id, name), |record| {
        // SAFETY: a C string, as the caller promises.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        if name.len() > 15 {
            return c::ERANGE;
        }
        record.set_name(name);
        if record.is_current() {
            raddle::drop_in::set_own_name(&String::from_utf8_lossy(name));
        }
        0
    })
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getname_np(id: c::pthread_t, buffer: *mut c_char, size: usize) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, *mut c_char, usize) -> c_int;
    ours_or_next!(id, pthread_getname_np: Function, (id, buffer, size), |record| {
        let (mut bytes, mut length) = record.name();
        if length == 0 {
            // A thread has its creator's name until it gets one of its own: the program's.
            // SAFETY: the C library's own string.
            let program = unsafe { CStr::from_ptr(c::program_invocation_short_name) }.to_bytes();
            length = program.len().min(15);
            bytes[..length].copy_from_slice(&program[..length]);
        }
        if size <= length {
            return c::ERANGE;
        }
        // SAFETY: the caller's buffer of that size.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, length);
            *buffer.add(length) = 0;
        }
        0
    })
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setaffinity_np(id: c::pthread_t, size: usize, set: *const c::cpu_set_t) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, usize, *const c::cpu_set_t) -> c_int;
    ours_or_next!(id, pthread_setaffinity_np: Function, (id, size, set), |record| {
        // SAFETY: the caller's set of that size.
        unsafe { set_affinity(&record, size, set.cast()) }
    })
}

/// # Safety
/// As the C library says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getaffinity_np(id: c::pthread_t, size: usize, set: *mut c::cpu_set_t) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, usize, *mut c::cpu_set_t) -> c_int;
    ours_or_next!(id, pthread_getaffinity_np: Function, (id, size, set), |record| {
        // SAFETY: the caller's set of that size.
        unsafe { affinity(&record, size, set.cast()) }.err().unwrap_or(0)
    })
}

/// Keeps a mask that names at least one processor which the process may use.
///
/// # Safety
/// `set` has `size` readable bytes.
unsafe fn set_affinity(record: &Record, size: usize, set: *const u8) -> c_int {
    let mut wanted = [0u8; 128];
    // SAFETY: as promised.
    unsafe { std::ptr::copy_nonoverlapping(set, wanted.as_mut_ptr(), size.min(128)) };
    let mut allowed = [0u8; 128];
    // SAFETY: a mask of that many bytes to write to.
    let written =
        unsafe { system_call(c::SYS_sched_getaffinity, [0, allowed.len(), allowed.as_mut_ptr().addr(), 0, 0, 0]) };
    if written > 0 && !wanted.iter().zip(&allowed).any(|(w, a)| w & a != 0) {
        return c::EINVAL;
    }
    for ((word, wanted), allowed) in record.affinity.iter().zip(wanted.chunks_exact(8)).zip(allowed.chunks_exact(8)) {
        let word_of = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        word.store(word_of(wanted) & word_of(allowed), Ordering::Relaxed);
    }
    0
}

/// The bytes written, or an error.
///
/// # Safety
/// `set` has `size` writable bytes.
unsafe fn affinity(record: &Record, size: usize, set: *mut u8) -> Result<usize, c_int> {
    let kept = record.affinity.each_ref().map(|word| word.load(Ordering::Relaxed));
    // SAFETY: as promised; the kernel writes at most `size` bytes.
    unsafe {
        let written = system_call(c::SYS_sched_getaffinity, [0, size, set.addr(), 0, 0, 0]);
        if written < 0 {
            return Err(-written as c_int);
        }
        std::ptr::write_bytes(set.add(written as usize), 0, size - written as usize);
        if kept.iter().any(|&word| word != 0) {
            let bytes = size.min(size_of_val(&kept));
            std::ptr::copy_nonoverlapping(kept.as_ptr().cast(), set, bytes);
        }
        Ok(written as usize)
    }
}

/// The record that a thread id of the kernel's calls name: the caller's own, or another one's number.
fn by_number(id: c::pid_t) -> Option<Held> {
    match id {
        // SAFETY: the caller's own id.
        0 => unsafe { Record::hold(Record::current()?.id()) },
        id => Record::of_number(u32::try_from(id).ok()?),
    }
}

/// # Safety
/// As the manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(id: c::pid_t, size: usize, set: *const c::cpu_set_t) -> c_int {
    let result = match by_number(id) {
        // SAFETY: the caller's set of that size.
        Some(record) => -(unsafe { set_affinity(&record, size, set.cast()) } as isize),
        // SAFETY: the caller's arguments.
        None => unsafe { system_call(c::SYS_sched_setaffinity, [id as usize, size, set.addr(), 0, 0, 0]) },
    };
    answer(result) as c_int
}

/// # Safety
/// As the manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(id: c::pid_t, size: usize, set: *mut c::cpu_set_t) -> c_int {
    let Some(record) = by_number(id) else {
        // SAFETY: the caller's arguments.
        return unsafe { next!(sched_getaffinity: fn(c::pid_t, usize, *mut c::cpu_set_t) -> c_int)(id, size, set) };
    };
    // SAFETY: the caller's set of that size.
    match unsafe { affinity(&record, size, set.cast()) } {
        Ok(_) => 0,
        Err(error) => {
            os::set_errno(error);
            -1
        }
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getschedparam(
    id: c::pthread_t,
    policy: *mut c_int,
    parameters: *mut c::sched_param,
) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, *mut c_int, *mut c::sched_param) -> c_int;
    ours_or_next!(id, pthread_getschedparam: Function, (id, policy, parameters), |record| {
        let kept = record.schedule.load(Ordering::Relaxed);
        // SAFETY: the caller's places.
        unsafe {
            *policy = (kept >> 32) as c_int;
            (*parameters).sched_priority = kept as u32 as c_int;
        }
        0
    })
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedparam(
    id: c::pthread_t,
    policy: c_int,
    parameters: *const c::sched_param,
) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, c_int, *const c::sched_param) -> c_int;
    ours_or_next!(id, pthread_setschedparam: Function, (id, policy, parameters), |record| {
        // SAFETY: the caller's parameters.
        let priority = unsafe { (*parameters).sched_priority };
        set_schedule(&record, policy, priority)
    })
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedprio(id: c::pthread_t, priority: c_int) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, c_int) -> c_int;
    ours_or_next!(id, pthread_setschedprio: Function, (id, priority), |record| {
        let policy = (record.schedule.load(Ordering::Relaxed) >> 32) as c_int;
        set_schedule(&record, policy, priority)
    })
}

fn set_schedule(record: &Record, policy: c_int, priority: c_int) -> c_int {
    // SAFETY: take and return integers; an unknown policy answers -1.
    let range = unsafe { c::sched_get_priority_min(policy)..=c::sched_get_priority_max(policy) };
    if *range.start() < 0 || !range.contains(&priority) {
        return c::EINVAL;
    }
    record.schedule.store(super::record::schedule(policy, priority), Ordering::Relaxed);
    0
}

/// The processor time of the kernel thread that the caller runs on: raddle counts none of its own. For other threads there is no clock.
///
/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getcpuclockid(id: c::pthread_t, clock: *mut c::clockid_t) -> c_int {
    type Function = unsafe extern "C" fn(c::pthread_t, *mut c::clockid_t) -> c_int;
    ours_or_next!(id, pthread_getcpuclockid: Function, (id, clock), |record| {
        if !record.is_current() {
            return c::ENOENT;
        }
        // SAFETY: the caller's place for it.
        unsafe { *clock = c::CLOCK_THREAD_CPUTIME_ID };
        0
    })
}

/// An alternate stack belongs to the kernel thread, which has one: asked for, it is answered; set, nothing is done.
///
/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const c::stack_t, old: *mut c::stack_t) -> c_int {
    let set = if raddle::drop_in::is_lightweight() { std::ptr::null() } else { new };
    // SAFETY: the caller's arguments.
    let result = unsafe {
        system_call(c::SYS_sigaltstack, [set.cast::<c_void>().addr(), old.cast::<c_void>().addr(), 0, 0, 0, 0])
    };
    answer(result) as c_int
}
