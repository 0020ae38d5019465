//! What takes a socket: `recv`, `send` and their families.

use super::close::time_limit;
use super::kind::Kind;
use super::stream::{total, whole};
use super::{Limit, Told, at, blocking, blocking_after, done, ours};
use crate::os::{c, now, reach, system_call};
use crate::process::kernel_waits;
use raddle::io::Interest;
use raddle_macros::entry;
use std::ffi::{c_int, c_uint, c_void};

const MOST_PARTS: usize = super::stream::MOST_PARTS as usize;
const DONTWAIT: usize = c::MSG_DONTWAIT as usize;

/// Receives what is there.
pub(super) fn receive_parts(descriptor: c_int, parts: &[c::iovec]) -> isize {
    if let [part] = parts {
        let arguments = [descriptor as usize, at(part.iov_base), part.iov_len, DONTWAIT, 0, 0];
        // SAFETY: the caller's buffer; the kernel checks it.
        return unsafe { system_call(c::SYS_recvfrom, arguments) };
    }
    let message = message_of(parts);
    // SAFETY: as above; the message is live.
    unsafe { system_call(c::SYS_recvmsg, [descriptor as usize, at(&raw const message), DONTWAIT, 0, 0, 0]) }
}

/// Sends what there is room for.
pub(super) fn send_parts(descriptor: c_int, parts: &[c::iovec], flags: c_int) -> isize {
    let flags = flags as usize | DONTWAIT;
    if let [part] = parts {
        if let Some(result) = send_together(descriptor, part, flags as c_int) {
            return result;
        }
        let arguments = [descriptor as usize, at(part.iov_base), part.iov_len, flags, 0, 0];
        // SAFETY: the caller's data; the kernel checks it.
        return unsafe { system_call(c::SYS_sendto, arguments) };
    }
    let message = message_of(parts);
    // SAFETY: as above; the message is live.
    unsafe { system_call(c::SYS_sendmsg, [descriptor as usize, at(&raw const message), flags, 0, 0, 0]) }
}

/// Sends together with other threads, if that is worth while ([`raddle::io::send_together`]); `None` where nothing was
/// done.
#[inline]
fn send_together(descriptor: c_int, part: &c::iovec, flags: c_int) -> Option<isize> {
    if flags & !(c::MSG_DONTWAIT | c::MSG_NOSIGNAL) != 0 || part.iov_len == 0 {
        return None;
    }
    // SAFETY: the caller's data; the kernel checks it.
    let result = unsafe { raddle::io::send_together(descriptor, part.iov_base.cast(), part.iov_len, flags)? };
    match -result as c_int {
        // It raises no signal: the call itself says so again, and does.
        c::EPIPE if flags & c::MSG_NOSIGNAL == 0 => None,
        // An old kernel's ring knows no sends, or one that was asked in vain.
        c::EINVAL | c::ECANCELED => None,
        _ => Some(result),
    }
}

fn message_of(parts: &[c::iovec]) -> c::msghdr {
    // SAFETY: zeroes are a message without parts, name and control data.
    let mut message: c::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len();
    message
}

/// Flags with which a call does not block by itself, or blocks in a way that only the kernel knows.
fn is_the_kernels(flags: c_int) -> bool {
    flags & (c::MSG_DONTWAIT | c::MSG_ERRQUEUE) != 0
        || flags & (c::MSG_PEEK | c::MSG_WAITALL) == c::MSG_PEEK | c::MSG_WAITALL
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn recv(descriptor: c_int, buffer: *mut c_void, size: usize, flags: c_int) -> isize {
    done(receive(descriptor, buffer, size, flags, 0, 0))
}

/// `recv` with the size of the buffer.
#[entry(if ours() && count <= size)]
pub unsafe extern "C-unwind" fn __recv_chk(
    descriptor: c_int,
    buffer: *mut c_void,
    count: usize,
    size: usize,
    flags: c_int,
) -> isize {
    done(receive(descriptor, buffer, count, flags, 0, 0))
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn recvfrom(
    descriptor: c_int,
    buffer: *mut c_void,
    size: usize,
    flags: c_int,
    from: *mut c::sockaddr,
    from_size: *mut c::socklen_t,
) -> isize {
    done(receive(descriptor, buffer, size, flags, at(from), at(from_size)))
}

/// `recvfrom` with the size of the buffer.
#[entry(if ours() && count <= size)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    descriptor: c_int,
    buffer: *mut c_void,
    count: usize,
    size: usize,
    flags: c_int,
    from: *mut c::sockaddr,
    from_size: *mut c::socklen_t,
) -> isize {
    done(receive(descriptor, buffer, count, flags, at(from), at(from_size)))
}

fn receive(descriptor: c_int, buffer: *mut c_void, size: usize, flags: c_int, from: usize, from_size: usize) -> isize {
    let arguments = |done: usize, flags: c_int| {
        let place = buffer.cast::<u8>().wrapping_add(done);
        [descriptor as usize, at(place), size - done, flags as usize, from, from_size]
    };
    // SAFETY: a part of the caller's buffer, and its places for the sender; the kernel checks them.
    let call = |done, flags| unsafe { system_call(c::SYS_recvfrom, arguments(done, flags)) };
    let limit = || time_limit(descriptor, Interest::Read);
    // SAFETY: a part of the caller's buffer, and its places for the sender; the kernel checks them.
    let in_kernel = |done| unsafe { kernel_waits::wait_within(c::SYS_recvfrom, arguments(done, flags), limit()) };
    if flags & c::MSG_DONTWAIT != 0 {
        return call(0, flags);
    }
    if is_the_kernels(flags) {
        return in_kernel(0);
    }
    let takes_all = flags & !(c::MSG_WAITALL | c::MSG_NOSIGNAL) == 0 && size > 0 && Kind::of(descriptor) == Kind::Tcp;
    let told = |done| if takes_all { Told::All(size - done) } else { Told::Exactly };
    let mut end = Limit::default();
    let mut once = |done| {
        let attempt = || call(done, flags | c::MSG_DONTWAIT);
        blocking_after(done > 0, &mut end, descriptor, Interest::Read, told(done), attempt, || in_kernel(done))
    };
    let first = once(0);
    if flags & c::MSG_WAITALL == 0 || first <= 0 || !is_stream(descriptor) {
        return first;
    }
    let mut done = first as usize;
    while done < size {
        match once(done) {
            more if more > 0 => done += more as usize,
            _ => break,
        }
    }
    done as isize
}

/// True for sockets that carry bytes rather than messages.
fn is_stream(descriptor: c_int) -> bool {
    super::connect::option(descriptor, c::SO_TYPE) == Some(c::SOCK_STREAM)
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn recvmsg(descriptor: c_int, message: *mut c::msghdr, flags: c_int) -> isize {
    let call = |flags: c_int| {
        // SAFETY: the caller's message; the kernel checks it.
        unsafe { system_call(c::SYS_recvmsg, [descriptor as usize, at(message), flags as usize, 0, 0, 0]) }
    };
    let in_kernel = || {
        let arguments = [descriptor as usize, at(message), flags as usize, 0, 0, 0];
        // SAFETY: the caller's message; the kernel checks it.
        unsafe { kernel_waits::wait_within(c::SYS_recvmsg, arguments, time_limit(descriptor, Interest::Read)) }
    };
    if flags & c::MSG_DONTWAIT != 0 {
        return done(call(flags));
    }
    // To receive all of a message into parts is left to the kernel, which keeps its place in them.
    if is_the_kernels(flags) || flags & c::MSG_WAITALL != 0 {
        return done(in_kernel());
    }
    done(blocking(descriptor, Interest::Read, Told::Exactly, || call(flags | c::MSG_DONTWAIT), in_kernel))
}

#[entry]
pub unsafe extern "C-unwind" fn recvmmsg(
    descriptor: c_int,
    messages: *mut c::mmsghdr,
    count: c_uint,
    flags: c_int,
    time: *mut c::timespec,
) -> c_int {
    let call = |done: usize, flags: c_int| {
        let place = messages.wrapping_add(done);
        let arguments = [descriptor as usize, at(place), count as usize - done, flags as usize, 0, 0];
        // SAFETY: the rest of the caller's messages; the kernel checks them.
        unsafe { system_call(c::SYS_recvmmsg, arguments) }
    };
    if !ours() || is_the_kernels(flags) || flags & c::MSG_WAITALL != 0 || count == 0 || !reach::reads_or_null(time) {
        return natively!();
    }
    // SAFETY: the caller's time, or none. As in the kernel, it is looked at after each message only.
    let end = match unsafe { time.as_ref() }.map(crate::os::deadline_after).transpose() {
        Ok(end) => end,
        Err(error) => return super::done(-(error as isize)) as c_int,
    };
    let mut done = 0;
    loop {
        let result = blocking(
            descriptor,
            Interest::Read,
            Told::Exactly,
            || call(done, flags | c::MSG_DONTWAIT),
            || call(done, flags | c::MSG_WAITFORONE),
        );
        if result <= 0 {
            return if done > 0 { done as c_int } else { super::done(result) as c_int };
        }
        done += result as usize;
        let over = end.is_some_and(|end| now(c::CLOCK_MONOTONIC) >= end);
        if done >= count as usize || flags & c::MSG_WAITFORONE != 0 || over {
            return done as c_int;
        }
    }
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn send(descriptor: c_int, data: *const c_void, size: usize, flags: c_int) -> isize {
    done(send_to(descriptor, data, size, flags, 0, 0))
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn sendto(
    descriptor: c_int,
    data: *const c_void,
    size: usize,
    flags: c_int,
    to: *const c::sockaddr,
    to_size: c::socklen_t,
) -> isize {
    done(send_to(descriptor, data, size, flags, at(to), to_size as usize))
}

fn send_to(descriptor: c_int, data: *const c_void, size: usize, flags: c_int, to: usize, to_size: usize) -> isize {
    let call = |part: &c::iovec, flags: c_int| {
        let arguments = [descriptor as usize, at(part.iov_base), part.iov_len, flags as usize, to, to_size];
        // SAFETY: the caller's data and address; the kernel checks them.
        unsafe { system_call(c::SYS_sendto, arguments) }
    };
    let all = [c::iovec { iov_base: data.cast_mut(), iov_len: size }];
    if flags & c::MSG_DONTWAIT != 0 {
        return call(&all[0], flags);
    }
    whole(
        descriptor,
        &all,
        |parts, more| {
            let flags = flags | if more { c::MSG_NOSIGNAL } else { 0 };
            if to == 0 { send_parts(descriptor, parts, flags) } else { call(&parts[0], flags | c::MSG_DONTWAIT) }
        },
        |_, parts| call(&parts[0], flags),
    )
}

#[entry(if ours())]
pub unsafe extern "C-unwind" fn sendmsg(descriptor: c_int, message: *const c::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's message.
    done(unsafe { send_message(descriptor, message, flags) })
}

/// # Safety
/// `message` is a message, as POSIX asks.
unsafe fn send_message(descriptor: c_int, message: *const c::msghdr, flags: c_int) -> isize {
    let call = |flags: c_int| {
        // SAFETY: the caller's message; the kernel checks it.
        unsafe { system_call(c::SYS_sendmsg, [descriptor as usize, at(message), flags as usize, 0, 0, 0]) }
    };
    if flags & c::MSG_DONTWAIT != 0 || !reach::reads(message) {
        return call(flags);
    }
    // SAFETY: the caller's message.
    let (parts, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    let parts = match count {
        // SAFETY: the caller's parts.
        1..=MOST_PARTS if reach::reads_all(parts, count) => unsafe { std::slice::from_raw_parts(parts, count) },
        _ => &[],
    };
    if total(parts) == 0 {
        return blocking(descriptor, Interest::Write, Told::Guessed, || call(flags | c::MSG_DONTWAIT), || call(flags));
    }
    // The name and the control data go with the first part.
    whole(
        descriptor,
        parts,
        |parts, more| {
            if more {
                return send_parts(descriptor, parts, flags | c::MSG_NOSIGNAL);
            }
            call(flags | c::MSG_DONTWAIT)
        },
        |descriptor, rest| {
            if rest.as_ptr() == parts.as_ptr() {
                return call(flags);
            }
            let arguments = [descriptor as usize, at(rest[0].iov_base), rest[0].iov_len, flags as usize, 0, 0];
            // SAFETY: what is left of one of the caller's parts.
            unsafe { system_call(c::SYS_sendto, arguments) }
        },
    )
}

#[entry(if ours() && flags & c::MSG_DONTWAIT == 0)]
pub unsafe extern "C-unwind" fn sendmmsg(
    descriptor: c_int,
    messages: *mut c::mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    for index in 0..count {
        // SAFETY: one of the caller's messages.
        let result = unsafe {
            let message = messages.add(index as usize);
            let result = send_message(descriptor, &raw const (*message).msg_hdr, flags);
            if result >= 0 {
                (*message).msg_len = result as c_uint;
            }
            result
        };
        if result < 0 {
            return if index > 0 { index as c_int } else { done(result) as c_int };
        }
    }
    count as c_int
}

aliases! {
    __recv = recv(descriptor: c_int, buffer: *mut c_void, size: usize, flags: c_int) -> isize;
    __send = send(descriptor: c_int, data: *const c_void, size: usize, flags: c_int) -> isize;
    __sendmmsg = sendmmsg(descriptor: c_int, messages: *mut c::mmsghdr, count: c_uint, flags: c_int) -> c_int;
}
