//! What is on its way, or may be, and needs this rank's tests.
//!
//! A short message comes whole by one test. A long one is agreed upon by both ranks and moves in parts, some with each
//! test: a rank that sleeps between two of them holds it up. Nothing tells that a part has moved, but the calls say how
//! long their messages are. While one of more than [`EAGER_BYTES`] is outstanding, who tests does not sleep. So it is
//! while there is a window: other ranks reach its memory by this rank's tests.
//!
//! A receive may be outstanding for hours without a message. One that a blocking call has begun is cancelled when
//! nothing has ended for a while: either it has found its message, and parts of that move, or it is gone, and the call
//! looks for its message with `MPI_Improbe`, which moves nothing before there is one.
//!
//! A call that waits has a [`Needed`]; what the program begins itself is kept by its handle until a call has ended it.

use crate::abi::{SUCCESS, Word, abi, pmpi, word};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longer ones do not come whole: the limit of Open MPI in shared memory (`btl_vader_eager_limit`), the least of those
/// that both have.
const EAGER_BYTES: usize = 4096;

/// Long messages and windows that are outstanding.
static NEEDED: AtomicUsize = AtomicUsize::new(0);
/// Handles in [`BEGUN`], however often one is there.
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// Requests of the program's that are long. MPICH gives one handle to all that ended at once: so how many.
static BEGUN: Mutex<Option<HashMap<u64, usize>>> = Mutex::new(None);
/// Persistent requests that are long when they are started.
static PERSISTENT: Mutex<Option<HashMap<u64, usize>>> = Mutex::new(None);
static PERSISTENTS: AtomicUsize = AtomicUsize::new(0);

/// Whether tests are needed, though nothing has ended.
pub fn needed() -> bool {
    // Relaxed, as all here: a thread sees what it has begun itself, and others' soon enough.
    NEEDED.load(Ordering::Relaxed) != 0
}

/// While it lives tests are needed.
pub struct Needed(());

impl Needed {
    pub fn begin() -> Needed {
        NEEDED.fetch_add(1, Ordering::Relaxed);
        Needed(())
    }
}

impl Drop for Needed {
    fn drop(&mut self) {
        NEEDED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A count that is an `int`. The upper half of an argument may hold anything.
pub fn number(count: Word) -> usize {
    usize::try_from(count as u32 as c_int).unwrap_or(0)
}

/// A count that is an `MPI_Count`.
pub fn large_number(count: Word) -> usize {
    count
}

/// Whether a message of so many of these is long.
pub fn message(count: Word, datatype: Word) -> bool {
    whole(number(count), datatype)
}

/// The same where the count is a whole word.
pub fn whole(count: Word, datatype: Word) -> bool {
    count.saturating_mul(bytes_of(datatype)) > EAGER_BYTES
}

/// Whether each of a communicator's ranks gives or gets so many.
pub fn of_each(count: Word, datatype: Word, comm: Word) -> bool {
    large_of_each(number(count), datatype, comm)
}

/// The same where the count is a whole word.
pub fn large_of_each(count: Word, datatype: Word, comm: Word) -> bool {
    let mut ranks: c_int = 0;
    // SAFETY: the caller's communicator, and a place for the answer.
    let code = unsafe { pmpi!(Comm_size: fn(Word, Word))(comm, word(&raw mut ranks)) };
    code != SUCCESS || whole(count.saturating_mul(ranks.max(1) as usize), datatype)
}

/// How long one is.
pub fn bytes_of(datatype: Word) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: a datatype that MPI has taken, and a place for the answer.
    let code = unsafe { pmpi!(Type_size: fn(Word, Word))(datatype, word(&raw mut bytes)) };
    // One of more than two gigabytes has no size in an `int`.
    if code == SUCCESS { usize::try_from(bytes).unwrap_or(usize::MAX) } else { usize::MAX }
}

/// The handle at a place of the caller's, of a request or of something else: all are as large.
pub fn handle(at: Word) -> u64 {
    let place = std::ptr::with_exposed_provenance::<u8>(at);
    // SAFETY: the caller's handle, of one of the two sizes.
    unsafe {
        match abi().request {
            4 => place.cast::<u32>().read().into(),
            _ => place.cast::<u64>().read(),
        }
    }
}

type Counts = Mutex<Option<HashMap<u64, usize>>>;

fn with<T>(counts: &Counts, f: impl FnOnce(&mut HashMap<u64, usize>) -> T) -> T {
    f(counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert_default())
}

/// Takes one away; false if there is none.
fn take(counts: &Counts, handle: u64) -> bool {
    with(counts, |counts| match counts.get_mut(&handle) {
        Some(1) => counts.remove(&handle).is_some(),
        Some(more) => {
            *more -= 1;
            true
        }
        None => false,
    })
}

/// The program has begun a long one.
pub fn begun(request: Word) {
    begun_by(handle(request));
}

fn begun_by(handle: u64) {
    with(&BEGUN, |counts| *counts.entry(handle).or_default() += 1);
    KEPT.fetch_add(1, Ordering::Relaxed);
    NEEDED.fetch_add(1, Ordering::Relaxed);
}

/// The program has made a persistent request for long messages.
pub fn made(request: Word) {
    with(&PERSISTENT, |counts| *counts.entry(handle(request)).or_default() += 1);
    PERSISTENTS.fetch_add(1, Ordering::Relaxed);
}

/// It starts so many. Whether one of them is long.
pub fn started(requests: Word, count: usize) -> bool {
    let mut any = false;
    let count = if PERSISTENTS.load(Ordering::Relaxed) == 0 { 0 } else { count };
    for nth in 0..count {
        let handle = handle(requests + nth * abi().request);
        if with(&PERSISTENT, |counts| counts.contains_key(&handle)) {
            begun_by(handle);
            any = true;
        }
    }
    any
}

/// It frees this one, which may go on.
pub fn freed(request: Word) {
    if PERSISTENTS.load(Ordering::Relaxed) != 0 && request != 0 && take(&PERSISTENT, handle(request)) {
        PERSISTENTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A window was made.
pub fn window_made() {
    NEEDED.fetch_add(1, Ordering::Relaxed);
}

/// A window was freed.
pub fn window_freed() {
    NEEDED.fetch_sub(1, Ordering::Relaxed);
}

/// Handles before a call that ends some of them: none where nothing long was begun.
pub struct Before(Vec<u64>);

impl Before {
    pub fn of(requests: Word, count: usize) -> Before {
        // A program that passes no array is told so by the call.
        let count = if KEPT.load(Ordering::Relaxed) == 0 || requests == 0 { 0 } else { count };
        Before((0..count).map(|nth| handle(requests + nth * abi().request)).collect())
    }

    /// All have ended.
    pub fn all_ended(&self) {
        self.0.iter().for_each(|handle| ended(*handle));
    }

    /// The one at this index has, if it is one.
    pub fn one_ended(&self, index: c_int) {
        if let Some(handle) = usize::try_from(index).ok().and_then(|index| self.0.get(index)) {
            ended(*handle);
        }
    }

    /// The call has failed: those have ended whose handles are others now.
    pub fn changed_ended(&self, requests: Word) {
        for (nth, before) in self.0.iter().enumerate() {
            if handle(requests + nth * abi().request) != *before {
                ended(*before);
            }
        }
    }
}

fn ended(handle: u64) {
    if take(&BEGUN, handle) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
        NEEDED.fetch_sub(1, Ordering::Relaxed);
    }
}
