//! `getcontext`, `setcontext` and `swapcontext`: the mask of a lightweight thread goes with its contexts.
//!
//! The C library saves and sets the kernel thread's mask, which is none of the thread's. So before it fills a context
//! the thread's own mask is noted in the part of the saved set that the kernel leaves alone, and beside it what the
//! kernel thread blocks; before it goes on with a context that has such a note, the thread blocks what that says, and
//! the kernel thread's mask is put in its place. What the program itself has changed in the saved set is seen by the
//! difference.
//!
//! Where the function of a context returns, the C library goes on with `uc_link` by itself: the thread's mask stays as
//! it is. A context that the kernel has filled, a handler's, has no note.

use super::signals::{self, Set};
use super::{jumps, masks, own_calls};
use crate::os::c;
use crate::thread::caller::Caller;
use crate::thread::dedicated;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// The first word of a note.
const NOTED: u64 = 0x7261_6464_6c65_6378;
/// Of the sixteen words that C gives a set, of which the kernel knows the first.
const NOTE: usize = 13;

/// The set that is saved in a context, and the note in it.
///
/// # Safety
/// A context, filled or to be filled.
unsafe fn places(context: *mut c_void) -> (*mut Set, *mut [u64; 3]) {
    // SAFETY: within the context's set.
    unsafe {
        let set = (&raw mut (*context.cast::<c::ucontext_t>()).uc_sigmask).cast::<Set>();
        (set, set.add(NOTE).cast())
    }
}

/// Before a context is filled.
///
/// # Safety
/// A context to be filled.
unsafe fn note(context: *mut c_void) {
    let note = Caller::light().map_or([0; 3], |me| [NOTED, me.mask.load(Ordering::Relaxed), signals::kernel_mask()]);
    // SAFETY: as promised; the kernel writes the first word only.
    unsafe { places(context).1.write(note) };
}

/// What the thread is to block by a saved set and its note.
fn wanted(saved: Set, [noted, own, kernels]: [u64; 3]) -> Option<Set> {
    let edited = (own | saved & !kernels) & !(kernels & !saved);
    (noted == NOTED).then_some(edited & !signals::UNBLOCKABLE)
}

/// Before the calling thread goes on with a context.
///
/// # Safety
/// A filled context.
unsafe fn take(context: *mut c_void) {
    // SAFETY: the caller has a filled context.
    let (saved, note) = unsafe { places(context) };
    // SAFETY: both were filled, or hold anything.
    let Some(wanted) = (unsafe { wanted(saved.read(), note.read()) }) else { return };
    let Some(me) = Caller::light() else {
        if dedicated::is_here() {
            // It has become so since, and the kernel has its mask.
            // SAFETY: both lie in the context, which is the caller's to change.
            unsafe {
                saved.write(wanted & !signals::kicks());
                note.write([0; 3]);
            }
        }
        return;
    };
    let before = me.mask.load(Ordering::Relaxed);
    if before != wanted {
        own_calls::is_blocked(wanted);
        me.mask.store(wanted, Ordering::SeqCst);
        masks::changed(before, wanted);
        signals::deliver();
    }
    let kernels = signals::kernel_mask();
    // SAFETY: both lie in the context, which is the caller's to change.
    unsafe {
        saved.write(kernels);
        note.write([NOTED, wanted, kernels]);
    }
}

unsafe extern "C" fn find_getcontext(context: *mut c_void) -> *const () {
    // SAFETY: the caller's argument.
    unsafe { note(context) };
    next!(getcontext: fn()) as *const ()
}

unsafe extern "C" fn find_setcontext(context: *mut c_void) -> *const () {
    // SAFETY: the caller's argument.
    unsafe { take(context) };
    next!(setcontext: fn()) as *const ()
}

unsafe extern "C" fn find_swapcontext(filled: *mut c_void, next: *mut c_void) -> *const () {
    // SAFETY: the caller's arguments.
    unsafe {
        note(filled);
        if filled != next {
            take(next);
        }
    }
    next!(swapcontext: fn()) as *const ()
}

jumps::through! { getcontext by find_getcontext }
jumps::through! { setcontext by find_setcontext }
jumps::through! { swapcontext by find_swapcontext }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_changes_in_a_saved_set_is_the_threads() {
        let [one, two, three] = [1 << 4, 1 << 5, 1 << 6];
        assert_eq!(wanted(one, [NOTED, two, one]), Some(two));
        // It has let the kernel thread's own out, and has blocked another one.
        assert_eq!(wanted(three, [NOTED, one | two, one]), Some(two | three));
        assert_eq!(wanted(u64::MAX, [NOTED, 0, 0]), Some(!signals::UNBLOCKABLE));
        assert_eq!(wanted(one, [0, two, one]), None);
    }
}
