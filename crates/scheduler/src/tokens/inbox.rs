//! The way in for those who own no processor.

use crate::ready::Ready;
use crate::thread::Thread;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::inbox::{self, Link};
use raddle_queues::pad::Padded;
use std::mem::offset_of;
use std::ptr::NonNull;

/// A queue that anybody fills and anybody empties as a whole. It needs no memory (threads are linked through
/// [`Thread::link`]), so it never refuses.
///
/// Progress: `push` is lock-free, `take_all` wait-free. Who freezes inside `take_all` holds what it took.
pub struct Inbox<M: Machine>(inbox::Inbox<M>);

impl<M: Machine> Default for Inbox<M> {
    fn default() -> Self {
        Self(inbox::Inbox::new())
    }
}

impl<M: Machine> Inbox<M> {
    /// True if there is nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a thread.
    pub fn push(&self, thread: Ready<M>) {
        let record = thread.into_thread().as_ptr();
        // SAFETY: the record is live, being type-stable, and its link lies within.
        let link = unsafe { NonNull::new_unchecked(&raw mut (*record).link) };
        // SAFETY: type-stable, and in no other inbox, since the link belongs to the holder of the token, which we give
        // up; the token may be used by any kernel thread.
        unsafe { self.0.push(link) };
    }

    /// Takes everything, oldest first.
    pub fn take_all(&self, mut give: impl FnMut(Ready<M>)) {
        for link in self.0.take_all() {
            let record: NonNull<Thread<M>> = link_owner(link);
            // SAFETY: `push` gave this token up, and each link comes out once.
            give(unsafe { Ready::new(record) });
        }
    }
}

/// The record that a link is part of.
fn link_owner<M: Machine>(link: NonNull<Link<M>>) -> NonNull<Thread<M>> {
    // SAFETY: `push` made the pointer from its record's, of which it lies `offset_of` bytes in.
    unsafe { link.byte_sub(offset_of!(Thread<M>, link)).cast() }
}

impl<M: Machine> Drop for Inbox<M> {
    fn drop(&mut self) {
        self.take_all(drop);
    }
}

/// An [`Inbox`] of which it is known how many threads are in it.
pub struct CountedInbox<M: Machine> {
    inbox: Padded<Inbox<M>>,
    count: M::Atomic<u64>,
}

impl<M: Machine> Default for CountedInbox<M> {
    fn default() -> Self {
        Self { inbox: Padded(Inbox::default()), count: M::Atomic::new(0) }
    }
}

impl<M: Machine> CountedInbox<M> {
    /// How many threads are here (racy; those count that are about to be added).
    pub fn len(&self) -> u64 {
        // Relaxed: counter only.
        self.count.load(Ordering::Relaxed)
    }

    /// True if there is nothing now (racy).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inbox.0.is_empty()
    }

    /// Adds a thread.
    pub fn push(&self, thread: Ready<M>) {
        // Relaxed: counter only. Before the push, so that who takes never subtracts what was not added.
        self.count.fetch_add(1, Ordering::Relaxed);
        self.inbox.0.push(thread);
    }

    /// Takes everything, oldest first.
    pub fn take_all(&self, mut give: impl FnMut(Ready<M>)) {
        let mut taken = 0;
        self.inbox.0.take_all(|thread| {
            taken += 1;
            give(thread);
        });
        // Relaxed: counter only.
        self.count.fetch_sub(taken, Ordering::Relaxed);
    }
}
