//! What watches the processors and adapts them to the machine, and what tells of it.

pub(crate) mod busiest;
pub(crate) mod crowd;
pub(crate) mod deadlock;
pub(crate) mod dump;
pub(crate) mod follow;
pub(crate) mod idle_stacks;
pub mod info;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod standby;
pub(crate) mod ways;
