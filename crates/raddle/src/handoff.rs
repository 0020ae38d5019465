//! Whom to tell of a ready thread while other processors are idle: nobody, while [`raddle_scheduler::handoff`] says that it is no loss.

use crate::descriptor::Descriptor;
use crate::processor::{Owned, Queue, bump};
use crate::witness::Lent;
use raddle_machine::{Machine, Real};
use raddle_scheduler::{Cause, Ready};

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
    let pool = processor.pool;
    if bump(&processor.counters.woken).is_multiple_of(crate::delays::EVERY) {
        crate::delays::follow(processor, Descriptor::from_thread(ready.thread()));
    }
    let Owned { queue, handoff, .. } = inside.owned();
    let Queue::Default(local) = queue else {
        crate::switching::push_owned(inside, ready, Cause::Woken);
        return;
    };
    if !pool.idle.hungry() {
        pool.notify(local.push_with(ready, Cause::Woken, false));
        return;
    }
    // The idle context is about to look for work itself.
    let idle = activation.current.load(std::sync::atomic::Ordering::Relaxed).is_null();
    let waiting = local.hidden();
    let kept = if idle { waiting == 0 } else { handoff.keeps(waiting) };
    if kept {
        fetch(&ready);
    }
    pool.notify(local.push_with(ready, Cause::Woken, !kept));
}

/// Queues a thread that has offered its processor.
#[inline(always)]
pub(crate) fn yielded(mut inside: Lent<'_>, ready: Ready<Real>) {
    let pool = inside.processor.pool;
    let owned = inside.owned();
    if let Queue::Default(local) = &mut owned.queue {
        let tell = pool.idle.hungry() && !owned.handoff.keeps(local.hidden());
        pool.notify(local.push_with(ready, Cause::Yielded, tell));
    } else {
        crate::switching::push_owned(inside, ready, Cause::Yielded);
    }
}
