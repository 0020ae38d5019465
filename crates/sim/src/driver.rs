//! Who decides which coroutine goes on.
//!
//! # Example
//! ```
//! use raddle_machine::Machine;
//! use raddle_sim::{Choice, Controlled, Driver, Options, Outcome, World, run, start};
//! /// The one that has made the fewest steps.
//! struct Fair;
//! impl Driver for Fair {
//!     fn choose(&mut self, world: &World) -> Choice {
//!         let fewest = world.ready().min_by_key(|&core| world.cores()[core].steps);
//!         fewest.map_or(Choice::Stop, Choice::Go)
//!     }
//! }
//! let over = run(&Options { trace: true, ..Options::default() }, Fair, || {
//!     for name in ["first", "second"] {
//!         start(name, || (0..3).for_each(|_| Controlled::spin_hint()));
//!     }
//! });
//! assert_eq!(over.outcome, Outcome::Done);
//! let cores: Vec<usize> = over.trace.iter().map(|step| step.core).collect();
//! assert!(cores.chunks(2).all(|pair| pair == [0, 1]), "{cores:?}");
//! ```

use crate::world::{Status, Step, World};
use std::any::Any;

/// What a driver decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This coroutine makes the step that it is about to make. One that sleeps wakes up for no reason, or because its
    /// time has come.
    Go(usize),
    /// The run ends here; what the coroutines hold is leaked. (Where many runs are cut short, let them run on instead.)
    Stop,
}

/// Decides, before each step, who makes one. Must not use the machine itself.
pub trait Driver: Any {
    /// Who goes on. At least one coroutine is ready.
    fn choose(&mut self, world: &World) -> Choice;

    /// Called after each step.
    fn performed(&mut self, step: &Step, world: &World) {
        let _ = (step, world);
    }

    /// Called when the current coroutine wakes `core`.
    fn woken(&mut self, core: usize, world: &World) {
        let _ = (core, world);
    }

    /// The time, as coroutine `core` sees it, in nanoseconds.
    fn now(&mut self, core: usize, world: &World) -> u64 {
        let _ = core;
        world.time()
    }

    /// Called when nobody is ready and somebody sleeps. By default the earliest deadline passes; without one the run is
    /// over.
    fn all_asleep(&mut self, world: &World) -> Option<usize> {
        earliest(world)
    }
}

/// Who sleeps with the earliest deadline.
pub fn earliest(world: &World) -> Option<usize> {
    let deadline = |core: &usize| match world.cores()[*core].status {
        Status::Waiting { deadline, .. } => deadline,
        _ => None,
    };
    world.sleepers().filter(|core| deadline(core).is_some()).min_by_key(deadline)
}

/// A seeded sequence (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next word.
    pub fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_word() % n as u64) as usize
    }
}

/// Chooses by chance, each coroutine that can do something useful being as likely; one choice in `disturb` wakes a
/// sleeper for no reason (0: never).
#[derive(Clone, Debug)]
pub struct ByChance {
    random: Random,
    disturb: usize,
}

impl ByChance {
    /// The choices of a seed; nobody is woken for no reason.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), disturb: 0 }
    }

    /// One choice in `disturb` wakes a sleeper for no reason, if there is one.
    pub fn disturbing(mut self, disturb: usize) -> Self {
        self.disturb = disturb;
        self
    }

    fn one_of(&mut self, candidates: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let count = candidates.clone().count();
        (count > 0).then(|| self.random.below(count)).and_then(|index| candidates.clone().nth(index))
    }
}

impl Driver for ByChance {
    fn choose(&mut self, world: &World) -> Choice {
        let cores = || 0..world.cores().len();
        if self.disturb > 0 && self.random.below(self.disturb) == 0 {
            let asleep = |core: &usize| matches!(world.cores()[*core].status, Status::Waiting { .. });
            if let Some(core) = self.one_of(cores().filter(asleep)) {
                return Choice::Go(core);
            }
        }
        let useful: Vec<usize> = world.useful().collect();
        self.one_of(useful.into_iter()).map_or(Choice::Stop, Choice::Go)
    }
}
