//! `pthread_rwlock_t`: who is inside, and a gate, in one word.
//!
//! How it waits, and why nobody is left asleep: [`raddle::drop_in::words::rwlock`]. Readers sleep under the gate's
//! address, writers under the next word's, which raddle's table tells apart; kernel threads all sleep at the gate,
//! counted apart.
//!
//! Who goes first depends on the kind, as in the C library: by default readers do not wait for writers that wait (a
//! thread may take the lock for reading twice), with `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` they do. Where
//! readers go first, a writer that was passed by many times makes each further reader give way for a bounded while: so
//! a stream of readers that overlap ebbs. A reader that is known to hold the lock already does not give way; it is
//! known if it came while a writer waited (those who come, and leave, without a writer in sight do not look into their
//! thread-local storage), so each errs once at most for each writer.

use super::starving::{Patience, leaves};
use super::{Until, code};
use crate::futex::{self, For, Woken};
use crate::os::{c, now, thread_pointer};
use crate::thread::undo::Undo;
use raddle::drop_in::words::HIGH_HALF;
use raddle::drop_in::words::rwlock::{Refused, Roles, RwLockWord, State};
use raddle_machine::Real;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

type Raw = *mut c::pthread_rwlock_t;

#[repr(C)]
struct RwLock {
    word: RwLockWord<Real>,
    /// Readers that passed a waiting writer since a writer had the lock.
    passed: AtomicU32,
    /// Not 0: somebody has waited for a quantum, and whoever frees the lock leaves it for those whom that wakes
    /// (`mutex.rs`).
    starved: AtomicU32,
    /// The thread pointer of the writer inside; written by it.
    writer: AtomicU64,
    _unused_too: u32,
    /// From here on as the C library's `init` and static initialisers leave it. Not 0 when shared with other processes.
    shared: AtomicU32,
    _pads: [u64; 2],
    kind: AtomicU32,
}
const _: () = assert!(size_of::<RwLock>() <= size_of::<c::pthread_rwlock_t>());
const _: () = assert!(std::mem::offset_of!(RwLock, shared) == 28 && std::mem::offset_of!(RwLock, kind) == 48);

const WRITERS_FIRST: u32 = 2;

/// Readers that pass a waiting writer before readers give way, and for how many nanoseconds each does: reads for
/// writes. Eight readers and a writer on two processors: 2.25, 2.5 and 3.2 million reads a second with 64, 256 and
/// 1024, and 3,800, 3,300 and 2,100 writes. (Medians of seven, `rw` of docs/constants.md)
const PASSING_READERS: u32 = 256;
const GIVE_WAY_NS: u64 = 5_000_000;

thread_local! {
    /// The lock that the calling thread took last for reading while a writer waited, and how often it holds it so.
    static READING: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Reader,
    Writer,
}

impl RwLock {
    /// # Safety
    /// A lock of the program, initialised, alive during the call.
    unsafe fn of<'a>(lock: Raw) -> &'a Self {
        // SAFETY: as promised; all that is written is atomic.
        unsafe { &*lock.cast() }
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed) != 0
    }

    fn writers_first(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == WRITERS_FIRST
    }

    fn is_mine(&self) -> bool {
        // Only the thread itself writes its own name here.
        self.writer.load(Ordering::Relaxed) == thread_pointer()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.word).addr()
    }

    /// Sleeps until the gate changes.
    fn sleep(&self, role: Role, state: State, deadline: Option<u64>) -> Woken {
        let gate = futex::high_half(self.word.word());
        futex::wait_as(For::ALock, name(self.address(), role), gate, state.gate(), deadline, false)
    }

    #[inline(always)]
    fn try_write(&self) -> Result<(), State> {
        self.word.try_write().inspect(|()| self.is_inside())
    }

    /// As [`RwLock::try_write`], also if it is left for others.
    fn write_left(&self) -> Result<(), State> {
        self.word.try_write_left().inspect(|()| self.is_inside())
    }

    /// The calling thread is the writer.
    #[inline(always)]
    fn is_inside(&self) {
        self.writer.store(thread_pointer(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn read(&self, until: Until) -> Result<(), c_int> {
        match self.word.try_read(false) {
            Ok(()) => Ok(()),
            Err(_) => self.read_slow(until),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self, until: Until) -> Result<(), c_int> {
        if self.word.state().has_writer() && self.is_mine() {
            return Err(c::EDEADLK);
        }
        let deadline = until.deadline()?;
        if self.word.state().is_left() {
            crate::io::sleep::give_way();
        }
        let mut patience = Patience::default();
        let gives_way = Cell::new(None);
        let (lock, times) = READING.get();
        let times = if lock == self.address() { times } else { 0 };
        // Counter only.
        let may_pass = || {
            !self.writers_first()
                && (times > 0
                    || gives_way.get().is_some_and(|end| now(c::CLOCK_MONOTONIC) >= end)
                    || self.passed.load(Ordering::Relaxed) < PASSING_READERS)
        };
        let sleep = |state: State| {
            let mut end = deadline;
            if !state.has_writer() && !self.writers_first() {
                let way = gives_way.get().unwrap_or_else(|| now(c::CLOCK_MONOTONIC) + GIVE_WAY_NS);
                gives_way.set(Some(way));
                end = Some(deadline.unwrap_or(u64::MAX).min(way));
            }
            patience.sleeps(&self.starved);
            let slept = self.sleep(Role::Reader, state, end);
            if slept == Woken::TimedOut && end == deadline { Err(c::ETIMEDOUT) } else { Ok(()) }
        };
        match self.word.wait_to_read(may_pass, sleep) {
            Ok(passed) => {
                if passed {
                    self.passed.fetch_add(1, Ordering::Relaxed);
                    READING.set((self.address(), times + 1));
                }
                Ok(())
            }
            Err(Refused::Full) => Err(c::EAGAIN),
            Err(Refused::GivesUp(error)) => Err(error),
        }
    }

    #[inline(always)]
    fn write(&self, until: Until) -> Result<(), c_int> {
        match self.try_write() {
            Ok(()) => Ok(()),
            Err(_) => self.write_slow(until),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self, until: Until) -> Result<(), c_int> {
        if self.word.state().has_writer() && self.is_mine() {
            return Err(c::EDEADLK);
        }
        if self.word.state().is_left() {
            crate::io::sleep::give_way();
        } else if raddle::drop_in::is_lightweight() && raddle::drop_in::yield_before_wait() && self.try_write().is_ok()
        {
            return Ok(());
        }
        let deadline = until.deadline()?;
        let mut patience = Patience::default();
        self.word.wait_to_write(&Waiters, |state| {
            patience.sleeps(&self.starved);
            let undo = Undo::new(|| self.word.give_up(&Waiters));
            let slept = self.sleep(Role::Writer, state, deadline);
            undo.forget();
            if slept == Woken::TimedOut { Err(c::ETIMEDOUT) } else { Ok(()) }
        })?;
        self.is_inside();
        self.passed.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn unlock(&self) -> Result<(), c_int> {
        let state = self.word.state();
        if state.has_writer() {
            self.writer.store(0, Ordering::Relaxed);
        } else if state.has_waiting_writers() {
            let (lock, times) = READING.get();
            if lock == self.address() {
                READING.set((lock, times.saturating_sub(1)));
            }
        }
        let leaves = || leaves(&self.starved);
        if self.word.unlock(state, self.writers_first(), leaves, &Waiters) { Ok(()) } else { Err(c::EPERM) }
    }
}

/// The name under which those of a role sleep: the gate itself, or the word behind it, on which nobody sleeps.
fn name(lock: usize, role: Role) -> usize {
    lock + HIGH_HALF + 4 * usize::from(role == Role::Writer)
}

/// Those who wait for locks.
struct Waiters;

impl Roles for Waiters {
    fn writers_may_sleep(&self, lock: usize) -> bool {
        futex::somebody_waits_at(name(lock, Role::Writer))
    }

    // Not within the functions that a thread may leave (`process::spins`).
    #[inline(never)]
    fn wake_writer(&self, lock: usize) -> usize {
        futex::wake_as(name(lock, Role::Writer), lock + HIGH_HALF, 1)
    }

    #[inline(never)]
    fn wake_readers(&self, lock: usize) {
        futex::wake_as(name(lock, Role::Reader), lock + HIGH_HALF, usize::MAX);
    }
}

/// The entry points: `own` for a private lock, else the C library's function.
macro_rules! entry_points {
    ($($(#[$attribute:meta])* $name:ident($lock:ident $(, $argument:ident: $type:ty)*) = |$this:ident| $own:expr;)*) => {$(
        /// # Safety
        /// As POSIX, or the C library, says.
        #[unsafe(no_mangle)]
        $(#[$attribute])*
        pub unsafe extern "C-unwind" fn $name($lock: Raw $(, $argument: $type)*) -> c_int {
            // SAFETY: the caller's object.
            let $this = unsafe { RwLock::of($lock) };
            if $this.is_shared() {
                // SAFETY: the caller's arguments.
                return unsafe { next!($name: fn(Raw $(, $type)*) -> c_int)($lock $(, $argument)*) };
            }
            code($own)
        }
    )*};
}

/// # Safety
/// As for [`Until::checked`].
unsafe fn until(clock: c::clockid_t, time: *const c::timespec) -> Result<Until, c_int> {
    // SAFETY: null, or a time that is readable as long as the answer is used.
    unsafe { Until::checked(clock, time) }
}

fn try_read(lock: &RwLock) -> Result<(), c_int> {
    let may_pass = !lock.writers_first();
    let tried = lock.word.try_read(may_pass).or_else(|_| lock.word.try_read_left(may_pass));
    tried.map_err(|state| if state.is_full() { c::EAGAIN } else { c::EBUSY })
}

entry_points! {
    #[unsafe(link_section = "raddle_locks")]
    pthread_rwlock_rdlock(lock) = |this| this.read(Until::NEVER);
    #[unsafe(link_section = "raddle_locks")]
    pthread_rwlock_wrlock(lock) = |this| this.write(Until::NEVER);
    #[unsafe(link_section = "raddle_leaves")]
    pthread_rwlock_tryrdlock(lock) = |this| try_read(this);
    #[unsafe(link_section = "raddle_leaves")]
    pthread_rwlock_trywrlock(lock) = |this| this.try_write().or_else(|_| this.write_left()).map_err(|_| c::EBUSY);
    #[unsafe(link_section = "raddle_leaves")]
    pthread_rwlock_unlock(lock) = |this| this.unlock();
    pthread_rwlock_timedrdlock(lock, time: *const c::timespec) = |this|
        // SAFETY: the caller's time, used during the call.
        unsafe { until(c::CLOCK_REALTIME, time) }.and_then(|until| this.read(until));
    pthread_rwlock_timedwrlock(lock, time: *const c::timespec) = |this|
        // SAFETY: the caller's time, used during the call.
        unsafe { until(c::CLOCK_REALTIME, time) }.and_then(|until| this.write(until));
    pthread_rwlock_clockrdlock(lock, clock: c::clockid_t, time: *const c::timespec) = |this|
        // SAFETY: the caller's time, used during the call.
        unsafe { until(clock, time) }.and_then(|until| this.read(until));
    pthread_rwlock_clockwrlock(lock, clock: c::clockid_t, time: *const c::timespec) = |this|
        // SAFETY: the caller's time, used during the call.
        unsafe { until(clock, time) }.and_then(|until| this.write(until));
}

aliases! {
    __pthread_rwlock_rdlock = pthread_rwlock_rdlock(lock: Raw) -> c_int;
    __pthread_rwlock_wrlock = pthread_rwlock_wrlock(lock: Raw) -> c_int;
    __pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock(lock: Raw) -> c_int;
    __pthread_rwlock_trywrlock = pthread_rwlock_trywrlock(lock: Raw) -> c_int;
    __pthread_rwlock_unlock = pthread_rwlock_unlock(lock: Raw) -> c_int;
}
