//! Whether a descriptor may have something, as far as events tell: one word that counts them, one that says when it was
//! last empty.
//!
//! The kernel reports *edges*: an event follows each change from nothing to something, and is fetched later by anybody.
//! A thread looks at the count ([`Readiness::glance`]), tries, and when that found nothing waits only while the count
//! is as it was. So a wait costs no system call, and after an attempt that took all there was the next one need not be
//! made ([`Readiness::is_empty`]).
//!
//! Source: readiness as Go's and tokio's pollers keep it. Differs: a count in place of flags that are cleared, so that
//! no clearing can meet an event; who waits, and how many, is a wait list's business.
//!
//! Roles: *users* try and wait, any number; *fetchers* deliver events, any number.
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `events` | fetchers, and whoever begins a new life of the number | so many events were delivered |
//! | `empty` | users | one more than the count at which an attempt began that left nothing; anything else: not known |
//!
//! Invariants:
//! - I1: when `empty` is `events + 1`, then since a moment at which there was nothing no event was delivered: what came
//!   later is an edge that is still to be delivered. (The attempt began after its glance; what was there by its end, it
//!   took; edges after it are counted after it, and would have changed `events`.)
//! - I2: a user that sleeps has been published, and has found the count unchanged since its last attempt began. Proof
//!   that no event is missed, with W published, L the count loaded (user, fence between), C counted, P the pops
//!   (fetcher, fence between): forbidden is L before C and P before W; the fences are totally ordered, so one of the
//!   later reads sees the other's write.
//!
//! Progress: wait-free. No memory is reclaimed.
//!
//! The counter wraps after 2^32 events: a user that was stopped between its glance and its sleep for exactly so many
//! would miss them.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `ready.events` | [`Readiness::happened`] | [`Readiness::glance`] |
//! | `ready.wake` | [`Readiness::happened`], before the pops | `wait.look` of [`crate::runtime::wait_until`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::readiness::Readiness;
//! let readable = Readiness::<Real>::default();
//! let glance = readable.glance();
//! // The attempt after the glance has found nothing: the next one need not try, as long as nothing happens.
//! readable.emptied(glance);
//! assert!(readable.is_empty(readable.glance()));
//! readable.happened();
//! assert!(readable.has_changed(glance) && !readable.is_empty(readable.glance()));
//! ```

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// What is known of one direction of one descriptor.
#[derive(Debug)]
pub struct Readiness<M: Machine> {
    events: M::Atomic<u32>,
    empty: M::Atomic<u32>,
}

/// The count of events at one moment, before an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance(u32);

impl Readiness<Real> {
    /// Nothing known, in a constant.
    pub const fn constant() -> Self {
        Self { events: RealAtomic::<u32>::constant(0), empty: RealAtomic::<u32>::constant(0) }
    }
}

impl<M: Machine> Default for Readiness<M> {
    fn default() -> Self {
        Self { events: M::Atomic::new(0), empty: M::Atomic::new(0) }
    }
}

impl<M: Machine> Readiness<M> {
    /// To be taken before an attempt.
    #[inline]
    pub fn glance(&self) -> Glance {
        // Ordering[ready.events]: Acquire. Pairs with the count in `happened`. Makes visible: what the counted events
        // told of, to the attempt that follows, which does not begin before. Not weakened: in the model the kernel is a
        // lock, which orders report and attempt by itself.
        Glance(self.events.load(Ordering::Acquire))
    }

    /// True if an attempt would find nothing (I1): the glance may then be waited on without one.
    #[inline]
    pub fn is_empty(&self, glance: Glance) -> bool {
        // Relaxed: validated by the second look of the wait that follows.
        self.empty.load(Ordering::Relaxed) == glance.0.wrapping_add(1)
    }

    /// The attempt after `glance` has left nothing there.
    #[inline]
    pub fn emptied(&self, glance: Glance) {
        // Relaxed: as above; a late store of an old glance says nothing, since the count has moved on.
        self.empty.store(glance.0.wrapping_add(1), Ordering::Relaxed);
    }

    /// An event was delivered since: the attempt is to be repeated. The second look of a wait, after a fence.
    #[inline]
    pub fn has_changed(&self, glance: Glance) -> bool {
        // Relaxed: ordered by the fence of `wait_until` (I2).
        self.events.load(Ordering::Relaxed) != glance.0
    }

    /// Delivers an event: counts it, and only then runs `wake`, which pops those who wait. (In the other order a user
    /// that publishes between pops and count sleeps on an old count's word, and nobody pops it.)
    #[inline]
    pub fn deliver<T>(&self, wake: impl FnOnce() -> T) -> T {
        self.happened();
        wake()
    }

    /// Counts an event that nobody need be woken for at once, such as a number's new life. For the events of a poller
    /// there is [`Readiness::deliver`].
    #[inline]
    pub fn happened(&self) {
        // Ordering[ready.events]: Release. Pairs with `glance`. Makes visible: what the event told of.
        // Not weakened: as in `glance`.
        self.events.fetch_add(1, Ordering::Release);
        // Ordering[ready.wake]: SeqCst. Pairs with the fence of `wait_until` (proof at I2).
        M::fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_attempt_without_events_since_its_glance_shows_emptiness() {
        let ready = Readiness::<Real>::default();
        assert!(!ready.is_empty(ready.glance()), "nothing is known at first");
        let old = ready.glance();
        ready.emptied(old);
        assert!(ready.is_empty(ready.glance()));
        ready.happened();
        assert!(!ready.is_empty(ready.glance()) && ready.has_changed(old));
        ready.emptied(old);
        assert!(!ready.is_empty(ready.glance()), "the glance was before the event");
    }
}
