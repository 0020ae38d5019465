//! Signals to threads by their numbers, the answers to `gettid`: from this process, and from one that it has forked.
//!
//! The kernel does not know the number of a lightweight thread. A process that was forked knows its parent's then: it
//! has the parent's records, and sends what is for one of them as a signal of the runtime's to the parent
//! ([`Info::for_thread`]); the kernel thread that takes it leaves it with the thread. A thread that has ended since is
//! not told from one that lives. Any other process gets ESRCH.

use super::info::Info;
use super::process_directed::{self, process_of};
use super::signals::{is_sendable, restarting_kick, send, send_with};
use crate::os::{answer, c, system_call};
use crate::thread::dedicated;
use crate::thread::record::{Held, Record};
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

#[entry]
pub unsafe extern "C-unwind" fn tgkill(process: c::pid_t, task: c::pid_t, signal: c_int) -> c_int {
    answer(send_to_number(process, task, signal)) as c_int
}

/// The system call `tgkill`, for numbers of ours too: 0 or a negated error number.
pub(crate) fn send_to_number(process: c::pid_t, task: c::pid_t, signal: c_int) -> isize {
    send_to_number_or(process, task, signal, None, || {
        // SAFETY: takes integers.
        unsafe { system_call(c::SYS_tgkill, [process as usize, task as usize, signal as usize, 0, 0, 0]) }
    })
}

/// The system call `tkill`, which names no process.
pub(crate) fn send_to_task(task: c::pid_t, signal: c_int) -> isize {
    let process = process_of(task);
    send_to_number_or(process, task, signal, None, || {
        // SAFETY: takes integers.
        unsafe { system_call(c::SYS_tkill, [task as usize, signal as usize, 0, 0, 0, 0]) }
    })
}

/// The system call `rt_tgsigqueueinfo`: with the sender's description.
///
/// # Safety
/// `info` is the caller's description, or an address that the kernel refuses.
pub(crate) unsafe fn queue_to_number(process: c::pid_t, task: c::pid_t, signal: c_int, info: *const Info) -> isize {
    send_to_number_or(process, task, signal, Some(info), || {
        let arguments = [process as usize, task as usize, signal as usize, info.expose_provenance(), 0, 0];
        // SAFETY: the caller's description; the kernel checks it.
        unsafe { system_call(c::SYS_rt_tgsigqueueinfo, arguments) }
    })
}

/// Sends a signal to a thread of ours, or to one of the process that has forked this one; `kernels` does to any other.
fn send_to_number_or(
    process: c::pid_t,
    task: c::pid_t,
    signal: c_int,
    info: Option<*const Info>,
    kernels: impl FnOnce() -> isize,
) -> isize {
    let Ok(number) = u32::try_from(task) else { return kernels() };
    // SAFETY: takes nothing.
    let own = unsafe { system_call(c::SYS_getpid, [0; 6]) } == process as isize;
    let target = if own { Record::of_number(number) } else { None };
    let parent = if own { None } else { Record::parent_of_number(number).filter(|&parent| parent == process as u32) };
    if target.is_none() && parent.is_none() {
        return kernels();
    }
    if signal == 0 {
        return 0;
    }
    if !is_sendable(signal) {
        return -(c::EINVAL as isize);
    }
    let told = match info {
        None => Info::of_thread(signal),
        Some(info) if info.is_null() => return -(c::EFAULT as isize),
        // SAFETY: the caller's description.
        Some(info) => unsafe { *info }.as_signal(signal),
    };
    if let Some(target) = target {
        return -(send_with(target.record(), &told) as isize);
    }
    let carrier = restarting_kick();
    let told = told.for_thread(number, carrier);
    let place = (&raw const told).expose_provenance();
    // SAFETY: the kernel reads a description.
    unsafe { system_call(c::SYS_rt_sigqueueinfo, [process as usize, carrier as usize, place, 0, 0, 0]) }
}

/// What another process has sent to a thread of ours by its number goes there.
///
/// # Safety
/// The description that a handler has.
pub(super) unsafe fn pass_on(info: *const c_void) {
    // SAFETY: the caller's.
    let Some((number, meant)) = (unsafe { (*info.cast::<Info>()).meant_for_thread() }) else { return };
    if !is_sendable(meant.signal) {
        return;
    }
    // A `main` that has ended takes nothing for the process.
    let is_process = number == std::process::id();
    let takes = |target: &Held| !(is_process && target.record().ends.load(Ordering::SeqCst));
    let Some(target) = Record::of_number(number).filter(takes) else {
        if is_process {
            process_directed::take_carried(meant);
        }
        return;
    };
    // The kernel lets nobody say that `kill` or `tgkill` has sent what is passed on to a kernel thread. Where no more
    // can be queued it is lost: nobody is there to be told.
    let _ = match dedicated::task(&target) {
        Some(_) if meant.code == c::SI_TKILL => send(target.record(), meant.signal),
        Some(_) => {
            let mut meant = meant;
            meant.disguise();
            send_with(target.record(), &meant)
        }
        None => send_with(target.record(), &meant),
    };
}
