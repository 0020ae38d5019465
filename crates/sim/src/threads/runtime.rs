//! Where a simulated thread begins and ends, and what it asks of its runtime: to wait, to wake, to yield.

use super::record::Full;
use super::{After, Core, Simulated, here, me};
use crate::coroutine::{self, Coroutine, Handle};
use crate::machine::Controlled;
use raddle_queues::wait_list::NodePool;
use raddle_scheduler::{Epoch, Runtime, Thread, Wake};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A stack for a thread that has not begun.
pub(super) fn stack(core: &Core) -> Coroutine {
    let reused = core.spare.borrow_mut().pop();
    match reused {
        // SAFETY: its thread has ended, and left the stack for ever.
        Some(coroutine) => unsafe { coroutine.again(entry) },
        None => Coroutine::new(entry).unwrap_or_else(|why| panic!("no stack for a thread: {why}")),
    }
}

/// Where each thread begins and ends.
unsafe extern "C" fn entry(_: usize) -> ! {
    let pool = here();
    let running = || pool.cores[me()].running.get().unwrap_or_else(|| unreachable!("a thread runs"));
    // SAFETY: the thread that runs here is the caller's own (I1).
    let body = unsafe { running().as_ref() }.state.borrow_mut().body.take();
    let result = catch_unwind(AssertUnwindSafe(|| body.into_iter().for_each(|body| body())));
    // The core may be another one by now.
    let home: Handle = {
        let core = &pool.cores[me()];
        // SAFETY: the running thread's record, which lives until it has left its stack.
        let mut state = unsafe { running().as_ref() }.state.borrow_mut();
        state.after = After::Exit;
        state.panic = result.err();
        core.home.handle()
    };
    drop(pool);
    // SAFETY: the core's loop is suspended in `run_thread`; nothing here is used any more.
    unsafe { coroutine::leave(home) }
}

/// Leaves the core to its loop; returns when the thread runs again, perhaps on another core.
pub(super) fn leave(after: After) {
    let pool = here();
    let core = &pool.cores[me()];
    let record = core.running.get().unwrap_or_else(|| panic!("not in a thread of the simulation"));
    let (from, to) = {
        // SAFETY: the thread that runs here is the caller's own (I1).
        let mut state = unsafe { record.as_ref() }.state.borrow_mut();
        state.after = after;
        (state.coroutine.as_ref().map(Coroutine::handle), core.home.handle())
    };
    drop(pool);
    let Some(from) = from else { unreachable!("a thread that runs has a stack") };
    // SAFETY: `from` is the calling thread's stack, the core's loop is suspended in `run_thread`, nothing is borrowed.
    unsafe { coroutine::go(from, to) };
}

// SAFETY: a core runs one thread at a time, whose record `current` is; it suspends by its own coroutine, and is made
// ready by its claimant.
unsafe impl Runtime for Simulated {
    type Machine = Controlled;

    unsafe fn current() -> &'static Thread<Controlled> {
        let record = here().cores[me()].running.get().unwrap_or_else(|| panic!("not in a thread of the simulation"));
        // SAFETY: records live until the pool's end (I3), when no thread is left that could use this.
        unsafe { record.cast::<Thread<Controlled>>().as_ref() }
    }

    unsafe fn suspend(epoch: Epoch, deadline: Option<u64>) -> Wake {
        assert!(deadline.is_none(), "simulated threads know no time-outs");
        leave(After::Park(epoch));
        // SAFETY: the caller's own record.
        unsafe { Self::current() }.outcome()
    }

    unsafe fn make_ready(thread: &'static Thread<Controlled>) {
        let full = std::ptr::with_exposed_provenance_mut::<Full>(std::ptr::from_ref(thread).addr());
        // The first field of a record, whose provenance was exposed when it was made; not null.
        if let Some(record) = NonNull::new(full) {
            here().make_ready(me(), record);
        }
    }

    fn nodes() -> &'static NodePool<Controlled> {
        here().nodes
    }

    fn yield_now() {
        leave(After::Yield);
    }

    fn is_running(thread: &'static Thread<Controlled>) -> bool {
        let record = NonNull::from(thread).cast::<Full>();
        here().cores.iter().any(|core| core.running.get() == Some(record))
    }
}
