//! Which descriptors are not to block, without asking each time.
//!
//! The kernel is asked when a call has found nothing (F_GETFL), and the answer is kept as long as it can be relied on: for descriptors whose
//! birth was seen ([`raddle::io::known_life`]) and until anybody in this process changes the flags of any descriptor, which may
//! be another name of this one. A fork ends it for all that are open. What a program started by `posix_spawn` does to the flags of
//! a descriptor that it was given is not noticed, nor what is changed past the C library.

use crate::os::{c, system_call};
use raddle::io::{known_life, notes};
use std::ffi::{c_int, c_ulong};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How often flags were changed. Half its range, since it shares a word with a bit.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// The word that a valid answer of the kernel's has, `life:32 | changes:31 | does not block:1`, without its last bit, and where it is noted.
fn place(descriptor: c_int) -> Option<(u64, &'static AtomicU64)> {
    let life = known_life(descriptor)?;
    // Acquire: pairs with `changed`: who sees the count as it is now asks for the flags as they are now, or later.
    let changes = CHANGES.load(Ordering::Acquire) << 1;
    Some((u64::from(life) << 32 | u64::from(changes), notes(descriptor)?.large))
}

/// True for a descriptor whose calls are not to block.
pub(super) fn is_nonblocking(descriptor: c_int) -> bool {
    let place = place(descriptor);
    if let Some((valid, told)) = place {
        // Relaxed: one word says all.
        let told = told.load(Ordering::Relaxed);
        if told & !1 == valid {
            return told & 1 != 0;
        }
    }
    // SAFETY: asks for flags.
    let flags = unsafe { system_call(c::SYS_fcntl, [descriptor as usize, c::F_GETFL as usize, 0, 0, 0, 0]) };
    let answer = flags >= 0 && flags as c_int & c::O_NONBLOCK != 0;
    if let Some((valid, told)) = place.filter(|_| flags >= 0) {
        told.store(valid | u64::from(answer), Ordering::Relaxed);
    }
    answer
}

/// True for a descriptor whose calls are to block, as far as is known without asking.
#[inline]
pub(super) fn blocks(descriptor: c_int) -> bool {
    place(descriptor).is_some_and(|(valid, told)| told.load(Ordering::Relaxed) == valid)
}

/// Somebody has changed the flags of a descriptor.
fn changed() {
    // Release: pairs with the load in `place`.
    CHANGES.fetch_add(1, Ordering::Release);
}

/// # Safety
/// As POSIX says. (It takes a variable number of arguments; a third one comes in its register, whatever its type.)
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { next!(fcntl: fn(c_int, c_int, usize) -> c_int)(descriptor, command, argument) };
    after(command, result)
}

/// # Safety
/// As the C library says: `fcntl` for files of any size.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { next!(fcntl64: fn(c_int, c_int, usize) -> c_int)(descriptor, command, argument) };
    after(command, result)
}

fn after(command: c_int, result: c_int) -> c_int {
    match command {
        c::F_SETFL => changed(),
        c::F_DUPFD | c::F_DUPFD_CLOEXEC => super::birth::note(result),
        _ => {}
    }
    result
}

/// # Safety
/// As Linux says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(descriptor: c_int, request: c_ulong, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { next!(ioctl: fn(c_int, c_ulong, usize) -> c_int)(descriptor, request, argument) };
    if request == c::FIONBIO as c_ulong {
        changed();
    }
    result
}
