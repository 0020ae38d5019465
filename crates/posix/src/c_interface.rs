//! The C interface, `include/raddle.h`: pools, policies, priorities and counters for programs that use pthreads.
//!
//! A thread of this interface is a pthread: `raddle_thread_create` is `pthread_create` with a place to create it in
//! ([`Destination`]), which it leaves for the time of the call.

use crate::os::c;
use raddle::pool::Pool;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// Where the calling thread creates its next thread.
#[derive(Clone, Copy)]
struct Destination {
    pool: *const Pool,
    priority: Option<u8>,
}

thread_local! {
    static DESTINATION: Cell<Option<Destination>> = const { Cell::new(None) };
    static ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// Spawns where the caller's place says, or as `builder` would.
pub(crate) fn spawn<T: Send + 'static>(
    mut builder: raddle::thread::Builder,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<raddle::JoinHandle<T>, raddle::thread::SpawnError> {
    let Some(place) = DESTINATION.get() else { return builder.spawn(body) };
    if let Some(priority) = place.priority {
        builder = builder.priority(priority);
    }
    // SAFETY: the caller of `raddle_thread_create` passed a live pool, and is still in that call.
    let spawned = match unsafe { place.pool.as_ref() } {
        Some(pool) => builder.spawn_into(pool, body),
        None => builder.spawn(body),
    };
    if let Err(error) = &spawned {
        set_error(&error.to_string());
    }
    spawned
}

/// Whether the place's own pool has lightweight threads; none without such a pool.
pub(crate) fn lightweight() -> Option<bool> {
    // SAFETY: as in `spawn`.
    DESTINATION.get().and_then(|place| unsafe { place.pool.as_ref() }).map(|pool| pool.processors() > 0)
}

pub(crate) fn set_error(text: &str) {
    ERROR.with_borrow_mut(|error| *error = CString::new(text.replace('\0', " ")).unwrap_or_default());
}

/// The text at a C string.
///
/// # Safety
/// Null or a C string that outlives the answer.
unsafe fn text<'a>(string: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: not null, so a C string, which outlives the answer.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy())
}

/// # Safety
/// As `include/raddle.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_pool_create(processors: c_uint, policy: *const c_char) -> *mut Pool {
    crate::process::signals::prepare_kernel_threads();
    let mut builder = raddle::Builder::new();
    if processors > 0 {
        builder = builder.processors(processors as usize);
    }
    // SAFETY: null or a C string, which is copied before the call ends.
    if let Some(policy) = unsafe { text(policy) } {
        builder = match policy.parse::<raddle::policy::Expression>() {
            Ok(policy) => builder.policy(policy),
            Err(error) => {
                set_error(&error.to_string());
                return std::ptr::null_mut();
            }
        };
    }
    match builder.build() {
        Ok(pool) => Box::into_raw(Box::new(pool)),
        Err(error) => {
            set_error(&error.to_string());
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// A pool of `raddle_pool_create` that is not used any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_pool_destroy(pool: *mut Pool) {
    if !pool.is_null() {
        // SAFETY: made by `Box::into_raw`; the caller destroys it once.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// # Safety
/// A pool of `raddle_pool_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_pool_processors(pool: *const Pool) -> c_uint {
    // SAFETY: a pool that `raddle_pool_create` made, and that is not destroyed during the call.
    unsafe { &*pool }.processors() as c_uint
}

/// # Safety
/// A pool of `raddle_pool_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_pool_live_threads(pool: *const Pool) -> u64 {
    // SAFETY: a pool that `raddle_pool_create` made, and that is not destroyed during the call.
    unsafe { &*pool }.live_threads()
}

/// # Safety
/// As for `pthread_create`; `pool` is null or a pool of `raddle_pool_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_thread_create(
    id: *mut c::pthread_t,
    attributes: *const c::pthread_attr_t,
    pool: *const Pool,
    priority: c_int,
    start: crate::thread::record::Start,
    argument: *mut c_void,
) -> c_int {
    let Ok(priority) = (priority >= 0).then(|| u8::try_from(priority)).transpose() else {
        set_error("a priority is a number from 0 to 255; `priority(n, ...)` as policy tells n of them apart");
        return c::EINVAL;
    };
    let earlier = ERROR.take();
    let before = DESTINATION.replace(Some(Destination { pool, priority }));
    // SAFETY: the caller's arguments.
    let result = unsafe { crate::thread::pthread_create(id, attributes, start, argument) };
    DESTINATION.set(before);
    match (result, ERROR.with_borrow(|error| error.is_empty())) {
        // A success leaves the text of the call that failed before.
        (0, _) => drop(ERROR.replace(earlier)),
        (_, true) => set_error(&format!("the thread cannot be created: {}", std::io::Error::from_raw_os_error(result))),
        _ => {}
    }
    result
}

/// Whether the calling thread is a lightweight one.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_is_lightweight() -> c_int {
    raddle::drop_in::is_lightweight().into()
}

/// Whether threads that the program creates are lightweight.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_available() -> c_int {
    let available = crate::start::lightweight();
    if !available {
        let why = raddle::info::lightweight().err();
        set_error(&why.unwrap_or_else(|| "the default pool cannot be built: standard error says why".into()));
    }
    available.into()
}

/// Gives way to a thread of a higher priority.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_check() {
    if raddle::drop_in::is_lightweight() {
        raddle::thread::check();
    }
}

/// Offers the processor to ready threads. Whether another one ran.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_yield() -> c_int {
    (raddle::drop_in::is_lightweight() && raddle::drop_in::yield_now()).into()
}

/// # Safety
/// A C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_policy_check(policy: *const c_char) -> c_int {
    // SAFETY: a C string, which is not kept.
    let Some(policy) = (unsafe { text(policy) }) else {
        set_error("no policy was given");
        return c::EINVAL;
    };
    match policy.parse::<raddle::policy::Expression>() {
        Ok(_) => 0,
        Err(error) => {
            set_error(&error.to_string());
            c::EINVAL
        }
    }
}

/// `struct raddle_stats`.
#[repr(C)]
struct Stats {
    spawned: u64,
    exited: u64,
    switches: u64,
    sleeps: u64,
    steals_tried: u64,
    steals_won: u64,
    takeovers: u64,
    slices: u64,
    spare_activations: u64,
    stacks: u64,
}

/// # Safety
/// `stats` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raddle_stats_get(stats: *mut c_void, size: usize) {
    let now = raddle::info::stats();
    let filled = Stats {
        spawned: now.spawned,
        exited: now.exited,
        switches: now.switches,
        sleeps: now.sleeps,
        steals_tried: now.steals_tried,
        steals_won: now.steals_won,
        takeovers: now.takeovers,
        slices: now.slices,
        spare_activations: now.spare_activations,
        stacks: raddle::drop_in::stacks_used(),
    };
    let known = size.min(size_of::<Stats>());
    // SAFETY: `known` bytes can be read there and, by the caller's promise, written here; what a newer header has more
    // is zeroed.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), stats.cast(), known);
        std::ptr::write_bytes(stats.cast::<u8>().add(known), 0, size - known);
    }
}

/// What went wrong last.
#[unsafe(no_mangle)]
pub extern "C" fn raddle_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}
