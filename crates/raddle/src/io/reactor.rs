//! The kernel's side: two sets of interests, and the kernel thread that waits for their events.
//!
//! Readers and writers have an epoll set each, so that arming one direction never touches the other's mask: every registration
//! has the same mask for ever, and arming is one idempotent system call without a word of ours to keep in step. The writers' set
//! lies in the readers' one, so one wait sees both.
//!
//! A registration gives one event (EPOLLONESHOT) and is silent until it is armed again. Each wait arms after it was published, so no
//! event falls between: the kernel looks at the descriptor's state when it is armed. A number that was closed and given out again
//! behind our back is a registration that the kernel does not know (ENOENT): it is put in anew. What a former owner of the
//! number armed gives one event at most, a spurious wake-up.
//!
//! Should the program close the sets themselves (it may close all numbers that it does not know), the next one to arm finds
//! out, makes new ones and wakes everybody to arm again.

use super::{Failure, Interest, table};
use crate::os::events::{
    EBADF, EEXIST, EINTR, EINVAL, ENOENT, EPERM, Event, NO_EVENT, ONCE, READABLE, WRITABLE, block_signals, close,
    is_open, poller, poller_wait, watch,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// `readers' set + 1 << 32 | writers' set + 1`; 0: there is none yet.
static SETS: AtomicU64 = AtomicU64::new(0);

/// The word of the writers' set among the readers' events; descriptors are below.
const WRITERS: u64 = u64::MAX;
/// Events fetched at once.
const BATCH: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Sets {
    readers: i32,
    writers: i32,
}

impl Sets {
    fn current() -> Option<Self> {
        // Acquire: pairs with the exchange in `make`.
        let word = SETS.load(Ordering::Acquire);
        (word != 0).then(|| Self { readers: (word >> 32) as i32 - 1, writers: word as u32 as i32 - 1 })
    }

    fn word(self) -> u64 {
        ((self.readers + 1) as u64) << 32 | (self.writers + 1) as u64
    }

    /// New sets, in the place of `old`; what somebody else has put there meanwhile if they were faster.
    #[cold]
    fn make(old: Option<Self>) -> Result<Self, Failure> {
        let readers = poller();
        if readers < 0 {
            return Err(Failure::Unsupported);
        }
        let writers = poller();
        let sets = Self { readers, writers };
        if writers < 0 || watch(readers, true, writers, READABLE, WRITERS) != 0 {
            close(readers);
            if writers >= 0 {
                close(writers);
            }
            return Err(Failure::Unsupported);
        }
        let before = old.map_or(0, Self::word);
        if let Err(theirs) = SETS.compare_exchange(before, sets.word(), Ordering::AcqRel, Ordering::Acquire) {
            sets.close();
            return Self::current().filter(|now| now.word() == theirs).ok_or(Failure::Unsupported);
        }
        let kernel_thread = std::thread::Builder::new().name("raddle-poller".into()).stack_size(256 * 1024);
        let spawned = crate::drop_in::native(|| kernel_thread.spawn(move || sets.serve()));
        if let Err(error) = spawned {
            let _ = SETS.compare_exchange(sets.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
            crate::os::say_once(&format!(
                "raddle: no kernel thread for the poller ({error}): threads that wait for descriptors block theirs"
            ));
            // Who has armed them meanwhile must find another way.
            table::wake_everybody();
            sets.close();
            return Err(Failure::Unsupported);
        }
        if old.is_some() {
            table::wake_everybody();
        }
        Ok(sets)
    }

    fn close(self) {
        close(self.writers);
        close(self.readers);
    }

    /// The life of the poller.
    fn serve(self) {
        block_signals();
        let mut events = [NO_EVENT; BATCH];
        while Self::current() == Some(self) {
            let count = poller_wait(self.readers, &mut events, -1);
            if count < 0 && count != -EINTR {
                return;
            }
            self.dispatch(&events[..count.max(0) as usize]);
        }
    }

    /// Wakes those whom events concern.
    fn dispatch(self, events: &[Event]) {
        for event in events {
            let word = event.u64;
            if word == WRITERS {
                self.dispatch_writers();
            } else {
                table::wake_one(word as i32, Interest::Read);
            }
        }
    }

    fn dispatch_writers(self) {
        let mut events = [NO_EVENT; BATCH];
        let count = poller_wait(self.writers, &mut events, 0);
        for event in &events[..count.max(0) as usize] {
            table::wake_one(event.u64 as i32, Interest::Write);
        }
    }
}

/// Asks the kernel for the next event of that kind.
pub(super) fn arm(descriptor: i32, interest: Interest) -> Result<(), Failure> {
    let mut sets = match Sets::current() {
        Some(sets) => sets,
        None => Sets::make(None)?,
    };
    let mut add = false;
    // Each turn but the first follows a change that somebody else made meanwhile; they can go on for ever only with them.
    loop {
        let (set, events) = match interest {
            Interest::Read => (sets.readers, READABLE | ONCE),
            Interest::Write => (sets.writers, WRITABLE | ONCE),
        };
        match -watch(set, add, descriptor, events, descriptor as u64) {
            0 => return Ok(()),
            ENOENT => add = true,
            EEXIST => add = false,
            EPERM => return Err(Failure::AlwaysReady),
            EBADF if !is_open(descriptor) => return Err(Failure::Closed),
            // The set is gone, or its number is something else's. (A set cannot watch itself either: then it is the program's
            // mistake that it asks for a number of ours, and not worth a new set.)
            EBADF | EINVAL if descriptor != sets.readers && descriptor != sets.writers => {
                sets = match Sets::current() {
                    Some(now) if now != sets => now,
                    _ => Sets::make(Some(sets))?,
                };
                add = false;
            }
            _ => return Err(Failure::Unsupported),
        }
    }
}

/// True for the numbers of our own descriptors.
pub(super) fn is_ours(descriptor: i32) -> bool {
    Sets::current().is_some_and(|sets| sets.readers == descriptor || sets.writers == descriptor)
}

/// In the child of a fork: the sets are the parent's, and the poller has not come along.
pub(super) fn forget() {
    if let Some(sets) = Sets::current() {
        SETS.store(0, Ordering::Relaxed);
        sets.close();
    }
    table::forget();
}
