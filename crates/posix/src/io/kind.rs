//! What a descriptor is: which way of trying without blocking it knows.
//!
//! A table of guesses, by descriptor number, filled at the first use and emptied when the program closes the number. A
//! guess may be out of date (numbers can be closed behind our back); then the attempt fails in a way that tells
//! (ENOTSOCK, ESPIPE, EOPNOTSUPP) or blocks the kernel thread, which the monitor bears. It is never wrong data.

use crate::os::{c, system_call};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A socket: MSG_DONTWAIT.
    Socket = 1,
    /// A pipe or device that knows RWF_NOWAIT.
    Stream = 2,
    /// A pipe or terminal that does not: a look with `poll` before, and no more than it takes for sure.
    Old = 3,
    /// Another device that does not: a look with `poll` before. What is written to it at once may be a message: it is
    /// not split.
    Device = 6,
    /// A socket of TCP: a stream of bytes of which an attempt takes all that is there, if it fits.
    Tcp = 5,
    /// A regular file, directory or disk, which is always ready: the kernel thread waits.
    File = 4,
}

/// Bits of an entry that say what it is.
const KIND: u8 = 7;
/// It has another name of known birth, or had one.
const SHARED: u8 = 0x80;

fn entry(descriptor: c_int) -> Option<&'static AtomicU8> {
    Some(raddle::io::notes(descriptor)?.small)
}

/// Its type, as `stat` has it; `None` if it is not open.
fn mode(descriptor: c_int) -> Option<c::mode_t> {
    let mut status = std::mem::MaybeUninit::<c::stat>::uninit();
    // SAFETY: a place for the answer.
    let result =
        unsafe { system_call(c::SYS_fstat, [descriptor as usize, super::at(status.as_mut_ptr()), 0, 0, 0, 0]) };
    // SAFETY: the kernel has filled it.
    (result >= 0).then(|| unsafe { status.assume_init() }.st_mode & c::S_IFMT)
}

impl Kind {
    /// What `descriptor` is. For what is not open: anything.
    #[inline]
    pub fn of(descriptor: c_int) -> Self {
        // Relaxed: a guess, see above.
        match entry(descriptor).map_or(0, |entry| entry.load(Ordering::Relaxed) & KIND) {
            1 => Kind::Socket,
            2 => Kind::Stream,
            3 => Kind::Old,
            6 => Kind::Device,
            4 => Kind::File,
            5 => Kind::Tcp,
            _ => Self::ask(descriptor),
        }
    }

    /// The descriptor does not know RWF_NOWAIT, or a filter of system calls refuses that: asks the kernel for what it
    /// is then.
    #[cold]
    pub fn learn_old(descriptor: c_int) -> Self {
        let splits = mode(descriptor).is_none_or(|mode| mode == c::S_IFIFO) || super::stream::is_terminal(descriptor);
        let kind = if splits { Kind::Old } else { Kind::Device };
        kind.note(descriptor);
        kind
    }

    /// Asks the kernel.
    #[cold]
    pub fn ask(descriptor: c_int) -> Self {
        let Some(mode) = mode(descriptor) else { return Kind::File };
        let kind = match mode {
            c::S_IFSOCK if super::connect::option(descriptor, c::SO_PROTOCOL) == Some(c::IPPROTO_TCP) => Kind::Tcp,
            c::S_IFSOCK => Kind::Socket,
            c::S_IFREG | c::S_IFDIR | c::S_IFBLK => Kind::File,
            _ => Kind::Stream,
        };
        kind.note(descriptor);
        if kind.is_socket() && raddle::io::known_life(descriptor).is_none() {
            super::close::learn_limits(descriptor);
        }
        kind
    }

    /// True for sockets.
    pub fn is_socket(self) -> bool {
        matches!(self, Kind::Socket | Kind::Tcp)
    }

    /// From now on the guess for `descriptor`.
    pub fn note(self, descriptor: c_int) {
        if let Some(entry) = entry(descriptor) {
            let _ = entry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| Some(all & !KIND | self as u8));
        }
    }
}

/// There is another name for what the descriptor stands for. To be followed by a SeqCst fence.
pub(super) fn share(descriptor: c_int) {
    if let Some(entry) = entry(descriptor) {
        entry.fetch_or(SHARED, Ordering::Relaxed);
    }
}

/// True where [`share`] was called in its life.
pub(super) fn is_shared(descriptor: c_int) -> bool {
    entry(descriptor).is_none_or(|entry| entry.load(Ordering::Relaxed) & SHARED != 0)
}

/// The number will stand for something else.
pub(super) fn forget(descriptor: c_int) {
    if let Some(entry) = entry(descriptor)
        && entry.load(Ordering::Relaxed) != 0
    {
        entry.store(0, Ordering::Relaxed);
    }
}

/// All these numbers will. (Entries that were never used are only read.)
pub(super) fn forget_range(first: u32, last: u32) {
    (first..=last).map_while(|number| entry(number as c_int)).for_each(|kind| {
        if kind.load(Ordering::Relaxed) != 0 {
            kind.store(0, Ordering::Relaxed);
        }
    });
}
