//! Jumps out of signal handlers: the thread that a handler interrupted was hidden from the runtime meanwhile, and is
//! itself again, and the mask that the jump restores is brought up to date ([`super::masks`]).
//!
//! A jump that stays inside the innermost handler changes nothing. One from it into another handler that runs below
//! counts as one out of all.
//!
//! What `sigsetjmp` saves is the kernel thread's mask. That of its thread is noted beside it, and a jump restores both.

use super::alternate;
use super::signals::Set;
use crate::thread::caller::Caller;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

/// Bytes of registers before the rest of a `jmp_buf`; there stands whether a mask was saved, and behind it the mask, as
/// programs are built with it.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 64 } else { 176 };
/// The last two words of the sixteen that C gives a set, of which the kernel knows the first.
const NOTE: usize = REGISTERS + size_of::<Set>() + 14 * size_of::<Set>();
/// The first word of a note.
const NOTED: u64 = 0x7261_6464_6c65_6d6b;

/// What a jump to it restores.
pub(super) struct Saved {
    /// The kernel thread's mask; `None` where none was saved.
    pub kernels: Option<*mut Set>,
    /// The mask of the lightweight thread that saved it.
    pub own: Option<Set>,
}

/// Reads a `jmp_buf`.
///
/// # Safety
/// It was filled.
pub(super) unsafe fn read(saved: *mut c_void) -> Saved {
    // SAFETY: the buffer was filled; the layout is the C library's, which has it whole where a mask was saved.
    unsafe {
        let after = saved.byte_add(REGISTERS);
        if after.cast::<c_int>().read() == 0 {
            return Saved { kernels: None, own: None };
        }
        let [noted, own] = saved.byte_add(NOTE).cast::<[u64; 2]>().read();
        Saved { kernels: Some(after.byte_add(size_of::<Set>()).cast()), own: (noted == NOTED).then_some(own) }
    }
}

/// Before a `jmp_buf` is filled: notes the mask of the calling thread, if it is lightweight.
///
/// # Safety
/// Where a mask is to be saved, `saved` is a whole `jmp_buf`.
unsafe fn note(saved: *mut c_void, with_mask: c_int) {
    if with_mask == 0 {
        // What cancellation handlers of C fill has no room for one.
        return;
    }
    let note = Caller::light().map_or([0; 2], |me| [NOTED, me.mask.load(Ordering::Relaxed)]);
    // SAFETY: a mask is to be saved, so the caller has promised a whole buffer.
    unsafe { saved.byte_add(NOTE).cast::<[u64; 2]>().write(note) };
}

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
unsafe fn leaves(saved: *const c_void) -> bool {
    let frame = INNERMOST.get();
    let here = (&raw const frame).addr();
    // SAFETY: the buffer was filled.
    frame == 0 || !unsafe { target(saved) }.is_some_and(|pointer| (here..frame).contains(&pointer))
}

/// The stack pointer that is saved there, where it can be read.
///
/// # Safety
/// A `jmp_buf` that was filled.
#[cfg(target_arch = "x86_64")]
unsafe fn target(saved: *const c_void) -> Option<usize> {
    /// The place of the stack pointer in it, in words.
    const STACK_POINTER: usize = 6;
    // SAFETY: as promised; the C library has rotated the register and mixed it with a word of the thread's control
    // block, as programs built with it rely on.
    unsafe {
        let guard: usize;
        std::arch::asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, readonly, preserves_flags));
        Some(saved.cast::<usize>().add(STACK_POINTER).read().rotate_right(17) ^ guard)
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn target(_: *const c_void) -> Option<usize> {
    None
}

/// A function that goes on as the C library's one of its name, which `$find` finds, with the same arguments: nothing of
/// ours is left on the stack while that runs. It may return twice, or never.
macro_rules! through {
    ($name:ident by $find:ident) => {
        /// # Safety
        /// As C says.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
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
        pub unsafe extern "C" fn $name() {
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

pub(super) use through;

/// Before a jump to what is saved there.
///
/// # Safety
/// A `jmp_buf` that was filled.
unsafe fn settle(saved: *mut c_void) {
    // SAFETY: the buffer was filled.
    if unsafe { leaves(saved) } {
        raddle::signal::left_by_a_jump();
        // SAFETY: the buffer was filled, and is jumped to next.
        unsafe { super::masks::settle_jump(saved) };
    }
}

macro_rules! jump {
    ($name:ident, $find:ident) => {
        unsafe extern "C" fn $find(saved: *mut c_void) -> *const () {
            // SAFETY: the caller's argument.
            unsafe { settle(saved) };
            next!($name: fn()) as *const ()
        }

        through! { $name by $find }
    };
}

jump!(longjmp, find_longjmp);
jump!(_longjmp, find_old_longjmp);
jump!(siglongjmp, find_siglongjmp);

/// A program that is built with `_FORTIFY_SOURCE` has its jumps checked: one to a lower address ends it, but for one
/// out of the alternate stack. That is the kernel's, which does not know a lightweight thread's own.
unsafe extern "C" fn find_longjmp_chk(saved: *mut c_void) -> *const () {
    let here = (&raw const saved).addr();
    // SAFETY: the caller's argument.
    let stays = || unsafe { target(saved) }.is_some_and(alternate::is_on_own);
    let leaves_alternate = alternate::is_on_own(here) && !stays();
    // SAFETY: the caller's argument.
    unsafe { settle(saved) };
    if leaves_alternate { next!(longjmp: fn()) as *const () } else { next!(__longjmp_chk: fn()) as *const () }
}

through! { __longjmp_chk by find_longjmp_chk }

macro_rules! save {
    ($name:ident, $find:ident, $with_mask:expr) => {
        unsafe extern "C" fn $find(saved: *mut std::ffi::c_void, with_mask: c_int) -> *const () {
            let always: Option<c_int> = $with_mask;
            // SAFETY: the caller's argument.
            unsafe { note(saved, always.unwrap_or(with_mask)) };
            next!($name: fn()) as *const ()
        }

        through! { $name by $find }
    };
}

save!(__sigsetjmp, find_sigsetjmp, None);
// The function saves the mask; C's `setjmp` is `_setjmp`, which does not.
save!(setjmp, find_setjmp, Some(1));
