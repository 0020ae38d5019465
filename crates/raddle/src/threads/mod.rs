//! What threads do: spawn, join, park, sleep, yield, scopes and halves.

pub(crate) mod fallback;
pub(crate) mod forkjoin;
pub(crate) mod giving_way;
pub(crate) mod handle;
pub(crate) mod host;
pub(crate) mod members;
pub(crate) mod panics;
pub mod park;
pub mod pool;
pub mod quantum;
pub(crate) mod requests;
pub(crate) mod scope;
pub(crate) mod tasks;
pub mod thread;
pub mod time;
