//! The frames of the calling thread, by the unwinder that exceptions use.

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;

/// What the unwinder knows of a frame.
#[repr(C)]
struct Frame {
    _opaque: [u8; 0],
}

type Visit<'a> = &'a mut dyn FnMut(usize) -> ControlFlow<()>;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut Frame, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
}

/// Calls `visit` with the place in each frame, from the innermost one on, until it breaks or the frames end. In a
/// handler the interrupted frames come behind its own. No memory is taken.
pub(crate) fn walk(mut visit: impl FnMut(usize) -> ControlFlow<()>) {
    extern "C" fn each(frame: *mut Frame, visit: *mut c_void) -> c_int {
        // SAFETY: the unwinder's argument, and the closure below.
        let (visit, at) = unsafe { (&mut *visit.cast::<Visit<'_>>(), _Unwind_GetIP(frame)) };
        // Any other answer than 0 ends the walk.
        c_int::from(at == 0 || visit(at).is_break())
    }
    let mut visit: Visit<'_> = &mut visit;
    // SAFETY: the callback fits, and does not unwind; the closure outlives the call.
    unsafe { _Unwind_Backtrace(each, (&raw mut visit).cast()) };
}
