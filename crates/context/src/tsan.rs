//! Contexts as ThreadSanitizer sees them: under `--cfg raddle_tsan` only, which `cargo xtask tsan` sets.
//!
//! The sanitizer's runtime finds what it knows of the running thread through a word in thread-local storage. A context
//! has storage of its own, so it has such a word of its own: it names a *fiber*, the sanitizer's word for a context,
//! made when the context is prepared. A switch tells the sanitizer which fiber comes next. It notes that in the word of
//! the block that is left, which must go on to name the fiber of that block: so the word is put back between the
//! announcement and the switch, by instructions that are not instrumented.
//!
//! What the sanitizer is told is that one kernel thread did first the one, then the other: that is so. It is not told
//! that fences and `membarrier` order anything; where nothing else does, it reports a race.
//!
//! Differs from production: a slot's fiber is made anew for each prepared context, but one thread that takes over the
//! stack of another without a switch keeps its fiber, which hides nothing (they ran one after the other on one kernel
//! thread).

use core::arch::asm;
use core::ffi::{c_uint, c_void};
use std::sync::OnceLock;

unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut c_void;
    fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
    fn __tsan_destroy_fiber(fiber: *mut c_void);
    fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    safe fn __tsan_ignore_thread_begin();
    safe fn __tsan_ignore_thread_end();
}

/// Bytes of the runtime's variable that are searched for the word; the variable is not smaller.
const SEARCHED: isize = 1024;

/// Where the word lies relative to the thread pointer.
pub fn word() -> isize {
    static WORD: OnceLock<isize> = OnceLock::new();
    *WORD.get_or_init(find)
}

/// The word is the one that changes when another fiber is announced.
fn find() -> isize {
    let variable: isize;
    let fs = crate::switch::current_fs();
    // SAFETY: loads a constant that the linker put into the table of offsets.
    unsafe {
        asm!("mov {}, qword ptr [rip + _ZN6__tsan22cur_thread_placeholderE@GOTTPOFF]", out(reg) variable, options(nostack))
    };
    // SAFETY: a fiber that is entered and left at once, and destroyed while another one is current.
    unsafe {
        let own = __tsan_get_current_fiber();
        let other = __tsan_create_fiber(0);
        __tsan_switch_to_fiber(other, 0);
        let found = (variable..variable + SEARCHED).step_by(8).find(|&at| load(fs, at) == other.addr());
        __tsan_switch_to_fiber(own, 0);
        __tsan_destroy_fiber(other);
        match found {
            Some(at) if load(fs, at) == own.addr() => at,
            _ => crate::tls::fatal("ThreadSanitizer keeps its current thread elsewhere"),
        }
    }
}

/// # Safety
/// `fs + at` is an address of a word that may be read.
#[inline(always)]
unsafe fn load(fs: usize, at: isize) -> usize {
    let value;
    // SAFETY: the caller vouches for the address. Not instrumented, as everything here.
    unsafe { asm!("mov {}, [{}]", out(reg) value, in(reg) fs.wrapping_add_signed(at), options(nostack, readonly)) };
    value
}

/// # Safety
/// `fs + at` is an address of a word that may be written.
#[inline(always)]
unsafe fn store(fs: usize, at: isize, value: usize) {
    // SAFETY: the caller vouches for the address.
    unsafe { asm!("mov [{}], {}", in(reg) fs.wrapping_add_signed(at), in(reg) value, options(nostack)) };
}

/// A context begins anew under the thread pointer `fs`.
///
/// # Safety
/// `fs` is a thread pointer that no live context uses, or the caller's own, which stays as it is.
pub unsafe fn prepared(fs: usize) {
    if fs == crate::switch::current_fs() {
        return;
    }
    let at = word();
    // SAFETY: the word lies in the block; a fiber that it names is that of a context which is gone.
    unsafe {
        let former = load(fs, at);
        if former != 0 {
            __tsan_destroy_fiber(core::ptr::with_exposed_provenance_mut(former));
        }
        store(fs, at, __tsan_create_fiber(0).expose_provenance());
    }
}

/// The context under the thread pointer `fs` comes next. Nothing may come between this and the switch.
///
/// # Safety
/// `fs` is the thread pointer of a context that was prepared or suspended, and the caller switches to it at once.
#[inline(always)]
pub unsafe fn leave_for(fs: usize) {
    let own = crate::switch::current_fs();
    if fs == own {
        return;
    }
    let at = word();
    // SAFETY: both blocks have the word; the fibers are live, and that of `fs` runs nowhere.
    unsafe {
        let (from, to) = (load(own, at), load(fs, at));
        __tsan_switch_to_fiber(core::ptr::with_exposed_provenance_mut(to), 0);
        store(own, at, from);
    }
}

/// From here to [`look_again`] the caller's reads and writes are not watched; what it synchronises is.
pub fn look_away() {
    __tsan_ignore_thread_begin();
}

/// See [`look_away`].
pub fn look_again() {
    __tsan_ignore_thread_end();
}
