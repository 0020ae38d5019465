//! `pthread_rwlock_t`: who is inside, and a gate, in one word.
//!
//! The low half says who holds the lock and who waits, the high half is the *gate*: a number that grows whenever those
//! who wait should look again. A thread that must wait reads both at once and sleeps while the gate is what it was.
//! Whoever frees the lock changes both in one exchange, its last access, and wakes by address. Readers sleep under the
//! gate's address, writers under the next word's, which raddle's table tells apart; kernel threads all sleep at the
//! gate, counted apart.
//!
//! Who goes first depends on the kind, as in the C library: by default readers do not wait for writers that wait (a
//! thread may take the lock for reading twice), with `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` they do. Where
//! readers go first, a writer that was passed by many times makes each further reader give way for a bounded while: so
//! a stream of readers that overlap ebbs. A reader that is known to hold the lock already does not give way; it is
//! known if it came while a writer waited (those who come, and leave, without a writer in sight do not look into their
//! thread-local storage), so each errs once at most for each writer.
//!
//! Invariant: a writer that sleeps is covered by `WRITERS_WAIT` in the word of a held lock, by an unlocker that has
//! cleared it and not yet woken a writer, or by a woken writer that has not yet taken the lock, set the bit again, or
//! given up; one that gives up clears the bit only when no other seems to wait, looks again after that, and wakes who
//! came in between. A reader that sleeps is covered by `READERS_WAIT` in the word of a held lock; whoever frees the
//! lock wakes all readers, or a writer, and when there was none to wake, the readers after all.

use super::{Until, code};
use crate::futex::{self, For, Woken};
use crate::os::{c, now, thread_pointer};
use crate::thread::undo::Undo;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

type Raw = *mut c::pthread_rwlock_t;

#[repr(C)]
struct RwLock {
    state: AtomicU64,
    /// Readers that passed a waiting writer since a writer had the lock.
    passed: AtomicU32,
    _unused: u32,
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

const READERS: u64 = WRITERS_WAIT - 1;
const WRITERS_WAIT: u64 = 1 << 29;
const READERS_WAIT: u64 = 1 << 30;
const WRITER: u64 = 1 << 31;
const GATE: u64 = 1 << 32;

/// Readers that pass a waiting writer before readers give way, and for how long each does (untested guesses).
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

    fn gate(&self) -> &AtomicU32 {
        // SAFETY: the second half of a live atomic word (little-endian); it is read only.
        unsafe { AtomicU32::from_ptr(self.state.as_ptr().cast::<u32>().add(1)) }
    }

    fn is_mine(&self) -> bool {
        // Only the thread itself writes its own name here.
        self.writer.load(Ordering::Relaxed) == thread_pointer()
    }

    /// Sleeps until the gate changes; `state` was read before.
    fn sleep(&self, role: Role, state: u64, deadline: Option<u64>) -> Woken {
        let gate = self.gate();
        let name = name(gate.as_ptr().addr(), role);
        futex::wait_as(For::ALock, name, gate, (state >> 32) as u32, deadline, false)
    }

    #[inline(always)]
    fn try_read(&self, may_pass: bool) -> Result<(), u64> {
        let blocks = if may_pass { WRITER } else { WRITER | WRITERS_WAIT };
        let mut state = self.state.load(Ordering::Relaxed);
        while state & blocks == 0 && state & READERS != READERS {
            // Acquire: pairs with the unlock of the last writer.
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    #[inline(always)]
    fn try_write(&self, still_waited_for: u64) -> Result<(), u64> {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (WRITER | READERS) == 0 {
            let new = state | WRITER | still_waited_for;
            // Acquire: pairs with the unlock of all who were inside.
            match self.state.compare_exchange_weak(state, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    self.writer.store(thread_pointer(), Ordering::Relaxed);
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
        Err(state)
    }

    #[inline(always)]
    fn read(&self, until: Until) -> Result<(), c_int> {
        match self.try_read(false) {
            Ok(()) => Ok(()),
            Err(_) => self.read_slow(until),
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self, until: Until) -> Result<(), c_int> {
        if self.state.load(Ordering::Relaxed) & WRITER != 0 && self.is_mine() {
            return Err(c::EDEADLK);
        }
        let deadline = until.deadline()?;
        let mut gives_way = None;
        let address = self.state.as_ptr().addr();
        let (lock, times) = READING.get();
        let times = if lock == address { times } else { 0 };
        loop {
            // Counter only.
            let may_pass = !self.writers_first()
                && (times > 0
                    || gives_way.is_some_and(|end| now(c::CLOCK_MONOTONIC) >= end)
                    || self.passed.load(Ordering::Relaxed) < PASSING_READERS);
            let state = match self.try_read(may_pass) {
                Ok(()) => {
                    if may_pass {
                        self.passed.fetch_add(1, Ordering::Relaxed);
                        READING.set((address, times + 1));
                    }
                    return Ok(());
                }
                Err(state) if state & READERS == READERS => return Err(c::EAGAIN),
                Err(state) => state,
            };
            if !self.announce(state, READERS_WAIT) {
                continue;
            }
            let mut end = deadline;
            if state & WRITER == 0 && !self.writers_first() {
                let way = *gives_way.get_or_insert_with(|| now(c::CLOCK_MONOTONIC) + GIVE_WAY_NS);
                end = Some(deadline.unwrap_or(u64::MAX).min(way));
            }
            if self.sleep(Role::Reader, state, end) == Woken::TimedOut && end == deadline {
                return Err(c::ETIMEDOUT);
            }
        }
    }

    #[inline(always)]
    fn write(&self, until: Until) -> Result<(), c_int> {
        match self.try_write(0) {
            Ok(()) => Ok(()),
            Err(_) => self.write_slow(until),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self, until: Until) -> Result<(), c_int> {
        if self.state.load(Ordering::Relaxed) & WRITER != 0 && self.is_mine() {
            return Err(c::EDEADLK);
        }
        if raddle::drop_in::is_lightweight() && raddle::drop_in::yield_before_wait() && self.try_write(0).is_ok() {
            return Ok(());
        }
        let deadline = until.deadline()?;
        let mut woken = false;
        loop {
            // Whether other writers sleep is read before the exchange, as for mutexes.
            let others = if woken && self.writers_may_sleep() { WRITERS_WAIT } else { 0 };
            let state = match self.try_write(others) {
                Ok(()) => {
                    self.passed.store(0, Ordering::Relaxed);
                    return Ok(());
                }
                Err(state) => state,
            };
            if !self.announce(state, WRITERS_WAIT) {
                continue;
            }
            let undo = Undo::new(|| self.give_up());
            let slept = self.sleep(Role::Writer, state, deadline);
            undo.forget();
            match slept {
                Woken::TimedOut => {
                    self.give_up();
                    return Err(c::ETIMEDOUT);
                }
                _ => woken = true,
            }
        }
    }

    /// Says in the word that the caller waits. False if the word has changed: look again.
    fn announce(&self, state: u64, bit: u64) -> bool {
        state & bit != 0
            // Relaxed: nobody reads more than the bit.
            || self.state.compare_exchange(state, state | bit, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn writers_may_sleep(&self) -> bool {
        let gate = self.gate().as_ptr().addr();
        futex::somebody_waits_at(name(gate, Role::Writer))
    }

    /// A writer leaves without the lock: readers that waited because of it go on.
    fn give_up(&self) {
        let gate = self.gate().as_ptr().addr();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            // Who seems to sleep may be one that has left, like the caller. One that was woken covers the others.
            if self.writers_may_sleep() && futex::wake_as(name(gate, Role::Writer), gate, 1) > 0 {
                return;
            }
            let readers = if state & WRITER == 0 { READERS_WAIT } else { 0 };
            let new = (state & !(WRITERS_WAIT | readers)).wrapping_add(GATE);
            if self.state.compare_exchange(state, new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                if state & readers != 0 {
                    futex::wake_as(name(gate, Role::Reader), gate, usize::MAX);
                }
                break;
            }
        }
        // A writer that came in between has published itself before this look, or sees the gate changed.
        if self.writers_may_sleep() {
            futex::wake_as(name(gate, Role::Writer), gate, 1);
        }
    }

    fn unlock(&self) -> Result<(), c_int> {
        let gate = self.gate().as_ptr().addr();
        let writers_first = self.writers_first();
        let mut state = self.state.load(Ordering::Relaxed);
        if state & WRITER != 0 {
            self.writer.store(0, Ordering::Relaxed);
        } else if state & WRITERS_WAIT != 0 {
            let (lock, times) = READING.get();
            if lock == self.state.as_ptr().addr() {
                READING.set((lock, times.saturating_sub(1)));
            }
        }
        loop {
            let mut new = match state {
                _ if state & WRITER != 0 => state & !WRITER,
                _ if state & READERS != 0 => state - 1,
                _ => return Err(c::EPERM),
            };
            let (mut writers, mut readers) = (false, false);
            if new & READERS == 0 {
                writers = new & WRITERS_WAIT != 0;
                readers = new & READERS_WAIT != 0 && !(writers && writers_first);
                if writers || readers {
                    let cleared = if readers { WRITERS_WAIT | READERS_WAIT } else { WRITERS_WAIT };
                    new = (new & !cleared).wrapping_add(GATE);
                }
            }
            // Release: pairs with the acquire of who comes next. From here on the lock may be gone.
            match self.state.compare_exchange_weak(state, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    if writers || readers {
                        wake(gate, writers, readers, new & READERS_WAIT != 0);
                    }
                    return Ok(());
                }
                Err(now) => state = now,
            }
        }
    }
}

/// The name under which those of a role sleep: the gate itself, or the word behind it, on which nobody sleeps.
fn name(gate: usize, role: Role) -> usize {
    gate + 4 * usize::from(role == Role::Writer)
}

/// After a lock was freed: `readers_stay` says that readers may sleep who are to be woken only if no writer was.
#[cold]
#[inline(never)]
fn wake(gate: usize, writers: bool, readers: bool, readers_stay: bool) {
    let woken = if writers { futex::wake_as(name(gate, Role::Writer), gate, 1) } else { 0 };
    if readers || readers_stay && woken == 0 {
        futex::wake_as(name(gate, Role::Reader), gate, usize::MAX);
    }
}

/// The entry points: `own` for a private lock, else the C library's function.
macro_rules! entry_points {
    ($($name:ident($lock:ident $(, $argument:ident: $type:ty)*) = |$this:ident| $own:expr;)*) => {$(
        /// # Safety
        /// As POSIX, or the C library, says.
        #[unsafe(no_mangle)]
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
    // SAFETY: the caller's promise.
    unsafe { Until::checked(clock, time) }
}

fn try_read(lock: &RwLock) -> Result<(), c_int> {
    let may_pass = !lock.writers_first();
    lock.try_read(may_pass).map_err(|state| if state & READERS == READERS { c::EAGAIN } else { c::EBUSY })
}

entry_points! {
    pthread_rwlock_rdlock(lock) = |this| this.read(Until::NEVER);
    pthread_rwlock_wrlock(lock) = |this| this.write(Until::NEVER);
    pthread_rwlock_tryrdlock(lock) = |this| try_read(this);
    pthread_rwlock_trywrlock(lock) = |this| this.try_write(0).map_err(|_| c::EBUSY);
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

super::mutex::aliases! {
    __pthread_rwlock_rdlock = pthread_rwlock_rdlock(lock: Raw),
    __pthread_rwlock_wrlock = pthread_rwlock_wrlock(lock: Raw),
    __pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock(lock: Raw),
    __pthread_rwlock_trywrlock = pthread_rwlock_trywrlock(lock: Raw),
    __pthread_rwlock_unlock = pthread_rwlock_unlock(lock: Raw),
}
