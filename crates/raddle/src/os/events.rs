//! Readiness: epoll and poll, by plain system calls (the C library's functions may be the drop-in library's, which come
//! here).

use raddle_machine::raw::system_call;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use libc::{EBADF, EEXIST, EINTR, EINVAL, ENOENT, EPERM};

/// What a poller gets: for which descriptor something happened.
pub(crate) type Event = libc::epoll_event;

/// The descriptor can be read, or its reading side is over, or it has urgent data.
pub(crate) const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
/// The descriptor can be written to.
pub(crate) const WRITABLE: u32 = libc::EPOLLOUT as u32;
/// What no reading takes away, or what stops a reading in the middle (urgent data).
pub(crate) const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLPRI) as u32;
/// An event for each change.
pub(crate) const CHANGES: u32 = libc::EPOLLET as u32;
/// One event, then silence until it is armed again.
pub(crate) const ONCE: u32 = libc::EPOLLONESHOT as u32;

/// An event for `poller_wait` to write over.
pub(crate) const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// Descriptors of ours are put above this, where the limit allows: programs expect the lowest numbers for theirs.
const ABOVE: usize = 960;

/// A new set of interests: a descriptor, or a negated error number.
pub(crate) fn poller() -> i32 {
    // SAFETY: flags only.
    raised(unsafe {
        system_call(libc::SYS_epoll_create1 as usize, [libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0]) as i32
    })
}

/// Gives a descriptor of ours a high number.
pub(super) fn raised(low: i32) -> i32 {
    if low < 0 {
        return low;
    }
    let duplicate = [low as usize, libc::F_DUPFD_CLOEXEC as usize, ABOVE, 0, 0, 0];
    // SAFETY: duplicates a descriptor that is ours.
    let high = unsafe { system_call(libc::SYS_fcntl as usize, duplicate) as i32 };
    if high < 0 {
        return low;
    }
    close(low);
    high
}

/// Closes a descriptor of ours.
pub(crate) fn close(descriptor: i32) {
    // SAFETY: the caller's own descriptor.
    unsafe { system_call(libc::SYS_close as usize, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Changes the interest in `descriptor` (`add`: puts it in for the first time): 0, or a negated error number.
pub(crate) fn watch(poller: i32, add: bool, descriptor: i32, events: u32, word: u64) -> i32 {
    let operation = if add { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD };
    let event = Event { events, u64: word };
    let event = (&raw const event).expose_provenance();
    // SAFETY: the event is live; a bad descriptor is an error.
    unsafe {
        system_call(
            libc::SYS_epoll_ctl as usize,
            [poller as usize, operation as usize, descriptor as usize, event, 0, 0],
        ) as i32
    }
}

/// Takes a descriptor out of a poller. Errors are nobody's business.
pub(crate) fn unwatch(poller: i32, descriptor: i32) {
    let event = NO_EVENT;
    let event = (&raw const event).expose_provenance();
    // SAFETY: the event, which old kernels ask for, is live; a bad descriptor is an error.
    unsafe {
        let arguments = [poller as usize, libc::EPOLL_CTL_DEL as usize, descriptor as usize, event, 0, 0];
        system_call(libc::SYS_epoll_ctl as usize, arguments);
    }
}

/// Waits for events, at most `nanoseconds`: how many, or a negated error number.
pub(crate) fn poller_wait(poller: i32, events: &mut [Event], nanoseconds: u64) -> i32 {
    static ABSENT: AtomicBool = AtomicBool::new(false);
    let place = [poller as usize, events.as_mut_ptr().expose_provenance(), events.len()];
    if nanoseconds > 0 && !ABSENT.load(Ordering::Relaxed) {
        let time = timespec(nanoseconds);
        let time = (&raw const time).expose_provenance();
        // SAFETY: the kernel writes at most so many events; a live time.
        let result =
            unsafe { system_call(libc::SYS_epoll_pwait2 as usize, [place[0], place[1], place[2], time, 0, 8]) as i32 };
        if result != -libc::ENOSYS && result != -libc::EPERM {
            return result;
        }
        // Linux before 5.11, or a sandbox of that time.
        ABSENT.store(true, Ordering::Relaxed);
    }
    let milliseconds = nanoseconds.div_ceil(1_000_000).min(i32::MAX as u64) as usize;
    // SAFETY: the kernel writes at most so many events.
    unsafe { system_call(libc::SYS_epoll_pwait as usize, [place[0], place[1], place[2], milliseconds, 0, 8]) as i32 }
}

/// A descriptor that can be read at any time, or a negated error number.
pub(crate) fn always_readable() -> i32 {
    let flags = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as usize;
    // SAFETY: a first value and flags.
    raised(unsafe { system_call(libc::SYS_eventfd2 as usize, [1, flags, 0, 0, 0, 0]) as i32 })
}

/// Blocks the kernel thread for so many nanoseconds.
pub(crate) fn rest(nanoseconds: u64) {
    let time = timespec(nanoseconds);
    // SAFETY: a live time.
    unsafe { system_call(libc::SYS_nanosleep as usize, [(&raw const time).expose_provenance(), 0, 0, 0, 0, 0]) };
}

fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    }
}

/// Blocks the kernel thread until `descriptor` is ready, or for `nanoseconds`: 1, 0 after the time, or a negated error
/// number.
pub(crate) fn poll_one(descriptor: i32, write: bool, nanoseconds: Option<u64>) -> i32 {
    let events = if write { libc::POLLOUT } else { libc::POLLIN | libc::POLLRDHUP };
    let mut one = libc::pollfd { fd: descriptor, events, revents: 0 };
    let time = nanoseconds.map(timespec);
    let time = time.as_ref().map_or(0, |time| std::ptr::from_ref(time).expose_provenance());
    // SAFETY: one live entry, a live time or none.
    let result =
        unsafe { system_call(libc::SYS_ppoll as usize, [(&raw mut one).expose_provenance(), 1, time, 0, 8, 0]) as i32 };
    if result == 1 && one.revents & libc::POLLNVAL != 0 { -EBADF } else { result }
}

/// True for a descriptor that is open.
pub(crate) fn is_open(descriptor: i32) -> bool {
    // SAFETY: asks for a flag.
    unsafe { system_call(libc::SYS_fcntl as usize, [descriptor as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) >= 0 }
}
