//! The numbers by which the C library's locks know who holds them, as kernel threads are known by their ids.
//!
//! Locks that processes share keep such a number beside them, so two processes must not give out the same ones: one
//! would take the other's lock for its own. Each process begins at a random number, a child of a fork at another one.
//! A thread that the kernel is to know as a holder has its kernel thread's number instead ([`Tls::known_to_kernel`]).
//!
//! A block keeps its number from thread to thread, unless it is from before a fork, or the kernel's.

use super::Tls;
use crate::switch;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Above every kernel's (`pid_max` is at most 2^22).
const LOWEST: u32 = (1 << 22) + 1;
/// A process that begins here may have 16 million blocks below the bits that the kernel keeps beside a number.
const HIGHEST: u32 = (1 << 30) - (1 << 24);

/// The process's first number, and the next one.
static FIRST: AtomicU32 = AtomicU32::new(LOWEST);
static NEXT: AtomicU32 = AtomicU32::new(LOWEST);
/// Some block may have a number that is none of the process's.
static SUSPECT: AtomicBool = AtomicBool::new(false);

/// Before the process's first block: where its numbers begin.
pub(super) fn begin() {
    let mut random = 0u32;
    // SAFETY: the kernel fills four bytes on the stack, or says that it cannot.
    let told = unsafe { libc::syscall(libc::SYS_getrandom, &raw mut random, size_of::<u32>(), libc::GRND_NONBLOCK) };
    if told != size_of::<u32>() as libc::c_long {
        // SAFETY: takes nothing. The multiplier spreads ids that lie side by side.
        random = (unsafe { libc::syscall(libc::SYS_getpid) } as u32).wrapping_mul(0x9e37_79b1);
    }
    let first = LOWEST + random % (HIGHEST - LOWEST);
    // Ordering: Relaxed: no block is built beside this.
    FIRST.store(first, Ordering::Relaxed);
    NEXT.store(first, Ordering::Relaxed);
}

/// In the child of a fork, before its first thread: blocks that are there have the parent's numbers.
pub fn forked() {
    begin();
    SUSPECT.store(true, Ordering::Relaxed);
}

/// A number for a new block.
pub(super) fn next() -> u32 {
    // Ordering: Relaxed, a counter only.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Whether some block may have another's number: rarely.
#[inline]
pub(super) fn are_suspect() -> bool {
    // Ordering: Relaxed: a block that has such a number came to the caller after this was stored.
    SUSPECT.load(Ordering::Relaxed)
}

impl Tls {
    /// A block that the caller owns gets a number of the process's if it has another one.
    ///
    /// # Safety
    /// As for [`Tls::renew`].
    #[cold]
    pub(super) unsafe fn renumber(&self, block: *mut u8) {
        let first = FIRST.load(Ordering::Relaxed);
        // SAFETY: inside struct pthread, of a block that the caller owns.
        unsafe {
            let place = block.offset(self.layout.tid).cast::<u32>();
            if place.read().wrapping_sub(first) >= NEXT.load(Ordering::Relaxed).wrapping_sub(first) {
                place.write(next());
            }
        }
    }

    /// From now on the calling thread holds the C library's locks by the number of its kernel thread, which it has for
    /// itself, and the kernel knows its list of robust mutexes. False if the kernel refuses.
    ///
    /// # Safety
    /// The caller runs on a block of ours; `number` is its kernel thread's, on which nobody else runs until it ends.
    pub unsafe fn known_to_kernel(&self, number: u32) -> bool {
        let block = switch::current_fs() as *mut u8;
        // SAFETY: inside struct pthread, of the caller's own block; the head of its list, which lives as long as it.
        unsafe {
            let head = block.offset(self.layout.robust_head);
            if libc::syscall(libc::SYS_set_robust_list, head, super::robust::HEAD) != 0 {
                return false;
            }
            SUSPECT.store(true, Ordering::Relaxed);
            block.offset(self.layout.tid).cast::<u32>().write(number);
        }
        true
    }
}
