//! What runs threads: kernel threads that carry processors, the switch, and what a processor does besides.

pub(crate) mod activation;
pub(crate) mod activations;
pub(crate) mod clocks;
pub(crate) mod debug_layout;
pub(crate) mod dedicated;
pub(crate) mod delays;
pub(crate) mod descriptor;
pub(crate) mod duties;
pub(crate) mod events;
pub(crate) mod foreign;
pub(crate) mod guard;
pub(crate) mod handoff;
pub(crate) mod kept;
pub mod pool;
pub(crate) mod processor;
pub mod signal;
pub(crate) mod switching;
pub(crate) mod wander;
pub(crate) mod witness;
