//! Who calls: a lightweight thread or not, outside the runtime or not, with a processor or apart; and a caller's
//! processor that is given away, or offered to others.

use crate::carry::descriptor::Descriptor;
use crate::carry::pool::Spare;
use crate::carry::processor::Processor;
use crate::carry::switching::{activation_of, current, enter, yield_inside};
use crate::carry::witness::Inside;
use std::sync::atomic::Ordering;

/// True where a call may be taken over: the caller is a lightweight thread, and outside the runtime. False on kernel
/// threads, in the runtime itself, and in a signal handler that interrupted it: there a call goes on to the C library.
/// False also while the caller is about to wait already: an allocator that the runtime asks for a node to wait in may
/// have locks of its own.
#[inline]
pub fn is_lightweight() -> bool {
    current().is_some_and(|me| is_outside(me) && !me.thread.is_in_wait())
}

/// The calling thread, which is `me`, is outside the mark of the runtime.
#[inline]
pub(crate) fn is_outside(me: &'static Descriptor) -> bool {
    let activation = me.activation.get();
    // Null for an instant at a thread's end: its stack is the runtime's then.
    !activation.is_null() && !activation_of(me).mark.is_inside()
}

/// True while the calling lightweight thread is apart, alone with a kernel thread that carries no processor: from
/// [`crate::guest::go_apart`] until it waits or yields.
#[inline]
pub fn is_apart() -> bool {
    current().is_some_and(|me| activation_of(me).apart.load(Ordering::Relaxed))
}

/// A spare activation takes the calling lightweight thread's processor over, if others wait for it, or `always`.
/// Nothing happens where another activation has it already, or no kernel thread can be had.
pub(crate) fn give_processor_away(always: bool) {
    let Some(me) = current().filter(|_| is_lightweight() && !is_apart()) else { return };
    let activation = activation_of(me);
    if activation.processor().seat.owner.owner() != activation.id {
        return;
    }
    let mut inside = enter(me);
    let processor = inside.processor();
    let has_work = inside.owned().dispatcher.has_work();
    inside.leave();
    // Outside the mark: it may have to start a kernel thread.
    if (always || has_work)
        && let Some(spare) = processor.pool.spare()
    {
        hand_over(me, processor, spare, false);
    }
}

/// The thread `me`, which is the caller and outside the mark, gives `processor` to `spare`; whether it is `apart` from
/// then on. False if it runs elsewhere meanwhile.
pub(crate) fn hand_over(
    me: &'static Descriptor,
    processor: &'static Processor,
    spare: Spare<'static>,
    apart: bool,
) -> bool {
    let inside = enter(me);
    let activation = inside.activation();
    let still = std::ptr::eq(inside.processor(), processor);
    if still {
        activation.apart.store(apart, Ordering::Relaxed);
        let reason = if apart { crate::carry::traced::APART } else { crate::carry::traced::BLOCKED };
        crate::carry::traced::taken(processor, activation, reason);
        inside.release();
        // Signals that were put off meanwhile run now.
        activation.open();
        processor.pool.hand_over(processor, spare);
    } else {
        // The thread has moved meanwhile.
        inside.leave();
    }
    still
}

/// A thread of a higher priority waits for this processor, or a tick has found `me`. True if `me` has left its
/// processor, or come back to one.
#[cold]
pub(crate) fn preempted(me: &'static Descriptor) -> bool {
    let Some(inside) = Inside::enter(activation_of(me)) else {
        // Others have its processor, whose flag is theirs.
        enter(me).leave();
        return true;
    };
    inside.processor().preempt.store(false, Ordering::Relaxed);
    yield_inside(inside, me)
}
