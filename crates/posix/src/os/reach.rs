//! Whether the program's memory can be reached where it says: what it passes to a call that waits here is read before
//! the kernel, which would answer EFAULT, has seen it.
//!
//! [`touch`] tries; the handler of the fault, whichever stands there, asks [`recover`] first, which has it go on where
//! it answers no. Whoever gets that answer leaves the call to the kernel. Where the program has asked for the default
//! action of a fault, that ends it.

use super::c;
use std::ffi::c_void;

/// A page is at least so large.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Whether something can be read there.
#[inline]
pub(crate) fn reads<T>(place: *const T) -> bool {
    reads_all(place, 1)
}

/// Whether so many can.
#[inline]
pub(crate) fn reads_all<T>(place: *const T, count: usize) -> bool {
    all(place.addr(), count.saturating_mul(size_of::<T>()), false)
}

/// The same, or nothing is there.
#[inline]
pub(crate) fn reads_or_null<T>(place: *const T) -> bool {
    place.is_null() || reads(place)
}

/// Whether something can be written there.
#[inline]
pub(crate) fn writes<T>(place: *mut T) -> bool {
    all(place.addr(), size_of::<T>(), true)
}

/// The same, or nothing is there.
#[inline]
pub(crate) fn writes_or_null<T>(place: *mut T) -> bool {
    place.is_null() || writes(place)
}

#[inline]
fn all(from: usize, size: usize, write: bool) -> bool {
    if from < PAGE_BYTES || from.checked_add(size).is_none() {
        return size == 0;
    }
    let last = from + size.max(1) - 1;
    // SAFETY: any addresses may be asked for; nothing is changed.
    size == 0 || (from..last).step_by(PAGE_BYTES).all(|at| unsafe { touch(at, write) }) && unsafe { touch(last, write) }
}

/// In the handler of a fault: true if [`touch`] has met it, which goes on.
///
/// # Safety
/// `context` is the kernel's argument to the handler, which returns after the answer "true".
pub(crate) unsafe fn recover(context: *mut c_void) -> bool {
    let labels = [&raw const raddle_touch_begins, &raw const raddle_touch_ends, &raw const raddle_touch_failed];
    let [begins, ends, failed] = labels.map(|label| label.addr());
    // SAFETY: the registers of what the fault has interrupted, of this architecture: this handler's to change.
    unsafe {
        let context = &mut *context.cast::<c::ucontext_t>();
        #[cfg(target_arch = "x86_64")]
        let at = &mut context.uc_mcontext.gregs[c::REG_RIP as usize];
        #[cfg(target_arch = "aarch64")]
        let at = &mut context.uc_mcontext.pc;
        let meets = (begins..ends).contains(&(*at as usize));
        if meets {
            *at = failed as _;
        }
        meets
    }
}

unsafe extern "C" {
    // Labels in the code below.
    static raddle_touch_begins: u8;
    static raddle_touch_ends: u8;
    static raddle_touch_failed: u8;
}

/// Whether the byte there can be read, or also written; it stays what it is.
///
/// # Safety
/// A handler of faults that asks [`recover`] is there, or the address is one of the caller's memory.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn touch(at: usize, write: bool) -> bool {
    std::arch::naked_asm!(
        ".hidden raddle_touch_begins, raddle_touch_ends, raddle_touch_failed",
        ".globl raddle_touch_begins, raddle_touch_ends, raddle_touch_failed",
        "raddle_touch_begins:",
        "test sil, sil",
        "jne 2f",
        "mov al, [rdi]",
        "jmp 3f",
        "2:",
        "lock or byte ptr [rdi], 0",
        "raddle_touch_ends:",
        "3:",
        "mov eax, 1",
        "ret",
        "raddle_touch_failed:",
        "xor eax, eax",
        "ret",
    )
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn touch(at: usize, write: bool) -> bool {
    std::arch::naked_asm!(
        ".hidden raddle_touch_begins, raddle_touch_ends, raddle_touch_failed",
        ".globl raddle_touch_begins, raddle_touch_ends, raddle_touch_failed",
        "raddle_touch_begins:",
        "tbnz w1, #0, 2f",
        "ldrb w3, [x0]",
        "b 3f",
        "2:",
        "ldxrb w3, [x0]",
        "stxrb w4, w3, [x0]",
        "cbnz w4, 2b",
        "raddle_touch_ends:",
        "3:",
        "mov w0, #1",
        "ret",
        "raddle_touch_failed:",
        "mov w0, #0",
        "ret",
    )
}
