//! Signals to the process: which thread takes one.
//!
//! The kernel gives such a signal to a kernel thread that does not block it. If that one runs a lightweight thread which does, or none, the
//! signal goes on: to the first thread, or, if that blocks it too, to a thread that does not, in whose record it waits
//! ([`super::pending`]) until that thread has been interrupted. If all block it, it stays with the process.
//!
//! A thread may come to block what waits in its record, or end. Then the signal goes on again ([`hand_on`]): natively it would
//! have stayed with the process all the time. One that ends takes what came before its end, if nobody else would ([`thread_ends`]).
//!
//! Events, for one signal: L a sender leaves it in the record, E the thread's end begins, C sender and thread look whether the other
//! was there. Forbidden: both look and see nothing, and the signal is lost with the record. All are SeqCst, and each looks after its own write.

use super::signals::{self, Info, Set, bit};
use super::{actions, masks};
use crate::os::{c, system_call};
use crate::thread::record::Record;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// A signal for the process has met a kernel thread of the runtime, which does not run `main`, and `main` is lightweight and lets it in: `main` gets
/// it, as the kernel prefers a process's first thread. True then. Who sent it is not told to a handler of `main` (but of a child's end, which is
/// left where it came to a handler that asks).
///
/// # Safety
/// In its handler; `info` is the kernel's.
pub(super) unsafe fn goes_to_main(me: Option<&Record>, signal: c_int, info: *mut c_void, flags: c_int) -> bool {
    /// From the kernel itself: a key of the terminal, a timer of the process.
    const SI_KERNEL: c_int = 0x80;
    let Some(main) = Record::first() else { return false };
    // SAFETY: as promised.
    let code = unsafe { (*info.cast::<Info>()).code };
    let for_process = matches!(code, c::SI_USER | c::SI_TIMER | SI_KERNEL)
        || signal == c::SIGCHLD && code > 0 && flags & c::SA_SIGINFO == 0;
    let goes = for_process
        && actions::DEFERRABLE & bit(signal) != 0
        && main.mask.load(Ordering::SeqCst) & bit(signal) == 0
        && !main.ends.load(Ordering::SeqCst)
        && !me.is_some_and(|me| std::ptr::eq(me, main))
        && raddle::drop_in::is_kernel_thread_of_runtime();
    if goes {
        leave(main, signal, None);
    }
    goes
}

/// A signal has met a kernel thread of the runtime that is not to take it: `me` blocks it, or nobody runs there and all block it. The answer
/// is what the kernel thread is to block from now on.
///
/// # Safety
/// In its handler; `info` is the kernel's.
pub(super) unsafe fn not_here(me: Option<&Record>, signal: c_int, info: *mut c_void) -> Set {
    // SAFETY: as promised.
    let info = unsafe { *info.cast::<Info>() };
    if let Some(me) = me.filter(|_| info.code == c::SI_TKILL) {
        me.pending.leave(signal, None, false);
        return 0;
    }
    match give(signal, info) {
        Given::Threads => 0,
        // Nobody's: this kernel thread blocks it like all others.
        Given::Process => bit(signal),
    }
}

/// What the calling thread has come to block, or an ending one has left, goes to another thread or back to the process.
pub(super) fn hand_on(from: &Record) {
    loop {
        let blocks = if from.ends.load(Ordering::SeqCst) { Set::MAX } else { from.mask.load(Ordering::SeqCst) };
        let left = from.pending.of_process() & blocks;
        if left == 0 {
            return;
        }
        let signal = left.trailing_zeros() as c_int + 1;
        if let Some(value) = from.pending.take(signal, true) {
            let code = if value.is_some() { c::SI_QUEUE } else { c::SI_USER };
            give(signal, Info::new(signal, code, value.unwrap_or(0)));
        }
    }
}

enum Given {
    Threads,
    Process,
}

/// Sends the signal to a thread that does not block it, or leaves it with the process.
fn give(signal: c_int, info: Info) -> Given {
    if !masks::first_blocks(signal) {
        queue(true, signal, info);
    } else if let Some(taker) = masks::taker(signal) {
        leave(taker.record(), signal, (info.code == c::SI_QUEUE).then_some(info.value));
    } else {
        queue(false, signal, info);
        return Given::Process;
    }
    Given::Threads
}

/// Leaves a signal for the process with a thread. If there is no room for its value, it comes without.
fn leave(target: &'static Record, signal: c_int, value: Option<usize>) {
    if !target.pending.leave(signal, value, true) {
        target.pending.leave(signal, None, true);
    }
    signals::wake(target);
    if target.ends.load(Ordering::SeqCst) {
        hand_on(target);
    }
}

/// Gives a signal to the kernel, for the first thread or for the process, with all that is known of it.
fn queue(first: bool, signal: c_int, mut info: Info) {
    // SAFETY: takes nothing.
    let process = unsafe { system_call(c::SYS_getpid, [0; 6]) } as usize;
    loop {
        let place = (&raw const info).expose_provenance();
        let (call, arguments) = match first {
            true => (c::SYS_rt_tgsigqueueinfo, [process, process, signal as usize, place, 0, 0]),
            false => (c::SYS_rt_sigqueueinfo, [process, signal as usize, place, 0, 0, 0]),
        };
        // SAFETY: the kernel reads a description on the stack.
        if unsafe { system_call(call, arguments) } != -(c::EPERM as isize) || info.code == c::SI_QUEUE {
            return;
        }
        // Only the first thread itself may say that `kill` or the kernel has sent it. What else is known is kept: who has sent it, and a
        // child's status.
        info.code = c::SI_QUEUE;
    }
}

/// The calling lightweight thread ends: it takes what was sent to it, and to the process if it was the last one to let that in.
pub(crate) fn thread_ends(me: &'static Record) {
    me.ends.store(true, Ordering::SeqCst);
    let mask = me.mask.load(Ordering::SeqCst);
    let nobodys = masks::changed(mask, Set::MAX);
    signals::deliver();
    // Those that met a kernel thread while this one began to end went back to the process.
    if nobodys != 0 {
        take_back(nobodys);
    }
    me.mask.store(Set::MAX, Ordering::SeqCst);
    hand_on(me);
}

/// Takes those signals of the process's that are pending.
fn take_back(set: Set) {
    let now = c::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut info = Info::new(0, 0, 0);
    loop {
        let places = [(&raw const set).expose_provenance(), (&raw mut info).expose_provenance()];
        let arguments = [places[0], places[1], (&raw const now).expose_provenance(), size_of::<Set>(), 0, 0];
        // SAFETY: a set, a place for a description, and a time on the stack.
        let signal = unsafe { system_call(c::SYS_rt_sigtimedwait, arguments) };
        if signal <= 0 {
            return;
        }
        signals::raise_here(signal as c_int, &info);
    }
}
