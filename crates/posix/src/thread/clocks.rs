//! The processor time of threads: CLOCK_THREAD_CPUTIME_ID, the clocks of other threads, and `getrusage` of a thread.
//!
//! A thread's time is what was noted in its record at its switches, and what it has had of its kernel thread since the
//! last one ([`raddle::drop_in::count_time`]). It is counted from the first question on. No clock goes back: what was
//! answered once is the least that is answered later.
//!
//! The clock of a thread of ours has a number of its own, in the kernel's form for the clock of a kernel thread, with
//! an id that the kernel never gives.

use super::dedicated;
use super::record::Record;
use crate::os::{answer, c, system_call};
use raddle_macros::entry;
use std::ffi::{c_int, c_long};
use std::sync::atomic::Ordering;

/// The low bits of a clock's number: of a kernel thread, as the scheduler counts.
const OF_A_THREAD: c_int = 0b110;
const NANOSECONDS: u64 = 1_000_000_000;

/// What the calling thread has had since it came to the kernel thread that it leaves.
fn note(time: u64) {
    if let Some(me) = Record::current() {
        // Single writer.
        let sum = me.time.load(Ordering::Relaxed).wrapping_add(time);
        // Release: whoever sees it sees that the thread has left.
        me.time.store(sum, Ordering::Release);
    }
}

/// Nanoseconds of processor time of a thread of ours, which the caller holds.
fn time_of(record: &Record) -> u64 {
    /// Looks until what was seen is taken as it is: the thread switches in between each time.
    const LOOKS: u32 = 8;
    raddle::drop_in::count_time(note);
    let raw = record.request.handle();
    let mut sum = 0;
    for _ in 0..LOOKS {
        let noted = record.time.load(Ordering::Acquire);
        // Null: its creator has not stored it yet. A thread that looks at its own clock needs none, unless it is
        // dedicated.
        let own = if record.is_current() { raddle::drop_in::own_time_since_switch() } else { None };
        // SAFETY: the record is held, so the handle is neither joined nor dropped meanwhile.
        let told = || unsafe { raddle::drop_in::time_since_switch(raw) };
        let since = own.or_else(|| if raw.is_null() { None } else { told() });
        sum = noted.wrapping_add(since.unwrap_or(0));
        if record.time.load(Ordering::Acquire) == noted {
            break;
        }
    }
    record.time_told.fetch_max(sum, Ordering::Relaxed).max(sum)
}

/// The number of the clock of a thread of ours.
fn clock_of(record: &Record) -> c::clockid_t {
    !(record.clock_number() as c_int) << 3 | OF_A_THREAD
}

/// What a clock's number, of one of the kinds for threads, stands for.
enum Clock {
    Ours(u64),
    /// The kernel's, or no thread's any more.
    Kernels,
}

fn look_up(clock: c::clockid_t) -> Clock {
    if clock == c::CLOCK_THREAD_CPUTIME_ID {
        // One that a fork has made a process's first thread has the kernel's.
        let me = Record::current().filter(|me| !me.is_forker());
        return me.map_or(Clock::Kernels, |me| Clock::Ours(time_of(me)));
    }
    let named = (clock & 0b111 == OF_A_THREAD).then(|| Record::of_clock(!(clock >> 3) as u32)).flatten();
    named.map_or(Clock::Kernels, |record| Clock::Ours(time_of(&record)))
}

/// True for clocks of threads, and of processes.
#[inline]
fn is_special(clock: c::clockid_t) -> bool {
    clock < 0 || clock == c::CLOCK_THREAD_CPUTIME_ID
}

#[entry]
pub unsafe extern "C" fn clock_gettime(clock: c::clockid_t, time: *mut c::timespec) -> c_int {
    if is_special(clock) {
        // SAFETY: the caller's place.
        return answer(unsafe { special_gettime(clock, time) }) as c_int;
    }
    natively!()
}

/// # Safety
/// The caller's place.
#[cold]
#[inline(never)]
unsafe fn special_gettime(clock: c::clockid_t, time: *mut c::timespec) -> isize {
    match look_up(clock) {
        Clock::Ours(sum) => {
            let told = c::timespec { tv_sec: (sum / NANOSECONDS) as c::time_t, tv_nsec: (sum % NANOSECONDS) as c_long };
            // SAFETY: the caller's place for a time.
            unsafe { time.write(told) };
            0
        }
        // SAFETY: the kernel checks the place.
        Clock::Kernels => unsafe {
            system_call(c::SYS_clock_gettime, [clock as usize, time.expose_provenance(), 0, 0, 0, 0])
        },
    }
}

#[entry]
pub unsafe extern "C" fn clock_getres(clock: c::clockid_t, time: *mut c::timespec) -> c_int {
    if clock < 0 && matches!(look_up(clock), Clock::Ours(_)) {
        // SAFETY: null or the caller's place.
        if let Some(time) = unsafe { time.as_mut() } {
            *time = c::timespec { tv_sec: 0, tv_nsec: 1 };
        }
        return 0;
    }
    natively!()
}

#[entry(if Record::is_ours(id))]
pub unsafe extern "C" fn pthread_getcpuclockid(id: c::pthread_t, clock: *mut c::clockid_t) -> c_int {
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    // Counted from here on: the first look at the clock may come after the work that it is to measure.
    time_of(&record);
    // SAFETY: the caller's place for it.
    unsafe { *clock = clock_of(&record) };
    0
}

#[entry]
pub unsafe extern "C" fn getrusage(whose: c_int, usage: *mut c::rusage) -> c_int {
    // SAFETY: the caller's place.
    answer(unsafe { usage_of(whose, usage) }) as c_int
}

/// # Safety
/// The caller's place.
unsafe fn usage_of(whose: c_int, usage: *mut c::rusage) -> isize {
    // SAFETY: the kernel checks the place.
    let result = unsafe { system_call(c::SYS_getrusage, [whose as usize, usage.expose_provenance(), 0, 0, 0, 0]) };
    if result == 0
        && whose == c::RUSAGE_THREAD
        && let Clock::Ours(sum) = look_up(c::CLOCK_THREAD_CPUTIME_ID)
    {
        // Of which part of it the kernel's was is not known.
        // SAFETY: the kernel has written there.
        unsafe {
            (*usage).ru_utime.tv_sec = (sum / NANOSECONDS) as c::time_t;
            (*usage).ru_utime.tv_usec = (sum % NANOSECONDS / 1000) as c::suseconds_t;
            (*usage).ru_stime = c::timeval { tv_sec: 0, tv_usec: 0 };
        }
    }
    result
}

/// A system call that the program makes by number, if it is one of these: its result, or a negated error number.
///
/// # Safety
/// The program's arguments.
pub(crate) unsafe fn by_number(number: c_long, [a, b, ..]: [usize; 6]) -> Option<isize> {
    // SAFETY: the program's arguments, for the call of this number.
    unsafe {
        match number {
            c::SYS_clock_gettime if is_special(a as c_int) => {
                Some(special_gettime(a as c_int, std::ptr::with_exposed_provenance_mut(b)))
            }
            c::SYS_getrusage if a as c_int == c::RUSAGE_THREAD => {
                Some(usage_of(a as c_int, std::ptr::with_exposed_provenance_mut(b)))
            }
            _ => None,
        }
    }
}

/// The kernel's clock for one of ours, whose thread becomes [dedicated]; any other clock as it is.
///
/// # Errors
/// As for [`dedicated::task_of`].
pub(crate) fn kernels_clock(clock: c::clockid_t) -> Result<c::clockid_t, c_int> {
    if clock == c::CLOCK_THREAD_CPUTIME_ID {
        dedicated::begin()?;
    } else if clock < 0
        && clock & 0b111 == OF_A_THREAD
        && let Some(record) = Record::of_clock(!(clock >> 3) as u32)
    {
        return Ok(!(dedicated::task_of(record.record())? as c_int) << 3 | OF_A_THREAD);
    }
    Ok(clock)
}
