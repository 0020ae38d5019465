//! The token for a slot, and the words at the slot's end that make one word of it enough.

use super::Arena;

/// What lies at a slot's end and makes one word of a [`Slot`] enough.
#[repr(C)]
pub(super) struct Header {
    pub fs: usize,
    pub top: *mut u8,
    pub limit: *mut u8,
    pub arena: &'static Arena,
    pub index: u32,
}

/// The right to a slot, taken from its arena. Not `Clone`; one word.
///
/// Dropping it loses the slot to the arena for good: give it back with [`Arena::give`], or keep it as a word with
/// [`Slot::into_raw`].
#[derive(Debug)]
#[must_use = "a dropped slot is lost to its arena"]
pub struct Slot(core::ptr::NonNull<Header>);

// SAFETY: a token for memory that any thread may own.
unsafe impl Send for Slot {}
// SAFETY: all methods on a shared slot read fields that do not change while it is taken.
unsafe impl Sync for Slot {}

impl core::fmt::Debug for Header {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Header").field("index", &self.index).field("fs", &self.fs).field("top", &self.top).finish()
    }
}

impl Slot {
    /// The token for a header that is written, or about to be, and that the caller owns.
    pub(super) fn of(header: core::ptr::NonNull<Header>) -> Slot {
        Slot(header)
    }

    fn header(&self) -> &Header {
        // SAFETY: written when the slot was taken, and ours since.
        unsafe { self.0.as_ref() }
    }

    /// Where the stack pointer starts: below the TLS block, coloured, 64-byte aligned.
    pub fn top(&self) -> *mut u8 {
        self.header().top
    }

    /// The thread pointer of the slot's TLS block, which is ready for use.
    pub fn fs(&self) -> usize {
        self.header().fs
    }

    /// The lowest usable address, right above the guard.
    pub fn limit(&self) -> *mut u8 {
        self.header().limit
    }

    /// Usable bytes of stack.
    pub fn size(&self) -> usize {
        self.top().addr() - self.limit().addr()
    }

    /// The slot's number in its arena.
    pub fn index(&self) -> u32 {
        self.header().index
    }

    /// The arena it came from.
    pub fn arena(&self) -> &'static Arena {
        self.header().arena
    }

    /// The slot as one word, not zero, for [`Slot::from_raw`].
    pub fn into_raw(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// The slot of a word.
    ///
    /// # Safety
    /// `raw` came from [`Slot::into_raw`], and no other slot was made of it since.
    pub unsafe fn from_raw(raw: usize) -> Slot {
        let header = core::ptr::with_exposed_provenance_mut::<Header>(raw);
        // SAFETY: words of `into_raw` are not zero.
        Slot(unsafe { core::ptr::NonNull::new_unchecked(header) })
    }
}
