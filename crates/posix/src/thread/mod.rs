//! Threads: the record behind a `pthread_t`, and the entry points that take one.
//!
//! A `pthread_t` of ours is the address of a [`record::Record`] plus one: it exists before the thread has a stack,
//! cannot be taken for one of the C library's (those are aligned), and is not reused before the thread was joined, or
//! has ended detached.
//!
//! Reading order: [`caller`] (who calls), [`record`], [`create`], [`trampoline`] (the outermost frame), [`exit`],
//! [`join`], [`cancel`], [`libc_word`], [`identity`], [`c11`], [`first`].

mod c11;
pub(crate) mod caller;
pub(crate) mod cancel;
pub(crate) mod clocks;
mod create;
pub(crate) mod dedicated;
pub(crate) mod exit;
mod first;
mod identity;
mod join;
pub(crate) mod libc_word;
pub(crate) mod record;
pub(crate) mod trampoline;
pub(crate) mod undo;

pub(crate) use create::pthread_create;
pub(crate) use identity::{carrier_of, gettid, is_all_processors, name_by_prctl, names_child, number_to_ask};
