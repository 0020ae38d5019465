//! `syscall`: the futex calls of Rust's std, libstdc++ and others that make them themselves, and whatever else.
//!
//! Private futexes wait and wake as [`crate::futex`] does. Those shared with other processes, and those whose words the
//! kernel itself writes (priority-inheriting ones), pass through: the kernel alone knows all who use them. Wake-ups may
//! be more than asked for (a requeue wakes, a wake-up by bit set wakes all lightweight threads there), which every user
//! of futexes bears.

use crate::futex::{self, For, Woken};
use crate::os::{self, answer, c, reach, system_call};
use crate::process::{kernel_waits, own};
use crate::thread::record::Record;
use crate::thread::{cancel, dedicated};
use raddle_macros::entry;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// `futex_waitv`, of Linux 5.16: the same number on all architectures.
const SYS_FUTEX_WAITV: c_long = 449;
/// Likewise `epoll_pwait2`, of Linux 5.11.
const SYS_EPOLL_PWAIT2: c_long = 441;

/// Calls that wait, made by number. A signal of ours ends none of them, and an asynchronous cancellation all.
struct Wait {
    number: c_long,
    /// The kernel repeats it after a handler that restarts calls.
    restarts: bool,
    limit: Limit,
}

/// Where such a call has its time limit.
#[derive(Clone, Copy)]
enum Limit {
    /// It has none, or an absolute one, or the kernel writes back what is left.
    None,
    /// That argument is in milliseconds.
    Milliseconds(usize),
    /// That argument is the place of a time.
    Time(usize),
}

const fn restarted(number: c_long) -> Wait {
    Wait { number, restarts: true, limit: Limit::None }
}

const fn ended(number: c_long, limit: Limit) -> Wait {
    Wait { number, restarts: false, limit }
}

const WAITS: &[Wait] = &[
    ended(c::SYS_ppoll, Limit::None),
    ended(c::SYS_pselect6, Limit::None),
    ended(c::SYS_epoll_pwait, Limit::Milliseconds(3)),
    ended(SYS_EPOLL_PWAIT2, Limit::Time(3)),
    ended(c::SYS_io_getevents, Limit::Time(4)),
    ended(c::SYS_nanosleep, Limit::Time(0)),
    ended(c::SYS_clock_nanosleep, Limit::Time(2)),
    ended(c::SYS_rt_sigsuspend, Limit::None),
    ended(c::SYS_rt_sigtimedwait, Limit::Time(2)),
    restarted(c::SYS_read),
    restarted(c::SYS_readv),
    restarted(c::SYS_write),
    restarted(c::SYS_writev),
    restarted(c::SYS_accept4),
    restarted(c::SYS_connect),
    restarted(c::SYS_recvfrom),
    restarted(c::SYS_recvmsg),
    restarted(c::SYS_wait4),
    restarted(c::SYS_waitid),
    ended(c::SYS_msgrcv, Limit::None),
    ended(c::SYS_msgsnd, Limit::None),
    ended(c::SYS_semop, Limit::None),
    ended(c::SYS_semtimedop, Limit::Time(3)),
    #[cfg(target_arch = "x86_64")]
    ended(c::SYS_pause, Limit::None),
    #[cfg(target_arch = "x86_64")]
    ended(c::SYS_poll, Limit::Milliseconds(2)),
    #[cfg(target_arch = "x86_64")]
    ended(c::SYS_select, Limit::None),
    #[cfg(target_arch = "x86_64")]
    ended(c::SYS_epoll_wait, Limit::Milliseconds(3)),
];

impl Wait {
    /// Makes the call, whose time limit goes on where a signal of ours has cut it.
    ///
    /// Apart: its frame is not one of those that wait otherwise.
    ///
    /// # Safety
    /// As for the system call.
    #[inline(never)]
    unsafe fn make(&self, arguments: [usize; 6]) -> isize {
        let limit = match self.limit {
            // Until a point in time.
            Limit::Time(_) if self.number == c::SYS_clock_nanosleep && arguments[1] != 0 => Limit::None,
            limit => limit,
        };
        let deadline = match limit {
            Limit::None => None,
            Limit::Milliseconds(at) => u64::try_from(arguments[at] as c_int).ok().map(|ms| ms * 1_000_000),
            Limit::Time(at) => {
                let time = std::ptr::with_exposed_provenance::<c::timespec>(arguments[at]);
                // Without a runtime no signal of ours cuts the call.
                // SAFETY: the caller's time: the kernel would read it, too.
                let time = (dedicated::has_runtime() && reach::reads(time)).then(|| unsafe { &*time });
                time.and_then(|time| os::deadline_after(time).ok())
                    .map(|at| at.saturating_sub(os::now(c::CLOCK_MONOTONIC)))
            }
        }
        .map(|length| os::now(c::CLOCK_MONOTONIC).saturating_add(length));
        let mut time = c::timespec { tv_sec: 0, tv_nsec: 0 };
        let place = (&raw mut time).expose_provenance();
        let again = |arguments: &mut [usize; 6]| {
            let deadline = deadline?;
            let left = deadline.saturating_sub(os::now(c::CLOCK_MONOTONIC));
            match limit {
                Limit::None => {}
                Limit::Milliseconds(at) => arguments[at] = left.div_ceil(1_000_000) as usize,
                Limit::Time(at) => {
                    let left = c::timespec {
                        tv_sec: (left / 1_000_000_000) as c::time_t,
                        tv_nsec: (left % 1_000_000_000) as c_long,
                    };
                    // SAFETY: the time above, which only the kernel reads.
                    unsafe { std::ptr::with_exposed_provenance_mut::<c::timespec>(place).write(left) };
                    arguments[at] = place;
                }
            }
            None
        };
        let cancellable = cancel::is_asynchronous();
        // SAFETY: the caller's promise; a time that lives during the call.
        match unsafe { kernel_waits::wait_again(self.number, arguments, self.restarts, cancellable, again) } {
            kernel_waits::CANCELLED => {
                cancel::point();
                -(c::EINTR as isize)
            }
            result => result,
        }
    }
}

/// Variadic in C: arguments that the caller did not pass are read and go nowhere.
#[entry]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's promise, for both calls made here.
    let result = unsafe {
        match number {
            c::SYS_futex if is_wait(b) => futex_wait(a, b, c, d, e, f),
            c::SYS_futex => futex_call(a, b, c, d, e, f),
            _ => other_call(number, &[a, b, c, d, e, f]),
        }
    };
    answer(result) as c_long
}

/// Any call but a futex's. Apart, as [`Wait::make`].
///
/// # Safety
/// As for the system call.
#[inline(never)]
unsafe fn other_call(number: c_long, arguments: &[usize; 6]) -> isize {
    let arguments = *arguments;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise, for every call made here.
    unsafe {
        match number {
            // A thread's own TCB has no area that the kernel knows.
            c::SYS_rseq if raddle::drop_in::is_lightweight() => -(c::ENOSYS as isize),
            c::SYS_sched_yield => {
                crate::io::sleep::give_way();
                0
            }
            c::SYS_seccomp => {
                crate::process::sandbox::begins();
                own::by_number(number, arguments)
            }
            c::SYS_gettid => crate::thread::gettid() as isize,
            c::SYS_exit => {
                crate::thread::exit::at_once(a);
                system_call(number, arguments)
            }
            // What it answered may come back here.
            c::SYS_tgkill => crate::process::by_number::send_to_number(a as c::pid_t, b as c::pid_t, c as c_int),
            c::SYS_kill | c::SYS_rt_sigqueueinfo => {
                let process = crate::process::process_directed::process_of(a as c::pid_t);
                system_call(number, [process as usize, b, c, d, e, f])
            }
            c::SYS_tkill => crate::process::by_number::send_to_task(a as c::pid_t, b as c_int),
            c::SYS_rt_tgsigqueueinfo => {
                let info = std::ptr::with_exposed_provenance(d);
                crate::process::by_number::queue_to_number(a as c::pid_t, b as c::pid_t, c as c_int, info)
            }
            SYS_FUTEX_WAITV => {
                futex::always_ask_the_kernel();
                system_call(number, arguments)
            }
            _ => {
                if let Some(result) = crate::process::fork::by_number(number, arguments) {
                    return result;
                }
                match Record::current().and_then(|_| WAITS.iter().find(|wait| wait.number == number)) {
                    Some(wait) => wait.make(arguments),
                    None => own::by_number(number, arguments),
                }
            }
        }
    }
}

/// Apart, as [`Wait::make`].
///
/// # Safety
/// As for the system call.
#[inline(never)]
unsafe fn in_kernel(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let arguments = [a, b, c, d, e, f];
    let limit = match command(b) {
        c::FUTEX_WAIT => Limit::Time(3),
        c::FUTEX_WAIT_BITSET => Limit::None,
        // SAFETY: the program's arguments for a futex call, as the caller has promised; the kernel checks them.
        _ => return unsafe { system_call(c::SYS_futex, arguments) },
    };
    // No handler restarts a wait with a time limit.
    let restarts = arguments[3] == 0;
    // SAFETY: the program's arguments for a futex call, whose time, if it has one, is the fourth.
    unsafe { Wait { number: c::SYS_futex, restarts, limit }.make(arguments) }
}

/// The operation without its flags.
#[inline(always)]
fn command(operation: usize) -> c_int {
    operation as c_int & !(c::FUTEX_PRIVATE_FLAG | c::FUTEX_CLOCK_REALTIME)
}

#[inline(always)]
fn is_wait(operation: usize) -> bool {
    [c::FUTEX_WAIT, c::FUTEX_WAIT_BITSET].contains(&command(operation))
}

/// Whether all who use such a word are known here.
#[inline(always)]
fn is_private(address: usize, operation: usize) -> bool {
    operation as c_int & c::FUTEX_PRIVATE_FLAG != 0 && address != 0 && address.is_multiple_of(4)
}

#[inline(always)]
fn is_readable(address: usize) -> bool {
    reach::reads(std::ptr::with_exposed_provenance::<u32>(address))
}

/// Of the calls that wait. The frames of what a thread does not park in are not among it.
///
/// # Safety
/// As for the system call.
#[inline(always)]
unsafe fn futex_wait(
    address: usize,
    operation: usize,
    value: usize,
    time: usize,
    second: usize,
    third: usize,
) -> isize {
    // SAFETY: the caller's promise, for every call made here.
    unsafe {
        let kernel = || in_kernel(address, operation, value, time, second, third);
        if !is_private(address, operation) {
            return kernel();
        }
        if !(raddle::drop_in::is_lightweight() && is_readable(address)) {
            return futex::counted(address, kernel);
        }
        if command(operation) == c::FUTEX_WAIT_BITSET && third as u32 == 0 {
            return kernel();
        }
        match deadline(operation, time) {
            Ok(deadline) => wait(word(address), value as u32, deadline),
            Err(error) => -(error as isize),
        }
    }
}

/// All others. Apart, as [`Wait::make`].
///
/// # Safety
/// As for the system call.
#[inline(never)]
unsafe fn futex_call(
    address: usize,
    operation: usize,
    value: usize,
    fourth: usize,
    second: usize,
    third: usize,
) -> isize {
    // SAFETY: the caller's promise, for every call made here.
    unsafe {
        let kernel = || in_kernel(address, operation, value, fourth, second, third);
        if !is_private(address, operation) {
            return kernel();
        }
        match command(operation) {
            c::FUTEX_WAKE => futex::wake(address, count(value)) as isize,
            c::FUTEX_WAKE_BITSET => match third as u32 {
                0 => kernel(),
                u32::MAX => futex::wake(address, count(value)) as isize,
                _ => {
                    fence(Ordering::SeqCst);
                    let woken = raddle::drop_in::waker_at(address).wake_after_fence(usize::MAX);
                    (woken as isize).min(value as isize).max(kernel())
                }
            },
            c::FUTEX_REQUEUE => requeue(address, value, fourth),
            c::FUTEX_CMP_REQUEUE => {
                // Without a runtime nobody of ours waits.
                if !(dedicated::has_runtime() && is_readable(address)) {
                    return kernel();
                }
                if word(address).load(Ordering::SeqCst) != third as u32 {
                    return -(c::EAGAIN as isize);
                }
                requeue(address, value, fourth)
            }
            c::FUTEX_WAKE_OP if dedicated::has_runtime() => wake_op(address, value, fourth, second, third as u32),
            c::FUTEX_WAIT_REQUEUE_PI => {
                futex::always_ask_the_kernel();
                kernel()
            }
            _ => kernel(),
        }
    }
}

/// # Safety
/// The word is the caller's futex, alive.
unsafe fn word<'a>(address: usize) -> &'a AtomicU32 {
    // SAFETY: as promised; aligned, as the caller has checked.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// A count as the kernel takes it: at least one is woken, if any.
fn count(value: usize) -> usize {
    (value as c_int).max(1) as usize
}

/// # Safety
/// `time` is null or the address of a timespec.
#[inline(always)]
unsafe fn deadline(operation: usize, time: usize) -> Result<Option<u64>, c_int> {
    // SAFETY: not null, so the address of a timespec, as the caller has promised.
    if time == 0 { Ok(None) } else { unsafe { deadline_at(operation, time) } }
}

/// # Safety
/// `time` is the address of a timespec.
#[inline(never)]
unsafe fn deadline_at(operation: usize, time: usize) -> Result<Option<u64>, c_int> {
    let time = std::ptr::with_exposed_provenance::<c::timespec>(time);
    if !reach::reads(time) {
        return Err(c::EFAULT);
    }
    // SAFETY: a time that is readable now.
    let time = unsafe { &*time };
    if time.tv_sec < 0 {
        return Err(c::EINVAL);
    }
    if command(operation) == c::FUTEX_WAIT {
        return os::deadline_after(time).map(Some);
    }
    let clock = if operation as c_int & c::FUTEX_CLOCK_REALTIME != 0 { c::CLOCK_REALTIME } else { c::CLOCK_MONOTONIC };
    os::deadline(clock, time).map(Some)
}

/// Ends the caller, whose cancellation is asynchronous.
#[cold]
#[inline(never)]
fn ends() -> isize {
    cancel::point();
    0
}

#[inline(always)]
fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>) -> isize {
    if word.load(Ordering::SeqCst) != expected {
        return -(c::EAGAIN as isize);
    }
    match futex::wait(For::AWord, word, expected, deadline, cancel::is_asynchronous()) {
        Woken::Cancelled => ends(),
        Woken::LookAgain => 0,
        Woken::TimedOut => -(c::ETIMEDOUT as isize),
        // A wake-up may have come with the signal.
        Woken::Interrupted if word.load(Ordering::SeqCst) != expected => 0,
        Woken::Interrupted => -(c::EINTR as isize),
    }
}

/// Instead of moving waiters to another word, wakes as many: they look at their condition and go there themselves.
fn requeue(address: usize, wake: usize, moved: usize) -> isize {
    let most = |value: usize| (value as c_int).max(0) as usize;
    futex::wake(address, most(wake).saturating_add(most(moved))) as isize
}

/// # Safety
/// Both words are the caller's futexes, alive.
#[inline(never)]
unsafe fn wake_op(address: usize, wake: usize, wake_there: usize, there: usize, code: u32) -> isize {
    let operation = (code >> 28) & 7;
    let comparison = (code >> 24) & 15;
    let sign = |field: u32| ((field << 20) as i32) >> 20;
    let (mut operand, compared) = (sign((code >> 12) & 0xfff) as u32, sign(code & 0xfff));
    if code >> 31 != 0 {
        operand = 1u32.wrapping_shl(operand);
    }
    if !there.is_multiple_of(4) {
        return -(c::EINVAL as isize);
    }
    if !reach::writes(std::ptr::with_exposed_provenance_mut::<u32>(there)) {
        return -(c::EFAULT as isize);
    }
    // SAFETY: the caller's second futex, alive; aligned, as was asked just now.
    let word = unsafe { word(there) };
    let old = match operation {
        0 => word.swap(operand, Ordering::SeqCst),
        1 => word.fetch_add(operand, Ordering::SeqCst),
        2 => word.fetch_or(operand, Ordering::SeqCst),
        3 => word.fetch_and(!operand, Ordering::SeqCst),
        4 => word.fetch_xor(operand, Ordering::SeqCst),
        _ => return -(c::ENOSYS as isize),
    } as i32;
    let holds = match comparison {
        0 => old == compared,
        1 => old != compared,
        2 => old < compared,
        3 => old <= compared,
        4 => old > compared,
        5 => old >= compared,
        _ => return -(c::ENOSYS as isize),
    };
    let mut woken = futex::wake(address, count(wake));
    if holds {
        woken += futex::wake(there, count(wake_there));
    }
    woken as isize
}
