//! Signals to one thread, and the masks of threads.
//!
//! The kernel knows kernel threads only, so what is sent to a lightweight thread waits in its record. The thread is
//! interrupted: a wait that it is in ends (as a wait may, for no reason), a kernel thread that runs it gets a signal of
//! ours. On its own stack, outside the runtime, the thread then sends itself what is pending, and the kernel does what
//! it does with any signal. Whoever waits and owes EINTR [watches](super::watch) for handlers.
//!
//! Masks: each lightweight thread has a mask, inherited from its creator, which governs what is sent to it. The kernel
//! threads that carry threads block what all threads block ([`masks`]). Another signal for the process goes to any
//! kernel thread that does not block it, the first one preferred; if the lightweight thread that runs there blocks it,
//! it is sent on ([`process_directed`]).

use super::info::Info;
use super::{
    actions, by_number, ending, fork, kernel_waits, masks, own_calls, preempt, process_directed, rights, watch,
};
use crate::os::{FROZEN_NS, c, failed, now, reach, system_call};
use crate::thread::caller::Caller;
use crate::thread::record::Record;
use crate::thread::{cancel, dedicated};
use raddle::drop_in::Met;
use raddle_macros::entry;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// A set of signals as the kernel has it: bit `n - 1` is signal `n`.
pub(crate) type Set = u64;

pub(super) const fn bit(signal: c_int) -> Set {
    1 << (signal - 1)
}

/// What a thread cannot block.
pub(crate) const UNBLOCKABLE: Set = bit(c::SIGKILL) | bit(c::SIGSTOP) | bit(32) | bit(33);

/// The signals by which a kernel thread learns that the thread which it runs was interrupted: one ends system calls,
/// one restarts them. The third is the timer's.
static KICK: [AtomicI32; 3] = [const { AtomicI32::new(0) }; 3];

/// All signals that the runtime's kernel threads may block.
pub(super) fn movable() -> Set {
    actions::DEFERRABLE & !kicks()
}

/// The one of them after which system calls go on.
pub(super) fn restarting_kick() -> c_int {
    KICK[1].load(Ordering::Relaxed)
}

/// The one of them that a timer sends: a tick ([`preempt`]).
pub(super) fn tick() -> c_int {
    KICK[2].load(Ordering::Relaxed)
}

/// The signals by which kernel threads are told.
pub(crate) fn kicks() -> Set {
    let kicks = KICK.iter().map(|kick| kick.load(Ordering::Relaxed)).filter(|&kick| kick > 0);
    kicks.fold(0, |set, kick| set | bit(kick))
}

/// Before the runtime's first kernel thread: what is sent to it, and what it blocks.
pub(crate) fn prepare_kernel_threads() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::AcqRel) {
        return;
    }
    install_kicks();
    masks::prepare(crate::thread::exit::is_first().then(own_mask));
}

/// Before the first lightweight thread: what signals and forks need.
pub(crate) fn prepare() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) {
        return;
    }
    prepare_kernel_threads();
    raddle::drop_in::on_interruption(interrupted);
    if !DONE.swap(true, Ordering::AcqRel) {
        crate::thread::exit::prepare();
        crate::thread::libc_word::prepare();
        fork::prepare();
        rights::prepare();
    }
}

pub(super) fn install_kicks() {
    if kicks().count_ones() as usize == KICK.len() {
        return;
    }
    let allocate = next!(__libc_allocate_rtsig: fn(c_int) -> c_int);
    type Handler = unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut c_void);
    let actions: [(Handler, c_int); 3] =
        [(kicked, 0), (kicked, c::SA_RESTART), (preempt::asked, c::SA_RESTART | c::SA_ONSTACK)];
    for (kick, (handler, flags)) in KICK.iter().zip(actions) {
        // SAFETY: takes an integer: the least important signal that nobody uses, -1 when there is none.
        let signal = unsafe { allocate(0) };
        let free = Cell::new(kick);
        if signal > 0 && free.get().compare_exchange(0, signal, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: the handler fits the flags; zeroes are an action.
            unsafe {
                let mut action: c::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = c::SA_SIGINFO | flags;
                c::sigfillset(&mut action.sa_mask);
                for fault in [c::SIGSEGV, c::SIGBUS, c::SIGFPE, c::SIGILL, c::SIGTRAP, c::SIGSYS] {
                    c::sigdelset(&mut action.sa_mask, fault);
                }
                next!(sigaction: fn(c_int, *const c::sigaction, *mut c::sigaction) -> c_int)(
                    signal,
                    &action,
                    std::ptr::null_mut(),
                );
            }
        }
    }
}

thread_local! {
    /// Signals of ours that found the thread, or the kernel thread while it ran none.
    static KICKS: Cell<u32> = const { Cell::new(0) };
    /// The signal that the thread is sending itself.
    static RAISED: Cell<c_int> = const { Cell::new(0) };
    /// What a signal of ours has interrupted, in whose handler the thread sends itself that one; null: nothing.
    static FOUND_AT: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
}

/// A signal has come here that is no concern of the thread's.
pub(super) fn count_kick() {
    KICKS.set(KICKS.get().wrapping_add(1));
    kernel_waits::met();
}

/// Signals of ours that came to the caller, or to the handler's thread if it is one.
pub(crate) fn kicks_here() -> u32 {
    KICKS.get()
}

unsafe extern "C-unwind" fn kicked(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's argument.
    unsafe { raddle::signal::set_back(context) };
    // SAFETY: the arguments that the kernel was given for this signal.
    if unsafe { preempt::is_tick(info) } {
        // SAFETY: as above; all that can wait is blocked, and the frame lies on the interrupted stack.
        unsafe { preempt::ticked(context) };
        return;
    }
    count_kick();
    let mut ran = false;
    // SAFETY: the kernel's argument.
    let unwinds = unsafe { rights::can_unwind(&*context.cast()) };
    let run = || {
        // Only here: if this signal is put off, so may be others, which come first when the runtime is left, and find
        // the threads' masks as they were.
        // SAFETY: the kernel's argument.
        unsafe {
            masks::apply(context);
            raddle::signal::block_only(signal, context, 0, 0);
        }
        has_heard();
        // SAFETY: the kernel's argument.
        unsafe { by_number::pass_on(info) };
        ending::within(!unwinds, || deliver_at(context));
        ran = true;
    };
    // SAFETY: installed with all that can wait blocked; the arguments are the kernel's; the delivery runs handlers of
    // the program.
    unsafe { raddle::signal::dispatch(signal, info, context, run) };
    if Caller::here().record_or_dedicated().is_some() {
        // SAFETY: the interrupted code's registers. A call that has not begun would not know of this signal.
        unsafe { kernel_waits::give_up(&mut *context.cast()) };
        if ran {
            // SAFETY: the kernel's argument; it was not put off.
            unsafe { cancel::meet(context) };
        }
    }
    // SAFETY: the interrupted code's registers.
    if unsafe { rights::is_program_code(&*context.cast()) } {
        // SAFETY: in a handler that interrupted the program's own code, with its context.
        unsafe { dedicated::look_in_handler(context) };
    }
    if let Some(me) = Record::current() {
        if unwinds && raddle::drop_in::is_lightweight() && cancel::is_to_end(me) {
            // SAFETY: in the handler, with its context, on the thread's way back to its own code.
            unsafe { masks::settle_now(context) };
            cancel::ending_point();
        }
        ending::look_again(me);
    } else {
        // SAFETY: in the handler, with its context, on a kernel thread.
        unsafe { ending::look_again_at_kernel_thread(context, unwinds) };
    }
    if ran {
        // SAFETY: the kernel's argument.
        unsafe { masks::settle(context, 0) };
    }
}

/// What an interrupted thread does when a wait of its is over, or when it asks.
fn interrupted(may_end: bool) {
    has_heard();
    if let Some(me) = Record::current() {
        cancel::heed(me);
    }
    if may_end {
        cancel::ending_point();
    } else if let Some(me) = Record::current().filter(|me| cancel::is_to_end(me)) {
        ending::soon(me);
    }
    ending::within(!may_end, deliver);
    if may_end && !masks::is_in_handler() {
        dedicated::dedicate_if_asked();
    }
}

/// What is left with the calling thread from now on needs another signal of ours.
fn has_heard() {
    if let Some(me) = Record::current() {
        me.bell.answer();
    }
}

/// Runs what is pending for the calling thread and not blocked, and hands on what was sent to the process and is.
pub(crate) fn deliver() {
    deliver_at(std::ptr::null_mut());
}

/// As [`deliver`]. `context`: null, or the kernel's argument to the handler that calls, which the program's handlers
/// are to find: what the thread did, instead of our own call that sends it the signal.
fn deliver_at(context: *mut c_void) {
    let Some(me) = Record::current() else { return };
    if me.pending.is_empty() {
        return;
    }
    if dedicated::task(me).is_some() {
        return pass_on(me);
    }
    if RAISED.get() != 0 {
        // What this has interrupted is about to run one, and looks again after that: they come in order.
        return;
    }
    loop {
        let ready = me.pending.all() & !masks::blocked(me);
        if ready == 0 {
            break;
        }
        let signal = ready.trailing_zeros() as c_int + 1;
        RAISED.set(signal);
        let Some(info) = me.pending.take(signal, false) else {
            RAISED.set(0);
            continue;
        };
        if actions::is_fault(signal) {
            watch::count_handler(Some(me), false);
        }
        raise_at(info, context);
    }
    process_directed::hand_on(me);
}

/// What was left for the calling thread, which is dedicated, is the kernel's to deliver; what was left with it for the
/// process goes to others.
pub(crate) fn pass_on(me: &Record) {
    // SAFETY: take nothing.
    let (process, task) = unsafe { (system_call(c::SYS_getpid, [0; 6]), system_call(c::SYS_gettid, [0; 6])) };
    process_directed::hand_on(me);
    loop {
        let left = me.pending.all();
        if left == 0 {
            return;
        }
        let signal = left.trailing_zeros() as c_int + 1;
        if let Some(info) = me.pending.take(signal, false) {
            let place = (&raw const info).expose_provenance();
            // SAFETY: the kernel reads a description.
            unsafe {
                system_call(c::SYS_rt_tgsigqueueinfo, [process as usize, task as usize, signal as usize, place, 0, 0])
            };
        }
    }
}

/// Where a handler has ended, or is left by a jump, with all blocked that can wait: what has waited for that comes when
/// the kernel thread is back in the code below.
pub(super) fn deliver_after() {
    let waits = |me: &Record| me.pending.all() & !masks::blocked(me) != 0;
    if Record::current().is_some_and(waits) {
        // SAFETY: takes nothing.
        kick(unsafe { system_call(c::SYS_gettid, [0; 6]) } as u32, true);
    }
}

/// Sends a kernel thread of the process one of the signals of ours: whether it was sent. One that has ended is an error
/// that nobody minds.
pub(super) fn kick(task: u32, restart: bool) -> bool {
    let signal = KICK[usize::from(restart)].load(Ordering::Relaxed);
    let mut end = None;
    loop {
        // SAFETY: take integers.
        unsafe {
            let process = system_call(c::SYS_getpid, [0; 6]) as usize;
            let result = system_call(c::SYS_tgkill, [process, task as usize, signal as usize, 0, 0, 0]);
            if result != -(c::EAGAIN as isize) {
                return result == 0;
            }
            // The user's limit of queued signals is reached: kernel threads of ours that run take theirs.
            let now = now(c::CLOCK_MONOTONIC);
            if now > *end.get_or_insert(now + FROZEN_NS) {
                return false;
            }
            system_call(c::SYS_sched_yield, [0; 6]);
        }
    }
}

/// Has the kernel deliver a signal to the calling kernel thread, now.
pub(super) fn raise_here(info: Info) {
    raise_at(info, std::ptr::null_mut());
}

/// As [`raise_here`], with `context` as [`deliver_at`] has it.
fn raise_at(info: Info, context: *mut c_void) {
    let one = bit(info.signal);
    let mut before: Set = 0;
    let places = [(&raw const one).expose_provenance(), (&raw mut before).expose_provenance()];
    // SAFETY: take nothing; sets on the stack.
    let (process, task) = unsafe {
        system_call(c::SYS_rt_sigprocmask, [c::SIG_UNBLOCK as usize, places[0], places[1], size_of::<Set>(), 0, 0]);
        (system_call(c::SYS_getpid, [0; 6]) as usize, system_call(c::SYS_gettid, [0; 6]) as usize)
    };
    let send = |info: &Info| {
        let place = std::ptr::from_ref(info).expose_provenance();
        // SAFETY: the kernel reads a description.
        unsafe { system_call(c::SYS_rt_tgsigqueueinfo, [process, task, info.signal as usize, place, 0, 0]) }
    };
    RAISED.set(info.signal);
    FOUND_AT.set(context);
    if send(&info) == -(c::EAGAIN as isize) {
        // The user's limit of queued signals is reached: what `kill` sends is not refused.
        send(&Info::of_process(info.signal));
    }
    // Ignored, for one.
    forget_raised();
    if before & one != 0 {
        // Not what was read: the threads' masks may have changed meanwhile.
        masks::renew(one);
    }
}

/// A handler has been left otherwise than by returning.
pub(super) fn forget_raised() {
    RAISED.set(0);
    FOUND_AT.set(std::ptr::null_mut());
}

/// Whether the thread has just sent itself a signal: the handler that asks is at a place where its thread may end. Then
/// with the context that the program's handler is to find, if it is not the handler's own.
pub(super) fn take_raised(signal: c_int) -> Option<*mut c_void> {
    (RAISED.get() == signal).then(|| {
        RAISED.set(0);
        FOUND_AT.replace(std::ptr::null_mut())
    })
}

/// Unblocks signals for the calling kernel thread.
pub(super) fn unblock(set: Set) {
    // SAFETY: a set on the stack.
    unsafe {
        system_call(
            c::SYS_rt_sigprocmask,
            [c::SIG_UNBLOCK as usize, (&raw const set).expose_provenance(), 0, size_of::<Set>(), 0, 0],
        )
    };
}

/// Sets the calling kernel thread's mask.
pub(crate) fn set_kernel_mask(set: Set) {
    // SAFETY: a set on the stack.
    unsafe {
        system_call(
            c::SYS_rt_sigprocmask,
            [c::SIG_SETMASK as usize, (&raw const set).expose_provenance(), 0, size_of::<Set>(), 0, 0],
        )
    };
}

/// The mask that a thread which the caller creates has.
pub(crate) fn own_mask() -> Set {
    if let Some(me) = Record::current()
        && raddle::drop_in::is_lightweight()
    {
        return me.mask.load(Ordering::Relaxed);
    }
    kernel_mask()
}

/// The calling kernel thread's mask.
pub(super) fn kernel_mask() -> Set {
    block(0)
}

/// Blocks all that can wait for the calling kernel thread. The answer is what was blocked before.
pub(crate) fn block_movable() -> Set {
    block(actions::DEFERRABLE)
}

/// Blocks these too. The answer is what was blocked before.
pub(super) fn block(set: Set) -> Set {
    let mut before: Set = 0;
    let places = [(&raw const set).expose_provenance(), (&raw mut before).expose_provenance()];
    // SAFETY: a set to read, and one to write to.
    unsafe {
        system_call(c::SYS_rt_sigprocmask, [c::SIG_BLOCK as usize, places[0], places[1], size_of::<Set>(), 0, 0])
    };
    before
}

/// Wakes a thread for what was left in its record.
pub(crate) fn interrupt(target: &'static Record) {
    let ready = target.pending.all() & !masks::seen_to_block(target);
    // Calls go on after what they need not know of: what is blocked, or was taken meanwhile.
    interrupt_and(target, (1..=64).all(|signal| ready & bit(signal) == 0 || actions::handled(signal) == Some(true)));
}

/// Has a thread look: its system call goes on after that, or ends.
///
/// Where signals of ours are on their way already, none is sent ([`raddle::drop_in::Doorbell`]).
pub(crate) fn interrupt_and(target: &'static Record, restarts: bool) {
    if target.is_forker() {
        kick(std::process::id(), restarts);
        return;
    }
    if let Some(task) = dedicated::task(target) {
        // Its wait in the kernel for a word of ours ends where it is to be cancelled.
        kick(task, restarts && !cancel::is_asked_to_end(target));
        return;
    }
    let raw = target.request.reach();
    if raw.is_null() {
        return;
    }
    // SAFETY: the record is held by the caller, so the handle is neither joined nor dropped meanwhile.
    let request = || match unsafe { raddle::drop_in::interrupt(raw) } {
        Met::Running(task) => Some(task),
        Met::OffProcessor => None,
    };
    target.bell.ring(usize::from(restarts), request, |task| kick(task, restarts));
}

pub(super) fn is_sendable(signal: c_int) -> bool {
    (1..=64).contains(&signal) && signal != 32 && signal != 33
}

/// Leaves a signal with a thread of ours.
pub(super) fn send(target: &'static Record, signal: c_int) -> c_int {
    if signal == 0 {
        return 0;
    }
    if !is_sendable(signal) {
        return c::EINVAL;
    }
    if let Some(task) = dedicated::task(target) {
        // SAFETY: take integers.
        let result = unsafe {
            let process = system_call(c::SYS_getpid, [0; 6]) as usize;
            system_call(c::SYS_tgkill, [process, task as usize, signal as usize, 0, 0, 0])
        };
        return -result as c_int;
    }
    send_with(target, &Info::of_thread(signal))
}

pub(super) fn send_with(target: &'static Record, info: &Info) -> c_int {
    if let Some(task) = dedicated::task(target) {
        let place = std::ptr::from_ref(info).expose_provenance();
        // SAFETY: the kernel reads a description.
        let result = unsafe {
            let process = system_call(c::SYS_getpid, [0; 6]) as usize;
            system_call(c::SYS_rt_tgsigqueueinfo, [process, task as usize, info.signal as usize, place, 0, 0])
        };
        return -result as c_int;
    }
    if !target.pending.leave(info, false) {
        return c::EAGAIN;
    }
    wake(target);
    0
}

/// Something was left with a thread. The creator that stores its handle later looks there.
pub(super) fn wake(target: &'static Record) {
    if target.is_current() {
        deliver();
    } else {
        // Also when the thread blocks it: it may be waiting for it.
        interrupt(target);
    }
}

#[entry(if Record::is_ours(id))]
pub unsafe extern "C-unwind" fn pthread_kill(id: c::pthread_t, signal: c_int) -> c_int {
    // SAFETY: an id of ours.
    match unsafe { Record::hold(id) } {
        Some(target) if super::vfork::is_child() && target.record().is_current() => {
            // SAFETY: takes an integer.
            let result = unsafe { next!(raise: fn(c_int) -> c_int)(signal) };
            // SAFETY: the calling thread's.
            if result == 0 { 0 } else { unsafe { *c::__errno_location() } }
        }
        Some(target) => send(target.record(), signal),
        None => c::ESRCH,
    }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_sigqueue(id: c::pthread_t, signal: c_int, value: *mut c_void) -> c_int {
    if !Record::is_ours(id) {
        // The union that the C library takes is passed as a word.
        return natively!();
    }
    // SAFETY: an id of ours.
    let Some(target) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    if signal == 0 || !is_sendable(signal) {
        return send(target.record(), signal);
    }
    send_with(target.record(), &Info::new(signal, c::SI_QUEUE, value.expose_provenance()))
}

#[entry]
pub unsafe extern "C-unwind" fn raise(signal: c_int) -> c_int {
    if let Some(me) = Caller::light() {
        return if signal == 0 { 0 } else { failed(send(me, signal)) };
    }
    natively!()
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_sigmask(how: c_int, new: *const c::sigset_t, old: *mut c::sigset_t) -> c_int {
    let Some(me) = Caller::light() else {
        let next = next!(pthread_sigmask: fn(c_int, *const c::sigset_t, *mut c::sigset_t) -> c_int);
        if super::vfork::is_child() {
            // SAFETY: the caller's arguments.
            return unsafe { next(how, new, old) };
        }
        // SAFETY: the caller's set, whose first word is the kernel's; `old` may be the same place.
        let set = unsafe { new.cast::<Set>().as_ref() }.copied();
        let first = set.is_some() && crate::thread::exit::is_first();
        let before = if first { own_mask() } else { 0 };
        // SAFETY: zeroes are a set.
        let mut without: c::sigset_t = unsafe { std::mem::zeroed() };
        let mut given = new;
        if let Some(set) = set.filter(|_| matches!(Caller::here(), Caller::Handler(_)) || dedicated::is_here()) {
            // SAFETY: the first word is the kernel's.
            unsafe { (&raw mut without).cast::<Set>().write(set & !kicks()) };
            given = &without;
        }
        // SAFETY: the caller's arguments.
        let result = unsafe { next(how, given, old) };
        if let Some(set) = set.filter(|_| result == 0) {
            let in_handler = masks::handler_changes(how, set);
            if first {
                masks::first_changed(before, own_mask());
            }
            if first || in_handler {
                // To one of ours, in a handler, or which a fork made the first.
                deliver();
            }
        }
        return result;
    };
    if !(reach::reads_or_null(new.cast::<Set>()) && reach::writes_or_null(old)) {
        return c::EFAULT;
    }
    let before = me.mask.load(Ordering::Relaxed);
    if !new.is_null() {
        // SAFETY: the caller's set, whose first word is the kernel's.
        let set = unsafe { new.cast::<Set>().read() };
        let after = match how {
            c::SIG_BLOCK => before | set,
            c::SIG_UNBLOCK => before & !set,
            c::SIG_SETMASK => set,
            _ => return c::EINVAL,
        };
        let after = after & !UNBLOCKABLE;
        own_calls::is_blocked(after);
        me.mask.store(after, Ordering::SeqCst);
        masks::changed(before, after);
    }
    if !old.is_null() {
        // SAFETY: the caller's place for it.
        unsafe {
            old.write(std::mem::zeroed());
            old.cast::<Set>().write(before);
        }
    }
    deliver();
    0
}

#[entry]
pub unsafe extern "C-unwind" fn sigprocmask(how: c_int, new: *const c::sigset_t, old: *mut c::sigset_t) -> c_int {
    // SAFETY: the caller's arguments.
    failed(unsafe { pthread_sigmask(how, new, old) })
}

aliases! {
    gsignal = raise(signal: c_int) -> c_int;
}
