//! A batch that several threads fill and the first of them carries out.
//!
//! The batch lies in a *place*. Whoever wants something done takes it out ([`BatchPlace::take`]), adds to it, and puts
//! it back ([`BatchPlace::put`]); in between it is theirs alone. Who finds it empty *leads*: lets others run, takes it
//! again, does what has come together, and tells each who waits ([`Outcome::set`]). Who finds the place empty does
//! without: nobody waits for a batch but its leader, who comes back for what was put in.
//!
//! Source: this project.
//!
//! Roles: *senders*, any number. At most one leads: between its two turns the batch is never empty, so that nobody else
//! begins one.
//!
//! Invariant B1: what was put into a batch is carried out once. Proof: only who has taken the batch reads or changes
//! it; only the leader empties it, and it does so having taken it; a place holds one batch at a time, since only who
//! has taken it puts it back.
//!
//! Progress: `take`, `put` and the words of an outcome are wait-free. A leader waits for a sender that has the batch in
//! its hands, for the few instructions of an addition; a sender that waits for its outcome waits for the leader, which
//! is ready to run. No memory is reclaimed here: an outcome must stay until it is [set](Outcome::get), and is not
//! touched by the leader after that.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `batch.hand` | [`BatchPlace::put`] | [`BatchPlace::take`] |
//! | `batch.outcome` | [`Outcome::set`] | [`Outcome::get`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::batch::{Outcome, BatchPlace};
//! let place = BatchPlace::<Real>::default();
//! place.put(7);
//! assert_eq!(place.take(), Some(7));
//! assert_eq!(place.take(), None, "it is in somebody's hands");
//! let outcome = Outcome::<Real>::default();
//! assert_eq!(outcome.get(), None);
//! outcome.set(-11);
//! assert_eq!(outcome.get(), Some(-11));
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

/// Where a batch lies while nobody has it in hands.
#[derive(Debug)]
pub struct BatchPlace<M: Machine> {
    /// The batch's address, or another word for it; 0: it is elsewhere, or there is none.
    word: M::Atomic<usize>,
}

impl<M: Machine> Default for BatchPlace<M> {
    fn default() -> Self {
        Self { word: M::Atomic::new(0) }
    }
}

impl<M: Machine> BatchPlace<M> {
    /// The batch, which is the caller's alone from here on; `None` if it is elsewhere.
    #[inline]
    pub fn take(&self) -> Option<usize> {
        // Ordering[batch.hand]: Acquire. Pairs with the exchange in `put`. Makes visible: what the batch's last owner
        // did to it.
        let word = self.word.swap(0, Ordering::Acquire);
        (word != 0).then_some(word)
    }

    /// Puts the batch (back), which must not be 0 and was taken from here or never was here.
    #[inline]
    pub fn put(&self, batch: usize) {
        debug_assert_ne!(batch, 0);
        // Ordering[batch.hand]: Release. Pairs with the exchange in `take`. Makes visible: the batch as its owner
        // leaves it. (An exchange, since the model loses track of plain stores among exchanges; it costs a few
        // nanoseconds where microseconds are saved.)
        let before = self.word.swap(batch, Ordering::Release);
        debug_assert_eq!(before, 0, "a place holds one batch");
    }
}

/// What became of one thing that was put into a batch.
#[derive(Debug)]
pub struct Outcome<M: Machine> {
    /// Twice the result, plus one; 0: it is not carried out.
    word: M::Atomic<u64>,
}

impl<M: Machine> Default for Outcome<M> {
    fn default() -> Self {
        Self { word: M::Atomic::new(0) }
    }
}

impl<M: Machine> Outcome<M> {
    /// The result, once it was carried out.
    #[inline]
    pub fn get(&self) -> Option<isize> {
        // Ordering[batch.outcome]: Acquire. Pairs with the store in `set`. Makes visible: that the leader is through
        // with this.
        let word = self.word.load(Ordering::Acquire);
        (word != 0).then_some((word as i64 >> 1) as isize)
    }

    /// Told by the leader; its last access to this. `result` needs 63 bits at most.
    #[inline]
    pub fn set(&self, result: isize) {
        // Ordering[batch.outcome]: Release. Pairs with the load in `get`. Makes visible: what the leader did for it.
        self.word.store((result as i64 as u64) << 1 | 1, Ordering::Release);
    }
}
