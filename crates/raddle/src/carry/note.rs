//! What each thread waits for, noted by itself: for dumps, for circles of mutexes, and for debuggers.

use raddle_context::switch::current_fs;
use raddle_machine::Real;
use raddle_scheduler::Thread;
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a thread waits for.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Note {
    /// The text that says what, in two words that a debugger can read.
    kind: *const u8,
    length: usize,
    pub object: usize,
    pub holder: usize,
}

impl Note {
    pub const NOTHING: Note = Note { kind: std::ptr::null(), length: 0, object: 0, holder: 0 };
    /// Where a debugger finds the kind's address and length, the object and the holder.
    pub const FIELDS: [usize; 4] =
        [offset_of!(Note, kind), offset_of!(Note, length), offset_of!(Note, object), offset_of!(Note, holder)];

    pub fn kind(&self) -> &'static str {
        if self.kind.is_null() {
            return "";
        }
        // SAFETY: the address and length of a `&'static str` ([`note_wait`]).
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(self.kind, self.length)) }
    }
}

/// What a note calls a mutex of ours, and one of the C interface, that is waited for without a deadline.
pub(crate) const MUTEX: &str = "a mutex";

pub(crate) const PTHREAD_MUTEX: &str = "a pthread mutex";

/// Where the holder's thread pointer lies behind the word of a mutex that [`crate::guest::wait_for_mutex_at`] names:
/// written by the holder when it has locked it, and good while the word is not 0.
pub const HOLDER_AT: usize = 24;

/// What a parked thread's note says of its wait, read from outside.
pub(crate) struct Waits {
    pub kind: &'static str,
    pub object: usize,
}

impl Waits {
    /// The note under a thread pointer, if it is of a mutex. Whatever lies there is read: the thread may have ended.
    pub fn of(pointer: usize) -> Option<Waits> {
        let [address, length, object, _] = fields_under(pointer)?;
        [MUTEX, PTHREAD_MUTEX].into_iter().find_map(|kind| {
            let mut text = [0; 32];
            let text = &mut text[..kind.len()];
            let same = length == kind.len() && crate::os::peek(address, text) && text == kind.as_bytes();
            same.then_some(Waits { kind, object })
        })
    }
}

/// The words of what lies where a thread with that pointer has its note, in the order of [`Note::FIELDS`].
fn fields_under(pointer: usize) -> Option<[usize; 4]> {
    let mut note = [0; size_of::<Note>()];
    crate::os::peek(pointer.wrapping_add(note_offset()), &mut note)
        .then(|| Note::FIELDS.map(|at| usize::from_ne_bytes(note[at..at + 8].try_into().unwrap_or_default())))
}

/// What the thread with that pointer notes that it waits for, or waited for last; `None` if what lies there is no note.
pub(crate) fn kind_under(pointer: usize) -> Option<String> {
    /// Longer than any kind is.
    const LONGEST: usize = 64;
    let [address, length, ..] = fields_under(pointer)?;
    let mut text = vec![0; Some(length).filter(|length| (1..=LONGEST).contains(length))?];
    let text = crate::os::peek(address, &mut text).then_some(text)?;
    String::from_utf8(text).ok().filter(|text| !text.contains(char::is_control))
}

/// From the calling thread's pointer to its note; the same for all threads, if the library was loaded with the program.
/// A debugger's script believes no note that is not text.
pub(crate) fn note_offset() -> usize {
    NOTE.try_with(|note| note.as_ptr().addr()).map_or(0, |note| note.wrapping_sub(current_fs()))
}

thread_local! {
    pub(crate) static NOTE: Cell<Note> = const { Cell::new(Note::NOTHING) };
}

/// Notes, for dumps, what the calling thread is about to wait for.
#[inline]
pub(crate) fn note_wait(kind: &'static str, object: usize, holder: Option<&'static Thread<Real>>) {
    let holder = holder.map_or(0, |h| std::ptr::from_ref(h).addr());
    // A thread whose storage is being destroyed may still wait; it goes without a note.
    let _ = NOTE.try_with(|note| note.set(Note { kind: kind.as_ptr(), length: kind.len(), object, holder }));
}

/// What the calling thread waits for, or waited for last.
pub(crate) fn own_wait() -> &'static str {
    NOTE.try_with(|note| note.get().kind()).unwrap_or("")
}

/// A thread has begun to wait for a mutex since the last walk began.
pub(crate) static WAITED: AtomicBool = AtomicBool::new(false);

/// The calling thread is about to wait for a mutex.
#[inline]
pub(crate) fn begins_to_wait() {
    if !WAITED.load(Ordering::Relaxed) {
        WAITED.store(true, Ordering::Relaxed);
    }
}
