//! The lives of a number that is given out again and again, such as a descriptor's, and what was told of it to somebody
//! else in which of them.
//!
//! A poller (the kernel's) is told of a descriptor once, and knows of it until the program closes it; then the same
//! number may stand for something else, of which the poller knows nothing. So a number has *lives*, counted by whoever
//! sees one begin or end, and a [`Registration`] says in which of them the poller was told. It holds while the life is
//! the same and its beginning was seen ([`Lives::born`]): of a number whose birth nobody saw nothing is known, and
//! whoever waits for it tells the poller each time.
//!
//! Source: this project. The kernel's own remedy, a file's address beside its number, is not to be had outside the
//! kernel.
//!
//! Roles: *users* tell the poller and note it, any number; *enders* begin a life where the program closes or makes a
//! descriptor, or takes it from the poller, any number; then they wake who waits.
//!
//! | word | written by | meaning |
//! |---|---|---|
//! | `life` | enders, by an addition | so many lives have begun |
//! | `born` | enders | the life whose beginning was seen; anything else: not known |
//! | `noted` | users | one more than the life in which the poller was told |
//!
//! Invariant L1: while a registration holds, the poller knows of the number (unless it was closed behind our back and
//! given out again behind our back). Proof: a user reads the life L, tells the poller (A), notes L.
//! - *A close* (event C) comes after the beginning of a life, and the next birth begins one more. If A came before C, L
//!   is the life that ends or the one between, which is nobody's birth. If A came after C and what it met is the new
//!   descriptor, the poller knows of that one.
//! - *A removal* (event R) comes before the beginning of the life that is born by it. If A came before R, L is an
//!   earlier one; if after, the poller knows.
//!
//! Progress: wait-free. No memory is reclaimed. The counter wraps after 2^32 lives: a user that was stopped between its
//! look and its note for exactly so many would note a wrong one.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `lives.begin` | [`Lives::begin`] | [`Lives::now`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::lives::{Lives, Registration};
//! let (lives, registration) = (Lives::<Real>::constant(), Registration::<Real>::constant());
//! lives.born(|| {});
//! let life = lives.now();
//! // Here the poller is told.
//! registration.note(life);
//! assert!(registration.holds(&lives));
//! lives.unregister(|| {}, || { /* Here the poller forgets it. */ });
//! assert!(!registration.holds(&lives) && lives.known().is_some());
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

/// The lives of one number.
#[derive(Debug)]
pub struct Lives<M: Machine> {
    life: M::Atomic<u32>,
    born: M::Atomic<u32>,
}

/// In which life a poller was told of the number.
#[derive(Debug)]
pub struct Registration<M: Machine> {
    noted: M::Atomic<u32>,
}

impl Lives<Real> {
    /// Nothing has begun, in a constant.
    pub const fn constant() -> Self {
        Self { life: RealAtomic::<u32>::constant(0), born: RealAtomic::<u32>::constant(0) }
    }
}

impl Registration<Real> {
    /// Nobody was told, in a constant.
    pub const fn constant() -> Self {
        Self { noted: RealAtomic::<u32>::constant(0) }
    }
}

impl<M: Machine> Default for Lives<M> {
    fn default() -> Self {
        Self { life: M::Atomic::new(0), born: M::Atomic::new(0) }
    }
}

impl<M: Machine> Default for Registration<M> {
    fn default() -> Self {
        Self { noted: M::Atomic::new(0) }
    }
}

impl<M: Machine> Lives<M> {
    /// The present life.
    #[inline]
    pub fn now(&self) -> u32 {
        // Ordering[lives.begin]: Acquire. Pairs with the addition in `begin`. Makes visible: what was done before the
        // life began; and what follows, the telling of the poller, is not done before. Not weakened: in the model the
        // poller is a lock, which orders telling and removal by itself.
        self.life.load(Ordering::Acquire)
    }

    /// Begins a life, and answers with it. `each` is told after each beginning: what was seen of the last life says
    /// nothing of this one.
    #[inline]
    pub fn begin(&self, each: impl FnOnce()) -> u32 {
        // Ordering[lives.begin]: Release. Pairs with the load in `now`. Makes visible: what the caller did before.
        // Not weakened: as in `now`.
        let life = self.life.fetch_add(1, Ordering::Release).wrapping_add(1);
        each();
        life
    }

    /// The program's own call has just made what the number stands for.
    pub fn born(&self, each: impl FnOnce()) {
        let life = self.begin(each);
        // Relaxed: another beginning meanwhile makes it a life that is not the present one; then the birth counts as
        // not seen.
        self.born.store(life, Ordering::Relaxed);
    }

    /// The present life, if its beginning was seen.
    pub fn known(&self) -> Option<u32> {
        let life = self.now();
        (life != 0 && self.born.load(Ordering::Relaxed) == life).then_some(life)
    }

    /// True if a birth was ever seen, and not forgotten.
    #[inline]
    pub fn was_born(&self) -> bool {
        self.born.load(Ordering::Relaxed) != 0
    }

    /// What was seen says nothing any more: others may change what the number stands for.
    pub fn forget_birth(&self) {
        self.born.store(0, Ordering::Relaxed);
    }

    /// Runs `remove`, after which the poller does not know the number, which stands for the same as before. Who relied
    /// on it is to be woken afterwards.
    pub fn unregister(&self, each: impl FnOnce(), remove: impl FnOnce()) {
        let known = self.known();
        remove();
        // After the removal: a life that began before could be noted by one who tells the poller before it (L1).
        let life = self.begin(each);
        // The number lives on, unless somebody has begun another life meanwhile.
        if known.is_some_and(|before| life == before.wrapping_add(1)) {
            self.born.store(life, Ordering::Relaxed);
        }
    }
}

impl<M: Machine> Registration<M> {
    /// The poller was told, and `life` was the present one before that.
    #[inline]
    pub fn note(&self, life: u32) {
        // Relaxed: a late note is of an old life at worst, and does not hold.
        self.noted.store(life.wrapping_add(1), Ordering::Relaxed);
    }

    /// The poller is another one by now.
    pub fn forget(&self) {
        self.noted.store(0, Ordering::Relaxed);
    }

    /// True if the poller need not be told (L1).
    #[inline]
    pub fn holds(&self, lives: &Lives<M>) -> bool {
        // Relaxed: each of the three words is compared with the life; whichever is late makes it false, or belongs to
        // the same life.
        let life = lives.life.load(Ordering::Relaxed);
        life != 0
            && lives.born.load(Ordering::Relaxed) == life
            && self.noted.load(Ordering::Relaxed) == life.wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_in_one_life_says_nothing_of_the_next() {
        let (lives, registration) = (Lives::<Real>::default(), Registration::<Real>::default());
        registration.note(lives.now());
        assert!(!registration.holds(&lives), "nobody saw its birth");
        lives.born(|| {});
        assert!(!registration.holds(&lives));
        registration.note(lives.now());
        assert!(registration.holds(&lives));
        lives.begin(|| {});
        assert!(!registration.holds(&lives) && lives.known().is_none());
        registration.note(lives.now());
        assert!(!registration.holds(&lives), "a life that began unseen");
    }

    #[test]
    fn a_number_whose_birth_was_not_seen_is_not_known_after_a_removal() {
        let lives = Lives::<Real>::default();
        lives.begin(|| {});
        lives.unregister(|| {}, || {});
        assert!(lives.known().is_none() && !lives.was_born());
        lives.born(|| {});
        lives.unregister(|| {}, || {});
        assert!(lives.known().is_some());
        // Closed while it is being removed.
        let close = || {
            lives.begin(|| {});
        };
        lives.unregister(|| {}, close);
        assert!(lives.known().is_none());
    }
}
