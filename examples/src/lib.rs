//! The samples of README and docs: each is compiled and run as a documentation test of this package, which names the
//! library as its users do.
//!
//! The examples are the programs in `src/bin`, the one in C in `c`, the one in C++ beside it, and `ring.py`.
#![forbid(unsafe_code)]

/// Makes the samples of a page documentation tests.
macro_rules! pages {
    ($($name:ident = $path:literal),* $(,)?) => {
        $(#[cfg(doctest)] #[doc = include_str!($path)] pub struct $name;)*
    };
}

pages! {
    Readme = "../../README.md",
    FromStd = "../../docs/from-std.md",
    FromTokio = "../../docs/from-tokio.md",
    FromRayon = "../../docs/from-rayon.md",
    Servers = "../../docs/servers.md",
    Pipelines = "../../docs/pipelines.md",
    ForkJoin = "../../docs/fork-join.md",
    Cancellation = "../../docs/cancellation.md",
    TokioAndRaddle = "../../docs/tokio-and-raddle.md",
    Locks = "../../docs/locks.md",
    Policies = "../../docs/policies.md",
    Preemptible = "../../docs/preemptible.md",
}
