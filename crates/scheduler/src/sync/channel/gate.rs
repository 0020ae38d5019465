//! The threads that wait on one side of a channel, and at most one of them on its way in.
//!
//! Without a gate each message would wake a receiver and each place a sender, of which the first to run takes all that
//! is there and the others find nothing and wait again. So whoever would wake a thread looks first whether one
//! is *coming* already: woken, and not yet back in the channel. If so it wakes nobody, and the one that comes takes
//! over the duty.
//!
//! Source: the searching workers of Go's scheduler and rayon's (one that finds work wakes the next), applied to the
//! waiters of an object. Rejected: handing each message over to a waiter, as Go's channels do: that wakes as many
//! threads as there are messages, and a frozen receiver would hold one. See `docs/decisions/0009-one-is-coming.md`.
//!
//! Roles: the *waker* has made the condition true; the *comer* was woken and has not looked yet; *sleepers* are
//! published.
//!
//! | `coming` | becomes | by |
//! |---|---|---|
//! | `NOBODY` | `COMING` | a waker, before it claims a thread that runs soon, if others wait behind that one |
//! | `COMING` | `NOBODY` | any woken thread of the side that finds it, before it looks; a waker whose claims all failed |
//!
//! Invariants, for both gates of a channel together (a *side's condition* is: a message is there; room is there):
//! - I1: `COMING` is written before a claim, and followed by a store of `NOBODY` by the thread claimed, or by the waker
//!   itself.
//! - I2: whoever writes `NOBODY` fences, and then looks: it does what it came for, which wakes the other side, or, if
//!   that fails, wakes the other side all the same; and if the other side is not coming and its own condition still
//!   holds, it wakes one more of its own side. (A waker that wakes nobody looks at both: [`Gate::wake_one`] returns
//!   true.)
//! - I3: while a side's condition holds and a thread of it sleeps, somebody is between the store or the claim and the
//!   looks of I2, on one side or the other: a thread that relies on the other side's comer relies on I2.
//!
//! Proof of I3. Events: E a waker makes the condition true (a SeqCst read-modify-write), L it reads `coming`; P a
//! sleeper publishes itself, F its fence, K its look; Z a comer's store of `NOBODY`, G its fence, M its looks. K missed
//! E, so F precedes E in the order of SeqCst operations. If L reads `COMING` and not Z, then L precedes G; so F and E
//! precede G, and M sees both P and E. If M instead reads that the other side is coming, and not that one's store Z',
//! then G precedes G', and its looks M' see P and E.
//!
//! Progress: lock-free. A kernel thread that is frozen between a claim and the comer's looks (it holds the comer, in
//! the queue of its processor) delays the other sleepers of the channel until another wake-up, or until it thaws;
//! nothing is lost. Threads of which that could last longer by themselves (other pools, lower priorities, kernel
//! threads) are not relied upon ([`Runtime::runs_soon`]).
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `gate.coming` | who arrives, or resets | who relies on a comer, or does not |

use super::super::waiters::{Queue, Waiters};
use super::super::{Patience, WaitError};
use crate::runtime::{Runtime, Word};
use crate::thread::Wake;
use raddle_machine::{Atomic, Machine, Ordering};

const NOBODY: u32 = 0;
const COMING: u32 = 1;

/// See the module. Small, since a channel's gates share a cache line with its counts of handles: with a line for each
/// gate `tokenring`, which walks over a thousand channels, took 200 ns a hop on two processors instead of 170.
pub(super) struct Gate<R: Runtime> {
    waiters: Waiters<R>,
    coming: Word<R, u32>,
}

impl<R: Runtime> Default for Gate<R> {
    fn default() -> Self {
        Self { waiters: Waiters::default(), coming: Atomic::new(NOBODY) }
    }
}

impl<R: Runtime> Gate<R> {
    /// After a SeqCst read-modify-write that made the condition true: wakes a thread, if one waits and none is coming.
    /// True: somebody may have relied on a thread that does not come, and the caller looks at both sides.
    #[inline(always)]
    #[must_use = "true obliges the caller to look at both sides"]
    pub fn wake_one(&self) -> bool {
        // The loads that ask for waiters are SeqCst, as the store was: that suffices, as
        // `raddle_queues::wait_list::Queue::is_empty` proves. The light fence is for models that take SeqCst accesses
        // for weaker ones; it costs nothing here.
        R::Machine::light_fence();
        let queue = self.waiters.queue();
        !queue.is_none() && self.wake_one_of(queue)
    }

    /// As [`Gate::wake_one`], where somebody has waited before. A call of its own: a channel whose threads find each
    /// other by giving way never comes here, and its operations save no registers.
    #[inline(never)]
    fn wake_one_of(&self, queue: Queue<R>) -> bool {
        if self.is_coming() {
            return false;
        }
        if queue.holds_several() {
            return self.wake_one_of_several(queue);
        }
        // Nobody else could rely on it.
        queue.wake_one();
        false
    }

    #[inline(never)]
    fn wake_one_of_several(&self, queue: Queue<R>) -> bool {
        // What was written to `coming`, and whether the thread claimed last runs soon.
        let (mut written, mut soon) = (false, false);
        let woken = queue.wake_one_after(|thread| {
            soon = R::runs_soon(thread);
            if soon && !written {
                written = true;
                // Relaxed: the claim that follows shows it to the comer, and whoever reads it early relies on this call
                // (I1).
                self.coming.store(COMING, Ordering::Relaxed);
            }
        });
        let reset = written && !(woken && soon);
        if reset {
            self.arrive();
        }
        reset
    }

    /// Nobody is coming, as far as the caller knows: it looks itself (I2).
    fn arrive(&self) {
        self.coming.store(NOBODY, Ordering::Relaxed);
        // Ordering[gate.coming]: SeqCst. Pairs with `is_coming`, after whose reader's store this comes. Makes visible:
        // that store, and who had published himself before it (I3). Not weakened: a look behind it is preceded by a
        // read-modify-write of the channel's or by a light fence (`wake_one` of the other side), which models take for
        // a full one; tried by hand, the tests pass without it.
        R::Machine::fence(Ordering::SeqCst);
    }

    /// The caller was woken, perhaps by this side, and may leave without an operation: it looks at both sides (I2).
    pub fn part(&self) {
        if self.is_coming() {
            self.arrive();
        }
    }

    /// True while a thread of this side is coming, who will look at both sides (racy: it may not have been woken yet).
    #[inline(always)]
    pub fn is_coming(&self) -> bool {
        // Ordering[gate.coming]: SeqCst. Pairs with `arrive`. Forbidden: this reads the comer's flag and the comer
        // misses what the caller did before (I3). Not weakened: models have the light fence of `wake_one` before it;
        // tried by hand.
        self.coming.load(Ordering::SeqCst) != NOBODY
    }

    /// Waits once, as [`Waiters::wait_at_once`]. `Ok(true)`: somebody may have relied on the caller's coming, and it
    /// has to look at both sides (I2).
    #[inline]
    pub fn wait(&self, patience: Patience, ready: impl FnOnce() -> bool) -> Result<bool, WaitError> {
        let woken = self.waiters.wait_at_once(patience, ready)? == Wake::Signalled;
        // Relaxed: what the waker wrote before its claim is visible; if it was overwritten, then by another who looks
        // (I2).
        let expected = woken && self.coming.load(Ordering::Relaxed) != NOBODY;
        if expected {
            self.arrive();
        }
        Ok(expected)
    }

    /// The waiters themselves, for who wakes whether or not somebody is coming.
    #[inline]
    pub fn waiters(&self) -> &Waiters<R> {
        &self.waiters
    }
}
