//! A processor's part in sends that its threads make together ([`crate::services::io`]): the batch, and whether it is
//! worth while, which [`raddle_scheduler::govern::sends`] decides.

use crate::os::ring::{ROOM, Refused, Ring, Send};
use raddle_machine::{Machine, Real};
use raddle_scheduler::batch::{BatchPlace, Outcome};
use raddle_scheduler::govern::backoff::Backoff;
use raddle_scheduler::govern::sends;
use raddle_scheduler::{Epoch, Thread};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nanoseconds until a ring is asked for again, where there was no memory or no descriptor.
const AGAIN_NS: u64 = 1_000_000_000;

/// A send, and who waits for it.
pub(crate) struct Post {
    pub send: Send,
    /// The descriptor's life: if it has ended when the turn comes, the number may stand for something else.
    pub life: u32,
    pub thread: &'static Thread<Real>,
    pub epoch: Epoch,
    /// On the stack of `thread`, which stays there until it is set.
    pub outcome: *const Outcome<Real>,
}

pub(crate) struct Batch {
    pub posts: Vec<Post>,
    pub ring: Option<Ring>,
}

/// A processor's part.
#[derive(Default)]
pub(crate) struct Sends {
    place: BatchPlace<Real>,
    /// Somebody has made the batch, or is about to.
    made: AtomicBool,
    /// It is worth while: rounds are short, and events few. Written by the owner.
    pub apt: AtomicBool,
    /// Not before that time.
    rests: AtomicU64,
    /// A [`Backoff`] of leaders, after some that stayed alone, in a word. (Two who write it at once miscount.)
    pause: AtomicU64,
}

/// Sends are never put together: the user wants it so, or the kernel has no rings.
pub(crate) static OFF: AtomicBool = AtomicBool::new(false);

/// The kernel has refused a ring.
pub(crate) static REFUSED: AtomicBool = AtomicBool::new(false);

impl Sends {
    /// The processor looked for events at `before`, and now, when it found so many threads that waited for them: called
    /// by its owner.
    #[inline]
    pub fn looked(&self, before: u64, now: u64, found: u32) {
        let apt = sends::are_worth_while(before, now, found, self.rests.load(Ordering::Relaxed));
        self.apt.store(apt, Ordering::Relaxed);
    }

    /// True for one who may lead now.
    #[inline]
    pub fn may_lead(&self) -> bool {
        let mut pause = Backoff::from_bits(self.pause.load(Ordering::Relaxed));
        let may = pause.is_over();
        if !may {
            pause.pass();
            self.pause.store(pause.to_bits(), Ordering::Relaxed);
        }
        may
    }

    /// A leader has come back, with so many sends, since `began`.
    pub fn led(&self, began: u64, count: usize) {
        if let Some(until) = sends::rest_after(began, Real::now()) {
            self.rest(until);
        }
        let pause = sends::pause_after(Backoff::from_bits(self.pause.load(Ordering::Relaxed)), count);
        self.pause.store(pause.to_bits(), Ordering::Relaxed);
    }

    pub fn rest(&self, until: u64) {
        self.rests.store(until, Ordering::Relaxed);
        self.apt.store(false, Ordering::Relaxed);
    }

    /// The batch; `None` while another thread has it, and where there can be none.
    pub fn take(&self) -> Option<Box<Batch>> {
        if let Some(word) = self.place.take() {
            // SAFETY: `put` has made the word of a box, and the place gives it out once.
            return Some(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut(word)) });
        }
        if self.made.load(Ordering::Relaxed) || self.made.swap(true, Ordering::Relaxed) {
            return None;
        }
        match self.ring() {
            Some(ring) => Some(Box::new(Batch { posts: Vec::with_capacity(ROOM), ring: Some(ring) })),
            None => {
                self.made.store(false, Ordering::Relaxed);
                None
            }
        }
    }

    /// A new ring. Where there is none, nobody tries again, or nobody soon.
    pub fn ring(&self) -> Option<Ring> {
        match Ring::new() {
            Ok(ring) => return Some(ring),
            Err(Refused::Always) => {
                REFUSED.store(true, Ordering::Relaxed);
                switch_off();
            }
            Err(Refused::Now) => self.rest(Real::now() + AGAIN_NS),
        }
        None
    }

    pub fn put(&self, batch: Box<Batch>) {
        self.place.put(Box::into_raw(batch).expose_provenance());
    }

    /// The pool has stopped: nobody is sending there.
    pub fn give_back(&self) {
        if let Some(word) = self.place.take() {
            // SAFETY: as in `take`.
            let batch: Box<Batch> = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut(word)) };
            if !batch.posts.is_empty() {
                // Its leader, who has gone elsewhere, comes back for it.
                return self.put(batch);
            }
            if let Some(ring) = batch.ring {
                ring.close();
            }
            self.made.store(false, Ordering::Relaxed);
        }
    }
}

/// From now on every thread sends by itself.
#[doc(hidden)]
pub fn switch_off() {
    OFF.store(true, Ordering::Relaxed);
}
