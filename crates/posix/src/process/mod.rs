//! The process: signals, forks, whose rights it has.
//!
//! Reading order: [`actions`] (handlers, wherever they arrive), [`signals`] (signals to one thread), [`waiting`] (for signals),
//! [`fork`], [`rights`] (the set*id family).

mod actions;
mod fork;
mod rights;
pub(crate) mod signals;
mod waiting;
