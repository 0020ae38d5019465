//! The drop-in library as it is shipped.
//!
//! `raddle-posix` builds the same functions, for its tests and for Rust programs that link them, but a package that
//! makes a Rust library and a C library at once gets no link-time optimisation. This one makes only the latter.

pub use raddle_posix::link;
