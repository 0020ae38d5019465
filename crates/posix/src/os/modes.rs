//! The modes of the floating-point units: rounding, traps and what else a thread sets by `<fenv.h>`. A new thread has
//! its creator's.

/// The calling thread's, in a word.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn get() -> u64 {
    let (mut vector, mut x87) = (0u32, 0u16);
    // SAFETY: two control words are stored on the stack.
    unsafe {
        std::arch::asm!("stmxcsr [{0}]", "fnstcw [{1}]", in(reg) &raw mut vector, in(reg) &raw mut x87, options(nostack))
    };
    u64::from(vector) | u64::from(x87) << 32
}

/// Gives the calling thread the modes that [`get`] answered.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn set(modes: u64) {
    if modes == get() {
        return;
    }
    let (vector, x87) = (modes as u32, (modes >> 32) as u16);
    // SAFETY: control words that were stored by the same instructions' counterparts.
    unsafe {
        std::arch::asm!("ldmxcsr [{0}]", "fldcw [{1}]", in(reg) &raw const vector, in(reg) &raw const x87, options(nostack))
    };
}

/// The calling thread's, in a word.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) fn get() -> u64 {
    let modes: u64;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) modes, options(nostack, nomem, preserves_flags)) };
    modes
}

/// Gives the calling thread the modes that [`get`] answered.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) fn set(modes: u64) {
    // SAFETY: what the register held on another thread.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) modes, options(nostack, nomem, preserves_flags)) };
}
