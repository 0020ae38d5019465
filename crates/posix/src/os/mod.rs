//! The C library and the kernel behind the entry points. The only room of this crate that names `libc`.

pub(crate) mod modes;

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The C types and constants that entry points speak in.
pub(crate) mod c {
    pub(crate) use libc::*;

    // What the `libc` crate lacks for glibc.
    pub(crate) const PTHREAD_CANCEL_ENABLE: c_int = 0;
    pub(crate) const PTHREAD_CANCEL_DISABLE: c_int = 1;
    pub(crate) const PTHREAD_CANCEL_DEFERRED: c_int = 0;
    pub(crate) const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;
    pub(crate) const PTHREAD_EXPLICIT_SCHED: c_int = 1;
    pub(crate) const SI_USER: c_int = 0;
    pub(crate) const PTHREAD_DESTRUCTOR_ITERATIONS: usize = 4;

    unsafe extern "C" {
        pub(crate) fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
        pub(crate) fn pthread_attr_getinheritsched(attributes: *const pthread_attr_t, inherits: *mut c_int) -> c_int;
        pub(crate) fn pthread_attr_getschedpolicy(attributes: *const pthread_attr_t, policy: *mut c_int) -> c_int;
        pub(crate) fn pthread_attr_getschedparam(
            attributes: *const pthread_attr_t,
            parameters: *mut sched_param,
        ) -> c_int;
        pub(crate) static program_invocation_short_name: *const c_char;
    }
}

/// The C library's own function of that name: the one that this library took the place of.
///
/// `next!(sched_yield: fn() -> c_int)()`. Looked up once. Aborts with a line when the C library has none, which means that a program
/// called what its own C library does not offer.
macro_rules! next {
    ($name:ident: fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let name = concat!(stringify!($name), "\0").as_ptr().cast::<std::ffi::c_char>();
        #[allow(unused_unsafe)]
        // SAFETY: the name ends with a null byte.
        let function = unsafe { $crate::os::find_next(&FOUND, name) };
        #[allow(unused_unsafe)]
        // SAFETY: the caller's signature is that of the C library's function of this name.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(function)
        }
    }};
}

/// As [`next!`], for a function whose first version has another meaning: the version is named, and may be missing on architectures that
/// never had the first one.
macro_rules! next_version {
    ($name:ident, $version:literal: fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let name = concat!(stringify!($name), "\0").as_ptr().cast::<std::ffi::c_char>();
        let version = concat!($version, "\0").as_ptr().cast::<std::ffi::c_char>();
        #[allow(unused_unsafe)]
        // SAFETY: both end with a null byte.
        let function = unsafe { $crate::os::find_next_version(&FOUND, name, version) };
        #[allow(unused_unsafe)]
        // SAFETY: the caller's signature is that of the C library's function of this name.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(function)
        }
    }};
}

/// Finds the next definition of that version of a symbol, or of its default version.
///
/// # Safety
/// `name` and `version` are C strings.
pub(crate) unsafe fn find_next_version(
    found: &AtomicPtr<c_void>,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    if found.load(Ordering::Acquire).is_null() {
        // SAFETY: C strings; RTLD_NEXT is valid in any object.
        let function = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version) };
        found.store(function, Ordering::Release);
    }
    // SAFETY: a C string.
    unsafe { find_next(found, name) }
}

/// The calling thread's thread pointer: who it is among those that live, lightweight or not.
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the psABI puts the pointer's own value at offset 0 of what it points to.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// Finds the next definition of a symbol after this library's.
///
/// # Safety
/// `name` is a C string.
#[inline]
pub(crate) unsafe fn find_next(found: &AtomicPtr<c_void>, name: *const c_char) -> *mut c_void {
    let known = found.load(Ordering::Acquire);
    // SAFETY: the caller's promise.
    if known.is_null() { unsafe { look_up(found, name) } } else { known }
}

/// # Safety
/// As for [`find_next`].
#[cold]
#[inline(never)]
unsafe fn look_up(found: &AtomicPtr<c_void>, name: *const c_char) -> *mut c_void {
    // SAFETY: a C string; RTLD_NEXT is valid in any object.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
    if function.is_null() {
        say(c"raddle: the C library lacks a function that the program calls: ");
        // SAFETY: a C string.
        say(unsafe { std::ffi::CStr::from_ptr(name) });
        say(c"\n");
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    found.store(function, Ordering::Release);
    function
}

/// Writes to standard error, from anywhere.
pub(crate) fn say(text: &std::ffi::CStr) {
    let bytes = text.to_bytes();
    // SAFETY: the bytes are live; an error is nobody's business here.
    unsafe { system_call(libc::SYS_write, [2, bytes.as_ptr().addr(), bytes.len(), 0, 0, 0]) };
}

/// Makes a system call: the result, or a negated error number. No function of the C library is involved.
///
/// # Safety
/// As for the system call.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: as promised by the caller.
    unsafe { raddle_machine::raw::system_call(number as usize, arguments) }
}

/// Sets `errno` of the calling thread.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the C library's place for it, in the calling thread's own storage.
    unsafe { *libc::__errno_location() = error };
}

/// The kernel's answer in the C library's form: -1 with `errno`, or the result.
pub(crate) fn answer(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        -1
    } else {
        result
    }
}

/// A point in time of CLOCK_MONOTONIC, in nanoseconds, for an absolute time of `clock`. A time of another clock is converted once:
/// later changes of that clock are not followed. `Err(EINVAL)` for what is no time.
pub(crate) fn deadline(clock: libc::clockid_t, time: &libc::timespec) -> Result<u64, c_int> {
    let target = nanoseconds(time)?;
    if clock == libc::CLOCK_MONOTONIC {
        return Ok(target.max(0) as u64);
    }
    let now_there = i128::from(now(clock));
    let now_here = i128::from(now(libc::CLOCK_MONOTONIC));
    Ok((now_here + (i128::from(target) - now_there)).clamp(0, i128::from(u64::MAX)) as u64)
}

/// A relative time as a deadline. `Err(EINVAL)` for what is no time.
pub(crate) fn deadline_after(time: &libc::timespec) -> Result<u64, c_int> {
    Ok(now(libc::CLOCK_MONOTONIC).saturating_add(nanoseconds(time)?.max(0) as u64))
}

fn nanoseconds(time: &libc::timespec) -> Result<i64, c_int> {
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(libc::EINVAL);
    }
    Ok(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

/// Nanoseconds of a clock.
pub(crate) fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec to write to; an unknown clock leaves zeros.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
