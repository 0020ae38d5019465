//! A stack overflow reported with the thread's name.
//!
//! A stack that overflows touches its guard, which is SIGSEGV. The handler runs on the kernel thread's alternate stack,
//! asks the runtime for the name of the thread that owns the slot, writes one line to standard error and aborts, as std
//! does; in C programs ([`end_as_in_c`]) the fault then has its default effect. Any other fault
//! goes to the handler that was there before (std's, which knows the guards of kernel threads), or has the default
//! effect.
//!
//! A kernel thread that carries lightweight threads needs an alternate stack ([`activation_altstack`]) and must not
//! block
//! SIGSEGV or SIGBUS: an overflow would kill the process silently.
//!
//! # Example
//! ```
//! use core::fmt::Write;
//! fn name_of(_address: usize, out: &mut dyn Write) {
//!     let _ = out.write_str("worker 7");
//! }
//! raddle_context::overflow::install(name_of).unwrap();
//! let _alternate_stack = raddle_context::overflow::activation_altstack().unwrap();
//! ```

use crate::stack;
use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io;
use std::sync::Mutex;

/// Writes the name of the thread that owns the slot at an address. Called from a signal handler: async-signal-safe.
pub type NameOf = fn(address: usize, out: &mut dyn Write);

/// A `NameOf` as a word; 0: none.
static NAME_OF: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);
static INSTALLING: Mutex<()> = Mutex::new(());

/// What was there before, for SIGSEGV and SIGBUS. Written before the handler is installed, read by it.
struct Previous(core::cell::UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written once under `INSTALLING`, before the handler that reads it can run.
unsafe impl Sync for Previous {}
static PREVIOUS: [Previous; 2] = [const { Previous(core::cell::UnsafeCell::new(MaybeUninit::uninit())) }; 2];

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Installs the handlers once per process; later calls only change `name_of`.
///
/// # Errors
/// What `sigaction` says.
pub fn install(name_of: NameOf) -> io::Result<()> {
    // Ordering: Relaxed: the word is all there is.
    NAME_OF.store(name_of as usize, Ordering::Relaxed);
    let _one = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if INSTALLED.load(Ordering::Relaxed) {
        return Ok(());
    }
    for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
        // SAFETY: reads the present action, then replaces it by one that chains to it.
        unsafe {
            if libc::sigaction(signal, core::ptr::null(), previous.0.get().cast()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            if libc::sigaction(signal, &action, core::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    INSTALLED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Bytes of an alternate stack: room for the largest register state (AMX: 11 KiB) and for the report.
const ALTSTACK: usize = 64 << 10;

/// An alternate signal stack of the kernel thread that has this value. Dropping it takes it out of use and unmaps it.
#[must_use = "the kernel thread has the stack as long as it keeps this"]
#[derive(Debug)]
pub struct AlternateStack {
    /// Null when the kernel thread had one already.
    memory: *mut c_void,
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.memory.is_null() {
            return;
        }
        // SAFETY: takes this kernel thread's own alternate stack out of use (the value is neither Send nor Sync, so it
        // is still on the kernel thread that made it; while a handler runs on the stack, the kernel refuses), then
        // unmaps what was mapped for it.
        unsafe {
            let mut present: libc::stack_t = core::mem::zeroed();
            let off = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: ALTSTACK };
            let asked = libc::sigaltstack(core::ptr::null(), &mut present) == 0;
            if asked && (present.ss_sp != self.memory || libc::sigaltstack(&off, core::ptr::null_mut()) == 0) {
                libc::munmap(self.memory, ALTSTACK);
            }
        }
    }
}

/// Gives the calling kernel thread an alternate signal stack, if it has none of this size, and lets SIGSEGV and SIGBUS
/// through. It has the stack until the answer is dropped.
///
/// # Errors
/// No memory for the stack.
pub fn activation_altstack() -> io::Result<AlternateStack> {
    // SAFETY: asks for and sets this kernel thread's own alternate stack and signal mask.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in SIGNALS {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, core::ptr::null_mut());

        let mut present: libc::stack_t = core::mem::zeroed();
        if libc::sigaltstack(core::ptr::null(), &mut present) == 0
            && present.ss_flags & libc::SS_DISABLE == 0
            && present.ss_size >= ALTSTACK
        {
            return Ok(AlternateStack { memory: core::ptr::null_mut() });
        }
        let memory = libc::mmap(
            core::ptr::null_mut(),
            ALTSTACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: ALTSTACK };
        if libc::sigaltstack(&stack, core::ptr::null_mut()) != 0 {
            let why = io::Error::last_os_error();
            libc::munmap(memory, ALTSTACK);
            return Err(why);
        }
        Ok(AlternateStack { memory })
    }
}

/// The handler of SIGSEGV and SIGBUS.
unsafe extern "C-unwind" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid description of the fault.
    let address = unsafe { (*info).si_addr() }.addr();
    let place = stack::find(address);
    // SAFETY: as the kernel called us.
    let is_call = place.is_some() && unsafe { is_call_of_stack(signal, info, context) };
    if is_call && place.as_ref().is_some_and(stack::make_executable) {
        return;
    }
    // SAFETY: as the kernel called us.
    if unsafe { is_taken(signal, info, context) } {
        return;
    }
    if let Some(place) = place
        && place.in_guard
    {
        report(address, place.stack_size);
        let at = usize::from(signal == libc::SIGBUS);
        // SAFETY: written before this handler was installed.
        let before = unsafe { (*PREVIOUS[at].0.get().cast::<libc::sigaction>()).sa_sigaction };
        if !AS_IN_C.load(Ordering::Relaxed) || before > libc::SIG_IGN {
            // SAFETY: ends the process.
            unsafe { libc::abort() }
        }
    }
    // SAFETY: as the kernel called us.
    unsafe { chain(signal, info, context) };
}

/// Whether the fault is code's on a stack that is not executable.
///
/// # Safety
/// A handler's arguments.
unsafe fn is_call_of_stack(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) -> bool {
    /// `SEGV_ACCERR`, which the `libc` crate lacks: the page is there, for other uses.
    const NOT_ALLOWED: c_int = 2;
    // SAFETY: what the kernel passes to a handler.
    unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        #[cfg(target_arch = "x86_64")]
        let counter = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
        #[cfg(target_arch = "aarch64")]
        let counter = context.uc_mcontext.pc as usize;
        signal == libc::SIGSEGV && (*info).si_code == NOT_ALLOWED && (*info).si_addr().addr() == counter
    }
}

fn report(address: usize, size: usize) {
    let mut line = Line::new();
    let _ = line.write_str("\nthread '");
    // Ordering: Relaxed: the word is all there is.
    let name_of = NAME_OF.load(Ordering::Relaxed);
    if name_of != 0 {
        // SAFETY: stored by `install` from this type.
        let name_of: NameOf = unsafe { core::mem::transmute(name_of) };
        name_of(address, &mut line);
    }
    let remedy = match AS_IN_C.load(Ordering::Relaxed) {
        true => "pthread_attr_setstacksize, or ulimit -s",
        false => "Builder::stack_size",
    };
    let _ = writeln!(
        line,
        "' has overflowed its stack (size {size} bytes, address {address:#x}); raise the stack size with {remedy}"
    );
    line.send();
}

/// A function that may take a fault: the arguments of the handler.
pub type Take = unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut c_void) -> bool;

/// Who is offered each fault first, as a word; 0: nobody.
static OFFERED: AtomicUsize = AtomicUsize::new(0);

/// From now on `take` is offered each fault first, overflows too; where it answers true, or does not return, nothing is
/// reported. It is called in a signal handler: async-signal-safe.
pub fn offer_first(take: Take) {
    // Ordering: Relaxed: the word is all there is.
    OFFERED.store(take as usize, Ordering::Relaxed);
}

/// Whether a handler, as `sigaction` has it, is the one that reports overflows.
pub fn is_report(handler: usize) -> bool {
    handler == on_fault as *const () as usize
}

/// # Safety
/// A handler's arguments.
unsafe fn is_taken(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // Ordering: Relaxed: the word is all there is.
    let offered = OFFERED.load(Ordering::Relaxed);
    // SAFETY: stored by `offer_first` from this type; the kernel's arguments.
    offered != 0 && unsafe { core::mem::transmute::<usize, Take>(offered)(signal, info.cast(), context) }
}

/// The program is not one of Rust's, where an overflow aborts.
static AS_IN_C: AtomicBool = AtomicBool::new(false);

/// From now on an overflow is reported with the remedies of C, and, unless the program had a handler before, ends the
/// program as the fault that it is.
pub fn end_as_in_c() {
    AS_IN_C.store(true, Ordering::Relaxed);
}

/// The handler that was there before; without one, the fault's default effect when the handler returns and it recurs.
unsafe fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let at = usize::from(signal == libc::SIGBUS);
    // SAFETY: written before this handler was installed; the function has the type that its flags say.
    unsafe {
        let previous = &*PREVIOUS[at].0.get().cast::<libc::sigaction>();
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // A fault cannot be ignored. A signal sent by `kill` does not recur by itself.
                libc::sigaction(signal, previous, core::ptr::null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                core::mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            handler => core::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal),
        }
    }
}

/// A line of text put together without allocating.
pub(crate) struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Line {
    pub(crate) fn new() -> Line {
        Line { bytes: [0; 512], length: 0 }
    }

    /// Writes the line to standard error. Async-signal-safe.
    pub(crate) fn send(&self) {
        // SAFETY: our own bytes.
        unsafe { libc::write(2, self.bytes.as_ptr().cast(), self.length) };
    }
}

impl Write for Line {
    /// What does not fit is cut off, the end of the line last.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.length;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
        Ok(())
    }
}
