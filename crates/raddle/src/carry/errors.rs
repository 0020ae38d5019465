//! Why there is no pool, or no thread.

use crate::carry::activations::MAX_ACTIVATIONS;
use crate::carry::pool::{MAX_POOLS, MAX_PROCESSORS};
use std::fmt;

/// Why a pool could not be built. Each names its cause and a remedy.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero, or more than [`MAX_PROCESSORS`].
    Processors(usize),
    /// The policy cannot be made so.
    Policy(String),
    /// No address space for stacks.
    Stacks(String),
    /// The kernel refused a thread.
    KernelThread(String),
    /// More activations than a process may have.
    Activations,
    /// More pools than a process may have.
    Pools,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Processors(n) => {
                write!(
                    f,
                    "{n} processors asked for: give at least 1 and at most {MAX_PROCESSORS}, or none for one per allotted core"
                )
            }
            BuildError::Policy(error) => write!(f, "the policy cannot be made: {error}"),
            BuildError::Stacks(error) => {
                write!(
                    f,
                    "no address space for stacks: {error}; raise `ulimit -v`, or set vm.overcommit_memory to 0 or 1"
                )
            }
            BuildError::KernelThread(error) => {
                write!(
                    f,
                    "the kernel refused a thread for a processor: {error}; ask for fewer processors or raise `ulimit -u`"
                )
            }
            BuildError::Activations => write!(f, "all {MAX_ACTIVATIONS} kernel threads are in use: end a pool first"),
            BuildError::Pools => write!(f, "all {MAX_POOLS} pools are in use: end one first"),
        }
    }
}

/// As it is displayed: an error that `main` returns shows its lines, and the column of a wrong policy.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

/// Why a thread could not be spawned. Nothing was started, and the closure was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// No memory for a descriptor.
    Memory,
    /// No stack slot is left for one more live thread, or no address space for that stack size.
    Stack(String),
    /// A stack size that cannot be had.
    StackSize(String),
    /// A priority that the pool's policy does not tell apart: 0 to the given number.
    Priority(u8),
    /// The kernel refused a thread (where threads are kernel threads).
    KernelThread(String),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Memory => {
                write!(f, "no memory for another thread: end some, or raise the process's memory limit")
            }
            SpawnError::Stack(error) => write!(f, "no stack for another thread: {error}"),
            SpawnError::StackSize(error) => write!(f, "{error}"),
            SpawnError::Priority(max) => {
                write!(
                    f,
                    "this pool's policy tells priorities 0 to {max} apart; use `priority(n, ...)` as policy for more"
                )
            }
            SpawnError::KernelThread(error) => write!(f, "the kernel refused a thread: {error}"),
        }
    }
}

impl std::error::Error for SpawnError {}
