//! `pthread_exit` in a handler of the program.
//!
//! It unwinds to the frame from which we have called the handler ([`trampoline::call_handler`]), as a thread's own does
//! to the thread's beginning. From there the end goes on through what the handler has interrupted, where an unwinder
//! can pass: the program's code, a system call of the C library that waits, and our waits, whose destructors put things
//! in order ([`crate::thread::undo`]). Elsewhere (in this library at any instruction, or in the C library, which may
//! hold its locks there) the handler returns, and the thread ends a little later: with its next wait or cancellation
//! point, or when a signal of ours finds it where it can; a timer sends those.

use super::signals;
use super::{masks, rights};
use crate::os::{c, system_call};
use crate::thread::record::Record;
use crate::thread::{cancel, exit, trampoline};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// Nanoseconds between two looks. A thread that allocates all the time has ended after 1.1 ms; with 12.5 µs, when it
/// hardly gets on, after 4.6, with 200 after 3.0, and with more processor time. (Medians of five, `exits` of
/// docs/constants.md) After each so many looks it is twice as long, so that the thread gets on where a look takes
/// longer.
const SOON_NS: c::c_long = 50_000;
/// The same while the thread may go on for long without having to end.
const LATER_NS: c::c_long = 1_000_000;
const LOOKS: u32 = 256;
/// How often it is doubled.
const DOUBLINGS: u32 = 8;

thread_local! {
    /// The calling kernel thread, which is none of ours, is to end, and with what: by cancellation, unless a handler
    /// has said otherwise.
    static TO_END: Cell<bool> = const { Cell::new(false) };
    static VALUE: Cell<*mut c_void> = const { Cell::new(cancel::CANCELED) };
    /// Handlers that run now by [`signals::deliver`] cannot end the thread there.
    static CANNOT: Cell<bool> = const { Cell::new(false) };
    /// The thread's code has not begun: handlers may wait as it does, though they do not end it.
    static BEGINS: Cell<bool> = const { Cell::new(false) };
    /// The innermost handler, and those that it has interrupted, may wait as their thread does.
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
    /// The kernel's number of the timer that goes; less than 0: none.
    static TIMER: Cell<c_int> = const { Cell::new(-1) };
    /// Looks so far.
    static LOOKED: Cell<u32> = const { Cell::new(0) };
    /// The frame to which the outermost running handler would unwind.
    static OUTERMOST: Cell<*mut trampoline::Buffer> = const { Cell::new(std::ptr::null_mut()) };
}

/// Runs `f`, in which handlers may be delivered. With `cannot`, they do not end the thread there.
pub(super) fn within<T>(cannot: bool, f: impl FnOnce() -> T) -> T {
    let before = CANNOT.replace(CANNOT.get() || cannot);
    let result = f();
    CANNOT.set(before);
    result
}

/// What was left for the calling thread before its code begins; handlers do not end it here.
pub(crate) fn before_it_begins() {
    if !raddle::drop_in::is_interrupted() {
        return;
    }
    BEGINS.set(true);
    within(true, raddle::drop_in::poll_interruption);
    BEGINS.set(false);
}

/// A handler that has ended by `pthread_exit`.
pub(super) struct Ended {
    cannot: bool,
}

/// Calls a handler. The answer says that it has ended by `pthread_exit`. `raised`: the thread has sent itself the
/// signal; `may_wait`: the kernel has put what it interrupted on the thread's own stack.
///
/// # Safety
/// The program's handler and the kernel's arguments.
pub(super) unsafe fn call(
    handler: usize,
    signal: c_int,
    info: *mut c_void,
    context: *mut c_void,
    raised: bool,
    may_wait: bool,
) -> Option<Ended> {
    // SAFETY: the kernel's argument.
    let cannot = if raised { CANNOT.get() } else { !unsafe { rights::can_unwind(&*context.cast()) } };
    let mut buffer = trampoline::Buffer::new();
    let outermost = OUTERMOST.get();
    // Where its thread could end it could also have waited.
    let could = !cannot || BEGINS.get();
    let may_wait = MAY_WAIT.replace(may_wait && raised && could && (outermost.is_null() || MAY_WAIT.get()));
    if outermost.is_null() {
        OUTERMOST.set(&mut buffer);
    }
    let before = CANNOT.replace(false);
    // SAFETY: the caller's promise; the buffer outlives the call.
    let ended = unsafe {
        let ended = trampoline::call_handler(handler, signal, info, context, &mut buffer);
        trampoline::unregister(&mut buffer);
        ended
    };
    CANNOT.set(before);
    MAY_WAIT.set(may_wait);
    OUTERMOST.set(outermost);
    ended.then_some(Ended { cannot })
}

/// Whether the caller, in a handler, may wait as the thread that was interrupted does.
pub(super) fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// All handlers have been left otherwise than by returning.
pub(super) fn forget() {
    CANNOT.set(false);
    MAY_WAIT.set(false);
    signals::forget_raised();
    let outermost = OUTERMOST.replace(std::ptr::null_mut());
    if !outermost.is_null() {
        // SAFETY: its frame lies above this one, and what was registered after it is gone with it.
        unsafe { trampoline::unregister(outermost) };
    }
}

/// Where a handler has returned that ended by `pthread_exit`: ends the thread, or sees to it that it ends soon.
/// `blocked`: what the handler blocked.
///
/// # Safety
/// `context` is the kernel's argument to the handler, which is about to return.
pub(super) unsafe fn go_on(ended: Ended, context: *mut c_void, blocked: signals::Set) {
    let Some(me) = Record::current() else {
        if raddle::drop_in::is_kernel_thread_of_runtime() {
            // It has interrupted no thread of the program.
        } else if ended.cannot {
            TO_END.set(true);
            look_soon();
        } else {
            // SAFETY: the kernel's argument.
            unsafe { end_kernel_thread(context, blocked) }
        }
        return;
    };
    if cancel::is_exiting(me) {
        return;
    }
    cancel::handler_has_ended(me);
    if masks::is_in_handler() && !ended.cannot {
        // To the frame of the handler that this one has interrupted.
        // SAFETY: the calling thread's own call.
        unsafe { exit::pthread_exit(me.result.load(Ordering::Relaxed)) }
    }
    let before = me.mask.fetch_or(blocked & signals::movable(), Ordering::SeqCst);
    masks::changed(before, me.mask.load(Ordering::SeqCst));
    if !ended.cannot {
        // What this has interrupted may be a handler of ours, which is left, too.
        raddle::signal::left_by_a_jump();
        masks::begin();
        // SAFETY: the calling thread's own end, in its own code: what it has interrupted is left.
        unsafe { exit::pthread_exit(me.result.load(Ordering::Relaxed)) }
    }
    cancel::ends_later(me);
    soon(me);
}

/// The calling thread, which is to end, does so at its next wait, or when a signal finds it where it can. Also when it
/// has come to another kernel thread.
pub(crate) fn soon(me: &Record) {
    let raw = me.request.reach();
    if !raw.is_null() {
        // Its next wait ends at once. SAFETY: the thread runs, so its handle is neither joined nor dropped meanwhile.
        let _ = unsafe { raddle::drop_in::interrupt(raw) };
    }
    look_soon();
}

/// A kernel thread of the program's, the first one for one, ends here, in a handler.
///
/// # Safety
/// `context` is the kernel's argument to that handler, which has interrupted what can be unwound.
unsafe fn end_kernel_thread(context: *mut c_void, blocked: signals::Set) -> ! {
    stop();
    TO_END.set(false);
    // SAFETY: the saved mask; the calling thread's own call.
    unsafe {
        let mask = (&raw const (*context.cast::<c::ucontext_t>()).uc_sigmask).cast::<signals::Set>().read();
        signals::set_kernel_mask(mask | blocked);
        exit::pthread_exit(VALUE.get())
    }
}

/// The calling kernel thread ends with that, as a handler on it has said.
pub(crate) fn ends_with(value: *mut c_void) {
    VALUE.set(value);
}

/// In the handler of a signal of ours on a kernel thread that runs none of our threads; `unwinds`: what it has
/// interrupted can be unwound.
///
/// # Safety
/// `context` is the kernel's argument to that handler.
pub(super) unsafe fn look_again_at_kernel_thread(context: *mut c_void, unwinds: bool) {
    if TO_END.get() {
        if unwinds {
            // SAFETY: the handler's context, on a kernel thread whose frames may be unwound here.
            unsafe { end_kernel_thread(context, 0) }
        }
        look_soon();
    }
}

/// In the handler of a signal of ours, after the thread has had the occasion to end.
pub(super) fn look_again(me: &Record) {
    stop();
    if cancel::is_to_end(me) {
        look_soon();
    } else if crate::thread::dedicated::task(me).is_some() && cancel::is_requested_here() {
        // It may be on its way into a call of the C library's that waits, which knows of no request of ours.
        look_in(LATER_NS);
    }
}

/// The calling thread needs no more looks.
pub(crate) fn stop() {
    let timer = TIMER.replace(-1);
    if timer >= 0 {
        // SAFETY: a timer of ours.
        unsafe { system_call(c::SYS_timer_delete, [timer as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Has a signal of ours sent to this kernel thread in a moment. Without a timer the next wait or cancellation point
/// must do.
fn look_soon() {
    look_in(SOON_NS);
}

fn look_in(nanoseconds: c::c_long) {
    stop();
    signals::install_kicks();
    // SAFETY: zeroes are an event; all is on the stack.
    unsafe {
        let mut event: c::sigevent = std::mem::zeroed();
        event.sigev_notify = c::SIGEV_THREAD_ID;
        event.sigev_signo = signals::restarting_kick();
        event.sigev_notify_thread_id = system_call(c::SYS_gettid, [0; 6]) as c_int;
        let mut timer: c_int = -1;
        let places = [(&raw mut event).expose_provenance(), (&raw mut timer).expose_provenance()];
        let clock = c::CLOCK_MONOTONIC as usize;
        if system_call(c::SYS_timer_create, [clock, places[0], places[1], 0, 0, 0]) == 0 {
            TIMER.set(timer);
            let mut time: c::itimerspec = std::mem::zeroed();
            let looked = LOOKED.replace(LOOKED.get().saturating_add(1));
            time.it_value.tv_nsec = nanoseconds << (looked / LOOKS).min(DOUBLINGS);
            system_call(c::SYS_timer_settime, [timer as usize, 0, (&raw const time).expose_provenance(), 0, 0, 0]);
        }
    }
}
