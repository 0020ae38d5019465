//! A ring of the kernel's (io_uring), used for one thing: many system calls in one.
//!
//! Nothing is ever under way in it: what is asked for does not wait (MSG_DONTWAIT), so that the kernel has done it when the call returns, and has the
//! answers ready. (Linux 5.6 or later.)

use super::events::{close, raised};
use io_uring::{IoUring, opcode, types};
use raddle_machine::raw::system_call;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Calls that fit.
pub(crate) const ROOM: usize = 64;
/// The answer to what the kernel was not asked.
pub(crate) const UNASKED: isize = isize::MIN;

/// `send(descriptor, data, size, flags)`, where `flags` say MSG_DONTWAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub descriptor: i32,
    pub data: *const u8,
    pub size: u32,
    pub flags: i32,
}

impl Send {
    /// The same as a call of its own, which raises no signal either.
    ///
    /// # Safety
    /// The data stays meanwhile.
    pub unsafe fn alone(self) -> isize {
        let Send { descriptor, data, size, flags } = self;
        let flags = (flags | libc::MSG_NOSIGNAL) as usize;
        let arguments = [descriptor as usize, data.expose_provenance(), size as usize, flags, 0, 0];
        // SAFETY: the kernel checks the data, which stays.
        unsafe { system_call(libc::SYS_sendto as usize, arguments) }
    }
}

/// The descriptors of all rings, each plus one; 0: free. (Those of more rings than fit stay open in the child of a fork.)
static OPEN: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// Not dropped but by [`Ring::close`]: the program may have closed the ring's descriptor, whose number is then its own.
pub(crate) struct Ring(ManuallyDrop<IoUring>);

impl Ring {
    /// A new one; `None` where the kernel or a sandbox refuses, or for want of memory or descriptors.
    pub fn new() -> Option<Self> {
        let low: IoUring = IoUring::builder().build(ROOM as u32).ok()?;
        // SAFETY: open as long as that ring.
        let copy = unsafe { BorrowedFd::borrow_raw(low.as_raw_fd()) }.try_clone_to_owned().ok()?;
        let high = raised(copy.into_raw_fd());
        // SAFETY: another descriptor of that ring, which is this one's alone, and its own parameters.
        let ring = unsafe { IoUring::from_fd(high, low.params().clone()) }.ok()?;
        let free =
            OPEN.iter().find(|slot| slot.compare_exchange(0, high + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        let _: Option<&AtomicI32> = free;
        Some(Self(ManuallyDrop::new(ring)))
    }

    /// It is not used any more, and its descriptor is known to be its own.
    pub fn close(mut self) {
        self.abandon();
        // SAFETY: consumed here.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }

    /// It is of no use: the number of its descriptor may stand for something else.
    pub fn abandon(&mut self) {
        let word = self.0.as_raw_fd() + 1;
        let mut slots = OPEN.iter();
        slots.find(|slot| slot.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    }

    /// Sends them all, in the order of the list, and notes the answers: what `send` would have returned, or a negated error number. False when the ring is of no
    /// more use; then some answers may be [`UNASKED`]. A signal to the process is never raised by it (SIGPIPE).
    ///
    /// # Safety
    /// The data of each stays until this returns.
    pub unsafe fn send_all(&mut self, sends: &[Send], answers: &mut [isize]) -> bool {
        debug_assert!(sends.len() <= ROOM && sends.len() == answers.len());
        answers.fill(UNASKED);
        for (index, send) in sends.iter().enumerate() {
            let entry = opcode::Send::new(types::Fd(send.descriptor), send.data, send.size).flags(send.flags);
            // SAFETY: the data stays until the answer is there, by the caller.
            if unsafe { self.0.submission().push(&entry.build().user_data(index as u64)) }.is_err() {
                return false;
            }
        }
        let mut open = sends.len();
        let mut before = usize::MAX;
        loop {
            for answer in self.0.completion() {
                if let Some(place) = answers.get_mut(answer.user_data() as usize) {
                    *place = answer.result() as isize;
                    open -= 1;
                }
            }
            if open == 0 {
                return true;
            }
            let unasked = self.0.submission().len();
            if unasked > 0 && unasked == before {
                // The kernel takes none: the descriptor is closed, or something else's by now, another ring's maybe. What it took before it has answered.
                return false;
            }
            before = unasked;
            // What was taken is answered at once; should it not be, this waits for it.
            let awaited = if unasked == 0 { open } else { 0 };
            match self.0.submit_and_wait(awaited) {
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
