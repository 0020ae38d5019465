//! Signal handlers that may call into the library.
//!
//! A handler can arrive at any instruction: between two threads, in the middle of a queue that only its owner touches.
//! Two rules make it harmless to what it interrupted:
//!
//! 1. *It waits for the runtime.* A signal that arrives inside the mark (see `raddle_scheduler::takeover`) is given
//!    back to the kernel with all that it says, and blocked on this kernel thread together with every other one that
//!    can wait; leaving the mark unblocks them, and the handler runs there, outside. So nothing has to be stored here,
//!    and nothing is lost: the kernel keeps real-time signals in a queue, and of the others one of each kind, as
//!    always. A processor that sleeps, and a spare that waits for an order, touch nothing of their own meanwhile: there
//!    it runs at once. Faults never wait.
//! 2. *It is nobody's thread.* While a handler runs, the interrupted thread is hidden, and the library takes the caller
//!    for a kernel thread that is not ours: what it makes ready goes through the pool's shared queue, which any kernel
//!    thread may use at any time, however many are stopped in the middle of it; a yield or a wait is the kernel's. It
//!    never switches threads, since the stack that it runs on belongs to the kernel thread.
//!
//! By rule 2 alone no queue would be corrupted; by rule 1 a handler does not run on half a switch either, and may leave
//! by a jump. When the kernel does not take a signal back (the limit on queued real-time signals), rule 2 has to do.
//!
//! Two places are outside the mark and yet closed: where a thread whose activation has lost its processor changes over
//! to another one, and where a thread is about to wait or comes from a wait that it has not left yet. A handler that
//! jumped out there would leave a thread that runs twice, or one that waits for ever.
//!
//! Bound: a deferred handler waits until the mark is left, which is a few hundred instructions, unless the kernel takes
//! the core away or a page has to be fetched. The signals that were blocked together with it wait no longer. Order: a
//! deferred real-time signal goes behind those of its number that are queued already.
//!
//! In a handler these may be called: [`Thread::unpark`](crate::threads::park::Thread::unpark), `release` of a
//! [`Semaphore`](crate::sync::Semaphore), and what else wakes others without a lock of its own and without memory. What
//! may need memory (spawning, sending to an unbounded channel, a first [`crate::current`]) only where the interrupted
//! code cannot be inside the allocator, as POSIX has it. Waiting for another thread blocks the kernel thread.
//!
//! # Example
//! ```
//! use std::ffi::{c_int, c_void};
//! use std::sync::atomic::{AtomicBool, Ordering};
//! static SEEN: AtomicBool = AtomicBool::new(false);
//! unsafe extern "C" fn note(_: c_int, _: *mut c_void, _: *mut c_void) {
//!     SEEN.store(true, Ordering::Relaxed);
//! }
//! // SAFETY: the handler only stores.
//! unsafe { raddle::signal::install(10, note).unwrap() };
//! # let send = format!("kill -10 {}", std::process::id());
//! # std::process::Command::new("sh").args(["-c", &send]).status().unwrap();
//! # while !SEEN.load(Ordering::Relaxed) {
//! #     std::thread::yield_now();
//! # }
//! ```

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::pool::Shared;
use crate::carry::switching;
use crate::os::signals;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// What the kernel calls: the signal, its `siginfo_t` and the interrupted `ucontext_t`.
pub type Handler = unsafe extern "C" fn(signal: c_int, info: *mut c_void, context: *mut c_void);

/// Handlers of [`install`], by signal.
static HANDLERS: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];
/// Signals that arrived inside the mark and were put off.
static DEFERRED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread that a handler interrupted; in the thread's own storage, like what it hides.
    static INTERRUPTED: Cell<*const Descriptor> = const { Cell::new(std::ptr::null()) };
    /// The activation whose kernel thread this is; set in the kernel thread's own storage.
    static MINE: Cell<*const Activation> = const { Cell::new(std::ptr::null()) };
}

/// Signals that arrived inside the runtime and were put off, since the process began.
pub fn deferred() -> u64 {
    DEFERRED.load(Ordering::Relaxed)
}

/// Lets `handler` handle `signal`, wherever it arrives. It runs on the alternate stack, if the kernel thread has one,
/// with all signals but faults blocked.
///
/// # Errors
/// A fault (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS), which cannot wait: use `sigaction`. Else what the kernel
/// says: no such signal, or one that cannot be caught.
///
/// # Safety
/// `handler` does only what a signal handler may do (`signal-safety(7)`), and of this library what the module's
/// documentation allows.
pub unsafe fn install(signal: i32, handler: Handler) -> io::Result<()> {
    let known = usize::try_from(signal).ok().and_then(|index| HANDLERS.get(index));
    let Some(slot) = known.filter(|_| !signals::is_fault(signal)) else {
        let why = format!("signal {signal} cannot wait for the runtime: it is a fault, or there is no such signal");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    // Relaxed: the word is all there is.
    let before = slot.swap(handler as usize, Ordering::Relaxed);
    signals::install(signal, entry).inspect_err(|_| slot.store(before, Ordering::Relaxed))
}

/// First thing in a handler that a library has installed on behalf of a program, before it looks at `context`: a
/// thread that has come back from the kernel to the runtime (`carry/turns.rs`) is at its own instruction there.
///
/// # Safety
/// `context` is what the kernel passed to the handler.
pub unsafe fn set_back(context: *mut c_void) {
    // SAFETY: the kernel's argument to the handler that the caller is.
    unsafe { crate::carry::turns::set_back(context) };
}

unsafe extern "C" fn entry(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's argument.
    unsafe { set_back(context) };
    let word = HANDLERS[signal as usize].load(Ordering::Relaxed);
    // SAFETY: stored by `install` from this type, before the kernel knew of this function.
    let handler: Handler = unsafe { std::mem::transmute(word) };
    // SAFETY: installed with all signals that can wait blocked; the arguments are the kernel's.
    unsafe { dispatch(signal, info, context, || handler(signal, info, context)) };
}

/// For a library that installs handlers on behalf of a program: runs `handler`, with all signals blocked that can wait
/// (see [`block_only`]), or puts the signal off.
///
/// # Safety
/// Called by a handler of `signal`, installed with SA_SIGINFO and a mask that blocks all signals but faults; `info` and
/// `context` are its arguments. `handler` runs at once or not at all; it does only what a handler may do. If it leaves
/// by a jump, [`left_by_a_jump`] must be called before anything else of this library.
pub unsafe fn dispatch(signal: i32, info: *mut c_void, context: *mut c_void, handler: impl FnOnce()) {
    if !signals::is_fault(signal)
        && let Some(activation) = here()
        && (activation.is_closed() || switching::current().is_some_and(|me| me.thread.is_in_wait()))
    {
        // SAFETY: passed on from the caller; this is the activation's kernel thread.
        if unsafe { activation.defer(signal, info, context) } {
            DEFERRED.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    as_nobody(handler);
}

/// Runs `f` as nobody's thread (rule 2): a handler, or code of others that the runtime calls inside its mark
/// ([`crate::carry::guard`]).
pub(crate) fn as_nobody<T>(f: impl FnOnce() -> T) -> T {
    let hidden = switching::show(std::ptr::null());
    let outer = INTERRUPTED.get();
    if !hidden.is_null() {
        INTERRUPTED.set(hidden);
    }
    let shown = INTERRUPTED.get();
    compiler_fence(Ordering::SeqCst);
    let value = f();
    compiler_fence(Ordering::SeqCst);
    // In the child of a fork in the handler nobody is interrupted, nor after a jump out of a handler above this one.
    if INTERRUPTED.get() == shown {
        INTERRUPTED.set(outer);
        switching::show(hidden);
    }
    value
}

/// In a handler behind [`dispatch`], on the interrupted thread's own stack: `f` runs as that thread, not as nobody
/// (rule 2), so it may wait, and go on on another kernel thread. `None` if the handler has interrupted no thread, or
/// one that computes beside its processor: that has its kernel thread already, and would have to be set beside anew.
///
/// Only where the thread could have waited itself: outside the runtime, and outside libraries that have locks or
/// storage of a kernel thread's in hand. The handler returns with what the kernel keeps for the kernel thread that it
/// is on then: mask and alternate stack are the caller's to set.
pub fn as_interrupted<T>(f: impl FnOnce() -> T) -> Option<T> {
    let thread = INTERRUPTED.get();
    if thread.is_null() || here().is_none_or(|activation| activation.processor().seat.owner.owner() != activation.id) {
        return None;
    }
    /// The end of a thread may pass by here on its way to the handler's frame.
    struct Nobody(*const Descriptor);
    impl Drop for Nobody {
        fn drop(&mut self) {
            compiler_fence(Ordering::SeqCst);
            switching::show(self.0);
        }
    }
    let _nobody = Nobody(switching::show(thread));
    compiler_fence(Ordering::SeqCst);
    Some(f())
}

/// In a handler behind [`dispatch`]: from here on, only these signals are blocked (bit `n - 1` is signal `n`), the
/// signal itself, and what the interrupted code had blocked, but none of `let_in`.
///
/// # Safety
/// `context` is what the kernel passed to the handler of `signal`.
pub unsafe fn block_only(signal: i32, context: *mut c_void, blocked: u64, let_in: u64) {
    // SAFETY: the kernel's argument to the handler of this signal, which the caller is.
    unsafe { signals::block_only(signal, context, blocked, let_in) };
}

/// A handler was left by a jump: the interrupted thread is itself again.
pub fn left_by_a_jump() {
    let thread = INTERRUPTED.replace(std::ptr::null());
    if !thread.is_null() {
        switching::show(thread);
    }
}

/// The pool that a handler interrupted, for what it spawns; `None` outside handlers, and where it interrupted none.
pub(crate) fn home() -> Option<&'static Shared> {
    // SAFETY: null or a descriptor, which are type-stable.
    if let Some(thread) = unsafe { INTERRUPTED.get().as_ref() } {
        return Some(crate::carry::pool::pool(thread.pool()));
    }
    // SAFETY: null or an activation, which are never freed.
    unsafe { MINE.get().as_ref() }?.processor_if_any().map(|processor| processor.pool)
}

/// In a handler: calls `f` with the thread that it interrupted and its activation, if it is one.
pub(crate) fn interrupted(f: impl FnOnce(&'static Activation, &'static Descriptor)) {
    // SAFETY: null or a descriptor, which are type-stable.
    if let Some(thread) = unsafe { INTERRUPTED.get().as_ref() }
        && let Some(activation) = here()
    {
        f(activation, thread);
    }
}

/// Called once by each activation on its kernel thread.
pub(crate) fn this_is(activation: &'static Activation) {
    MINE.set(activation);
}

/// In the child of a fork: the calling kernel thread is no activation, whatever it was.
pub(crate) fn forget() {
    MINE.set(std::ptr::null());
    INTERRUPTED.set(std::ptr::null());
}

/// The activation whose kernel thread calls: right at any instruction of a switch, which thread's storage is installed
/// or not. What the storage says is checked, since a thread's descriptor may have a new owner while the kernel thread
/// is still on its stack.
pub(crate) fn here() -> Option<&'static Activation> {
    let task = crate::os::gettid();
    let is_here = |activation: &&'static Activation| activation.is_task(task);
    let thread = switching::current().or_else(|| {
        // SAFETY: null or a descriptor, which are type-stable.
        unsafe { INTERRUPTED.get().as_ref() }
    });
    let by_thread = thread.map_or(std::ptr::null_mut(), |thread| thread.activation.get());
    // SAFETY: both are null or activations, which are never freed.
    let candidates = unsafe { [by_thread.as_ref(), MINE.get().as_ref()] };
    let found = candidates.into_iter().flatten().find(is_here);
    // A thread that starts or ends just now has no name yet, or no longer.
    found.or_else(|| crate::carry::activations::all().find(is_here))
}
