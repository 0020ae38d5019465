//! `lifo`: the newest ready thread first, woken ones included; a stack per processor, steals from the old end.
//!
//! Source: the local LIFO of *Effective parallelism with OCaml schedulers* (the MSc report), chapter 4. Differs: a
//! stack per processor instead of one for all. One global stack was rejected: all processors would contend for one word
//! at each push and pop, and a policy whose order is global but arbitrary (the newest, which changes while one looks)
//! promises nothing that the local order does not.
//!
//! It is [`steal`](super::steal) with other places: spawned *and woken* threads go to the stack. Threads that yield or
//! come from outside go to the queue. Of [`ROUND`](super::steal::ROUND) selections one prefers the queue, the others
//! the stack; of [`ELDERS`](super::steal::ELDERS) one takes the oldest of the stack. So a loop of yields lets each
//! other thread run, and so does a stack that never empties.
//!
//! Suits: fork-join trees, new threads whose data is still in the cache. Bad at: latency (the oldest wait longest,
//! which is where the high percentiles come from), fairness among requests of a server, two threads that wake each
//! other by turns (`steal` takes a fifth of the time).
//!
//! A frozen processor strands its private threads (see `steal`) until it is taken over.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let policy = policies::build::<Real>(&"lifo".parse().unwrap(), 2, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "lifo");
//! ```
#![forbid(unsafe_code)]

use super::Others;
use super::steal::Steal;
use crate::expression::Stealing;
use raddle_machine::Machine;
use raddle_queues::Full;
use std::sync::Arc;

/// The policy: [`Steal`] with the newest first.
pub type Lifo<M> = Steal<M, true>;

/// For at most `processors` processors.
pub fn lifo<M: Machine>(processors: usize, others: Arc<dyn Others>) -> Result<Lifo<M>, Full> {
    Lifo::new(Stealing::default(), processors, others)
}
