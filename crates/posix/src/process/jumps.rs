//! Jumps out of signal handlers: the thread that a handler interrupted was hidden from the runtime meanwhile, and is itself again,
//! and the mask that the jump restores is brought up to date ([`super::masks`]).
//!
//! A jump that stays inside a handler shows the thread too early; what the handler then calls is taken over, as in the thread's own code.

macro_rules! jump {
    ($name:ident, $find:ident) => {
        unsafe extern "C" fn $find(saved: *mut std::ffi::c_void) -> *const () {
            raddle::signal::left_by_a_jump();
            // SAFETY: the caller's argument.
            unsafe { super::masks::settle_jump(saved) };
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
