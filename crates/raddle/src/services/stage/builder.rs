//! Building stages, and why they cannot be built.

use super::{Balance, Gate, Group, Stages, generic};
use crate::threads::pool::{self, Pool};
use raddle_scheduler::expression::Expression;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// The largest number of places of a stage.
pub const MAX_CAPACITY: usize = 1 << 24;

/// Why stages could not be built. Nothing was started then.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// None was named.
    NoStage,
    /// Two have this name.
    Name(String),
    /// This one has no place, or more than [`MAX_CAPACITY`].
    Capacity {
        /// The stage.
        stage: String,
        /// Its places.
        capacity: usize,
    },
    /// There are fewer processors than stages: one would have none.
    Processors {
        /// How many processors were asked for.
        processors: usize,
        /// How many stages there are.
        stages: usize,
    },
    /// This one's policy is a ring, which no processor can join or leave.
    Ring(String),
    /// The pool of a stage cannot be built.
    Pool {
        /// The stage.
        stage: String,
        /// Why.
        error: pool::BuildError,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoStage => write!(f, "no stage was named: add at least one with `stage(name, places)`"),
            BuildError::Name(name) => write!(f, "two stages have the name `{name}`: give each its own"),
            BuildError::Capacity { stage, capacity } => {
                write!(f, "the stage `{stage}` has {capacity} places: give it at least 1 and at most {MAX_CAPACITY}")
            }
            BuildError::Processors { processors, stages } => {
                write!(f, "{processors} processors for {stages} stages: each needs one, so give at least {stages}")
            }
            BuildError::Ring(stage) => {
                write!(
                    f,
                    "the policy of the stage `{stage}` is a ring, which processors cannot join or leave: take another"
                )
            }
            BuildError::Pool { stage, error } => write!(f, "the stage `{stage}`: {error}"),
        }
    }
}

/// As it is displayed: an error that `main` returns points at the column of a policy.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

/// Makes [`Stages`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    stages: Vec<(String, usize, pool::Builder)>,
    processors: Option<usize>,
}

impl Builder {
    /// One more stage, with so many places, under the default policy. Name those first that feed others.
    pub fn stage(self, name: impl Into<String>, places: usize) -> Self {
        self.stage_with(name, places, Expression::default())
    }

    /// One more stage, under this policy: a text such as `steal(lifo)`, or an [`Expression`]. If the text is wrong,
    /// [`Builder::build`] says where.
    pub fn stage_with<P>(mut self, name: impl Into<String>, places: usize, policy: P) -> Self
    where
        P: TryInto<Expression>,
        P::Error: fmt::Display,
    {
        self.stages.push((name.into(), places, pool::Builder::new().policy(policy)));
        self
    }

    /// How many processors all stages have together. If nobody says so: as many as the process is allotted, or one for
    /// each stage, if that is more.
    pub fn processors(mut self, count: usize) -> Self {
        self.processors = Some(count);
        self
    }

    /// Starts the stages' processors, which begin in parts as equal as can be.
    ///
    /// # Errors
    /// [`BuildError`]; nothing is left then.
    pub fn build(self) -> Result<Stages, BuildError> {
        let count = self.stages.len();
        if count == 0 {
            return Err(BuildError::NoStage);
        }
        for (index, (name, capacity, _)) in self.stages.iter().enumerate() {
            if self.stages[..index].iter().any(|(other, ..)| other == name) {
                return Err(BuildError::Name(name.clone()));
            }
            if !(1..=MAX_CAPACITY).contains(capacity) {
                return Err(BuildError::Capacity { stage: name.clone(), capacity: *capacity });
            }
        }
        let processors = self.processors.unwrap_or_else(|| crate::os::default_processors().max(count));
        if processors < count {
            return Err(BuildError::Processors { processors, stages: count });
        }
        // The most that one can come to have, when all others have one.
        let room = processors - (count - 1);
        let mut pools: Vec<Pool> = Vec::new();
        let mut gates: Vec<&'static Gate> = Vec::new();
        for (index, (name, capacity, builder)) in self.stages.into_iter().enumerate() {
            let begin = processors / count + usize::from(index < processors % count);
            let pool = match builder.processors(begin).build_with_room(room) {
                Ok(Some(pool)) => pool,
                Ok(None) => return Err(BuildError::Ring(name)),
                Err(error) => return Err(BuildError::Pool { stage: name, error }),
            };
            let shared = pool.shared();
            shared.want(pool.processors());
            let gate = Gate {
                name,
                places: generic::Gate::new(capacity as u32),
                spawned: AtomicU64::new(0),
                begun: AtomicU64::new(0),
                pool: shared,
            };
            gates.push(Box::leak(Box::new(gate)));
            pools.push(pool);
        }
        // Where threads are kernel threads, nothing can move.
        let moves = gates.iter().all(|gate| gate.pool.wanted() > 0);
        let group: &'static Group = Box::leak(Box::new(Group { gates: gates.into(), balance: Balance::new(count) }));
        let stages = Stages { group, pools };
        // There is a slot for each pool.
        if moves && count > 1 {
            assert!(group.list(), "more groups of stages than pools");
        }
        Ok(stages)
    }
}
