//! Forks. In the child the calling thread is the only one, and a kernel thread from then on; the runtime begins anew
//! with the first thread that it creates.
//!
//! The C library runs the handler below in each child that `fork` makes, also inside `daemon` and `forkpty`. The
//! program's own handlers may run before it, when the child still has the parent's runtime; so the calling thread is
//! hidden from the runtime during the call: what those handlers wake goes nowhere, and they do not switch to what is
//! not there.
//!
//! A lightweight thread that forks is a kernel thread from then on ([`crate::thread::dedicated`]): the child's parent
//! is one for the kernel.

use super::{masks, signals, vfork};
use crate::os::{c, system_call};
use crate::thread::record::Record;
use crate::thread::{dedicated, exit};
use raddle_macros::entry;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::Ordering;

/// The calling thread is about to fork. `main` on a lightweight thread stays one: the process's signals are left for it
/// where they meet others, which the kernel would not do.
pub(super) fn becomes_parent() {
    if !Record::first().is_some_and(Record::is_current) {
        dedicated::known_alone();
    }
}

/// Registers the child's handler.
pub(super) fn prepare() {
    in_children(child);
}

/// From the library's beginning on, since threads that stay kernel threads fork, too.
pub(crate) fn count_forks() {
    in_children(crate::sync::forked);
}

/// Has each child of a fork run a handler, in the order in which they are registered.
fn in_children(run: unsafe extern "C" fn()) {
    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    // SAFETY: the handlers of this file may run in any child.
    unsafe { pthread_atfork(None, None, Some(run)) };
}

pub(super) unsafe extern "C" fn child() {
    let had_mask = Record::current().is_some_and(|me| dedicated::task(me).is_some());
    // SAFETY: the only thread of a child that was just made, outside the runtime: it called `fork`.
    unsafe { raddle::drop_in::forked() };
    crate::thread::names_child();
    dedicated::forked();
    exit::forked();
    // The child of a `vfork` has its own mask already.
    if !vfork::forked()
        && let Some(me) = Record::current()
    {
        if had_mask {
            // The kernel has kept it.
            me.mask.store(signals::kernel_mask(), Ordering::Relaxed);
        } else {
            signals::set_kernel_mask(me.mask.load(Ordering::Relaxed));
        }
    }
    masks::forked(signals::own_mask());
}

#[entry]
pub unsafe extern "C" fn fork() -> c::pid_t {
    becomes_parent();
    let hidden = raddle::drop_in::hide();
    let child = natively!();
    if child == 0 {
        super::exec::forget();
    } else {
        // It may change what it shares.
        raddle::io::doubt_all();
        hidden.end();
    }
    child
}

/// The C library's handlers do not run in a child that the program makes by `syscall`, but what is ours is in order
/// there. `None`: that call makes no child with memory of its own.
///
/// # Safety
/// The program's arguments for the call of that number.
pub(crate) unsafe fn by_number(number: c_long, arguments: [usize; 6]) -> Option<isize> {
    let flags = match number {
        #[cfg(target_arch = "x86_64")]
        c::SYS_fork => 0,
        c::SYS_clone => arguments[0],
        c::SYS_clone3 => {
            let mut flags = [0; size_of::<u64>()];
            if !super::own::read(arguments[0], &mut flags) {
                return None;
            }
            u64::from_ne_bytes(flags) as usize
        }
        _ => return None,
    };
    if flags & c::CLONE_VM as usize != 0 || vfork::is_child() {
        return None;
    }
    becomes_parent();
    let hidden = raddle::drop_in::hide();
    // SAFETY: the caller's promise. A child that begins on another stack does not return here, as it would not return
    // from the C library's function.
    let result = unsafe { system_call(number, arguments) };
    if result == 0 {
        crate::sync::forked();
        if exit::has_threads() {
            // SAFETY: in the child, whose only thread this is.
            unsafe { child() };
        }
        super::exec::forget();
    } else {
        raddle::io::doubt_all();
        hidden.end();
    }
    Some(result)
}

#[entry]
pub unsafe extern "C" fn forkpty(
    terminal: *mut c_int,
    name: *mut c_char,
    settings: *const c_void,
    size: *const c_void,
) -> c::pid_t {
    becomes_parent();
    let hidden = raddle::drop_in::hide();
    let child = natively!();
    if child == 0 {
        super::exec::forget();
    } else {
        // The child may change what both have.
        raddle::io::doubt_all();
        hidden.end();
    }
    child
}

#[entry]
pub unsafe extern "C" fn daemon(here: c_int, open: c_int) -> c_int {
    let hidden = raddle::drop_in::hide();
    let before = std::process::id();
    let result = natively!();
    if std::process::id() == before {
        hidden.end();
    }
    result
}

aliases! {
    __fork = fork() -> c::pid_t;
}
