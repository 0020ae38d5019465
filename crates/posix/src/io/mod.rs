//! Input and output, and time.
//!
//! The pattern of every call that may block: try without blocking, in a way that leaves the descriptor's flags alone
//! (MSG_DONTWAIT, RWF_NOWAIT, or a look with `poll` before); when that finds nothing, ask whether the descriptor is one
//! that does not block (O_NONBLOCK), and if it blocks, wait in the reactor and try again ([`blocking`]). So nothing
//! need be known of a descriptor beforehand and none of its flags is changed. What is known of those that the program
//! has made under our eyes ([`birth`]) saves the questions, and the attempt that would find nothing, because the last
//! one took all there was. What cannot be waited for so (regular files, exotic devices) blocks in the kernel, and
//! raddle's monitor sees to it that the processor goes on.
//!
//! [`stream`]: read and write; [`socket`]: what takes a socket; [`connect`]: beginnings of connections; [`poll`]:
//! and [`select`]: waiting for many;
//! [`apart`]: threads that do so all the time, and keep a kernel thread to themselves; [`birth`], [`close`]: the
//! beginnings and ends of descriptors; [`handover`]: ends beside who waits;
//! [`flags`]: whether they block; [`sleep`]: time; [`child`]: waiting for
//! processes.

mod apart;
mod birth;
mod child;
mod close;
mod connect;
mod flags;
mod handover;
mod kind;
mod poll;
mod select;
pub(crate) mod sleep;
mod socket;
mod stream;

use crate::os::{self, c};
use crate::process::{kernel_waits, watch};
use crate::thread::caller::Caller;
pub(crate) use apart::Apart;
use flags::is_nonblocking;
use raddle::io::{Failure, Glance, Interest};
pub(crate) use sleep::{clock_nanosleep, give_way};
use std::ffi::c_int;

const EAGAIN: isize = -(c::EAGAIN as isize);

/// So many events for nothing in a row, and the kernel thread waits instead: some condition is reported all the time
/// (an error queue that nobody reads, for one) of which the call takes no notice.
const MOST_VAIN_EVENTS: u32 = 100;

const EINTR: isize = -(c::EINTR as isize);
const EBADF: isize = -(c::EBADF as isize);
/// What a call answers inside this room when its thread's cancellation ended the wait: no error of the kernel's.
const CANCELLED: isize = kernel_waits::CANCELLED;

/// True where a call that is a cancellation point is to be taken over.
#[inline]
fn ours() -> bool {
    raddle::drop_in::is_lightweight() && {
        crate::thread::cancel::point();
        true
    }
}

/// As [`ours`], also in a program's handler on a kernel thread of the runtime: who calls.
#[inline]
fn ours_or_handlers() -> Option<Caller> {
    let caller = Caller::here();
    match caller {
        Caller::Light(_) => crate::thread::cancel::point(),
        Caller::Handler(_) => {}
        Caller::Native => return None,
    }
    Some(caller)
}

/// In such a handler: waits in the kernel by `call`, which is told how much time is left.
fn in_handler(deadline: Option<u64>, call: impl Fn(Option<&c::timespec>) -> isize) -> isize {
    watch::uncut(|| call(left(deadline).as_ref()))
}

/// The time until then.
pub(crate) fn left(deadline: Option<u64>) -> Option<c::timespec> {
    let left = deadline.map(|at| at.saturating_sub(os::now(c::CLOCK_MONOTONIC)));
    left.map(|n| c::timespec { tv_sec: (n / 1_000_000_000) as c::time_t, tv_nsec: (n % 1_000_000_000) as c::c_long })
}

/// The end of an entry point: the answer in the C library's form, or the end of the thread.
#[inline]
fn done(result: isize) -> isize {
    os::answer(watch::tell(result))
}

/// A wait, as signals see it: which handlers have run since it began.
struct Pause {
    watch: watch::HandlersSeen,
}

impl Pause {
    /// The time has come.
    const OVER: isize = 0;

    fn begin() -> Self {
        Self { watch: watch::begin() }
    }

    /// A handler has run.
    fn is_interrupted(&self) -> bool {
        self.watch.interrupted()
    }

    /// A handler has run that does not want calls to be restarted.
    fn is_broken(&self) -> bool {
        self.watch.ended()
    }

    /// Waits for a point of CLOCK_MONOTONIC: [`Pause::OVER`], [`CANCELLED`], or [`EINTR`] after any handler.
    fn until(&self, end: u64) -> isize {
        loop {
            match raddle::drop_in::doze_until(end, true) {
                Ok(true) => return Self::OVER,
                Ok(false) if self.is_interrupted() => return EINTR,
                Ok(false) => {}
                Err(_) => return CANCELLED,
            }
        }
    }
}

/// What the answers of an attempt say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// EAGAIN may be our own guess.
    Guessed,
    /// EAGAIN is the kernel's answer.
    Exactly,
    /// So are fewer bytes than these: then nothing is left.
    All(usize),
}

impl Told {
    /// True if nothing is left after that answer.
    fn nothing(self, result: isize) -> bool {
        match self {
            Told::Guessed => false,
            Told::Exactly => result == EAGAIN,
            Told::All(size) => result == EAGAIN || result > 0 && (result as usize) < size,
        }
    }
}

/// Repeats `attempt`, which does not block and answers as the kernel does, until it answers otherwise than EAGAIN.
/// `in_kernel` is the same as a call that may block: for descriptors whose flags ask for EAGAIN (the kernel then gives
/// it), and for those that cannot be waited for.
#[inline]
fn blocking(
    descriptor: c_int,
    interest: Interest,
    told: Told,
    attempt: impl FnMut() -> isize,
    in_kernel: impl FnMut() -> isize,
) -> isize {
    blocking_after(false, &mut Limit::default(), descriptor, interest, told, attempt, in_kernel)
}

/// When the time of a call is over that a socket itself limits. It is asked for where the call waits first, and holds
/// for all its waits, as in the kernel.
#[derive(Default)]
struct Limit {
    end: Option<Option<u64>>,
}

impl Limit {
    /// A point of CLOCK_MONOTONIC, if there is a limit.
    fn end(&mut self, descriptor: c_int, interest: Interest) -> Option<u64> {
        *self.end.get_or_insert_with(|| close::time_limit(descriptor, interest).map(after))
    }
}

/// The same. `partly`: a part of what the call is to do is done, so any handler ends it, as in the kernel.
#[inline]
fn blocking_after(
    partly: bool,
    limit: &mut Limit,
    descriptor: c_int,
    interest: Interest,
    told: Told,
    mut attempt: impl FnMut() -> isize,
    mut in_kernel: impl FnMut() -> isize,
) -> isize {
    let glance = Glance::at(descriptor, interest);
    if !(glance.is_empty(descriptor, interest) && flags::blocks(descriptor)) {
        let first = attempt();
        if told.nothing(first) {
            glance.emptied(descriptor, interest);
        }
        if first != EAGAIN {
            return first;
        }
        if is_nonblocking(descriptor) {
            return if told == Told::Guessed { in_kernel() } else { first };
        }
    }
    let deadline = limit.end(descriptor, interest);
    let mut calls = Calls { attempt: &mut attempt, in_kernel: &mut in_kernel };
    wait_and_repeat(partly, descriptor, interest, glance, told, deadline, &mut calls)
}

/// The two forms of a call.
struct Calls<'a> {
    /// It does not block.
    attempt: &'a mut dyn FnMut() -> isize,
    /// It may.
    in_kernel: &'a mut dyn FnMut() -> isize,
}

/// As [`blocking`], after the first attempt, which followed `glance`.
fn wait_and_repeat(
    partly: bool,
    descriptor: c_int,
    interest: Interest,
    mut glance: Glance,
    told: Told,
    deadline: Option<u64>,
    calls: &mut Calls<'_>,
) -> isize {
    let pause = Pause::begin();
    Apart::waits_otherwise();
    if close::may_be_shut(interest) && is_shut(descriptor) {
        return (calls.in_kernel)();
    }
    for _ in 0..MOST_VAIN_EVENTS {
        match raddle::io::wait_since(descriptor, interest, glance, deadline, true) {
            Ok(()) => {}
            Err(Failure::TimedOut) => return EAGAIN,
            Err(Failure::Cancelled) => return CANCELLED,
            Err(Failure::Closed) => {
                return handover::waits_on(|one| one == descriptor, &mut *calls.in_kernel).unwrap_or(EBADF);
            }
            Err(Failure::AlwaysReady | Failure::Unsupported) => break,
        }
        glance = Glance::at(descriptor, interest);
        let result = (calls.attempt)();
        if told.nothing(result) {
            glance.emptied(descriptor, interest);
        }
        if result != EAGAIN {
            raddle::io::pass_on(descriptor, interest);
            return result;
        }
        // With a time limit, as in the kernel, no handler restarts a call.
        if pause.is_broken() || (partly || deadline.is_some()) && pause.is_interrupted() {
            return EINTR;
        }
        if interest == Interest::Read && is_shut(descriptor) {
            break;
        }
    }
    (calls.in_kernel)()
}

/// A socket for datagrams that was shut down for reading: it tells so to who waits in the kernel alone, and answers
/// EAGAIN to who does not.
#[cold]
fn is_shut(descriptor: c_int) -> bool {
    kind::Kind::of(descriptor) == kind::Kind::Socket && stream::is_ready(descriptor, c::POLLRDHUP)
}

/// A point of CLOCK_MONOTONIC, so many nanoseconds from now.
fn after(nanoseconds: u64) -> u64 {
    os::now(c::CLOCK_MONOTONIC).saturating_add(nanoseconds)
}

/// The address of something, as system calls take it.
fn at<T: ?Sized>(pointer: *const T) -> usize {
    pointer.cast::<u8>().expose_provenance()
}
