//! Waits of kernel threads with a mask of their own (`sigsuspend`, `ppoll` and kin): handlers that end them.
//!
//! In such a handler the kernel blocks what the wait has blocked, and what the action says; what the thread blocks
//! otherwise comes back with the handler's return. The program's handlers are behind ours, before which all is blocked,
//! and which sets the mask of the handler by itself: so it needs to know that of the wait.

use super::signals::{self, Set};
use super::{masks, rights};
use crate::os::{c, system_call};
use crate::thread::undo::Undo;
use std::cell::Cell;
use std::ffi::c_void;

thread_local! {
    /// What the calling kernel thread blocks in the call that it makes, and in handlers that end it.
    static WAITS_WITH: Cell<Option<Set>> = const { Cell::new(None) };
}

/// All handlers, and the wait below them, have been left otherwise than by returning.
pub(super) fn forget() {
    WAITS_WITH.set(None);
}

/// A kernel thread, which is the caller, waits in the kernel by `wait` with another mask, the one at `mask` if there is
/// one: handlers that end the wait block that, and what they block themselves.
pub(crate) fn waiting_in_kernel<T>(mask: *const c::sigset_t, wait: impl FnOnce() -> T) -> T {
    /// No way to change a mask: the kernel refuses it when it has read the set.
    const NO_WAY: usize = 99;
    // SAFETY: a set, which the kernel checks: there may be no handler of faults that would meet its absence.
    let read = unsafe { system_call(c::SYS_rt_sigprocmask, [NO_WAY, mask.addr(), 0, size_of::<Set>(), 0, 0]) };
    if mask.is_null() || read != -(c::EINVAL as isize) {
        return wait();
    }
    if !masks::is_in_handler() {
        rights::know_code();
    }
    // SAFETY: the kernel has read it; the first word is the kernel's.
    WAITS_WITH.set(Some(unsafe { mask.cast::<Set>().read() } & !signals::UNBLOCKABLE));
    // Also where the thread ends in the wait.
    let _over = Undo::new(|| WAITS_WITH.set(None));
    wait()
}

/// The wait with another mask that a handler has interrupted on a kernel thread, if it has.
pub(super) struct InterruptedWait {
    before: Option<Set>,
    /// What the handler is to block besides what it blocks itself, if the wait ends by it.
    pub(super) mask: Option<Set>,
}

impl InterruptedWait {
    /// Before the handler.
    ///
    /// # Safety
    /// `context` is what the kernel passed to the handler that the caller is.
    pub unsafe fn begin(context: *mut c_void) -> Self {
        let before = WAITS_WITH.take();
        // SAFETY: the registers of the interrupted code.
        Self { before, mask: before.filter(|_| unsafe { rights::is_ended_call(&*context.cast()) }) }
    }

    /// It has returned.
    pub fn end(self) {
        if self.mask.is_none() {
            WAITS_WITH.set(self.before);
        }
    }
}
