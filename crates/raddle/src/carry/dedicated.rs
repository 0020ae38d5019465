//! Dedicated threads: lightweight threads that have come to be kernel threads, for the rest of their lives.
//!
//! What Linux ties to a kernel thread (rights, namespaces, filters, priorities, affinity) belongs to one thread only. A
//! thread that is about to ask for any of it keeps the kernel thread that it runs on ([`begin`]): its processor goes on
//! with another one, nobody else ever runs on its own, and that one ends with it. The thread keeps its stack, its
//! storage and its descriptor, which becomes the record of a kernel thread ([`crate::carry::foreign`]): it waits and
//! wakes as those do, and all who ask [`current`] take it for one.
//!
//! What it leads to for the others: a kernel thread of the runtime is made by none that has rights of its own
//! ([`crate::os::marks`]), since it would inherit them, and whoever it carried would have them.
//!
//! Invariant: an activation that was given to a thread ([`Activation::dedicated`]) never carries another one. Its
//! processor is released before anything is asked for; [`crate::carry::switching`] refuses to take the thread off it
//! but at its end; it is no spare afterwards, and its record serves again only for a new kernel thread.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::pool;
use crate::carry::switching::{activation_of, current, show};
use crate::carry::witness::Inside;
use std::sync::atomic::Ordering;

/// Whether [`begin`] may start a kernel thread to go on with the processor. A signal handler's may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// One that waits already, or a new one.
    Any,
    /// One that waits already.
    Waiting,
}

/// Gives the calling lightweight thread the kernel thread that it runs on, whose kernel id is the answer, with all
/// signals blocked that can wait. `None` where no kernel thread can be had that would go on with its processor, or the
/// caller is no lightweight thread outside the runtime.
///
/// In a signal handler only if that has interrupted code of the program's: the runtime's may have looked who it is.
pub fn begin(spare: Spare) -> Option<u32> {
    let me = current().filter(|_| crate::carry::caller::is_lightweight())?;
    loop {
        let activation = activation_of(me);
        if activation.turn.is_open() {
            crate::carry::turns::settle(activation, me);
        }
        let processor = activation.processor();
        let successor = if processor.seat.owner.owner() != activation.id {
            None
        } else if spare == Spare::Any {
            Some(processor.pool.spare()?)
        } else {
            Some(processor.pool.waiting_spare()?)
        };
        // The thread may have come elsewhere meanwhile, or lost its processor, or got it back.
        let activation = activation_of(me);
        let inside = Inside::enter(activation);
        if !std::ptr::eq(activation.processor(), processor) || inside.is_some() != successor.is_some() {
            inside.into_iter().for_each(Inside::leave);
            continue;
        }
        return Some(take(me, activation, inside.zip(successor)));
    }
}

/// The thread `me`, the caller, has `activation` from now on, which gives the processor that it owns, if any, to
/// another one.
fn take(
    me: &'static Descriptor,
    activation: &'static Activation,
    processor: Option<(Inside, pool::Spare<'static>)>,
) -> u32 {
    crate::os::signals::block_all();
    activation.apart.store(false, Ordering::Relaxed);
    crate::carry::clocks::account(activation);
    // All that it has from now on is the thread's.
    activation.since.store(crate::os::own_time_on_core(), Ordering::Relaxed);
    activation.dedicated.store(true, Ordering::Relaxed);
    // From here on it is none of the kernel threads that carry threads.
    let task = activation.tid.swap(0, Ordering::SeqCst);
    activation.task.store(task, Ordering::Relaxed);
    me.thread.set_kernel_thread();
    crate::carry::foreign::become_record(me);
    show(std::ptr::null());
    crate::os::marks::mark();
    let freed = processor.map(|(inside, spare)| {
        let processor = inside.processor();
        crate::carry::traced::taken(processor, activation, crate::carry::traced::APART);
        inside.release();
        (processor, spare)
    });
    // What was put off is pending here, and comes when it is let in.
    activation.forget_deferred();
    if let Some((processor, spare)) = freed {
        processor.pool.hand_over(processor, spare);
    }
    task
}

/// The activation of `me`, which ends, if it is that thread's own.
pub(crate) fn own_activation(me: &'static Descriptor) -> Option<&'static Activation> {
    let activation = activation_of(me);
    activation.dedicated.load(Ordering::Relaxed).then_some(activation)
}
