//! What a synchronisation primitive asks of whoever runs threads, and the one way to wait.
//!
//! A primitive is written once, against [`Runtime`]: it runs on lightweight threads, on kernel threads that no pool
//! knows and, in tests, on whatever drives the interleavings.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::runtime::{Waited, wait_until, wake};
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! use raddle_scheduler::{Epoch, Thread, Wake};
//! let (publish, published) = std::sync::mpsc::channel::<(&'static Thread<Real>, Epoch)>();
//! let waker = std::thread::spawn(move || {
//!     let (thread, epoch) = published.recv().unwrap();
//!     wake::<KernelThreads>(thread, epoch, Wake::Signalled)
//! });
//! // SAFETY: the record goes to the waker, who claims this wait and nothing else.
//! let waited = unsafe {
//!     wait_until::<KernelThreads>(None, false, |thread, epoch| publish.send((thread, epoch)).unwrap(), || false)
//! };
//! assert_eq!(waited, Waited::Woken(Wake::Signalled));
//! assert!(waker.join().unwrap());
//! ```

use crate::thread::{Claim, Epoch, Thread, Wake};
use raddle_machine::{Machine, Ordering};
use raddle_queues::wait_list::NodePool;

/// An atomic word of a runtime's machine.
pub type Word<R, T> = <<R as Runtime>::Machine as Machine>::Atomic<T>;

/// Whoever runs threads.
///
/// # Safety
/// The primitives hand out `&mut` to what they protect on the word of these functions: `current` is the calling
/// thread's record and nobody else's at the time, `suspend` returns only after the wait was claimed, and `nodes` is the
/// same pool at every call.
pub unsafe trait Runtime: Copy + Send + Sync + Sized + 'static {
    /// The world it runs in.
    type Machine: Machine;

    /// The calling thread's record. Records are type-stable: the reference stays readable for ever, though after the
    /// thread has ended it may stand for another one (epochs tell).
    ///
    /// # Safety
    /// Whoever has a record can wake, tag and queue its thread: the caller keeps it among those who follow the park
    /// protocol ([`crate::thread`]), and hands it to nobody else.
    unsafe fn current() -> &'static Thread<Self::Machine>;

    /// Leaves the processor until the wait `epoch` of `current()` is claimed, or until `deadline` ([`Machine::now`]'s
    /// clock), at which the runtime itself claims it with [`Wake::TimedOut`]. Returns [`Thread::outcome`].
    ///
    /// # Safety
    /// `epoch` is the wait that the calling thread has just armed and published.
    unsafe fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake;

    /// Makes a thread ready whose claim answered [`Claim::WonParked`].
    ///
    /// # Safety
    /// The caller holds exactly that claim, and calls this once: the thread is run once per call.
    unsafe fn make_ready(thread: &'static Thread<Self::Machine>);

    /// Where wait lists take their nodes from: one pool for each machine in a program.
    fn nodes() -> &'static NodePool<Self::Machine>;

    /// Offers the processor to other ready threads of the same or a higher priority.
    fn yield_now();

    /// True while `thread` is on a processor (racy): a short spin may be worth it.
    fn is_running(thread: &'static Thread<Self::Machine>) -> bool;

    /// Yields if that is cheap and another thread of this processor may run: before a thread waits, what it waits for
    /// may be one switch away. False where a yield helps nobody or costs more than a wait.
    fn yield_before_wait() -> bool {
        false
    }

    /// True if `thread`, which the caller is about to wake, will run where the caller runs, as soon as that one leaves,
    /// or earlier elsewhere: others may rely on its coming. False where it may have to wait for something else.
    fn runs_soon(thread: &'static Thread<Self::Machine>) -> bool {
        let _ = thread;
        true
    }

    /// Notes, for dumps, what the calling thread is about to wait for, and who holds it, if somebody does. The address
    /// is never dereferenced.
    fn note_wait(kind: &'static str, object: usize, holder: Option<&'static Thread<Self::Machine>>) {
        let _ = (kind, object, holder);
    }

    /// A wait of the calling thread that never left its stack is over: signals that were put off for it may come.
    fn wait_over() {}

    /// Nanoseconds after which a thread that computes gives way to others, perhaps while it holds a lock: who waits for
    /// one for longer, and comes too late again, is handed it. Never, where threads give way where they say so alone.
    fn quantum() -> u64 {
        u64::MAX
    }

    /// True while cancellation must not end the calling thread's waits (scope joins, `Drop`).
    fn cancel_masked() -> bool {
        false
    }
}

/// Wakes the wait `epoch` of `thread`, if nobody else did. True when this call won.
///
/// The waker must have made the condition true before, and touched the primitive's memory for the last time when that
/// may end its life.
pub fn wake<R: Runtime>(thread: &'static Thread<R::Machine>, epoch: Epoch, reason: Wake) -> bool {
    match thread.claim(epoch, reason) {
        Claim::Lost => false,
        Claim::WonArming => true,
        Claim::WonParked => {
            // SAFETY: the claim was won just now, of a thread off its stack.
            unsafe { R::make_ready(thread) };
            true
        }
    }
}

/// Requests cancellation of `thread` and wakes it from a cancellable wait.
pub fn cancel<R: Runtime>(thread: &'static Thread<R::Machine>) {
    if thread.cancel() == Claim::WonParked {
        // SAFETY: the claim was won just now, of a thread off its stack.
        unsafe { R::make_ready(thread) };
    }
}

/// How a published wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The condition was found true after publishing, and nobody woke the thread: its node is now a tombstone.
    Retry,
    /// Woken for this reason. With [`Wake::Signalled`] a wake-up was consumed: a caller that does not use it (because
    /// it returns a time-out or a cancellation instead) passes it on.
    Woken(Wake),
}

/// The one way to wait (PROTOCOLS 1): arm, publish, fence, look again, leave.
///
/// `publish` puts `(thread, epoch)` where wakers find it, with release ordering. `ready` looks at the condition.
/// `cancellable` false masks cancellation (re-acquiring a mutex after a condition wait, scope joins).
///
/// # Safety
/// `publish` gives the record only to those who follow the park protocol: they claim `epoch`, and nothing else.
pub unsafe fn wait_until<R: Runtime>(
    deadline: Option<u64>,
    cancellable: bool,
    publish: impl FnOnce(&'static Thread<R::Machine>, Epoch),
    ready: impl FnOnce() -> bool,
) -> Waited {
    // SAFETY: `publish` gives the record to those who follow the protocol, as the caller promises; nothing claims.
    unsafe { wait_until_or::<R>(deadline, cancellable, publish, ready, |_, _| false) }
}

/// As [`wait_until`]. When `ready` has said no, `claimed` may pass time, with the wait armed and published: true if the
/// wait was claimed meanwhile, so that the thread need not leave its processor.
///
/// # Safety
/// As for [`wait_until`]; `claimed` answers as [`Thread::is_fired`] does of this wait.
#[inline(always)]
pub(crate) unsafe fn wait_until_or<R: Runtime>(
    deadline: Option<u64>,
    cancellable: bool,
    publish: impl FnOnce(&'static Thread<R::Machine>, Epoch),
    ready: impl FnOnce() -> bool,
    claimed: impl FnOnce(&'static Thread<R::Machine>, Epoch) -> bool,
) -> Waited {
    // SAFETY: used for this wait only, and published by the caller under its promise.
    let thread = unsafe { R::current() };
    let cancellable = cancellable && !R::cancel_masked();
    if cancellable && thread.is_cancelled() {
        return Waited::Woken(Wake::Cancelled);
    }
    let epoch = thread.arm();
    publish(thread, epoch);
    // Events: P publish, L look (thread); C condition made true, D dequeue (waker), each side with a SeqCst fence
    // between its two. Forbidden: L does not see C and D does not see P. The fences are totally ordered; whichever
    // comes first, the other side's later read sees the earlier write.
    // Ordering[wait.look]: SeqCst. Pairs with the waker's fence between C and D, and with wait.cancel.
    R::Machine::fence(Ordering::SeqCst);
    let reason = if ready() {
        Wake::Itself
    } else if cancellable && thread.is_cancelled() {
        Wake::Cancelled
    } else if claimed(thread, epoch) {
        // Whoever cancels from the look above on finds the wait and claims it.
        let waited = Waited::Woken(masked(thread.outcome(), cancellable));
        R::wait_over();
        return waited;
    } else {
        return Waited::Woken(suspend::<R>(thread, epoch, deadline, cancellable));
    };
    let waited = match thread.claim(epoch, reason) {
        Claim::Lost => Waited::Woken(masked(thread.outcome(), cancellable)),
        Claim::WonArming | Claim::WonParked => {
            thread.disarm();
            if reason == Wake::Cancelled { Waited::Woken(reason) } else { Waited::Retry }
        }
    };
    R::wait_over();
    waited
}

/// A cancellation that arrives during a masked wait must not end it: such a wait is repeated by its caller.
fn masked(reason: Wake, cancellable: bool) -> Wake {
    if reason == Wake::Cancelled && !cancellable { Wake::Itself } else { reason }
}

fn suspend<R: Runtime>(
    thread: &'static Thread<R::Machine>,
    epoch: Epoch,
    deadline: Option<u64>,
    cancellable: bool,
) -> Wake {
    // SAFETY: armed and published by `wait_until`.
    let reason = unsafe { R::suspend(epoch, deadline) };
    debug_assert!(thread.current_wait().is_none(), "suspend returned inside the wait");
    masked(reason, cancellable)
}
