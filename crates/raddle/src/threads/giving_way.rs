//! Ways for a running thread to give way: to whoever is ready, only where it is cheap, or only to who is more urgent.
#![forbid(unsafe_code)]

use crate::carry::switching::current;
use std::sync::atomic::Ordering;

/// Offers the processor to ready threads of the same or a higher priority; goes on at once if there is none.
///
/// A loop that yields until another thread of its priority has done something ends, under every policy and on one
/// processor (the *hard* yield of the MSc report *Effective parallelism with OCaml schedulers*, section 4.4.4).
/// [`yield_softly`] makes no such promise.
#[inline]
pub fn yield_now() {
    match current() {
        Some(me) => {
            crate::carry::switching::yield_now(me);
        }
        None => std::thread::yield_now(),
    }
}

/// Offers the processor only where that is cheap: while other processors are idle, and the offer would wake one of them
/// to run the caller, nothing happens. True if another thread ran.
///
/// For long computations that may give way now and then, and need not. No promise that others come to run (the *soft*
/// yield of section 4.4.4): a loop that waits for another thread calls [`yield_now`]. On a kernel thread that runs no
/// lightweight one nothing happens.
///
/// ```
/// let pool = raddle::Builder::new().processors(1).build().unwrap();
/// pool.run(|| {
///     let other = raddle::spawn(|| 7);
///     // On one processor nobody is idle while this runs: the other thread, which is ready, goes first.
///     while !other.is_finished() {
///         raddle::thread::yield_softly();
///     }
///     assert!(!raddle::thread::yield_softly(), "there is nobody else");
/// });
/// assert!(!raddle::thread::yield_softly());
/// ```
#[inline]
pub fn yield_softly() -> bool {
    current().is_some_and(crate::carry::switching::yield_in_silence)
}

/// A quantum check: gives the processor up only if a thread of a higher priority is waiting for it. Two loads
/// otherwise.
#[inline]
pub fn check() {
    if let Some(me) = current()
        && crate::carry::switching::activation_of(me).processor().preempt.load(Ordering::Relaxed)
    {
        crate::carry::caller::preempted(me);
    }
}
