//! Cancellation.
//!
//! A request is a bit of the thread's record; the thread acts on it at cancellation points, by
//! `pthread_exit(PTHREAD_CANCELED)`. A thread that waits in one is woken by raddle's cancellation, which its waits
//! return; while cancellation is disabled, and from the beginning of the thread's end, raddle's waits are masked from
//! it.
//!
//! For entry points that are cancellation points: declare them `extern "C-unwind"` (the unwinding passes through their
//! frames), call [`point`] on entry, and again when a wait answers "cancelled"; nothing with a destructor may be alive
//! at either call.
//!
//! Kernel threads (the first one, or all where lightweight ones cannot be had) are the C library's to end; their waits
//! in this library end by [`kernel_waits`].
//!
//! The C library has cancellation points of its own, in what it does inside itself (`fgets`, `system`) and in calls
//! that are not taken over (`msgrcv`). It looks at a word of the thread's control block, so the thread keeps its
//! request, its state and its type there, too ([`libc_word`]): then the C library ends it by itself where one of those
//! calls begins. Where the thread waits in one, a signal of ours to its kernel thread finds it there ([`meet`]).
//!
//! Asynchronous cancellation acts at cancellation points too, at the call that makes it asynchronous, in waits for
//! mutexes, and where the request reaches the thread in its own code or in a system call, by a signal to its kernel
//! thread.

use super::libc_word;
use super::record::{Held, Record};
use crate::os::c;
use crate::process::{ending, kernel_waits, masks, rights, signals};
use raddle::drop_in::words::request::REQUESTED;
use raddle_machine::Atomic as _;
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

const DISABLED: u32 = 2;
const ASYNCHRONOUS: u32 = 4;
/// `pthread_exit` was called, or the start routine has returned: nothing is acted on any more.
const EXITING: u32 = 8;

/// `pthread_exit` was called in a handler where the thread could not end.
const ENDS: u32 = 16;
/// `pthread_exit` was called in a handler, with what stands in the record.
const LEAVES: u32 = 32;

/// What `PTHREAD_CANCELED` is.
pub(crate) const CANCELED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

/// Somebody was asked to end, ever: programs that cancel nobody pass their cancellation points without a look at who
/// they are.
static EVER: AtomicBool = AtomicBool::new(false);

/// A cancellation point: ends the calling thread if that was asked for.
#[inline]
pub(crate) fn point() {
    // Relaxed: a request that is not seen here is found by the wait, as one that comes a little later.
    if EVER.load(Ordering::Relaxed) {
        match Record::current() {
            None => kernel_point(),
            Some(me) if me.request.word().load(Ordering::Relaxed) & (REQUESTED | DISABLED | EXITING) == REQUESTED => {
                act()
            }
            Some(_) => ending_point(),
        }
    }
}

/// The C library's own cancellation point, on kernel threads.
#[cold]
#[inline(never)]
fn kernel_point() {
    let found = next!(pthread_testcancel: fn()) as *const ();
    // SAFETY: the C library's function, which may unwind.
    unsafe { std::mem::transmute::<*const (), unsafe extern "C-unwind" fn()>(found)() };
}

/// The calling thread's request, at a place where it may end. Returns if it ends already: the C library has seen the
/// request first, and its unwinding runs what called this.
#[cold]
#[inline(never)]
fn act() {
    if let Some(me) = Record::current()
        && libc_word::is_exiting()
        && !is_to_end(me)
    {
        if !masks::is_in_handler() {
            ends_by_the_c_library(me);
        }
        return;
    }
    // SAFETY: the calling thread's own request.
    unsafe { super::exit::pthread_exit(CANCELED) }
}

/// The C library has begun to end the calling thread, at a cancellation point of its own.
fn ends_by_the_c_library(me: &Record) {
    me.result.store(CANCELED, Ordering::Relaxed);
    begin_exit(me);
}

/// At the end of the calling thread's code: true if it has returned, and not been ended by the C library.
pub(super) fn has_returned(me: &Record) -> bool {
    let cancelled = !is_exiting(me) && !is_to_end(me) && libc_word::is_exiting();
    if cancelled {
        ends_by_the_c_library(me);
    }
    !cancelled
}

/// `pthread_exit` in a handler, with what the record says.
pub(super) fn leaves_handler(me: &Record) {
    me.request.word().fetch_or(LEAVES, Ordering::Relaxed);
}

/// A handler of the calling thread's has ended as a thread does: if not by `pthread_exit`, then by the C library.
pub(crate) fn handler_has_ended(me: &Record) {
    if me.request.word().fetch_and(!LEAVES, Ordering::Relaxed) & LEAVES == 0 {
        me.result.store(CANCELED, Ordering::Relaxed);
    }
}

/// True if the calling thread, which is `me`, is to be cancelled where it can be.
pub(crate) fn is_requested(me: &Record) -> bool {
    me.request.word().load(Ordering::Relaxed) & (REQUESTED | DISABLED | EXITING) == REQUESTED
}

/// The calling thread has been interrupted, perhaps by a request: the C library's cancellation points are told.
pub(crate) fn heed(me: &Record) {
    if me.request.word().load(Ordering::Relaxed) & (REQUESTED | EXITING) == REQUESTED {
        libc_word::request();
    }
}

/// In the handler of a signal of ours, which has interrupted the calling thread outside the runtime, its own code or a
/// handler of its: ends it here if it is to be cancelled and this is the place for it.
///
/// # Safety
/// `context` is the kernel's argument to that handler, which was not put off.
pub(crate) unsafe fn meet(context: *mut c_void) {
    let Some(me) = Record::current() else { return };
    heed(me);
    if !is_requested(me) || libc_word::is_exiting() {
        return;
    }
    let asynchronous = me.request.word().load(Ordering::Relaxed) & ASYNCHRONOUS != 0;
    // SAFETY: the interrupted code's registers.
    let code = unsafe { &*context.cast::<c::ucontext_t>() };
    let here = if rights::is_program_code(code) {
        asynchronous
    } else if rights::is_c_library_code(code) {
        libc_word::may_be_cancelled() && (!asynchronous || rights::is_waiting_call(code))
    } else {
        false
    };
    if here {
        if masks::is_in_handler() {
            // To the frame of the program's handler.
            // SAFETY: the saved mask.
            signals::set_kernel_mask(unsafe { (&raw const code.uc_sigmask).cast::<signals::Set>().read() });
        } else {
            // SAFETY: the kernel's argument to this handler, which was not put off.
            unsafe { masks::settle_now(context) };
        }
        act();
    } else if asynchronous && !masks::is_in_handler() && !libc_word::is_disabled() {
        // In the C library, where it may hold a lock, or in this library: a moment later.
        me.result.store(CANCELED, Ordering::Relaxed);
        ends_later(me);
        ending::soon(me);
    }
}

/// The caller, in a handler, has called `pthread_exit`, and cannot end here.
pub(crate) fn ends_later(me: &Record) {
    EVER.store(true, Ordering::Relaxed);
    me.request.word().fetch_or(ENDS, Ordering::Relaxed);
}

/// True from [`ends_later`] until the thread is on its way out.
pub(crate) fn is_to_end(me: &Record) -> bool {
    me.request.word().load(Ordering::Relaxed) & (ENDS | EXITING) == ENDS
}

/// Where the caller may end, if it is to.
#[inline]
pub(crate) fn ending_point() {
    if EVER.load(Ordering::Relaxed)
        && let Some(me) = Record::current()
        && is_to_end(me)
    {
        // SAFETY: the calling thread's own call, with what it was to end with.
        unsafe { super::exit::pthread_exit(me.result.load(Ordering::Relaxed)) }
    }
}

/// In a signal handler that interrupted the thread's own code, after `leave`, or in that code.
#[inline]
pub(crate) fn asynchronous_point(leave: impl FnOnce()) {
    if let Some(me) = Record::current()
        && me.request.word().load(Ordering::Relaxed) & (REQUESTED | DISABLED | ASYNCHRONOUS | EXITING)
            == REQUESTED | ASYNCHRONOUS
    {
        leave();
        act();
    }
}

/// True if a request is to end the caller, a thread of ours, wherever it is.
pub(crate) fn is_asynchronous() -> bool {
    Record::current().is_some_and(|me| {
        me.request.word().load(Ordering::Relaxed) & (DISABLED | ASYNCHRONOUS | EXITING) == ASYNCHRONOUS
    })
}

/// True if that thread is to end at its next cancellation point.
pub(crate) fn is_asked_to_end(record: &Record) -> bool {
    record.request.word().load(Ordering::Relaxed) & (REQUESTED | DISABLED | EXITING) == REQUESTED
}

/// True if the calling thread, one of ours, is to end at its next cancellation point.
pub(crate) fn is_requested_here() -> bool {
    Record::current()
        .is_some_and(|me| me.request.word().load(Ordering::Relaxed) & (REQUESTED | DISABLED | EXITING) == REQUESTED)
}

/// True once the thread is on its way out.
pub(crate) fn is_exiting(me: &Record) -> bool {
    me.request.word().load(Ordering::Relaxed) & EXITING != 0
}

/// The calling thread is on its way out: its waits are not cancelled any more.
pub(super) fn begin_exit(me: &Record) {
    let before = me.request.word().fetch_or(EXITING, Ordering::Relaxed);
    libc_word::exits();
    ending::stop();
    if before & (EXITING | DISABLED) == 0 {
        raddle::drop_in::mask_cancellation(true);
    }
}

/// The thread has its handle. Somebody may have left a request or a signal meanwhile.
pub(super) fn created(record: &'static Record, raw: *mut ()) {
    if record.request.created(raw, wake, &crate::futex::All) {
        signals::interrupt_and(record, true);
    }
    if !record.pending.is_empty() && record.pending.all() != 0 {
        signals::interrupt(record);
    }
}

/// Ends a thread's cancellable wait, by its handle. The caller holds the record.
fn wake(raw: *mut ()) {
    // SAFETY: the raw form of a handle of this type, from a record that is held: so it is neither joined nor dropped
    // meanwhile, nor by this copy of it.
    let handle = ManuallyDrop::new(unsafe { raddle::JoinHandle::<()>::from_raw(raw) });
    handle.cancel();
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_cancel(id: c::pthread_t) -> c_int {
    if !Record::is_ours(id) {
        EVER.store(true, Ordering::Relaxed);
        // Its waits in this library ask whether the C library knows of the request.
        libc_word::prepare();
        let found = next!(pthread_cancel: fn(c::pthread_t) -> c_int) as *const ();
        type Function = unsafe extern "C-unwind" fn(c::pthread_t) -> c_int;
        // SAFETY: the C library's function, which may unwind; the caller's argument.
        let result = unsafe { std::mem::transmute::<*const (), Function>(found)(id) };
        if result == 0 {
            kernel_waits::end(id);
        }
        return result;
    }
    // SAFETY: an id of ours.
    let Some(target) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    request(target);
    // Itself, asynchronously: at once.
    asynchronous_point(|| {});
    0
}

fn request(target: Held) {
    EVER.store(true, Ordering::Relaxed);
    if target.request.ask(wake) {
        if target.is_current() {
            heed(&target);
        } else {
            // Calls go on after that, unless they are where the thread ends.
            signals::interrupt_and(target.record(), true);
        }
    }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_testcancel() {
    if Record::current().is_some() { point() } else { kernel_point() }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    let Some(me) = Record::current() else {
        return natively!();
    };
    if state != c::PTHREAD_CANCEL_ENABLE && state != c::PTHREAD_CANCEL_DISABLE {
        return c::EINVAL;
    }
    let disable = state == c::PTHREAD_CANCEL_DISABLE;
    let before = if disable {
        me.request.word().fetch_or(DISABLED, Ordering::Relaxed)
    } else {
        me.request.word().fetch_and(!DISABLED, Ordering::Relaxed)
    };
    libc_word::set_state(disable);
    let was = before & DISABLED != 0;
    if was != disable && before & EXITING == 0 {
        raddle::drop_in::mask_cancellation(disable);
    }
    if !old.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *old = if was { c::PTHREAD_CANCEL_DISABLE } else { c::PTHREAD_CANCEL_ENABLE } };
    }
    // A request that came meanwhile, where it is asynchronous: at once.
    asynchronous_point(|| {});
    0
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    let Some(me) = Record::current() else {
        return natively!();
    };
    if kind != c::PTHREAD_CANCEL_DEFERRED && kind != c::PTHREAD_CANCEL_ASYNCHRONOUS {
        return c::EINVAL;
    }
    let before = if kind == c::PTHREAD_CANCEL_ASYNCHRONOUS {
        me.request.word().fetch_or(ASYNCHRONOUS, Ordering::Relaxed)
    } else {
        me.request.word().fetch_and(!ASYNCHRONOUS, Ordering::Relaxed)
    };
    libc_word::set_type(kind == c::PTHREAD_CANCEL_ASYNCHRONOUS);
    if !old.is_null() {
        let was = before & ASYNCHRONOUS != 0;
        // SAFETY: the caller's place for it.
        unsafe { *old = if was { c::PTHREAD_CANCEL_ASYNCHRONOUS } else { c::PTHREAD_CANCEL_DEFERRED } };
    }
    asynchronous_point(|| {});
    0
}
