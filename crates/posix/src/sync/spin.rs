//! `pthread_spinlock_t`, in the representation of the C library (it may be shared with processes that know nothing of
//! us).
//!
//! A spinner whose lock's holder does not run must let it: after a short spin it yields, and when that does not help
//! for long, sleeps a little, so that a holder of a lower priority gets its turn too.

use crate::os::c;
use raddle_macros::entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

type Raw = *mut c::pthread_spinlock_t;

/// On x86-64 the C library says 1 for free and 0 or less for held, elsewhere 0 and 1.
const FREE: c_int = if cfg!(target_arch = "x86_64") { 1 } else { 0 };
const HELD: c_int = 1 - FREE;

/// Looks before yielding, and yields before sleeping. Where the holder yields, a fourth of each, and of the nap,
/// changes the time of a lock by less than the rounds do; four times as much takes 1.3 times as long with 8 threads on
/// two processors, 3 times with 64. (Seven rounds, `locks` of docs/constants.md)
const LOOKS: u32 = 64;
const YIELDS: u32 = 256;
const NAP: Duration = Duration::from_micros(100);

/// # Safety
/// A spin lock of the program, alive during the call.
unsafe fn word<'a>(lock: Raw) -> &'a AtomicI32 {
    // SAFETY: a spin lock is a word, alive during the call, that is used by atomic operations only.
    unsafe { AtomicI32::from_ptr(lock.cast()) }
}

fn try_lock(word: &AtomicI32) -> bool {
    // Acquire: pairs with the release of the unlock.
    word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

#[cold]
fn spin(word: &AtomicI32) {
    let mut yields = 0;
    loop {
        for _ in 0..LOOKS {
            if word.load(Ordering::Relaxed) == FREE && try_lock(word) {
                return;
            }
            std::hint::spin_loop();
        }
        if yields < YIELDS || !raddle::drop_in::is_lightweight() {
            crate::io::sleep::give_way();
            yields = yields.saturating_add(1);
        } else {
            raddle::sleep(NAP);
        }
    }
}

#[entry]
pub unsafe extern "C-unwind" fn pthread_spin_lock(lock: Raw) -> c_int {
    // SAFETY: the caller's object.
    let word = unsafe { word(lock) };
    if !try_lock(word) {
        spin(word);
    }
    0
}

#[entry]
pub unsafe extern "C" fn pthread_spin_trylock(lock: Raw) -> c_int {
    // SAFETY: the caller's object.
    if try_lock(unsafe { word(lock) }) { 0 } else { c::EBUSY }
}
