//! Sleeping on a word of the program's memory, for whoever calls.
//!
//! Lightweight threads sleep in raddle's table, kernel threads in the kernel's, on the same address. A waker asks both.
//! So that it need not ask the kernel in vain, kernel threads are counted while they sleep, in buckets chosen by the
//! address: a bucket of zero means that none sleeps there. A kernel thread that sleeps uncounted (in a call that only
//! passes through) sets [`ALWAYS_ASK`] for good.
//!
//! Why none is missed: [`raddle::drop_in::words`].
//!
//! A lightweight thread inside the runtime, and a signal handler that interrupted it, count as kernel threads: the word
//! is the same, so nothing is lost.

use crate::os::reach::PAGE_BYTES;
use crate::os::{c, now, system_call};
use crate::process::{kernel_waits, watch};
use crate::thread::caller::Caller;
use crate::thread::record::Record;
use crate::thread::undo::Undo;
use raddle::drop_in::words::{Bucket, HIGH_HALF, Sleepers};
use raddle_machine::{Real, RealAtomic};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It is worth looking again.
    LookAgain,
    /// The deadline has passed; no wake-up was consumed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// The calling thread's cancellation was requested (only with `cancellable`).
    Cancelled,
}

/// A page of them, a power of two: while s kernel threads sleep, a wake-up of nobody asks the kernel in s of 1024
/// cases.
const BUCKETS: usize = PAGE_BYTES / size_of::<Bucket<Real>>();
static SLEEPERS: [Bucket<Real>; BUCKETS] = [const { Bucket::constant() }; BUCKETS];
static ALWAYS_ASK: AtomicBool = AtomicBool::new(false);

fn sleepers(address: usize) -> &'static Bucket<Real> {
    &SLEEPERS[(address >> 2 ^ address >> 12) & (BUCKETS - 1)]
}

/// From now on every wake-up asks the kernel too: somebody sleeps there uncounted.
pub(crate) fn always_ask_the_kernel() {
    ALWAYS_ASK.store(true, Ordering::SeqCst);
}

/// True when kernel threads may sleep at `address`. Racy; after a SeqCst fence, false means that who comes later sees
/// the word changed.
fn kernel_threads_may_sleep_at(address: usize) -> bool {
    sleepers(address).may_sleep() || ALWAYS_ASK.load(Ordering::Relaxed)
}

/// Counts the caller as asleep in the kernel at `address` while `call` runs.
pub(crate) fn counted<T>(address: usize, call: impl FnOnce() -> T) -> T {
    sleepers(address).asleep(call)
}

/// True when somebody may sleep at `address`, or under that name: racy, for whoever was woken there and owes the others
/// a wake-up.
pub(crate) fn somebody_waits_at(address: usize) -> bool {
    !raddle::drop_in::nobody_waits_at(address) || kernel_threads_may_sleep_at(address)
}

/// A word of an object, as the futex calls take it.
#[inline(always)]
pub(crate) fn plain(word: &RealAtomic<u32>) -> &AtomicU32 {
    // SAFETY: of a live word, which is an `AtomicU32`.
    unsafe { AtomicU32::from_ptr(word.as_ptr()) }
}

/// The high half of a word of an object, as the futex calls take it.
#[inline(always)]
pub(crate) fn high_half(word: &RealAtomic<u64>) -> &AtomicU32 {
    // SAFETY: half of a live word that is written by atomic operations only, aligned as a half is; a futex reads it
    // only.
    unsafe { AtomicU32::from_ptr(std::ptr::from_ref(word).cast_mut().cast::<u32>().byte_add(HIGH_HALF)) }
}

/// Blocks the caller while `*word == expected`: until a wake-up, the deadline (nanoseconds of CLOCK_MONOTONIC), with
/// `cancellable` its cancellation, a signal or for no reason.
pub(crate) fn wait(what: For, word: &AtomicU32, expected: u32, deadline: Option<u64>, cancellable: bool) -> Woken {
    wait_as(what, word.as_ptr().addr(), word, expected, deadline, cancellable)
}

/// What a wait is for, as dumps and traces say it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    AWord,
    AMutex,
    ACondition,
    ASemaphore,
    ALock,
    ABarrier,
    AnInitialiser,
    AnEnd,
}

impl For {
    #[inline(always)]
    fn text(self) -> &'static str {
        match self {
            For::AWord | For::AMutex => "a word in memory",
            For::ACondition => "a condition variable",
            For::ASemaphore => "a semaphore",
            For::ALock => "a reader-writer lock",
            For::ABarrier => "a barrier",
            For::AnInitialiser => "an initialiser that runs once",
            For::AnEnd => "the end of a thread",
        }
    }
}

/// As [`wait`], but under `name` instead of the word's address: lightweight threads that share a word can be woken
/// apart, kernel threads are counted apart. A name is an address at which nobody waits otherwise.
pub(crate) fn wait_as(
    what: For,
    name: usize,
    word: &AtomicU32,
    expected: u32,
    deadline: Option<u64>,
    cancellable: bool,
) -> Woken {
    let address = word.as_ptr().addr();
    let caller = Caller::here();
    // A handler where its thread may wait: a collector that stops the world, as a rule.
    let again = |_| wait_as(what, name, word, expected, deadline, cancellable);
    if let Some(woken) = watch::as_thread(caller, None, again) {
        return woken;
    }
    // One who is apart waits for a mutex in the kernel: he would have to wait for a processor after it, and go apart
    // anew. (Not for one after the other.)
    let lightweight = matches!(caller, Caller::Light(_));
    let apart = lightweight && !cancellable && crate::io::Apart::stays_for_a_word();
    if lightweight && !apart {
        // Acquire: pairs with the release of whoever changed the word.
        let changed = || word.load(Ordering::Acquire) != expected;
        if deadline.is_some_and(|at| at <= now(c::CLOCK_MONOTONIC)) {
            // One who polls with times that have passed lets others run, as the kernel would.
            raddle::drop_in::yield_now();
            return if changed() { Woken::LookAgain } else { Woken::TimedOut };
        }
        let watch = watch::begin();
        crate::io::Apart::waits_otherwise();
        // It may have consumed a wake-up; whoever gets it in its stead looks again.
        let pass_on = Undo::new(|| {
            wake_as(name, address, 1);
        });
        let waited = match what {
            For::AMutex => raddle::drop_in::wait_for_mutex_at(name, deadline, cancellable, changed),
            other => raddle::drop_in::wait_at(other.text(), name, deadline, cancellable, changed),
        };
        pass_on.forget();
        return match waited {
            // No handler restarts a wait with a time limit.
            Ok(()) if watch.ended() || deadline.is_some() && watch.interrupted() => Woken::Interrupted,
            Ok(()) => Woken::LookAgain,
            Err(raddle::sync::WaitError::TimedOut) => Woken::TimedOut,
            Err(raddle::sync::WaitError::Cancelled) => Woken::Cancelled,
        };
    }
    wait_in_kernel(name, address, expected, deadline, cancellable, apart)
}

/// The same in the kernel. Apart: its frame is not one of those of a thread that parks.
#[inline(never)]
fn wait_in_kernel(
    name: usize,
    address: usize,
    expected: u32,
    deadline: Option<u64>,
    cancellable: bool,
    apart: bool,
) -> Woken {
    let time = deadline.map(|at| c::timespec {
        tv_sec: (at / 1_000_000_000) as c::time_t,
        tv_nsec: (at % 1_000_000_000) as c::c_long,
    });
    let time = time.as_ref().map_or(0, |time| std::ptr::from_ref(time).addr());
    let operation = (c::FUTEX_WAIT_BITSET | c::FUTEX_PRIVATE_FLAG) as usize;
    let any = c::FUTEX_BITSET_MATCH_ANY as u32 as usize;
    let arguments = [address, operation, expected as usize, time, 0, any];
    // SAFETY: the word is live, the time null or live (absolute and monotonic with FUTEX_WAIT_BITSET).
    let call = || unsafe {
        match Record::current() {
            None if cancellable => kernel_waits::call(c::SYS_futex, arguments),
            // In a handler, or on a kernel thread of its own: a signal of ours would have the kernel wait anew.
            Some(_) if cancellable => kernel_waits::wait(c::SYS_futex, arguments, true),
            _ => system_call(c::SYS_futex, arguments),
        }
    };
    let result =
        counted(name, || if apart && deadline.is_none() { raddle::drop_in::wait_apart(address, call) } else { call() });
    let is_requested = || cancellable && crate::thread::cancel::is_requested_here();
    if result == kernel_waits::CANCELLED || result == -(c::EINTR as isize) && is_requested() {
        Woken::Cancelled
    } else if result == -(c::ETIMEDOUT as isize) {
        Woken::TimedOut
    } else if result == -(c::EINTR as isize) {
        Woken::Interrupted
    } else {
        Woken::LookAgain
    }
}

/// Every so many wake-ups that find kernel threads asleep begin with the lightweight ones, so that neither kind waits
/// for ever.
const TURN: u32 = 4;

/// Wakes at most `count` of those who sleep at `address`, of both kinds, and says how many. The caller has changed the
/// word; it may be gone already: the address is only a name.
pub(crate) fn wake(address: usize, count: usize) -> usize {
    static TURNS: AtomicU32 = AtomicU32::new(0);
    let waker = raddle::drop_in::waker_at(address);
    // Pairs also with the table's waiters (`AddressTable::wait`).
    Bucket::<Real>::before_look();
    if !kernel_threads_may_sleep_at(address) {
        return waker.wake_after_fence(count);
    }
    if TURNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(TURN) {
        let woken = waker.wake_after_fence(count);
        woken + wake_kernel_threads(address, count - woken)
    } else {
        let woken = wake_kernel_threads(address, count);
        woken + waker.wake_after_fence(count - woken)
    }
}

/// As [`wake`], but `count` of each kind: for objects that allow spurious wake-ups and must not wake one who came later
/// instead of one who came before.
fn wake_each(address: usize, count: usize) {
    let waker = raddle::drop_in::waker_at(address);
    Bucket::<Real>::before_look();
    waker.wake_after_fence(count);
    if kernel_threads_may_sleep_at(address) {
        wake_kernel_threads(address, count);
    }
}

/// Those who sleep on words of the program's objects.
pub(crate) struct All;

impl Sleepers for All {
    #[inline(always)]
    fn wake(&self, address: usize, count: usize) -> usize {
        wake(address, count)
    }

    #[inline(always)]
    fn wake_each(&self, address: usize, count: usize) {
        wake_each(address, count);
    }
}

/// Wakes at most `count` lightweight threads that sleep under `name`, and all kernel threads that sleep at `address` if
/// any sleeps under that name. Says how many.
pub(crate) fn wake_as(name: usize, address: usize, count: usize) -> usize {
    let waker = raddle::drop_in::waker_at(name);
    Bucket::<Real>::before_look();
    let woken = waker.wake_after_fence(count);
    woken + if kernel_threads_may_sleep_at(name) { wake_kernel_threads(address, usize::MAX) } else { 0 }
}

fn wake_kernel_threads(address: usize, count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let operation = (c::FUTEX_WAKE | c::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the address is a name only.
    let woken = unsafe { system_call(c::SYS_futex, [address, operation, count.min(i32::MAX as usize), 0, 0, 0]) };
    woken.max(0) as usize
}
