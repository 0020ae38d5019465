//! `signal`, and what System V and BSD have for masks and actions. The C library carries these out by calls of its own
//! that pass by ours, so they would change the kernel thread's mask, and install handlers without [`super::actions`].

use super::actions::sigaction;
use super::signals::{Set, bit, pthread_sigmask, sigprocmask};
use super::waiting::sigsuspend;
use crate::os::{c, set_errno};
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `sigset` takes for an action, and answers with, where the signal is blocked.
const SIG_HOLD: usize = 2;

/// The signals that `siginterrupt` has made end calls: handlers that `signal` installs do so, too.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// The set as the C library has it.
fn as_c(set: Set) -> c::sigset_t {
    // SAFETY: zeroes are a set, whose first word is the kernel's.
    unsafe {
        let mut wide: c::sigset_t = std::mem::zeroed();
        (&raw mut wide).cast::<Set>().write(set);
        wide
    }
}

/// Changes the calling thread's mask: what it was, or `None` with `errno` set.
fn change(how: c_int, set: Set) -> Option<Set> {
    let (new, mut old) = (as_c(set), as_c(0));
    // SAFETY: sets on the stack; the first word is the kernel's.
    unsafe { (sigprocmask(how, &new, &mut old) == 0).then(|| (&raw const old).cast::<Set>().read()) }
}

/// The calling thread's mask.
fn mask() -> Set {
    let mut old = as_c(0);
    // SAFETY: a set on the stack, whose first word is the kernel's.
    unsafe {
        pthread_sigmask(c::SIG_BLOCK, std::ptr::null(), &mut old);
        (&raw const old).cast::<Set>().read()
    }
}

/// Sets an action, and answers with the former one's function, or SIG_ERR with `errno` set.
fn set(signal: c_int, handler: usize, flags: c_int, mask: Set) -> usize {
    if handler == c::SIG_ERR {
        set_errno(c::EINVAL);
        return c::SIG_ERR;
    }
    // SAFETY: zeroes are an action; the handler is the program's.
    unsafe {
        let mut new: c::sigaction = std::mem::zeroed();
        let mut old: c::sigaction = std::mem::zeroed();
        (new.sa_sigaction, new.sa_flags, new.sa_mask) = (handler, flags, as_c(mask));
        if sigaction(signal, &new, &mut old) == 0 { old.sa_sigaction } else { c::SIG_ERR }
    }
}

/// The signal's bit, or `None` with `errno` set.
fn known(signal: c_int) -> Option<Set> {
    // The C library keeps two for itself.
    if (1..=64).contains(&signal) && signal != 32 && signal != 33 {
        return Some(bit(signal));
    }
    set_errno(c::EINVAL);
    None
}

/// As BSD does it.
#[entry]
pub unsafe extern "C" fn signal(number: c_int, handler: usize) -> usize {
    let Some(own) = known(number) else { return c::SIG_ERR };
    let ends_calls = INTERRUPTING.load(Ordering::Relaxed) & own != 0;
    set(number, handler, if ends_calls { 0 } else { c::SA_RESTART }, own)
}

#[entry]
pub unsafe extern "C" fn __sysv_signal(number: c_int, handler: usize) -> usize {
    set(number, handler, c::SA_RESETHAND | c::SA_NODEFER, 0)
}

#[entry]
pub unsafe extern "C" fn siginterrupt(number: c_int, ends_calls: c_int) -> c_int {
    // SAFETY: zeroes are an action; both are on the stack, and what is installed was there.
    unsafe {
        let mut action: c::sigaction = std::mem::zeroed();
        if sigaction(number, std::ptr::null(), &mut action) != 0 {
            return -1;
        }
        if ends_calls != 0 {
            INTERRUPTING.fetch_or(bit(number), Ordering::Relaxed);
            action.sa_flags &= !c::SA_RESTART;
        } else {
            INTERRUPTING.fetch_and(!bit(number), Ordering::Relaxed);
            action.sa_flags |= c::SA_RESTART;
        }
        sigaction(number, &action, std::ptr::null_mut())
    }
}

#[entry]
pub unsafe extern "C" fn sigignore(number: c_int) -> c_int {
    if set(number, c::SIG_IGN, 0, 0) == c::SIG_ERR { -1 } else { 0 }
}

#[entry]
pub unsafe extern "C-unwind" fn sighold(number: c_int) -> c_int {
    known(number).and_then(|own| change(c::SIG_BLOCK, own)).map_or(-1, |_| 0)
}

#[entry]
pub unsafe extern "C-unwind" fn sigrelse(number: c_int) -> c_int {
    known(number).and_then(|own| change(c::SIG_UNBLOCK, own)).map_or(-1, |_| 0)
}

#[entry]
pub unsafe extern "C-unwind" fn sigset(number: c_int, handler: usize) -> usize {
    let Some(own) = known(number) else { return c::SIG_ERR };
    let (former, how) = if handler == SIG_HOLD {
        // SAFETY: zeroes are an action, on the stack.
        let asked = unsafe {
            let mut action: c::sigaction = std::mem::zeroed();
            (sigaction(number, std::ptr::null(), &mut action) == 0).then_some(action.sa_sigaction)
        };
        (asked.unwrap_or(c::SIG_ERR), c::SIG_BLOCK)
    } else {
        (set(number, handler, 0, 0), c::SIG_UNBLOCK)
    };
    if former == c::SIG_ERR {
        return former;
    }
    match change(how, own) {
        Some(before) if before & own != 0 => SIG_HOLD,
        Some(_) => former,
        None => c::SIG_ERR,
    }
}

/// A mask of BSD's: the first 32 signals.
fn of_bsd(mask: c_int) -> Set {
    Set::from(mask as u32)
}

#[entry]
pub unsafe extern "C-unwind" fn sigblock(more: c_int) -> c_int {
    change(c::SIG_BLOCK, of_bsd(more)).map_or(-1, |before| before as c_int)
}

#[entry]
pub unsafe extern "C-unwind" fn sigsetmask(mask: c_int) -> c_int {
    change(c::SIG_SETMASK, of_bsd(mask)).map_or(-1, |before| before as c_int)
}

#[entry]
pub unsafe extern "C-unwind" fn siggetmask() -> c_int {
    mask() as c_int
}

/// BSD's, of a mask.
#[entry]
pub unsafe extern "C-unwind" fn sigpause(mask: c_int) -> c_int {
    // SAFETY: a set on the stack.
    unsafe { sigsuspend(&as_c(of_bsd(mask))) }
}

/// System V's, of a signal: `sigpause` of a program that is compiled for it.
#[entry]
pub unsafe extern "C-unwind" fn __xpg_sigpause(number: c_int) -> c_int {
    let Some(own) = known(number) else { return -1 };
    // SAFETY: a set on the stack.
    unsafe { sigsuspend(&as_c(mask() & !own)) }
}

#[entry]
pub unsafe extern "C-unwind" fn __sigpause(number_or_mask: c_int, is_number: c_int) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { if is_number != 0 { __xpg_sigpause(number_or_mask) } else { sigpause(number_or_mask) } }
}

aliases! {
    bsd_signal = signal(number: c_int, handler: usize) -> usize;
    ssignal = signal(number: c_int, handler: usize) -> usize;
    sysv_signal = __sysv_signal(number: c_int, handler: usize) -> usize;
}
