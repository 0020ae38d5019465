//! The set*id family: the C library changes the rights of each kernel thread by a signal (33) to all of them.
//!
//! Its handler notes in the thread control block of the *thread* it runs on that it is done; on a kernel thread that
//! carries a lightweight thread that would be the wrong block, and the caller would wait for ever. So the handler is
//! run with the kernel thread's own thread pointer.

use crate::os::{c, system_call};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

const SETXID: c_int = 33;

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct KernelAction {
    pub handler: usize,
    flags: usize,
    #[cfg(target_arch = "x86_64")]
    restorer: usize,
    mask: u64,
}

static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

/// Takes the place of the C library's handler, which is there since the first kernel thread was made.
pub(super) fn prepare() {
    find_code();
    let mut action = KernelAction::default();
    let place = (&raw mut action).expose_provenance();
    let action = &mut action;
    // SAFETY: the kernel writes, then reads, one action of its own layout.
    unsafe {
        if system_call(c::SYS_rt_sigaction, [SETXID as usize, 0, place, 8, 0, 0]) != 0
            || action.handler <= c::SIG_IGN
            || action.handler == changed as *const () as usize
        {
            return;
        }
        ORIGINAL.store(action.handler, Ordering::Release);
        action.handler = changed as *const () as usize;
        system_call(c::SYS_rt_sigaction, [SETXID as usize, place, 0, 8, 0, 0]);
    }
}

unsafe extern "C" fn changed(signal: c_int, info: *mut c_void, context: *mut c_void) {
    type Handler = unsafe extern "C" fn(c_int, *mut c_void, *mut c_void);
    // SAFETY: stored before this function was installed; the C library's handler.
    let original = unsafe { std::mem::transmute::<usize, Handler>(ORIGINAL.load(Ordering::Acquire)) };
    let own = raddle::drop_in::own_thread_pointer();
    let installed = thread_pointer();
    match own {
        Some(own) if own != installed => {
            set_thread_pointer(own);
            // SAFETY: the kernel's arguments; the C library's own storage of this kernel thread is installed.
            unsafe { original(signal, info, context) };
            set_thread_pointer(installed);
        }
        // SAFETY: the kernel's arguments.
        _ => unsafe { original(signal, info, context) },
    }
}

fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the first word of a thread control block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags))
    };
    pointer
}

/// Installs a thread pointer, for code that uses no thread-local storage of its caller.
fn set_thread_pointer(pointer: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: ARCH_SET_FS with the address of a live thread control block.
    unsafe {
        system_call(c::SYS_arch_prctl, [0x1002, pointer, 0, 0, 0, 0])
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the address of a live thread control block.
    unsafe {
        std::arch::asm!("msr tpidr_el0, {}", in(reg) pointer, options(nostack))
    };
}

/// Start and end of the code of this library, of the C library, of the loader and of what the kernel lends.
static CODE: [[AtomicUsize; 2]; 4] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; 4];

/// Where there are no lightweight threads yet, or never will be: the ranges are known from here on.
pub(super) fn know_code() {
    if CODE[0][1].load(Ordering::Relaxed) == 0 {
        find_code();
    }
}

/// Finds the ranges once, since handlers may not ask the loader.
fn find_code() {
    unsafe extern "C" fn visit(info: *mut c::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object.
        unsafe {
            let info = &*info;
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
            let code = headers.iter().filter(|header| header.p_type == c::PT_LOAD);
            let low = code.clone().map(|header| info.dlpi_addr + header.p_vaddr).min().unwrap_or(0) as usize;
            let high = code.map(|header| info.dlpi_addr + header.p_vaddr + header.p_memsz).max().unwrap_or(0) as usize;
            let inside = |address: usize| (low..high).contains(&address);
            let lent = [c::AT_BASE, c::AT_SYSINFO_EHDR].map(|kind| c::getauxval(kind) as usize);
            let known = [changed as *const () as usize, c::getpid as *const () as usize, lent[0], lent[1]];
            for (range, address) in CODE.iter().zip(known) {
                if inside(address) {
                    range[0].store(low, Ordering::Relaxed);
                    range[1].store(high, Ordering::Relaxed);
                }
            }
        }
        0
    }
    // SAFETY: the callback has the type that is asked for, does not unwind, and uses no data.
    unsafe { c::dl_iterate_phdr(Some(visit), std::ptr::null_mut()) };
}

/// True where an end of the thread may begin to unwind: in the program's code, and in a system call of the C library
/// that waits. (Elsewhere there it may hold a lock.) The first thread, which is a kernel thread, waits in system calls
/// of ours.
pub(super) fn can_unwind(context: &c::ucontext_t) -> bool {
    let code = if crate::thread::record::Record::current().is_some() { &CODE[1..2] } else { &CODE[..2] };
    is_program_code(context) || is_in(code, context) && is_waiting_call(context)
}

/// What was interrupted is a system call, in this library or in the C library, that the signal has ended.
pub(super) fn is_ended_call(context: &c::ucontext_t) -> bool {
    #[cfg(target_arch = "x86_64")]
    let result = context.uc_mcontext.gregs[c::REG_RAX as usize];
    #[cfg(target_arch = "aarch64")]
    let result = context.uc_mcontext.regs[0] as i64;
    result == -i64::from(c::EINTR) && is_in(&CODE[..2], context) && is_waiting_call(context)
}

/// The interrupted instruction, which can be read, is a system call that goes on after the handler, or follows one that
/// the signal has ended.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_waiting_call(context: &c::ucontext_t) -> bool {
    let registers = &context.uc_mcontext.gregs;
    let at = registers[c::REG_RIP as usize] as usize;
    let call = |at: usize| {
        // SAFETY: in the C library's code, two bytes or more from its beginning.
        unsafe { std::ptr::with_exposed_provenance::<[u8; 2]>(at).read() == [0x0f, 0x05] }
    };
    call(at) || registers[c::REG_RAX as usize] == -i64::from(c::EINTR) && call(at - 2)
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn is_waiting_call(context: &c::ucontext_t) -> bool {
    let at = context.uc_mcontext.pc as usize;
    let call = |at: usize| {
        // SAFETY: in the C library's code, an instruction or more from its beginning.
        unsafe { std::ptr::with_exposed_provenance::<u32>(at).read() == 0xd400_0001 }
    };
    call(at) || context.uc_mcontext.regs[0] as i64 == -i64::from(c::EINTR) && call(at - 4)
}

/// True when the interrupted instruction is neither this library's nor the C library's: unwinding may begin there.
pub(crate) fn is_program_code(context: &c::ucontext_t) -> bool {
    !is_in(&CODE, context)
}

/// True for an address in this library's code.
pub(crate) fn is_of_this_library(address: usize) -> bool {
    let [low, high] = &CODE[0];
    (low.load(Ordering::Relaxed)..high.load(Ordering::Relaxed)).contains(&address)
}

/// True when the interrupted instruction is the C library's.
pub(crate) fn is_c_library_code(context: &c::ucontext_t) -> bool {
    is_in(&CODE[1..2], context)
}

fn is_in(code: &[[AtomicUsize; 2]], context: &c::ucontext_t) -> bool {
    #[cfg(target_arch = "x86_64")]
    let at = context.uc_mcontext.gregs[c::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let at = context.uc_mcontext.pc as usize;
    code.iter().any(|range| (range[0].load(Ordering::Relaxed)..range[1].load(Ordering::Relaxed)).contains(&at))
}
