//! A stretch in which the thread is not cancelled.

use std::ffi::c_int;

/// While it lives the thread is not cancelled: who leads would take the lead along, and a request would write to a
/// frame that is gone. MPI's calls are no cancellation points, but what they call may be (Open MPI's `epoll_wait`).
pub struct Uncancelled(c_int);

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl Uncancelled {
    pub fn begin() -> Uncancelled {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: a state that there is, and a place for the one before.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Uncancelled(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state that it told, and nowhere to tell another.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}
