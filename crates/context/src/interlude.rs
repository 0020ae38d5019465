//! A call that is put in where a kernel thread comes back to user mode: all registers, flags and vectors are as
//! before when it goes on, and the memory below its stack pointer is untouched.
//!
//! The kernel's restartable sequences (rseq(2)) continue a kernel thread at another address if it was off its core
//! at an instruction of a given range. The address where it would have gone on is lost, so the range has one
//! instruction only, whose address whoever sets it knows. [`prepare`] answers with the address for the kernel to
//! continue at.
//!
//! x86-64 only: elsewhere there is none.

/// Where the interrupted code goes on: called first, with nothing changed but below the red zone.
pub type Place = unsafe extern "C" fn() -> usize;
/// What is put in: called after [`Place`].
pub type Work = unsafe extern "C" fn();

/// The signature before the address at which the kernel continues, with which the C libraries register; the kernel
/// compares.
pub const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xd428_bc00 } else { 0x5305_3053 };

/// The address for the kernel to continue at, which has [`SIGNATURE`] before it. `None` where there is none.
/// `place` and `work` may run wherever a signal handler may.
#[cfg(not(all(target_arch = "x86_64", not(raddle_tsan))))]
pub fn prepare(_: Place, _: Work) -> Option<usize> {
    None
}

#[cfg(all(target_arch = "x86_64", not(raddle_tsan)))]
pub use x86_64::prepare;

#[cfg(all(target_arch = "x86_64", not(raddle_tsan)))]
mod x86_64 {
    use super::{Place, Work};
    use core::arch::{asm, global_asm, x86_64::__cpuid, x86_64::__cpuid_count};
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    static PLACE: AtomicUsize = AtomicUsize::new(0);
    static WORK: AtomicUsize = AtomicUsize::new(0);
    /// Bytes for what the processor saves, and the parts of its state that are saved.
    static BYTES: AtomicU64 = AtomicU64::new(0);
    static PARTS: AtomicU64 = AtomicU64::new(0);

    /// x87, SSE, AVX and the three parts of AVX-512. What else there may be, neither the runtime nor the C library
    /// changes.
    const USED: u64 = 0b1110_0111;

    // rbp + 128 and up: the slot of the address, the red zone, the interrupted stack. Unwinders find the registers
    // by the lines beside them.
    global_asm!(
        ".p2align 4",
        ".long 0x53053053",
        ".hidden raddle_context_interlude",
        ".globl raddle_context_interlude",
        ".type raddle_context_interlude, @function",
        "raddle_context_interlude:",
        ".cfi_startproc simple",
        ".cfi_signal_frame",
        "lea rsp, [rsp - 128]",
        "push rax",
        "pushfq",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rbp, rsp",
        ".cfi_def_cfa rbp, 264",
        ".cfi_offset rip, -136",
        ".cfi_offset rax, -152",
        ".cfi_offset rcx, -160",
        ".cfi_offset rdx, -168",
        ".cfi_offset rsi, -176",
        ".cfi_offset rdi, -184",
        ".cfi_offset r8, -192",
        ".cfi_offset r9, -200",
        ".cfi_offset r10, -208",
        ".cfi_offset r11, -216",
        ".cfi_offset rbx, -224",
        ".cfi_offset rbp, -232",
        ".cfi_offset r12, -240",
        ".cfi_offset r13, -248",
        ".cfi_offset r14, -256",
        ".cfi_offset r15, -264",
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
        "mov qword ptr [rbp + 128], rax",
        "call qword ptr [rip + {work}]",
        "mov eax, dword ptr [rip + {parts}]",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "mov rsp, rbp",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        ".cfi_def_cfa rsp, 224",
        "pop rbx",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "popfq",
        ".cfi_def_cfa rsp, 136",
        "ret 128",
        ".cfi_endproc",
        ".size raddle_context_interlude, . - raddle_context_interlude",
        bytes = sym BYTES,
        parts = sym PARTS,
        place = sym PLACE,
        work = sym WORK,
    );

    unsafe extern "C" {
        /// Continued at by the kernel only.
        fn raddle_context_interlude();
    }

    /// See the other architectures' stand-in.
    pub fn prepare(place: Place, work: Work) -> Option<usize> {
        let (parts, bytes) = state()?;
        PLACE.store(place as usize, Ordering::Relaxed);
        WORK.store(work as usize, Ordering::Relaxed);
        PARTS.store(parts, Ordering::Relaxed);
        BYTES.store(bytes, Ordering::Relaxed);
        Some(raddle_context_interlude as *const () as usize)
    }

    /// The parts of the processor's state that are saved, and how many bytes they take. `None` on a processor, or
    /// under a system, without XSAVE.
    fn state() -> Option<(u64, u64)> {
        const OSXSAVE: u32 = 1 << 27;
        const STATE: u32 = 0xd;
        if __cpuid(1).ecx & OSXSAVE == 0 || __cpuid(0).eax < STATE {
            return None;
        }
        let (low, high): (u32, u32);
        // SAFETY: the processor and the system have it, as asked just now; it reads a register.
        unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
        let parts = (u64::from(high) << 32 | u64::from(low)) & USED;
        // The old area and the header, and behind them each part at its place.
        let end = |part| {
            let leaf = __cpuid_count(STATE, part);
            u64::from(leaf.eax) + u64::from(leaf.ebx)
        };
        let bytes = (2..8).filter(|part| parts >> part & 1 != 0).map(end).fold(576, u64::max);
        Some((parts, bytes))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use core::sync::atomic::AtomicU32;

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
            assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        }
    }
}
