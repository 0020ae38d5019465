//! The C library's own word for cancellation, in the thread control block of the calling thread.
//!
//! glibc has kept the bits below in `cancelhandling` since 2.36, as it had until 2.33; where the word is, is told by
//! its interface for debuggers, and [`prepare`] looks whether the bits mean what they are taken for. Where they do not,
//! nothing is kept there: the C library's own cancellation points then end no lightweight thread. Only a lightweight
//! thread itself touches its word, so a request never reaches a block's next owner; it is renewed with the block. A
//! kernel thread's is also written by its cancellers, in the C library.

use crate::os::{c, find_data, thread_pointer};
use std::ffi::c_int;
use std::sync::atomic::{AtomicIsize, AtomicU32, Ordering};

const DISABLED: u32 = 1;
/// The program's type, or the C library is inside one of its cancellation points.
const ASYNCHRONOUS: u32 = 2;
/// A request has begun. The canceller of a thread in which [`ASYNCHRONOUS`] is set does no more than that, and leaves
/// the other bit to the signal that it sends.
const BEGUN: u32 = 4;
/// Both are set by a request.
const REQUESTED: u32 = BEGUN | 8;
const EXITING: u32 = 16;

/// Where the word is, from the thread pointer; 0: not known.
static OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Before the first lightweight thread, and before the first request to a kernel thread.
pub(crate) fn prepare() {
    if OFFSET.load(Ordering::Relaxed) != 0 {
        return;
    }
    let [Some(field), Some(size)] = [c"_thread_db_pthread_cancelhandling", c"_thread_db_sizeof_pthread"].map(find_data)
    else {
        return;
    };
    // SAFETY: the C library's descriptions: bits, elements and an offset; a number of bytes.
    let (offset, size) = unsafe { (field.cast::<[u32; 3]>().read()[2] as isize, size.cast::<u32>().read() as isize) };
    // On aarch64 the thread pointer is the end of the control block.
    let offset = if cfg!(target_arch = "aarch64") { offset - size } else { offset };
    if offset != 0 && means_what_it_should(at(offset)) {
        OFFSET.store(offset, Ordering::Relaxed);
    }
}

fn at(offset: isize) -> &'static AtomicU32 {
    // SAFETY: a word of the calling thread's own control block, of which the C library makes atomic use; it lives as
    // long as the caller looks.
    unsafe {
        AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(
            (thread_pointer() as usize).wrapping_add_signed(offset),
        ))
    }
}

/// Tries it, on a kernel thread.
fn means_what_it_should(word: &AtomicU32) -> bool {
    let set_state = next!(pthread_setcancelstate: fn(c_int, *mut c_int) -> c_int);
    let set_type = next!(pthread_setcanceltype: fn(c_int, *mut c_int) -> c_int);
    let (mut state, mut kind) = (0, 0);
    let before = word.load(Ordering::Relaxed);
    // SAFETY: places on the stack. While cancellation is disabled, none of the calls ends the thread.
    unsafe {
        set_state(c::PTHREAD_CANCEL_DISABLE, &mut state);
        set_type(c::PTHREAD_CANCEL_ASYNCHRONOUS, &mut kind);
        let both = word.load(Ordering::Relaxed);
        set_type(c::PTHREAD_CANCEL_DEFERRED, std::ptr::null_mut());
        let one = word.load(Ordering::Relaxed);
        set_type(kind, std::ptr::null_mut());
        set_state(state, std::ptr::null_mut());
        let known = |word: u32| word & (DISABLED | ASYNCHRONOUS);
        known(both) == DISABLED | ASYNCHRONOUS
            && known(one) == DISABLED
            && both & !known(both) == before & !known(before)
    }
}

fn own() -> Option<&'static AtomicU32> {
    match OFFSET.load(Ordering::Relaxed) {
        0 => None,
        offset => Some(at(offset)),
    }
}

fn set(bits: u32, on: bool) {
    if let Some(word) = own() {
        // Relaxed: the thread's own.
        _ = if on { word.fetch_or(bits, Ordering::Relaxed) } else { word.fetch_and(!bits, Ordering::Relaxed) };
    }
}

/// The calling thread is to be cancelled.
pub(super) fn request() {
    set(REQUESTED, true);
}

/// The calling kernel thread acts on a request that has begun at its next cancellation point: the canceller's signal
/// has come, or a wait of this library has met the request before it.
pub(crate) fn complete_request() {
    if own().is_some_and(|word| word.load(Ordering::Relaxed) & BEGUN != 0) {
        request();
    }
}

/// Whether the calling kernel thread ends at its next cancellation point, if that is known.
pub(crate) fn is_to_be_cancelled() -> Option<bool> {
    own().map(|word| word.load(Ordering::Relaxed) & (DISABLED | BEGUN) == BEGUN)
}

/// It ends: it is not cancelled any more.
pub(super) fn exits() {
    set(EXITING, true);
}

pub(super) fn set_state(disabled: bool) {
    set(DISABLED, disabled);
}

pub(super) fn set_type(asynchronous: bool) {
    set(ASYNCHRONOUS, asynchronous);
}

/// The C library has begun to end the calling thread.
pub(super) fn is_exiting() -> bool {
    own().is_some_and(|word| word.load(Ordering::Relaxed) & EXITING != 0)
}

/// The calling thread is not to be cancelled now: the program wants that, or the C library in a call of its own
/// (`pclose`), which looks at the request when it ends that.
pub(super) fn is_disabled() -> bool {
    own().is_some_and(|word| word.load(Ordering::Relaxed) & DISABLED != 0)
}

/// In a signal handler that has interrupted the C library: it is where a request ends the thread at once, unless the
/// program asked for that everywhere.
pub(super) fn may_be_cancelled() -> bool {
    own().is_some_and(|word| word.load(Ordering::Relaxed) & (DISABLED | ASYNCHRONOUS) == ASYNCHRONOUS)
}
