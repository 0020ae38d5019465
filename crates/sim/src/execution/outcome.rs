//! What a run is asked to do, and what comes out of it.

use crate::world::{Access, NOWHERE, Step};

/// What a run is to do besides running.
#[derive(Clone, Debug)]
pub struct Options {
    /// What [`raddle_machine::Machine::random`] answers follows from it.
    pub seed: u64,
    /// After so many steps the run is over: somebody loops.
    pub steps: u64,
    /// Whether to keep the happens-before relation ([`crate::Published`] asks for it).
    pub clocks: bool,
    /// Whether to keep all steps.
    pub trace: bool,
    /// Whether words that lie side by side share cache lines.
    pub lines: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, steps: 1_000_000, clocks: true, trace: false, lines: false }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All coroutines came to their ends.
    Done,
    /// Nobody is ready, and these sleep without a deadline.
    Asleep(Vec<String>),
    /// A coroutine panicked.
    Panicked {
        /// Which.
        name: String,
        /// What it said, and where.
        message: String,
    },
    /// The limit of steps was reached.
    Endless {
        /// Who made the most of them.
        name: String,
        /// How many it made.
        steps: u64,
        /// What it was about to do.
        last: Access,
    },
    /// The driver stopped it.
    Stopped,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Done => f.write_str("all ended"),
            Outcome::Asleep(names) => write!(f, "asleep for ever: {}", names.join(", ")),
            Outcome::Panicked { name, message } => write!(f, "{name}: {message}"),
            Outcome::Endless { name, steps, last } => {
                write!(f, "{name} goes on without end: {steps} steps, the next one {:?}", last.op)?;
                if last.location == NOWHERE { Ok(()) } else { write!(f, " @{}", last.location) }
            }
            Outcome::Stopped => f.write_str("stopped"),
        }
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Run<D, T> {
    /// How it ended.
    pub outcome: Outcome,
    /// Steps of all coroutines.
    pub steps: u64,
    /// All steps, if they were asked for.
    pub trace: Vec<Step>,
    /// A word made of all steps (addresses left out): equal traces have equal ones.
    pub digest: u64,
    /// The driver.
    pub driver: D,
    /// What the setup returned.
    pub value: T,
}

impl<D, T> Run<D, T> {
    /// The trace, a line for each step; the same in every run with the same seed and driver.
    pub fn trace_text(&self) -> String {
        self.trace.iter().map(|step| format!("{step}\n")).collect()
    }
}
