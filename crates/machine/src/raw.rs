//! System calls made without the C library's `syscall` function, which a drop-in library takes over.
//!
//! # Example
//! ```
//! # #[cfg(not(miri))]
//! # {
//! use raddle_machine::raw::system_call;
//! // SAFETY: takes nothing.
//! let process = unsafe { system_call(libc::SYS_getpid as usize, [0; 6]) };
//! assert_eq!(process, std::process::id() as isize);
//! # }
//! ```

/// Makes a system call: the result, or a negated error number.
///
/// # Safety
/// As for the system call: what the arguments point to is valid for it.
#[cfg(not(miri))]
#[inline]
pub unsafe fn system_call(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's calling convention: number and result in rax, arguments in these registers, rcx and r11
    // lost; the rest is the caller's promise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel's calling convention: number in x8, arguments and result in x0 to x5; the rest is the caller's
    // promise.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// As above, under Miri, which executes no instructions but knows the C library's door to futexes.
///
/// # Safety
/// As above; a futex call whose addresses have exposed provenance.
#[cfg(miri)]
pub unsafe fn system_call(number: usize, arguments: [usize; 6]) -> isize {
    let [word, operation, value, time, _, bits] = arguments;
    // SAFETY: the caller passes what the call takes: a live word, and null or a live time.
    unsafe {
        let word = std::ptr::with_exposed_provenance::<u32>(word);
        let time = std::ptr::with_exposed_provenance::<libc::timespec>(time);
        let other = std::ptr::null::<u32>();
        let number = number as libc::c_long;
        libc::syscall(number, word, operation as i32, value as u32, time, other, bits as u32) as isize
    }
}
