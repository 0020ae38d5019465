//! A thread that was woken here.

use crate::carry::descriptor::Descriptor;
use crate::carry::processor::bump;
use crate::carry::witness::Lent;
use raddle_machine::{Machine, Real};
use raddle_scheduler::Ready;

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

/// Queues a thread that this processor's running thread, or its idle context, woke.
#[inline]
pub(crate) fn woken(mut inside: Lent<'_>, ready: Ready<Real>) {
    let (activation, processor) = (inside.activation, inside.processor);
    if bump(&processor.counters.woken).is_multiple_of(crate::carry::delays::EVERY) {
        crate::carry::delays::follow(processor, Descriptor::from_thread(ready.thread()));
    }
    let alone = activation.current.load(std::sync::atomic::Ordering::Relaxed).is_null();
    inside.owned().dispatcher.woken(processor.pool, ready, alone, fetch);
}
