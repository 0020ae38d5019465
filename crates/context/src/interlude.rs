//! A call that is put in where a kernel thread comes back to user mode: all registers, flags and vectors are as
//! before when it goes on, and the memory below its stack pointer is untouched.
//!
//! The kernel's restartable sequences (rseq(2)) continue a kernel thread at another address if it was off its core
//! at an instruction of a given range. The address where it would have gone on is lost, so the range has one
//! instruction only, whose address whoever sets it knows. [`prepare`] answers with the address for the kernel to
//! continue at.
//!
//! No handler sees it: all signals that can wait are blocked from before the first register changes until the last
//! one is back. One that comes in the few instructions before or after begins with [`undo`], which sets the
//! interrupted code back to where it goes on, with its own registers. Signals that the kernel cannot block, faults
//! and the C library's own two find the code below.
//!
//! x86-64 only: elsewhere there is none.

#[cfg(not(all(target_arch = "x86_64", not(raddle_tsan))))]
use std::ffi::c_void;

/// Where the interrupted code goes on: called first, with nothing changed but below the red zone.
pub type Continuation = unsafe extern "C" fn() -> usize;
/// What is put in: called after [`Continuation`], with all signals blocked that can wait.
pub type Work = unsafe extern "C" fn();

/// The signature before the address at which the kernel continues, with which the C libraries register; the kernel
/// compares.
pub const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// The address for the kernel to continue at, which has [`SIGNATURE`] before it. `None` where there is none.
/// `place` and `work` may run wherever a signal handler may.
#[cfg(not(all(target_arch = "x86_64", not(raddle_tsan))))]
pub fn prepare(_: Continuation, _: Work) -> Option<usize> {
    None
}

/// First thing in a handler: if it has interrupted the code around the call, the interrupted code is as if the kernel
/// had continued it at the address that `place` answers with, or that the call has answered with already. True then.
///
/// # Safety
/// `context` is what the kernel passed to the handler, which returns by it or not at all. `place` answers as
/// [`Continuation`] does, and it is not called after that for the same return.
#[cfg(not(all(target_arch = "x86_64", not(raddle_tsan))))]
pub unsafe fn undo(_: *mut c_void, _: impl FnOnce() -> usize) -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", not(raddle_tsan)))]
pub use x86_64::{prepare, undo};

#[cfg(all(target_arch = "x86_64", not(raddle_tsan)))]
mod x86_64 {
    use super::{Continuation, Work};
    use core::arch::{asm, global_asm, x86_64::__cpuid_count, x86_64::CpuidResult};
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::ffi::{c_int, c_void};

    static PLACE: AtomicUsize = AtomicUsize::new(0);
    static WORK: AtomicUsize = AtomicUsize::new(0);
    /// Bytes for what the processor saves, and the parts of its state that are saved.
    static BYTES: AtomicU64 = AtomicU64::new(0);
    static PARTS: AtomicU64 = AtomicU64::new(0);

    /// x87, SSE, AVX and the three parts of AVX-512. What else there may be, neither the runtime nor the C library
    /// changes.
    const USED: u64 = 0b1110_0111;

    /// All signals that can wait: but faults, and what the C library tells its own threads with.
    static MOVABLE: u64 = !(1 << 10 | 1 << 6 | 1 << 7 | 1 << 3 | 1 << 4 | 1 << 30 | 0b11 << 31);

    // Words from the stack pointer up, once they are there: 15 registers, the mask of signals, the flags at 128, where
    // it goes on at 136; then the red zone, and the interrupted stack at 272. Unwinders find the registers by the
    // lines between. `undo` goes by the names that begin with `raddle_context_interlude`.
    global_asm!(
        ".p2align 4",
        ".long 0x53053053",
        ".hidden raddle_context_interlude",
        ".globl raddle_context_interlude",
        ".type raddle_context_interlude, @function",
        "raddle_context_interlude:",
        ".cfi_startproc simple",
        ".cfi_signal_frame",
        "lea rsp, [rsp - 136]",
        ".globl raddle_context_interlude_lowered",
        ".hidden raddle_context_interlude_lowered",
        "raddle_context_interlude_lowered:",
        "pushfq",
        ".globl raddle_context_interlude_flags",
        ".hidden raddle_context_interlude_flags",
        "raddle_context_interlude_flags:",
        "lea rsp, [rsp - 128]",
        ".cfi_def_cfa rsp, 272",
        "mov qword ptr [rsp], r15",
        "mov qword ptr [rsp + 8], r14",
        "mov qword ptr [rsp + 16], r13",
        "mov qword ptr [rsp + 24], r12",
        "mov qword ptr [rsp + 32], rbp",
        "mov qword ptr [rsp + 40], rbx",
        "mov qword ptr [rsp + 48], r11",
        "mov qword ptr [rsp + 56], r10",
        "mov qword ptr [rsp + 64], r9",
        "mov qword ptr [rsp + 72], r8",
        "mov qword ptr [rsp + 80], rdi",
        "mov qword ptr [rsp + 88], rsi",
        "mov qword ptr [rsp + 96], rdx",
        "mov qword ptr [rsp + 104], rcx",
        "mov qword ptr [rsp + 112], rax",
        ".globl raddle_context_interlude_saved",
        ".hidden raddle_context_interlude_saved",
        "raddle_context_interlude_saved:",
        ".cfi_offset rax, -160",
        ".cfi_offset rcx, -168",
        ".cfi_offset rdx, -176",
        ".cfi_offset rsi, -184",
        ".cfi_offset rdi, -192",
        ".cfi_offset r8, -200",
        ".cfi_offset r9, -208",
        ".cfi_offset r10, -216",
        ".cfi_offset r11, -224",
        ".cfi_offset rbx, -232",
        ".cfi_offset rbp, -240",
        ".cfi_offset r12, -248",
        ".cfi_offset r13, -256",
        ".cfi_offset r14, -264",
        ".cfi_offset r15, -272",
        ".cfi_offset rip, -136",
        // rt_sigprocmask, SIG_BLOCK.
        "mov eax, 14",
        "xor edi, edi",
        "lea rsi, [rip + {movable}]",
        "lea rdx, [rsp + 120]",
        "mov r10d, 8",
        "syscall",
        ".globl raddle_context_interlude_blocked",
        ".hidden raddle_context_interlude_blocked",
        "raddle_context_interlude_blocked:",
        "mov rbp, rsp",
        ".cfi_def_cfa rbp, 272",
        "cld",
        "sub rsp, qword ptr [rip + {bytes}]",
        "and rsp, -64",
        // The header of the area has to be zero.
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xsave64 [rsp]",
        "call qword ptr [rip + {place}]",
        "mov qword ptr [rbp + 136], rax",
        "call qword ptr [rip + {work}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "mov rsp, rbp",
        ".cfi_def_cfa rsp, 272",
        // rt_sigprocmask, SIG_SETMASK.
        "mov eax, 14",
        "mov edi, 2",
        "lea rsi, [rsp + 120]",
        "xor edx, edx",
        "mov r10d, 8",
        "syscall",
        ".globl raddle_context_interlude_opened",
        ".hidden raddle_context_interlude_opened",
        "raddle_context_interlude_opened:",
        "mov r15, qword ptr [rsp]",
        "mov r14, qword ptr [rsp + 8]",
        "mov r13, qword ptr [rsp + 16]",
        "mov r12, qword ptr [rsp + 24]",
        "mov rbp, qword ptr [rsp + 32]",
        "mov rbx, qword ptr [rsp + 40]",
        "mov r11, qword ptr [rsp + 48]",
        "mov r10, qword ptr [rsp + 56]",
        "mov r9, qword ptr [rsp + 64]",
        "mov r8, qword ptr [rsp + 72]",
        "mov rdi, qword ptr [rsp + 80]",
        "mov rsi, qword ptr [rsp + 88]",
        "mov rdx, qword ptr [rsp + 96]",
        "mov rcx, qword ptr [rsp + 104]",
        "mov rax, qword ptr [rsp + 112]",
        "lea rsp, [rsp + 128]",
        ".cfi_def_cfa rsp, 144",
        ".globl raddle_context_interlude_restored",
        ".hidden raddle_context_interlude_restored",
        "raddle_context_interlude_restored:",
        "popfq",
        ".cfi_def_cfa rsp, 136",
        ".globl raddle_context_interlude_leaves",
        ".hidden raddle_context_interlude_leaves",
        "raddle_context_interlude_leaves:",
        "ret 128",
        ".globl raddle_context_interlude_end",
        ".hidden raddle_context_interlude_end",
        "raddle_context_interlude_end:",
        ".cfi_endproc",
        ".size raddle_context_interlude, . - raddle_context_interlude",
        movable = sym MOVABLE,
        bytes = sym BYTES,
        parts = sym PARTS,
        place = sym PLACE,
        work = sym WORK,
    );

    unsafe extern "C" {
        /// Continued at by the kernel only.
        fn raddle_context_interlude();
        /// The others are places in it.
        fn raddle_context_interlude_lowered();
        fn raddle_context_interlude_flags();
        fn raddle_context_interlude_saved();
        fn raddle_context_interlude_blocked();
        fn raddle_context_interlude_opened();
        fn raddle_context_interlude_restored();
        fn raddle_context_interlude_leaves();
        fn raddle_context_interlude_end();
    }

    /// The saved registers in the order of their words.
    const SAVED: [c_int; 15] = [
        libc::REG_R15,
        libc::REG_R14,
        libc::REG_R13,
        libc::REG_R12,
        libc::REG_RBP,
        libc::REG_RBX,
        libc::REG_R11,
        libc::REG_R10,
        libc::REG_R9,
        libc::REG_R8,
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RDX,
        libc::REG_RCX,
        libc::REG_RAX,
    ];
    /// Bytes from the words to the flags, to the address, and to the interrupted stack.
    const FLAGS: i64 = 128;
    const ADDRESS: i64 = 136;
    const STACK: i64 = 272;

    /// See the other architectures' stand-in.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn undo(context: *mut c_void, place: impl FnOnce() -> usize) -> bool {
        // SAFETY: the kernel's frame of the handler that calls, which nobody else refers to.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let at = registers[libc::REG_RIP as usize] as usize;
        let from = |place: unsafe extern "C" fn()| at >= place as *const () as usize;
        if !from(raddle_context_interlude) || from(raddle_context_interlude_end) {
            return false;
        }
        let sp = registers[libc::REG_RSP as usize];
        let word = |offset: i64| {
            // SAFETY: written by the code below the interrupted stack, whose pointer the register is.
            unsafe { std::ptr::with_exposed_provenance::<i64>((sp + offset) as usize).read() }
        };
        let mut bring_back = || {
            for (index, &register) in SAVED.iter().enumerate() {
                registers[register as usize] = word(8 * index as i64);
            }
            registers[libc::REG_EFL as usize] = word(FLAGS);
        };
        let (place, stack) = if !from(raddle_context_interlude_lowered) {
            (place() as i64, sp)
        } else if !from(raddle_context_interlude_flags) {
            (place() as i64, sp + STACK - ADDRESS)
        } else if at == raddle_context_interlude_flags as *const () as usize {
            (place() as i64, sp + STACK - FLAGS)
        } else if !from(raddle_context_interlude_saved) {
            (place() as i64, sp + STACK)
        } else if !from(raddle_context_interlude_blocked) {
            bring_back();
            (place() as i64, sp + STACK)
        } else if !from(raddle_context_interlude_opened) {
            // A signal that cannot be blocked.
            return false;
        } else if !from(raddle_context_interlude_restored) {
            bring_back();
            (word(ADDRESS), sp + STACK)
        } else if !from(raddle_context_interlude_leaves) {
            registers[libc::REG_EFL as usize] = word(0);
            (word(ADDRESS - FLAGS), sp + STACK - FLAGS)
        } else {
            (word(0), sp + STACK - ADDRESS)
        };
        registers[libc::REG_RIP as usize] = place;
        registers[libc::REG_RSP as usize] = stack;
        true
    }

    /// See the other architectures' stand-in.
    pub fn prepare(place: Continuation, work: Work) -> Option<usize> {
        let (parts, bytes) = state()?;
        PLACE.store(place as usize, Ordering::Relaxed);
        WORK.store(work as usize, Ordering::Relaxed);
        PARTS.store(parts, Ordering::Relaxed);
        BYTES.store(bytes, Ordering::Relaxed);
        Some(raddle_context_interlude as *const () as usize)
    }

    fn cpuid(leaf: u32, part: u32) -> CpuidResult {
        // SAFETY: every 64-bit processor has the instruction. (Newer compilers say so themselves; Rust 1.90 does not.)
        #[allow(unused_unsafe)]
        unsafe {
            __cpuid_count(leaf, part)
        }
    }

    /// The parts of the processor's state that are saved, and how many bytes they take. `None` on a processor, or
    /// under a system, without XSAVE.
    fn state() -> Option<(u64, u64)> {
        const OSXSAVE: u32 = 1 << 27;
        const STATE: u32 = 0xd;
        if cpuid(1, 0).ecx & OSXSAVE == 0 || cpuid(0, 0).eax < STATE {
            return None;
        }
        let (low, high): (u32, u32);
        // SAFETY: the processor and the system have it, as asked just now; it reads a register.
        unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
        let parts = (u64::from(high) << 32 | u64::from(low)) & USED;
        // The old area and the header, and behind them each part at its place.
        let end = |part| {
            let leaf = cpuid(STATE, part);
            u64::from(leaf.eax) + u64::from(leaf.ebx)
        };
        let bytes = (2..8).filter(|part| parts >> part & 1 != 0).map(end).fold(576, u64::max);
        Some((parts, bytes))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use core::sync::atomic::AtomicU32;

        /// What the call does is the process's: one test at a time.
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        static CALLS: AtomicU32 = AtomicU32::new(0);
        static BACK: AtomicUsize = AtomicUsize::new(0);

        unsafe extern "C" fn place() -> usize {
            // SAFETY: an empty block of assembly that says what it changes.
            unsafe {
                asm!("vpcmpeqd ymm0, ymm0, ymm0", "vpcmpeqd ymm15, ymm15, ymm15", out("ymm0") _, out("ymm15") _);
            }
            BACK.load(Ordering::Relaxed)
        }

        unsafe extern "C" fn work() {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }

        #[test]
        fn all_is_as_before_when_the_interrupted_code_goes_on() {
            if !std::is_x86_feature_detected!("avx2") {
                return;
            }
            let _alone = ALONE.lock().unwrap();
            let calls = CALLS.load(Ordering::Relaxed);
            let entry = prepare(place, work).expect("AVX without XSAVE");
            // SAFETY: the signature is before the entry.
            assert_eq!(unsafe { (entry as *const u32).sub(1).read_unaligned() }, super::super::SIGNATURE);
            let (mut a, mut b, mut c, mut d) = (1u64, 2u64, 3u64, 4u64);
            let (red, flags): (u64, u64);
            let mut vectors = [[0u64; 4]; 2];
            // SAFETY: it jumps away and comes back at the label, with everything as it was; what changes is declared.
            unsafe {
                asm!(
                    "mov r12, rsp",
                    "and rsp, -64",
                    "sub rsp, 256",
                    "mov qword ptr [rsp - 128], 77",
                    "vmovdqu ymm0, [{v}]",
                    "vpcmpeqd ymm15, ymm15, ymm15",
                    "vpsrlq ymm15, ymm15, 3",
                    "vmovdqu ymm0, ymm15",
                    "lea r13, [rip + 2f]",
                    "mov [{back}], r13",
                    "std",
                    "stc",
                    "jmp {entry}",
                    "2:",
                    "mov r14, [rsp - 128]",
                    "pushfq",
                    "pop r13",
                    "cld",
                    "vmovdqu [{v}], ymm0",
                    "vmovdqu [{v} + 32], ymm15",
                    "mov rsp, r12",
                    v = in(reg) vectors.as_mut_ptr(),
                    back = in(reg) BACK.as_ptr(),
                    entry = in(reg) entry,
                    inout("r8") a, inout("r9") b, inout("rax") c, inout("rcx") d,
                    out("r12") _, out("r13") flags, out("r14") red, out("ymm0") _, out("ymm15") _,
                );
            }
            assert_eq!((a, b, c, d, red), (1, 2, 3, 4, 77));
            assert_eq!(flags & 0x401, 0x401, "carry and direction");
            assert_eq!(vectors, [[u64::MAX >> 3; 4]; 2]);
            assert_eq!(CALLS.load(Ordering::Relaxed), calls + 1);
        }

        /// How many steps more until the handler sets the code back, and whether it did.
        static LEFT: AtomicU32 = AtomicU32::new(0);
        static UNDONE: AtomicU32 = AtomicU32::new(0);

        unsafe extern "C" fn step(_: c_int, _: *mut c_void, context: *mut c_void) {
            let left = LEFT.load(Ordering::Relaxed);
            LEFT.store(left.saturating_sub(1), Ordering::Relaxed);
            if left == 0 {
                // SAFETY: the kernel's argument.
                let undone = unsafe { undo(context, || BACK.load(Ordering::Relaxed)) };
                UNDONE.store(1 + u32::from(undone), Ordering::Relaxed);
                // SAFETY: the kernel's argument; the flag is the one that traps.
                unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100 };
            }
        }

        /// Goes through the call with a trap at each instruction. Whether all came back as it was.
        fn run(entry: usize) -> bool {
            let mut registers = [11u64, 12, 13, 14, 15, 16, 17];
            let (flags, red): (u64, u64);
            // SAFETY: as in the test above; rbx and rbp are saved by hand, since they cannot be declared.
            unsafe {
                asm!(
                    "push rbx",
                    "push rbp",
                    "sub rsp, 256",
                    "lea r15, [rip + 2f]",
                    "mov [{back}], r15",
                    "mov rbp, 22",
                    "mov rbx, 23",
                    "mov r15, {entry}",
                    "std",
                    "stc",
                    // What follows pushes: the red zone that is looked at lies lower.
                    "lea rsp, [rsp - 256]",
                    "mov qword ptr [rsp - 128], 77",
                    "pushfq",
                    "or qword ptr [rsp], 0x100",
                    "popfq",
                    "jmp r15",
                    "2:",
                    "pushfq",
                    "and qword ptr [rsp], -257",
                    "popfq",
                    "mov r14, [rsp - 128]",
                    "lea rsp, [rsp + 256]",
                    "pushfq",
                    "pop r15",
                    "cld",
                    "cmp rbp, 22",
                    "jne 3f",
                    "cmp rbx, 23",
                    "jne 3f",
                    "jmp 4f",
                    "3:",
                    "mov r15, 0",
                    "4:",
                    "lea rsp, [rsp + 256]",
                    "pop rbp",
                    "pop rbx",
                    back = in(reg) BACK.as_ptr(),
                    entry = in(reg) entry,
                    inout("r8") registers[0], inout("r9") registers[1], inout("rax") registers[2],
                    inout("rcx") registers[3], inout("rdx") registers[4], inout("rsi") registers[5],
                    inout("rdi") registers[6],
                    out("r15") flags, out("r14") red,
                );
            }
            registers == [11, 12, 13, 14, 15, 16, 17] && red == 77 && flags & 0x401 == 0x401
        }

        #[test]
        fn a_handler_finds_the_code_where_it_goes_on_at_every_instruction() {
            let _alone = ALONE.lock().unwrap();
            let entry = prepare(place, work).expect("AVX without XSAVE");
            // SAFETY: an action of zeroes but for the handler; the former one is restored below.
            let before = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = step as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                let mut before: libc::sigaction = std::mem::zeroed();
                libc::sigaction(libc::SIGTRAP, &action, &mut before);
                before
            };
            let (mut undone, mut inside) = (0, 0);
            for steps in 0.. {
                LEFT.store(steps, Ordering::Relaxed);
                UNDONE.store(0, Ordering::Relaxed);
                let calls = CALLS.load(Ordering::Relaxed);
                assert!(run(entry), "changed at step {steps}");
                let called = CALLS.load(Ordering::Relaxed) - calls;
                match UNDONE.load(Ordering::Relaxed) {
                    // Beyond the end: it was over before.
                    0 => break,
                    1 => inside += 1,
                    _ => undone += 1,
                }
                assert!(called <= 1);
            }
            // SAFETY: what the kernel said above.
            unsafe { libc::sigaction(libc::SIGTRAP, &before, std::ptr::null_mut()) };
            // The moves, two and two more; some twenty instructions and the two functions between.
            assert!(undone >= 40 && inside >= 20, "{undone} and {inside}");
        }
    }
}
