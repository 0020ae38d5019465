//! Signals to the process: which thread takes one.
//!
//! The kernel gives such a signal to a kernel thread that does not block it. If that one runs a lightweight thread
//! which does, or none, the signal goes on: to the first thread, or, if that blocks it too, to a thread that does not,
//! in whose record it waits ([`super::pending`]) until that thread has been interrupted. If all block it, it stays with
//! the process.
//!
//! A thread may come to block what waits in its record, or end. Then the signal goes on again ([`hand_on`]): natively
//! it would have stayed with the process all the time. One that ends takes what came before its end, if nobody else
//! would ([`thread_ends`]).
//!
//! Events, for one signal: L a sender leaves it in the record, E the thread's end begins, C sender and thread look
//! whether the other was there. Forbidden: both look and see nothing, and the signal is lost with the record. All are
//! SeqCst, and each looks after its own write.

use super::info::Info;
use super::signals::{self, Set, bit};
use super::{actions, masks, own_calls, vfork};
use crate::os::{c, system_call};
use crate::thread::record::Record;
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// Any thread's number stands for its process here.
#[entry]
pub unsafe extern "C-unwind" fn kill(process: c::pid_t, signal: c_int) -> c_int {
    // SAFETY: numbers, which the C library and the kernel check.
    unsafe { next!(kill: fn(c::pid_t, c_int) -> c_int)(process_of(process), signal) }
}

#[entry]
pub unsafe extern "C-unwind" fn sigqueue(process: c::pid_t, signal: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the caller's arguments; the union that the C library takes is passed as a word.
    unsafe { next!(sigqueue: fn(c::pid_t, c_int, *mut c_void) -> c_int)(process_of(process), signal, value) }
}

/// The process of a lightweight thread's number, which the kernel does not know: this one, or the one that forked it.
pub(crate) fn process_of(number: c::pid_t) -> c::pid_t {
    let Ok(thread) = u32::try_from(number) else { return number };
    if Record::of_number(thread).is_some() {
        return std::process::id() as c::pid_t;
    }
    Record::parent_of_number(thread).map_or(number, |parent| parent as c::pid_t)
}

/// A signal for the process has met a kernel thread of the runtime, which does not run `main`, and `main` is
/// lightweight and lets it in: `main` gets it, as the kernel prefers a process's first thread. True then. Called in the
/// signal's handler.
pub(super) fn goes_to_main(me: Option<&Record>, info: &Info) -> bool {
    /// From the kernel itself: a key of the terminal, a timer of the process.
    const SI_KERNEL: c_int = 0x80;
    let Some(main) = Record::first() else { return false };
    let signal = info.signal;
    let for_process =
        matches!(info.code, c::SI_USER | c::SI_TIMER | SI_KERNEL) || signal == c::SIGCHLD && info.code > 0;
    let goes = for_process
        && actions::DEFERRABLE & bit(signal) != 0
        && !own_calls::is_of_a_call(info)
        && main.mask.load(Ordering::SeqCst) & bit(signal) == 0
        && !main.ends.load(Ordering::SeqCst)
        && !me.is_some_and(|me| std::ptr::eq(me, main))
        && raddle::drop_in::is_kernel_thread_of_runtime();
    if goes {
        leave(main, info);
    }
    goes
}

/// A fault's signal, which another process has sent to this one, has met a kernel thread that runs none of the
/// program's threads, or does not run a `main` that is lightweight and lets it in: it goes on, as for
/// [`goes_to_main`]. The kernel thread may be inside the runtime, where a fault is never put off; so a signal of ours,
/// which is, carries it ([`super::by_number`]). True then.
pub(super) fn is_carried_on(info: &Info) -> bool {
    let carrier = signals::restarting_kick();
    // What a thread of this process has queued is for the thread that it has met.
    let is_sent = info.code == c::SI_USER
        || info.code == c::SI_QUEUE && !info.is_for_thread() && info.sender() as u32 != std::process::id();
    if !is_sent || carrier == 0 || vfork::is_child() {
        return false;
    }
    let lets_in =
        |main: &&Record| main.mask.load(Ordering::SeqCst) & bit(info.signal) == 0 && !main.ends.load(Ordering::SeqCst);
    let goes_on = match (Record::first().filter(lets_in), Record::current()) {
        (Some(main), _) => !main.is_current(),
        (None, Some(_)) => false,
        (None, None) => raddle::drop_in::carries_threads() && !crate::thread::exit::is_first(),
    };
    if !goes_on {
        return false;
    }
    let process = std::process::id();
    let told = info.for_thread(process, carrier);
    // SAFETY: the kernel reads a description on the stack.
    unsafe {
        let place = (&raw const told).expose_provenance();
        system_call(c::SYS_rt_sigqueueinfo, [process as usize, carrier as usize, place, 0, 0, 0]) == 0
    }
}

/// What [`is_carried_on`] has sent, where the first kernel thread has `main`: that one gets it, or one that lets it in.
pub(super) fn take_carried(mut info: Info) {
    if masks::first_blocks(info.signal)
        && let Some(taker) = masks::taker(info.signal)
    {
        return leave(taker.record(), &info);
    }
    // Only the thread itself may say that `kill` has sent it.
    info.disguise();
    let (first, place) = (std::process::id() as usize, (&raw const info).expose_provenance());
    // SAFETY: the kernel reads a description on the stack.
    unsafe { system_call(c::SYS_rt_tgsigqueueinfo, [first, first, info.signal as usize, place, 0, 0]) };
}

/// A signal has met a kernel thread of the runtime that is not to take it: `me` blocks it, or nobody runs there. The
/// answer is what the kernel thread is to block from now on. Called in the signal's handler.
pub(super) fn not_here(me: Option<&Record>, info: &Info) -> Set {
    if let Some(me) = me.filter(|_| info.code == c::SI_TKILL || own_calls::is_of_a_call(info))
        && me.pending.leave(info, false)
    {
        return 0;
    }
    masks::ahead(info.signal);
    match give(info) {
        Given::Thread => 0,
        // This kernel thread leaves it to others.
        Given::Process => bit(info.signal),
    }
}

/// What the calling thread has come to block, or an ending one has left, goes to another thread or back to the process.
pub(super) fn hand_on(from: &Record) {
    if from.pending.is_empty() {
        return;
    }
    loop {
        let blocks = if from.ends.load(Ordering::SeqCst) { Set::MAX } else { from.mask.load(Ordering::SeqCst) };
        let left = from.pending.of_process() & blocks;
        if left == 0 {
            return;
        }
        let signal = left.trailing_zeros() as c_int + 1;
        if let Some(info) = from.pending.take(signal, true) {
            give(&info);
        }
    }
}

enum Given {
    Thread,
    Process,
}

/// Leaves the signal with a thread that does not block it, or with the process: for the first thread, if that lets it
/// in, or for whoever will.
fn give(info: &Info) -> Given {
    // Not with the first thread alone: it may come to block the signal.
    if masks::first_blocks(info.signal)
        && let Some(taker) = masks::taker(info.signal)
    {
        leave(taker.record(), info);
        return Given::Thread;
    }
    give_back(*info);
    Given::Process
}

/// Leaves a signal for the process with a thread. If there is no place for it, it comes without what is told of it, and
/// several are one.
fn leave(target: &'static Record, info: &Info) {
    if !target.pending.leave(info, true) {
        target.pending.leave_number(info.signal);
    }
    signals::wake(target);
    if target.ends.load(Ordering::SeqCst) {
        hand_on(target);
    }
}

/// Gives a signal to the kernel, for the process, with all that is known of it.
fn give_back(mut info: Info) {
    let signal = info.signal as usize;
    // SAFETY: takes nothing.
    let process = unsafe { system_call(c::SYS_getpid, [0; 6]) } as usize;
    // SAFETY: the kernel reads a description on the stack.
    let give = |info: &Info| unsafe {
        let place = std::ptr::from_ref(info).expose_provenance();
        system_call(c::SYS_rt_sigqueueinfo, [process, signal, place, 0, 0, 0])
    };
    let mut result = give(&info);
    if result == -(c::EPERM as isize) {
        // Only the first thread itself may say that `kill` or the kernel has sent it.
        info.disguise();
        result = give(&info);
    }
    if result < 0 {
        // The user's limit of queued signals is reached: what `kill` sends is not refused.
        // SAFETY: takes integers.
        unsafe { system_call(c::SYS_kill, [process, signal, 0, 0, 0, 0]) };
    }
}

/// The thread of that record was not created after all.
pub(crate) fn never_began(record: &'static Record) {
    record.ends.store(true, Ordering::SeqCst);
    masks::changed(record.mask.swap(Set::MAX, Ordering::SeqCst), Set::MAX);
    hand_on(record);
}

/// The calling lightweight thread ends: it takes what was sent to it, and to the process if it was the last one to let
/// that in.
pub(crate) fn thread_ends(me: &'static Record) {
    me.ends.store(true, Ordering::SeqCst);
    let mask = me.mask.load(Ordering::SeqCst);
    let nobodys = masks::changed(mask, Set::MAX);
    signals::deliver();
    // Those that met a kernel thread while this one began to end went back to the process.
    if nobodys != 0 {
        take_back(nobodys);
    }
    // Relaxed: for handlers on this thread; others see that it ends.
    me.mask.store(Set::MAX, Ordering::Relaxed);
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
        info.restore();
        signals::raise_here(info);
    }
}
