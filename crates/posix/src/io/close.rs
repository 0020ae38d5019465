//! The ends of descriptors, and their time limits.
//!
//! A thread that waits for a descriptor that another one closes waits on, for what the number stood for
//! ([`handover`]); who comes too late for that wakes up with EBADF.

use super::{at, handover, kind};
use crate::os::{answer, c, system_call};
use raddle::io::{Interest, closing, closing_range};
use raddle_macros::entry;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

#[entry]
pub unsafe extern "C-unwind" fn close(descriptor: c_int) -> c_int {
    ending(descriptor, || natively!())
}

/// Runs what ends the descriptor's present life.
fn ending(descriptor: c_int, end: impl FnOnce() -> c_int) -> c_int {
    // The parent of a `vfork` keeps its descriptor.
    if crate::process::vfork::is_child() {
        return end();
    }
    kind::forget(descriptor);
    if raddle::drop_in::is_inside() {
        raddle::io::doubt(descriptor);
        return end();
    }
    handover::hand_over(descriptor);
    closing(descriptor, end)
}

#[entry]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    let dup2 = || natively!();
    if replaces(old, new, 0) { ending(new, dup2) } else { dup2() }
}

#[entry]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    let dup3 = || natively!();
    if replaces(old, new, flags) { ending(new, dup3) } else { dup3() }
}

/// Whether a copy of `old` takes the place of what `new` stands for. Where none is made, who waits for that waits on.
fn replaces(old: c_int, new: c_int, flags: c_int) -> bool {
    // SAFETY: asks for flags.
    let is_open = |descriptor: c_int| unsafe {
        system_call(c::SYS_fcntl, [descriptor as usize, c::F_GETFD as usize, 0, 0, 0, 0]) >= 0
    };
    old != new && flags & !c::O_CLOEXEC == 0 && (!raddle::io::was_awaited(new) || is_open(old))
}

#[entry]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let arguments = [first as usize, last as usize, flags as usize, 0, 0, 0];
    // SAFETY: closes what the caller wants closed.
    let close = || unsafe { system_call(c::SYS_close_range, arguments) };
    // With flags that it does not know the kernel closes none.
    let leaves_them = flags & !(c::CLOSE_RANGE_UNSHARE as c_int) != 0 || crate::process::vfork::is_child();
    if first > last || leaves_them || raddle::drop_in::is_inside() {
        return answer(close()) as c_int;
    }
    kind::forget_range(first, last);
    handover::hand_over_range(first, last);
    let result = closing_range(first, last, close);
    answer(result) as c_int
}

#[entry]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    if first < 0 {
        return natively!();
    }
    // SAFETY: closes what the caller wants closed. Where the kernel has no such call, the C library goes one by one.
    if unsafe { close_range(first as c_uint, c_uint::MAX, 0) } != 0 {
        natively!()
    }
}

#[entry]
pub unsafe extern "C-unwind" fn fclose(stream: *mut c::FILE) -> c_int {
    // SAFETY: the caller's stream.
    match unsafe { c::fileno(stream) } {
        // It lies in memory.
        -1 => natively!(),
        descriptor => ending(descriptor, || natively!()),
    }
}

/// As [`fclose`]; the child is waited for after that, while others may have been given the number.
#[entry]
pub unsafe extern "C-unwind" fn pclose(stream: *mut c::FILE) -> c_int {
    // SAFETY: the caller's stream.
    ending(unsafe { c::fileno(stream) }, || 0);
    natively!()
}

/// The number stays, and stands for another file.
fn reopening<T>(stream: *mut c::FILE, reopen: impl FnOnce() -> T) -> T {
    // SAFETY: the caller's stream.
    let descriptor = unsafe { c::fileno(stream) };
    if descriptor < 0 {
        return reopen();
    }
    let mut result = None;
    ending(descriptor, || {
        result = Some(reopen());
        0
    });
    result.expect("just reopened")
}

#[entry]
pub unsafe extern "C-unwind" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut c::FILE,
) -> *mut c::FILE {
    reopening(stream, || natively!())
}

#[entry]
pub unsafe extern "C-unwind" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut c::FILE,
) -> *mut c::FILE {
    reopening(stream, || natively!())
}

#[entry]
pub unsafe extern "C-unwind" fn closedir(folder: *mut c::DIR) -> c_int {
    if folder.is_null() {
        return natively!();
    }
    // SAFETY: the caller's folder.
    ending(unsafe { c::dirfd(folder) }, || natively!())
}

#[entry]
pub unsafe extern "C-unwind" fn mq_close(queue: c::mqd_t) -> c_int {
    ending(queue, || natively!())
}

#[entry]
pub unsafe extern "C-unwind" fn shutdown(descriptor: c_int, how: c_int) -> c_int {
    let result = natively!();
    // Also where the answer is ENOTCONN. (A flag once set stays: it costs a call for each wait.)
    let connects = || super::connect::option(descriptor, c::SO_TYPE) == Some(c::SOCK_STREAM);
    if how != c::SHUT_WR && !SHUT.load(Ordering::Relaxed) && !connects() {
        SHUT.store(true, Ordering::Relaxed);
    }
    // Who waits to send into a full local stream is told of nothing by the kernel's pollers, at either end.
    if result == 0 && super::connect::option(descriptor, c::SO_DOMAIN) == Some(c::AF_UNIX) {
        raddle::io::wake_writers();
    }
    result
}

/// Some socket of the program that does not connect was shut down for reading: only then is that looked for before a
/// wait.
static SHUT: AtomicBool = AtomicBool::new(false);

/// Whether one that is to be waited for may be.
pub(super) fn may_be_shut(interest: Interest) -> bool {
    interest == Interest::Read && SHUT.load(Ordering::Relaxed)
}

/// Some socket of the program has a time limit, as far as is known: only then are sockets asked for theirs. Another
/// process may have set one on what it handed over: of sockets whose birth was not seen [`kind::Kind::ask`] looks.
static LIMITED: AtomicBool = AtomicBool::new(false);

/// Looks whether that socket has one.
#[cold]
pub(super) fn learn_limits(socket: c_int) {
    if [Interest::Read, Interest::Write].into_iter().any(|interest| limit_of(socket, interest).is_some()) {
        LIMITED.store(true, Ordering::Relaxed);
    }
}

#[entry]
pub unsafe extern "C-unwind" fn setsockopt(
    descriptor: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    size: c::socklen_t,
) -> c_int {
    // The forms for times of 64 bits, on machines where they differ.
    const NEW: [c_int; 2] = [66, 67];
    let arguments = [descriptor as usize, level as usize, name as usize, at(value), size as usize, 0];
    // SAFETY: the caller's arguments; the kernel checks them.
    let result = unsafe { system_call(c::SYS_setsockopt, arguments) };
    if result == 0
        && level == c::SOL_SOCKET
        && ([c::SO_RCVTIMEO, c::SO_SNDTIMEO].contains(&name) || NEW.contains(&name))
    {
        // Many ask for none, to be sure. (A time is two words, of which the kernel has just read both.)
        // SAFETY: as said.
        if unsafe { value.cast::<[u64; 2]>().read_unaligned() } != [0; 2] {
            LIMITED.store(true, Ordering::Relaxed);
        }
    }
    answer(result) as c_int
}

/// For how many nanoseconds a call on that descriptor may block, if it is a socket with a limit.
pub(super) fn time_limit(descriptor: c_int, interest: Interest) -> Option<u64> {
    if !LIMITED.load(Ordering::Relaxed) {
        // What a socket is, is asked the first time, and its limits with it.
        kind::Kind::of(descriptor);
    }
    if LIMITED.load(Ordering::Relaxed) { limit_of(descriptor, interest) } else { None }
}

fn limit_of(descriptor: c_int, interest: Interest) -> Option<u64> {
    let name = match interest {
        Interest::Read => c::SO_RCVTIMEO,
        Interest::Write => c::SO_SNDTIMEO,
    };
    let mut time = c::timeval { tv_sec: 0, tv_usec: 0 };
    let mut size = size_of::<c::timeval>() as c::socklen_t;
    let arguments =
        [descriptor as usize, c::SOL_SOCKET as usize, name as usize, at(&raw mut time), at(&raw mut size), 0];
    // SAFETY: a place for the answer and its size.
    let result = unsafe { system_call(c::SYS_getsockopt, arguments) };
    super::connect::nanoseconds(&time).filter(|_| result == 0)
}

aliases! {
    __close = close(descriptor: c_int) -> c_int;
    __dup2 = dup2(old: c_int, new: c_int) -> c_int;
    _IO_fclose = fclose(stream: *mut c::FILE) -> c_int;
}
