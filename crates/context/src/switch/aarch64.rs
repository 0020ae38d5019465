//! The switch on aarch64 (AAPCS64).
//!
//! A suspended stack, lowest address first:
//!
//! ```text
//! sp + 0   where to go on
//! sp + 8   fpcr
//! sp + 16  x19, or the entry function of a context that has not started
//! sp + 24  x29 (frame pointer)
//! sp + 32  the stack pointer of the suspended function
//! ```
//!
//! A context that has not started goes on at [`start`].
//!
//! The compiler reserves x19 and x29 and does not accept them as clobbers, so they are saved by hand. x18 belongs to
//! the platform and is not touched. Going on by `br` keeps the return predictor out of it; the target of a `br` through
//! x16 or x17 may be a call landing pad or not be one at all, as long as the page is not guarded (BTI), which Rust does
//! not turn on.

use super::{Context, Frame, Saved};
use core::arch::{asm, naked_asm};

/// A context starts behind a `nop`: unwinders look before where a frame goes on, and must find [`start`] there.
const NOP: u64 = 4;

/// Puts the frame of a context that has not started below `top`.
///
/// # Safety
/// The 48 bytes below `top` are writable and free, `top` is 16-byte aligned.
pub unsafe fn init_frame(top: *mut u8, entry: unsafe extern "C" fn(usize) -> !) -> *mut u8 {
    // SAFETY: four words below `top`, which the caller gives; `top` is aligned for them.
    unsafe {
        let words = top.cast::<u64>().sub(4);
        words.write(start as *const () as u64 + NOP);
        words.add(1).write(0);
        words.add(2).write(entry as *const () as u64);
        words.add(3).write(0);
        words.cast()
    }
}

/// The layout above.
pub const SAVED: Saved = Saved { pc: 0, kept: 16, fp: 24, bytes: 32 };

/// # Safety
/// `sp` is the stack pointer of a suspended context.
pub unsafe fn frame(sp: *mut u8) -> Frame {
    // SAFETY: the layout above.
    unsafe {
        let word = |at: usize| *sp.byte_add(at).cast::<usize>();
        Frame { pc: word(SAVED.pc), sp: sp.addr() + SAVED.bytes, fp: word(SAVED.fp) }
    }
}

/// Where a context starts: x19 holds the entry function, x0 the switch's argument.
///
/// # Safety
/// Reached by a switch only.
#[unsafe(naked)]
unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "nop",
        "mov x29, xzr",
        "mov x30, xzr",
        "blr x19",
        "brk #1",
        ".cfi_endproc",
    )
}

/// Puts a frame below that of a suspended context which goes on at [`visit`].
///
/// # Safety
/// `sp` is the stack pointer of a suspended context, and the stack below it is free.
pub unsafe fn visit_frame(sp: *mut u8, visitor: unsafe extern "C" fn(usize) -> !) -> *mut u8 {
    // SAFETY: four words below the suspended frame, as aligned as it is.
    unsafe {
        let suspended = sp.cast::<u64>();
        let words = suspended.sub(4);
        words.write(visit as *const () as u64);
        words.add(1).write(suspended.add(1).read());
        words.add(2).write(visitor as *const () as u64);
        words.add(3).write(sp.addr() as u64);
        words.cast()
    }
}

/// Where a visit starts: x19 holds the visitor, x29 the stack pointer of the suspended context, x0 the argument.
///
/// To unwinders the suspended frame looks like one made by a call: its words say where the caller goes on.
///
/// # Safety
/// Reached by a switch only.
#[unsafe(naked)]
unsafe extern "C" fn visit() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa x29, 32",
        ".cfi_offset x30, -32",
        ".cfi_offset x19, -16",
        ".cfi_offset x29, -8",
        "blr x19",
        "brk #1",
        ".cfi_endproc",
    )
}

/// The half of a switch that continues the context at x1. In: x1 = load, x0 = argument, x3 = current thread pointer,
/// x4 = current fpcr. Writing the thread pointer and fpcr costs more than comparing.
macro_rules! resume {
    () => {
        "
        ldp x6, x5, [x1]
        mov sp, x6
        cmp x3, x5
        b.eq 3f
        msr tpidr_el0, x5
    3:
        ldp x16, x7, [sp], #16
        cmp x4, x7
        b.eq 4f
        msr fpcr, x7
    4:
        ldp x19, x29, [sp], #16
        br x16
        "
    };
}

/// # Safety
/// See [`super::switch`].
#[inline(always)]
pub unsafe fn switch(save: *mut Context, load: *const Context, arg: usize) -> usize {
    let result;
    // SAFETY: the caller's promise; all registers that the other side may change are declared, memory too.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x5, 2f",
            "mrs x4, fpcr",
            "stp x5, x4, [sp, #-16]!",
            "mrs x3, tpidr_el0",
            "mov x6, sp",
            "stp x6, x3, [x2]",
            resume!(),
            "2:",
            inlateout("x2") save => _,
            inlateout("x1") load => _,
            inlateout("x0") arg => result,
            lateout("x20") _,
            lateout("x21") _,
            lateout("x22") _,
            lateout("x23") _,
            lateout("x24") _,
            lateout("x25") _,
            lateout("x26") _,
            lateout("x27") _,
            lateout("x28") _,
            lateout("d8") _,
            lateout("d9") _,
            lateout("d10") _,
            lateout("d11") _,
            lateout("d12") _,
            lateout("d13") _,
            lateout("d14") _,
            lateout("d15") _,
            clobber_abi("C"),
        );
    }
    result
}

/// # Safety
/// See [`super::switch_away`].
#[inline(always)]
pub unsafe fn switch_away(load: *const Context, arg: usize) -> ! {
    // SAFETY: `load` is suspended, so its stack pointer leads to what a switch left there; nothing here is used again.
    unsafe {
        asm!(
            "mrs x4, fpcr",
            "mrs x3, tpidr_el0",
            resume!(),
            in("x1") load,
            in("x0") arg,
            options(noreturn),
        )
    }
}

#[inline(always)]
pub fn reset_modes() {
    // SAFETY: the default modes of the calling convention.
    unsafe { asm!("msr fpcr, xzr", options(nomem, nostack, preserves_flags)) };
}

/// fpcr.
pub type Modes = u64;

#[inline(always)]
pub fn save_modes(modes: &mut Modes) {
    // SAFETY: reads a control register.
    unsafe { asm!("mrs {}, fpcr", out(reg) * modes, options(nomem, nostack, preserves_flags)) };
}

#[inline(always)]
pub fn set_modes(modes: &Modes) {
    // SAFETY: a control word that was read by `save_modes`.
    unsafe { asm!("msr fpcr, {}", in(reg) *modes, options(nomem, nostack, preserves_flags)) };
}

/// # Safety
/// See [`super::set_fs`].
#[inline(always)]
pub unsafe fn set_fs(fs: usize) {
    // SAFETY: the caller's promise. The compiler must not move what touches memory over it.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) fs, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn current_fs() -> usize {
    let fs;
    // SAFETY: reads the thread pointer.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) fs, options(nomem, nostack, preserves_flags)) };
    fs
}

pub fn fs_method() -> &'static str {
    "msr tpidr_el0"
}

pub fn detect(_force_slow: bool) {}

/// Guarded control stacks are off unless a program asks for them; glibc asks only when told to by a tunable.
pub fn disable_shadow_stack() -> Result<(), &'static str> {
    Ok(())
}
