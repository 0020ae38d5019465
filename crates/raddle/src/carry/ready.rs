//! A thread that was woken: how it becomes ready, from wherever its waker is.

use crate::carry::descriptor::Descriptor;
use crate::carry::processor::bump;
use crate::carry::switching::{current, enter_from_outside};
use crate::carry::traced::Waker;
use crate::carry::witness::Lent;
use crate::lanes::Kind;
use raddle_machine::{Machine, Real};
use raddle_scheduler::{Ready, Thread};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// The thread runs next, and the waker still has something to do before: its stack and storage come closer meanwhile.
#[inline(always)]
fn fetch(ready: &Ready<Real>) {
    let descriptor = Descriptor::from_thread(ready.thread());
    // SAFETY: the token is in hand, so nobody runs the thread or writes its context.
    let context = unsafe { &*descriptor.context.get() };
    let sp = context.sp().addr();
    for line in 0..4 {
        Real::prefetch(sp + 64 * line);
    }
    Real::prefetch(context.fs());
    Real::prefetch(context.fs() - 128);
}

/// Queues a thread that `waker`, this processor's running thread, or its idle context, woke.
#[inline(always)]
fn woken_here(mut inside: Lent<'_>, ready: Ready<Real>, waker: Waker) {
    let (activation, processor) = (inside.activation, inside.processor);
    let woken = bump(&processor.counters.woken);
    if crate::pace::is_time_for_push(woken) {
        let thread = Descriptor::from_thread(ready.thread());
        crate::carry::traced::pushed(processor, thread, woken, Kind::Ready, waker);
    }
    let alone = activation.current.load(Ordering::Relaxed).is_null();
    inside.owned().dispatcher.woken(processor.pool, ready, alone, fetch);
}

/// As [`woken_here`], a call of its own: for those whose own path is another.
#[inline(never)]
pub(crate) fn woken(inside: Lent<'_>, ready: Ready<Real>, waker: Waker) {
    woken_here(inside, ready, waker);
}

/// Makes a thread ready whose claim the caller won, from inside the mark.
#[inline]
pub(crate) fn ready_inside(inside: Lent<'_>, thread: &'static Thread<Real>) {
    ready_inside_by(inside, thread, Waker::Current);
}

/// As [`ready_inside`], where it is known who wakes it.
#[inline]
pub(crate) fn ready_inside_by(inside: Lent<'_>, thread: &'static Thread<Real>, waker: Waker) {
    if thread.is_kernel_thread() {
        crate::carry::foreign::wake(thread);
        return;
    }
    // SAFETY: the caller won the claim of a parked thread: it alone may push it, once.
    let ready = unsafe { Ready::new(NonNull::from(thread)) };
    if Descriptor::of(thread).pool() == inside.processor.pool.index {
        woken_here(inside, ready, waker);
    } else {
        crate::carry::pool::submit(ready);
    }
}

/// Makes a thread ready from a kernel thread that owns no processor.
pub(crate) fn ready_outside(thread: &'static Thread<Real>) {
    if thread.is_kernel_thread() {
        crate::carry::foreign::wake(thread);
    } else {
        // SAFETY: the caller won the claim of a parked thread: it alone may push it, once.
        crate::carry::pool::submit(unsafe { Ready::new(NonNull::from(thread)) });
    }
}

/// Makes a thread ready whose claim the caller won, wherever the caller is.
///
/// # Safety
/// The claim was of a parked thread, and nobody else makes it ready.
#[inline]
pub(crate) unsafe fn make_ready(thread: &'static Thread<Real>) {
    // Inside the runtime: an allocator that it called has released a lock of its own, on which a thread waits. Who is
    // apart makes others ready as a kernel thread does.
    match current().and_then(enter_from_outside) {
        Some(mut inside) => {
            ready_inside(inside.lend(), thread);
            inside.leave();
        }
        None => ready_outside(thread),
    }
}
