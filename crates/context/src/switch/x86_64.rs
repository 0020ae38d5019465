//! The switch on x86-64 (System V calling convention).
//!
//! A suspended stack, lowest address first:
//!
//! ```text
//! sp + 0   mxcsr (4 bytes), x87 control word (2 bytes), unused (2 bytes)
//! sp + 8   where to go on
//! sp + 16  rbx
//! sp + 24  rbp
//! sp + 32  the stack pointer of the suspended function, or, in a context that has not started, two words of zero
//! ```
//!
//! A context that has not started goes on at [`start`] with rbx holding its entry function.
//!
//! Why the end is `pop rcx; jmp rcx`: the processor predicts a `ret` by the last `call`, which was on another stack, so
//! that each switch would be a misprediction. Why rbx and rbp are saved by hand: the compiler reserves them and does
//! not accept them as clobbers.

use super::{Context, Frame, Saved};
use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicU8, Ordering};

/// The initial mxcsr (all exceptions masked, round to nearest) in the low half, the x87 control word in the high half.
const DEFAULT_MODES: u64 = 0x1f80 | 0x037f << 32;

/// A context starts behind a one-byte `nop`: unwinders look one byte before where a frame goes on, and must find
/// [`start`].
const NOP: u64 = 1;

/// Not zero while the thread pointer must be set by a system call.
static SLOW_FS: AtomicU8 = AtomicU8::new(1);

/// Puts the frame of a context that has not started below `top`.
///
/// # Safety
/// The 64 bytes below `top` are writable and free, `top` is 16-byte aligned.
pub unsafe fn init_frame(top: *mut u8, entry: unsafe extern "C" fn(usize) -> !) -> *mut u8 {
    // SAFETY: six words below `top`, which the caller gives; `top` is aligned for them.
    unsafe {
        let words = top.cast::<u64>().sub(6);
        words.write(DEFAULT_MODES);
        words.add(1).write(start as *const () as u64 + NOP);
        words.add(2).write(entry as *const () as u64);
        words.add(3).write(0);
        words.add(4).write(0);
        words.add(5).write(0);
        words.cast()
    }
}

/// The layout above.
pub const SAVED: Saved = Saved { pc: 8, kept: 16, fp: 24, bytes: 32 };

/// # Safety
/// `sp` is the stack pointer of a suspended context.
pub unsafe fn frame(sp: *mut u8) -> Frame {
    // SAFETY: the layout above.
    unsafe {
        let word = |at: usize| *sp.byte_add(at).cast::<usize>();
        Frame { pc: word(SAVED.pc), sp: sp.addr() + SAVED.bytes, fp: word(SAVED.fp) }
    }
}

/// Where a context starts: rbx holds the entry function, rax the switch's argument, rsp is 16-byte aligned.
///
/// Undefined rip tells unwinders and debuggers that this is the outermost frame; rbp = 0 says the same to those that
/// follow frame pointers.
///
/// # Safety
/// Reached by a switch only.
#[unsafe(naked)]
unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "nop",
        "mov rdi, rax",
        "xor ebp, ebp",
        "call rbx",
        "ud2",
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
        words.write(suspended.read());
        words.add(1).write(visit as *const () as u64);
        words.add(2).write(visitor as *const () as u64);
        words.add(3).write(sp.addr() as u64);
        words.cast()
    }
}

/// Where a visit starts: rbx holds the visitor, rbp the stack pointer of the suspended context, rax the argument.
///
/// To unwinders the suspended frame looks like one made by a call: its words say where the caller goes on.
///
/// # Safety
/// Reached by a switch only.
#[unsafe(naked)]
unsafe extern "C" fn visit() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rbp, 32",
        ".cfi_offset rip, -24",
        ".cfi_offset rbx, -16",
        ".cfi_offset rbp, -8",
        "mov rdi, rax",
        "and rsp, -16",
        "call rbx",
        "ud2",
        ".cfi_endproc",
    )
}

/// Sets the thread pointer to r8 by a system call and keeps all registers but rcx and r11.
///
/// # Safety
/// Called by the switch only, on the new stack.
#[unsafe(naked)]
unsafe extern "C" fn set_fs_slowly() {
    naked_asm!(
        "push rax",
        "push rdi",
        "push rsi",
        "mov eax, 158",    // arch_prctl
        "mov edi, 0x1002", // ARCH_SET_FS
        "mov rsi, r8",
        "syscall",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "ret",
    )
}

/// The half of a switch that continues the context at rsi. In: rsi = load, rdx = argument, rcx = current thread
/// pointer, r9 = address of a copy of the current floating-point modes. The modes are reloaded only when they, or
/// mxcsr's flags of exceptions, differ: loading them costs more than comparing.
macro_rules! resume {
    () => {
        "
        mov r8, [rsi + 8]
        mov rsp, [rsi]
        cmp rcx, r8
        je 3f
        cmp byte ptr [rip + {slow}], 0
        jne 5f
        wrfsbase r8
    3:
        mov eax, [rsp]
        xor eax, [r9]
        test eax, 0xffff
        jne 6f
        movzx eax, word ptr [rsp + 4]
        cmp ax, [r9 + 4]
        jne 6f
    4:
        add rsp, 8
        mov rax, rdx
        pop rcx
        pop rbx
        pop rbp
        jmp rcx
    5:
        call {set_fs}
        jmp 3b
    6:
        ldmxcsr [rsp]
        fldcw [rsp + 4]
        jmp 4b
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
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "sub rsp, 8",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "mov rcx, fs:[0]",
            "mov r9, rsp",
            "mov [rdi], rsp",
            "mov [rdi + 8], rcx",
            resume!(),
            "2:",
            slow = sym SLOW_FS,
            set_fs = sym set_fs_slowly,
            inlateout("rdi") save => _,
            inlateout("rsi") load => _,
            inlateout("rdx") arg => _,
            lateout("rax") result,
            lateout("r12") _,
            lateout("r13") _,
            lateout("r14") _,
            lateout("r15") _,
            clobber_abi("sysv64"),
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
            "sub rsp, 8",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "mov rcx, fs:[0]",
            "mov r9, rsp",
            resume!(),
            slow = sym SLOW_FS,
            set_fs = sym set_fs_slowly,
            in("rsi") load,
            in("rdx") arg,
            options(noreturn),
        )
    }
}

/// Loading is cheap where comparing is not (measured on an EPYC 9004: 0.5 ns each, against 4 ns for a store of mxcsr).
#[inline(always)]
pub fn reset_modes() {
    static DEFAULT: Modes = [0x1f80, 0x037f];
    // The default control words of the calling convention.
    set_modes(&DEFAULT);
}

/// mxcsr, and the x87 control word.
pub type Modes = [u32; 2];

#[inline(always)]
pub fn save_modes(modes: &mut Modes) {
    // SAFETY: stores six of the eight bytes that are lent.
    unsafe { asm!("stmxcsr [{0}]", "fnstcw [{0} + 4]", in(reg) modes, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn set_modes(modes: &Modes) {
    // SAFETY: control words that the unit had at `save_modes`, or the calling convention's.
    unsafe { asm!("ldmxcsr [{0}]", "fldcw [{0} + 4]", in(reg) modes, options(nostack, readonly)) };
}

/// # Safety
/// See [`super::set_fs`].
#[inline(always)]
pub unsafe fn set_fs(fs: usize) {
    // SAFETY: the caller's promise. The compiler must not move what touches memory over it.
    unsafe {
        asm!(
            "cmp byte ptr [rip + {slow}], 0",
            "jne 2f",
            "wrfsbase r8",
            "jmp 3f",
            "2:",
            "call {set_fs}",
            "3:",
            slow = sym SLOW_FS,
            set_fs = sym set_fs_slowly,
            in("r8") fs,
            out("rcx") _,
            out("r11") _,
        );
    }
}

/// The first word of the TCB is its own address.
#[inline(always)]
pub fn current_fs() -> usize {
    let fs;
    // SAFETY: reads a word that never changes for a given thread pointer.
    unsafe { asm!("mov {}, fs:[0]", out(reg) fs, options(nostack, preserves_flags, readonly)) };
    fs
}

pub fn fs_method() -> &'static str {
    // Ordering: Relaxed, a flag that is set once at start.
    if SLOW_FS.load(Ordering::Relaxed) == 0 {
        "wrfsbase"
    } else {
        "arch_prctl (no FSGSBASE: a switch costs a system call)"
    }
}

pub fn detect(force_slow: bool) {
    // SAFETY: reads the auxiliary vector.
    let fsgsbase = unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 != 0;
    // Ordering: Relaxed, either value is right at any time.
    SLOW_FS.store(u8::from(force_slow || !fsgsbase), Ordering::Relaxed);
}

const ARCH_SHSTK_DISABLE: libc::c_long = 0x5002;
const ARCH_SHSTK_STATUS: libc::c_long = 0x5005;
const ARCH_SHSTK_SHSTK: u64 = 1;

pub fn disable_shadow_stack() -> Result<(), &'static str> {
    let mut features = 0u64;
    // SAFETY: ARCH_SHSTK_STATUS writes one word, or fails on kernels that do not know it.
    let known = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, &raw mut features) } == 0;
    if !known || features & ARCH_SHSTK_SHSTK == 0 {
        return Ok(());
    }
    disable_now()
}

/// A function that is never returned from with shadow stacks on: after the call they are off, so its `ret` is an
/// ordinary one.
#[inline(never)]
fn disable_now() -> Result<(), &'static str> {
    // SAFETY: turns a protection off for this kernel thread.
    if unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SHSTK_DISABLE, ARCH_SHSTK_SHSTK) } == 0 {
        Ok(())
    } else {
        Err("shadow stacks are on and locked for this process; start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off")
    }
}
