//! `vfork` and `posix_spawn`: the child shares the caller's memory, and the caller's kernel thread stands until the
//! child has become another program or has ended.
//!
//! The child has the parent's thread-local storage, too, so one word there says to every entry point that it runs in
//! such a child ([`is_child`]): the runtime's records are the parent's, descriptors, actions and masks are its own.
//! There an entry point leaves the records alone and makes the plain call. The thread is hidden from the runtime
//! meanwhile, so it never switches. Its processor goes to another kernel thread, if others wait for it.
//!
//! `vfork` returns twice, and what the child calls overwrites the frame that the parent returns by. So the return
//! address and the number of such children below this one are kept in registers, which the kernel keeps for each of
//! both.
//!
//! All signals that can wait are blocked in the parent until the child is gone, and in the child until it has the mask
//! of the calling thread: no handler runs where it is not certain which of both it has met.
//!
//! `system` and `popen` are the C library's: their shell begins with the mask of the kernel thread (Debian's clears its
//! mask at once).

use super::{masks, signals};
use crate::os::{answer, c};
use crate::thread::caller::Caller;
use raddle::drop_in::Hidden;
use raddle_macros::entry;
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

thread_local! {
    /// How many children stand one below the other: 0 in the parent.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What the parent is again after the call.
    static HIDDEN: Cell<Option<Hidden>> = const { Cell::new(None) };
    /// What its kernel thread blocked.
    static BLOCKED: Cell<signals::Set> = const { Cell::new(0) };
    /// What the child is to block.
    static CHILD_BLOCKS: Cell<signals::Set> = const { Cell::new(0) };
}

/// The caller runs in the child of a `vfork`: what it knows of itself is its parent's.
#[inline]
pub(crate) fn is_child() -> bool {
    DEPTH.get() != 0
}

/// In the child of a fork: true if that was made by the child of a `vfork`.
pub(super) fn forked() -> bool {
    HIDDEN.take();
    DEPTH.replace(0) != 0
}

/// Before the child is made. The answer is how many there are already, one below the other.
pub(super) extern "C" fn begin() -> usize {
    let depth = DEPTH.get();
    if depth == 0 {
        let mask = signals::own_mask();
        // Others go on meanwhile.
        raddle::drop_in::blocking(|| ());
        HIDDEN.set(Some(raddle::drop_in::hide()));
        BLOCKED.set(masks::pause());
        CHILD_BLOCKS.set(mask);
    }
    DEPTH.set(depth + 1);
    depth
}

/// After the system call, in the child (`result` is 0), and then in the parent. The answer is the call's.
pub(super) extern "C" fn finish(result: isize, depth: usize) -> c::pid_t {
    if result == 0 {
        if depth == 0 {
            signals::set_kernel_mask(CHILD_BLOCKS.get());
        }
        return 0;
    }
    DEPTH.set(depth);
    if depth == 0 {
        // The child may have changed what it shares.
        raddle::io::doubt_all();
        if let Some(hidden) = HIDDEN.take() {
            hidden.end();
        }
        masks::resume(BLOCKED.get());
    }
    answer(result) as c::pid_t
}

/// # Safety
/// As POSIX says.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> c::pid_t {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "call {begin}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        // From here to the push the return address is in a register only.
        "pop rdx",
        ".cfi_def_cfa_offset 0",
        ".cfi_register rip, rdx",
        "mov r8, rax",
        "mov eax, {number}",
        "syscall",
        "push rdx",
        ".cfi_def_cfa_offset 8",
        ".cfi_offset rip, -8",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "mov rdi, rax",
        "mov rsi, r8",
        "call {finish}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        begin = sym begin,
        finish = sym finish,
        number = const c::SYS_vfork,
    )
}

/// # Safety
/// As POSIX says.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> c::pid_t {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {begin}",
        "ldp x29, x30, [sp], #16",
        // From here to the store the return address is in a register only.
        "mov x9, x0",
        "mov x0, {flags}",
        "mov x1, #0",
        "mov x2, #0",
        "mov x3, #0",
        "mov x4, #0",
        "mov x8, {number}",
        "svc #0",
        "stp x29, x30, [sp, #-16]!",
        "mov x1, x9",
        "bl {finish}",
        "ldp x29, x30, [sp], #16",
        "ret",
        begin = sym begin,
        finish = sym finish,
        flags = const c::CLONE_VM | c::CLONE_VFORK | c::SIGCHLD,
        number = const c::SYS_clone,
    )
}

/// Another name of [`vfork`], which has to go on with the caller's return address.
///
/// # Safety
/// As POSIX says.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vfork() -> c::pid_t {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("jmp {vfork}", vfork = sym vfork);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("b {vfork}", vfork = sym vfork);
}

type Strings = *const *mut c_char;
type Spawn = unsafe extern "C" fn(
    *mut c::pid_t,
    *const c_char,
    *const c::posix_spawn_file_actions_t,
    *const c::posix_spawnattr_t,
    Strings,
    Strings,
) -> c_int;

/// Calls `spawn`, one of the C library's two functions. The new process blocks what the calling thread blocks, not what
/// its kernel thread does, unless the attributes say more.
///
/// # Safety
/// As POSIX says.
unsafe fn spawn(
    spawn: Spawn,
    id: *mut c::pid_t,
    path: *const c_char,
    actions: *const c::posix_spawn_file_actions_t,
    given: *const c::posix_spawnattr_t,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    let Some(me) = Caller::light() else {
        // SAFETY: the caller's arguments.
        let result = unsafe { spawn(id, path, actions, given, arguments, environment) };
        if !is_child() {
            raddle::io::doubt_all();
        }
        return result;
    };
    let mask = me.mask.load(Ordering::Relaxed);
    // SAFETY: attributes are plain memory, the caller's or ones that are initialised here; a signal set whose first
    // word is the kernel's.
    let attributes = unsafe {
        let mut attributes: c::posix_spawnattr_t = std::mem::zeroed();
        match given.as_ref() {
            Some(given) => attributes = *given,
            None => _ = c::posix_spawnattr_init(&mut attributes),
        }
        let mut flags = 0;
        c::posix_spawnattr_getflags(&attributes, &mut flags);
        if c_int::from(flags) & c::POSIX_SPAWN_SETSIGMASK as c_int == 0 {
            let mut set: c::sigset_t = std::mem::zeroed();
            (&raw mut set).cast::<signals::Set>().write(mask);
            c::posix_spawnattr_setsigmask(&mut attributes, &set);
            c::posix_spawnattr_setflags(&mut attributes, flags | c::POSIX_SPAWN_SETSIGMASK as i16);
        }
        attributes
    };
    raddle::drop_in::blocking(|| ());
    let hidden = raddle::drop_in::hide();
    let before = masks::pause();
    // SAFETY: the caller's arguments, or a copy.
    let result = unsafe { spawn(id, path, actions, &attributes, arguments, environment) };
    raddle::io::doubt_all();
    hidden.end();
    masks::resume(before);
    result
}

macro_rules! spawns {
    ($($name:ident)*) => {$(
        #[entry]
        pub unsafe extern "C" fn $name(
            id: *mut c::pid_t,
            path: *const c_char,
            actions: *const c::posix_spawn_file_actions_t,
            attributes: *const c::posix_spawnattr_t,
            arguments: Strings,
            environment: Strings,
        ) -> c_int {
            let next = next_version!($name, "GLIBC_2.15": fn(
                *mut c::pid_t,
                *const c_char,
                *const c::posix_spawn_file_actions_t,
                *const c::posix_spawnattr_t,
                Strings,
                Strings,
            ) -> c_int);
            // SAFETY: the caller's arguments.
            unsafe { spawn(next, id, path, actions, attributes, arguments, environment) }
        }
    )*};
}

spawns!(posix_spawn posix_spawnp);
