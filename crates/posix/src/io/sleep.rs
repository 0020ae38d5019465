//! Sleeping and yielding.

use crate::os::c;
use std::ffi::c_int;

/// # Safety
/// As POSIX says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_yield() -> c_int {
    if raddle::drop_in::is_lightweight() {
        raddle::yield_now();
        return 0;
    }
    // SAFETY: takes nothing.
    unsafe { crate::os::system_call(c::SYS_sched_yield, [0; 6]) as c_int }
}
