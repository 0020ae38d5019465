//! The program's `main` on a lightweight thread, where that was asked for (`raddle run --main`, `RADDLE_MAIN=1`).
//!
//! Otherwise `main` stays on the process's first kernel thread, and what it hands to other threads, and they to it,
//! goes through the kernel. A server whose first thread gives out the requests gains by giving that up. The first
//! kernel thread then has nothing to run, blocks all signals and rests: `main` has the mask that it began with, a stack
//! as large as the limit for the first one, and the process's number for an answer to `gettid`. What differs from
//! native, such as thread-local variables that constructors have set, is listed in `docs/drop-in.md`.
//!
//! A program that returns from `main` calls `exit` there, as the C library's start code does; one that leaves it by
//! `pthread_exit` goes on until its last thread has ended (`exit`).

use super::create::{Wanted, create, passes_through};
use super::exit;
use super::record::Record;
use crate::os::{c, set_errno};
use crate::process::signals::pthread_sigmask;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

type Strings = *const *const c_char;
type Main = unsafe extern "C-unwind" fn(c_int, Strings, Strings) -> c_int;

/// The stack where the limit for it is "unlimited", in bytes of address space. Twice what the kernel keeps free below
/// a stack whatever its limit (`MIN_GAP`, 128 MiB). Size costs no time: mapping and unmapping 64 MiB to 4 GiB takes 6
/// to 7 µs.
const UNLIMITED_BYTES: usize = 256 << 20;

/// The program's function.
static MAIN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// What it is called with, and the signals that it blocks at first.
struct Call {
    count: c_int,
    arguments: Strings,
    environment: Strings,
    mask: c::sigset_t,
    errno: c_int,
}

// SAFETY: the pointers are the process's own argument block, which stays, and is the program's to use from any thread.
unsafe impl Sync for Call {}
// SAFETY: sent, it takes the same addresses along, which stay.
unsafe impl Send for Call {}

static CALL: OnceLock<Call> = OnceLock::new();

/// What the C library's start code is, but for `main`.
///
/// # Safety
/// Called by the program's entry point, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: *mut c_void,
    count: c_int,
    arguments: Strings,
    init: *mut c_void,
    fini: *mut c_void,
    unload: *mut c_void,
    stack: *mut c_void,
) -> c_int {
    let start = next!(__libc_start_main: fn(*mut c_void, c_int, Strings, *mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int);
    let errno = crate::os::errno();
    let mut begin = main;
    if crate::start::settings().main {
        MAIN.store(main, Ordering::Relaxed);
        begin = on_the_first as *mut c_void;
    }
    set_errno(errno);
    // SAFETY: the caller's arguments; `on_the_first` is called like `main`.
    unsafe { start(begin, count, arguments, init, fini, unload, stack) }
}

/// What the first kernel thread runs instead of `main`.
unsafe extern "C-unwind" fn on_the_first(count: c_int, arguments: Strings, environment: Strings) -> c_int {
    let errno = crate::os::errno();
    if !passes_through() {
        // SAFETY: fills the sets; a mask of the caller's.
        let mask = unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            c::sigfillset(&mut all);
            pthread_sigmask(c::SIG_SETMASK, &all, &mut before);
            before
        };
        let call = CALL.get_or_init(|| Call { count, arguments, environment, mask, errno });
        let mut id = 0;
        // SAFETY: the place is ours; `on_its_own` takes nothing.
        let error = unsafe { create(&mut id, &Wanted::of(&attributes()), on_its_own, std::ptr::null_mut()) };
        if error == 0 {
            rest(id)
        }
        // SAFETY: the mask from above.
        unsafe { pthread_sigmask(c::SIG_SETMASK, &call.mask, std::ptr::null_mut()) };
        let why = std::io::Error::from_raw_os_error(error);
        let line = format!("raddle: main stays on the first kernel thread: no lightweight one for it: {why}\n");
        crate::os::say(&CString::new(line).unwrap_or_default());
    }
    set_errno(errno);
    // SAFETY: the C library's arguments.
    unsafe { main()(count, arguments, environment) }
}

/// The program's `main`.
fn main() -> Main {
    // SAFETY: stored from the program's entry point, before anybody calls this.
    unsafe { std::mem::transmute::<*mut c_void, Main>(MAIN.load(Ordering::Relaxed)) }
}

/// Default attributes, with a stack as large as the first one may become.
fn attributes() -> c::pthread_attr_t {
    // SAFETY: fills both structures.
    unsafe {
        let (mut attributes, mut limit) = (std::mem::zeroed(), std::mem::zeroed::<c::rlimit>());
        c::pthread_attr_init(&mut attributes);
        let known = c::getrlimit(c::RLIMIT_STACK, &mut limit) == 0 && limit.rlim_cur != c::RLIM_INFINITY;
        c::pthread_attr_setstacksize(&mut attributes, if known { limit.rlim_cur as usize } else { UNLIMITED_BYTES });
        attributes
    }
}

/// The lightweight thread.
unsafe extern "C-unwind" fn on_its_own(_: *mut c_void) -> *mut c_void {
    let (Some(me), Some(call)) = (Record::current(), CALL.get()) else { std::process::abort() };
    me.become_first();
    // SAFETY: the mask and the arguments that the C library gave; what `main` returns is the program's status.
    unsafe {
        pthread_sigmask(c::SIG_SETMASK, &call.mask, std::ptr::null_mut());
        set_errno(call.errno);
        let status = main()(call.count, call.arguments, call.environment);
        c::exit(status)
    }
}

/// The first kernel thread, while the program runs.
fn rest(id: c::pthread_t) -> ! {
    // SAFETY: an id that `create` gave.
    let held = unsafe { Record::hold(id) };
    exit::first_has_nothing_to_run();
    if let Some(held) = held {
        let raw = held.request.handle();
        // SAFETY: stored by `create`; the record is held, so it lives; this copy is not dropped.
        let handle = ManuallyDrop::new(unsafe { raddle::JoinHandle::<()>::from_raw(raw) });
        // In a wait of the runtime, so that a dead-lock of all the others is known for one.
        let _ = handle.wait(None, false);
    }
    exit::rest()
}
