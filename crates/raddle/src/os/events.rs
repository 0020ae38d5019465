//! Readiness: epoll and poll, by plain system calls (the C library's functions may be the drop-in library's, which come here).

use raddle_machine::raw::system_call;

pub(crate) use libc::{EBADF, EEXIST, EINTR, EINVAL, ENOENT, EPERM};

/// What a poller gets: for which descriptor something happened.
pub(crate) type Event = libc::epoll_event;

/// The descriptor can be read, or its reading side is over.
pub(crate) const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
/// The descriptor can be written to.
pub(crate) const WRITABLE: u32 = libc::EPOLLOUT as u32;
/// One event, then silence until it is armed again.
pub(crate) const ONCE: u32 = libc::EPOLLONESHOT as u32;

/// An event for `poller_wait` to write over.
pub(crate) const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// Descriptors of ours are put above this, where the limit allows: programs expect the lowest numbers for theirs.
const ABOVE: usize = 960;

/// A new set of interests: a descriptor, or a negated error number.
pub(crate) fn poller() -> i32 {
    // SAFETY: flags only.
    let low = unsafe { system_call(libc::SYS_epoll_create1 as usize, [libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0]) };
    if low < 0 {
        return low as i32;
    }
    let duplicate = [low as usize, libc::F_DUPFD_CLOEXEC as usize, ABOVE, 0, 0, 0];
    // SAFETY: duplicates a descriptor that is ours.
    let high = unsafe { system_call(libc::SYS_fcntl as usize, duplicate) };
    if high < 0 {
        return low as i32;
    }
    close(low as i32);
    high as i32
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

/// Waits for events, at most `milliseconds` (-1: for ever): how many, or a negated error number.
pub(crate) fn poller_wait(poller: i32, events: &mut [Event], milliseconds: i32) -> i32 {
    // SAFETY: the kernel writes at most so many events.
    unsafe {
        system_call(
            libc::SYS_epoll_pwait as usize,
            [poller as usize, events.as_mut_ptr().expose_provenance(), events.len(), milliseconds as usize, 0, 8],
        ) as i32
    }
}

/// Blocks the kernel thread until `descriptor` is ready, or for `nanoseconds`: 1, 0 after the time, or a negated error number.
pub(crate) fn poll_one(descriptor: i32, write: bool, nanoseconds: Option<u64>) -> i32 {
    let events = if write { libc::POLLOUT } else { libc::POLLIN | libc::POLLRDHUP };
    let mut one = libc::pollfd { fd: descriptor, events, revents: 0 };
    let time = nanoseconds.map(|n| libc::timespec {
        tv_sec: (n / 1_000_000_000) as libc::time_t,
        tv_nsec: (n % 1_000_000_000) as libc::c_long,
    });
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

/// Blocks every signal that can be blocked without harm for the calling kernel thread: the program's handlers run elsewhere.
pub(crate) fn block_signals() {
    let synchronous = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
    let mask = synchronous.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
    let mask = (&raw const mask).expose_provenance();
    // SAFETY: the kernel's signal set is 8 bytes.
    unsafe { system_call(libc::SYS_rt_sigprocmask as usize, [libc::SIG_SETMASK as usize, mask, 0, 8, 0, 0]) };
}
