//! Dropping values of the program where an unwinding must not get out.
//!
//! The payload of a panic is a value like any other: its drop may panic, with a payload whose drop panics in turn.
//! Whoever drops one while others rely on what comes next (a scope that waits for a count, a list that points into a
//! frame) calls [`discard`].
//!
//! # Example
//! ```
//! struct Bomb;
//! impl Drop for Bomb {
//!     fn drop(&mut self) {
//!         std::panic::panic_any(Bomb);
//!     }
//! }
//! assert!(!raddle_scheduler::discard::discard(Bomb));
//! assert!(raddle_scheduler::discard::discard(7));
//! ```

use crate::code_of_program;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops `value`. If its drop panics, the payload of that is leaked. True if it did not.
pub fn discard<T>(value: T) -> bool {
    match catch_unwind(AssertUnwindSafe(|| code_of_program::let_go(value))) {
        Ok(()) => true,
        Err(payload) => {
            // It may panic too, and so on for ever.
            std::mem::forget(payload);
            false
        }
    }
}
