//! A busy processor now and then checks that another one is not stalled.
//!
//! Source: this project's invariant that one frozen kernel thread stops no thread that it does not hold (DESIGN 2).
//!
//! A processor searches elsewhere when it has nothing itself. Threads that yield for ever never let that happen; if
//! another one's kernel thread is then frozen inside the runtime (where the monitor cannot take its processor), all
//! that waits in its queue would wait, although anybody may take it. So on some [`Occasions`] a processor looks whether
//! one other has switched since its last look, and if not, takes a batch of what that one offers. Each look is at the
//! next processor.
//!
//! A processor that computes for long stands still too: what waits behind it comes to run as well.

use super::Pool;
use raddle_machine::Machine;

/// How often a processor looks after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occasions {
    /// Rounds of housekeeping between two looks.
    pub rounds: u32,
    /// Offers that nobody took between two looks.
    pub alone: u32,
}

impl Default for Occasions {
    /// A look reads one word of another processor, once in a thousand switches (a round is 64). Four times as often,
    /// and as seldom, a yield takes 1 % more instructions both ways, which is the code's place (docs/constants.md).
    fn default() -> Self {
        Self { rounds: 16, alone: 1024 }
    }
}

/// What a processor remembers of its last look.
#[derive(Clone, Debug)]
pub struct Rescue {
    occasions: Occasions,
    rounds: u32,
    alone: u32,
    whom: usize,
    seen: Option<u64>,
}

impl Rescue {
    /// Nothing was seen yet.
    pub fn new(occasions: Occasions) -> Self {
        Self { occasions, rounds: 0, alone: 0, whom: 0, seen: None }
    }

    /// One more round of housekeeping. True when it is time to look.
    #[inline(always)]
    pub fn round(&mut self) -> bool {
        self.rounds += 1;
        let due = self.rounds >= self.occasions.rounds;
        if due {
            self.rounds = 0;
        }
        due
    }

    /// One more offer that nobody took. True when it is time to look.
    #[inline(always)]
    pub fn alone(&mut self) -> bool {
        self.alone += 1;
        let due = self.alone >= self.occasions.alone;
        if due {
            self.alone = 0;
        }
        due
    }

    /// The processor whose turn it was, if it has stood still since; from now on it is the next one's turn.
    pub fn stalled<M: Machine>(&mut self, pool: &impl Pool<M>, me: usize) -> Option<usize> {
        // A hint; a late value makes a processor seem to stand still, which costs one steal.
        let whom = self.whom;
        let still = whom != me && self.seen.is_some() && pool.switches(whom) == self.seen;
        let next = [whom + 1, whom + 2, 0, 1].into_iter().find(|&next| next != me && pool.switches(next).is_some());
        self.whom = next.unwrap_or(me);
        self.seen = pool.switches(self.whom);
        still.then_some(whom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::Idle;
    use raddle_machine::Real;
    use std::cell::RefCell;

    struct Counts(RefCell<Vec<u64>>, Idle<Real>);

    impl Pool<Real> for Counts {
        fn idle(&self) -> &Idle<Real> {
            &self.1
        }
        fn switches(&self, index: usize) -> Option<u64> {
            self.0.borrow().get(index).copied()
        }
    }

    #[test]
    fn each_other_processor_has_its_turn_and_one_that_switches_is_left_alone() {
        for me in 0..3 {
            let pool = Counts(RefCell::new(vec![0; 3]), Idle::new(3));
            let mut rescue = Rescue::new(Occasions::default());
            // The first look only remembers.
            assert_eq!(rescue.stalled(&pool, me), None);
            let mut seen: Vec<_> = (0..4).map(|_| rescue.stalled(&pool, me).unwrap()).collect();
            assert_eq!(seen[..2], seen[2..]);
            seen.truncate(2);
            seen.sort_unstable();
            assert_eq!(seen, (0..3).filter(|&other| other != me).collect::<Vec<_>>());
            pool.0.borrow_mut().iter_mut().for_each(|switches| *switches += 1);
            assert_eq!(rescue.stalled(&pool, me), None);
            assert!(rescue.stalled(&pool, me).is_some());
        }
    }

    #[test]
    fn who_is_alone_has_nobody_to_look_after() {
        let pool = Counts(RefCell::new(vec![0]), Idle::new(1));
        let mut rescue = Rescue::new(Occasions::default());
        assert!((0..8).all(|_| rescue.stalled(&pool, 0).is_none()));
    }

    #[test]
    fn occasions_come_round() {
        let mut rescue = Rescue::new(Occasions { rounds: 2, alone: 3 });
        assert_eq!([(); 6].map(|()| rescue.round()), [false, true, false, true, false, true]);
        assert_eq!([(); 6].map(|()| rescue.alone()), [false, false, true, false, false, true]);
    }
}
