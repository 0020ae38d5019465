//! Input and output, and time.
//!
//! The pattern of every call that may block: try without blocking, in a way that leaves the descriptor's flags alone (MSG_DONTWAIT,
//! RWF_NOWAIT, or a look with `poll` before); when that finds nothing, ask whether the descriptor is one that does not block
//! (O_NONBLOCK), and if it blocks, wait in the reactor and try again ([`blocking`]). So nothing is known of a descriptor beforehand
//! and none of its flags is changed. What cannot be waited for so (regular files, exotic devices) blocks in the kernel, and
//! raddle's monitor sees to it that the processor goes on.
//!
//! [`stream`]: read and write; [`socket`]: what takes a socket; [`connect`]: beginnings of connections; [`poll`]: waiting for many;
//! [`close`]: the ends of descriptors; [`sleep`]: time; [`child`]: waiting for processes.

mod child;
mod close;
mod connect;
mod kind;
mod poll;
mod sleep;
mod socket;
mod stream;

use crate::os::{self, c, system_call};
use raddle::io::{Failure, Interest};
use std::ffi::c_int;

const EAGAIN: isize = -(c::EAGAIN as isize);

/// So many events for nothing in a row, and the kernel thread waits instead: some condition is reported all the time (an error queue
/// that nobody reads, for one) of which the call takes no notice.
const PATIENCE: u32 = 100;

/// True where a call is to be taken over.
fn ours() -> bool {
    raddle::drop_in::is_lightweight()
}

/// True while the calling thread may be cancelled in a wait.
fn cancellable() -> bool {
    false
}

/// Repeats `attempt`, which does not block and answers as the kernel does, until it answers otherwise than EAGAIN. `in_kernel` is the
/// same as a call that may block: for descriptors whose flags ask for EAGAIN (the kernel then gives it), and for those that cannot
/// be waited for.
fn blocking(
    descriptor: c_int,
    interest: Interest,
    mut attempt: impl FnMut() -> isize,
    in_kernel: impl FnOnce() -> isize,
) -> isize {
    let first = attempt();
    if first != EAGAIN {
        return first;
    }
    if is_nonblocking(descriptor) {
        return in_kernel();
    }
    let deadline = close::time_limit(descriptor, interest).map(after);
    match wait_and_repeat(descriptor, interest, deadline, &mut attempt) {
        Some(result) => result,
        None => in_kernel(),
    }
}

/// As [`blocking`], after the first attempt. `None` where the kernel must wait.
fn wait_and_repeat(
    descriptor: c_int,
    interest: Interest,
    deadline: Option<u64>,
    attempt: &mut dyn FnMut() -> isize,
) -> Option<isize> {
    for _ in 0..PATIENCE {
        let each = |visit: &mut dyn FnMut(c_int, Interest)| visit(descriptor, interest);
        match raddle::io::wait_for(&each, deadline, cancellable()) {
            Ok(()) => {}
            Err(Failure::TimedOut | Failure::Cancelled) => return Some(EAGAIN),
            Err(Failure::Closed) => return Some(-(c::EBADF as isize)),
            Err(Failure::AlwaysReady | Failure::Unsupported) => return None,
        }
        let result = attempt();
        if result != EAGAIN {
            raddle::io::pass_on(descriptor, interest);
            return Some(result);
        }
    }
    None
}

/// A point of CLOCK_MONOTONIC, so many nanoseconds from now.
fn after(nanoseconds: u64) -> u64 {
    os::now(c::CLOCK_MONOTONIC).saturating_add(nanoseconds)
}

/// True for a descriptor whose calls are not to block.
fn is_nonblocking(descriptor: c_int) -> bool {
    // SAFETY: asks for flags.
    let flags = unsafe { system_call(c::SYS_fcntl, [descriptor as usize, c::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as c_int & c::O_NONBLOCK != 0
}

/// The address of something, as system calls take it.
fn at<T: ?Sized>(pointer: *const T) -> usize {
    pointer.cast::<u8>().expose_provenance()
}
