//! Dedicated threads: lightweight threads that have come to be kernel threads, for the rest of their lives.
//!
//! What Linux ties to a kernel thread (rights, namespaces, filters, priorities, affinity) belongs to one thread only.
//! A thread that is about to ask for any of it keeps the kernel thread that it runs on ([`begin`]): its processor goes
//! on with another one, nobody else ever runs on its own, and that one ends with it. The thread keeps its stack, its
//! storage and its descriptor, which becomes the record of a kernel thread ([`crate::carry::foreign`]): it waits and wakes as
//! those do, and all who ask [`current`] take it for one.
//!
//! What it leads to for the others: a kernel thread of the runtime is made by none that has rights of its own
//! ([`is_marked`]), since it would inherit them, and whoever it carried would have them.
//!
//! Invariant: an activation that was given to a thread ([`Activation::dedicated`]) never carries another one. Its
//! processor is released before anything is asked for; [`crate::carry::switching`] refuses to take the thread off it but at
//! its end; it is no spare afterwards, and its record serves again only for a new kernel thread.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching::{activation_of, current, show};
use crate::carry::witness::Inside;
use crate::os::placing::{Placing, placing};
use std::cell::Cell;
use std::sync::atomic::Ordering;

thread_local! {
    /// What is made from here would inherit what the calling thread has asked for.
    static MARKED: Cell<Marked> = const { Cell::new(Marked::No) };
}

#[derive(Clone, Copy)]
enum Marked {
    No,
    /// It has asked for another placing only; before, it had this.
    Placing(&'static Placing),
    Yes,
}

/// The calling kernel thread, or dedicated thread, asks the kernel for what it alone is to have: the runtime makes no
/// kernel thread from it.
pub fn mark() {
    MARKED.set(Marked::Yes);
}

/// As [`mark`], before it asks for processors or a memory policy. Libraries try these out when they are loaded and
/// then take back what they had (libnuma, psm2): that ends it.
pub fn mark_placing() {
    if matches!(MARKED.get(), Marked::No) {
        // Kept for ever, once a thread: few threads do this.
        MARKED.set(placing().map_or(Marked::Yes, |before| Marked::Placing(Box::leak(Box::new(before)))));
    }
}

/// What the calling thread, which has just begun, alone has is none that others would inherit.
pub fn unmark() {
    MARKED.set(Marked::No);
}

/// Whether it has something that it alone has.
pub fn is_marked() -> bool {
    match MARKED.get() {
        Marked::No => false,
        Marked::Yes => true,
        Marked::Placing(before) => placing().is_none_or(|is| is != *before),
    }
}

/// Whether it has asked for something that cannot be taken back.
pub fn is_marked_for_good() -> bool {
    matches!(MARKED.get(), Marked::Yes)
}

/// In the child of a fork there is nobody but the caller: whatever it has, all are to have.
pub(crate) fn forget() {
    MARKED.set(Marked::No);
}

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
    let me = current().filter(|_| crate::guest::is_lightweight())?;
    loop {
        let activation = activation_of(me);
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
            successor.into_iter().for_each(|spare| processor.pool.dismiss(spare));
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
    processor: Option<(Inside, &'static Activation)>,
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
    mark();
    let freed = processor.map(|(inside, spare)| {
        let processor = inside.processor();
        inside.release();
        (processor, spare)
    });
    // What was put off is pending here, and comes when it is let in.
    activation.forget_deferred();
    if let Some((processor, spare)) = freed {
        crate::govern::monitor::hand_over(processor.pool, processor, spare);
    }
    task
}

/// Has a kernel thread wait in the calling thread's pool for whoever begins next in a signal handler. False if none
/// can be had.
pub fn provide_spare(of: &crate::Pool) -> bool {
    let pool = of.shared();
    pool.spare().map(|spare| pool.dismiss(spare)).is_some()
}

/// The activation of `me`, which ends, if it is that thread's own.
pub(crate) fn own_activation(me: &'static Descriptor) -> Option<&'static Activation> {
    let activation = activation_of(me);
    activation.dedicated.load(Ordering::Relaxed).then_some(activation)
}
