//! What a driver sees: the coroutines, and what each of them is about to do.
//!
//! # Example
//! ```
//! use raddle_machine::{Atomic, Machine, Ordering};
//! use raddle_sim::{ByChance, Controlled, Op, Options, run, start};
//! let over = run(&Options { trace: true, ..Options::default() }, ByChance::new(1), || {
//!     let word = <Controlled as Machine>::Atomic::<u32>::new(7);
//!     start("swapper", move || {
//!         word.swap(8, Ordering::AcqRel);
//!     });
//! });
//! let step = over.trace.iter().find(|step| step.access.op == Op::Swap).unwrap();
//! assert!(step.access.is_exchange() && (step.old, step.new) == (7, 8));
//! assert_eq!(step.to_string(), "0 Swap @0 AcqRel 7 -> 8");
//! ```

use raddle_machine::Ordering;

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The coroutine has not begun.
    Begin,
    /// It was woken, or its time came, and it goes on after [`Op::Wait`].
    Return,
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Writes and reads what was there.
    Swap,
    /// Writes if it finds what it expects.
    CompareExchange,
    /// Adds.
    Add,
    /// Subtracts.
    Sub,
    /// Sets bits.
    Or,
    /// Keeps bits.
    And,
    /// A fence.
    Fence,
    /// The cheap side of an asymmetric fence.
    LightFence,
    /// Its dear side.
    HeavyFence,
    /// Nothing, while it waits for somebody else's step.
    SpinHint,
    /// Goes to sleep if it finds what it expects.
    Wait,
    /// Wakes sleepers.
    Wake,
    /// Computes for [`Access::amount`] nanoseconds.
    Work,
    /// Waits as long for data that have no location.
    Stall,
}

/// The location of a step that has none.
pub const NOWHERE: u32 = u32::MAX;

/// A step that a coroutine is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// What it does.
    pub op: Op,
    /// Where: the number of an atomic word, counted from 0 in the order of creation, or [`NOWHERE`].
    pub location: u32,
    /// With what ordering (of a compare-exchange: on success).
    pub order: Ordering,
    /// The nanoseconds of [`Op::Work`] and [`Op::Stall`], how many [`Op::Wake`] wakes at most.
    pub amount: u64,
}

impl Access {
    pub(crate) fn at(op: Op, location: u32, order: Ordering) -> Self {
        Self { op, location, order, amount: 0 }
    }

    pub(crate) fn nowhere(op: Op) -> Self {
        Self::at(op, NOWHERE, Ordering::Relaxed)
    }

    /// True if it may change its location (or who sleeps there).
    pub fn writes(&self) -> bool {
        use Op::{Add, And, CompareExchange, Or, Store, Sub, Swap, Wait, Wake};
        matches!(self.op, Store | Swap | CompareExchange | Add | Sub | Or | And | Wait | Wake)
    }

    /// True for read-modify-writes, a compare-exchange that may fail included.
    pub fn is_exchange(&self) -> bool {
        use Op::{Add, And, CompareExchange, Or, Sub, Swap};
        matches!(self.op, Swap | CompareExchange | Add | Sub | Or | And)
    }
}

/// A step that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// By whom.
    pub core: usize,
    /// What was done.
    pub access: Access,
    /// What was there before (0 without a location).
    pub old: u64,
    /// What is there now.
    pub new: u64,
    /// False where nothing was written: loads, compare-exchanges that failed.
    pub wrote: bool,
    /// True if the word can hold an address: `old` and `new` may then differ from run to run.
    pub address: bool,
}

impl std::fmt::Display for Step {
    /// The same in every run: addresses are left out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Access { op, location, order, amount } = self.access;
        write!(f, "{} {op:?}", self.core)?;
        if location != NOWHERE {
            write!(f, " @{location} {order:?}")?;
        } else if op == Op::Fence {
            write!(f, " {order:?}")?;
        }
        if amount != 0 {
            write!(f, " {amount}")?;
        }
        if op == Op::CompareExchange && !self.wrote {
            f.write_str(" failed")?;
        }
        match (location != NOWHERE && !self.address, self.wrote) {
            (true, true) => write!(f, " {} -> {}", self.old, self.new),
            (true, false) => write!(f, " {}", self.old),
            _ => Ok(()),
        }
    }
}

/// How a coroutine stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It can make the step that it is about to make.
    Ready,
    /// It sleeps at a location until it is woken or until a time.
    Waiting {
        /// Where.
        location: u32,
        /// Until when, at the latest.
        deadline: Option<u64>,
    },
    /// It is over.
    Ended,
}

/// One coroutine, as a driver sees it.
#[derive(Clone, Debug)]
pub struct Core {
    /// What it was called.
    pub name: String,
    /// How it stands.
    pub status: Status,
    /// What it does next, if it is ready.
    pub pending: Access,
    /// Steps that it has made.
    pub steps: u64,
    /// It has hinted that it spins, and nobody else has made a step since: it would find nothing new.
    pub spins: bool,
}

/// All coroutines of a run.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub(crate) cores: Vec<Core>,
    pub(crate) current: Option<usize>,
    pub(crate) time: u64,
    pub(crate) steps: u64,
    pub(crate) lines: crate::lines::Lines,
}

impl World {
    /// The cache line of a location, where lines are kept ([`crate::Options::lines`]); otherwise each location has its
    /// own.
    pub fn line(&self, location: u32) -> usize {
        self.lines.of(location)
    }

    /// The coroutines, by number.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Who made the last step, or is about to make the next one. None before the first.
    pub fn current(&self) -> Option<usize> {
        self.current
    }

    /// The time of the machine that does not ask its driver for it: the last deadline that has passed.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Steps made by all.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Who can make a step.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.cores.len()).filter(|&core| self.cores[core].status == Status::Ready)
    }

    /// Who can make a step that is worth it: those who are ready and do not spin, or all who are ready if all of them
    /// spin.
    pub fn useful(&self) -> impl Iterator<Item = usize> {
        let all_spin = self.ready().all(|core| self.cores[core].spins);
        self.ready().filter(move |&core| all_spin || !self.cores[core].spins)
    }

    /// Who sleeps.
    pub fn sleepers(&self) -> impl Iterator<Item = usize> {
        (0..self.cores.len()).filter(|&core| matches!(self.cores[core].status, Status::Waiting { .. }))
    }
}
