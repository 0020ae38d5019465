//! Kernel threads that are no activations: they wait on a futex of their own, with the same records and the same protocol, so
//! that every primitive works between them and lightweight threads.

use crate::deadlock::FOREIGN_WAITERS;
use crate::descriptor::Descriptor;
use raddle_machine::{Atomic, Machine, Real};
use raddle_scheduler::{Claim, Epoch, Thread, Wake};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Gives the record back when the kernel thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(record) = RECORD.take() {
            let mut cache = crate::pool::descriptors().cache();
            // SAFETY: allocated below from the same slab; the kernel thread waits for nothing any more, and stale claims fail
            // by their epoch.
            unsafe { cache.free(NonNull::from(record)) };
        }
    }
}

thread_local! {
    /// Without a destructor: readable as long as the kernel thread runs.
    static RECORD: Cell<Option<&'static Descriptor>> = const { Cell::new(None) };
    static GUARD: Guard = const { Guard };
}

/// The calling kernel thread's record: the same for its whole life, but for destructors that run after the guard's, which share
/// one that is never given back.
#[inline]
pub(crate) fn current() -> &'static Thread<Real> {
    RECORD.get().unwrap_or_else(first).record()
}

#[cold]
#[inline(never)]
fn first() -> &'static Descriptor {
    let record = allocate();
    RECORD.set(Some(record));
    let _ = GUARD.try_with(|_| ());
    record
}

fn allocate() -> &'static Descriptor {
    let mut cache = crate::pool::descriptors().cache();
    let record = cache.allocate().unwrap_or_else(|_| {
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
    let _counted = deadline.is_none().then(|| {
        FOREIGN_WAITERS.fetch_add(1, Ordering::SeqCst);
        Counted
    });
    loop {
        // Acquire: pairs with the waker's release of the token.
        if me.token.load(Ordering::Acquire) != 0 {
            me.token.store(0, Ordering::Relaxed);
            return me.outcome();
        }
        if deadline.is_some_and(|time| Real::now() >= time) && me.claim(epoch, Wake::TimedOut) == Claim::WonParked {
            return me.outcome();
        }
        // When the claim was lost, its winner's token is on its way: wait for it without a deadline.
        Real::wait(&me.token, 0, deadline.filter(|&time| Real::now() < time));
    }
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        FOREIGN_WAITERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The claimant's push: wakes the kernel thread.
pub(crate) fn wake(thread: &'static Thread<Real>) {
    thread.token.store(1, Ordering::Release);
    Real::wake(&thread.token, 1);
}
