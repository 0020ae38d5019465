//! Kernel threads that are no activations: they wait on a futex of their own, with the same records and the same
//! protocol, so that every primitive works between them and lightweight threads.

use crate::carry::descriptor::{Descriptor, FREE};
use raddle_machine::{Machine, Real};
use raddle_scheduler::counted::Sleepers;
use raddle_scheduler::{Claim, Epoch, Thread, Wake};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kernel threads that wait in [`suspend`] without a deadline, and were not woken.
pub(crate) static FOREIGN_WAITERS: Sleepers<Real> = Sleepers::constant();

/// Kernel threads that are counted, as long as they live, and want a core, or may: all of them but those in [`suspend`]
/// and [`asleep`]. One that waits in the kernel otherwise is among them, since nothing tells of it.
static AWAKE: AtomicUsize = AtomicUsize::new(0);

/// Whether the calling kernel thread is in [`AWAKE`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Never,
    Awake,
    Asleep,
}

/// Whether a kernel thread that is counted may want a core at this moment.
#[inline]
pub(crate) fn any_awake() -> bool {
    // Relaxed: an answer that is a moment old will do.
    AWAKE.load(Ordering::Relaxed) != 0
}

/// The calling kernel thread is counted from here on.
pub(crate) fn count() {
    if COUNTED.get() == Counted::Never {
        wakes();
    }
}

fn wakes() {
    if COUNTED.replace(Counted::Awake) != Counted::Awake {
        AWAKE.fetch_add(1, Ordering::Relaxed);
    }
}

fn leaves_awake(to: Counted) {
    if COUNTED.replace(to) == Counted::Awake {
        AWAKE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls `f`, in which the calling kernel thread wants no core.
pub(crate) fn asleep<T>(f: impl FnOnce() -> T) -> T {
    if COUNTED.get() == Counted::Never {
        return f();
    }
    leaves_awake(Counted::Asleep);
    let result = f();
    // Also where a handler has slept inside `f`, or has jumped out of an earlier one.
    wakes();
    result
}

/// In the child of a fork: of the kernel threads only the caller's is left.
pub(crate) fn forget() {
    FOREIGN_WAITERS.forget();
    AWAKE.store(usize::from(COUNTED.get() == Counted::Awake), Ordering::Relaxed);
}

/// Gives the record back when the kernel thread ends.
fn give_back() {
    if let Some(record) = RECORD.take() {
        // SAFETY: allocated below from the same slab; the kernel thread waits for nothing any more, and stale claims
        // fail by their epoch.
        unsafe { crate::carry::pool::descriptors().free_near(NonNull::from(record), crate::os::core) };
    }
}

thread_local! {
    /// Without a destructor: readable as long as the kernel thread runs.
    static RECORD: Cell<Option<&'static Descriptor>> = const { Cell::new(None) };
    static COUNTED: Cell<Counted> = const { Cell::new(Counted::Never) };
}

/// The calling kernel thread's record: the same for its whole life, but for destructors of thread-specific data that
/// run after it was given back, which have another one.
#[inline]
pub(crate) fn current() -> &'static Thread<Real> {
    RECORD.get().unwrap_or_else(first).record()
}

/// The calling thread waits from now on as a kernel thread does, with its own descriptor for a record.
pub(crate) fn become_record(me: &'static Descriptor) {
    RECORD.set(Some(me));
}

/// The descriptor of the calling kernel thread, if it has come to be one for a lightweight thread.
pub(crate) fn thread() -> Option<&'static Descriptor> {
    // Records of other kernel threads are of no pool.
    RECORD.get().filter(|record| record.tag() != FREE)
}

#[cold]
#[inline(never)]
fn first() -> &'static Descriptor {
    let record = allocate();
    RECORD.set(Some(record));
    // Without a key it is kept.
    crate::os::at_end_of_kernel_thread(give_back);
    record
}

fn allocate() -> &'static Descriptor {
    let record = crate::carry::pool::descriptors().allocate_near(crate::os::core).unwrap_or_else(|_| {
        panic!("raddle: no memory for the record of a kernel thread; free memory or raise the process's limit")
    });
    // SAFETY: the slab's objects are type-stable and live for ever (the slab is a static).
    let record: &'static Descriptor = unsafe { record.as_ref() };
    record.thread.recycle(0);
    record.thread.set_kernel_thread();
    record
}

/// Blocks the calling kernel thread until its wait `epoch` is claimed or the deadline has passed.
pub(crate) fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
    let me = current();
    if me.finish_park(epoch).is_err() {
        return me.outcome();
    }
    // What the token is while nobody has woken it.
    let token = if deadline.is_none() { FOREIGN_WAITERS.sleeps(&me.token) } else { 0 };
    if deadline.is_none() {
        // It may be the last one that was awake: the monitor, if it sleeps, has not seen a dead-lock for its sake.
        crate::carry::pool::hint();
    }
    loop {
        if FOREIGN_WAITERS.was_woken(&me.token) {
            return me.outcome();
        }
        // Asked once: who asks again for how to wait may find the time come meanwhile, and waits for ever.
        let late = deadline.is_some_and(|time| Real::now() >= time);
        if late && me.claim(epoch, Wake::TimedOut) == Claim::WonParked {
            return me.outcome();
        }
        // When the claim was lost, its winner's token is on its way: wait for it without a deadline.
        self::asleep(|| Real::wait(&me.token, token, deadline.filter(|_| !late)));
    }
}

/// In a signal handler that the calling kernel thread runs: a wait that it has interrupted ends, for no reason.
pub(crate) fn end_wait() {
    if let Some(record) = RECORD.get()
        && record.thread.interrupt() == Claim::WonParked
    {
        wake(&record.thread);
    }
}

/// In a signal handler that the calling kernel thread runs: the cancellable wait that it has interrupted, or that it is
/// about to begin, ends with its cancellation.
pub(crate) fn cancel_wait() {
    if let Some(record) = RECORD.get()
        && record.thread.cancel() == Claim::WonParked
    {
        wake(&record.thread);
    }
}

/// After [`cancel_wait`]: the calling kernel thread's waits are not cancelled any more.
pub(crate) fn forget_cancellation() {
    if let Some(record) = RECORD.get() {
        record.thread.forget_cancellation();
    }
}

/// The claimant's push: wakes the kernel thread.
pub(crate) fn wake(thread: &'static Thread<Real>) {
    FOREIGN_WAITERS.wake(&thread.token);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_thread_is_counted_while_it_wants_a_core() {
        let of_this = || COUNTED.get() == Counted::Awake;
        // Nobody knows of it yet.
        assert!(!asleep(of_this) && !of_this());
        count();
        count();
        assert!(of_this() && any_awake() && !asleep(of_this) && of_this());
        // One that was left by a jump is mended by the next.
        leaves_awake(Counted::Asleep);
        asleep(|| assert!(!asleep(of_this) && of_this()));
        assert!(of_this());
        leaves_awake(Counted::Never);
    }
}
