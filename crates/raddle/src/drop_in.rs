//! What the drop-in library (`raddle-posix`) needs beyond the interface for everybody: who calls, waits on foreign memory, and
//! kernel threads that stay what they are.

use crate::Host;
use crate::switching::{activation_of, current};
use raddle_scheduler::sync::WaitError;
use raddle_scheduler::sync::address::{AddressTable, Waker};
use std::cell::Cell;

/// Lists for all addresses together: 1 MiB of zero pages, touched as needed.
const LISTS: usize = 1 << 18;

static TABLE: AddressTable<Host, LISTS> = AddressTable::new();

thread_local! {
    /// The calling kernel thread is starting a kernel thread for the runtime itself.
    static NATIVE: Cell<bool> = const { Cell::new(false) };
}

/// True where a call may be taken over: the caller is a lightweight thread, and outside the runtime. False on kernel threads,
/// in the runtime itself, and in a signal handler that interrupted it: there a call goes on to the C library.
#[inline]
pub fn is_lightweight() -> bool {
    current().is_some_and(|me| {
        let activation = me.activation.load(std::sync::atomic::Ordering::Relaxed);
        // Null for an instant at a thread's end: its stack is the runtime's then.
        !activation.is_null() && !activation_of(me).mark.is_inside()
    })
}

/// Runs `f`, which starts a kernel thread for the runtime: `pthread_create` must not be taken over meanwhile.
pub(crate) fn native<T>(f: impl FnOnce() -> T) -> T {
    let before = NATIVE.replace(true);
    let result = f();
    NATIVE.set(before);
    result
}

/// True while the runtime starts a kernel thread for itself.
pub fn is_native() -> bool {
    NATIVE.get()
}

/// Builds the default pool, unless it is there, with these settings (as the environment variables `RADDLE_PROCESSORS` and `RADDLE_POLICY`
/// would have them). False where threads are kernel threads, which was said on standard error then.
///
/// # Errors
/// Why it cannot be built; the same at every later call.
pub fn start(processors: Option<&str>, policy: Option<&str>) -> Result<bool, &'static str> {
    crate::pool::start_default(processors, policy).map(|pool| pool.processors() > 0)
}

/// How many stacks were ever used at once, the idle ones that are kept included.
pub fn stacks_used() -> u64 {
    crate::pool::arenas().map(|arena| arena.stats().touched as u64).sum()
}

/// Blocks the calling lightweight thread until a wake-up at `address`, the deadline (nanoseconds of CLOCK_MONOTONIC), with
/// `cancellable` its cancellation, or for no reason; at once if `ready` answers true after the wait was published.
///
/// # Errors
/// The deadline has passed, or the thread was cancelled.
pub fn wait_at(
    address: usize,
    deadline: Option<u64>,
    cancellable: bool,
    ready: impl FnOnce() -> bool,
) -> Result<(), WaitError> {
    crate::dump::note_wait("a word in memory", address, None);
    TABLE.wait(address, deadline, cancellable, ready)
}

/// What wakes those who wait at `address`, for use after the condition was made true: see [`Waker::wake`].
#[inline]
pub fn waker_at(address: usize) -> Waker<Host> {
    TABLE.waker(address)
}

/// Whether the calling thread's cancellation was requested.
pub fn is_cancelled() -> bool {
    current().is_some_and(|me| me.thread.is_cancelled())
}
