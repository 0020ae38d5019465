//! `pthread_mutex_t`: a futex word with the C library's kind beside it.
//!
//! The word and why none is left asleep: [`raddle::drop_in::words::mutex`]. Locks barge. Before a thread sleeps it
//! looks again a few times, then yields once: the holder is often one switch away.
//!
//! None starves behind a thread that takes it again and again: [`super::starving`].
//!
//! The owner of recursive and error-checking mutexes is known by its thread pointer, in the word that the C library
//! uses for its list of robust mutexes; robust ones go to the C library, process-shared ones, and those with a ceiling.
//! A lightweight thread that locks one whose holder the kernel has to know becomes dedicated, and so does one that a
//! ceiling is to raise. Private priority-inheriting mutexes are as those without a protocol, but only their holder
//! unlocks them: lightweight threads have no kernel priority to inherit, nor a number that the kernel could know the
//! holder by.

use super::starving::{Patience, leaves};
use super::{Until, ceiling, code};
use crate::futex::{self, For, Woken};
use crate::os::{c, thread_pointer};
use crate::thread::{cancel, dedicated};
use raddle::drop_in::words::mutex::{MutexWord, WAITED_FOR};
use raddle::drop_in::{PAUSES, SPINS};
use raddle_machine::{Real, RealAtomic};
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

type Raw = *mut c::pthread_mutex_t;

/// The C library's layout.
#[repr(C)]
pub(super) struct Mutex {
    word: MutexWord<Real>,
    /// How often a recursive mutex is held. Written by the holder.
    count: AtomicU32,
    _owner: u32,
    /// Threads that wait on a condition variable with this mutex. Written by the holder.
    users: AtomicU32,
    kind: AtomicU32,
    /// Not 0: somebody has waited for a quantum, and the next unlock leaves the mutex for whom it wakes. A hint. Where
    /// the C library counts spins.
    starved: AtomicU32,
    /// The holder's thread pointer, written by the holder: for the kinds that ask, and for dumps.
    owner: AtomicU64,
}
const _: () = assert!(size_of::<Mutex>() <= size_of::<c::pthread_mutex_t>());
const _: () = assert!(std::mem::offset_of!(Mutex, word) == 0);
const _: () = assert!(std::mem::offset_of!(Mutex, owner) == raddle::drop_in::HOLDER_AT);

/// Kinds, without the bits that say something about lock elision.
const KIND: u32 = 0xff;
const NORMAL: u32 = 0;
const RECURSIVE: u32 = 1;
const ERRORCHECK: u32 = 2;
const ADAPTIVE: u32 = 3;
const ROBUST: u32 = 16;
const INHERIT: u32 = 32;
const PROTECT: u32 = 64;
/// Robust, with a ceiling, process-shared: the C library's. A destroyed mutex has all bits.
const FOREIGN: u32 = ROBUST | PROTECT | 128;
/// Mutexes of the C library's that ask the kernel about their holder by its number.
const BY_NUMBER: u32 = INHERIT | PROTECT;

impl Mutex {
    /// # Safety
    /// A mutex of the program, initialised, alive during the call.
    unsafe fn of<'a>(mutex: Raw) -> &'a Self {
        // SAFETY: as promised; the layout is the C library's, and all that is written is atomic.
        unsafe { &*mutex.cast() }
    }

    /// The kind as this file handles it; `None` for the C library's.
    #[inline]
    fn kind(&self) -> Option<u32> {
        let kind = self.kind.load(Ordering::Relaxed) & KIND;
        (kind & FOREIGN == 0).then_some(kind & !INHERIT)
    }

    /// Before the C library locks the mutex, which is its own, for the caller.
    fn let_the_kernel_know(&self) -> Result<(), c_int> {
        let kind = self.kind.load(Ordering::Relaxed);
        let asks = kind & (ROBUST | BY_NUMBER) != 0;
        // Without a number that the kernel knows, a robust mutex is no more than not reported.
        if asks && !dedicated::known_to_kernel() && kind & BY_NUMBER != 0 { Err(c::EAGAIN) } else { Ok(()) }
    }

    /// `lock`, of a mutex that is the C library's, once the kernel knows what it has to.
    fn by_the_c_library(&self, lock: impl FnOnce() -> c_int) -> c_int {
        match self.let_the_kernel_know() {
            Ok(()) if self.kind.load(Ordering::Relaxed) & PROTECT != 0 => ceiling::noting(lock),
            Ok(()) => lock(),
            Err(error) => error,
        }
    }

    #[inline(always)]
    fn is_simple(&self) -> bool {
        let kind = self.kind.load(Ordering::Relaxed) & KIND;
        kind == NORMAL || kind == ADAPTIVE
    }

    #[inline(always)]
    fn acquire(&self, until: Until, ends: bool) -> Result<(), c_int> {
        if self.word.try_acquire() { Ok(()) } else { self.contend(until, ends) }
    }

    /// For dumps: the calling thread holds it, which is simple. Nobody takes the name away: it says something only
    /// while the word is not 0.
    #[inline(always)]
    fn name_holder(&self) {
        self.owner.store(thread_pointer(), Ordering::Relaxed);
    }

    /// As the C library says: which of two faults of a time it finds first, and that the kernel takes no time before
    /// its first for a mutex that inherits priorities.
    fn deadline(&self, until: Until) -> Result<Option<u64>, c_int> {
        let kind = self.kind.load(Ordering::Relaxed);
        match until.is_before_all() {
            true if kind & INHERIT != 0 => Err(c::EINVAL),
            true => Err(c::ETIMEDOUT),
            false => until.deadline(),
        }
    }

    #[cold]
    #[inline(never)]
    fn contend(&self, until: Until, ends: bool) -> Result<(), c_int> {
        if self.word.is_left() {
            crate::io::sleep::give_way();
        }
        for _ in 0..SPINS {
            if self.word.is_waited_for() {
                break;
            }
            if !self.word.is_held() && self.word.try_acquire() {
                return Ok(());
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
        if raddle::drop_in::is_lightweight() && raddle::drop_in::yield_before_wait() && self.word.try_acquire() {
            return Ok(());
        }
        let deadline = self.deadline(until)?;
        let address = self.word.word().as_ptr().addr();
        let mut patience = Patience::default();
        let sleep = |word: &RealAtomic<u32>| {
            patience.sleeps(&self.starved);
            let ends = ends && cancel::is_asynchronous();
            // One whose cancellation is asynchronous leaves as one who timed out: the word says that somebody waits,
            // and no wake-up was consumed.
            match futex::wait(For::AMutex, futex::plain(word), WAITED_FOR, deadline, ends) {
                Woken::TimedOut => return Err(c::ETIMEDOUT),
                Woken::Cancelled => cancel::asynchronous_point(|| {}),
                _ => return Ok(true),
            }
            Ok(false)
        };
        self.word.wait_for(|| futex::somebody_waits_at(address), sleep)
    }

    #[inline(always)]
    fn release(&self) {
        self.word.release(|| leaves(&self.starved), wake_one);
    }

    /// Locks a mutex of any kind but the C library's. With `ends`, an asynchronous cancellation ends the wait, and the
    /// thread: nothing with a destructor may be alive.
    #[inline(never)]
    #[unsafe(link_section = "raddle_locks")]
    fn lock_kind(&self, kind: u32, until: Until, ends: bool) -> Result<(), c_int> {
        if kind == NORMAL || kind == ADAPTIVE {
            self.acquire(until, ends)?;
            match self.is_its_holders(kind) {
                true => self.own(thread_pointer()),
                false => self.name_holder(),
            }
            return Ok(());
        }
        let me = thread_pointer();
        // Only the thread itself writes its own name here, so the comparison needs no order.
        if self.owner.load(Ordering::Relaxed) == me {
            return match kind {
                RECURSIVE => self.again(),
                ERRORCHECK => Err(c::EDEADLK),
                _ => Err(c::EINVAL),
            };
        }
        self.acquire(until, ends)?;
        self.own(me);
        Ok(())
    }

    fn own(&self, me: u64) {
        self.owner.store(me, Ordering::Relaxed);
        self.count.store(1, Ordering::Relaxed);
    }

    fn again(&self) -> Result<(), c_int> {
        let count = self.count.load(Ordering::Relaxed).checked_add(1).ok_or(c::EAGAIN)?;
        self.count.store(count, Ordering::Relaxed);
        Ok(())
    }

    fn try_lock_kind(&self, kind: u32) -> Result<(), c_int> {
        let me = thread_pointer();
        if self.is_its_holders(kind) && self.owner.load(Ordering::Relaxed) == me {
            match kind {
                RECURSIVE => return self.again(),
                // As the C library, of a mutex with a protocol.
                ERRORCHECK if self.kind.load(Ordering::Relaxed) & INHERIT != 0 => return Err(c::EDEADLK),
                _ => {}
            }
        }
        if !self.word.try_acquire() && !self.word.try_acquire_left() {
            return Err(c::EBUSY);
        }
        if self.is_its_holders(kind) {
            self.own(me);
        } else {
            self.name_holder();
        }
        Ok(())
    }

    /// Whether only the holder unlocks it.
    fn is_its_holders(&self, kind: u32) -> bool {
        kind == RECURSIVE || kind == ERRORCHECK || self.kind.load(Ordering::Relaxed) & INHERIT != 0
    }

    fn unlock_kind(&self, kind: u32) -> Result<(), c_int> {
        if self.is_its_holders(kind) {
            if self.owner.load(Ordering::Relaxed) != thread_pointer() {
                return Err(c::EPERM);
            }
            let count = self.count.load(Ordering::Relaxed) - 1;
            self.count.store(count, Ordering::Relaxed);
            if count > 0 {
                return Ok(());
            }
            self.owner.store(0, Ordering::Relaxed);
        }
        self.release();
        Ok(())
    }

    /// A thread that holds the mutex is about to wait with it, or has waited.
    fn count_user(&self, difference: i32) {
        let users = self.users.load(Ordering::Relaxed).wrapping_add_signed(difference);
        self.users.store(users, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn wake_one(address: usize) {
    futex::wake(address, 1);
}

/// Gives the mutex up for a wait on a condition variable.
///
/// # Safety
/// As for `pthread_mutex_unlock`.
pub(super) unsafe fn unlock_to_wait(mutex: Raw) -> Result<(), c_int> {
    // SAFETY: a mutex of the program's, alive during the call, which the calling thread holds.
    let this = unsafe { Mutex::of(mutex) };
    let Some(kind) = this.kind() else {
        // SAFETY: a mutex of the program's, which the calling thread holds.
        return match unsafe { pthread_mutex_unlock(mutex) } {
            0 => Ok(()),
            error => Err(error),
        };
    };
    if this.is_its_holders(kind) && this.owner.load(Ordering::Relaxed) != thread_pointer() {
        return Err(c::EPERM);
    }
    this.count_user(1);
    this.unlock_kind(kind)
}

/// Takes it again.
///
/// # Safety
/// After [`unlock_to_wait`] of the same thread.
pub(super) unsafe fn relock(mutex: Raw) -> Result<(), c_int> {
    // SAFETY: the mutex that the calling thread gave up for its wait, alive since.
    let this = unsafe { Mutex::of(mutex) };
    let Some(kind) = this.kind() else {
        // SAFETY: the mutex that the calling thread gave up for its wait, alive since.
        return match unsafe { pthread_mutex_lock(mutex) } {
            0 => Ok(()),
            error => Err(error),
        };
    };
    // The wait that this ends has consumed a wake-up.
    this.lock_kind(kind, Until::NEVER, false)?;
    this.count_user(-1);
    Ok(())
}

#[entry]
pub unsafe extern "C" fn pthread_mutex_init(mutex: Raw, attributes: *const c::pthread_mutexattr_t) -> c_int {
    let result = natively!();
    if result == 0 {
        // SAFETY: the caller's mutex, which nobody uses yet.
        let this = unsafe { Mutex::of(mutex) };
        let kind = this.kind.load(Ordering::Relaxed);
        // At a thread's end the kernel would not find what it holds, and the C library relies on that.
        if kind & ROBUST != 0 && kind & INHERIT != 0 {
            this.kind.store(kind & !INHERIT, Ordering::Relaxed);
        }
    }
    result
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_mutex_setprioceiling(mutex: Raw, ceiling: c_int, old: *mut c_int) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind().is_some() {
        return natively!();
    }
    // Which locks it, if the caller does not hold it.
    this.by_the_c_library(|| natively!())
}

#[entry]
#[unsafe(link_section = "raddle_locks")]
pub unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    if this.is_simple() && this.word.try_acquire() {
        this.name_holder();
        return 0;
    }
    // SAFETY: the caller's mutex.
    unsafe { lock_otherwise(mutex) }
}

/// A mutex that is held, or of another kind. Apart, so that the other way saves no registers.
///
/// # Safety
/// As for `pthread_mutex_lock`.
#[cold]
#[inline(never)]
#[unsafe(link_section = "raddle_locks")]
unsafe extern "C-unwind" fn lock_otherwise(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    match this.kind() {
        Some(kind) => code(this.lock_kind(kind, Until::NEVER, true)),
        // SAFETY: the caller's mutex.
        None => unsafe { lock_foreign(mutex) },
    }
}

/// A mutex that is the C library's.
///
/// # Safety
/// As for `pthread_mutex_lock`.
#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn lock_foreign(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    // SAFETY: the caller's argument.
    this.by_the_c_library(|| unsafe { next!(pthread_mutex_lock: fn(Raw) -> c_int)(mutex) })
}

#[entry]
#[unsafe(link_section = "raddle_leaves")]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    if this.is_simple() {
        if !this.word.try_acquire() && !this.word.try_acquire_left() {
            return c::EBUSY;
        }
        this.name_holder();
        return 0;
    }
    // SAFETY: the caller's mutex.
    unsafe { try_otherwise(mutex) }
}

/// A mutex of another kind: as [`lock_otherwise`].
///
/// # Safety
/// As for `pthread_mutex_trylock`.
#[inline(never)]
#[unsafe(link_section = "raddle_leaves")]
unsafe extern "C" fn try_otherwise(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    match this.kind() {
        Some(kind) => code(this.try_lock_kind(kind)),
        // SAFETY: the caller's mutex.
        None => unsafe { try_foreign(mutex) },
    }
}

/// As [`lock_foreign`].
///
/// # Safety
/// As for `pthread_mutex_trylock`.
#[cold]
#[inline(never)]
unsafe extern "C" fn try_foreign(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    // SAFETY: the caller's argument.
    this.by_the_c_library(|| unsafe { next!(pthread_mutex_trylock: fn(Raw) -> c_int)(mutex) })
}

#[entry]
#[unsafe(link_section = "raddle_leaves")]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    if this.is_simple() {
        this.release();
        return 0;
    }
    // SAFETY: the caller's mutex.
    unsafe { unlock_otherwise(mutex) }
}

/// A mutex of another kind: as [`lock_otherwise`].
///
/// # Safety
/// As for `pthread_mutex_unlock`.
#[inline(never)]
#[unsafe(link_section = "raddle_leaves")]
unsafe extern "C" fn unlock_otherwise(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    match this.kind() {
        Some(kind) => code(this.unlock_kind(kind)),
        // SAFETY: the caller's argument.
        None => unsafe { next!(pthread_mutex_unlock: fn(Raw) -> c_int)(mutex) },
    }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_mutex_timedlock(mutex: Raw, time: *const c::timespec) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    match this.kind() {
        Some(kind) => {
            // SAFETY: the caller's time, used during the call.
            let until = unsafe { Until::new(c::CLOCK_REALTIME, time) };
            code(until.and_then(|until| this.lock_kind(kind, until, true)))
        }
        None => this.by_the_c_library(|| natively!()),
    }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_mutex_clocklock(
    mutex: Raw,
    clock: c::clockid_t,
    time: *const c::timespec,
) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    match this.kind() {
        Some(kind) => {
            // SAFETY: the caller's time, used during the call.
            let until = unsafe { Until::new(clock, time) };
            code(until.and_then(|until| this.lock_kind(kind, until, true)))
        }
        None => this.by_the_c_library(|| natively!()),
    }
}

#[entry]
pub unsafe extern "C" fn pthread_mutex_destroy(mutex: Raw) -> c_int {
    // SAFETY: the caller's mutex.
    let this = unsafe { Mutex::of(mutex) };
    if this.kind().is_none() {
        return natively!();
    }
    if this.word.is_held() || this.users.load(Ordering::Relaxed) != 0 {
        return c::EBUSY;
    }
    // What the C library leaves: later calls answer EINVAL.
    this.kind.store(u32::MAX, Ordering::Relaxed);
    0
}

aliases! {
    __pthread_mutex_init = pthread_mutex_init(mutex: Raw, attributes: *const c::pthread_mutexattr_t) -> c_int;
    __pthread_mutex_lock = pthread_mutex_lock(mutex: Raw) -> c_int;
    __pthread_mutex_trylock = pthread_mutex_trylock(mutex: Raw) -> c_int;
    __pthread_mutex_unlock = pthread_mutex_unlock(mutex: Raw) -> c_int;
    __pthread_mutex_destroy = pthread_mutex_destroy(mutex: Raw) -> c_int;
}
