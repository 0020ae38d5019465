//! The lock-free structures: one algorithm per file, generic over the [`raddle_machine::Machine`] that runs it.
//!
//! Items are word-sized handles (`usize`, never 0) held in atomics, so that checkers for data races run with no
//! suppression. Architecture invariant: no system call but for memory, no atomic but the machine's, no lock but
//! [`locked`], of which the policies are made that are there to be compared with the others.

pub mod board;
pub mod bump;
pub mod fifo_ring;
pub mod inbox;
pub mod lifo_ring;
pub mod locked;
pub mod pad;
pub mod places;
pub mod rights;
mod ring_buffer;
pub mod slab;
pub mod slot;
pub mod spsc;
pub mod tickets;
pub mod unbounded;
pub mod wait_list;

pub use ring_buffer::{Full, MAX_CAPACITY};
