//! A handle to a thread, lightweight or not: its number, its name, and a place where it parks.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! let thread = pool.spawn(|| {
//!     raddle::park();
//!     raddle::current().id()
//! });
//! let id = thread.thread().id();
//! thread.thread().unpark();
//! assert_eq!(thread.join().unwrap(), id);
//! ```

use crate::Host;
use crate::carry::descriptor::Descriptor;
use raddle_scheduler::parker;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

/// A thread's number, which no other one of the process gets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId(u64);

impl std::fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ThreadId({})", self.0)
    }
}

impl ThreadId {
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: a counter only.
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

struct Parker {
    parker: parker::Parker<Host>,
    name: Option<String>,
    id: OnceLock<ThreadId>,
}

/// A handle to a thread, lightweight or not: to unpark it.
#[derive(Clone)]
pub struct Thread(Arc<Parker>);

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Thread {
    /// The one handle to a thread. For the thread, and for whoever has its join handle.
    pub(crate) fn of(descriptor: &Descriptor) -> &Self {
        descriptor.handle(Self::new)
    }

    /// Of a thread that has none yet, or of a future.
    pub(crate) fn new(name: Option<String>) -> Self {
        Self(Arc::new(Parker { parker: parker::Parker::new(), name, id: OnceLock::new() }))
    }

    /// Leaves a token with the thread, and wakes it if it is parked. Tokens do not add up.
    pub fn unpark(&self) {
        self.0.parker.unpark();
    }

    /// The thread's number.
    pub fn id(&self) -> ThreadId {
        *self.0.id.get_or_init(ThreadId::new)
    }

    /// The thread's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// # Safety
    /// Called by one thread only, whose waits here may be ended by whoever has the handle.
    pub(crate) unsafe fn park(&self, deadline: Option<u64>) {
        // SAFETY: the caller is the owner.
        unsafe { self.0.parker.park(deadline) };
    }

    /// Unparks the thread.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }
}

impl std::task::Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.parker.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.parker.unpark();
    }
}
