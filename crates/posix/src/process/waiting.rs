//! Waiting for signals: `sigwait` and its kin, `pause`, `sigsuspend`.
//!
//! A lightweight thread that waits looks at what was sent to it, then at what is pending for the process, and then
//! waits for a descriptor that the kernel makes readable when there is something (signalfd): no kernel thread is held.

use super::info::Info;
use super::signals::{self, Set};
use super::watch::{self, Watch};
use super::{ending, kernel_waits, masks};
use crate::os::{answer, c, deadline_after, set_errno, system_call};
use crate::thread::cancel;
use crate::thread::record::Record;
use crate::thread::undo::Undo;
use raddle::io::{Failure, Interest};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// The calling lightweight thread waits for one of `set`: the signal, or a negated error number. `Err(())`: it was
/// cancelled.
///
/// # Safety
/// `info` is null or a place for a `siginfo_t`.
unsafe fn wait(me: &'static Record, set: Set, info: *mut c::siginfo_t, deadline: Option<u64>) -> Result<isize, ()> {
    let watch = watch::begin();
    let set = set & !signals::kicks();
    // SAFETY: a set on the stack; a descriptor of our own, closed below.
    let descriptor = unsafe {
        let flags = (c::SFD_NONBLOCK | c::SFD_CLOEXEC) as usize;
        system_call(c::SYS_signalfd4, [usize::MAX, (&raw const set).expose_provenance(), size_of::<Set>(), flags, 0, 0])
    };
    let now = c::timespec { tv_sec: 0, tv_nsec: 0 };
    let close = || {
        if descriptor >= 0 {
            // SAFETY: our own descriptor.
            raddle::io::closing(descriptor as i32, || unsafe {
                system_call(c::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0])
            });
        }
    };
    let undo = Undo::new(close);
    let result = loop {
        let here = me.pending.all() & set;
        if here != 0 {
            let signal = here.trailing_zeros() as c_int + 1;
            let Some(told) = me.pending.take(signal, false) else { continue };
            if !info.is_null() {
                // SAFETY: the caller's place, of the kernel's layout.
                unsafe { info.cast::<Info>().write(told) };
            }
            break Ok(signal as isize);
        }
        let arguments = [
            (&raw const set).expose_provenance(),
            info.addr(),
            (&raw const now).expose_provenance(),
            size_of::<Set>(),
            0,
            0,
        ];
        // SAFETY: a set and a time on the stack, the caller's place.
        let there = unsafe { system_call(c::SYS_rt_sigtimedwait, arguments) };
        if there > 0 {
            // SAFETY: as above; the kernel has filled it.
            if let Some(info) = unsafe { info.cast::<Info>().as_mut() } {
                info.restore();
            }
            break Ok(there);
        }
        if watch.interrupted() {
            break Ok(-(c::EINTR as isize));
        }
        if descriptor < 0 {
            break Ok(descriptor);
        }
        let each = |visit: &mut dyn FnMut(i32, Interest)| visit(descriptor as i32, Interest::Read);
        match raddle::io::wait_for(&each, deadline, true) {
            Err(Failure::TimedOut) => break Ok(-(c::EAGAIN as isize)),
            Err(Failure::Cancelled) => break Err(()),
            Err(Failure::Unsupported | Failure::AlwaysReady | Failure::Closed) => {
                // The kernel cannot watch it: the kernel thread waits, a little at a time.
                let pause = c::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                // SAFETY: a time on the stack.
                unsafe { system_call(c::SYS_nanosleep, [(&raw const pause).expose_provenance(), 0, 0, 0, 0, 0]) };
            }
            Ok(()) => {}
        }
    };
    drop(undo);
    result
}

/// The whole call, cancellation point included.
///
/// # Safety
/// As for [`wait`].
unsafe fn wait_or_end(set: Set, info: *mut c::siginfo_t, time: *const c::timespec) -> Option<isize> {
    let me = Record::current().filter(|_| raddle::drop_in::is_lightweight())?;
    cancel::point();
    // SAFETY: null or the caller's time.
    let deadline = match unsafe { time.as_ref() }.map(deadline_after) {
        None => None,
        Some(Ok(at)) => Some(at),
        Some(Err(error)) => return Some(-(error as isize)),
    };
    loop {
        // SAFETY: as promised.
        match unsafe { wait(me, set, info, deadline) } {
            Ok(result) => {
                cancel::ending_point();
                return Some(result);
            }
            Err(()) => cancel::point(),
        }
    }
}

/// # Safety
/// The caller's set.
unsafe fn word(set: *const c::sigset_t) -> Set {
    // SAFETY: the first word is the kernel's.
    unsafe { set.cast::<Set>().read() }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigtimedwait(
    set: *const c::sigset_t,
    info: *mut c::siginfo_t,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { wait_or_end(word(set), info, time) } {
        Some(result) => answer(result) as c_int,
        None => {
            let next = next!(sigtimedwait: fn(*const c::sigset_t, *mut c::siginfo_t, *const c::timespec) -> c_int);
            // SAFETY: the caller's arguments.
            unsafe { next(set, info, time) }
        }
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwaitinfo(set: *const c::sigset_t, info: *mut c::siginfo_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { sigtimedwait(set, info, std::ptr::null()) }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigwait(set: *const c::sigset_t, signal: *mut c_int) -> c_int {
    loop {
        // SAFETY: the caller's arguments.
        let result = match unsafe { wait_or_end(word(set), std::ptr::null_mut(), std::ptr::null()) } {
            Some(result) => result,
            // SAFETY: the caller's arguments.
            None => return unsafe { next!(sigwait: fn(*const c::sigset_t, *mut c_int) -> c_int)(set, signal) },
        };
        if result > 0 {
            // SAFETY: the caller's place for it.
            unsafe { *signal = result as c_int };
            return 0;
        }
        // A handler ran: `sigwait` goes on.
        if result != -(c::EINTR as isize) {
            return -result as c_int;
        }
    }
}

/// The calling lightweight thread waits until it was interrupted. `Err(())`: it was cancelled.
fn wait_for_handler(me: &'static Record, watch: Watch) -> Result<(), ()> {
    while !watch.interrupted() {
        let changed = || watch.interrupted();
        let address = (&raw const me.pending).expose_provenance();
        let waited = raddle::drop_in::wait_for_signal(|| raddle::drop_in::wait_at(address, None, true, changed));
        if matches!(waited, Err(raddle::sync::WaitError::Cancelled)) {
            return Err(());
        }
        signals::deliver();
    }
    Ok(())
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pause() -> c_int {
    let me = Record::current().filter(|_| raddle::drop_in::is_lightweight());
    let Some(me) = me else {
        if let Some(me) = Record::current().filter(|_| watch::is_handler_here())
            && park_in_handler(masks::handled() | me.mask.load(Ordering::Relaxed))
        {
            set_errno(c::EINTR);
            return -1;
        }
        if watch::is_handler_here() {
            // SAFETY: nothing is waited for but a signal.
            let waited = watch::uncut(|| unsafe { kernel_waits::attempt(c::SYS_ppoll, [0; 6]) });
            if waited == kernel_waits::CANCELLED {
                cancel::point();
            }
            set_errno(c::EINTR);
            return -1;
        }
        // SAFETY: takes nothing.
        return unsafe { next!(pause: fn() -> c_int)() };
    };
    cancel::point();
    let watch = watch::begin();
    while wait_for_handler(me, watch).is_err() {
        cancel::point();
    }
    cancel::ending_point();
    set_errno(c::EINTR);
    -1
}

/// In a handler of a lightweight thread that was interrupted where it may wait (a collector stops the world, as a
/// rule): the thread waits for a handler, and its kernel thread goes on with others. False if it cannot, or is to be
/// cancelled.
fn park_in_handler(wanted: Set) -> bool {
    if !ending::may_wait() || cancel::is_requested_here() {
        return false;
    }
    let watch = watch::begin();
    let parked = masks::as_thread(wanted, || {
        signals::deliver();
        while !watch.interrupted() && !cancel::is_requested_here() {
            let wait = || raddle::drop_in::wait_for_interruption(|| watch.interrupted());
            raddle::drop_in::wait_for_signal(wait);
            signals::deliver();
        }
    });
    parked && watch.interrupted()
}

/// In a handler of a lightweight thread, which waits for another handler: the thread waits, or, where it cannot, the
/// kernel thread.
fn suspend_in_handler(wanted: Set) {
    if park_in_handler(wanted) {
        return;
    }
    let watch = watch::begin();
    // Until the kernel waits: what comes meanwhile ends its wait at once.
    let before = signals::block_movable();
    let handled = masks::replace_handled(wanted);
    signals::deliver();
    while !watch.interrupted() {
        let kernels = wanted & !signals::kicks();
        // SAFETY: a set on the stack.
        unsafe {
            system_call(c::SYS_rt_sigsuspend, [(&raw const kernels).expose_provenance(), size_of::<Set>(), 0, 0, 0, 0])
        };
    }
    masks::replace_handled(handled);
    signals::set_kernel_mask(before);
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigsuspend(set: *const c::sigset_t) -> c_int {
    let me = Record::current().filter(|_| raddle::drop_in::is_lightweight());
    let Some(me) = me else {
        if masks::is_in_handler() && Record::current().is_some() {
            // SAFETY: the caller's set.
            suspend_in_handler(unsafe { word(set) });
            set_errno(c::EINTR);
            return -1;
        }
        // SAFETY: the caller's argument.
        return unsafe { next!(sigsuspend: fn(*const c::sigset_t) -> c_int)(set) };
    };
    cancel::point();
    let watch = watch::begin();
    // SAFETY: the caller's set.
    let wanted = unsafe { word(set) };
    let mask = me.mask.swap(wanted, Ordering::SeqCst);
    masks::changed(mask, wanted);
    signals::deliver();
    loop {
        let waited = wait_for_handler(me, watch);
        if waited.is_ok() {
            break;
        }
        me.mask.store(mask, Ordering::SeqCst);
        masks::changed(wanted, mask);
        cancel::point();
    }
    me.mask.store(mask, Ordering::SeqCst);
    masks::changed(wanted, mask);
    signals::deliver();
    cancel::ending_point();
    set_errno(c::EINTR);
    -1
}

const _: () = assert!(size_of::<*mut c_void>() == size_of::<Set>());
