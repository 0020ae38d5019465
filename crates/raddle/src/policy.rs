//! Policies: their expressions, and what one of your own is made of.
//!
//! ```
//! use raddle::policy::Expression;
//! let pool = raddle::Builder::new().processors(2).policy("priority(3, steal(lifo))").build().unwrap();
//! assert_eq!(pool.policy().to_string(), "priority(3, steal)");
//! let wrong = "priority(3, steel)".parse::<Expression>().unwrap_err();
//! assert_eq!(wrong.column(), 13);
//! ```
//!
//! A policy of your own implements [`Policy`] and [`Local`] over [`tokens`], and is given to
//! [`crate::Builder::own_policy`]: `docs/write-your-own-policy.md`.

pub use raddle_machine::{Machine, Real};
pub use raddle_scheduler::expression::{Expression, ExpressionError};
pub use raddle_scheduler::policies::Others;
pub use raddle_scheduler::{Cause, Local, Notify, Policy, Ready, tokens};
