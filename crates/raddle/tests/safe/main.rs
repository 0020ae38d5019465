//! Misuse that safe code can write: whatever it does, nothing undefined comes of it. At worst a panic, or an end of the
//! process that says whose fault it was.
//!
//! Each case is a program of its own: it runs in a child process, once with lightweight threads and once with
//! `RADDLE_KERNEL_THREADS=1`, and is bound in time ([`harness`]). `cargo xtask ci` runs them without and with
//! optimisation. What must not even compile stands in `src/refused.rs`.
#![forbid(unsafe_code)]

#[macro_use]
mod harness;

mod clusters;
mod conditions;
mod guests;
mod locks;
mod messages;
mod payloads;
mod places;
mod policies;
mod promotion;
mod scopes;
mod sharing;
mod tasks;
mod traces;
mod waits;
