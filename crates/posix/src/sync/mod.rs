//! Locks and what goes with them, in the program's own memory.

mod mutex;
