//! Moving the calling thread: to another pool, or off its processor for as long as a call takes.
//!
//! A program may have several pools, each with a policy and processors of its own: one for requests and one for
//! reports, or one for each stage of a pipeline, joined by bounded channels. Threads of different pools share all of
//! [`crate::sync`].
//!
//! # Example
//! ```
//! let front = raddle::Builder::new().processors(1).build().unwrap();
//! let back = raddle::Builder::new().processors(1).policy("priority(2, fifo)").build().unwrap();
//! let (front, back) = (&front, &back);
//! front.run(|| {
//!     assert!(front.is_current());
//!     raddle::move_to(back).unwrap();
//!     assert!(back.is_current());
//! });
//! ```

use super::Pool;
use crate::carry::switching;
use raddle_scheduler::code_of_program;
use std::fmt;
use std::sync::atomic::Ordering;

/// Why a thread was not moved; it goes on where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// The caller is a kernel thread, which belongs to no pool.
    KernelThread,
    /// The other pool's policy tells priorities 0 to the given number apart, and the thread has a higher number.
    Priority(u8),
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveError::KernelThread => {
                write!(f, "a kernel thread belongs to no pool: `Pool::run` and `Pool::spawn` start a thread in one")
            }
            MoveError::Priority(most) => {
                write!(
                    f,
                    "the other pool's policy tells priorities 0 to {most} apart, and the thread's is a higher number"
                )
            }
        }
    }
}

impl std::error::Error for MoveError {}

/// Goes on in `pool`: from its return on the calling thread is run by that pool's processors, under its policy, and
/// what it spawns starts there. Its stack, its storage and its handle stay what they are. Lock-free if both policies
/// are; costs a wait and a wake-up.
///
/// A pool cannot be dropped before its threads have ended or left, and a borrowed one not at all: no thread can move to
/// a pool that is shutting down.
///
/// # Errors
/// [`MoveError`]; nothing has changed.
pub fn move_to(pool: &Pool) -> Result<(), MoveError> {
    let me = switching::current().ok_or(MoveError::KernelThread)?;
    let pool = pool.shared();
    if me.pool() == pool.index {
        return Ok(());
    }
    if me.thread.priority_now() >= pool.priorities {
        return Err(MoveError::Priority(pool.priorities - 1));
    }
    // Counted there first: the borrow keeps that pool from being dropped until then, the count from then on.
    pool.moved_in.fetch_add(1, Ordering::Release);
    switching::move_to(me, pool);
    Ok(())
}

/// Runs `f`, which is known to take long without a step into the runtime: a computation, or calls that block in the
/// kernel. The processor goes on with other threads at once, on another kernel thread, where it would otherwise take
/// the monitor milliseconds to find out. `f` runs on the calling thread itself, with its storage and on its stack;
/// afterwards the thread waits for a processor like any other.
///
/// Costs a wake-up of a kernel thread, some microseconds, and one kernel thread for each call at a time. If none can be
/// had, `f` keeps the processor until the monitor sees to it. On a kernel thread it is a plain call.
///
/// # Example
/// ```
/// let pool = raddle::Builder::new().processors(1).build().unwrap();
/// let sum: u64 = pool.run(|| raddle::blocking(|| (0..1000).sum()));
/// assert_eq!(sum, 499_500);
/// ```
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    crate::carry::caller::give_processor_away(true);
    let result = code_of_program::call(f);
    if let Some(me) = switching::current().filter(|_| crate::carry::caller::is_lightweight()) {
        switching::enter(me).leave();
    }
    result
}
