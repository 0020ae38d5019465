//! What the C library keeps in a thread's control block once it has locked a mutex with a ceiling: which ceilings it
//! holds, its priority and class. A block goes from thread to thread, and the next one holds none: so the first lock is
//! watched for the words that it changes, which are put back when the thread ends.
//!
//! Looked at are the flags, beside the word of cancellation, and what lies behind the thread-specific data: nothing
//! there is the program's.

use crate::os::{c, find_data, thread_pointer};
use crate::thread::record::Record;
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;

/// A word, and what stood there before.
type Change = (usize, u32);

/// No priority is above it.
const SMALL: u32 = 1000;

thread_local! {
    /// What the calling thread's first lock has changed. Without a destructor: [`put_back`] frees it.
    static CHANGED: Cell<*mut Vec<Change>> = const { Cell::new(null_mut()) };
}

/// Where the words lie, from the thread pointer: that of the flags, and the range of the others.
struct Place {
    flags: isize,
    tail: [isize; 2],
}

fn place() -> Option<&'static Place> {
    static PLACE: OnceLock<Option<Place>> = OnceLock::new();
    let find = || {
        let names =
            [c"_thread_db_pthread_cancelhandling", c"_thread_db_pthread_specific", c"_thread_db_sizeof_pthread"];
        let [Some(cancel), Some(specific), Some(size)] = names.map(find_data) else { return None };
        // SAFETY: the C library's descriptions: bits of an element, how many, and an offset; a number of bytes.
        let (cancel, specific, size) = unsafe {
            (cancel.cast::<[u32; 3]>().read(), specific.cast::<[u32; 3]>().read(), size.cast::<u32>().read() as isize)
        };
        // On aarch64 the thread pointer is the end of the control block.
        let begin = if cfg!(target_arch = "aarch64") { -size } else { 0 };
        let [bits, count, offset] = specific.map(|figure| figure as isize);
        let flags = begin + cancel[2] as isize + 4;
        // An array's description may tell of one element, or of all of them.
        let tail = begin + (((offset + bits / 8 * count.max(1)) + 3) & !3);
        (tail < begin + size).then_some(Place { flags, tail: [tail, begin + size] })
    };
    PLACE.get_or_init(find).as_ref()
}

/// `lock`, of a mutex with a ceiling, by the C library.
pub(super) fn noting(lock: impl FnOnce() -> c_int) -> c_int {
    let Some(place) = place().filter(|_| Record::current().is_some() && CHANGED.get().is_null()) else {
        return lock();
    };
    let begin = thread_pointer() as usize;
    let tail = (place.tail[0]..place.tail[1] - 3).step_by(4);
    let words = || std::iter::once(place.flags).chain(tail.clone()).map(|offset| begin.wrapping_add_signed(offset));
    // SAFETY: words of the calling thread's own control block.
    let before: Vec<Change> = words().map(|at| (at, unsafe { read(at) })).collect();
    let result = lock();
    // SAFETY: words of the calling thread's own control block, as above.
    let changed: Vec<Change> = before.into_iter().filter(|&(at, value)| unsafe { read(at) } != value).collect();
    if !changed.is_empty() {
        CHANGED.set(Box::into_raw(Box::new(changed)));
    }
    result
}

/// # Safety
/// A word of the calling thread's control block.
unsafe fn read(at: usize) -> u32 {
    // SAFETY: aligned, and it lives as long as the thread, whose control block it lies in.
    unsafe { with_exposed_provenance_mut::<u32>(at).read_volatile() }
}

/// The calling thread has ended its code: what its first such lock has changed is as before.
pub(crate) fn put_back() {
    let changed = CHANGED.replace(null_mut());
    if changed.is_null() {
        return;
    }
    // SAFETY: made above, and taken once.
    let changed = unsafe { Box::from_raw(changed) };
    for pair in changed.windows(2) {
        let [(low, 0), (high, 0)] = *pair else { continue };
        // The only pointer among them is that to what the C library has allocated, and would free at the end of a
        // kernel thread. Priority and class, which lie side by side, are small.
        // SAFETY: a word of the calling thread's own control block.
        if low % 8 == 0 && high == low + 4 && unsafe { read(low) } > SMALL {
            // SAFETY: two words of the same block; the memory came from the C library's `malloc`, and nobody uses it
            // any more.
            unsafe { c::free(with_exposed_provenance_mut::<*mut std::ffi::c_void>(low).read()) };
        }
    }
    for &(at, value) in changed.iter() {
        // SAFETY: a word of the calling thread's own control block.
        unsafe { with_exposed_provenance_mut::<u32>(at).write(value) };
    }
}
