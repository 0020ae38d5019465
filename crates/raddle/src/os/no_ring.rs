//! No rings: the library was built without its feature `io-uring`. Each send is a call of its own then.
#![allow(clippy::unused_self)]

/// As in `ring.rs`.
pub(crate) const ROOM: usize = 64;
/// As in `ring.rs`.
pub(crate) const UNASKED: isize = -4096;

/// As in `ring.rs`.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)] // No ring takes them.
pub(crate) struct Send {
    pub descriptor: i32,
    pub data: *const u8,
    pub size: u32,
    pub flags: i32,
}

/// As in `ring.rs`.
pub(crate) const NOTHING: Send = Send { descriptor: -1, data: std::ptr::null(), size: 0, flags: 0 };

/// As in `ring.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // A ring that is not there is never refused for now.
pub(crate) enum Refused {
    Always,
    Now,
}

/// There is none.
pub(crate) enum Ring {}

impl Ring {
    pub fn new() -> Result<Self, Refused> {
        Err(Refused::Always)
    }

    pub fn close(self) {
        match self {}
    }

    pub fn abandon(self) {
        match self {}
    }

    pub fn is_doubtful(&self) -> bool {
        match *self {}
    }

    /// # Safety
    /// None is needed: there is no ring to call it on.
    pub unsafe fn send_all(&mut self, _: &[Send], _: &mut [isize]) -> bool {
        match *self {}
    }
}

/// Nothing to forget.
pub(crate) fn forget() {}
