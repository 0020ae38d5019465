//! This library's thread-local variables, found by an addition.
//!
//! A library may be loaded while the program runs, so compilers ask the loader (`__tls_get_addr`) where its variables
//! lie: a call into another library that reads a number of generations and the thread's table of modules, whose line
//! has left the caches when many threads take turns. An echo makes five such calls: of an echo server's time with 1,000
//! connections (9 to 10 us an echo) that outside the kernel was 0.18 to 0.21 of that within, and is 0.15 to 0.18 since
//! (`perf`, three runs each in turns, two virtual cores of an AMD EPYC, 2026-11-24). This library has its place in
//! every thread's initial storage: it is loaded with the program, or the loader finds it a place there, or refuses. So
//! what its code calls by that name is this function, which nobody else sees; it adds the variable's offset to the
//! thread pointer.
//!
//! There is no such option in the stable compiler (`-Z tls-model=initial-exec`). On other architectures than x86-64 the
//! loader is asked.

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    // A variable by which the linker tells where the library's variables begin: how far it lies from the thread
    // pointer, less how far from their beginning.
    ".section .tbss.raddle_own_storage,\"awT\",@nobits",
    ".balign 8",
    ".hidden raddle_own_storage",
    ".globl raddle_own_storage",
    ".type raddle_own_storage,@object",
    "raddle_own_storage:",
    ".zero 8",
    ".size raddle_own_storage, 8",
    ".text",
    ".balign 16",
    ".hidden __tls_get_addr",
    ".globl __tls_get_addr",
    ".type __tls_get_addr,@function",
    "__tls_get_addr:",
    ".cfi_startproc",
    "mov rax, qword ptr [rip + raddle_own_storage@GOTTPOFF]",
    "lea rcx, [raddle_own_storage@DTPOFF]",
    "sub rax, rcx",
    "add rax, qword ptr fs:[0]",
    // The argument: the number of the module, which is ours, and the variable's offset within it.
    "add rax, qword ptr [rdi + 8]",
    "ret",
    ".cfi_endproc",
    ".size __tls_get_addr, . - __tls_get_addr",
);
