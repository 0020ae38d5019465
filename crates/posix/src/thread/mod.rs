//! Threads: the record behind a `pthread_t`, and the entry points that take one.
//!
//! A `pthread_t` of ours is the address of a [`Record`] plus one: it exists before the thread has a stack, cannot be taken for one of the C
//! library's (those are aligned), and is not reused before the thread was joined, or has ended detached.

mod create;
pub(crate) mod record;

pub(crate) use create::pthread_create;
