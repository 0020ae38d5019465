//! Every system call of this crate, and what the system says about cores.

mod cores;
pub(crate) mod events;
pub(crate) mod looks;
pub(crate) mod mapped;
pub(crate) mod marks;
mod on_core;
pub(crate) mod own_writes;
pub(crate) mod placing;
mod probe;
pub(crate) mod published;
#[cfg_attr(not(feature = "io-uring"), path = "no_ring.rs")]
pub(crate) mod ring;
pub(crate) mod room;
pub(crate) mod signals;
mod task;
pub(crate) mod ticker;

pub use cores::usable;
pub(crate) use cores::{allotted, default_processors, online};
pub(crate) use looks::{filters, kernel_threads, place_in_kernel, task_state, time_waiting, waited};
pub(crate) use on_core::{CoreWord, probe_standby, stand_by_on};
pub(crate) use probe::{kernel_events, rseq};
pub(crate) use task::{TaskState, own_time_on_core, process_time_on_core, time_on_core};

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel's name of the calling kernel thread.
pub(crate) fn gettid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { raddle_machine::raw::system_call(libc::SYS_gettid as usize, [0; 6]) as u32 }
}

/// The reason of the calling thread's last failed call.
pub(crate) fn errno() -> i32 {
    // SAFETY: the calling thread's own word.
    unsafe { *libc::__errno_location() }
}

/// Puts it back.
pub(crate) fn set_errno(reason: i32) {
    // SAFETY: the calling thread's own word.
    unsafe { *libc::__errno_location() = reason }
}

/// The number of the core on which the caller runs, or ran a moment ago; 0 if the system does not tell.
pub fn core() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// The calling kernel thread sleeps so many nanoseconds, or until a signal: whatever has taken the place of the C
/// library's function.
pub(crate) fn sleep(nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let arguments = [libc::CLOCK_MONOTONIC as usize, 0, time.as_ptr().addr(), 0, 0, 0];
    // SAFETY: a timespec to read, which is two words.
    unsafe { raddle_machine::raw::system_call(libc::SYS_clock_nanosleep as usize, arguments) };
}

/// Zero pages that are taken when they are touched; `None` without address space.
pub(crate) fn reserve(size: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let arguments = [0, size, protection, flags, usize::MAX, 0];
    // SAFETY: new pages, or an error.
    let pages = unsafe { raddle_machine::raw::system_call(libc::SYS_mmap as usize, arguments) };
    (!(-4095..0).contains(&pages)).then(|| std::ptr::with_exposed_provenance_mut(pages as usize))
}

/// Gives such pages back.
///
/// # Safety
/// Of [`reserve`], with that size, and nobody uses them.
pub(crate) unsafe fn unreserve(pages: *mut u8, size: usize) {
    // SAFETY: `reserve` mapped these pages, of this size, and nobody uses them.
    unsafe { raddle_machine::raw::system_call(libc::SYS_munmap as usize, [pages.addr(), size, 0, 0, 0, 0]) };
}

/// What a kernel thread of the runtime's own begins with.
struct Beginning<F> {
    /// A C string of at most 15 bytes.
    name: [u8; 16],
    main: F,
}

extern "C" fn begin<F: FnOnce()>(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `spawn` made for this kernel thread.
    let Beginning { name, main } = *unsafe { Box::from_raw(beginning.cast::<Beginning<F>>()) };
    let arguments = [libc::PR_SET_NAME as usize, name.as_ptr().addr(), 0, 0, 0, 0];
    // SAFETY: names the calling kernel thread; the bytes end with a null byte.
    unsafe { raddle_machine::raw::system_call(libc::SYS_prctl as usize, arguments) };
    or_abort(|| "a kernel thread of the runtime panicked".to_string(), main);
    std::ptr::null_mut()
}

/// Bytes of stack of the runtime's own kernel threads. The C library takes what the libraries' thread-local storage
/// needs of it.
const OWN_STACK: usize = 256 * 1024;

/// Starts a kernel thread of the runtime's own, with all signals blocked: it runs none of the program's code, or takes
/// its mask later.
///
/// It is no thread of std's: one of those begins with the destructor of a thread-local variable, for which it waits
/// while the constructor of a library that is being loaded runs, which may wait for what only this kernel thread can
/// do. For the same reason `main` uses no such variable.
///
/// # Errors
/// When the system gives none.
pub(crate) fn spawn<F: FnOnce() + Send + 'static>(name: impl AsRef<str>, main: F) -> std::io::Result<()> {
    if marks::is_marked() {
        // It would inherit what its creator alone is to have.
        return Err(std::io::Error::other(
            "asked for by a thread that has rights, or other things of the kernel's, of its own",
        ));
    }
    room::make();
    // Looked up now, if never before: the new kernel thread must not ask the loader.
    let _ = on_core::library_area();
    let (name, mut beginning) = (name.as_ref(), Box::new(Beginning { name: [0; 16], main }));
    let length = name.len().min(15);
    beginning.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let beginning = Box::into_raw(beginning);
    let mask = signals::block_all();
    let mut result = libc::EINVAL;
    // Where much thread-local storage leaves too little of the stack the C library refuses: then more is asked for.
    let mut size = OWN_STACK;
    while result == libc::EINVAL && size <= 64 * OWN_STACK {
        // SAFETY: initialised attributes, destroyed once; the box is the new kernel thread's, which nobody joins.
        result = marks::native(|| unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_attr_init(&mut attributes);
            libc::pthread_attr_setstacksize(&mut attributes, size);
            libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
            let mut id = 0;
            let result = libc::pthread_create(&mut id, &attributes, begin::<F>, beginning.cast());
            libc::pthread_attr_destroy(&mut attributes);
            result
        });
        size *= 4;
    }
    signals::unblock(mask);
    if result == 0 {
        return Ok(());
    }
    // SAFETY: made above; no kernel thread has it.
    drop(unsafe { Box::from_raw(beginning) });
    Err(std::io::Error::from_raw_os_error(result))
}

/// Nobody will join the calling kernel thread. Called once by it, and by nobody else.
pub(crate) fn detach_self() {
    // SAFETY: the calling thread's own name, which is alive.
    unsafe { libc::pthread_detach(libc::pthread_self()) };
}

/// Has `f` run at the end of the calling kernel thread, after the destructors of thread-local variables. A variable
/// with a destructor would do, but its first use waits while the constructor of a library runs that is being loaded.
/// False if no more keys are free.
///
/// All calls name the same `f`.
pub(crate) fn at_end_of_kernel_thread(f: fn()) -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    static RUN: OnceLock<fn()> = OnceLock::new();
    extern "C" fn end(_: *mut c_void) {
        if let Some(run) = RUN.get() {
            run();
        }
    }
    RUN.get_or_init(|| f);
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: a place for the key; the destructor takes any value.
        (unsafe { libc::pthread_key_create(&mut key, Some(end)) } == 0).then_some(key)
    });
    // SAFETY: a key that was made above, and a value that nobody reads.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) } == 0)
}

/// `name` without what no kernel thread can have in its name, for which std would panic.
pub(crate) fn thread_name(name: &str) -> String {
    name.replace('\0', "?")
}

/// Prints a line on standard error, each different line once.
pub(crate) fn say_once(line: &str) {
    static SAID: [AtomicU32; 32] = [const { AtomicU32::new(0) }; 32];
    let hash = line.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)) | 1;
    for slot in &SAID {
        match slot.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break,
            Err(said) if said == hash => return,
            Err(_) => {}
        }
    }
    say(line);
}

/// One message on the standard error. That nobody can read it ends nothing.
pub(crate) fn say(text: &str) {
    own_writes::write(libc::STDERR_FILENO, format!("{text}\n").as_bytes());
}

/// Reads the process's own memory at an address that may be gone. False if it is, or if a filter forbids the call.
pub(crate) fn peek(address: usize, bytes: &mut [u8]) -> bool {
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: takes nothing, cannot fail.
    let own = unsafe { raddle_machine::raw::system_call(libc::SYS_getpid as usize, [0; 6]) };
    let places = [&raw const here, &raw const there].map(|place| place.expose_provenance());
    let arguments = [own as usize, places[0], 1, places[1], 1, 0];
    // SAFETY: the kernel writes to the bytes; what lies at the other address it reads itself, and says when it cannot.
    let read = unsafe { raddle_machine::raw::system_call(libc::SYS_process_vm_readv as usize, arguments) };
    usize::try_from(read) == Ok(bytes.len())
}

/// An address, and where it lies in a file that is mapped there, for people. (The loader, which knows names, has a
/// lock.)
pub(crate) fn name_of(address: usize) -> String {
    let place = std::fs::read_to_string("/proc/self/maps").ok().and_then(|maps| place_in(&maps, address));
    place.map_or_else(|| format!("{address:#x}"), |place| format!("{address:#x} ({place})"))
}

/// The file's name and the distance from where its first part is mapped: as debuggers count in a program that is placed
/// anywhere.
fn place_in(maps: &str, address: usize) -> Option<String> {
    let mut first: Option<(usize, &str)> = None;
    for (part, file) in maps.lines().filter_map(mapped) {
        // What is zero at the start lies behind the file's last part, without its name.
        match (file, first) {
            (Some(file), Some((_, before))) if file == before => {}
            (Some(file), _) if file.starts_with('/') => first = Some((part.start, file)),
            (Some(_), _) => first = None,
            (None, _) => {}
        }
        if part.contains(&address) {
            let (base, file) = first?;
            return Some(format!("{}+{:#x}", file.rsplit('/').next()?, address - base));
        }
    }
    None
}

/// Where the file is mapped that holds `address`; nothing if that is the program's own, or cannot be told.
pub(crate) fn own_library(address: usize) -> Vec<std::ops::Range<usize>> {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let parts = || maps.lines().filter_map(mapped);
    let Some((_, Some(file))) = parts().find(|(part, _)| part.contains(&address)) else { return Vec::new() };
    if program.as_os_str().is_empty() || program.as_os_str() == file {
        return Vec::new();
    }
    parts().filter(|(_, other)| *other == Some(file)).map(|(part, _)| part).collect()
}

/// A line of the kernel's table: addresses, and what is mapped there if it has a name (which may have spaces).
fn mapped(line: &str) -> Option<(std::ops::Range<usize>, Option<&str>)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let part = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    Some((part, fields.nth(4).map(str::trim).filter(|name| !name.is_empty())))
}

/// Says why, and ends the process.
#[cold]
pub(crate) fn end(why: &str) -> ! {
    say_once(&format!("raddle: {why}: the process ends"));
    std::process::abort()
}

/// Runs `f`, whose panic would leave the runtime half changed or without its monitor: `who` says who panicked, and the
/// process ends.
#[inline(always)]
pub(crate) fn or_abort<T>(who: impl FnOnce() -> String, f: impl FnOnce() -> T) -> T {
    // Caught, not only noticed on the way: where no frame above catches, a panic does not begin to unwind.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(value) => value,
        Err(payload) => {
            // Its drop is code of others, too.
            std::mem::forget(payload);
            end(&who())
        }
    }
}

/// Installs a handler that runs on the alternate stack and restarts system calls.
pub(crate) fn on_signal(signal: i32, handler: extern "C" fn(i32)) -> std::io::Result<()> {
    // SAFETY: an action of zeroes but for the handler and flags is valid; the handler only stores and makes a futex
    // call.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
