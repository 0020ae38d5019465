//! The ends of threads, and of the process with the last of them.
//!
//! A process goes on until its last thread has ended, also when its first one called `pthread_exit`: threads are
//! counted, and the last one calls `exit(0)`. The first thread is a kernel thread; after its `pthread_exit` it stays,
//! with nothing left to run, to receive the signals that are sent to the process.

use super::cancel;
use super::record::Record;
use crate::os::{c, system_call};
use crate::process::masks;
use raddle_macros::entry;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Threads that have not ended, the first one included; kernel threads that libraries start are not counted.
static LIVE: AtomicUsize = AtomicUsize::new(1);

/// This process, from the first thread of ours on.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The first thread's id, as the C library has it; 0 until the first thread of ours is created.
static FIRST: AtomicUsize = AtomicUsize::new(0);
/// In the child of a lightweight thread's fork: that thread's id. It is the first one there.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// 1 once it has ended by `pthread_exit`: its kernel thread goes on, so who joins it waits for this word.
static FIRST_ENDED: AtomicU32 = AtomicU32::new(0);
/// What it ended with: by cancellation, unless it called `pthread_exit`.
static FIRST_RESULT: AtomicPtr<c_void> = AtomicPtr::new(cancel::CANCELED);

/// Notes who the first thread is, if it is the caller, and has its end noted.
pub(crate) fn prepare() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    if is_first() {
        // One of ours that a fork made the first ends as its kind does.
        if Record::current().is_none() {
            prepare_first();
            raddle::drop_in::count_kernel_thread();
        }
        // SAFETY: takes nothing.
        FIRST.store(unsafe { next!(pthread_self: fn() -> c::pthread_t)() } as usize, Ordering::Relaxed);
    }
}

/// Whether there were ever threads of ours.
pub(crate) fn has_threads() -> bool {
    PROCESS.load(Ordering::Relaxed) != 0
}

/// Whether somebody joins it, as records say it.
static FIRST_JOINED: AtomicU32 = AtomicU32::new(super::record::JOINABLE);

/// What joining the first thread takes.
pub(super) struct First {
    pub ended: &'static AtomicU32,
    pub result: &'static AtomicPtr<c_void>,
    pub joined: &'static AtomicU32,
}

/// The first thread, if that is its id: the C library's, or, in the child of a lightweight thread's fork, ours.
#[inline]
pub(super) fn first_thread(id: c::pthread_t) -> Option<First> {
    let is_first = id as usize == FIRST.load(Ordering::Relaxed) || id as usize == FORKER.load(Ordering::Relaxed);
    (is_first && id != 0).then_some(First { ended: &FIRST_ENDED, result: &FIRST_RESULT, joined: &FIRST_JOINED })
}

/// A thread is about to be created.
pub(super) fn thread_begins() {
    LIVE.fetch_add(1, Ordering::Relaxed);
}

/// The first kernel thread is none of the program's threads any more.
pub(super) fn first_has_nothing_to_run() {
    // AcqRel: as in `thread_ends`.
    if LIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: no thread of the program is left.
        unsafe { c::exit(0) };
    }
}

/// It could not be created.
pub(super) fn thread_was_not() {
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

/// The calling thread's code has ended, destructors included. Does not return when it was the last one.
pub(super) fn thread_ends() {
    crate::sync::ceiling::put_back();
    // AcqRel: what all threads did comes before the exit.
    if LIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: no thread of the program is left.
        unsafe { c::exit(0) };
    }
}

/// Does not return in the first thread of a forked process, after its end: the other threads' kernel threads go on
/// while it waits for the process's.
pub(super) fn rest_if_first(me: &Record) {
    if !raddle::drop_in::is_lightweight() && super::dedicated::task(me).is_none() {
        FIRST_RESULT.store(me.result.load(Ordering::Relaxed), Ordering::Relaxed);
        first_has_ended();
        rest()
    }
}

/// Who joins the first thread goes on.
fn first_has_ended() {
    FIRST_ENDED.store(1, Ordering::Release);
    crate::futex::wake((&raw const FIRST_ENDED).addr(), usize::MAX);
}

/// In the child of a fork: one thread is left.
pub(crate) fn forked() {
    LIVE.store(1, Ordering::Relaxed);
    FIRST.store(0, Ordering::Relaxed);
    FIRST_ENDED.store(0, Ordering::Relaxed);
    let me = Record::current();
    FORKER.store(me.map_or(0, |me| me.id() as usize), Ordering::Relaxed);
    let detached = me.is_some_and(|me| me.state.load(Ordering::Relaxed) == super::record::DETACHED);
    let joined = if detached { super::record::DETACHED } else { super::record::JOINABLE };
    FIRST_JOINED.store(joined, Ordering::Relaxed);
    if let Some(me) = me {
        // Who joined it is gone.
        me.state.store(joined, Ordering::Relaxed);
    }
    Record::forked();
    prepare();
}

/// A kernel thread without anything to run, that takes the signals which it did not block.
pub(super) fn rest() -> ! {
    loop {
        // SAFETY: waits for a signal, with the present mask.
        raddle::drop_in::asleep_in_kernel(|| unsafe { system_call(c::SYS_ppoll, [0; 6]) });
    }
}

/// Ends the calling thread: destructors and cleanup handlers run, joiners get `value`.
#[entry]
pub unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    if let Some(me) = Record::current() {
        if !masks::is_in_handler() {
            me.result.store(value, Ordering::Relaxed);
            cancel::begin_exit(me);
            // A handler for a fault, which is the program's own, leaves its signal blocked.
            masks::let_faults_in();
        } else if !cancel::is_exiting(me) {
            me.result.store(value, Ordering::Relaxed);
            cancel::leaves_handler(me);
        }
    } else if masks::is_in_handler() {
        crate::process::ending::ends_with(value);
    } else if FIRST.load(Ordering::Relaxed) != 0 && is_first() {
        // Also as the last one: the C library would wait for the kernel threads of the runtime.
        FIRST_RESULT.store(value, Ordering::Relaxed);
        prepare_first();
    }
    let found = next!(pthread_exit: fn(*mut c_void) -> !) as *const ();
    // SAFETY: the C library's function, which unwinds.
    unsafe { std::mem::transmute::<*const (), unsafe extern "C-unwind" fn(*mut c_void) -> !>(found)(value) }
}

/// The program is about to have the kernel end the calling thread, by `syscall`. What is a thread of ours ends here:
/// without cleanup handlers, but with the destructors of what is its own. The last one ends the process.
pub(crate) fn at_once(status: usize) {
    // SAFETY: takes nothing.
    let process = unsafe { system_call(c::SYS_getpid, [0; 6]) } as u32;
    // The child of a `vfork`, or of a `clone` that shares memory, has nothing of its own here; before the first thread
    // there is nothing of ours.
    if PROCESS.load(Ordering::Relaxed) != process {
        return;
    }
    let is_first = is_first();
    if LIVE.load(Ordering::Relaxed) == 1 && (is_first || Record::current().is_some()) {
        // SAFETY: no thread of the program is left. What is registered to run at the end does not.
        unsafe { system_call(c::SYS_exit_group, [status, 0, 0, 0, 0, 0]) };
    } else if let Some(me) = Record::current() {
        if masks::is_in_handler() {
            // SAFETY: the calling thread's own call.
            unsafe { pthread_exit(std::ptr::null_mut()) }
        }
        me.result.store(std::ptr::null_mut(), Ordering::Relaxed);
        cancel::begin_exit(me);
        // SAFETY: in the thread's own code, in no handler; between are frames of the program's and of `syscall`.
        unsafe { super::trampoline::leave() }
    } else if is_first {
        FIRST_RESULT.store(std::ptr::null_mut(), Ordering::Relaxed);
        masks::first_ends();
        thread_ends();
        first_has_ended();
        rest()
    }
}

/// True on the process's first kernel thread.
pub(crate) fn is_first() -> bool {
    // SAFETY: take nothing.
    unsafe { system_call(c::SYS_gettid, [0; 6]) == system_call(c::SYS_getpid, [0; 6]) }
}

/// The first thread may end by itself: what comes after its destructors is a destructor of ours, which the C library
/// runs in the last round.
fn prepare_first() {
    static KEY: OnceLock<Option<c::pthread_key_t>> = OnceLock::new();

    unsafe extern "C" fn round(number: *mut c_void) {
        let number = number.addr();
        if number < c::PTHREAD_DESTRUCTOR_ITERATIONS {
            let next = std::ptr::without_provenance::<c_void>(number + 1);
            if let Some(Some(key)) = KEY.get() {
                // SAFETY: a live key.
                unsafe { c::pthread_setspecific(*key, next) };
                return;
            }
        }
        masks::first_ends();
        // First: else who has joined it may end before it is counted, and it would run the program's last functions in
        // that one's place.
        thread_ends();
        first_has_ended();
        rest()
    }

    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key's place, and a destructor of the right type.
        (unsafe { c::pthread_key_create(&mut key, Some(round)) } == 0).then_some(key)
    });
    if let Some(key) = key {
        // SAFETY: a live key.
        unsafe { c::pthread_setspecific(*key, std::ptr::without_provenance(1)) };
    }
}
