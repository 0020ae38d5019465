//! Robust mutexes that a thread holds at its end: each is marked, and one of those who wait for it is woken, as the
//! kernel does for kernel threads.
//!
//! The C library keeps them in a list in `struct pthread`: a head, the distance from an entry to its lock word, and the
//! entry that a lock or unlock was about to add or take out. The kernel knows the list of the kernel thread only,
//! unless it was told of a thread's ([`super::Tls::known_to_kernel`]): so when a whole process dies, mutexes of its
//! other lightweight threads are not marked.
//!
//! Mutexes that are robust and inherit priorities are left: the kernel names their owners itself, and knows no
//! lightweight thread.

use super::layout::Layout;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the head.
pub(super) const HEAD: usize = 24;
const OWNER: u32 = 0x3fff_ffff;
const OWNER_DIED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;
/// As many as the kernel follows.
const MOST: u32 = 2048;

impl Layout {
    /// # Safety
    /// The calling thread's own block, of which no code of the program runs any more.
    #[inline]
    pub unsafe fn leave_robust(&self, fs: *mut u8) {
        // SAFETY: inside struct pthread.
        unsafe {
            let head = fs.offset(self.robust_head).cast::<usize>();
            if head.read() != head.addr() || head.add(2).read() != 0 {
                self.mark_robust(fs, head);
            }
        }
    }

    /// # Safety
    /// As for [`Layout::leave_robust`]; `head` is that of the block's list.
    #[cold]
    #[inline(never)]
    unsafe fn mark_robust(&self, fs: *mut u8, head: *mut usize) {
        // SAFETY: the list is the C library's: each entry is the address of the next one, in a mutex that the thread
        // holds; the entry that was on its way is such a one, or was until a moment ago. The next entry is read before
        // a mutex is given up.
        unsafe {
            let owner = fs.offset(self.tid).cast::<u32>().read();
            let (distance, pending) = (head.add(1).read(), head.add(2).read());
            let mut at = head.read();
            for _ in 0..MOST {
                let entry = at & !1;
                if entry == head.addr() || entry == 0 {
                    break;
                }
                let next = core::ptr::with_exposed_provenance::<usize>(entry).read();
                if entry != pending & !1 {
                    mark(at, distance, owner);
                }
                at = next;
            }
            if pending != 0 {
                mark(pending, distance, owner);
            }
            head.write(head.addr());
            head.sub(1).write(head.addr());
            head.add(2).write(0);
        }
    }
}

/// # Safety
/// `entry` is an entry of a robust list, its lowest bit set for a mutex that inherits priorities; `distance` leads to
/// its lock word.
unsafe fn mark(entry: usize, distance: usize, owner: u32) {
    if entry & 1 != 0 {
        return;
    }
    let address = entry.wrapping_add(distance);
    // SAFETY: the lock word of a live mutex.
    let word = unsafe { AtomicU32::from_ptr(core::ptr::with_exposed_provenance_mut(address)) };
    let mut value = word.load(Ordering::Relaxed);
    while value & OWNER == owner & OWNER {
        // Release: what the thread did under the mutex comes before its next holder. From here on the mutex may be
        // gone.
        let died = value & WAITERS | OWNER_DIED;
        match word.compare_exchange_weak(value, died, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                if value & WAITERS != 0 {
                    let arguments = [address, libc::FUTEX_WAKE as usize, 1, 0, 0, 0];
                    // SAFETY: the address is a name only.
                    unsafe { raddle_machine::raw::system_call(libc::SYS_futex as usize, arguments) };
                }
                return;
            }
            Err(now) => value = now,
        }
    }
}
