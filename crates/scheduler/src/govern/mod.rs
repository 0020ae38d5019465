//! The governor: what was observed in, orders out. Pure functions and states without atomics or clocks, so that each is
//! tested by itself; who takes the census and carries orders out is `crates/raddle/src/govern` and
//! `crates/raddle/src/services/stage`.
#![forbid(unsafe_code)]

pub mod allot;
pub mod backoff;
pub mod balance;
pub mod crowd;
pub mod halves;
pub mod handoff;
pub mod sends;
pub mod short;
pub mod stall;
