//! The looks at a group's stages, and what [`raddle_scheduler::govern::balance`] makes of them.

use super::Group;
use raddle_scheduler::govern::balance::{Course, Found};
use std::sync::atomic::{AtomicU64, Ordering};

/// Between two looks.
const EVERY_NS: u64 = 5_000_000;

/// What the monitor keeps of a group. Written by the monitor only, but for `moves`' readers: counters, no order.
pub(super) struct Balance {
    next: AtomicU64,
    /// A [`Course`] in a word.
    course: AtomicU64,
    /// What had begun in each stage at the last look.
    begun: Box<[AtomicU64]>,
    moves: AtomicU64,
}

impl Balance {
    pub fn new(stages: usize) -> Self {
        let begun = (0..stages).map(|_| AtomicU64::new(0)).collect();
        Self { next: AtomicU64::new(0), course: AtomicU64::new(0), begun, moves: AtomicU64::new(0) }
    }

    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }
}

impl Group {
    /// The monitor's look, which names how many processors each stage is to have; [`crate::govern::follow`] sees to it.
    pub(super) fn balance(&self, now: u64) {
        let balance = &self.balance;
        if now < balance.next.load(Ordering::Relaxed) {
            return;
        }
        balance.next.store(now + EVERY_NS, Ordering::Relaxed);
        let look = |(gate, last): (&&super::Gate, &AtomicU64)| {
            let (waiting, begun) = (gate.waiting(), gate.begun.load(Ordering::Relaxed));
            let since = begun.wrapping_sub(last.load(Ordering::Relaxed));
            last.store(begun, Ordering::Relaxed);
            Found { waiting, begun: since, processors: gate.pool.wanted() }
        };
        let found: Vec<Found> = self.gates.iter().zip(&balance.begun).map(look).collect();
        let mut course = Course::unpack(balance.course.load(Ordering::Relaxed));
        if let Some((from, to)) = course.step(&found) {
            self.gates[from].pool.want(found[from].processors - 1);
            self.gates[to].pool.want(found[to].processors + 1);
            balance.moves.store(balance.moves() + 1, Ordering::Relaxed);
        }
        balance.course.store(course.pack(), Ordering::Relaxed);
    }
}
