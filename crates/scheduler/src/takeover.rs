//! Takeover: at most one activation uses a processor's owner-only state, and a processor does not stay with an
//! activation that is stuck in the kernel.
//!
//! Source: PROTOCOLS 3 of the design (model-checked); the aim is that of scheduler activations (Anderson et al.,
//! section 3): a processor, not a kernel thread, is what a program owns. Differs from the model: a third kind of
//! owner, *free*, which a taker leaves behind when it only wanted to publish what the processor held; adopting a free
//! processor is one compare-and-swap from `(0, 0)` to `(me, 0)`, which the same argument covers: whoever wins it is the
//! only owner, and the taker's exchange released all it did.
//!
//! Roles: *owner* (the activation that runs the processor), *taker* (another activation, or the monitor's delegate).
//!
//! Words: in the processor `owner = intent:32 | activation:32`; in the activation's record `mark`, 1 while inside.
//!
//! | owner | mark of A | who may do what |
//! |---|---|---|
//! | (A, 0) | outside | a taker may set its intent |
//! | (A, m) | outside | m may complete |
//! | (A, m) | inside | m retracts |
//! | (B, 0) | – | A has lost it; finds out at its next `enter` |
//! | (0, 0) | – | free: anybody may adopt it |
//!
//! Invariants:
//! - I1: only the activation named in `owner`, between a successful `enter` and `leave`, touches owner-only state.
//! - I2: the next owner sees all stores of the previous one (`takeover.mark`, `takeover.owner`).
//!
//! Progress: `enter` and `leave` are wait-free when nobody takes; `enter` retries only when a taker's intent changed;
//! `take` is bounded. A taker that freezes after setting its intent is replaced by the next taker, or by the owner's
//! `enter`.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::takeover::{Mark, Ownership, Take};
//! let processor = Ownership::<Real>::new(1);
//! let marks = [Mark::<Real>::new(), Mark::new()];
//! assert!(processor.enter(1, &marks[0]));
//! // Its owner is inside the runtime: whoever wants the processor has to come again.
//! assert_eq!(processor.take(2, 1, &marks[0]), Take::Inside);
//! marks[0].leave();
//! assert_eq!(processor.take(2, 1, &marks[0]), Take::Taken);
//! assert!(!processor.enter(1, &marks[0]) && processor.owner() == 2);
//! ```

use raddle_machine::{Atomic, Machine, Ordering};

/// Names an activation; 0 is nobody.
pub type ActivationId = u32;

/// The owner is the lower half, so that an owner without an intent is its own number: a comparison in `enter`.
const fn pack(owner: ActivationId, intent: ActivationId) -> u64 {
    owner as u64 | (intent as u64) << 32
}

const fn owner_in(word: u64) -> ActivationId {
    word as ActivationId
}

/// The mark of an activation: is it inside owner-only code?
pub struct Mark<M: Machine>(M::Atomic<u32>);

impl<M: Machine> Mark<M> {
    /// Outside.
    pub fn new() -> Self {
        Mark(M::Atomic::new(0))
    }

    /// True while the activation is inside (racy, for the monitor and for signal handlers on the same kernel thread).
    pub fn is_inside(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Leaves. All stores made inside become visible to the next owner.
    #[inline(always)]
    pub fn leave(&self) {
        // Ordering[takeover.mark]: Release. Pairs with the taker's load in `take`. Makes visible: the owner-only state.
        self.0.store(0, Ordering::Release);
    }
}

impl<M: Machine> Default for Mark<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a taker achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The processor is the taker's.
    Taken,
    /// Its owner is inside its mark right now.
    Inside,
    /// Somebody else was faster, or the owner changed.
    Lost,
}

/// Who owns a processor.
pub struct Ownership<M: Machine>(M::Atomic<u64>);

impl<M: Machine> Ownership<M> {
    /// Owned by `activation` (0: free).
    pub fn new(activation: ActivationId) -> Self {
        Ownership(M::Atomic::new(pack(activation, 0)))
    }

    /// The owner's entry: true if the processor is still `me`'s, which is then inside its mark. False: lost (or free);
    /// the mark is outside again and no owner-only state was touched.
    #[inline(always)]
    pub fn enter(&self, me: ActivationId, mark: &Mark<M>) -> bool {
        mark.0.store(1, Ordering::Relaxed);
        // Ordering[takeover.enter]: light fence. Pairs with the heavy fence in `take`. Forbidden: the owner does not
        // see the intent and the taker does not see the mark.
        M::light_fence();
        // Ordering[takeover.owner]: Acquire. Pairs with the taker's exchanges. Makes visible: what a taker did that
        // gave back. Not weakened: who stores `(me, 0)` is this activation, or a taker that retracts and touched
        // nothing.
        if self.0.load(Ordering::Acquire) == pack(me, 0) {
            return true;
        }
        self.enter_slow(me, mark)
    }

    #[cold]
    #[inline(never)]
    fn enter_slow(&self, me: ActivationId, mark: &Mark<M>) -> bool {
        loop {
            let owner = self.0.load(Ordering::Acquire);
            if owner == pack(me, 0) {
                return true;
            }
            if owner_in(owner) != me {
                mark.leave();
                return false;
            }
            // Ordering[takeover.owner]: AcqRel. Pairs with the taker's exchanges: its intent is removed, it cannot
            // complete. Not weakened: it removes an intent and carries no data; that goes by the marks.
            if self.0.compare_exchange(owner, pack(me, 0), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Takes a free processor. On success `me` is inside its mark.
    pub fn adopt(&self, me: ActivationId, mark: &Mark<M>) -> bool {
        mark.0.store(1, Ordering::Relaxed);
        // Ordering[takeover.owner]: AcqRel. Pairs with `release`. Makes visible: the owner-only state.
        let won = self.0.compare_exchange(pack(0, 0), pack(me, 0), Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !won {
            mark.leave();
        }
        won
    }

    /// The owner, inside its mark, gives the processor up; it is free, and the former owner outside its mark.
    pub fn release(&self, me: ActivationId, mark: &Mark<M>) {
        let mut owner = self.0.load(Ordering::Relaxed);
        while owner_in(owner) == me {
            // Ordering[takeover.owner]: AcqRel. Pairs with `adopt`. Makes visible: the owner-only state.
            match self.0.compare_exchange(owner, pack(0, 0), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => owner = now,
            }
        }
        mark.leave();
    }

    /// The owner, inside its mark, passes the processor on to `to`, which is outside its own and owns it from now on.
    /// The former owner is outside.
    pub fn pass(&self, me: ActivationId, to: ActivationId, mark: &Mark<M>) {
        let mut owner = self.0.load(Ordering::Relaxed);
        while owner_in(owner) == me {
            // Ordering[takeover.owner]: AcqRel. Pairs with the load in `enter`. Makes visible: the owner-only state.
            match self.0.compare_exchange(owner, pack(to, 0), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => owner = now,
            }
        }
        mark.leave();
    }

    /// Tries to take the processor from `victim`, whose mark is `mark`. On [`Take::Taken`], `me` owns it and must
    /// enter.
    pub fn take(&self, me: ActivationId, victim: ActivationId, mark: &Mark<M>) -> Take {
        debug_assert!(me != 0 && me != victim);
        let owner = self.0.load(Ordering::Acquire);
        if owner_in(owner) != victim {
            return Take::Lost;
        }
        // Ordering[takeover.owner]: AcqRel. Pairs with the owner's load in `enter`. Replaces a frozen taker's intent.
        // Not weakened: it states an intent and carries no data; the heavy fence orders it before the look.
        if self.0.compare_exchange(owner, pack(victim, me), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Take::Lost;
        }
        // Ordering[takeover.enter]: heavy fence. Pairs with the light fence in `enter`.
        M::heavy_fence();
        // Ordering[takeover.mark]: Acquire. Pairs with `leave`. Makes visible: the owner-only state.
        if mark.0.load(Ordering::Acquire) == 0 {
            // Ordering[takeover.owner]: AcqRel. Pairs with `enter`: the owner sees that it has lost.
            // Not weakened: the data came with the mark; the victim learns only that it has lost.
            match self.0.compare_exchange(pack(victim, me), pack(me, 0), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => Take::Taken,
                Err(_) => Take::Lost,
            }
        } else {
            // Retract; if the owner or another taker removed the intent already, there is nothing to retract.
            // Ordering[takeover.owner]: AcqRel. Pairs with `enter`.
            // Not weakened: it removes an intent and carries no data.
            let _ = self.0.compare_exchange(pack(victim, me), pack(victim, 0), Ordering::AcqRel, Ordering::Relaxed);
            Take::Inside
        }
    }

    /// The activation named as owner (0: free).
    pub fn owner(&self) -> ActivationId {
        owner_in(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle_machine::Real;

    #[test]
    fn an_owner_inside_keeps_its_processor_and_one_outside_loses_it() {
        let processor = Ownership::<Real>::new(1);
        let (a, b) = (Mark::new(), Mark::new());
        assert!(processor.enter(1, &a));
        assert_eq!(processor.take(2, 1, &a), Take::Inside);
        a.leave();
        assert_eq!(processor.take(2, 1, &a), Take::Taken);
        assert!(!processor.enter(1, &a));
        assert!(!a.is_inside());
        assert!(processor.enter(2, &b));
        processor.release(2, &b);
        assert!(!processor.enter(2, &b));
        assert!(processor.adopt(1, &a) && a.is_inside());
        assert_eq!(processor.owner(), 1);
        // Passed on, it is the other one's, which is outside.
        processor.pass(1, 2, &a);
        assert!(!a.is_inside() && !b.is_inside() && processor.owner() == 2);
        assert!(!processor.enter(1, &a) && processor.enter(2, &b));
    }
}
