//! The smallest runtime: kernel threads that sleep on their record's token. For tests and examples of the primitives.
//!
//! # Example
//! ```
//! use raddle_scheduler::{Runtime, sync::kernel_threads::KernelThreads};
//! assert!(KernelThreads::current().is_kernel_thread());
//! ```

use crate::runtime::Runtime;
use crate::thread::{Claim, Epoch, KERNEL_THREAD, Thread, Wake};
use raddle_machine::{Atomic, Machine, Ordering, Real};
use raddle_queues::wait_list::NodePool;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct KernelThreads;

static NODES: NodePool<Real> = NodePool::constant();

thread_local! {
    // Leaked: a stale waker may read a record for ever.
    static CURRENT: &'static Thread<Real> = Box::leak(Box::new(Thread::new(0, KERNEL_THREAD)));
}

impl Runtime for KernelThreads {
    type Machine = Real;

    fn current() -> &'static Thread<Real> {
        CURRENT.with(|thread| *thread)
    }

    fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
        let thread = Self::current();
        if thread.finish_park(epoch).is_ok() {
            loop {
                let token = thread.token.load(Ordering::Acquire);
                if thread.is_fired(epoch) {
                    break;
                }
                if deadline.is_some_and(|deadline| Real::now() >= deadline) {
                    // Won or lost: the wait is over.
                    let (Claim::Lost | Claim::WonArming | Claim::WonParked) = thread.claim(epoch, Wake::TimedOut);
                    break;
                }
                Real::wait(&thread.token, token, deadline);
            }
        }
        thread.outcome()
    }

    fn make_ready(thread: &'static Thread<Real>) {
        thread.token.fetch_add(1, Ordering::Release);
        Real::wake(&thread.token, 1);
    }

    fn nodes() -> &'static NodePool<Real> {
        &NODES
    }

    fn yield_now() {
        std::thread::yield_now();
    }

    fn is_running(_: &'static Thread<Real>) -> bool {
        false
    }
}
