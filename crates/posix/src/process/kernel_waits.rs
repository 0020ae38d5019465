//! Waits in the kernel, made by this library, that a cancellation ends.
//!
//! Kernel threads: the program's first thread, and all of them where threads stay kernel threads.
//!
//! The C library does not know of these waits, so its `pthread_cancel` notes the request and wakes nobody. Each such
//! thread has a note here, found by its id and made by whoever needs it first: a canceller marks the request in it and,
//! if the thread says that it waits, sends it the C library's own signal for cancellation (32), which no program can
//! block. The handler takes the thread out of the wait; the waiter then answers "cancelled", puts its object in order
//! and enters the C library's cancellation point.
//!
//! Events: W the waiter says that it waits, L its look at the request; R the request is marked, S the canceller's look
//! for waiters. Forbidden: L misses R and S misses W. All are SeqCst. A signal between L and the system call finds the
//! thread inside [`call_unless`], and moves it to the end of it (as do libraries whose own calls are cancellation
//! points).
//!
//! Lightweight threads that wait in the kernel themselves ([`wait`], `io::apart`) use the same few instructions.
//!
//! A note outlives its thread; the next one with that id finds it, and drops a request of which the C library does not
//! know. (Where the C library's word is not found, it has one wake-up for no reason.)

use super::rights::KernelAction;
use super::watch;
use crate::os::reach::PAGE_BYTES;
use crate::os::{c, now, system_call};
use crate::thread::caller::Caller;
use crate::thread::record::Record;
use crate::thread::{cancel, libc_word};
use raddle::drop_in::slab::Slab;
use raddle_machine::Real;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The C library's signal for cancellation.
const CANCEL: c_int = 32;

/// What a call answers that was given up.
pub(crate) const CANCELLED: isize = isize::MIN;

/// What is known of a kernel thread.
struct Note {
    /// Its `pthread_t`.
    thread: AtomicUsize,
    /// Its kernel id while it waits; 0 otherwise.
    waits: AtomicU32,
    /// 1: its cancellation was asked for since it last answered "cancelled".
    asked: AtomicU32,
    next: AtomicPtr<Note>,
}

/// A page of them, a power of two: with 512 kernel threads a list has one note on average.
const LISTS: usize = PAGE_BYTES / size_of::<AtomicPtr<Note>>();
static NOTES: [AtomicPtr<Note>; LISTS] = [const { AtomicPtr::new(null_mut()) }; LISTS];

thread_local! {
    static WAITING: Cell<Waiting> = const { Cell::new(Waiting::NOTHING) };
    /// 1: a signal of ours has come since the calling lightweight thread was about to wait.
    static MET: AtomicU32 = const { AtomicU32::new(0) };
}

/// What the calling kernel thread waits for.
#[derive(Clone, Copy)]
struct Waiting {
    /// Its note while it waits; null otherwise.
    note: *const Note,
    /// The wait is the runtime's, and not a system call made here.
    runtimes: bool,
}

impl Waiting {
    const NOTHING: Waiting = Waiting { note: null(), runtimes: false };

    /// In a signal handler that has interrupted what `context` says: ends the wait, or has it not begin.
    fn give_up(self, context: &mut c::ucontext_t) {
        if self.runtimes {
            raddle::drop_in::cancel_own_wait();
        } else {
            give_up(context);
        }
    }
}

/// A signal of ours has come here.
pub(super) fn met() {
    // Relaxed: for the interrupted code.
    MET.with(|met| met.store(1, Ordering::Relaxed));
}

/// Makes a system call that waits, on a lightweight thread or in a handler on one: its answer, EINTR after a handler,
/// or [`CANCELLED`] if the thread is to be cancelled. Elsewhere just makes it. `restarts`: the kernel would repeat it
/// after a handler that restarts calls; else any handler ends it.
///
/// # Safety
/// As for the system call, which has no time limit that must not begin anew.
#[inline(never)]
pub(crate) unsafe fn wait(number: c::c_long, arguments: [usize; 6], restarts: bool) -> isize {
    // SAFETY: the caller answers for number and arguments, which stay what they are.
    unsafe { wait_again(number, arguments, restarts, true, |_| None) }
}

/// As [`wait`], for a call that a handler restarts, on a socket whose own limit, if it has one, is so many nanoseconds:
/// after a signal of ours the kernel's limit begins anew, but once it is over the call is not made again. So it ends
/// late by at most that limit.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn wait_within(number: c::c_long, arguments: [usize; 6], limit_ns: Option<u64>) -> isize {
    let end = limit_ns.map(|limit| now(c::CLOCK_MONOTONIC).saturating_add(limit));
    let over = |_: &mut [usize; 6]| {
        let over = end.is_some_and(|end| now(c::CLOCK_MONOTONIC) >= end);
        over.then_some(-(c::EAGAIN as isize))
    };
    // SAFETY: the caller answers for number and arguments, which stay what they are.
    unsafe { wait_again(number, arguments, true, true, over) }
}

/// As [`wait`], ended by a cancellation only if that is wanted. `again`: what the arguments become before the call is
/// made once more, or the answer where it is not.
///
/// # Safety
/// As for the system call, with the arguments and with what `again` makes of them.
pub(crate) unsafe fn wait_again(
    number: c::c_long,
    mut arguments: [usize; 6],
    restarts: bool,
    cancellable: bool,
    mut again: impl FnMut(&mut [usize; 6]) -> Option<isize>,
) -> isize {
    let Some(me) = Caller::here().record_or_dedicated() else {
        // SAFETY: the caller answers for number and arguments.
        return unsafe { system_call(number, arguments) };
    };
    let handlers = watch::begin();
    loop {
        MET.with(|met| met.store(0, Ordering::Relaxed));
        if cancellable && cancel::is_requested(me) {
            return CANCELLED;
        }
        // SAFETY: a word of this thread's; the caller's promise.
        let result = MET.with(|met| unsafe { call_unless(met.as_ptr(), number as usize, arguments.as_ptr()) });
        let cut = result == -(c::EINTR as isize) && MET.with(|met| met.load(Ordering::Relaxed)) != 0;
        if result != CANCELLED && !cut {
            return result;
        }
        if cancellable && cancel::is_requested(me) {
            return CANCELLED;
        }
        if handlers.ended() || !restarts && handlers.interrupted() {
            return -(c::EINTR as isize);
        }
        if let Some(answer) = again(&mut arguments) {
            return answer;
        }
    }
}

fn slab() -> &'static Arc<Slab<Note, Real>> {
    static SLAB: OnceLock<Arc<Slab<Note, Real>>> = OnceLock::new();
    SLAB.get_or_init(|| {
        Slab::new(|_| Note {
            thread: AtomicUsize::new(0),
            waits: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            next: AtomicPtr::new(null_mut()),
        })
    })
}

/// While the process begins: takes the memory for the first chunk of notes. A wait must not ask the allocator for it:
/// natively it needs none, be it made where no memory is left or in a handler that has interrupted the allocator.
pub(crate) fn prepare_notes() {
    if let Ok(note) = slab().allocate() {
        // SAFETY: allocated above, shown to nobody.
        unsafe { slab().free(note) };
    }
}

/// The note of the thread of that id, made if there is none yet. `None`: no memory.
fn note(thread: usize) -> Option<&'static Note> {
    let list = &NOTES[(thread >> 12 ^ thread >> 20) & (LISTS - 1)];
    let mut made: Option<&'static Note> = None;
    loop {
        let first = list.load(Ordering::Acquire);
        let mut at = first;
        // SAFETY: null or a note, which are never given back once they are in a list.
        while let Some(note) = unsafe { at.as_ref() } {
            if note.thread.load(Ordering::Relaxed) == thread {
                if let Some(made) = made {
                    // SAFETY: allocated below, shown to nobody.
                    unsafe { slab().free(made.into()) };
                }
                return Some(note);
            }
            at = note.next.load(Ordering::Relaxed);
        }
        let new = match made {
            Some(made) => made,
            // SAFETY: type-stable, and the slab lives as long as the process.
            None => unsafe { slab().allocate().ok()?.as_ref() },
        };
        made = Some(new);
        new.thread.store(thread, Ordering::Relaxed);
        new.waits.store(0, Ordering::Relaxed);
        new.asked.store(0, Ordering::Relaxed);
        new.next.store(first, Ordering::Relaxed);
        // Release: pairs with the acquire above. A list that has grown is searched again.
        if list.compare_exchange(first, std::ptr::from_ref(new).cast_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            return Some(new);
        }
    }
}

/// Makes a system call that waits, on a kernel thread: its answer, EINTR after a handler, or [`CANCELLED`].
///
/// # Safety
/// As for the system call, which has no time limit that must not begin anew.
#[inline(never)]
pub(crate) unsafe fn call(number: c::c_long, arguments: [usize; 6]) -> isize {
    let call = |asked: &AtomicU32| {
        // SAFETY: a live word, or one on the stack; the caller's promise.
        raddle::drop_in::asleep_in_kernel(|| unsafe {
            call_unless(asked.as_ptr(), number as usize, arguments.as_ptr())
        })
    };
    let end = |result: &isize| match *result {
        CANCELLED => End::GivenUp,
        result if result == -(c::EINTR as isize) => End::Interrupted,
        _ => End::Over,
    };
    announced(false, call, end).unwrap_or(CANCELLED)
}

/// Waits in the runtime by `wait`, which can be cancelled, on a kernel thread: its answer, or `None` if the thread is
/// to be cancelled.
#[inline(never)]
pub(crate) fn of_runtime<E>(
    wait: impl Fn() -> Result<(), E>,
    is_cancelled: impl Fn(&E) -> bool,
) -> Option<Result<(), E>> {
    let wait = |asked: &AtomicU32| {
        raddle::drop_in::wait_as_kernel_thread(|| {
            if asked.load(Ordering::SeqCst) != 0 {
                raddle::drop_in::cancel_own_wait();
            }
            wait()
        })
    };
    let end = |result: &Result<(), E>| match result {
        Err(error) if is_cancelled(error) => End::GivenUp,
        _ => End::Over,
    };
    announced(true, wait, end)
}

/// How a wait on a kernel thread has ended.
enum End {
    /// As it does by itself.
    Over,
    /// By a signal, perhaps that of a canceller.
    Interrupted,
    /// By that, or before it began.
    GivenUp,
}

/// Waits by `wait` on a kernel thread, where a canceller finds it: its answer, or `None` if the thread is to be
/// cancelled. `wait` looks at the word that it gets before it begins. `runtimes`: as [`Waiting::runtimes`].
fn announced<T>(runtimes: bool, wait: impl Fn(&AtomicU32) -> T, end: impl Fn(&T) -> End) -> Option<T> {
    // SAFETY: takes nothing.
    let me = unsafe { next!(pthread_self: fn() -> c::pthread_t)() } as usize;
    let Some(note) = note(me) else { return Some(wait(&AtomicU32::new(0))) };
    WAITING.set(Waiting { note, runtimes });
    // SAFETY: takes nothing.
    let task = unsafe { system_call(c::SYS_gettid, [0; 6]) } as u32;
    // It does already, where a handler has interrupted such a wait.
    let outer = Some(note.waits.load(Ordering::Relaxed)).filter(|&waits| waits == task).unwrap_or(0);
    note.waits.store(task, Ordering::SeqCst);
    let result = loop {
        let result = wait(&note.asked);
        let end = end(&result);
        let asked = !matches!(end, End::Over) && note.asked.swap(0, Ordering::SeqCst) != 0;
        // The C library noted the request before it was marked here: what it does not know was meant for a thread
        // that had this id, or this task's number, before.
        let cancelled = match (end, libc_word::is_to_be_cancelled()) {
            // What a wait has consumed it answers; the request then waits for the next one.
            (End::Over, _) => false,
            (End::GivenUp, Some(false)) => continue,
            // The C library's own signal may come before the request is marked here.
            (_, Some(noted)) => noted,
            (_, None) => asked,
        };
        if cancelled {
            // The next cancellation point acts, though the canceller's signal may still be on its way.
            libc_word::complete_request();
            break None;
        }
        break Some(result);
    };
    note.waits.store(outer, Ordering::SeqCst);
    WAITING.set(Waiting::NOTHING);
    result
}

/// The wait that a handler of the program's has interrupted on a kernel thread, which is none of the handler's.
pub(super) struct Interrupted(Waiting);

impl Interrupted {
    /// Before the handler.
    pub(super) fn begin() -> Interrupted {
        Interrupted(WAITING.replace(Waiting::NOTHING))
    }

    /// After the handler, which has interrupted what `context` says: a request that came meanwhile ends the wait.
    pub(super) fn end(self, context: &mut c::ucontext_t) {
        // SAFETY: null or a note, which are never given back.
        let Some(note) = (unsafe { self.0.note.as_ref() }) else {
            WAITING.set(self.0);
            return;
        };
        // A request that is marked after the look below comes by a signal, which finds the thread back in its wait: the
        // return from this handler lets it in.
        let cancel: u64 = 1 << (CANCEL - 1);
        let arguments = [c::SIG_BLOCK as usize, (&raw const cancel).expose_provenance(), 0, 8, 0, 0];
        // SAFETY: a live set of the kernel's size; what was blocked before is not asked for.
        unsafe { system_call(c::SYS_rt_sigprocmask, arguments) };
        WAITING.set(self.0);
        if note.asked.load(Ordering::SeqCst) != 0 {
            self.0.give_up(context);
        }
    }
}

/// Makes a system call, which may wait in a handler on a lightweight thread: there a signal of ours ends it (EINTR),
/// and a cancellation ([`CANCELLED`]). Elsewhere just makes it.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn attempt(number: c::c_long, arguments: [usize; 6]) -> isize {
    let me = match Caller::here() {
        Caller::Handler(me) => me,
        _ => None,
    };
    // SAFETY: the caller answers for number and arguments.
    unsafe { attempt_of(me, number, arguments) }
}

/// The same on a lightweight thread, too.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn attempt_anywhere(number: c::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller answers for number and arguments.
    unsafe { attempt_of(Caller::here().record_or_dedicated(), number, arguments) }
}

/// # Safety
/// As for the system call.
unsafe fn attempt_of(me: Option<&'static Record>, number: c::c_long, arguments: [usize; 6]) -> isize {
    let Some(me) = me else {
        // SAFETY: the caller answers for number and arguments.
        return unsafe { system_call(number, arguments) };
    };
    MET.with(|met| met.store(0, Ordering::Relaxed));
    if cancel::is_requested(me) {
        return CANCELLED;
    }
    // SAFETY: a word of this thread's; the caller's promise.
    let result = MET.with(|met| unsafe { call_unless(met.as_ptr(), number as usize, arguments.as_ptr()) });
    let cut = result == CANCELLED || result == -(c::EINTR as isize);
    match result {
        _ if cut && cancel::is_requested(me) => CANCELLED,
        CANCELLED => -(c::EINTR as isize),
        result => result,
    }
}

/// Makes a system call that waits, on a lightweight thread, unless `*asked` is not 0: its answer, EINTR after a
/// handler, or [`CANCELLED`] when `*asked` was not 0 or a signal of ours found the thread about to make the call.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn call_while_zero(asked: &AtomicU32, number: c::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: a live word; the caller's promise.
    unsafe { call_unless(asked.as_ptr(), number as usize, arguments.as_ptr()) }
}

/// After the C library has noted a request: ends the wait that the thread is in, or its next one.
pub(crate) fn end(thread: c::pthread_t) {
    let Some(note) = note(thread as usize) else { return };
    note.asked.store(1, Ordering::SeqCst);
    let task = note.waits.load(Ordering::SeqCst);
    if task != 0 && prepare() {
        // SAFETY: takes integers; a task that has ended is an error that nobody minds.
        unsafe {
            let process = system_call(c::SYS_getpid, [0; 6]) as usize;
            system_call(c::SYS_tgkill, [process, task as usize, CANCEL as usize, 0, 0, 0]);
        }
    }
}

static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

/// Takes the place of the C library's handler, which is there since the first cancellation. False without one.
fn prepare() -> bool {
    let mut action = KernelAction::default();
    let place = (&raw mut action).expose_provenance();
    let action = &mut action;
    // SAFETY: the kernel writes, then reads, one action of its own layout.
    unsafe {
        if system_call(c::SYS_rt_sigaction, [CANCEL as usize, 0, place, 8, 0, 0]) != 0 || action.handler <= c::SIG_IGN {
            return false;
        }
        if action.handler != signalled as *const () as usize {
            ORIGINAL.store(action.handler, Ordering::Release);
            action.handler = signalled as *const () as usize;
            system_call(c::SYS_rt_sigaction, [CANCEL as usize, place, 0, 8, 0, 0]);
        }
    }
    true
}

unsafe extern "C-unwind" fn signalled(signal: c_int, info: *mut c_void, context: *mut c_void) {
    if !WAITING.get().note.is_null() {
        // In a handler of the program's that has interrupted a cancellation point of the C library: its canceller has
        // left it to this signal that the thread is cancelled at all.
        libc_word::complete_request();
        // SAFETY: the kernel's argument to this handler: the interrupted code's registers, which nobody else has while
        // the handler runs.
        unsafe { WAITING.get().give_up(&mut *context.cast()) };
        return;
    }
    type Handler = unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut c_void);
    // SAFETY: stored before this function was installed; the C library's handler, with the kernel's arguments.
    unsafe { std::mem::transmute::<usize, Handler>(ORIGINAL.load(Ordering::Acquire))(signal, info, context) };
}

/// A thread that is about to make its call, or would make it again, makes it no more. `context`: the registers of what
/// a signal interrupted.
pub(super) fn give_up(context: &mut c::ucontext_t) {
    let labels = [&raw const raddle_wait_begins, &raw const raddle_wait_made, &raw const raddle_wait_given_up];
    let [begins, made, given_up] = labels.map(|label| label.addr());
    #[cfg(target_arch = "x86_64")]
    {
        let at = &mut context.uc_mcontext.gregs[c::REG_RIP as usize];
        if (begins..made).contains(&(*at as usize)) {
            *at = given_up as i64;
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let at = &mut context.uc_mcontext.pc;
        if (begins..made).contains(&(*at as usize)) {
            *at = given_up as u64;
        }
    }
}

unsafe extern "C" {
    // Labels in the code below.
    static raddle_wait_begins: u8;
    static raddle_wait_made: u8;
    static raddle_wait_given_up: u8;
}

/// Makes the system call unless `*asked` is not 0: then, or when [`give_up`] finds it before the call, answers
/// [`CANCELLED`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn call_unless(asked: *mut u32, number: usize, arguments: *const usize) -> isize {
    std::arch::naked_asm!(
        "mov r11, rdi",
        "mov rax, rsi",
        "mov rcx, rdx",
        "mov rdi, [rcx]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]",
        "mov r8, [rcx + 32]",
        "mov r9, [rcx + 40]",
        ".hidden raddle_wait_begins, raddle_wait_made, raddle_wait_given_up",
        ".globl raddle_wait_begins, raddle_wait_made, raddle_wait_given_up",
        "raddle_wait_begins:",
        "cmp dword ptr [r11], 0",
        "jne raddle_wait_given_up",
        "syscall",
        "raddle_wait_made:",
        "ret",
        "raddle_wait_given_up:",
        "mov rax, {cancelled}",
        "ret",
        cancelled = const CANCELLED,
    )
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn call_unless(asked: *mut u32, number: usize, arguments: *const usize) -> isize {
    std::arch::naked_asm!(
        "mov x9, x0",
        "mov x8, x1",
        "mov x10, x2",
        "ldp x0, x1, [x10]",
        "ldp x2, x3, [x10, #16]",
        "ldp x4, x5, [x10, #32]",
        ".hidden raddle_wait_begins, raddle_wait_made, raddle_wait_given_up",
        ".globl raddle_wait_begins, raddle_wait_made, raddle_wait_given_up",
        "raddle_wait_begins:",
        "ldr w11, [x9]",
        "cbnz w11, raddle_wait_given_up",
        "svc #0",
        "raddle_wait_made:",
        "ret",
        "raddle_wait_given_up:",
        "mov x0, {cancelled}",
        "ret",
        cancelled = const CANCELLED,
    )
}
