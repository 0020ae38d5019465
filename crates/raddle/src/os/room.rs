//! Room in the process's table of descriptors for ours, which have high numbers.
//!
//! A table that grows waits until all cores have let go of the old one, unless the calling kernel thread is the only
//! one of the process. The wait takes 5 to 18 ms, which the first thread to wait for a descriptor would stand, and
//! beside some twenty busy threads now and then 0.4 to 6 s; alone it takes 3 µs. (Two virtual cores, Linux 6.18,
//! 2026-11-29.) So the table grows before the first kernel thread of the runtime begins. A table never shrinks; the
//! child of a fork gets one for what is open.

use super::events::{close, raised};
use raddle_machine::raw::system_call;
use std::sync::atomic::{AtomicBool, Ordering};

/// It is made, or too late.
static MADE: AtomicBool = AtomicBool::new(false);

/// Links of the folder of a process's kernel threads: two, and one for each.
const LINKS_ALONE: libc::nlink_t = 3;

/// Makes it, once, if the process has no other kernel thread. Before anything that begins one.
pub(super) fn make() {
    if MADE.swap(true, Ordering::Relaxed) {
        return;
    }
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
    let place = [libc::AT_FDCWD as usize, c"/proc/self/task".as_ptr().addr(), flags, 0, 0, 0];
    // SAFETY: a C string and flags.
    let folder = unsafe { system_call(libc::SYS_openat as usize, place) as i32 };
    if folder < 0 {
        return;
    }
    // SAFETY: zeroes are a `stat`.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor, and a live place for the answer.
    let known = unsafe {
        system_call(libc::SYS_fstat as usize, [folder as usize, (&raw mut about).expose_provenance(), 0, 0, 0, 0])
    };
    let last = if known == 0 && about.st_nlink == LINKS_ALONE { raised(folder) } else { folder };
    close(last);
}

/// In the child of a fork.
pub(crate) fn forget() {
    MADE.store(false, Ordering::Relaxed);
}
