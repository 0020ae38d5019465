//! The process: signals, forks, whose rights it has.
//!
//! Reading order: [`actions`] (handlers, wherever they arrive), [`alternate`] (the stacks of those for faults),
//! [`jumps`] (out of handlers), [`ending`] (`pthread_exit` in them), [`signals`] (signals to one thread), [`by_number`]
//! (by the number that `gettid` answers), [`process_directed`] (signals to the process), [`pending`] (both, on their
//! way), [`info`] (what is told of them), [`masks`] (what kernel threads block; [`masked_waits`]: in waits of theirs),
//! [`preempt`] (ticks of the timer that asks threads to give way), [`waiting`] (for signals), [`watch`] (waits and
//! handlers), [`kernel_waits`] (waits in the kernel that a cancellation ends), [`fork`], [`vfork`] (children that share
//! memory), [`clone`] (that begin in a function), [`step_aside`] (programs of sanitizers), [`exec`] (programs that
//! replace themselves; [`target`]: whether by one that can be taken over), [`rights`] (the set*id family), [`own`]
//! (what the kernel ties to a kernel thread), [`proc_paths`] (files that name a thread), [`sandbox`] (filters of system
//! calls), [`loader`] (calls under its locks), [`system_v`] (calls that no handler
//! restarts), [`limits`] (of address space).

mod actions;
mod alternate;
pub(crate) mod by_number;
mod clone;
mod contexts;
pub(crate) mod dump_signal;
pub(crate) mod ending;
pub(crate) mod exec;
pub(crate) mod fork;
mod info;
mod jumps;
pub(crate) mod kernel_waits;
mod limits;
mod loader;
pub(crate) mod masked_waits;
pub(crate) mod masks;
mod old_signals;
pub(crate) mod own;
pub(crate) mod own_calls;
pub(crate) mod pending;
pub(crate) mod preempt;
mod proc_paths;
pub(crate) mod process_directed;
pub(crate) mod rights;
pub(crate) mod sandbox;
pub(crate) mod signals;
mod spins;
pub(crate) mod step_aside;
mod system_v;
mod target;
pub(crate) mod vfork;
mod waiting;
pub(crate) mod watch;

pub(crate) use alternate::take_fault;
