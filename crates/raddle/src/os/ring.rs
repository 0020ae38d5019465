//! Rings of the kernel's (io_uring), used for one thing: many system calls in one.
//!
//! Nothing is ever under way in one: what is asked for does not wait (MSG_DONTWAIT), so that the kernel has done it
//! when the call returns, and has the answers ready. (Linux 5.6 or later.)

use super::events::{close, raised};
use io_uring::{IoUring, opcode, types};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Calls that fit.
pub(crate) const ROOM: usize = 64;
/// The answer to what the kernel was not asked: no error number.
pub(crate) const UNASKED: isize = -4096;

/// `send(descriptor, data, size, flags)`, where `flags` say MSG_DONTWAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub descriptor: i32,
    pub data: *const u8,
    pub size: u32,
    pub flags: i32,
}

/// A send that nobody asked for.
pub(crate) const NOTHING: Send = Send { descriptor: -1, data: std::ptr::null(), size: 0, flags: 0 };

/// The descriptors of all rings, each plus one; 0: free. (Those of more rings than fit stay open in the child of a
/// fork.)
static OPEN: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];
/// So many rings were found to be of no use: the program may have closed all.
static ABANDONED: AtomicU64 = AtomicU64::new(0);
/// Each of which leaves a few pages behind.
const MOST_ABANDONED: u64 = 100;

/// Why there is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The kernel knows none, or a sandbox may forbid it.
    Always,
    /// There are no descriptors, or no memory.
    Now,
}

/// Not dropped but by [`Ring::close`]: the program may have closed the ring's descriptor, whose number is then its own.
pub(crate) struct Ring {
    ring: ManuallyDrop<IoUring>,
    /// Its place in [`OPEN`].
    noted: Option<&'static AtomicI32>,
    /// What [`ABANDONED`] was when it was made.
    age: u64,
}

impl Ring {
    /// A new one.
    pub fn new() -> Result<Self, Refused> {
        let age = ABANDONED.load(Ordering::Relaxed);
        if age > MOST_ABANDONED || is_filtered() {
            return Err(Refused::Always);
        }
        let refused = |error: std::io::Error| match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => Refused::Now,
            _ => Refused::Always,
        };
        let low: IoUring = IoUring::builder().build(ROOM as u32).map_err(refused)?;
        // SAFETY: open as long as that ring.
        let copy = unsafe { BorrowedFd::borrow_raw(low.as_raw_fd()) }.try_clone_to_owned().map_err(refused)?;
        let high = raised(copy.into_raw_fd());
        // SAFETY: another descriptor of that ring, which is this one's alone, and its own parameters.
        let ring = unsafe { IoUring::from_fd(high, low.params().clone()) }.map_err(refused)?;
        let is_free =
            |slot: &&AtomicI32| slot.compare_exchange(0, high + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Ok(Self { ring: ManuallyDrop::new(ring), noted: OPEN.iter().find(is_free), age })
    }

    /// It is not used any more, and its descriptor is known to be its own.
    pub fn close(mut self) {
        self.forget();
        // SAFETY: consumed here.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }

    /// It is of no use: the number of its descriptor may stand for something else. So may those of all others that are
    /// there now.
    pub fn abandon(self) {
        self.forget();
        if !self.is_doubtful() {
            ABANDONED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if another ring was abandoned since this one was made: whoever closed that one may have closed this one,
    /// too.
    pub fn is_doubtful(&self) -> bool {
        self.age != ABANDONED.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        if let Some(slot) = self.noted {
            slot.store(0, Ordering::Relaxed);
        }
    }

    /// Sends them all, in the order of the list, and notes the answers: what `send` would have returned, or a negated
    /// error number. False when the ring is of no more use; then some answers may be [`UNASKED`]. A signal to the
    /// process is never raised by it (SIGPIPE).
    ///
    /// # Safety
    /// The data of each stays until this returns.
    pub unsafe fn send_all(&mut self, sends: &[Send], answers: &mut [isize]) -> bool {
        debug_assert!(sends.len() <= ROOM && sends.len() == answers.len());
        answers.fill(UNASKED);
        for (index, send) in sends.iter().enumerate() {
            // Kernels before 5.12 would raise SIGPIPE.
            let flags = send.flags | libc::MSG_NOSIGNAL;
            let entry = opcode::Send::new(types::Fd(send.descriptor), send.data, send.size).flags(flags);
            // SAFETY: the data stays until the answer is there, by the caller.
            if unsafe { self.ring.submission().push(&entry.build().user_data(index as u64)) }.is_err() {
                return false;
            }
        }
        let mut open = sends.len();
        let mut before = usize::MAX;
        loop {
            for answer in self.ring.completion() {
                if let Some(place) = answers.get_mut(answer.user_data() as usize) {
                    *place = answer.result() as isize;
                    open -= 1;
                }
            }
            if open == 0 {
                return true;
            }
            let unasked = self.ring.submission().len();
            if unasked > 0 && unasked == before {
                // The kernel takes none: the descriptor is closed, or something else's by now, another ring's maybe.
                // What it took before it has answered.
                return false;
            }
            before = unasked;
            // What was taken is answered at once; should it not be, this waits for it.
            let awaited = if unasked == 0 { open } else { 0 };
            match self.ring.submit_and_wait(awaited) {
                Err(error) if unasked == 0 && error.raw_os_error() != Some(libc::EINTR) => return false,
                // Whether an error meant anything shows in what was taken.
                _ => {}
            }
        }
    }
}

/// In the child of a fork: the rings are the parent's. Their memory is not touched.
pub(crate) fn forget() {
    OPEN.iter().map(|slot| slot.swap(0, Ordering::Relaxed)).filter(|word| *word != 0).for_each(|word| close(word - 1));
}

/// True where a filter of system calls is installed, which might kill for what it does not know.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    !status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "0"))
}
