//! What the drop-in library (`raddle-posix`) needs beyond the interface for everybody: who calls, waits on foreign
//! memory, and kernel threads that stay what they are.

pub(crate) mod event_loops;
pub(crate) mod forked;
pub mod preemption;

use crate::Host;
use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching::current;
use raddle_context::stack::Slot;
use raddle_machine::{Machine, Real};
use raddle_scheduler::runtime::{Waited, wait_until};
use raddle_scheduler::sync::WaitError;
use raddle_scheduler::sync::address::{AddressTable, Waker};
use raddle_scheduler::{Claim, Wake};
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::carry::above::{is_interrupted, on_interruption, on_kernel_thread, poll_interruption};
pub use crate::carry::caller::{is_apart, is_lightweight};
pub use crate::carry::clocks::{count as count_time, own_time_since_switch, time_since_switch};
pub use crate::carry::dedicated::{Spare, begin as dedicate};
pub use crate::carry::loops::times_gathered;
pub use crate::carry::note::HOLDER_AT;
pub use crate::carry::space::give_back as give_back_address_space;
pub use crate::govern::dump::DUMP_SIGNALS;
pub use crate::guest::event_loops::{
    Gathered, gather, go_apart, note_events, note_events_apart, note_turns, take_turns, wait_apart, went_apart,
};
pub use crate::guest::forked::forked;
pub use crate::os::marks::{is_marked, is_marked_for_good, is_native, mark, mark_placing, unmark};
pub use crate::os::own_writes::write;
pub use crate::os::{core, usable as usable_cores};
pub use crate::threads::pool::Settings;
pub use raddle_context::stack::{has_filters, lock as lock_stacks};
pub use raddle_queues::{places, slab};
pub use raddle_scheduler::expression::nearest;
pub use raddle_scheduler::sync::mutex::{PAUSES, SPINS};
pub use raddle_scheduler::words;

/// Which signals are on their way to a thread that runs, of so many kinds.
pub type Doorbell<const KINDS: usize> = raddle_scheduler::doorbell::Doorbell<Real, KINDS>;
/// What is about to end, and those who go on waiting for it elsewhere.
pub type Handover = raddle_scheduler::handover::Handover<Real>;

/// Lists for all addresses together: 1 MiB of zero pages, touched as needed.
const LISTS: usize = 1 << 18;

static TABLE: AddressTable<Host, LISTS> = AddressTable::new();

/// True where even a wake-up must not be asked for: in the runtime itself, and in a signal handler that interrupted it.
#[inline]
pub fn is_inside() -> bool {
    current().is_some() && !is_lightweight()
}

/// Has a kernel thread wait in the calling thread's pool for whoever begins next in a signal handler. False if none
/// can be had.
pub fn provide_spare(of: &crate::threads::pool::Pool) -> bool {
    of.shared().spare().is_some()
}

/// The time as [`doze_until`] takes it.
#[inline]
pub fn now() -> u64 {
    Real::now()
}

/// Blocks the calling lightweight thread until a point in time (nanoseconds of CLOCK_MONOTONIC), with `cancellable` at
/// most until its cancellation, or for no reason. True if the time has come.
///
/// # Errors
/// The thread was cancelled.
pub fn doze_until(deadline: u64, cancellable: bool) -> Result<bool, WaitError> {
    if Real::now() < deadline {
        crate::carry::note::note_wait("a point in time", 0, None);
        // SAFETY: published nowhere: the deadline and a cancellation end it.
        let waited = unsafe { wait_until::<Host>(Some(deadline), cancellable, |_, _| {}, || false) };
        if waited == Waited::Woken(Wake::Cancelled) {
            return Err(WaitError::Cancelled);
        }
    }
    Ok(Real::now() >= deadline)
}

/// Runs `f`, which is about to block in the kernel for long: if other threads wait for the calling thread's processor,
/// a spare activation takes it over at once, as the monitor would have it do later. It costs a wake-up of a kernel
/// thread on both ends.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    crate::carry::caller::give_processor_away(false);
    f()
}

/// A lightweight thread that counts as a kernel thread for a while: see [`hide`].
#[must_use]
pub struct Hidden(*const Descriptor);

/// Makes the calling thread count as a kernel thread: it never switches until [`Hidden::end`], and what it wakes goes
/// the way that kernel threads take.
pub fn hide() -> Hidden {
    Hidden(crate::carry::switching::show(std::ptr::null()))
}

impl Hidden {
    /// The thread is what it was. Not to be called in the child of a fork.
    pub fn end(self) {
        crate::carry::switching::show(self.0);
    }
}

/// Builds the default pool, unless it is there, with these settings. False where threads are kernel threads, which was
/// said on standard error then.
///
/// # Errors
/// Why it cannot be built; the same at every later call.
pub fn start(settings: &Settings) -> Result<bool, &'static str> {
    raddle_context::overflow::end_as_in_c();
    if settings.direct_sends {
        crate::carry::sends::switch_off();
    }
    crate::threads::pool::start_default(settings).map(|pool| pool.processors() > 0)
}

/// Writes what `text` tells, and which threads run and wait most, into the file again and again, by a kernel thread
/// with descriptors of its own.
///
/// # Errors
/// The file cannot be written, or there is no kernel thread.
pub fn publish(path: std::path::PathBuf, period: std::time::Duration, text: fn() -> String) -> std::io::Result<()> {
    let published = (text, crate::govern::busiest::Busiest::default());
    crate::os::published::publish(path, period.as_nanos() as u64, published)
}

/// What may take a fault: see [`on_fault`].
pub use raddle_context::overflow::Take;

/// `take` is offered each fault of lightweight threads first, overflows of their stacks too. Called in a signal
/// handler.
pub fn on_fault(take: Take) {
    raddle_context::overflow::offer_first(take);
}

/// Whether an address lies in the guard of a thread's stack: a fault there is an overflow.
pub fn is_in_guard(address: usize) -> bool {
    raddle_context::stack::find(address).is_some_and(|place| place.in_guard)
}

/// Whether a handler, as `sigaction` has it, is the one that reports overflows.
pub fn is_overflow_report(handler: usize) -> bool {
    raddle_context::overflow::is_report(handler)
}

/// How many stacks were ever used at once, the idle ones that are kept included.
pub fn stacks_used() -> u64 {
    crate::carry::pool::arenas().map(|arena| arena.stats().touched as u64).sum()
}

/// Blocks the calling lightweight thread, which waits for `what`, until a wake-up at `address`, the deadline
/// (nanoseconds of CLOCK_MONOTONIC), with `cancellable` its cancellation, or for no reason; at once if `ready` answers
/// true after the wait was published.
///
/// # Errors
/// The deadline has passed, or the thread was cancelled.
pub fn wait_at(
    what: &'static str,
    address: usize,
    deadline: Option<u64>,
    cancellable: bool,
    ready: impl FnOnce() -> bool,
) -> Result<(), WaitError> {
    crate::carry::note::note_wait(what, address, None);
    TABLE.wait(address, deadline, cancellable, ready)
}

/// The handler that has the monitor dump all threads.
pub fn dump_handler() -> extern "C" fn(i32) {
    crate::govern::dump::wanted
}

/// As [`wait_at`], for the word of a mutex.
///
/// # Errors
/// As for [`wait_at`].
pub fn wait_for_mutex_at(
    address: usize,
    deadline: Option<u64>,
    cancellable: bool,
    ready: impl FnOnce() -> bool,
) -> Result<(), WaitError> {
    let kind = match deadline {
        None => crate::carry::note::PTHREAD_MUTEX,
        Some(_) => "a pthread mutex, until a point in time",
    };
    crate::carry::note::begins_to_wait();
    crate::carry::note::note_wait(kind, address, None);
    TABLE.wait(address, deadline, cancellable, ready)
}

/// Runs `f`, in which the caller waits until a signal handler has run: then it is not dead-locked, whatever the others
/// wait for.
pub fn wait_for_signal<T>(f: impl FnOnce() -> T) -> T {
    let _counted = crate::govern::deadlock::WaitsForSignal::begin();
    f()
}

/// Blocks the calling lightweight thread until it is interrupted ([`interrupt`]), or for no reason; at once if `ready`
/// answers true. No memory is taken for it.
pub fn wait_for_interruption(ready: impl FnOnce() -> bool) {
    crate::carry::note::note_wait("a signal", 0, None);
    // SAFETY: published nowhere: an interruption ends it, which looks for the thread itself.
    unsafe { wait_until::<Host>(None, false, |_, _| {}, ready) };
}

/// What wakes those who wait at `address`, for use after the condition was made true: see [`Waker::wake`].
#[inline]
pub fn waker_at(address: usize) -> Waker<'static, Host> {
    TABLE.waker(address)
}

/// True when nobody waits at `address` (racy; see [`AddressTable::is_empty`]).
#[inline]
pub fn nobody_waits_at(address: usize) -> bool {
    TABLE.is_empty(address)
}

/// As [`crate::yield_now`]; the calling thread then looks whether it was interrupted. True if another thread ran.
pub fn yield_now() -> bool {
    let another_ran = current().is_some_and(crate::carry::switching::yield_now);
    poll_interruption();
    another_ran
}

/// Before a lightweight thread waits: yields if that is cheap and another thread of its processor may run, which may be
/// the one that it would wait for. True if another one ran.
#[inline]
pub fn yield_before_wait() -> bool {
    // Nobody runs on the kernel thread of one who is apart.
    if is_apart() {
        return false;
    }
    let another_ran = <Host as raddle_scheduler::Runtime>::yield_before_wait();
    poll_interruption();
    another_ran
}

/// Whether the calling thread's cancellation was requested.
pub fn is_cancelled() -> bool {
    current().is_some_and(|me| me.thread.is_cancelled())
}

/// Opens (`true`) or closes a region in which cancellation does not end the calling thread's waits. Regions nest.
pub fn mask_cancellation(open: bool) {
    crate::threads::scope::mask_cancellation(open);
}

/// Shows the kernel threads that carry threads now, or did a moment ago: their kernel ids, and a word each for what
/// they have heard.
pub fn kernel_threads(mut visit: impl FnMut(u32, &'static AtomicU64)) {
    for activation in crate::carry::activations::all() {
        match activation.tid.load(Ordering::SeqCst) {
            0 => {}
            task => visit(task, &activation.heard),
        }
    }
}

/// Whether the kernel thread of that number, of this process, waits in the kernel. `None` if that cannot be told, or
/// not soon.
pub fn is_blocked(task: u32) -> Option<bool> {
    match crate::os::task_state(task) {
        crate::os::TaskState::Running => Some(false),
        crate::os::TaskState::Blocked => Some(true),
        crate::os::TaskState::Unknown => None,
    }
}

/// The word of the kernel thread that runs this, if it carries threads, whatever runs on it. For signal handlers too.
pub fn heard_by_this() -> Option<&'static AtomicU64> {
    let task = crate::os::gettid();
    crate::carry::activations::all().find(|activation| activation.is_task(task)).map(|activation| &activation.heard)
}

/// True on a kernel thread that carries threads, whatever runs on it. For signal handlers too.
pub fn is_kernel_thread_of_runtime() -> bool {
    heard_by_this().is_some()
}

/// Whether there is any such kernel thread. For signal handlers too.
pub fn carries_threads() -> bool {
    crate::carry::activations::all().next().is_some()
}

/// What an interruption met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// It waits, or waited, and is on its way; or has not started, or ended: nothing more is to be done.
    OffProcessor,
    /// It runs on the kernel thread of this id, or ran there a moment ago.
    Running(u32),
}

/// Ends the wait that the thread of a [`crate::JoinHandle`] in raw form is in, as if for no reason, and has it run what
/// [`on_interruption`] named.
///
/// # Safety
/// `raw` came from [`crate::JoinHandle::into_raw`], and the handle was neither joined nor dropped yet.
pub unsafe fn interrupt(raw: *const ()) -> Met {
    // SAFETY: the address of a descriptor, which are type-stable; the handle keeps it from being reused.
    let target: &'static Descriptor = unsafe { &*raw.cast() };
    if target.thread.interrupt() == Claim::WonParked {
        // SAFETY: the claim was won just now, of a thread off its stack.
        unsafe { <Host as raddle_scheduler::Runtime>::make_ready(&target.thread) };
        // It looks when it goes on, and sees the flag by that wake-up. A signal to its kernel thread would only end
        // what its handlers wait for.
        return Met::OffProcessor;
    }
    // It sees the flag, or is found where it runs.
    let activation = target.activation.meet();
    // SAFETY: null or an activation, which are never freed.
    match unsafe { activation.as_ref() } {
        Some(activation) => Met::Running(activation.tid.load(Ordering::Relaxed)),
        None => Met::OffProcessor,
    }
}

/// In a signal handler on a kernel thread that was a lightweight one: the wait that the handler has interrupted, which
/// began when the thread was lightweight perhaps, ends for no reason, as an interruption ends it there.
pub fn end_own_wait() {
    crate::carry::foreign::end_wait();
}

/// Runs `wait`, a cancellable wait of the calling kernel thread, that [`cancel_own_wait`] ends in a signal handler.
pub fn wait_as_kernel_thread<T>(wait: impl FnOnce() -> T) -> T {
    // The handler finds a record.
    crate::carry::foreign::current();
    let result = wait();
    crate::carry::foreign::forget_cancellation();
    result
}

/// From here on the calling kernel thread, which carries no lightweight ones, counts as one that may want a core.
pub fn count_kernel_thread() {
    crate::carry::foreign::count();
}

/// Calls `f`, in which the calling kernel thread wants no core.
pub fn asleep_in_kernel<T>(f: impl FnOnce() -> T) -> T {
    crate::carry::foreign::asleep(f)
}

/// Whether a kernel thread that carries no lightweight ones may want a core at this moment (racy).
#[inline]
pub fn kernel_thread_wants_a_core() -> bool {
    crate::carry::foreign::any_awake()
}

/// In a signal handler that has interrupted [`wait_as_kernel_thread`] on its kernel thread: that wait is cancelled.
pub fn cancel_own_wait() {
    crate::carry::foreign::cancel_wait();
}

/// The lowest usable address of the calling lightweight thread's stack, and its end.
pub fn own_stack() -> Option<(usize, usize)> {
    let raw = crate::carry::delays::address(current()?.slot.get());
    if raw == 0 {
        return None;
    }
    // SAFETY: the running thread's own slot; the token made here is forgotten, so the slot is not given back.
    let slot = std::mem::ManuallyDrop::new(unsafe { Slot::from_raw(raw) });
    Some((slot.limit().addr(), slot.top().addr()))
}

/// Names the calling lightweight thread, for dumps and overflow reports.
pub fn set_own_name(name: &str) {
    if let Some(me) = current() {
        crate::carry::traced::named(me, name);
        me.rename(name.to_owned());
    }
}

/// Names another lightweight thread, with at most 16 bytes.
pub fn set_name<T>(thread: &crate::JoinHandle<T>, name: &[u8]) {
    let target = thread.descriptor();
    crate::carry::traced::named(target, &String::from_utf8_lossy(name));
    target.rename_other(name);
}

/// The calling thread's destructors of thread-local variables and thread-specific data, now instead of at its end. It
/// works on a lightweight thread, and on what a fork made of one.
///
/// # Safety
/// No variable with a destructor is used by the thread's code afterwards.
pub unsafe fn run_destructors() {
    // SAFETY: the thread's code uses no variable with a destructor after this.
    unsafe { crate::carry::pool::tls().end_variables() };
}

/// The calling thread, which has the kernel thread of that number for itself, holds the C library's locks by it from
/// now on, and the kernel knows its robust mutexes. False if the kernel refuses.
///
/// # Safety
/// As said; before the kernel thread goes on without it, the kernel has forgotten the list.
pub unsafe fn known_to_kernel(number: u32) -> bool {
    // SAFETY: as promised by the caller, whose block is ours.
    unsafe { crate::carry::pool::tls().known_to_kernel(number) }
}

/// The thread pointer that belongs to the calling kernel thread itself when it is an activation, whatever thread runs
/// on it. Works in signal handlers, also in the middle of a switch.
pub fn own_thread_pointer() -> Option<usize> {
    let tid = crate::os::gettid();
    let is_mine = |a: &&'static Activation| a.is_task(tid) || a.task.load(Ordering::Relaxed) == tid;
    let mine = crate::carry::activations::all().find(is_mine)?;
    Some(mine.fs.get())
}
