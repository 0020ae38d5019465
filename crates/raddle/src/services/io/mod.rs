//! Waiting for descriptors: a thread that waits leaves its processor to others.
//!
//! [`wait`] blocks the calling thread until a descriptor is ready, [`until`] repeats an attempt that does not block
//! until it succeeds. Readiness comes from epoll. Nothing is registered beforehand and no flag of the descriptor is
//! changed: the first wait tells the kernel of the descriptor, each wait asks for one event.
//!
//! Several threads may wait for one descriptor and direction. An event wakes one of them; when that one has made its
//! attempt it asks for the next event if others still wait ([`until`] and [`wait`] do so by themselves).
//!
//! Events are fetched by the processors themselves, between two threads and before they sleep; one that sleeps waits
//! for them (see `watch`). There is no kernel thread of its own for it.
//!
//! Fairness: a woken thread goes to its pool's queue as any other one, so ready threads and ready descriptors take
//! turns as the policy says.
//!
//! What ends a wait besides the event: its deadline, the thread's cancellation, and the descriptor's end, if it is told
//! ([`closing`]).
//!
//! # Example
//! ```
//! use raddle::io::{Interest, wait};
//! use std::io::{Read, Write};
//! use std::os::fd::AsFd;
//! let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! pool.run(move || {
//!     let reader = raddle::spawn(move || {
//!         wait(ours.as_fd(), Interest::Read, None).unwrap();
//!         let mut byte = [0];
//!         ours.read_exact(&mut byte).unwrap();
//!         byte[0]
//!     });
//!     theirs.write_all(&[7]).unwrap();
//!     assert_eq!(reader.join().unwrap(), 7);
//! });
//! ```

mod sends;

pub use crate::carry::events::Interest;
#[doc(hidden)]
pub use crate::carry::events::table::Notes;
#[doc(hidden)]
pub use crate::carry::events::{Failure, Glance};
#[doc(hidden)]
pub use crate::carry::sends::switch_off;
#[doc(hidden)]
pub use sends::{send_together, sent_together};

use crate::Host;
use crate::carry::events::{reactor, table, watch};
use crate::carry::switching::current;
use crate::os::events::{EBADF, EINTR, poll_one};
use raddle_machine::{Machine, Real};
use raddle_scheduler::runtime::{Waited, wait_until};
use raddle_scheduler::sync::WaitError;
use raddle_scheduler::{Epoch, Thread, Wake};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Blocks the calling thread until the descriptor is ready, or was a moment ago: the operation that follows may still
/// find that somebody else was faster. Kernel threads may call it too.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] after `timeout`; [`WaitError::Cancelled`] when the thread was cancelled; EBADF for what
/// is not open, or was closed through [`closing`] meanwhile.
pub fn wait(descriptor: BorrowedFd<'_>, interest: Interest, timeout: Option<Duration>) -> io::Result<()> {
    wait_until_time(descriptor.as_raw_fd(), interest, timeout.map(crate::carry::timers::deadline_after))
}

/// As [`wait`], until a point of the clock.
fn wait_until_time(descriptor: i32, interest: Interest, deadline: Option<u64>) -> io::Result<()> {
    if current().is_none() {
        return wait_here(descriptor, interest, deadline);
    }
    let each = |visit: &mut dyn FnMut(i32, Interest)| visit(descriptor, interest);
    match wait_any(&each, deadline, true) {
        Ok(()) | Err(Failure::AlwaysReady) => Ok(()),
        Err(Failure::Unsupported) => wait_here(descriptor, interest, deadline),
        Err(Failure::TimedOut) => Err(io::ErrorKind::TimedOut.into()),
        Err(Failure::Cancelled) => Err(io::Error::other(WaitError::Cancelled)),
        Err(Failure::Closed) => Err(io::Error::from_raw_os_error(EBADF)),
    }
}

/// Calls `attempt` until it ends otherwise than with [`io::ErrorKind::WouldBlock`], and waits for the descriptor in
/// between.
///
/// # Errors
/// What `attempt` says, and as for [`wait`].
///
/// # Example
/// ```
/// use std::net::TcpListener;
/// use std::os::fd::AsFd;
/// let listener = TcpListener::bind("127.0.0.1:0").unwrap();
/// listener.set_nonblocking(true).unwrap();
/// let address = listener.local_addr().unwrap();
/// let pool = raddle::Builder::new().processors(1).build().unwrap();
/// pool.run(move || {
///     let acceptor = raddle::spawn(move || {
///         raddle::io::until(listener.as_fd(), raddle::io::Interest::Read, None, || listener.accept()).unwrap()
///     });
///     let _client = std::net::TcpStream::connect(address).unwrap();
///     acceptor.join().unwrap();
/// });
/// ```
pub fn until<T>(
    descriptor: BorrowedFd<'_>,
    interest: Interest,
    timeout: Option<Duration>,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let deadline = timeout.map(crate::carry::timers::deadline_after);
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            ended => return ended,
        }
        // Where there is an event each time, no wait would end by it.
        if deadline.is_some_and(|at| Real::now() >= at) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        wait_until_time(descriptor.as_raw_fd(), interest, deadline)?;
    }
}

/// The program's own call has just made that descriptor: until it is told to end ([`closing`]), what the kernel was
/// asked to watch need not be asked again. To be called by those only who report the end as well.
#[doc(hidden)]
pub fn born(descriptor: i32) {
    if !crate::os::looks::has_own_table() {
        table::born(descriptor);
    }
}

/// The number may stand for something else from now on. Unlike [`closing`] it may be called anywhere, and wakes nobody.
#[doc(hidden)]
pub fn doubt(descriptor: i32) {
    if !crate::os::looks::has_own_table() {
        table::doubt(descriptor);
    }
}

/// The events of that descriptor are to wake no processor any more: its threads will wait for it in the kernel. Whoever
/// waits for it now looks again, as after [`closing`]: so many threads.
#[doc(hidden)]
pub fn disarm(descriptor: i32) -> usize {
    reactor::disarm(descriptor)
}

/// False for a descriptor whose number nobody has ever waited for.
#[doc(hidden)]
#[inline]
pub fn was_awaited(descriptor: i32) -> bool {
    table::was_awaited(descriptor)
}

/// The lowest number from `first` to `last` for which somebody may be waiting; `None`, too, where numbers are not the
/// program's.
#[doc(hidden)]
pub fn first_awaited(first: u32, last: u32) -> Option<i32> {
    if crate::os::looks::has_own_table() { None } else { table::first_awaited(first, last) }
}

/// All who wait to write to anything look again: something has happened of which the kernel tells no poller.
#[doc(hidden)]
pub fn wake_writers() {
    table::wake_writers();
}

/// Another process has got all descriptors: none has a known life until its number is given out anew.
#[doc(hidden)]
pub fn doubt_all() {
    table::doubt_all();
}

/// A number for the present life of a descriptor of which [`born`] told; `None` of any other.
#[doc(hidden)]
#[inline]
pub fn known_life(descriptor: i32) -> Option<u32> {
    table::known_life(descriptor)
}

/// Room for notes of whoever makes the calls; `None` for numbers that cannot be waited for.
#[doc(hidden)]
#[inline]
pub fn notes(descriptor: i32) -> Option<Notes> {
    table::notes(descriptor)
}

/// Runs `close`, by which the program closes that descriptor: threads that wait for it wake up with EBADF. Without this
/// they would wait on, as kernel threads do, and might mistake what gets the number next for what they waited for.
///
/// ```
/// use std::os::fd::{AsRawFd, OwnedFd};
/// let socket = OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
/// raddle::io::closing(socket.as_raw_fd(), || drop(socket));
/// ```
pub fn closing<T>(descriptor: i32, close: impl FnOnce() -> T) -> T {
    // A kernel thread of the runtime that has a table of its own closes what has that number there.
    if crate::os::looks::has_own_table() {
        return close();
    }
    table::end_life(descriptor, close)
}

/// As [`closing`], for all descriptors from `first` to `last`.
#[doc(hidden)]
pub fn closing_range<T>(first: u32, last: u32, close: impl FnOnce() -> T) -> T {
    if crate::os::looks::has_own_table() {
        return close();
    }
    table::end_lives(first, last, close)
}

fn wait_here(descriptor: i32, interest: Interest, deadline: Option<u64>) -> io::Result<()> {
    loop {
        let rest = deadline.map(|at| at.saturating_sub(Real::now()));
        match poll_one(descriptor, interest == Interest::Write, rest) {
            0 => return Err(io::ErrorKind::TimedOut.into()),
            error if error == -EINTR => {}
            error if error < 0 => return Err(io::Error::from_raw_os_error(-error)),
            _ => return Ok(()),
        }
    }
}

/// True for the numbers of the runtime's own descriptors, which the program has no business with.
#[doc(hidden)]
pub fn is_ours(descriptor: i32) -> bool {
    reactor::is_ours(descriptor)
}

/// In the child of a fork, whose only thread calls this: the parent's waits and its poller are not here.
#[doc(hidden)]
pub fn forked() {
    reactor::forget();
    watch::forget();
    crate::os::ring::forget();
}

/// Shows its argument each descriptor that is waited for.
#[doc(hidden)]
pub type Each<'a> = dyn Fn(&mut dyn FnMut(i32, Interest)) + 'a;

/// Blocks the calling lightweight thread until one of several descriptors is ready, or for no reason. `each` shows them
/// all, the same ones at each call.
///
/// The caller's attempt after this may leave the event to others who wait for the same descriptor: it calls [`pass_on`]
/// then.
///
/// # Errors
/// See [`Failure`].
#[doc(hidden)]
pub fn wait_for(each: &Each<'_>, deadline: Option<u64>, cancellable: bool) -> Result<(), Failure> {
    let lives = || {
        let mut sum = 0u32;
        each(&mut |descriptor, _| sum = sum.wrapping_add(table::life(descriptor)));
        sum
    };
    let before = lives();
    let failure = Cell::new(None);
    let count = Cell::new(0usize);
    let publish = |thread: &'static Thread<Real>, epoch: Epoch| {
        each(&mut |descriptor, interest| {
            count.set(count.get() + 1);
            crate::carry::note::note_wait("a descriptor", descriptor as usize, None);
            if !table::publish(descriptor, interest, thread, epoch) {
                failure.set(Some(Failure::Unsupported));
            }
        });
    };
    let look = || {
        each(&mut |descriptor, interest| {
            if failure.get().is_none()
                && let Err(why) = reactor::arm(descriptor, interest)
            {
                failure.set(Some(why));
            }
        });
        if failure.get().is_none() && lives() != before {
            failure.set(Some(Failure::Closed));
        }
        failure.get().is_some()
    };
    // SAFETY: the table is private to this room, and who pops a wait from it claims its epoch, and nothing else.
    let waited = unsafe { wait_until::<Host>(deadline, cancellable, publish, look) };
    let signalled = matches!(waited, Waited::Woken(Wake::Signalled));
    if !signalled || count.get() > 1 {
        each(&mut |descriptor, interest| table::abandon(descriptor, interest));
    }
    let result = match (waited, failure.get()) {
        (Waited::Woken(Wake::TimedOut), _) => Err(Failure::TimedOut),
        (Waited::Woken(Wake::Cancelled), _) => Err(Failure::Cancelled),
        (_, Some(why)) => Err(why),
        (Waited::Woken(_), None) if lives() != before => Err(Failure::Closed),
        (_, None) => Ok(()),
    };
    if signalled && result.is_err() {
        // An event was used up for nothing.
        each(&mut |descriptor, interest| pass_on(descriptor, interest));
    }
    result
}

/// Blocks the calling lightweight thread until an event came since `glance`, after which an attempt has found nothing,
/// or for no reason. The rest as for [`wait_for`].
///
/// # Errors
/// See [`Failure`].
#[doc(hidden)]
pub fn wait_since(
    descriptor: i32,
    interest: Interest,
    glance: Glance,
    deadline: Option<u64>,
    cancellable: bool,
) -> Result<(), Failure> {
    let failure = Cell::new(None);
    let publish = |thread: &'static Thread<Real>, epoch: Epoch| {
        crate::carry::note::note_wait("a descriptor", descriptor as usize, None);
        if !table::publish(descriptor, interest, thread, epoch) {
            failure.set(Some(Failure::Unsupported));
        }
    };
    let look = || {
        if failure.get().is_none()
            && !table::need_not_arm(descriptor, interest)
            && let Err(why) = reactor::arm(descriptor, interest)
        {
            failure.set(Some(why));
        }
        if failure.get().is_none() && table::life(descriptor) != glance.life {
            failure.set(Some(Failure::Closed));
        }
        failure.get().is_some() || table::has_changed(descriptor, interest, glance)
    };
    // SAFETY: as in `wait_for`.
    let waited = unsafe { wait_until::<Host>(deadline, cancellable, publish, look) };
    let signalled = matches!(waited, Waited::Woken(Wake::Signalled));
    if !signalled {
        table::abandon(descriptor, interest);
    }
    let result = match (waited, failure.get()) {
        (Waited::Woken(Wake::TimedOut), _) => Err(Failure::TimedOut),
        (Waited::Woken(Wake::Cancelled), _) => Err(Failure::Cancelled),
        (_, Some(why)) => Err(why),
        (Waited::Woken(_), None) if table::life(descriptor) != glance.life => Err(Failure::Closed),
        (_, None) => Ok(()),
    };
    if signalled && result.is_err() {
        pass_on(descriptor, interest);
    }
    result
}

/// After a wait for this descriptor that answered `Ok`, and the attempt that followed: asks for the next event if
/// others wait for it too.
#[doc(hidden)]
pub fn pass_on(descriptor: i32, interest: Interest) {
    if table::is_awaited(descriptor, interest) && reactor::arm(descriptor, interest).is_err() {
        // They find out for themselves.
        table::wake_all(descriptor, interest);
    }
}

/// [`wait_for`], and at once [`pass_on`]: for callers of whom nothing more is known.
fn wait_any(each: &Each<'_>, deadline: Option<u64>, cancellable: bool) -> Result<(), Failure> {
    let result = wait_for(each, deadline, cancellable);
    if result.is_ok() {
        each(&mut |descriptor, interest| pass_on(descriptor, interest));
    }
    result
}
