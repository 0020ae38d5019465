//! Whether a thread spins where it was interrupted: an instruction near by tells the processor so, or it is in one of
//! our functions for locks.
//!
//! Loops that wait for another thread have such a one in them, `pause` on x86-64, so that the core's other thread has
//! more of it; most of a spinning thread's time passes at it. Code that only computes has none. The bytes may be those
//! of another instruction's operand, and the loop a near-by one: then a thread gives way that need not have, once in a
//! quantum at most.
//!
//! The code may lie on a page that can be run and not read. So the kernel is asked to read it first: it looks at a set
//! of signals before it looks at what is to be done with it, which is nothing. (A try by the thread itself, as of
//! [`crate::os::reach`], would be a fault, for which the program may have asked the default action.)
//!
//! Other loops lock and unlock a mutex until what it protects has changed, or try a lock or a semaphore until they have
//! it. Most of their time passes in these functions, which have two sections of the library to themselves: one for
//! those that give back and those that only try ([`Locking::Leaves`]), one for those that lock ([`Locking::Locks`]). An
//! interrupt comes behind the instruction that changes the lock, most of the time. So a thread that is found in the
//! first has no lock by then, or none yet, and may give way; one that is found in the second holds it, and is asked
//! again soon.
//!
//! In the first section lies nothing but what changes the program's own object and the thread's own storage: it knows
//! neither the processor nor the kernel thread, so a thread may leave it at any instruction, and go on elsewhere. What
//! else such a function does (wake, call the C library) it does in functions that lie outside and are never inlined.
//! Whoever adds one sees to that.

use crate::os::c;
use crate::os::reach::PAGE_BYTES;

/// Bytes before and behind the interrupted instruction that are searched, on the same page. A loop that spins has 10 to
/// 20 in all, if it does nothing else; and one that takes a lock is seldom longer.
const NEAR_BYTES: usize = 32;
/// What the kernel is asked to do with a set of signals: no number that it knows.
const NOTHING: usize = usize::MAX;
/// Bytes of such a set.
const SET_BYTES: usize = 8;

/// There is an instruction for loops that spin near that address, at which the calling thread was interrupted.
pub(super) fn is_near_a_pause(at: usize) -> bool {
    let page = at & !(PAGE_BYTES - 1);
    if !is_readable(page) {
        return false;
    }
    let (low, high) = (at.saturating_sub(NEAR_BYTES).max(page), (at + NEAR_BYTES).min(page + PAGE_BYTES));
    let mut bytes = [0; 2 * NEAR_BYTES];
    for (byte, address) in bytes.iter_mut().zip(low..high) {
        // SAFETY: on the page of an instruction that the calling thread is in the middle of, which the kernel could
        // read just now. Another thread may write code there: any byte will do.
        *byte = unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() };
    }
    has_pause(&bytes[..high - low], low)
}

/// What a thread was about when it was interrupted in a function of ours for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locking {
    /// It locks, and has what it locks most of the time.
    Locks,
    /// It gives back, or tries.
    Leaves,
}

/// Whether a function for locks lies at that address.
pub(super) fn locking(at: usize) -> Option<Locking> {
    // The linker makes these symbols, since the sections' names are identifiers.
    unsafe extern "C" {
        static __start_raddle_locks: [u8; 0];
        static __stop_raddle_locks: [u8; 0];
        static __start_raddle_leaves: [u8; 0];
        static __stop_raddle_leaves: [u8; 0];
    }
    let lies = |start: *const [u8; 0], stop: *const [u8; 0]| (start.addr()..stop.addr()).contains(&at);
    if lies(&raw const __start_raddle_leaves, &raw const __stop_raddle_leaves) {
        Some(Locking::Leaves)
    } else {
        lies(&raw const __start_raddle_locks, &raw const __stop_raddle_locks).then_some(Locking::Locks)
    }
}

fn is_readable(page: usize) -> bool {
    // SAFETY: the kernel reads a set, or answers that it cannot, and then that it does not know what to do with it.
    let answer = unsafe { crate::os::system_call(c::SYS_rt_sigprocmask, [NOTHING, page, 0, SET_BYTES, 0, 0]) };
    answer == -(c::EINVAL as isize)
}

/// `pause`, which begins at any byte.
#[cfg(target_arch = "x86_64")]
fn has_pause(code: &[u8], _: usize) -> bool {
    code.windows(2).any(|bytes| bytes == [0xf3, 0x90])
}

/// `yield`, `wfe`, or the `isb` by which Rust's standard library spins.
#[cfg(target_arch = "aarch64")]
fn has_pause(code: &[u8], address: usize) -> bool {
    const PAUSES: [u32; 3] = [0xd503_203f, 0xd503_205f, 0xd503_3fdf];
    let first = address.next_multiple_of(4) - address;
    let words = code.get(first..).unwrap_or_default().chunks_exact(4);
    words.into_iter().any(|word| PAUSES.contains(&u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_told_from_what_cannot() {
        // SAFETY: a new mapping of one page, which nobody else has.
        let page = unsafe {
            c::mmap(std::ptr::null_mut(), PAGE_BYTES, c::PROT_NONE, c::MAP_PRIVATE | c::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(page, c::MAP_FAILED);
        assert!(!is_readable(page.expose_provenance()));
        assert!(!is_near_a_pause(page.expose_provenance()));
        // SAFETY: the same page.
        unsafe {
            assert_eq!(c::mprotect(page, PAGE_BYTES, c::PROT_READ | c::PROT_WRITE), 0);
            assert!(is_readable(page.expose_provenance()));
            assert_eq!(c::munmap(page, PAGE_BYTES), 0);
        }
        assert!(is_readable((is_readable as fn(usize) -> bool as usize) & !(PAGE_BYTES - 1)));
    }

    #[test]
    fn functions_for_locks_are_told_from_the_rest() {
        let place = |function: *const ()| locking(function.addr());
        assert_eq!(place(c::pthread_mutex_lock as *const ()), Some(Locking::Locks));
        assert_eq!(place(c::pthread_rwlock_rdlock as *const ()), Some(Locking::Locks));
        assert_eq!(place(c::pthread_mutex_trylock as *const ()), Some(Locking::Leaves));
        assert_eq!(place(c::pthread_mutex_unlock as *const ()), Some(Locking::Leaves));
        assert_eq!(place(c::sem_post as *const ()), Some(Locking::Leaves));
        assert_eq!(place(locking as *const ()), None);
        assert_eq!(locking(0), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_pause_near_by_is_found_on_the_same_page() {
        #[repr(align(4096))]
        struct Pages([u8; 2 * PAGE_BYTES]);
        let mut pages = Box::new(Pages([0x90; 2 * PAGE_BYTES]));
        let begin = (&raw const pages.0).expose_provenance();
        assert!(!is_near_a_pause(begin) && !is_near_a_pause(begin + 100));
        pages.0[200] = 0xf3;
        let found = |at: usize| is_near_a_pause(begin + at);
        assert_eq!([168, 170, 200, 202, 232, 233].map(found), [false, true, true, true, true, false]);
        (pages.0[200], pages.0[PAGE_BYTES - 1]) = (0x90, 0xf3);
        assert_eq!([PAGE_BYTES - 2, PAGE_BYTES, PAGE_BYTES + 1].map(found), [false; 3]);
    }
}
