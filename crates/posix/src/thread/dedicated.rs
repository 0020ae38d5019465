//! Dedicated threads: those that have asked the kernel for what it ties to a kernel thread ([`crate::process::own`]).
//!
//! | who asks | becomes |
//! |---|---|
//! | a lightweight thread | the kernel thread that it runs on, which is its own from then on
//! ([`raddle::drop_in::dedicate`]): it keeps its `pthread_t`, stack and storage |
//! | a kernel thread of the program's (the first one, for one) | what it is, marked |
//! | whoever is created by one of these | a thread of the C library's, made from its creator: it inherits what
//! natively it would |
//!
//! To this library a dedicated thread is a kernel thread with a [`Record`]: the kernel has its mask and its signals,
//! it waits in the kernel, and `gettid` answers the kernel's number. What was left for it before goes to the kernel
//! with it.
//!
//! Nothing is noted before the runtime has kernel threads: what the program does until then, all of them inherit.
//!
//! A thread may be named by another one, by the number that `gettid` answered or by its `pthread_t`, in a call that
//! the kernel makes for kernel threads only. Then it is asked to become one ([`task_of`]), and does with the end of
//! its wait, before its code begins, or in the handler of a signal of ours that has met code of the program's.

use super::exit;
use super::record::{Record, Start};
use crate::os::{FROZEN_NS, c, now, system_call};
use crate::process::{masks, signals};
use raddle::drop_in::Spare;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Nanoseconds between two requests of it. Most need one: with 0.25, 1 and 4 ms a thread that sleeps is named in 57 to
/// 59 µs. (`named` of docs/constants.md)
const AGAIN_NS: u64 = 1_000_000;

/// The runtime has kernel threads, or had.
static RUNS: AtomicBool = AtomicBool::new(false);
/// Threads that were dedicated.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many threads came to be dedicated, or began so.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// A thread is being created: the runtime has kernel threads.
#[inline]
pub(crate) fn runtime_runs() {
    RUNS.store(true, Ordering::Relaxed);
}

/// Whether it has, or had.
#[inline]
pub(crate) fn has_runtime() -> bool {
    RUNS.load(Ordering::Relaxed)
}

/// In the child of a fork: the runtime has none, and whatever the caller has, all are to have.
pub(crate) fn forked() {
    RUNS.store(false, Ordering::Relaxed);
    FIRST_NAMED.store(false, Ordering::Relaxed);
    if let Some(me) = Record::current() {
        me.task.store(0, Ordering::Relaxed);
        IS_KNOWN.set(false);
    }
}

/// The kernel's number of the thread, if it is dedicated.
pub(crate) fn task(record: &Record) -> Option<u32> {
    // Acquire: what it did on its way.
    Some(record.task.load(Ordering::Acquire)).filter(|&task| task != 0)
}

/// True on a dedicated thread that was lightweight.
pub(crate) fn is_here() -> bool {
    Record::current().is_some_and(|me| task(me).is_some())
}

/// The calling thread is about to ask for what the kernel ties to a kernel thread: nobody else runs on its own from
/// now on.
///
/// # Errors
/// EAGAIN: no kernel thread can be had that would go on in its place, or the caller is a handler that has interrupted
/// a lightweight thread.
pub(crate) fn begin() -> Result<(), c_int> {
    begin_and(raddle::drop_in::mark)
}

/// As [`begin`], for processors or a memory policy, which a kernel thread of the program's may give back
/// ([`raddle::drop_in::mark_placing`]).
///
/// # Errors
/// As for [`begin`].
pub(crate) fn begin_placing() -> Result<(), c_int> {
    begin_and(raddle::drop_in::mark_placing)
}

fn begin_and(mark: fn()) -> Result<(), c_int> {
    if raddle::drop_in::is_marked_for_good() || !RUNS.load(Ordering::Relaxed) || crate::process::vfork::is_child() {
        return Ok(());
    }
    if raddle::drop_in::is_lightweight() {
        return dedicate(Spare::Any).map(signals::set_kernel_mask).ok_or(c::EAGAIN);
    }
    if raddle::drop_in::is_kernel_thread_of_runtime() {
        return Err(c::EAGAIN);
    }
    mark();
    Ok(())
}

thread_local! {
    /// The kernel knows the calling thread as a holder of locks.
    static IS_KNOWN: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is about to lock what the kernel gives to others if its holder dies: on a kernel thread of its
/// own, by whose number it holds such locks from now on. Whoever it creates inherits nothing by this. False where no
/// kernel thread can be had: the locks are the C library's alone.
pub(crate) fn known_to_kernel() -> bool {
    let Some(me) = Record::current().filter(|_| !IS_KNOWN.get()) else { return true };
    if raddle::drop_in::is_lightweight() {
        let Some(mask) = dedicate(Spare::Any) else { return false };
        raddle::drop_in::unmark();
        signals::set_kernel_mask(mask);
    }
    // The child of a fork is alone on its process's first kernel thread.
    if let Some(task) = task(me).or_else(|| me.is_forker().then(std::process::id)) {
        // SAFETY: the calling thread's, which keeps it until both end.
        IS_KNOWN.set(unsafe { raddle::drop_in::known_to_kernel(task) });
    }
    IS_KNOWN.get()
}

/// The calling thread is about to become a parent, or to get a descriptor for the signals that are pending for it. The
/// kernel knows kernel threads only: who may trace the child and wait for it, with whose end it is sent a signal, what
/// is pending. Whoever the thread creates inherits nothing by this. Where no kernel thread can be had, these are the
/// kernel thread's that it runs on, and the descriptor tells of the process's signals alone.
pub(crate) fn known_alone() {
    if raddle::drop_in::is_lightweight()
        && !crate::process::vfork::is_child()
        && let Some(mask) = dedicate(Spare::Any)
    {
        raddle::drop_in::unmark();
        signals::set_kernel_mask(mask);
    }
}

/// The program's first thread was named by another one in a call that changes what its threads inherit.
static FIRST_NAMED: AtomicBool = AtomicBool::new(false);

/// A call that changes what a thread's kernel thread has names this one, which may be the C library's.
pub(super) fn names_kernel_thread(id: c::pthread_t) {
    names_and(id, raddle::drop_in::mark);
}

/// As [`names_kernel_thread`], for processors.
pub(super) fn names_for_placing(id: c::pthread_t) {
    names_and(id, raddle::drop_in::mark_placing);
}

fn names_and(id: c::pthread_t, mark: fn()) {
    if Record::is_ours(id) || !RUNS.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: takes nothing.
    if Record::current().is_none() && unsafe { next!(pthread_self: fn() -> c::pthread_t)() } == id {
        mark();
    } else if exit::first_thread(id).is_some() {
        FIRST_NAMED.store(true, Ordering::Relaxed);
    }
}

/// As [`names_kernel_thread`], by the kernel's number.
pub(crate) fn names_number(number: c_int) {
    if number as u32 == std::process::id() && RUNS.load(Ordering::Relaxed) {
        FIRST_NAMED.store(true, Ordering::Relaxed);
    }
}

/// The calling lightweight thread becomes a kernel thread, with all signals blocked that can wait. The answer is the
/// mask that it is to have.
fn dedicate(spare: Spare) -> Option<signals::Set> {
    let task = raddle::drop_in::dedicate(spare)?;
    COUNT.fetch_add(1, Ordering::Relaxed);
    let Some(me) = Record::current() else {
        // Of the library's own interface.
        return Some(0);
    };
    let mask = me.mask.swap(signals::Set::MAX, Ordering::SeqCst);
    // Release: pairs with `task`.
    me.task.store(task, Ordering::Release);
    me.asked.store(false, Ordering::Relaxed);
    masks::changed(mask, signals::Set::MAX);
    signals::pass_on(me);
    let (name, length) = me.name();
    let name = match &name[..length.min(15)] {
        // As one that has none of its own: the program's. SAFETY: the C library's own string.
        [] => unsafe { std::ffi::CStr::from_ptr(c::program_invocation_short_name) }.to_bytes(),
        own => own,
    };
    let name = [&name[..name.len().min(15)], b"\0"].concat();
    // SAFETY: a C string.
    unsafe { system_call(c::SYS_prctl, [c::PR_SET_NAME as usize, name.as_ptr().addr(), 0, 0, 0, 0]) };
    crate::futex::wake(me.task.as_ptr().addr(), usize::MAX);
    Some(mask & !signals::kicks())
}

/// Another thread has named the caller, and this is a place where it can become a kernel thread.
pub(crate) fn dedicate_if_asked() {
    if Record::current().is_some_and(|me| me.asked.load(Ordering::Relaxed)) && raddle::drop_in::is_lightweight() {
        dedicate(Spare::Any).into_iter().for_each(signals::set_kernel_mask);
    }
}

/// In the handler of a signal of ours that has met code of the program's.
///
/// # Safety
/// `context` is the kernel's argument to that handler, which returns after this.
pub(crate) unsafe fn look_in_handler(context: *mut c_void) {
    let asked = Record::current().is_some_and(|me| me.asked.load(Ordering::Relaxed));
    // Code of the program's that the runtime has called, an allocator, may return to who has looked who runs there.
    if !asked || !raddle::drop_in::is_lightweight() || raddle::drop_in::is_native() {
        return;
    }
    if let Some(mask) = dedicate(Spare::Waiting) {
        // SAFETY: the saved mask, which the kernel takes back when the handler returns; the kernel's set is the first
        // word.
        unsafe { (&raw mut (*context.cast::<c::ucontext_t>()).uc_sigmask).cast::<signals::Set>().write(mask) };
    }
}

/// The kernel's number of a thread of ours, which becomes a kernel thread if it is none. The caller holds the record.
///
/// # Errors
/// EAGAIN: no kernel thread can be had, or the thread was inside a library for too long. ESRCH: it has ended.
pub(crate) fn task_of(target: &'static Record) -> Result<u32, c_int> {
    if target.is_current() && !target.is_forker() {
        begin()?;
    }
    let end = now(c::CLOCK_MONOTONIC) + FROZEN_NS;
    loop {
        if let Some(task) = task(target) {
            return Ok(task);
        }
        if target.is_forker() {
            return Ok(std::process::id());
        }
        if target.ends.load(Ordering::SeqCst) {
            return Err(c::ESRCH);
        }
        let time = now(c::CLOCK_MONOTONIC);
        if time > end || !raddle::drop_in::provide_spare(raddle::pool::default_pool()) {
            return Err(c::EAGAIN);
        }
        target.asked.store(true, Ordering::SeqCst);
        signals::interrupt_and(target, true);
        crate::futex::wait(crate::futex::For::AWord, &target.task, 0, Some(time + AGAIN_NS), false);
    }
}

/// What a thread of the C library's is created with by a thread that is dedicated.
struct Beginning {
    start: Start,
    argument: *mut c_void,
    mask: signals::Set,
}

/// As `pthread_create`: a thread of the C library's, which inherits what the kernel ties to the caller's kernel
/// thread, and counts as a dedicated one.
///
/// # Safety
/// As POSIX says.
pub(super) unsafe fn create(
    id: *mut c::pthread_t,
    attributes: *const c::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let beginning = Box::into_raw(Box::new(Beginning { start, argument, mask: signals::own_mask() }));
    exit::thread_begins();
    let create = next!(pthread_create: fn(*mut c::pthread_t, *const c::pthread_attr_t, Start, *mut c_void) -> c_int);
    let before = signals::block_movable();
    // SAFETY: the caller's arguments; the box is the new thread's.
    let result = unsafe { create(id, attributes, first, beginning.cast()) };
    signals::set_kernel_mask(before);
    if result != 0 {
        exit::thread_was_not();
        // SAFETY: made above; no thread has it.
        drop(unsafe { Box::from_raw(beginning) });
    }
    result
}

unsafe extern "C-unwind" fn first(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `create` made for this thread.
    let Beginning { start, argument, mask } = *unsafe { Box::from_raw(beginning.cast::<Beginning>()) };
    raddle::drop_in::mark();
    COUNT.fetch_add(1, Ordering::Relaxed);
    count_end();
    signals::set_kernel_mask(mask);
    // SAFETY: what the program has given; nothing with a destructor is alive here.
    unsafe { start(argument) }
}

/// Has the end of the calling kernel thread counted, in the last round of the destructors of thread-specific data.
fn count_end() {
    static KEY: OnceLock<Option<c::pthread_key_t>> = OnceLock::new();

    unsafe extern "C" fn round(number: *mut c_void) {
        let number = number.addr();
        match KEY.get() {
            Some(Some(key)) if number < c::PTHREAD_DESTRUCTOR_ITERATIONS => {
                // SAFETY: a live key.
                unsafe { c::pthread_setspecific(*key, std::ptr::without_provenance(number + 1)) };
            }
            _ => exit::thread_ends(),
        }
    }

    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key's place, and a destructor of the right type.
        (unsafe { c::pthread_key_create(&mut key, Some(round)) } == 0).then_some(key)
    });
    match key {
        // SAFETY: a live key.
        Some(key) => _ = unsafe { c::pthread_setspecific(*key, std::ptr::without_provenance(1)) },
        // It is not waited for.
        None => exit::thread_was_not(),
    }
}

/// True if attributes ask for what the kernel ties to a kernel thread: a scheduling class of its own, or processors.
///
/// # Safety
/// Initialised attributes.
unsafe fn asks_for_own(attributes: *const c::pthread_attr_t) -> bool {
    unsafe extern "C" {
        fn pthread_attr_getaffinity_np(of: *const c::pthread_attr_t, size: usize, set: *mut c::cpu_set_t) -> c_int;
    }
    // SAFETY: the getters read initialised attributes, and write to the locals.
    unsafe {
        let (mut inherits, mut class) = (0, 0);
        c::pthread_attr_getinheritsched(attributes, &mut inherits);
        c::pthread_attr_getschedpolicy(attributes, &mut class);
        if inherits == c::PTHREAD_EXPLICIT_SCHED && class != c::SCHED_OTHER {
            return true;
        }
        let mut wanted = [0u64; size_of::<c::cpu_set_t>() / 8];
        let (size, place) = (size_of_val(&wanted), wanted.as_mut_ptr());
        // Attributes without processors answer ones, and no system call is made for them.
        pthread_attr_getaffinity_np(attributes, size, place.cast()) == 0
            && wanted.iter().any(|&word| word != u64::MAX)
            && super::identity::is_less_than_allowed(size, wanted.as_ptr().expose_provenance())
    }
}

/// True if the thread that the caller creates is to be a thread of the C library's.
///
/// # Safety
/// Null or initialised attributes.
#[inline]
pub(super) unsafe fn is_to_create(attributes: *const c::pthread_attr_t) -> bool {
    // SAFETY: not null, so initialised attributes.
    raddle::drop_in::is_marked()
        || FIRST_NAMED.load(Ordering::Relaxed) && Record::current().is_none() && exit::is_first()
        || !attributes.is_null() && unsafe { asks_for_own(attributes) }
}

/// The word that a record keeps for this module: its kernel thread's number; 0: none of its own.
pub(super) type Task = AtomicU32;
