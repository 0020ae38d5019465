//! Jumps out of signal handlers: the thread that a handler interrupted was hidden from the runtime meanwhile, and is
//! itself again, and the mask that the jump restores is brought up to date ([`super::masks`]).
//!
//! A jump that stays inside the innermost handler changes nothing. One from it into another handler that runs below
//! counts as one out of all.

use std::cell::Cell;
use std::ffi::c_void;

thread_local! {
    /// Where the kernel has saved what the innermost handler of the program interrupted, above the handler's frames; 0:
    /// none runs.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
}

/// A handler of the program runs until [`Frame::end`].
#[must_use]
pub(super) struct Frame(usize);

impl Frame {
    /// `context`: the kernel's argument.
    pub fn begin(context: *mut c_void) -> Self {
        Self(INNERMOST.replace(context.addr()))
    }

    /// It returns.
    pub fn end(self) {
        INNERMOST.set(self.0);
    }
}

/// No handler runs any more.
pub(super) fn forget() {
    INNERMOST.set(0);
}

/// Whether the jump to what is saved there leaves the innermost handler.
///
/// # Safety
/// A `jmp_buf` that was filled.
#[cfg(target_arch = "x86_64")]
unsafe fn leaves(saved: *const c_void) -> bool {
    /// The place of the stack pointer in it, in words.
    const STACK_POINTER: usize = 6;
    let frame = INNERMOST.get();
    // SAFETY: as promised; the C library has rotated the register and mixed it with a word of the thread's control
    // block, as programs built with it rely on.
    let pointer = unsafe {
        let guard: usize;
        std::arch::asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, readonly, preserves_flags));
        saved.cast::<usize>().add(STACK_POINTER).read().rotate_right(17) ^ guard
    };
    let here = (&raw const frame).addr();
    frame == 0 || !(here..frame).contains(&pointer)
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn leaves(_: *const c_void) -> bool {
    true
}

macro_rules! jump {
    ($name:ident, $find:ident) => {
        unsafe extern "C" fn $find(saved: *mut std::ffi::c_void) -> *const () {
            // SAFETY: the caller's argument.
            if unsafe { leaves(saved) } {
                raddle::signal::left_by_a_jump();
                // SAFETY: the caller's argument.
                unsafe { super::masks::settle_jump(saved) };
            }
            next!($name: fn()) as *const ()
        }

        /// # Safety
        /// As C says.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> ! {
            std::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                "call {find}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                find = sym $find,
            )
        }

        /// # Safety
        /// As C says.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> ! {
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-32]!",
                "stp x0, x1, [sp, #16]",
                "bl {find}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                "br x16",
                find = sym $find,
            )
        }
    };
}

jump!(longjmp, find_longjmp);
jump!(_longjmp, find_old_longjmp);
jump!(siglongjmp, find_siglongjmp);
jump!(__longjmp_chk, find_longjmp_chk);
