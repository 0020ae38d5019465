//! Where a program's thread begins and ends: the frame to which `pthread_exit` unwinds.
//!
//! The C library's own unwinding is used as it is: `pthread_exit` walks the frames up to the buffer that was registered
//! last, running C++ destructors and cleanup handlers on its way, and jumps there. All that a thread needs is an
//! outermost buffer, which the C library's start function would register and which [`call`] registers in its place,
//! with the two functions that C code with `pthread_cleanup_push` calls.
//!
//! To unwinders the frame is the outermost one, so that an exception which leaves a start routine ends the program at
//! the throw, as natively.

use super::record::Start;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// Words of a [`Buffer`]: as many as a `jmp_buf` has, which is larger. Each thread has one on its stack.
const WORDS: usize = if cfg!(target_arch = "aarch64") { 40 } else { 26 };

/// The C library's `__pthread_unwind_buf_t`: registers, a flag, four pointers.
#[repr(C, align(16))]
pub(crate) struct Buffer([u64; WORDS]);

impl Buffer {
    /// An empty one.
    pub fn new() -> Self {
        Buffer([0; WORDS])
    }
}

type SetJump = unsafe extern "C" fn(*mut Buffer, c_int) -> c_int;
type Register = unsafe extern "C" fn(*mut Buffer);

/// Calls `start(argument)` on the stack that ends at `top` (null: the present one). Returns its result, or anything
/// when the thread called `pthread_exit`.
///
/// # Safety
/// `buffer` lives until the call returns and the buffer was unregistered; `top` is null or 16-byte aligned and ends a
/// stack that is the thread's alone.
pub(crate) unsafe fn call(start: Start, argument: *mut c_void, top: *mut u8, buffer: *mut Buffer) -> *mut c_void {
    let set_jump = next!(__sigsetjmp: fn(*mut Buffer, c_int) -> c_int);
    let register = next!(__pthread_register_cancel: fn(*mut Buffer));
    OUTERMOST.set(buffer);
    // SAFETY: as promised by the caller; the two functions are the C library's.
    unsafe { enter(start, argument, top, buffer, register, set_jump) }
}

thread_local! {
    /// Where the calling thread's code has begun.
    static OUTERMOST: Cell<*mut Buffer> = const { Cell::new(std::ptr::null_mut()) };
}

/// Leaves the code of the calling thread for the frame in which it began, without a look at what lies between.
///
/// # Safety
/// In that code, on a thread that [`call`] runs, and in no signal handler; nothing of the runtime's lies between.
pub(crate) unsafe fn leave() -> ! {
    let found = next!(_longjmp: fn(*mut Buffer, c_int) -> !) as *const ();
    // SAFETY: the C library's function; the buffer was filled by `call`, which has not returned.
    unsafe {
        std::mem::transmute::<*const (), unsafe extern "C" fn(*mut Buffer, c_int) -> !>(found)(OUTERMOST.get(), 1)
    }
}

/// What [`call_handler`] hands to the function that calls the handler.
struct Call {
    handler: usize,
    signal: c_int,
    info: *mut c_void,
    context: *mut c_void,
}

unsafe extern "C-unwind" fn call_it(call: *mut c_void) -> *mut c_void {
    type Handler = unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut c_void);
    // SAFETY: what `call_handler` has on its stack: the program's handler; one that takes the signal only ignores the
    // rest.
    unsafe {
        let call = &*call.cast::<Call>();
        std::mem::transmute::<usize, Handler>(call.handler)(call.signal, call.info, call.context);
    }
    std::ptr::null_mut()
}

/// Calls a signal handler. True if it called `pthread_exit`, which has unwound to here. To unwinders the frame is like
/// any other.
///
/// # Safety
/// As for [`call`]; the program's handler and the kernel's arguments.
pub(crate) unsafe fn call_handler(
    handler: usize,
    signal: c_int,
    info: *mut c_void,
    context: *mut c_void,
    buffer: *mut Buffer,
) -> bool {
    let set_jump = next!(__sigsetjmp: fn(*mut Buffer, c_int) -> c_int);
    let register = next!(__pthread_register_cancel: fn(*mut Buffer));
    let mut call = Call { handler, signal, info, context };
    // SAFETY: as promised by the caller; the two functions are the C library's.
    unsafe { enter_handler(call_it, (&raw mut call).cast(), buffer, register, set_jump) != 0 }
}

/// Calls `f`. True if its thread ends in it, and has come to here: also where its frames cannot be unwound. An
/// exception passes through, and takes the buffer out of the C library's list.
///
/// # Safety
/// The buffer outlives the call; after the answer "true" comes [`end_goes_on`].
pub(crate) unsafe fn call_ending(f: extern "C-unwind" fn(), buffer: *mut Buffer) -> bool {
    unsafe extern "C-unwind" fn call_it(f: *mut c_void) -> *mut c_void {
        // SAFETY: what `call_ending` has passed.
        unsafe { std::mem::transmute::<*mut c_void, extern "C-unwind" fn()>(f)() };
        std::ptr::null_mut()
    }
    let set_jump = next!(__sigsetjmp: fn(*mut Buffer, c_int) -> c_int);
    let register = next!(__pthread_register_cancel: fn(*mut Buffer));
    let registered = Registered(buffer);
    // SAFETY: as promised by the caller; the two functions are the C library's.
    let ends = unsafe { enter_handler(call_it, f as *mut c_void, buffer, register, set_jump) != 0 };
    if ends {
        std::mem::forget(registered);
    }
    ends
}

/// A buffer in the C library's list.
struct Registered(*mut Buffer);

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: the calling thread's, registered, and what was registered after it is left.
        unsafe { unregister(self.0) };
    }
}

/// The end of the thread goes on from a buffer that it has come to.
///
/// # Safety
/// After [`call_ending`] has answered "true"; nothing with a destructor lives in the caller.
pub(crate) unsafe fn end_goes_on(buffer: *mut Buffer) -> ! {
    let found = next!(__pthread_unwind_next: fn(*mut Buffer) -> !) as *const ();
    // SAFETY: the C library's function, which unwinds; as promised.
    unsafe { std::mem::transmute::<*const (), unsafe extern "C-unwind" fn(*mut Buffer) -> !>(found)(buffer) }
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter_handler(
    start: Start,
    argument: *mut c_void,
    buffer: *mut Buffer,
    register: Register,
    set_jump: SetJump,
) -> c_int {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        ".cfi_offset rbx, -24",
        "push r12",
        ".cfi_offset r12, -32",
        "push r13",
        ".cfi_offset r13, -40",
        "push r14",
        ".cfi_offset r14, -48",
        "push r15",
        ".cfi_offset r15, -56",
        "sub rsp, 8",
        "mov r12, rdi",
        "mov r13, rsi",
        "mov r14, rdx",
        "mov r15, rcx",
        "mov rdi, r14",
        "xor esi, esi",
        "call r8", // returns once more, not zero, from `pthread_exit`
        "mov ebx, eax",
        "test eax, eax",
        "jne 2f",
        "mov rdi, r14",
        "call r15",
        "mov rdi, r13",
        "call r12",
        "2:",
        "mov eax, ebx",
        "lea rsp, [rbp - 40]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter_handler(
    start: Start,
    argument: *mut c_void,
    buffer: *mut Buffer,
    register: Register,
    set_jump: SetJump,
) -> c_int {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-64]!",
        ".cfi_def_cfa_offset 64",
        ".cfi_offset x29, -64",
        ".cfi_offset x30, -56",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "stp x19, x20, [sp, #16]",
        ".cfi_offset x19, -48",
        ".cfi_offset x20, -40",
        "stp x21, x22, [sp, #32]",
        ".cfi_offset x21, -32",
        ".cfi_offset x22, -24",
        "mov x19, x0",
        "mov x20, x1",
        "mov x21, x2",
        "mov x22, x3",
        "mov x0, x21",
        "mov w1, wzr",
        "blr x4", // returns once more, not zero, from `pthread_exit`
        "cbnz w0, 2f",
        "mov x0, x21",
        "blr x22",
        "mov x0, x20",
        "blr x19",
        "mov w0, wzr",
        "2:",
        "mov sp, x29",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x29, x30, [sp], #64",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc",
    )
}

/// Takes the buffer out of the C library's list.
///
/// # Safety
/// A buffer of the calling thread, registered by [`call`] or [`call_handler`]; what was registered after it is left,
/// too.
pub(crate) unsafe fn unregister(buffer: *mut Buffer) {
    // SAFETY: registered by the calling thread; what came after it is left, so it is the newest.
    unsafe { next!(__pthread_unregister_cancel: fn(*mut Buffer))(buffer) };
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    start: Start,
    argument: *mut c_void,
    top: *mut u8,
    buffer: *mut Buffer,
    register: Register,
    set_jump: SetJump,
) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov r12, rdi",
        "mov r13, rsi",
        "mov r14, rcx",
        "mov r15, r8",
        "mov rbx, r9",
        "test rdx, rdx",
        "cmovne rsp, rdx",
        "mov rdi, r14",
        "xor esi, esi",
        "call rbx", // returns once more, not zero, from `pthread_exit`
        "test eax, eax",
        "jne 2f",
        "mov rdi, r14",
        "call r15",
        "mov rdi, r13",
        "call r12",
        "2:",
        "lea rsp, [rbp - 40]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    start: Start,
    argument: *mut c_void,
    top: *mut u8,
    buffer: *mut Buffer,
    register: Register,
    set_jump: SetJump,
) -> *mut c_void {
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "stp x29, x30, [sp, #-64]!",
        "mov x29, sp",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "str x23, [sp, #48]",
        "mov x19, x0",
        "mov x20, x1",
        "mov x21, x3",
        "mov x22, x4",
        "mov x23, x5",
        "cbz x2, 1f",
        "mov sp, x2",
        "1:",
        "mov x0, x21",
        "mov w1, wzr",
        "blr x23", // returns once more, not zero, from `pthread_exit`
        "cbnz w0, 2f",
        "mov x0, x21",
        "blr x22",
        "mov x0, x20",
        "blr x19",
        "2:",
        "mov sp, x29",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldr x23, [sp, #48]",
        "ldp x29, x30, [sp], #64",
        "ret",
        ".cfi_endproc",
    )
}
