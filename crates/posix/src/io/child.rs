//! Waiting for processes.
//!
//! A process with a known number is waited for through a descriptor that stands for it (a pidfd), in the reactor. "Any
//! child" and the children of a group have none: there the kernel thread waits, and hands its processor over before.

use super::{CANCELLED, EINTR, Pause, at, done, ours};
use crate::os::{c, system_call};
use crate::process::kernel_waits;
use crate::thread::undo::Undo;
use raddle::io::{Failure, Interest};
use raddle_macros::entry;
use std::ffi::{c_int, c_uint, c_void};

/// Waits until process `id` has ended, or cannot be waited for so: 0, or why the wait was given up.
fn until_ended(id: c::pid_t) -> isize {
    // SAFETY: a number and no flags.
    let descriptor = unsafe { system_call(c::SYS_pidfd_open, [id as usize, 0, 0, 0, 0, 0]) };
    if descriptor < 0 {
        return 0;
    }
    let descriptor = descriptor as c_int;
    let each = |visit: &mut dyn FnMut(c_int, Interest)| visit(descriptor, Interest::Read);
    let pause = Pause::begin();
    let mut result = 0;
    let close = Undo::new(|| {
        // SAFETY: the descriptor that was opened above.
        raddle::io::closing(descriptor, || unsafe { system_call(c::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) });
    });
    while result == 0 && !super::stream::is_ready(descriptor, c::POLLIN) {
        match raddle::io::wait_for(&each, None, true) {
            Ok(()) if pause.is_broken() => result = EINTR,
            Ok(()) => {}
            Err(Failure::Cancelled) => result = CANCELLED,
            Err(_) => break,
        }
    }
    drop(close);
    result
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn wait4(
    id: c::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut c::rusage,
) -> c::pid_t {
    let call = |options: c_int| {
        // SAFETY: the caller's places; the kernel checks them.
        unsafe { system_call(c::SYS_wait4, [id as usize, at(status), options as usize, at(usage), 0, 0]) }
    };
    let mut result = call(options | c::WNOHANG);
    if result == 0 && options & c::WNOHANG == 0 {
        // A pidfd tells of the end only.
        if id > 0 && options & (c::WUNTRACED | c::WCONTINUED) == 0 {
            match until_ended(id) {
                0 => {}
                early => return done(early) as c::pid_t,
            }
        }
        let arguments = [id as usize, at(status), options as usize, at(usage), 0, 0];
        // SAFETY: the caller's places; the kernel checks them.
        result = raddle::drop_in::blocking(|| unsafe { kernel_waits::wait(c::SYS_wait4, arguments, true) });
    }
    done(result) as c::pid_t
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn waitpid(id: c::pid_t, status: *mut c_int, options: c_int) -> c::pid_t {
    // SAFETY: the caller's arguments.
    unsafe { wait4(id, status, options, std::ptr::null_mut()) }
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn waitid(kind: c_uint, id: c_uint, info: *mut c_void, options: c_int) -> c_int {
    let call = |place: usize, options: c_int| {
        // SAFETY: the caller's place; the kernel checks it.
        unsafe { kernel_waits::wait(c::SYS_waitid, [kind as usize, id as usize, place, options as usize, 0, 0], true) }
    };
    let only_ends = options & (c::WEXITED | c::WSTOPPED | c::WCONTINUED | c::WNOHANG) == c::WEXITED;
    if kind == c::P_PID as c_uint && only_ends && call(0, options | c::WNOHANG | c::WNOWAIT) == 0 {
        match until_ended(id as c::pid_t) {
            0 => {}
            early => return done(early) as c_int,
        }
    }
    done(call(at(info), options)) as c_int
}

aliases! {
    __waitpid = waitpid(id: c::pid_t, status: *mut c_int, options: c_int) -> c::pid_t;
}
