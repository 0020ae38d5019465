//! Letting others run between two tests.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::thread;

/// `raddle_yield` of the drop-in, if it is loaded.
fn offer() -> Option<extern "C" fn() -> c_int> {
    static FOUND: OnceLock<Option<extern "C" fn() -> c_int>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"raddle_yield".as_ptr()) };
        // SAFETY: the drop-in's function of that name takes nothing and answers with an `int` (raddle.h).
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(found) })
    })
}

/// To ready threads of the process. The core is given to no other process: a rank that waits for some microseconds
/// natively keeps it, and a busy machine gives it back some milliseconds later.
pub fn to_threads() {
    match offer() {
        Some(offer) => _ = offer(),
        // The kernel does not tell whether what is ready is a thread of this process.
        None => thread::yield_now(),
    }
}
