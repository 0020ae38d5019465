//! Code of others that the runtime calls: a policy of the program's own, and what such a policy calls in turn.
//!
//! Most of it is called inside the mark, while references into owner-only state are in use. So it runs
//! - *as nobody's thread*, as a signal handler does ([`crate::carry::signal`], rule 2): whatever it calls of this
//!   library takes the caller for a kernel thread. A spawn and a wake-up go through the pool's shared queue, a wait
//!   blocks the kernel thread, and nothing reaches the state that is in use. A panic hook that runs for a panic in it
//!   is in the same position;
//! - *to its end*: a panic would leave queues half changed and threads lost, so it ends the process, with the policy's
//!   name.
//!
//! All places where code of others runs: `docs/contexts.md`.

/// Runs `f`, which calls the policy `name`.
#[inline]
pub(crate) fn policy<T>(name: &str, f: impl FnOnce() -> T) -> T {
    crate::os::or_abort(|| format!("the policy `{name}` panicked"), || crate::carry::signal::as_nobody(f))
}
