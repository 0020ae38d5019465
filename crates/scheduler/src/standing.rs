//! Whether a processor takes part in its pool, and how it leaves and comes back.
//!
//! Source: our own. It adds a word to [`crate::takeover`].
//!
//! Roles: the *follower*, one per process, which changes the word; *adopters*, activations that have lost the
//! processor, or were ordered to carry it, and find it free.
//!
//! | standing | set by | meaning |
//! |---|---|---|
//! | [`Standing::Active`] | the follower | takes part |
//! | [`Standing::Retiring`] | the follower | its activation gives it up when it is idle, or the follower takes it |
//! | [`Standing::Retired`] | the follower, as its owner | emptied |
//!
//! Invariants:
//! - I1: a retired processor is empty, and nobody owns it for longer than a look at its standing: who adopts it, looks
//!   afterwards. Events: R the store of `Retiring`, O the follower's ownership and F its release; A the adoption, L
//!   that look. A and the follower exchange the same word. If F is before A, L sees R or what came later, and the
//!   adopter gives up. If A is before O, the follower empties what the adopter has left.
//! - I2: who owns it while it is active keeps it until it is taken, or gives it up.
//!
//! Progress: wait-free, but for [`Ownership`]'s retries. Nothing is reclaimed.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `takeover.owner` | [`Seat::retire`]: the standing, and that it is empty | the adoption |
//! | `standing.return` | [`Seat::activate`]: what the follower did before | [`Seat::standing`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::standing::{Seat, Standing};
//! use raddle_scheduler::takeover::Mark;
//! let marks = [Mark::<Real>::new(), Mark::new()];
//! let processor = Seat::<Real>::new(0);
//! assert!(processor.adopt(1, &marks[0]));
//! marks[0].leave();
//! processor.begin_retirement();
//! // The follower takes it, empties it, and lets it go.
//! assert!(processor.seize(2, &marks[1], |_| Some(&marks[0])));
//! processor.retire(2, &marks[1]);
//! assert!(!processor.adopt(1, &marks[0]) && processor.standing() == Standing::Retired);
//! ```
#![forbid(unsafe_code)]

use crate::takeover::{ActivationId, Mark, Ownership, Take};
use raddle_machine::{Atomic, Machine, Ordering};

/// Whether a processor takes part in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// It takes part.
    Active,
    /// Its activation is to give it up, or the follower takes it.
    Retiring,
    /// It holds nothing and nobody owns it.
    Retired,
}

/// Who owns a processor, and whether it takes part.
pub struct Seat<M: Machine> {
    /// Who owns it.
    pub owner: Ownership<M>,
    standing: M::Atomic<u8>,
}

impl<M: Machine> Seat<M> {
    /// Active, and owned by that activation (0: free).
    pub fn new(owner: ActivationId) -> Self {
        Self { owner: Ownership::new(owner), standing: M::Atomic::new(Standing::Active as u8) }
    }

    /// Whether it takes part in its pool.
    pub fn standing(&self) -> Standing {
        // Ordering[standing.return]: Acquire. Pairs with `activate`. Makes visible: what the follower did before.
        // Not weakened: what it did to the processor goes by the ownership.
        match self.standing.load(Ordering::Acquire) {
            0 => Standing::Active,
            1 => Standing::Retiring,
            _ => Standing::Retired,
        }
    }

    /// True while it takes part in its pool.
    pub fn is_active(&self) -> bool {
        self.standing() == Standing::Active
    }

    /// The follower: it is to leave.
    pub fn begin_retirement(&self) {
        // Relaxed: a request; who misses it is asked again.
        self.standing.store(Standing::Retiring as u8, Ordering::Relaxed);
    }

    /// The follower: it takes part again. True if it had retired.
    pub fn activate(&self) -> bool {
        let before = self.standing();
        // Ordering[standing.return]: Release. Pairs with `standing`. Makes visible: what the follower did before.
        // Not weakened: as above.
        self.standing.store(Standing::Active as u8, Ordering::Release);
        before == Standing::Retired
    }

    /// Before anybody else knows it: it has never taken part.
    pub fn begin_retired(&self) {
        self.standing.store(Standing::Retired as u8, Ordering::Relaxed);
    }

    /// `me`, which carries no other, becomes the owner if the processor is free and takes part: then it is inside its
    /// mark.
    pub fn adopt(&self, me: ActivationId, mark: &Mark<M>) -> bool {
        self.is_active() && self.owner.adopt(me, mark) && self.stays(me, mark)
    }

    /// `me` was ordered to carry the processor, which was its own then: it goes on as the owner, or becomes it again,
    /// if the processor takes part still. Then it is inside its mark.
    pub fn begin(&self, me: ActivationId, mark: &Mark<M>) -> bool {
        (self.owner.enter(me, mark) || self.owner.adopt(me, mark)) && self.stays(me, mark)
    }

    /// It may have retired before the caller became its owner: then the follower is through with it (event L).
    fn stays(&self, me: ActivationId, mark: &Mark<M>) -> bool {
        let stays = self.is_active();
        if !stays {
            self.owner.release(me, mark);
        }
        stays
    }

    /// The follower becomes the owner, inside its mark, if nobody uses the processor at this instant. `find` knows the
    /// marks of others.
    pub fn seize<'a>(
        &self,
        me: ActivationId,
        mark: &Mark<M>,
        find: impl FnOnce(ActivationId) -> Option<&'a Mark<M>>,
    ) -> bool
    where
        M: 'a,
    {
        let owner = self.owner.owner();
        if owner == 0 {
            return self.owner.adopt(me, mark);
        }
        let Some(victim) = find(owner) else { return false };
        self.owner.take(me, owner, victim) == Take::Taken && self.owner.enter(me, mark)
    }

    /// The follower, which owns the processor and has emptied it, lets it go.
    pub fn retire(&self, me: ActivationId, mark: &Mark<M>) {
        // Relaxed: whoever adopts it has seen at least that it was to retire (R).
        self.standing.store(Standing::Retired as u8, Ordering::Relaxed);
        self.owner.release(me, mark);
    }
}
