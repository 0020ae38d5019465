//! Who goes on in the runs of a check: systematically, by a seed, or as a token says.
//!
//! By default a processor goes on until it sleeps or ends, and then the next one in turn; one that spins goes behind
//! the others. Every kind of run is the default and its *deviations*, which is what a token keeps.

use super::token::Token;
use crate::driver::{ByChance, Choice, Driver, Random};
use crate::world::{NOWHERE, Op, Step, World};
use std::cell::Cell;
use std::rc::Rc;

/// One choice in so many wakes a sleeper for no reason, in the runs by chance.
const DISTURB: usize = 50;
/// Changes of priority in a run by random priorities, at most.
const CHANGES: usize = 4;

/// The locations that two coroutines were seen to use, one of them writing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shared(Vec<bool>);

impl Shared {
    fn has(&self, location: u32) -> bool {
        self.0.get(location as usize).copied().unwrap_or(false)
    }

    /// Adds what a run showed.
    pub fn learn(&mut self, guide: &Guide) {
        for (location, &(users, written)) in guide.used.iter().enumerate() {
            if written && users.count_ones() > 1 {
                if self.0.len() <= location {
                    self.0.resize(location + 1, false);
                }
                self.0[location] = true;
            }
        }
    }
}

/// A point at which several can go on.
#[derive(Debug, PartialEq)]
struct Branch {
    /// Whoever can go on, the default first.
    options: Vec<usize>,
    /// Which of them goes on.
    taken: usize,
    /// Whether another one than the default is a preemption.
    dear: bool,
}

#[derive(Debug)]
enum Mode {
    /// Depth first.
    Systematic { bound: u32, shared: Rc<Shared>, path: Vec<Branch>, depth: usize, spent: u32 },
    /// Each with the same chance.
    Chance(ByChance),
    /// The highest goes on; who spins, or was on at a change, becomes the lowest.
    Priorities { random: Random, priorities: Vec<u64>, changes: Vec<u64>, lowest: u64 },
    /// These deviations.
    Replay { deviations: Vec<(u64, usize)>, next: usize, misfit: Option<u64> },
}

/// The driver of a check.
#[derive(Debug)]
pub(super) struct Guide {
    mode: Mode,
    /// Steps made, for the pool to see.
    clock: Rc<Cell<u64>>,
    /// The last step was a spin hint.
    spun: bool,
    deviations: Vec<(u64, usize)>,
    /// Per location: who used it in this run, and whether anybody wrote.
    used: Vec<(u64, bool)>,
}

impl Guide {
    fn new(mode: Mode) -> Self {
        Self { mode, clock: Rc::default(), spun: false, deviations: Vec::new(), used: Vec::new() }
    }

    /// The first run with at most so many preemptions; [`Guide::advance`] makes it the next one.
    pub fn systematic(bound: u32, shared: Rc<Shared>) -> Self {
        Self::new(Mode::Systematic { bound, shared, path: Vec::new(), depth: 0, spent: 0 })
    }

    /// The run of a seed.
    pub fn seeded(seed: u64) -> Self {
        if seed.is_multiple_of(2) {
            return Self::new(Mode::Chance(ByChance::new(seed).disturbing(DISTURB)));
        }
        let mut random = Random::new(seed);
        // Runs have some hundred steps, or some thousand.
        let length = 64 << random.below(6);
        let changes = (0..random.below(CHANGES + 1)).map(|_| random.below(length) as u64).collect();
        Self::new(Mode::Priorities { random, priorities: Vec::new(), changes, lowest: 1 << 62 })
    }

    /// The run of a token.
    pub fn replay(token: &Token) -> Self {
        Self::new(Mode::Replay { deviations: token.deviations.clone(), next: 0, misfit: None })
    }

    /// The steps made so far.
    pub fn clock(&self) -> Rc<Cell<u64>> {
        self.clock.clone()
    }

    /// Where the run differed from the default.
    pub fn deviations(&self) -> &[(u64, usize)] {
        &self.deviations
    }

    /// The step at which a replayed run could not do what its token says.
    pub fn misfit(&self) -> Option<u64> {
        match &self.mode {
            Mode::Replay { misfit: Some(step), .. } => Some(*step),
            Mode::Replay { deviations, next, .. } => deviations.get(*next).map(|(step, _)| *step),
            _ => None,
        }
    }

    /// Prepares the next systematic run; false if there is none.
    pub fn advance(&mut self) -> bool {
        let Mode::Systematic { path, depth, spent, .. } = &mut self.mode else { return false };
        while path.last().is_some_and(|branch| branch.taken + 1 == branch.options.len()) {
            path.pop();
        }
        let Some(last) = path.last_mut() else { return false };
        last.taken += 1;
        (*depth, *spent) = (0, 0);
        self.clock.set(0);
        self.spun = false;
        self.deviations.clear();
        self.used.clear();
        true
    }
}

/// Who goes on by default: whoever was on, unless it cannot, or spun and another one does not.
fn by_default(world: &World, spun: bool) -> usize {
    let is_ready = |core: usize| world.ready().any(|ready| ready == core);
    let current = world.current();
    match current {
        Some(core) if !spun && is_ready(core) => core,
        _ => {
            let after = current.map_or(0, |core| core + 1);
            let count = world.cores().len();
            let in_turn = |core: &usize| (core + count - after % count) % count;
            world.useful().filter(|core| !spun || Some(*core) != current).min_by_key(in_turn).or(current).unwrap_or(0)
        }
    }
}

impl Mode {
    fn choose(&mut self, world: &World, default: usize, spun: bool) -> Choice {
        match self {
            Mode::Chance(chance) => chance.choose(world),
            Mode::Priorities { random, priorities, changes, lowest } => {
                while priorities.len() < world.cores().len() {
                    priorities.push(random.next_word() >> 1 | 1 << 62);
                }
                if let Some(current) = world.current()
                    && (spun || changes.contains(&world.steps()))
                {
                    *lowest -= 1;
                    priorities[current] = *lowest;
                }
                world.useful().max_by_key(|core| priorities[*core]).map_or(Choice::Stop, Choice::Go)
            }
            Mode::Replay { deviations, next, misfit } => match deviations.get(*next) {
                Some(&(step, core)) if step == world.steps() => {
                    *next += 1;
                    let can = world.cores().get(core).is_some_and(|core| core.status != crate::Status::Ended);
                    if can {
                        return Choice::Go(core);
                    }
                    *misfit = Some(step);
                    Choice::Stop
                }
                _ => Choice::Go(default),
            },
            Mode::Systematic { bound, shared, path, depth, spent } => {
                let goes_on = world.current() == Some(default) || spun;
                if goes_on {
                    let pending = world.cores()[default].pending;
                    let matters = pending.location != NOWHERE && shared.has(pending.location);
                    if *spent == *bound || !spun && !matters {
                        return Choice::Go(default);
                    }
                }
                let mut options = vec![default];
                options.extend(world.useful().filter(|core| *core != default));
                if options.len() == 1 {
                    return Choice::Go(default);
                }
                if *depth == path.len() {
                    path.push(Branch { options, taken: 0, dear: goes_on });
                } else {
                    assert_eq!(path[*depth].options, options, "the same decisions did not lead to the same run");
                }
                let branch = &path[*depth];
                *depth += 1;
                *spent += u32::from(branch.dear && branch.taken > 0);
                Choice::Go(branch.options[branch.taken])
            }
        }
    }
}

impl Driver for Guide {
    fn choose(&mut self, world: &World) -> Choice {
        let default = by_default(world, self.spun);
        let choice = self.mode.choose(world, default, self.spun);
        if let Choice::Go(core) = choice
            && core != default
        {
            self.deviations.push((world.steps(), core));
        }
        choice
    }

    fn performed(&mut self, step: &Step, world: &World) {
        self.clock.set(world.steps());
        self.spun = step.access.op == Op::SpinHint;
        let location = step.access.location;
        if location != NOWHERE && matches!(self.mode, Mode::Systematic { .. }) {
            let location = location as usize;
            if self.used.len() <= location {
                self.used.resize(location + 1, (0, false));
            }
            let (users, written) = &mut self.used[location];
            *users |= 1 << (step.core % 64);
            *written |= step.access.writes();
        }
    }
}
