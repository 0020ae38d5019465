//! The C library and the kernel behind the entry points. The only room of this crate that names `libc`.

pub(crate) mod frames;
pub(crate) mod modes;
pub(crate) mod reach;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

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
        pub(crate) fn pthread_attr_setinheritsched(attributes: *mut pthread_attr_t, inherits: c_int) -> c_int;
        pub(crate) fn pthread_attr_setschedpolicy(attributes: *mut pthread_attr_t, policy: c_int) -> c_int;
        pub(crate) fn pthread_attr_setschedparam(
            attributes: *mut pthread_attr_t,
            parameters: *const sched_param,
        ) -> c_int;
        pub(crate) static program_invocation_short_name: *const c_char;
    }
}

/// The C library's own function of that name: the one that this library took the place of.
///
/// `next!(sched_yield: fn() -> c_int)()`. Looked up once. Aborts with a line when the C library has none, which means
/// that a program called what its own C library does not offer.
macro_rules! next {
    ($name:ident: $($signature:tt)*) => { $crate::os::find!($name, None, $($signature)*) };
}

/// As [`next!`], for a function whose first version has another meaning: the version is named, and may be missing on
/// architectures that never had the first one.
macro_rules! next_version {
    ($name:ident, $version:literal: $($signature:tt)*) => {
        $crate::os::find!($name, Some(concat!($version, "\0")), $($signature)*)
    };
}

/// Other names that the C library has for the same functions: those of older programs, and of its own libraries.
macro_rules! aliases {
    ($($alias:ident = $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[raddle_macros::entry]
        pub unsafe extern "C-unwind" fn $alias($($argument: $type),*) -> $result {
            // SAFETY: the program's arguments, as for the function of the usual name.
            unsafe { $name($($argument),*) }
        }
    )*};
}

/// What both of `next!` and `next_version!` are made of.
macro_rules! find {
    ($name:ident, $version:expr, fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {{
        #[used]
        #[unsafe(link_section = "raddle_next")]
        static NEXT: $crate::os::Next = $crate::os::Next::new(concat!(stringify!($name), "\0"), $version);
        let function = NEXT.find();
        #[allow(unused_unsafe)]
        // SAFETY: the caller's signature is that of the C library's function of this name.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(function)
        }
    }};
}
pub(crate) use find;

/// A function of the C library that [`next!`] names. All of them lie side by side in a section of their own.
pub(crate) struct Next {
    found: AtomicPtr<c_void>,
    /// Both end with a null byte.
    name: &'static str,
    version: Option<&'static str>,
}

impl Next {
    pub const fn new(name: &'static str, version: Option<&'static str>) -> Next {
        Next { found: AtomicPtr::new(std::ptr::null_mut()), name, version }
    }

    /// The function. Ends the process where there is none.
    #[inline]
    pub fn find(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Acquire);
        if known.is_null() { self.look_up_or_end() } else { known }
    }

    #[cold]
    #[inline(never)]
    fn look_up_or_end(&self) -> *mut c_void {
        self.look_up();
        let function = self.found.load(Ordering::Acquire);
        if function.is_null() {
            say(c"raddle: the C library lacks a function that the program calls: ");
            // SAFETY: a C string.
            say(unsafe { CStr::from_ptr(self.name.as_ptr().cast()) });
            say(c"\n");
            // SAFETY: ends the process.
            unsafe { libc::abort() }
        }
        function
    }

    /// Looks for the next definition of that version of the symbol, or of its default version, after this library's.
    #[cold]
    fn look_up(&self) {
        let name = self.name.as_ptr().cast::<c_char>();
        // SAFETY: C strings; RTLD_NEXT is valid in any object.
        let function = unsafe {
            let versioned = self.version.map(|version| libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr().cast()));
            versioned.filter(|found| !found.is_null()).unwrap_or_else(|| libc::dlsym(libc::RTLD_NEXT, name))
        };
        self.found.store(function, Ordering::Release);
    }
}

/// Looks for all functions that [`next!`] names anywhere. Whoever looks one up later waits while the constructor of a
/// library runs that is being loaded, and may itself be what that constructor waits for.
pub(crate) fn find_all() {
    unsafe extern "C" {
        // The linker's names for both ends of a section.
        static __start_raddle_next: [usize; 0];
        static __stop_raddle_next: [usize; 0];
    }
    let mut next = (&raw const __start_raddle_next).cast::<Next>();
    while next != (&raw const __stop_raddle_next).cast() {
        // SAFETY: the section holds nothing else, one behind the other.
        unsafe {
            (*next).look_up();
            next = next.add(1);
        }
    }
    look_who_tells_the_time();
    forget_what_was_missing();
}

/// What was looked for and is not there is nobody's error.
pub(crate) fn forget_what_was_missing() {
    // SAFETY: forgets the last one.
    unsafe { libc::dlerror() };
}

/// The sanitizer that the program was built with, if it keeps an account of each thread's stack and storage: it knows
/// kernel threads only.
pub(crate) fn sanitizer() -> Option<&'static CStr> {
    let named = sanitizer_and_place().map(|(sanitizer, _)| sanitizer);
    // One whose runtime is a part of the program hides its name, but not what it takes of the C library's. (Allocators
    // take `pthread_create`, too, not `strlen`.)
    let takes = |name: &CStr| is_in_program(find_anywhere(name));
    named.or_else(|| (takes(c"pthread_create") && takes(c"strlen")).then_some(c"a sanitizer"))
}

/// The first definition of that name, the program's own before all others'; null if there is none.
fn find_anywhere(name: &CStr) -> *const c_void {
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast_const()
}

/// Whether that lies in the program itself, not in a library.
fn is_in_program(place: *const c_void) -> bool {
    // SAFETY: zeroes are a valid Dl_info, which is only filled; the program's headers are where the kernel says.
    unsafe {
        let (mut found, mut program): (libc::Dl_info, libc::Dl_info) = (std::mem::zeroed(), std::mem::zeroed());
        let headers = libc::getauxval(libc::AT_PHDR) as usize;
        libc::dladdr(place, &mut found) != 0
            && libc::dladdr(std::ptr::with_exposed_provenance(headers), &mut program) != 0
            && program.dli_fbase == found.dli_fbase
    }
}

/// The same, if its runtime is a library, which comes after this one where that was preloaded.
pub(crate) fn sanitizer_in_library() -> Option<&'static CStr> {
    let (sanitizer, function) = sanitizer_and_place()?;
    (!is_in_program(function)).then_some(sanitizer)
}

/// A function of its runtime, too.
fn sanitizer_and_place() -> Option<(&'static CStr, *const c_void)> {
    const SANITIZERS: [(&CStr, &CStr); 5] = [
        (c"__asan_init", c"AddressSanitizer"),
        (c"__hwasan_init", c"HWAddressSanitizer"),
        (c"__tsan_init", c"ThreadSanitizer"),
        (c"__msan_init", c"MemorySanitizer"),
        (c"__lsan_init", c"LeakSanitizer"),
    ];
    // Our own build under one knows of lightweight threads.
    if cfg!(raddle_tsan) {
        return None;
    }
    let there = |&(name, sanitizer)| Some((sanitizer, find_anywhere(name))).filter(|(_, place)| !place.is_null());
    SANITIZERS.iter().find_map(there)
}

/// A function's name in C++, by the `__cxa_demangle` of the C++ library that the program has loaded.
pub(crate) fn demangle_cpp(name: &str) -> Option<String> {
    type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a C string; the C++ ABI gives the function of that name this type. Without a buffer it allocates one, or
    // returns null, and it may be told no length and no status. What it has allocated is a C string, and `free`s.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_demangle".as_ptr());
        let function: Demangle = (!function.is_null()).then(|| std::mem::transmute(function))?;
        let found = function(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        let text = (!found.is_null()).then(|| std::ffi::CStr::from_ptr(found).to_string_lossy().into_owned());
        libc::free(found.cast());
        text
    }
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

/// Something of the C library's that is no function; `None` if it has none of that name.
pub(crate) fn find_data(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string; RTLD_NEXT is valid in any object.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Writes to standard error, from anywhere.
pub(crate) fn say(text: &CStr) {
    raddle::drop_in::write(libc::STDERR_FILENO, text.to_bytes());
}

/// Makes a system call: the result, or a negated error number. No function of the C library is involved.
///
/// # Safety
/// As for the system call.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller answers for number and arguments.
    unsafe { raddle_machine::raw::system_call(number as usize, arguments) }
}

/// Sets `errno` of the calling thread.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the C library's place for it, in the calling thread's own storage.
    unsafe { *libc::__errno_location() = error };
}

/// `errno` of the calling thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library's place for it, in the calling thread's own storage.
    unsafe { *libc::__errno_location() }
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

/// 0, or -1 with `errno` for any other error number.
pub(crate) fn failed(error: c_int) -> c_int {
    answer(-(error as isize)) as c_int
}

/// A point in time of CLOCK_MONOTONIC, in nanoseconds, for an absolute time of `clock`. A time of another clock is
/// converted once: later changes of that clock are not followed. `Err(EINVAL)` for what is no time.
pub(crate) fn deadline(clock: libc::clockid_t, time: &libc::timespec) -> Result<u64, c_int> {
    let target = nanoseconds(time)?;
    if clock == libc::CLOCK_MONOTONIC && !TELLS_ANOTHER_TIME.load(Ordering::Relaxed) {
        return Ok(target.max(0) as u64);
    }
    let now_there = i128::from(told(clock));
    let now_here = i128::from(now(libc::CLOCK_MONOTONIC));
    Ok((now_here + (i128::from(target) - now_there)).clamp(0, i128::from(u64::MAX)) as u64)
}

/// A relative time as a deadline. `Err(EINVAL)` for what is no time, and for less than none, as the kernel says.
pub(crate) fn deadline_after(time: &libc::timespec) -> Result<u64, c_int> {
    let time = u64::try_from(nanoseconds(time)?).map_err(|_| libc::EINVAL)?;
    Ok(now(libc::CLOCK_MONOTONIC).saturating_add(time))
}

fn nanoseconds(time: &libc::timespec) -> Result<i64, c_int> {
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(libc::EINVAL);
    }
    Ok(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}

/// Nanoseconds between two looks of a wait that nothing ends but its own look. A look takes 5 to 10 µs of processor
/// time, fifty threads that wait so, with looks each 5, 20 and 80 ms: at 10 ms a wait takes 0.1 % of a core. (Two
/// virtual cores, 2026-11-28)
pub(crate) const LOOK_AGAIN_NS: u64 = 10_000_000;

/// Nanoseconds after which a kernel thread that is to run, and does not, is taken for frozen. Where 8, 32 and 128
/// threads compute on two cores, one of them waits for 0.07, 0.27 and 1.0 s at most. (Two virtual cores, 2026-11-28)
pub(crate) const FROZEN_NS: u64 = 1_000_000_000;

/// Nanoseconds of a clock, whatever the program is told; 0 of an unknown one.
pub(crate) fn now(clock: libc::clockid_t) -> u64 {
    raddle_machine::vdso::nanoseconds(clock).unwrap_or(0)
}

/// Nanoseconds of a clock, as the program is told: a library behind ours may have taken the place of the C library's
/// function. (One before ours has also taken the functions that wait, and hands on the time that we know.)
fn told(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec to write to; an unknown clock leaves zeros.
    unsafe { next!(clock_gettime: fn(libc::clockid_t, *mut libc::timespec) -> c_int)(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Another library tells the program the time (libfaketime, say): absolute times are by that.
static TELLS_ANOTHER_TIME: AtomicBool = AtomicBool::new(false);

/// Looks whether another library tells the time.
fn look_who_tells_the_time() {
    let object = |address: usize| {
        // SAFETY: zeroes are valid, and written to; any address may be asked for.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            libc::dladdr(std::ptr::with_exposed_provenance(address), &mut found);
            found.dli_fbase
        }
    };
    let function = next!(clock_gettime: fn(libc::clockid_t, *mut libc::timespec) -> c_int) as usize;
    let of_the_library = next!(gnu_get_libc_version: fn() -> *const c_char) as usize;
    TELLS_ANOTHER_TIME.store(object(function) != object(of_the_library), Ordering::Relaxed);
}
