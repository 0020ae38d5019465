//! Forks. In the child the calling thread is the only one, and a kernel thread from then on; the runtime begins anew with the first thread
//! that it creates.
//!
//! The C library runs the handler below in each child that `fork` makes, also inside `daemon`, `forkpty` and its like. A `vfork` is a
//! fork: a child that shared memory with the runtime, and called anything that waits, would switch threads under its parent.

use super::signals;
use crate::os::c;
use crate::thread::exit;
use crate::thread::record::Record;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

/// Registers the child's handler.
pub(super) fn prepare() {
    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    // SAFETY: the handler may run in any child.
    unsafe { pthread_atfork(None, None, Some(child)) };
}

unsafe extern "C" fn child() {
    // SAFETY: the only thread of a child that was just made, outside the runtime: it called `fork`.
    unsafe { raddle::drop_in::forked() };
    exit::forked();
    crate::sync::forked();
    if let Some(me) = Record::current() {
        signals::set_kernel_mask(me.mask.load(Ordering::Relaxed));
    }
}

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> c::pid_t {
    // SAFETY: the caller's child.
    unsafe { c::fork() }
}
