//! Events of the kernel's: who waits for which descriptor, the kernel's poller, and who looks at it when.

pub(crate) mod reactor;
pub(crate) mod table;
pub(crate) mod watch;

use raddle_scheduler::readiness;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Something to read or to accept, or the end of it.
    Read,
    /// Room to write, or the end of a connection's beginning.
    Write,
}

/// Why a wait ended without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Failure {
    /// The deadline has passed.
    TimedOut,
    /// The calling thread was cancelled.
    Cancelled,
    /// The descriptor is not open, or was closed meanwhile.
    Closed,
    /// There is nothing to wait for: a regular file, which only the kernel thread can wait for.
    AlwaysReady,
    /// The kernel cannot watch it, or has no memory to: only the kernel thread can wait for it.
    Unsupported,
}

/// What is known of a descriptor at one moment, before an attempt.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    pub(crate) life: u32,
    count: readiness::Glance,
}

impl Glance {
    /// To be taken before an attempt on the descriptor.
    #[inline]
    pub fn at(descriptor: i32, interest: Interest) -> Self {
        table::glance(descriptor, interest)
    }

    /// True if the attempt would find nothing, as the last one did, or took all there was ([`Glance::emptied`]), and no
    /// event came since.
    #[inline]
    pub fn is_empty(self, descriptor: i32, interest: Interest) -> bool {
        table::is_empty(descriptor, interest, self)
    }

    /// The attempt that followed has left nothing.
    #[inline]
    pub fn emptied(self, descriptor: i32, interest: Interest) {
        table::emptied(descriptor, interest, self);
    }
}
