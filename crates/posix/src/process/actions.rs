//! What signals do: `sigaction` and its kin.
//!
//! Each handler of the program is installed behind [`entry()`], which has raddle put the signal off while the runtime
//! is inside itself ([`raddle::signal::dispatch`]), and which heeds the mask of the lightweight thread that the signal
//! met: a signal for the process goes to the first thread instead, one for the thread waits with it. Faults cannot
//! wait: their handlers are behind [`fault_entry`].
//!
//! The table is read by handlers, so it is made of atomics, one signal's fields apart. A handler takes all at once
//! ([`Action::taken`]): a new function is never called with the old mask and flags, but a signal that arrives while
//! another thread is between two stores may have the old function called with the new ones.

use super::info::Info;
use super::signals::{self, Set, bit};
use super::{alternate, ending, jumps, kernel_waits, masked_waits, masks, own_calls, process_directed, vfork, watch};
use crate::os::{answer, c, reach, system_call};
use crate::thread::cancel;
use crate::thread::record::Record;
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

struct Action {
    /// A handler behind [`entry()`]; 0: what the kernel has is the program's own.
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
    /// The handler that was called last on a thread's alternate stack: the action may be reset by then.
    called: AtomicUsize,
}

/// What a handler is called with.
#[derive(Clone, Copy)]
struct Taken {
    handler: usize,
    flags: c_int,
    mask: Set,
}

impl Action {
    /// The whole action.
    ///
    /// Events, of one change: F mask and flags, H the function. Forbidden: the new function with the old F. F precedes
    /// H, and H is read first, so who sees it sees F, or what came after it. All are SeqCst.
    fn taken(&self) -> Taken {
        let handler = self.handler.load(Ordering::SeqCst);
        Taken { handler, flags: self.flags.load(Ordering::SeqCst), mask: self.mask.load(Ordering::SeqCst) }
    }

    /// What the program has asked for; `handler` is 0 where the kernel has the action itself.
    fn set(&self, wanted: &c::sigaction, handler: usize) {
        self.mask.store(mask_of(wanted), Ordering::SeqCst);
        self.flags.store(wanted.sa_flags, Ordering::SeqCst);
        self.handler.store(handler, Ordering::SeqCst);
    }
}

static ACTIONS: [Action; 65] = [const {
    Action {
        handler: AtomicUsize::new(0),
        flags: AtomicI32::new(0),
        mask: AtomicU64::new(0),
        called: AtomicUsize::new(0),
    }
}; 65];

/// The kernel tells this flag, which the C library has added, to programs that ask for an action.
const RESTORER: c_int = if cfg!(target_arch = "x86_64") { 0x0400_0000 } else { 0 };

const FAULTS: [c_int; 6] = [c::SIGSEGV, c::SIGBUS, c::SIGFPE, c::SIGILL, c::SIGTRAP, c::SIGSYS];

/// All signals that may wait.
pub(super) const DEFERRABLE: Set = {
    let mut set = !(bit(32) | bit(33));
    let mut at = 0;
    while at < FAULTS.len() {
        set &= !bit(FAULTS[at]);
        at += 1;
    }
    set
};

/// Whether the signal is a fault, whose handler is not behind [`entry()`].
pub(super) fn is_fault(signal: c_int) -> bool {
    FAULTS.contains(&signal)
}

/// What the kernel calls in place of the program's handler.
unsafe extern "C-unwind" fn entry(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's argument.
    unsafe { raddle::signal::set_back(context) };
    let action = &ACTIONS[signal as usize];
    if vfork::is_child() {
        let handler = action.handler.load(Ordering::Relaxed);
        if handler > c::SIG_IGN {
            // SAFETY: the program's handler and the kernel's arguments.
            unsafe { as_handler(handler)(signal, info, context) };
        }
        return;
    }
    // The kernel does not know what a lightweight thread blocks, and tells the handler's mask.
    let me = Record::current().filter(|_| raddle::drop_in::is_kernel_thread_of_runtime());
    let Taken { handler, flags, mask: of_action } = action.taken();
    let mask = of_action | me.map_or(0, |me| me.mask.load(Ordering::Relaxed));
    let found_at = signals::take_raised(signal);
    let raised = found_at.is_some();
    // A signal of ours has found the thread computing, and its handler runs below this one.
    let seen = found_at.filter(|at| !at.is_null()).unwrap_or(context);
    let on_stack = flags & c::SA_ONSTACK != 0;
    // SAFETY: the kernel's argument.
    let top = if on_stack { unsafe { alternate::top(context) } } else { std::ptr::null_mut() };
    let mut ended = None;
    let mut heed = |told: &mut masks::Told, waits_with: Option<Set>| {
        let me = Record::current();
        // SAFETY: the kernel's description of the signal, which is this handler's to change.
        let what = unsafe { &mut *info.cast::<Info>() };
        what.restore();
        if process_directed::goes_to_main(me, what) {
            signals::count_kick();
            return 0;
        }
        let blocked = match me {
            // What it has sent itself it lets in, in a handler perhaps.
            Some(me) => !raised && me.mask.load(Ordering::Relaxed) & bit(signal) != 0,
            // It runs none of the program's threads: a handler would find nobody's values, and interpreters crash then.
            None => true,
        };
        // Another one has it from the kernel, which knows its mask.
        if blocked && raddle::drop_in::is_kernel_thread_of_runtime() {
            signals::count_kick();
            return process_directed::not_here(me, what);
        }
        masks::taken(signal);
        watch::count_handler(me, flags & c::SA_RESTART != 0);
        // It is decided who takes the signal, and no change of the masks was heard meanwhile: one who waits until all
        // have heard of his knows that none is on its way to him any more. The runtime's signals are let in, whatever
        // the interrupted code is (one of their own handlers, often): whoever changes a mask waits for kernel threads
        // to hear, and what the handler lets in ends what it waits for.
        match waits_with {
            Some(waits_with) => signals::set_kernel_mask((waits_with | mask | bit(signal)) & !signals::kicks()),
            // SAFETY: the kernel's argument.
            None => unsafe { raddle::signal::block_only(signal, context, mask, signals::kicks()) },
        }
        let mut handler = handler;
        if flags & c::SA_RESETHAND != 0 {
            // Once, however many kernel threads have come here; another handler that the program has set by now stays.
            match action.handler.compare_exchange(handler, 0, Ordering::SeqCst, Ordering::SeqCst) {
                // SAFETY: the default action takes no memory. The flags stay, as the kernel leaves them.
                Ok(_) => _ = unsafe { install_raw(signal, c::SIG_DFL, flags, of_action) },
                Err(0) => handler = 0,
                Err(_) => {}
            }
        }
        if flags & c::SA_NODEFER != 0 && mask & bit(signal) == 0 {
            signals::unblock(bit(signal));
        }
        if handler > c::SIG_IGN && !is_ended_by_others(me) {
            let mut called = handler;
            if !top.is_null() {
                action.called.store(handler, Ordering::Relaxed);
                called = alternate::entry as *const () as usize;
            }
            let stack = alternate::Setting::begin(top.is_null());
            // This frame, and those below, lie on the kernel thread's alternate stack then.
            let may_wait = raised && !on_stack;
            // SAFETY: the program's handler; the kernel's arguments, to this handler or one below.
            let call = || unsafe { ending::call(called, signal, info, seen, raised, may_wait) };
            // SAFETY: the same.
            ended = unsafe { told.to(seen, call) };
            stack.end();
        }
        0
    };
    let run = || {
        // Unless its mask holds the signal itself.
        let again = flags & c::SA_NODEFER != 0;
        let frame = jumps::Frame::begin(if top.is_null() { context } else { top.cast() });
        let mut told = masks::Told::begin();
        let handling = masks::handling(if again { mask } else { mask | bit(signal) });
        let leaving = masks::Leaving;
        let interrupted = kernel_waits::Interrupted::begin();
        // SAFETY: the kernel's argument.
        let waited = unsafe { masked_waits::InterruptedWait::begin(context) };
        let more = heed(&mut told, waited.mask);
        std::mem::forget(leaving);
        waited.end();
        // SAFETY: the kernel's argument, which nobody else uses now.
        interrupted.end(unsafe { &mut *context.cast() });
        handling.end();
        told.end();
        frame.end();
        // SAFETY: the kernel's argument.
        unsafe { masks::settle(context, more) };
        signals::deliver_after();
    };
    // SAFETY: installed below with SA_SIGINFO and all that can wait blocked; a jump out of the handler is noticed by
    // the hooks of `longjmp`.
    unsafe { raddle::signal::dispatch(signal, info, context, run) };
    if let Some(ended) = ended {
        // SAFETY: the kernel's argument; the handler is over.
        unsafe { ending::go_on(ended, context, mask | bit(signal)) };
    }
}

/// A handler is about to run for the calling thread, with all blocked that it blocks: as in the kernel, others that are
/// pending and let in interrupt it before it has begun. True if one of them has ended the thread.
fn is_ended_by_others(me: Option<&Record>) -> bool {
    let Some(me) = me.filter(|me| !me.pending.is_empty()) else { return false };
    let before = cancel::is_to_end(me);
    // What would be unwound is this library's.
    ending::within(true, signals::deliver);
    !before && cancel::is_to_end(me)
}

/// Installs an action by the C library's function, which supplies the return from the handler.
///
/// # Safety
/// `handler` is one of the constants or a function that fits the flags.
unsafe fn install_raw(signal: c_int, handler: usize, flags: c_int, mask: Set) -> c_int {
    // SAFETY: zeroes are an action; the set's first word is the kernel's.
    unsafe {
        let mut action: c::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        (&raw mut action.sa_mask).cast::<Set>().write(mask);
        native()(signal, &action, std::ptr::null_mut())
    }
}

/// The default action, whatever the program has asked for: it is about to end.
pub(super) fn to_default(signal: c_int) {
    // SAFETY: the default action takes no memory.
    unsafe { install_raw(signal, c::SIG_DFL, 0, 0) };
}

/// Has a handler of ours stand in the default action's place ([`own_calls`]), if that is the signal's action.
pub(super) fn replace_default(signal: c_int) {
    let action = &ACTIONS[signal as usize];
    // SAFETY: zeroes are an action; the first call asks only, the others install ours, or what was there before.
    unsafe {
        let mut before: c::sigaction = std::mem::zeroed();
        native()(signal, std::ptr::null(), &mut before);
        if before.sa_sigaction != c::SIG_DFL {
            return;
        }
        action.set(&before, own_calls::handler());
        let mut ours = behind_entry(&before);
        ours.sa_flags |= c::SA_RESTART;
        native()(signal, &ours, &mut before);
        if before.sa_sigaction != c::SIG_DFL {
            // The program has set another one meanwhile.
            native()(signal, &before, std::ptr::null_mut());
        }
    }
}

/// What the kernel is told in place of the program's handler.
fn behind_entry(wanted: &c::sigaction) -> c::sigaction {
    let mut ours = *wanted;
    ours.sa_sigaction = entry as *const () as usize;
    ours.sa_flags = wanted.sa_flags & !(c::SA_RESETHAND | c::SA_NODEFER) | c::SA_SIGINFO;
    // SAFETY: the set's first word is the kernel's.
    unsafe { (&raw mut ours.sa_mask).cast::<Set>().write(DEFERRABLE) };
    ours
}

type Sigaction = unsafe extern "C" fn(c_int, *const c::sigaction, *mut c::sigaction) -> c_int;

fn native() -> Sigaction {
    next!(sigaction: fn(c_int, *const c::sigaction, *mut c::sigaction) -> c_int)
}

/// Whether the program's handler for the signal restarts system calls; `None` when there is no handler.
pub(super) fn handled(signal: c_int) -> Option<bool> {
    let action = &ACTIONS[signal as usize];
    if is_fault(signal) {
        return Some(false);
    }
    (action.handler.load(Ordering::Relaxed) != 0).then(|| action.flags.load(Ordering::Relaxed) & c::SA_RESTART != 0)
}

/// The program's handler for a fault that is to run on an alternate stack; 0: there is none.
pub(super) fn fault_handler(signal: c_int) -> usize {
    let action = &ACTIONS[signal as usize];
    if action.flags.load(Ordering::Relaxed) & c::SA_ONSTACK == 0 { 0 } else { action.handler.load(Ordering::Relaxed) }
}

/// The program's handler that is to run on an alternate stack now; 0: there is none.
pub(super) fn on_stack_handler(signal: c_int) -> usize {
    match fault_handler(signal) {
        0 => ACTIONS[signal as usize].called.load(Ordering::Relaxed),
        handler => handler,
    }
}

/// Whether the program has a handler for a fault, behind [`fault_entry`].
pub(super) fn is_fault_handled(signal: c_int) -> bool {
    ACTIONS[signal as usize].handler.load(Ordering::Relaxed) != 0
}

/// As if the kernel had met the program's handler.
///
/// # Safety
/// A handler's arguments.
pub(super) unsafe fn take_fault(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let action = &ACTIONS[signal as usize];
    if action.flags.load(Ordering::Relaxed) & c::SA_RESETHAND != 0 {
        // The kernel does so where ours stands in the handler's place, and not behind the runtime's report.
        let default = c::SIG_DFL;
        // SAFETY: the default action takes no memory.
        unsafe { install_raw(signal, default, 0, 0) };
    }
    if Record::current().is_none() {
        // A kernel thread's. The kernel has met the report, whose action blocks nothing but the fault.
        let mask = action.mask.load(Ordering::Relaxed) & !signals::kicks();
        let before = signals::block(mask);
        if action.flags.load(Ordering::Relaxed) & c::SA_NODEFER != 0 {
            signals::set_kernel_mask(before & !bit(signal) | mask);
        }
    }
    // SAFETY: the kernel's arguments to the handler of this fault, which the caller is.
    unsafe { fault_entry(signal, info, context) };
}

/// What the kernel calls in place of the program's handler for a fault.
///
/// On a lightweight thread the handler sees the thread's mask, as those behind [`entry()`] do. Its waits are the kernel
/// thread's, which has the kernel's frame and blocks the fault. A fault is never put off.
unsafe extern "C-unwind" fn fault_entry(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel's argument; this returns after that answer.
    if unsafe { reach::recover(context) } {
        return;
    }
    // SAFETY: the kernel's argument.
    unsafe { raddle::signal::set_back(context) };
    // SAFETY: the kernel's description of the signal, which is this handler's to change.
    let what = unsafe { &mut *info.cast::<Info>() };
    what.restore();
    let action = &ACTIONS[signal as usize];
    let Taken { handler, flags, mask } = action.taken();
    // An action for once is the default already: who it is carried to would end by it.
    if flags & c::SA_RESETHAND == 0 && process_directed::is_carried_on(what) {
        return;
    }
    let on_stack = flags & c::SA_ONSTACK != 0;
    let called = if on_stack { alternate::entry as *const () as usize } else { handler };
    if handler <= c::SIG_IGN {
        return;
    }
    if !raddle::drop_in::is_lightweight() {
        // Of a kernel thread, whose mask is the kernel's, or in the runtime, which the handler will not return to.
        // SAFETY: the program's handler, or ours, and the kernel's arguments.
        return unsafe { as_handler(called)(signal, info, context) };
    }
    signals::block_movable();
    let own = Record::current().map_or(0, |me| me.mask.load(Ordering::Relaxed));
    let mask = mask | own;
    let handled = if flags & c::SA_NODEFER != 0 { mask } else { mask | bit(signal) };
    // SAFETY: the kernel's argument.
    let top = if on_stack { unsafe { alternate::top(context) } } else { std::ptr::null_mut() };
    let mut ended = None;
    let run = || {
        let frame = jumps::Frame::begin(if top.is_null() { context } else { top.cast() });
        let mut told = masks::Told::begin();
        let handling = masks::handling(handled);
        let leaving = masks::Leaving;
        watch::count_handler(Record::current(), flags & c::SA_RESTART != 0);
        // SAFETY: the kernel's argument.
        unsafe { raddle::signal::block_only(signal, context, mask, signals::kicks()) };
        // SAFETY: the program's handler with the kernel's arguments, in the handler that runs it.
        let call = || unsafe { ending::call(called, signal, info, context, true, !on_stack) };
        let stack = alternate::Setting::begin(top.is_null());
        // SAFETY: the kernel's argument.
        ended = unsafe { told.to(context, call) };
        stack.end();
        std::mem::forget(leaving);
        handling.end();
        told.end();
        frame.end();
        // SAFETY: the kernel's argument.
        unsafe { masks::settle(context, 0) };
        signals::deliver_after();
    };
    // SAFETY: all that can wait is blocked; a jump out of the handler is noticed by the hooks of `longjmp`.
    unsafe { raddle::signal::dispatch(signal, info, context, run) };
    if let Some(ended) = ended {
        // SAFETY: the kernel's argument; the handler is over.
        unsafe { ending::go_on(ended, context, handled) };
    }
}

/// The signals that an action blocks.
fn mask_of(action: &c::sigaction) -> Set {
    // SAFETY: the set's first word is the kernel's.
    unsafe { (&raw const action.sa_mask).cast::<Set>().read() }
}

type Handler = unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut c_void);

/// A handler's address as what it is.
fn as_handler(handler: usize) -> Handler {
    // SAFETY: a handler of the program's, which takes the signal and perhaps the rest, or ours.
    unsafe { std::mem::transmute::<usize, Handler>(handler) }
}

/// `sigaction` of a fault: the program's handler is behind [`fault_entry`], and gets its thread's alternate stack
/// ([`alternate`]) if it asks for one.
///
/// # Safety
/// As POSIX says; the signal is a fault.
unsafe fn set_fault(signal: c_int, new: *const c::sigaction, old: *mut c::sigaction) -> c_int {
    let action = &ACTIONS[signal as usize];
    let entry = fault_entry as *const () as usize;
    // SAFETY: null or the caller's action; `old` may be the same place.
    let wanted = unsafe { new.as_ref() }.copied().filter(|_| !vfork::is_child());
    let is_handler = |wanted: &c::sigaction| {
        wanted.sa_sigaction > c::SIG_IGN && !raddle::drop_in::is_overflow_report(wanted.sa_sigaction)
    };
    let handled = wanted.filter(is_handler);
    let replaced = handled.map(|mut wanted| {
        wanted.sa_sigaction = entry;
        wanted.sa_flags |= c::SA_SIGINFO;
        wanted
    });
    let former = action.taken();
    // Before the kernel has ours: a fault may come at once.
    if let Some(wanted) = handled.filter(|wanted| wanted.sa_sigaction != entry) {
        action.set(&wanted, wanted.sa_sigaction);
    }
    // SAFETY: zeroes are an action.
    let mut before: c::sigaction = unsafe { std::mem::zeroed() };
    let place = replaced.as_ref().map_or(new, std::ptr::from_ref);
    // SAFETY: the caller's action, or ours, which fits its flags.
    let result = unsafe { native()(signal, place, &mut before) };
    // Another action, of which nothing is behind ours, has taken its place.
    let other =
        |wanted: c::sigaction| !is_handler(&wanted) && !raddle::drop_in::is_overflow_report(wanted.sa_sigaction);
    if result == 0 && wanted.is_some_and(other) {
        action.handler.store(0, Ordering::Relaxed);
    }
    if result == 0 && !old.is_null() {
        // The runtime's report stands before the program's handler, which it offers each fault first.
        let behind_report = former.handler != 0 && raddle::drop_in::is_overflow_report(before.sa_sigaction);
        if before.sa_sigaction == entry || behind_report {
            before.sa_sigaction = former.handler;
            before.sa_flags = before.sa_flags & RESTORER | former.flags;
            // SAFETY: the set's first word is the kernel's.
            unsafe { (&raw mut before.sa_mask).cast::<Set>().write(former.mask) };
        }
        // SAFETY: the caller's place for it.
        unsafe { *old = before };
    }
    result
}

#[entry]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const c::sigaction, old: *mut c::sigaction) -> c_int {
    if FAULTS.contains(&signal) {
        // SAFETY: the caller's arguments.
        return unsafe { set_fault(signal, new, old) };
    }
    let known = (1..=64).contains(&signal) && signal != 32 && signal != 33;
    if !known {
        // SAFETY: the caller's arguments.
        return unsafe { native()(signal, new, old) };
    }
    let action = &ACTIONS[signal as usize];
    // SAFETY: null or the caller's action; `old` may be the same place.
    let mut new = unsafe { new.as_ref() }.copied();
    if let Some(wanted) = &mut new
        && wanted.sa_sigaction == c::SIG_DFL
        && own_calls::is_replaced(signal)
        && !vfork::is_child()
    {
        wanted.sa_sigaction = own_calls::handler();
        wanted.sa_flags |= RESTORER;
    }
    let former = action.taken();
    // SAFETY: zeroes are an action.
    let mut before: c::sigaction = unsafe { std::mem::zeroed() };
    if signals::kicks() & bit(signal) != 0 && !vfork::is_child() {
        // The runtime's own. Programs set the actions of all signals there are (`for (i = 1; i < NSIG; i++)`).
        if let Some(wanted) = &new {
            action.set(wanted, wanted.sa_sigaction);
        }
        if !old.is_null() {
            (before.sa_sigaction, before.sa_flags) = (former.handler, former.flags);
            // SAFETY: the set's first word is the kernel's; the caller's place for the action.
            unsafe {
                (&raw mut before.sa_mask).cast::<Set>().write(former.mask);
                *old = before;
            }
        }
        return 0;
    }
    let result = match new {
        // SAFETY: asks only.
        None => unsafe { native()(signal, std::ptr::null(), &mut before) },
        Some(wanted) if wanted.sa_sigaction <= c::SIG_IGN || vfork::is_child() => {
            // SAFETY: the caller's action, of the kernel's own kinds, or its handler in a process that shares nothing
            // of this but memory.
            unsafe { native()(signal, &wanted, &mut before) }
        }
        Some(wanted) => {
            // Before the kernel has ours: a signal may come at once.
            action.set(&wanted, wanted.sa_sigaction);
            // SAFETY: `entry` fits the flags.
            unsafe { native()(signal, &behind_entry(&wanted), &mut before) }
        }
    };
    if result != 0 {
        return result;
    }
    if before.sa_sigaction == entry as *const () as usize {
        before.sa_sigaction = former.handler;
        before.sa_flags = before.sa_flags & !c::SA_SIGINFO | former.flags;
        if before.sa_sigaction == own_calls::handler() {
            before.sa_sigaction = c::SIG_DFL;
            before.sa_flags = former.flags;
        }
        // SAFETY: the caller's place for the action, in which a mask is 64 signals as the kernel has it.
        unsafe { (&raw mut before.sa_mask).cast::<Set>().write(former.mask) };
    }
    if let Some(wanted) = new.filter(|wanted| wanted.sa_sigaction <= c::SIG_IGN && !vfork::is_child()) {
        action.set(&wanted, 0);
    }
    if !old.is_null() {
        // SAFETY: the caller's place for it.
        unsafe { *old = before };
    }
    0
}

#[entry]
pub unsafe extern "C" fn sigpending(pending: *mut c::sigset_t) -> c_int {
    // SAFETY: the caller's set, of which the kernel writes the first word.
    let result = unsafe { system_call(c::SYS_rt_sigpending, [pending.addr(), size_of::<Set>(), 0, 0, 0, 0]) };
    if result == 0
        && !vfork::is_child()
        && let Some(me) = Record::current()
    {
        // SAFETY: the caller's place for a set, which the call has filled.
        unsafe { *pending.cast::<Set>() |= me.pending.all() };
    }
    answer(result) as c_int
}

aliases! {
    __sigaction = sigaction(signal: c_int, new: *const c::sigaction, old: *mut c::sigaction) -> c_int;
}
