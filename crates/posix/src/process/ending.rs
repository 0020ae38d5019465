//! `pthread_exit` in a handler of the program.
//!
//! It unwinds through whatever the handler has interrupted. Where that is a wait of ours, which runs handlers when it is over, the
//! wait's destructors put things in order ([`crate::thread::undo`]). A handler that came by the kernel may have interrupted this library at
//! any instruction, which no unwinder can pass. Then the thread ends a little later: the interrupted code goes on as if the handler had returned, and the
//! end comes with the next wait, cancellation point or signal of ours that finds the thread in the program's code; a timer sends those.

use super::signals::{self, Set};
use super::{masks, rights, watch};
use crate::os::{c, system_call};
use crate::thread::cancel;
use crate::thread::record::Record;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Between two looks, in nanoseconds: an untested guess.
const SOON: c::c_long = 50_000;

thread_local! {
    /// What the kernel saved when the outermost running handler interrupted this library; null: none has.
    static OUTER: Cell<*mut c_void> = const { Cell::new(null_mut()) };
    /// The kernel's number of the timer that goes; less than 0: none.
    static TIMER: Cell<c_int> = const { Cell::new(-1) };
}

/// A handler of the kernel's runs until [`Over::end`].
#[must_use]
pub(super) struct Over(*mut c_void);

impl Over {
    /// It has interrupted what `context` says. `raised`: a thread that sent itself the signal, as it may at the end of a wait.
    ///
    /// # Safety
    /// The kernel's argument to the handler.
    pub unsafe fn begin(context: *mut c_void, raised: bool) -> Self {
        let before = OUTER.get();
        // SAFETY: the kernel's argument.
        if before.is_null() && !raised && unsafe { rights::is_own_code(&*context.cast()) } {
            OUTER.set(context);
        }
        Self(before)
    }

    /// It returns.
    pub fn end(self) {
        OUTER.set(self.0);
    }
}

/// A handler has been left otherwise than by returning.
pub(super) fn forget() {
    OUTER.set(null_mut());
}

/// The thread `me`, the caller, ends. If it is in a handler it is itself again, and goes on to block what the handler blocked. Does not return where the
/// end comes later.
pub(crate) fn begin(me: &'static Record) {
    if !watch::is_handler_here() {
        return;
    }
    let context = OUTER.get();
    raddle::signal::left_by_a_jump();
    masks::leave_to_exit(me);
    if context.is_null() {
        return;
    }
    cancel::ends_later(me);
    let raw = me.handle.load(Ordering::SeqCst);
    if !raw.is_null() {
        // Its next wait ends at once. SAFETY: the thread runs, so its handle is neither joined nor dropped meanwhile.
        let _ = unsafe { raddle::drop_in::interrupt(raw) };
    }
    look_soon();
    // SAFETY: what the kernel passed to a handler that has not returned: its frame lies above all that is used here.
    unsafe {
        masks::settle(context, 0);
        resume(context)
    }
}

/// In the handler of a signal of ours, after the thread has had the occasion to end.
pub(super) fn look_again(me: &Record) {
    let timer = TIMER.replace(-1);
    if timer >= 0 {
        // SAFETY: a timer of ours.
        unsafe { system_call(c::SYS_timer_delete, [timer as usize, 0, 0, 0, 0, 0]) };
    }
    if cancel::is_to_end(me) {
        look_soon();
    }
}

/// Has a signal of ours sent to this kernel thread in a moment. Without a timer the next wait or cancellation point must do.
fn look_soon() {
    // SAFETY: zeroes are an event; all is on the stack.
    unsafe {
        let mut event: c::sigevent = std::mem::zeroed();
        event.sigev_notify = c::SIGEV_THREAD_ID;
        event.sigev_signo = (64 - (signals::kicks() as Set).leading_zeros()) as c_int;
        event.sigev_notify_thread_id = system_call(c::SYS_gettid, [0; 6]) as c_int;
        let mut timer: c_int = -1;
        let places = [(&raw mut event).expose_provenance(), (&raw mut timer).expose_provenance()];
        let clock = c::CLOCK_MONOTONIC as usize;
        if system_call(c::SYS_timer_create, [clock, places[0], places[1], 0, 0, 0]) == 0 {
            TIMER.set(timer);
            let mut time: c::itimerspec = std::mem::zeroed();
            time.it_value.tv_nsec = SOON;
            system_call(c::SYS_timer_settime, [timer as usize, 0, (&raw const time).expose_provenance(), 0, 0, 0]);
        }
    }
}

/// As if the handler had returned.
///
/// # Safety
/// What the kernel passed to a handler that has not returned, on a stack that is still as it was from there on.
unsafe fn resume(context: *mut c_void) -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel takes its frame, which begins a word below the context, from the stack pointer.
    unsafe {
        std::arch::asm!("mov rsp, {}", "mov eax, 15", "syscall", "ud2", in(reg) context, options(noreturn))
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel's frame begins with the description of the signal, 128 bytes, at the stack pointer.
    unsafe {
        std::arch::asm!("sub {0}, {0}, #128", "mov sp, {0}", "mov x8, #139", "svc #0", "udf #0", in(reg) context, options(noreturn))
    }
}
