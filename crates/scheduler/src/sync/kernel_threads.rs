//! The smallest runtime: kernel threads that sleep on their record's token. For tests and examples of the primitives.
//!
//! # Example
//! ```
//! use raddle_scheduler::sync::{Mutex, kernel_threads::KernelThreads};
//! static COUNT: Mutex<u32, KernelThreads> = Mutex::new(1);
//! assert_eq!(*COUNT.lock().unwrap(), 1);
//! ```

use crate::runtime::Runtime;
use crate::thread::{Epoch, KERNEL_THREAD, Thread, Wake};
use raddle_machine::Real;
use raddle_queues::wait_list::NodePool;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct KernelThreads;

static NODES: NodePool<Real> = NodePool::constant();

/// Aligned as runtimes' records are: a join word holds its address without the lowest bits.
#[repr(align(128))]
struct Record(Thread<Real>);

thread_local! {
    // Leaked: a stale waker may read a record for ever.
    static CURRENT: &'static Thread<Real> = {
        // SAFETY: this runtime knows no descriptors; leaked, so type-stable.
        &Box::leak(Box::new(Record(unsafe { Thread::new(0, KERNEL_THREAD) }))).0
    };
}

// SAFETY: the record is thread-local and leaked, and a wait ends by its claim.
unsafe impl Runtime for KernelThreads {
    type Machine = Real;

    unsafe fn current() -> &'static Thread<Real> {
        CURRENT.with(|thread| *thread)
    }

    unsafe fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
        // SAFETY: used for the wait that the caller armed.
        let thread = unsafe { Self::current() };
        if thread.finish_park(epoch).is_ok() {
            thread.sleep_on_token(epoch, deadline);
        }
        thread.outcome()
    }

    unsafe fn make_ready(thread: &'static Thread<Real>) {
        thread.ring_token();
    }

    fn nodes() -> &'static NodePool<Real> {
        &NODES
    }

    fn yield_now() {
        Real::yield_kernel_thread();
    }

    fn is_running(_: &'static Thread<Real>) -> bool {
        false
    }
}
