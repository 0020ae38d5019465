//! The entry points of pthread and libc, over raddle: programs that nobody changed, on lightweight threads.
//!
//! Loaded with `LD_PRELOAD` (which `raddle run` does), or linked into a Rust program, the functions here take the place
//! of the C library's. The rule for each: if the caller is a lightweight thread outside the runtime
//! ([`raddle::drop_in::is_lightweight`]), the call is translated; otherwise it goes on to the C library's own function
//! (`next!`) or straight to the kernel. The attribute `entry` stands for what all have in common: the function is
//! exported, callers who are no such threads (`#[entry(if ours())]`) get the C library's, and so does `natively!()`.
//!
//! Threads that a program creates become lightweight; its first thread stays the kernel thread that it is, unless
//! `main` is to be one of them (`thread::first`). Objects (mutexes,
//! condition variables…) keep their state in the program's own memory and sleep on its address: lightweight threads in
//! raddle's table, kernel threads in the kernel's (`futex`), so that each wakes the other.
//!
//! Reading order: `os` (the C library behind us), `thread` (creation), `futex`, `sync`, `io`, `process`.

#[cfg(target_feature = "crt-static")]
compile_error!(
    "raddle takes the place of functions of the C library, which must be linked dynamically: build without `-C target-feature=+crt-static`"
);

#[allow(dead_code)] // each build uses what its features need
#[macro_use]
mod os;
mod c_interface;
mod c_locks;
mod futex;
mod io;
mod process;
mod quantum;
mod start;
mod stats;
mod sync;
mod thread;

/// Makes sure that a Rust program links this crate, whose functions then take the C library's place.
#[doc(hidden)]
pub fn link() {}
