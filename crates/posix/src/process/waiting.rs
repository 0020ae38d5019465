//! Waiting for signals: `sigwait` and its kin, `pause`, `sigsuspend`.
//!
//! A lightweight thread that waits looks at what was sent to it, then at what is pending for the process, and then
//! waits for a descriptor that the kernel makes readable when there is something (signalfd): no kernel thread is held.

use super::info::Info;
use super::signals::{self, Set};
use super::watch::{self, HandlersSeen};
use super::{dump_signal, ending, kernel_waits, masked_waits, masks};
use crate::os::{LOOK_AGAIN_NS, answer, c, deadline_after, now, reach, system_call};
use crate::thread::caller::Caller;
use crate::thread::cancel;
use crate::thread::record::Record;
use crate::thread::undo::Undo;
use raddle::io::{Failure, Interest};
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::ptr::null;

/// The calling lightweight thread, or a handler of its, waits for one of `set` by `rest`, which gets a descriptor to
/// wait for, if there is one, and a deadline: the signal, a negated error number, or [`kernel_waits::CANCELLED`].
///
/// # Safety
/// `info` is null or a place for a `siginfo_t`.
unsafe fn wait(
    me: &'static Record,
    set: Set,
    info: *mut c::siginfo_t,
    deadline: Option<u64>,
    rest: impl Fn(Option<i32>, Option<u64>, HandlersSeen) -> Result<(), Failure>,
) -> isize {
    let watch = watch::begin();
    let set = set & !signals::kicks();
    // SAFETY: a set on the stack; a descriptor of our own, closed below.
    let descriptor = unsafe {
        let flags = (c::SFD_NONBLOCK | c::SFD_CLOEXEC) as usize;
        system_call(c::SYS_signalfd4, [usize::MAX, (&raw const set).expose_provenance(), size_of::<Set>(), flags, 0, 0])
    };
    let at_once = c::timespec { tv_sec: 0, tv_nsec: 0 };
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
            break signal as isize;
        }
        let arguments = [
            (&raw const set).expose_provenance(),
            info.addr(),
            (&raw const at_once).expose_provenance(),
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
            break there;
        }
        if watch.interrupted() {
            break EINTR;
        }
        if crate::thread::dedicated::task(me).is_some() {
            // It has become so while it waited: what is sent to it is pending in the kernel, where nobody else sees it.
            // SAFETY: the caller has promised a place for the description, or none.
            match unsafe { wait_in_kernel(set, info, deadline) } {
                EINTR if cancel::is_requested(me) => break kernel_waits::CANCELLED,
                EINTR if !watch.interrupted() => continue,
                result => break result,
            }
        }
        // Without a descriptor one looks again now and then; what is sent to the thread itself comes at once.
        let soon = (descriptor < 0).then(|| now(c::CLOCK_MONOTONIC) + LOOK_AGAIN_NS);
        let until = soon.map_or(deadline, |soon| Some(deadline.map_or(soon, |at| at.min(soon))));
        match rest((descriptor >= 0).then_some(descriptor as i32), until, watch) {
            Err(Failure::TimedOut) if until == deadline => break -(c::EAGAIN as isize),
            Err(Failure::Cancelled) => break kernel_waits::CANCELLED,
            Err(Failure::Unsupported | Failure::AlwaysReady | Failure::Closed) => {
                // The kernel cannot watch it: the kernel thread waits, a little at a time.
                let pause = c::timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NS as c::c_long };
                // SAFETY: a time on the stack.
                unsafe { system_call(c::SYS_nanosleep, [(&raw const pause).expose_provenance(), 0, 0, 0, 0, 0]) };
            }
            Ok(()) | Err(Failure::TimedOut) => {}
        }
    };
    drop(undo);
    result
}

/// As the kernel's `sigtimedwait`, until a point of CLOCK_MONOTONIC, if one is given.
///
/// # Safety
/// As for [`wait`].
unsafe fn wait_in_kernel(set: Set, info: *mut c::siginfo_t, deadline: Option<u64>) -> isize {
    let left = deadline.map(|at| at.saturating_sub(now(c::CLOCK_MONOTONIC))).map(|left| c::timespec {
        tv_sec: (left / 1_000_000_000) as c::time_t,
        tv_nsec: (left % 1_000_000_000) as c::c_long,
    });
    let time = left.as_ref().map_or(0, |time| std::ptr::from_ref(time).expose_provenance());
    let place = (&raw const set).expose_provenance();
    // SAFETY: a set and a time on the stack, the caller's place.
    unsafe { system_call(c::SYS_rt_sigtimedwait, [place, info.addr(), time, size_of::<Set>(), 0, 0]) }
}

/// The calling lightweight thread waits for a descriptor, or for time alone.
fn doze(descriptor: Option<i32>, deadline: Option<u64>, _: HandlersSeen) -> Result<(), Failure> {
    let Some(descriptor) = descriptor else {
        return match raddle::drop_in::doze_until(deadline.unwrap_or(u64::MAX), true) {
            Ok(true) => Err(Failure::TimedOut),
            Ok(false) => Ok(()),
            Err(_) => Err(Failure::Cancelled),
        };
    };
    raddle::io::wait_for(&|visit: &mut dyn FnMut(i32, Interest)| visit(descriptor, Interest::Read), deadline, true)
}

/// As [`wait`], in a handler whose thread cannot wait there: the kernel thread does.
///
/// # Safety
/// As for [`wait`].
unsafe fn wait_in_handler(me: &'static Record, set: Set, info: *mut c::siginfo_t, deadline: Option<u64>) -> isize {
    // Until the kernel waits: what comes meanwhile ends its wait at once.
    let before = signals::block_movable();
    let mask = before & !signals::kicks();
    let rest = |descriptor: Option<i32>, deadline: Option<u64>, watch: HandlersSeen| {
        signals::deliver();
        if watch.interrupted() {
            return Ok(());
        }
        let mut entry = c::pollfd { fd: descriptor.unwrap_or(-1), events: c::POLLIN, revents: 0 };
        let left = deadline.map(|at| at.saturating_sub(now(c::CLOCK_MONOTONIC)));
        let mut left = left.map(|n| c::timespec {
            tv_sec: (n / 1_000_000_000) as c::time_t,
            tv_nsec: (n % 1_000_000_000) as c::c_long,
        });
        let time = left.as_mut().map_or(0, |time| std::ptr::from_mut(time).expose_provenance());
        let places = [(&raw mut entry).expose_provenance(), (&raw const mask).expose_provenance()];
        // SAFETY: an entry, a time and a set on the stack.
        match unsafe { kernel_waits::attempt(c::SYS_ppoll, [places[0], 1, time, places[1], size_of::<Set>(), 0]) } {
            kernel_waits::CANCELLED => Err(Failure::Cancelled),
            0 => Err(Failure::TimedOut),
            _ => Ok(()),
        }
    };
    // SAFETY: the caller has promised a place for the description, or none.
    let result = unsafe { wait(me, set, info, deadline, rest) };
    signals::set_kernel_mask(before);
    result
}

/// The whole call, cancellation point included.
///
/// # Safety
/// As for [`wait`].
unsafe fn wait_or_end(set: *const c::sigset_t, info: *mut c::siginfo_t, time: *const c::timespec) -> Option<isize> {
    let caller = Caller::here();
    let me = caller.record()?;
    if !(reach::reads(set.cast::<Set>()) && reach::writes_or_null(info) && reach::reads_or_null(time)) {
        return Some(-(c::EFAULT as isize));
    }
    // SAFETY: the caller's set.
    let set = unsafe { word(set) };
    if let Caller::Light(_) = caller {
        cancel::point();
    }
    // SAFETY: null or the caller's time.
    let deadline = match unsafe { time.as_ref() }.map(deadline_after) {
        None => None,
        Some(Ok(at)) => Some(at),
        Some(Err(error)) => return Some(-(error as isize)),
    };
    if let Caller::Handler(_) = caller {
        // SAFETY: the caller has promised a place for the description, or none.
        let waited = watch::as_thread(caller, None, |_| unsafe { wait(me, set, info, deadline, doze) })
            // SAFETY: the same place.
            .unwrap_or_else(|| unsafe { wait_in_handler(me, set, info, deadline) });
        return Some(watch::tell(waited));
    }
    // SAFETY: the caller has promised a place for the description, or none.
    Some(watch::tell(unsafe { wait(me, set, info, deadline, doze) }))
}

/// # Safety
/// The caller's set.
unsafe fn word(set: *const c::sigset_t) -> Set {
    // SAFETY: the first word is the kernel's.
    unsafe { set.cast::<Set>().read() }
}

#[entry]
pub unsafe extern "C-unwind" fn sigtimedwait(
    set: *const c::sigset_t,
    info: *mut c::siginfo_t,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    let Some(result) = (unsafe { wait_or_end(set, info, time) }) else {
        let next = next!(sigtimedwait: fn(*const c::sigset_t, *mut c::siginfo_t, *const c::timespec) -> c_int);
        // SAFETY: the caller's arguments, but for the time, which is what is left of it.
        let again = |left: Option<&c::timespec>| unsafe { next(set, info, left.map_or(null(), std::ptr::from_ref)) };
        return dump_signal::uncut(dump_signal::limit(time), || natively!(), again);
    };
    // SAFETY: null, or the caller's place, which is filled.
    if let Some(info) = unsafe { info.as_mut() }.filter(|info| result > 0 && info.si_code == c::SI_TKILL) {
        // As the C library tells it.
        info.si_code = c::SI_USER;
    }
    answer(result) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn sigwaitinfo(set: *const c::sigset_t, info: *mut c::siginfo_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { sigtimedwait(set, info, std::ptr::null()) }
}

#[entry]
pub unsafe extern "C-unwind" fn sigwait(set: *const c::sigset_t, signal: *mut c_int) -> c_int {
    loop {
        // SAFETY: the caller's arguments.
        let result = match unsafe { wait_or_end(set, std::ptr::null_mut(), std::ptr::null()) } {
            Some(result) => result,
            None => return natively!(),
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

/// The calling lightweight thread waits until it was interrupted (EINTR) or cancelled.
fn wait_for_handler(me: &'static Record, watch: HandlersSeen) -> isize {
    while !watch.interrupted() {
        let changed = || watch.interrupted();
        let address = (&raw const me.pending).expose_provenance();
        let waited =
            raddle::drop_in::wait_for_signal(|| raddle::drop_in::wait_at("a signal", address, None, true, changed));
        if matches!(waited, Err(raddle::sync::WaitError::Cancelled)) {
            return kernel_waits::CANCELLED;
        }
        signals::deliver();
    }
    EINTR
}

#[entry]
pub unsafe extern "C-unwind" fn pause() -> c_int {
    let Some(me) = Caller::here().record() else {
        return dump_signal::uncut(None, || natively!(), |_| natively!());
    };
    if let Caller::Handler(_) = Caller::here() {
        let waited = if park_in_handler(masks::blocked(me)) {
            EINTR
        } else {
            // SAFETY: nothing is waited for but a signal.
            watch::uncut(|| unsafe { kernel_waits::attempt(c::SYS_ppoll, [0; 6]) })
        };
        return answer(watch::tell(waited)) as c_int;
    }
    cancel::point();
    answer(watch::tell(wait_for_handler(me, watch::begin()))) as c_int
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
fn suspend_in_handler(wanted: Set) -> isize {
    if park_in_handler(wanted) {
        return EINTR;
    }
    let watch = watch::begin();
    // Until the kernel waits: what comes meanwhile ends its wait at once.
    let before = signals::block_movable();
    let waiting = masks::Waiting::with(wanted);
    signals::deliver();
    while !watch.interrupted() && !cancel::is_requested_here() {
        let kernels = wanted & !signals::kicks();
        // SAFETY: a set on the stack.
        unsafe {
            system_call(c::SYS_rt_sigsuspend, [(&raw const kernels).expose_provenance(), size_of::<Set>(), 0, 0, 0, 0])
        };
    }
    let waited = if watch.interrupted() { EINTR } else { kernel_waits::CANCELLED };
    drop(waiting);
    signals::set_kernel_mask(before);
    waited
}

#[entry]
pub unsafe extern "C-unwind" fn sigsuspend(set: *const c::sigset_t) -> c_int {
    let Some(me) = Caller::light() else {
        if masks::is_in_handler() && Record::current().is_some() && reach::reads(set.cast::<Set>()) {
            // SAFETY: the caller's set.
            return answer(watch::tell(suspend_in_handler(unsafe { word(set) }))) as c_int;
        }
        let wait = || masked_waits::waiting_in_kernel(set, || natively!());
        return dump_signal::uncut(None, wait, |_| wait());
    };
    cancel::point();
    if !reach::reads(set.cast::<Set>()) {
        return answer(-(c::EFAULT as isize)) as c_int;
    }
    let watch = watch::begin();
    // The mask is the thread's own again before it is cancelled.
    answer(watch::tell(watch::with_thread_mask(set.expose_provenance(), || wait_for_handler(me, watch)))) as c_int
}

const EINTR: isize = -(c::EINTR as isize);
const _: () = assert!(size_of::<*mut c_void>() == size_of::<Set>());

aliases! {
    __sigsuspend = sigsuspend(set: *const c::sigset_t) -> c_int;
    __sigtimedwait = sigtimedwait(set: *const c::sigset_t, info: *mut c::siginfo_t, time: *const c::timespec) -> c_int;
}
