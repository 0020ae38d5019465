//! Where generic code of the runtime calls code of the program: closures, futures, drops.
//!
//! The compiler pass of quantum checks (`yields/`) leaves functions of the runtime alone, which it tells by their
//! names. What the optimiser puts into one of them would have no checks either, so in a build with the pass
//! (`--cfg raddle_yields`, as `raddle cargo` sets it) a program's code begins in a function of this module, which the
//! pass takes for the program's: it knows the module's name. In other builds nothing of this is left.
//!
//! Who calls hands over the program's closure itself: one of the runtime's own around it bears the runtime's name.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Calls `f`.
#[cfg_attr(raddle_yields, inline(never))]
#[cfg_attr(not(raddle_yields), inline(always))]
pub fn call<T>(f: impl FnOnce() -> T) -> T {
    f()
}

/// Calls `f` with `argument`.
#[cfg_attr(raddle_yields, inline(never))]
#[cfg_attr(not(raddle_yields), inline(always))]
pub fn call_with<A, T>(f: impl FnOnce(A) -> T, argument: A) -> T {
    f(argument)
}

/// Drops `value`.
#[cfg_attr(raddle_yields, inline(never))]
#[cfg_attr(not(raddle_yields), inline(always))]
pub fn let_go<T>(value: T) {
    drop(value);
}

/// Polls `future`.
#[cfg_attr(raddle_yields, inline(never))]
#[cfg_attr(not(raddle_yields), inline(always))]
pub fn poll<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    future.poll(context)
}
