//! `read`, `write` and their vectors, on anything.

use super::close::time_limit;
use super::kind::Kind;
use super::{
    Calls, EAGAIN, EINTR, Limit, Told, at, blocking, blocking_after, done, is_nonblocking, ours, socket,
    wait_and_repeat,
};
use crate::os::{c, reach, system_call};
use crate::process::kernel_waits;
use raddle::io::{Glance, Interest};
use raddle_macros::entry;
use std::ffi::{c_int, c_void};

const EOPNOTSUPP: isize = -(c::EOPNOTSUPP as isize);
const ENOSYS: isize = -(c::ENOSYS as isize);
const REFUSED: [isize; 2] = [-(c::EPERM as isize), -(c::EACCES as isize)];
/// What a terminal that is gone answers for its settings.
const NO_TERMINAL_MORE: isize = -(c::EIO as isize);
const ENOTSOCK: isize = -(c::ENOTSOCK as isize);
/// The position that stands for the descriptor's own.
const HERE: usize = usize::MAX;
/// What a pipe that is ready takes without blocking.
const PIPE_BUF: usize = 4096;

/// The kernel takes no more parts at once.
pub(super) const MOST_PARTS: c_int = 1024;

/// A call refuses more otherwise than one for parts does.
#[inline]
fn fits(count: usize) -> bool {
    isize::try_from(count).is_ok()
}

#[entry(if fits(count) && ours())]
pub unsafe extern "C-unwind" fn read(descriptor: c_int, buffer: *mut c_void, count: usize) -> isize {
    done(read_from(descriptor, &[c::iovec { iov_base: buffer, iov_len: count }]))
}

/// `read` with the size of the buffer.
#[entry(if ours() && count <= size)]
pub unsafe extern "C-unwind" fn __read_chk(descriptor: c_int, buffer: *mut c_void, count: usize, size: usize) -> isize {
    done(read_from(descriptor, &[c::iovec { iov_base: buffer, iov_len: count }]))
}

#[entry(if ours() && (1..=MOST_PARTS).contains(&count) && reach::reads_all(parts, count as usize))]
pub unsafe extern "C-unwind" fn readv(descriptor: c_int, parts: *const c::iovec, count: c_int) -> isize {
    // SAFETY: so many parts, by the caller.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    done(read_from(descriptor, parts))
}

#[entry(if fits(count) && ours())]
pub unsafe extern "C-unwind" fn write(descriptor: c_int, data: *const c_void, count: usize) -> isize {
    done(write_to(descriptor, &[c::iovec { iov_base: data.cast_mut(), iov_len: count }]))
}

#[entry(if ours() && (1..=MOST_PARTS).contains(&count) && reach::reads_all(parts, count as usize))]
pub unsafe extern "C-unwind" fn writev(descriptor: c_int, parts: *const c::iovec, count: c_int) -> isize {
    // SAFETY: so many parts, by the caller.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    done(write_to(descriptor, parts))
}

#[entry]
pub unsafe extern "C-unwind" fn eventfd_read(descriptor: c_int, value: *mut u64) -> c_int {
    // SAFETY: the caller's place for eight bytes.
    if unsafe { read(descriptor, value.cast(), 8) } == 8 { 0 } else { -1 }
}

#[entry]
pub unsafe extern "C-unwind" fn eventfd_write(descriptor: c_int, value: u64) -> c_int {
    // SAFETY: eight live bytes.
    if unsafe { write(descriptor, (&raw const value).cast(), 8) } == 8 { 0 } else { -1 }
}

/// The bytes of all parts.
pub(super) fn total(parts: &[c::iovec]) -> usize {
    parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// The kernel takes no more at once, and refuses a part of twice as much.
const MOST_BYTES: usize = 0x7fff_f000;

/// The call as the kernel does it, by the number that the program itself would use: a filter of system calls may know
/// no other.
fn in_kernel_by(numbers: [c::c_long; 2], interest: Interest, descriptor: c_int, parts: &[c::iovec]) -> isize {
    let [one, several] = numbers;
    let (number, place, count) = match parts {
        [part] if part.iov_len <= MOST_BYTES => (one, at(part.iov_base), part.iov_len),
        _ => (several, at(parts.as_ptr()), parts.len()),
    };
    let limit = time_limit(descriptor, interest);
    // SAFETY: the caller's buffers; the kernel checks them.
    unsafe { kernel_waits::wait_within(number, [descriptor as usize, place, count, 0, 0, 0], limit) }
}

fn read_in_kernel(descriptor: c_int, parts: &[c::iovec]) -> isize {
    in_kernel_by([c::SYS_read, c::SYS_readv], Interest::Read, descriptor, parts)
}

fn read_from(descriptor: c_int, parts: &[c::iovec]) -> isize {
    let kind = if total(parts) == 0 { Kind::File } else { Kind::of(descriptor) };
    let in_kernel = || read_in_kernel(descriptor, parts);
    match kind {
        Kind::File => in_kernel(),
        Kind::Socket | Kind::Tcp => {
            let told = if kind == Kind::Tcp { Told::All(total(parts)) } else { Told::Exactly };
            let attempt = || socket::receive_parts(descriptor, parts);
            let result = blocking(descriptor, Interest::Read, told, attempt, in_kernel);
            if result == ENOTSOCK { other_kind(descriptor, || read_from(descriptor, parts)) } else { result }
        }
        Kind::Stream | Kind::Old | Kind::Device => {
            let mut tries = 0;
            let attempt = || {
                tries += 1;
                if kind == Kind::Stream { read_now(descriptor, parts) } else { read_if_ready(descriptor, parts) }
            };
            let result = blocking(descriptor, Interest::Read, Told::Guessed, attempt, in_kernel);
            // The end is told to who comes later.
            if result == 0 && tries > 1 && is_hung_up(descriptor) { -(c::EIO as isize) } else { result }
        }
    }
}

/// The guess was out of date: guesses again, and does `again` if that changed anything.
#[cold]
fn other_kind(descriptor: c_int, again: impl FnOnce() -> isize) -> isize {
    if Kind::ask(descriptor).is_socket() { ENOTSOCK } else { again() }
}

/// A call that does not block is not known for this descriptor, or a filter of system calls refuses it: the plain one
/// then tells what there is to tell.
#[inline]
fn is_not_to_be_had(result: isize) -> bool {
    result < 0 && (result == EOPNOTSUPP || result == ENOSYS || REFUSED.contains(&result))
}

/// Reads what is there.
fn read_now(descriptor: c_int, parts: &[c::iovec]) -> isize {
    let arguments = [descriptor as usize, at(parts.as_ptr()), parts.len(), HERE, HERE, c::RWF_NOWAIT as usize];
    // SAFETY: the caller's buffers; the kernel checks them.
    let result = unsafe { system_call(c::SYS_preadv2, arguments) };
    if is_not_to_be_had(result) {
        Kind::learn_old(descriptor);
        return read_if_ready(descriptor, parts);
    }
    if result > 0 && (result as usize) < total(parts) && is_seekable(descriptor) {
        // A regular file after all, of which only a part was in memory: the kernel reads the rest.
        Kind::File.note(descriptor);
        return rest_of_file(descriptor, parts, result as usize);
    }
    result
}

fn read_if_ready(descriptor: c_int, parts: &[c::iovec]) -> isize {
    if is_ready(descriptor, c::POLLIN) || ends_without_input(descriptor) {
        read_in_kernel(descriptor, parts)
    } else {
        EAGAIN
    }
}

/// The settings of a terminal, in the kernel's form: four words of flags, the last the local ones, a byte, characters.
type Settings = [u8; 64];

/// Asks for them: 0, or a negated error number.
fn settings_of(descriptor: c_int, settings: &mut Settings) -> isize {
    let arguments = [descriptor as usize, c::TCGETS as usize, at(settings.as_mut_ptr()), 0, 0, 0];
    // SAFETY: more room than the kernel fills.
    unsafe { system_call(c::SYS_ioctl, arguments) }
}

/// Whether it is a terminal.
pub(super) fn is_terminal(descriptor: c_int) -> bool {
    matches!(settings_of(descriptor, &mut [0; 64]), 0 | NO_TERMINAL_MORE)
}

/// A terminal that is gone. Who waits for it in the kernel is told so by an error.
#[cold]
fn is_hung_up(descriptor: c_int) -> bool {
    settings_of(descriptor, &mut [0; 64]) == NO_TERMINAL_MORE
}

/// A terminal from which a reading ends though nothing came, at once or after a time, of which nobody tells.
fn ends_without_input(descriptor: c_int) -> bool {
    const LOCAL: usize = 3 * size_of::<u32>();
    const CHARACTERS: usize = 4 * size_of::<u32>() + 1;
    let mut settings = [0; 64];
    if settings_of(descriptor, &mut settings) != 0 {
        return false;
    }
    let local = u32::from_ne_bytes(settings[LOCAL..][..size_of::<u32>()].try_into().expect("four bytes"));
    local & c::ICANON == 0 && settings[CHARACTERS + c::VMIN] == 0
}

#[cold]
fn rest_of_file(descriptor: c_int, parts: &[c::iovec], mut done: usize) -> isize {
    for part in remaining(parts, done) {
        let arguments = [descriptor as usize, at(part.iov_base), part.iov_len, 0, 0, 0];
        // SAFETY: a part of the caller's buffers.
        let result = unsafe { system_call(c::SYS_read, arguments) };
        if result <= 0 {
            break;
        }
        done += result as usize;
        if (result as usize) < part.iov_len {
            break;
        }
    }
    done as isize
}

/// What is left of `parts` after `done` bytes.
fn remaining(parts: &[c::iovec], done: usize) -> impl Iterator<Item = c::iovec> {
    let mut skip = done;
    parts.iter().filter_map(move |part| {
        let skipped = skip.min(part.iov_len);
        skip -= skipped;
        let base = part.iov_base.cast::<u8>().wrapping_add(skipped).cast();
        (skipped < part.iov_len).then_some(c::iovec { iov_base: base, iov_len: part.iov_len - skipped })
    })
}

fn is_seekable(descriptor: c_int) -> bool {
    // SAFETY: moves nothing.
    unsafe { system_call(c::SYS_lseek, [descriptor as usize, 0, c::SEEK_CUR as usize, 0, 0, 0]) >= 0 }
}

/// A look without waiting.
pub(super) fn is_ready(descriptor: c_int, events: i16) -> bool {
    let mut one = c::pollfd { fd: descriptor, events, revents: 0 };
    let now = c::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        // SAFETY: one live entry, a live time.
        let found = unsafe { system_call(c::SYS_ppoll, [at(&raw mut one), 1, at(&raw const now), 0, 8, 0]) };
        // A signal that arrives meanwhile ends the call, though it has no time to wait for.
        if found != EINTR {
            return found != 0;
        }
    }
}

fn write_in_kernel(descriptor: c_int, parts: &[c::iovec]) -> isize {
    in_kernel_by([c::SYS_write, c::SYS_writev], Interest::Write, descriptor, parts)
}

fn write_to(descriptor: c_int, parts: &[c::iovec]) -> isize {
    let kind = if total(parts) == 0 { Kind::File } else { Kind::of(descriptor) };
    match kind {
        Kind::File => write_in_kernel(descriptor, parts),
        Kind::Socket | Kind::Tcp => {
            let result = whole(
                descriptor,
                parts,
                |parts, more| socket::send_parts(descriptor, parts, if more { c::MSG_NOSIGNAL } else { 0 }),
                write_in_kernel,
            );
            if result == ENOTSOCK { other_kind(descriptor, || write_to(descriptor, parts)) } else { result }
        }
        Kind::Stream | Kind::Old => whole(descriptor, parts, |parts, _| write_now(descriptor, parts), write_in_kernel),
        Kind::Device => {
            let attempt = || write_message(descriptor, parts);
            blocking(descriptor, Interest::Write, Told::Guessed, attempt, || write_in_kernel(descriptor, parts))
        }
    }
}

/// Writes what there is room for.
fn write_now(descriptor: c_int, parts: &[c::iovec]) -> isize {
    let mut kind = Kind::of(descriptor);
    if kind == Kind::Stream {
        let arguments = [descriptor as usize, at(parts.as_ptr()), parts.len(), HERE, HERE, c::RWF_NOWAIT as usize];
        // SAFETY: the caller's data; the kernel checks it.
        let result = unsafe { system_call(c::SYS_pwritev2, arguments) };
        if !is_not_to_be_had(result) {
            return result;
        }
        kind = Kind::learn_old(descriptor);
    }
    if kind == Kind::Device {
        return write_message(descriptor, parts);
    }
    if !is_ready(descriptor, c::POLLOUT) {
        return EAGAIN;
    }
    if total(parts) <= PIPE_BUF {
        return write_in_kernel(descriptor, parts);
    }
    // What promises to be atomic fits; more may be split.
    match remaining(parts, 0).next() {
        Some(part) => {
            let part = c::iovec { iov_base: part.iov_base, iov_len: part.iov_len.min(PIPE_BUF) };
            write_in_kernel(descriptor, &[part])
        }
        None => 0,
    }
}

/// Writes all at once to a device that is ready.
fn write_message(descriptor: c_int, parts: &[c::iovec]) -> isize {
    if is_ready(descriptor, c::POLLOUT) { write_in_kernel(descriptor, parts) } else { EAGAIN }
}

/// Writes everything, as a call that blocks does: `attempt` (told whether it is a continuation) writes what there is
/// room for. An error after a part was written is reported by the next call.
pub(super) fn whole(
    descriptor: c_int,
    parts: &[c::iovec],
    mut attempt: impl FnMut(&[c::iovec], bool) -> isize,
    in_kernel: impl Fn(c_int, &[c::iovec]) -> isize,
) -> isize {
    let mut limit = Limit::default();
    let first = || attempt(parts, false);
    let first_in_kernel = || in_kernel(descriptor, parts);
    let result = blocking_after(false, &mut limit, descriptor, Interest::Write, Told::Guessed, first, first_in_kernel);
    let all = total(parts);
    let is_part = result > 0 && (result as usize) < all;
    if !is_part || is_nonblocking(descriptor) || Kind::of(descriptor) == Kind::Device {
        return result;
    }
    let deadline = limit.end(descriptor, Interest::Write);
    let mut done = result as usize;
    while done < all {
        let Some(part) = remaining(parts, done).next() else { break };
        let mut more = || attempt(&[part], true);
        let glance = Glance::at(descriptor, Interest::Write);
        let mut result = more();
        if result == EAGAIN {
            let mut calls = Calls { attempt: &mut more, in_kernel: &mut || in_kernel(descriptor, &[part]) };
            result = wait_and_repeat(true, descriptor, Interest::Write, glance, Told::Guessed, deadline, &mut calls);
        }
        if result <= 0 {
            break;
        }
        done += result as usize;
    }
    done as isize
}

aliases! {
    __read = read(descriptor: c_int, buffer: *mut c_void, count: usize) -> isize;
    __write = write(descriptor: c_int, data: *const c_void, count: usize) -> isize;
}
