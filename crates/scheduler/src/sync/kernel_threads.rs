//! The smallest runtime: kernel threads that sleep on their record's token. For tests and examples of the primitives.
//!
//! # Example
//! ```
//! use raddle_scheduler::sync::{Mutex, kernel_threads::KernelThreads};
//! static COUNT: Mutex<u32, KernelThreads> = Mutex::new(1);
//! assert_eq!(*COUNT.lock().unwrap(), 1);
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
    static CURRENT: &'static Thread<Real> = {
        // SAFETY: this runtime knows no descriptors; leaked, so type-stable.
        Box::leak(Box::new(unsafe { Thread::new(0, KERNEL_THREAD) }))
    };
}

impl Runtime for KernelThreads {
    type Machine = Real;

    unsafe fn current() -> &'static Thread<Real> {
        CURRENT.with(|thread| *thread)
    }

    unsafe fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
        // SAFETY: used for the wait that the caller armed.
        let thread = unsafe { Self::current() };
        if thread.finish_park(epoch).is_ok() {
            loop {
                // Ordering[token]: Acquire. Pairs with `make_ready`. Orders this read before the look at the wait word.
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

    unsafe fn make_ready(thread: &'static Thread<Real>) {
        // Ordering[token]: Release. Pairs with `suspend`. Makes visible: that the wait was claimed.
        thread.token.fetch_add(1, Ordering::Release);
        Real::wake(&thread.token, 1);
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
