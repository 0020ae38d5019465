//! Signals: installing the runtime's entry, and putting one off until the kernel may deliver it.
//!
//! Everything here but [`install`] runs in signal handlers: raw system calls, which leave `errno` alone, and nothing
//! else.

use raddle_machine::raw::system_call;
use std::ffi::{c_int, c_void};
use std::io;

/// A set of signals as the kernel has it: bit `n - 1` is signal `n`.
type Set = u64;

/// Signals that say that the running instruction failed: they cannot wait.
const FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// What the C library tells its own threads with.
const INTERNAL: [c_int; 2] = [32, 33];

const fn set_of(signals: &[c_int]) -> Set {
    let mut set = 0;
    let mut at = 0;
    while at < signals.len() {
        set |= 1 << (signals[at] - 1);
        at += 1;
    }
    set
}

/// All signals that can wait.
const DEFERRABLE: Set = !(set_of(&FAULTS) | set_of(&INTERNAL));

/// What a call that writes sends to its caller: nobody reads any more, or the file may not become as long.
pub(crate) const OF_WRITES: Set = set_of(&[libc::SIGPIPE, libc::SIGXFSZ]);

/// True for a signal that cannot wait.
pub(crate) fn is_fault(signal: c_int) -> bool {
    FAULTS.contains(&signal)
}

/// Lets `entry` handle `signal`: on the alternate stack, with all signals that can wait blocked, restarting system
/// calls.
pub(crate) fn install(
    signal: c_int,
    entry: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void),
) -> Result<(), io::Error> {
    // SAFETY: an action of zeroes but for what is filled in is valid; what `entry` may do is its own promise.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = entry as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&mut action.sa_mask);
        FAULTS.iter().for_each(|&fault| {
            libc::sigdelset(&mut action.sa_mask, fault);
        });
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What [`crate::threads::requests`] interrupts with.
pub(crate) const URGENT: c_int = libc::SIGURG;

/// True if `entry` handles `signal`, now if it had no handler before; false if the program has another.
pub(crate) fn own(signal: c_int, entry: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void)) -> bool {
    // SAFETY: the C library fills the structure.
    let present = unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut present) != 0 {
            return false;
        }
        present.sa_sigaction
    };
    let none = present == libc::SIG_DFL || present == libc::SIG_IGN;
    present == entry as *const () as usize || none && install(signal, entry).is_ok()
}

/// Sends a signal to a kernel thread of this process. False if it has ended.
pub(crate) fn send(task: u32, signal: c_int) -> bool {
    // SAFETY: take integers.
    unsafe {
        let process = system_call(libc::SYS_getpid as usize, [0; 6]);
        system_call(libc::SYS_tgkill as usize, [process as usize, task as usize, signal as usize, 0, 0, 0]) == 0
    }
}

/// Puts a signal off: the kernel has it again, with all that it said, and delivers it (and any other that comes
/// meanwhile) when this kernel thread calls [`unblock`] with the answer. `None` if the kernel does not take it back:
/// then nothing was changed.
///
/// # Safety
/// In a handler of `signal` that runs with all [`DEFERRABLE`] signals blocked; `info` and `context` are what the kernel
/// passed to it.
pub(crate) unsafe fn defer(signal: c_int, info: *mut c_void, context: *mut c_void) -> Option<Set> {
    // SAFETY: takes nothing.
    let (process, task) =
        unsafe { (system_call(libc::SYS_getpid as usize, [0; 6]), system_call(libc::SYS_gettid as usize, [0; 6])) };
    let arguments = [process as usize, task as usize, signal as usize, info.expose_provenance(), 0, 0];
    // SAFETY: the kernel reads the description of the signal, which it wrote itself.
    if unsafe { system_call(libc::SYS_rt_tgsigqueueinfo as usize, arguments) } != 0 {
        return None;
    }
    // SAFETY: the saved context of the interrupted code, whose mask the kernel takes back when the handler returns. The
    // kernel's set is the first word of the C library's.
    unsafe {
        let mask = (&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<Set>();
        let before = mask.read();
        mask.write(before | DEFERRABLE);
        Some(before)
    }
}

/// Sets the calling kernel thread's mask; what waits for it is delivered before this returns.
pub(crate) fn unblock(mask: Set) {
    let arguments = [libc::SIG_SETMASK as usize, (&raw const mask).expose_provenance(), 0, size_of::<Set>(), 0, 0];
    // SAFETY: the kernel reads one set from the stack.
    unsafe { system_call(libc::SYS_rt_sigprocmask as usize, arguments) };
}

/// Blocks all signals that can wait, for a kernel thread that runs no code of the program's, or one that is made
/// meanwhile. What was blocked before is for [`unblock`].
pub(crate) fn block_all() -> Set {
    block(DEFERRABLE)
}

/// What the calling kernel thread blocks.
pub(crate) fn mask() -> Set {
    block(0)
}

/// Blocks these too. The answer is what was blocked before.
fn block(set: Set) -> Set {
    let mut before = 0;
    let places = [(&raw const set).expose_provenance(), (&raw mut before).expose_provenance()];
    let arguments = [libc::SIG_BLOCK as usize, places[0], places[1], size_of::<Set>(), 0, 0];
    // SAFETY: the kernel reads one set from the stack, and writes another.
    unsafe { system_call(libc::SYS_rt_sigprocmask as usize, arguments) };
    before
}

/// What the calling kernel thread blocks and would get now.
pub(crate) fn pending() -> Set {
    let mut set = 0;
    let arguments = [(&raw mut set).expose_provenance(), size_of::<Set>(), 0, 0, 0, 0];
    // SAFETY: the kernel writes one set to the stack.
    unsafe { system_call(libc::SYS_rt_sigpending as usize, arguments) };
    set
}

/// Takes such signals, each of which is blocked, so that they come no more.
pub(crate) fn take(set: Set) {
    let now = [0u64; 2];
    let places = [(&raw const set).expose_provenance(), (&raw const now).expose_provenance()];
    let arguments = [places[0], 0, places[1], size_of::<Set>(), 0, 0];
    // SAFETY: the kernel reads one set and a time of two words from the stack; what it would tell of the signal is not
    // asked for.
    while unsafe { system_call(libc::SYS_rt_sigtimedwait as usize, arguments) } > 0 {}
}

/// What a call that writes has sent with this result.
pub(crate) fn sent_with(result: isize) -> Set {
    match -result as i32 {
        libc::EPIPE => set_of(&[libc::SIGPIPE]),
        libc::EFBIG => set_of(&[libc::SIGXFSZ]),
        _ => 0,
    }
}

/// In a handler: blocks what the interrupted code had blocked, `more`, and the signal itself, all but `less`, and
/// nothing else.
///
/// # Safety
/// As for [`defer`].
pub(crate) unsafe fn block_only(signal: c_int, context: *mut c_void, more: Set, less: Set) {
    // SAFETY: as in `defer`.
    let before = unsafe { (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<Set>().read() };
    unblock((before | more | 1 << (signal - 1)) & !less);
}
