//! Queues of [`Ready`] tokens: the thin typed skin over `raddle_queues`, which moves words.
//!
//! All `unsafe` that the policies stand on is here, and what it claims is one thing: a word that goes into a queue is a
//! token given up, a word that comes out is that token, and the queues return each word once (their invariants, tested
//! there). So the policies themselves are safe code that cannot run a thread twice.
//!
//! A queue that is dropped gives its tokens up one by one, so that each is reported like any other dropped token.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::tokens::Fifo;
//! let mut queue = Fifo::<Real>::new(64).unwrap();
//! assert!(queue.pop().is_none());
//! assert!(queue.view().is_empty());
//! ```

mod global;
mod inbox;
mod request;
mod ring;
mod shards;
mod stealing;
mod tickets;

pub use global::{Global, GlobalEnd};
pub use inbox::{CountedInbox, Inbox};
pub use raddle_queues::board::Board;
pub use raddle_queues::locked::Locked;
pub use raddle_queues::slot::Slot;
pub use request::Door;
pub use ring::{Gauge, WaiverIn, WaiverOut, WaiverView, waiver};
pub use shards::{Shards, ShardsEnd};
pub use stealing::{Fifo, FifoView, Lifo, LifoView, NEAR, Near, Stolen};
pub use tickets::{Tickets, TicketsEnd};

use crate::ready::Ready;
use raddle_machine::Machine;

/// The token that was given up as this word.
#[inline(always)]
fn token<M: Machine>(word: usize) -> Ready<M> {
    // SAFETY: the queues of this module are private to it and hold only what `into_word` gave; each word leaves one
    // once.
    unsafe { Ready::from_word(word) }
}
