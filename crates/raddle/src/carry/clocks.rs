//! The processor time of threads, for the drop-in library: counted at switches once somebody asks for it, and at no
//! cost before.
//!
//! The kernel counts the time of kernel threads. From [`count`] on, each switch reads that clock, and the thread that
//! leaves is told how much of the kernel thread's time was its own ([`account`]); a dedicated thread has all of its
//! kernel thread's. The look at each switch takes the place of the one at each 64th ([`crate::pace`]), so nothing is
//! added to the path of those who never ask.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching::current;
use std::sync::atomic::{AtomicPtr, Ordering};

/// [`Activation::since`] before the first switch of which time is counted.
const UNKNOWN: u64 = 0;
/// [`Activation::since`] from the end of a thread to the begin of the next one.
const NOBODYS: u64 = u64::MAX;

/// What is told to the thread that leaves.
static NOTE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// From now on time is counted, and `note` is called on each thread that leaves its kernel thread, with the nanoseconds
/// that it has had since it came, or since somebody asked first ([`time_since_switch`]).
pub fn count(note: fn(u64)) {
    if !crate::pace::counts() {
        NOTE.store(note as *mut (), Ordering::Release);
        crate::pace::count();
    }
}

/// The calling thread, if it is one, leaves `activation`, whose kernel thread calls.
#[inline]
pub(crate) fn account(activation: &'static Activation) {
    if crate::pace::sees_all() && crate::pace::counts() {
        note(activation);
    }
}

#[cold]
#[inline(never)]
fn note(activation: &'static Activation) {
    let now = crate::os::own_time_on_core();
    let since = activation.since.load(Ordering::Relaxed);
    let run = NOTE.load(Ordering::Acquire);
    if since != UNKNOWN && since != NOBODYS && current().is_some() && !run.is_null() {
        // SAFETY: stored by `count` from a function of this type.
        unsafe { std::mem::transmute::<*mut (), fn(u64)>(run)(now.saturating_sub(since)) };
    }
    activation.since.store(now, Ordering::Relaxed);
}

/// The calling thread has ended: what is left of its time is nobody's.
pub(crate) fn forget(activation: &'static Activation) {
    activation.since.store(NOBODYS, Ordering::Relaxed);
}

/// Nanoseconds that the thread of a [`crate::JoinHandle`] in raw form has had of the kernel thread that it runs on now,
/// since it came; `None`: it runs on none.
///
/// A thread that came before time was counted, and has computed ever since, has it from the first question about it on.
///
/// # Safety
/// `raw` came from [`crate::JoinHandle::into_raw`], and the handle was neither joined nor dropped yet.
pub unsafe fn time_since_switch(raw: *const ()) -> Option<u64> {
    // SAFETY: the address of a descriptor, which are type-stable.
    since_switch(unsafe { &*raw.cast() })
}

/// As [`time_since_switch`], of the calling lightweight thread; `None`: it is none, or a dedicated one.
pub fn own_time_since_switch() -> Option<u64> {
    since_switch(current()?)
}

fn since_switch(target: &'static Descriptor) -> Option<u64> {
    // SAFETY: null or an activation, which are never freed.
    let activation = unsafe { target.activation.get().as_ref() }?;
    let task = match activation.tid.load(Ordering::Relaxed) {
        0 => activation.task.load(Ordering::Relaxed),
        task => task,
    };
    let now = crate::os::time_on_core(task).unwrap_or(0);
    // Only what nobody has noted yet is replaced: the kernel thread's own stores come at its switches.
    let since = match activation.since.compare_exchange(UNKNOWN, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(since) => since,
    };
    (since != NOBODYS).then(|| now.saturating_sub(since))
}
