//! Alternate stacks of lightweight threads: a handler that asks for one (SA_ONSTACK) runs on the one that its thread
//! has set.
//!
//! The kernel knows one alternate stack of each kernel thread, which is the runtime's. So a handler that asks for an
//! alternate stack is called by way of [`entry()`]. That begins on the kernel thread's and calls the handler on the
//! thread's own, if it has set one. The kernel takes its own to be free as soon as the stack pointer is elsewhere, so
//! the kernel thread has none meanwhile. A jump out of the handler leaves both.
//!
//! A thread that has set none is answered with the kernel thread's: Rust's standard library gives each thread one where
//! it finds none. Its handlers run there.

use super::{actions, signals};
use crate::os::{answer, c, reach, set_errno, system_call};
use crate::thread::caller::Caller;
use crate::thread::dedicated;
use crate::thread::record::Record;
use crate::thread::undo::Undo;
use raddle_macros::entry;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// What a thread has set: where it begins, its size, whether it is in use, and whether it is not while a handler runs.
#[derive(Clone, Copy)]
struct Alternate {
    base: usize,
    size: usize,
    disabled: bool,
    disarms: bool,
}

impl Alternate {
    /// Whether an address, as a rule a stack pointer, lies in it.
    fn holds(&self, address: usize) -> bool {
        !self.disabled && address.wrapping_sub(self.base) <= self.size
    }
}

thread_local! {
    /// None until the thread sets one.
    static OWN: Cell<Option<Alternate>> = const { Cell::new(None) };
    /// The kernel thread's, while a handler runs on the thread's own.
    static KERNELS: Cell<Option<c::stack_t>> = const { Cell::new(None) };
    /// What that handler blocks.
    static BLOCKED: Cell<signals::Set> = const { Cell::new(0) };
}

/// Flags that a caller may give; the first of them, SS_AUTODISARM, has the stack unused while a handler runs there.
const AUTODISARM: c_int = i32::MIN;
/// The smallest stack that the C library names.
const SMALLEST: usize = 2048;

#[entry]
pub unsafe extern "C" fn sigaltstack(new: *const c::stack_t, old: *mut c::stack_t) -> c_int {
    let in_handler = |me: &Record| dedicated::task(me).is_none();
    let is_ours = match Caller::here() {
        Caller::Light(_) => true,
        Caller::Handler(me) => me.is_some_and(in_handler),
        Caller::Native => false,
    };
    if !is_ours {
        // SAFETY: the caller's arguments.
        let result = unsafe {
            system_call(c::SYS_sigaltstack, [new.cast::<c_void>().addr(), old.cast::<c_void>().addr(), 0, 0, 0, 0])
        };
        return answer(result) as c_int;
    }
    if !(reach::reads_or_null(new) && reach::writes_or_null(old)) {
        set_errno(c::EFAULT);
        return -1;
    }
    let here = (&raw const new).addr();
    let before = OWN.get();
    let on_it = before.is_some_and(|own| own.holds(here));
    // SAFETY: null, or the caller's description.
    let wanted = unsafe { new.as_ref() }.copied();
    if let Some(wanted) = &wanted {
        let mode = wanted.ss_flags & !AUTODISARM;
        let error = if on_it {
            c::EPERM
        } else if mode != 0 && mode != c::SS_DISABLE && mode != c::SS_ONSTACK {
            c::EINVAL
        } else if mode != c::SS_DISABLE && wanted.ss_size < SMALLEST {
            c::ENOMEM
        } else {
            0
        };
        if error != 0 {
            set_errno(error);
            return -1;
        }
    }
    if !old.is_null() {
        match before {
            // SAFETY: the caller's place for it.
            Some(own) => unsafe {
                (*old).ss_sp = std::ptr::with_exposed_provenance_mut(own.base);
                (*old).ss_size = own.size;
                let state = match (own.disabled, on_it) {
                    (true, _) => c::SS_DISABLE,
                    (_, true) => c::SS_ONSTACK,
                    _ => 0,
                };
                (*old).ss_flags = state | if own.disarms { AUTODISARM } else { 0 };
            },
            // The kernel thread's is none of the program's: Go and others would have their handlers there.
            // SAFETY: the caller's place for it.
            None => unsafe {
                (*old).ss_sp = std::ptr::null_mut();
                (*old).ss_size = 0;
                (*old).ss_flags = c::SS_DISABLE;
            },
        }
    }
    if let Some(wanted) = wanted {
        let disabled = wanted.ss_flags & c::SS_DISABLE != 0;
        let (base, size) = if disabled { (0, 0) } else { (wanted.ss_sp.expose_provenance(), wanted.ss_size) };
        OWN.set(Some(Alternate { base, size, disabled, disarms: wanted.ss_flags & AUTODISARM != 0 }));
    }
    0
}

/// What the thread has set while a handler runs: its return restores that, as the kernel does; a jump out of it does
/// not.
#[must_use]
pub(super) struct Setting(Option<Alternate>);

impl Setting {
    /// `disarms`: what is not to be used while a handler runs is unused from here on. (Where the handler runs on it
    /// [`entry()`] says so.)
    pub fn begin(disarms: bool) -> Self {
        let setting = Setting(OWN.get());
        if disarms {
            disarm();
        }
        setting
    }

    /// The handler has returned.
    pub fn end(self) {
        OWN.set(self.0);
    }
}

fn disarm() {
    if OWN.get().is_some_and(|own| own.disarms) {
        OWN.set(Some(Alternate { base: 0, size: 0, disabled: true, disarms: false }));
    }
}

/// Whether the calling thread's own stack, on which it is not, is to be used by a handler.
fn own() -> Option<Alternate> {
    Record::current()?;
    OWN.get().filter(|own| !own.disabled)
}

/// Whether an address lies on the alternate stack that the calling thread has set.
pub(super) fn is_on_own(address: usize) -> bool {
    OWN.get().is_some_and(|own| own.holds(address))
}

/// A fault that the runtime has met first, an overflow perhaps: the program's handler takes it, if it has one that is
/// behind ours, and the thread a stack for it.
///
/// # Safety
/// A handler's arguments.
pub(crate) unsafe extern "C-unwind" fn take_fault(signal: c_int, info: *mut c_void, context: *mut c_void) -> bool {
    // SAFETY: the kernel's argument; the handler returns after that answer.
    if unsafe { reach::recover(context) } {
        return true;
    }
    let has_stack = actions::fault_handler(signal) != 0 && own().is_some();
    // SAFETY: the kernel's description of the fault.
    let address = || unsafe { (*info.cast::<c::siginfo_t>()).si_addr() }.addr();
    let takes = has_stack || actions::is_fault_handled(signal) && !raddle::drop_in::is_in_guard(address());
    if takes {
        // SAFETY: the kernel's arguments to the handler of this fault, which the caller is.
        unsafe { actions::take_fault(signal, info, context) };
    }
    takes
}

/// What is called in place of a handler that asks for an alternate stack.
pub(super) unsafe extern "C-unwind" fn entry(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let handler = actions::on_stack_handler(signal);
    if handler == 0 {
        return;
    }
    // SAFETY: a handler's context.
    let top = unsafe { top(context) };
    if top.is_null() {
        // SAFETY: the program's handler, which takes the signal and perhaps the rest.
        return unsafe { call_on(top, handler, signal, info, context) };
    }
    disarm();
    // Also where the thread ends in the handler. (A handler below may have set another stack for this one.)
    let _restored = KERNELS.get().is_none().then(|| Undo::new(restore));
    // Until the kernel does not take this stack to be free.
    BLOCKED.set(signals::block_movable());
    // SAFETY: takes what a handler takes; the stack is the thread's, by its own word, and nothing runs there.
    unsafe { call_on(top, begin_on_own as *const () as usize, signal, info, context) };
}

/// The first on a thread's own stack: the kernel takes its own for free from here on, where our frames still are, so it
/// has none until [`restore`].
unsafe extern "C-unwind" fn begin_on_own(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: zeroes are a description; the kernel reads one and writes another.
    unsafe {
        let [mut none, mut before]: [c::stack_t; 2] = std::mem::zeroed();
        none.ss_flags = c::SS_DISABLE;
        let places = [(&raw const none).expose_provenance(), (&raw mut before).expose_provenance()];
        let outermost = KERNELS.get().is_none();
        if system_call(c::SYS_sigaltstack, [places[0], places[1], 0, 0, 0, 0]) == 0 && outermost {
            KERNELS.set(Some(before));
        }
    }
    signals::set_kernel_mask(BLOCKED.get());
    // SAFETY: the program's handler, which takes the signal and perhaps the rest; null: the present stack.
    unsafe { call_on(std::ptr::null_mut(), actions::on_stack_handler(signal), signal, info, context) };
}

/// The handler on the thread's own stack has returned, or is left: the kernel thread has its alternate stack again.
pub(super) fn restore() {
    if let Some(stack) = KERNELS.take() {
        // SAFETY: the kernel reads a description that it has written.
        unsafe { system_call(c::SYS_sigaltstack, [(&raw const stack).expose_provenance(), 0, 0, 0, 0, 0]) };
    }
}

/// The calling kernel thread's alternate stack, as the kernel tells it.
pub(super) fn kernels() -> c::stack_t {
    // SAFETY: zeroes are a description, which the kernel writes to.
    unsafe {
        let mut stack: c::stack_t = std::mem::zeroed();
        system_call(c::SYS_sigaltstack, [0, (&raw mut stack).expose_provenance(), 0, 0, 0, 0]);
        stack
    }
}

pub(super) fn is_on_kernels() -> bool {
    kernels().ss_flags & c::SS_ONSTACK != 0
}

/// Where the alternate stack ends that the interrupted thread has set; null if it has set none, or was on it.
///
/// # Safety
/// A handler's context.
pub(super) unsafe fn top(context: *const c_void) -> *mut u8 {
    // SAFETY: the context of a handler, which the caller has.
    let interrupted = unsafe { stack_pointer(context) };
    let own = own().filter(|own| !own.holds(interrupted));
    own.map_or(std::ptr::null_mut(), |own| std::ptr::with_exposed_provenance_mut((own.base + own.size) & !15))
}

/// # Safety
/// A handler's context.
unsafe fn stack_pointer(context: *const c_void) -> usize {
    // SAFETY: the context of a handler, of this architecture.
    unsafe {
        let context = &*context.cast::<c::ucontext_t>();
        #[cfg(target_arch = "x86_64")]
        return context.uc_mcontext.gregs[c::REG_RSP as usize] as usize;
        #[cfg(target_arch = "aarch64")]
        return context.uc_mcontext.sp as usize;
    }
}

/// Calls `handler(signal, info, context)` on the stack that ends at `top`; null: the present one.
///
/// # Safety
/// `top` is null or 16-byte aligned and ends a stack that nobody uses; `handler` is a function that may be called so.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_on(
    top: *mut u8,
    handler: usize,
    signal: c_int,
    info: *mut c_void,
    context: *mut c_void,
) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, rsi",
        "test rdi, rdi",
        "cmovne rsp, rdi",
        "mov edi, edx",
        "mov rsi, rcx",
        "mov rdx, r8",
        "call rax",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_on(
    top: *mut u8,
    handler: usize,
    signal: c_int,
    info: *mut c_void,
    context: *mut c_void,
) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov x9, x1",
        "cbz x0, 1f",
        "mov sp, x0",
        "1:",
        "mov w0, w2",
        "mov x1, x3",
        "mov x2, x4",
        "blr x9",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc",
    )
}
