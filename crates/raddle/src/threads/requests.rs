//! The monitor asks a thread that computes for a waiting half of its [`join`](crate::join).
//!
//! Halves lie on their thread's stack, and only the thread itself makes one a thread of its own: at a join, when it
//! blocks, when it yields. While it computes without doing any of these, other processors may become idle. Then the
//! monitor leaves a descriptor with the thread's activation, so that nothing has to be allocated, and interrupts its
//! kernel thread with [`SIGNAL`]; the handler, which runs as [`crate::carry::signal`] says, puts the oldest waiting
//! half into the descriptor and submits it.
//!
//! When it is asked says [`raddle_scheduler::govern::halves`]. Bound: the first half is offered within 16 ms of the
//! other processor's going to sleep, and all halves, one a period.
//!
//! Cost: nothing in a process that never called `join`. Otherwise an interrupt of a few microseconds and a look at
//! `/proc` every 8 ms for each thread that computes beside a sleeping processor. System calls that the kernel does not
//! restart may see the interrupt; only kernel threads that the kernel says are running are sent it. A program that
//! handles [`SIGNAL`] itself keeps it, and the bound is void: halves are offered by the thread alone then.

use crate::carry::activation::Activation;
use crate::os::{TaskState, signals, task_state};
use raddle_scheduler::govern::halves::Asked;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// SIGURG: ignored unless a program wants it, and hardly any does.
const SIGNAL: c_int = signals::URGENT;

/// Whether anybody ever joined.
static USED: AtomicBool = AtomicBool::new(false);
/// Somebody joins.
#[inline(always)]
pub(crate) fn note_use() {
    if !USED.load(Ordering::Relaxed) {
        USED.store(true, Ordering::Relaxed);
    }
}

/// What the monitor does for it, from its begin on: true while a thread computes beside a sleeping processor.
pub(crate) fn looks() -> crate::govern::monitor::Look {
    let mut requests = Requests::default();
    Box::new(move || USED.load(Ordering::Relaxed) && requests.ask_all())
}

/// The monitor's part.
#[derive(Default)]
struct Requests {
    seen: HashMap<u32, Asked>,
}

impl Requests {
    /// One look at all activations. True while one computes beside a sleeping processor.
    fn ask_all(&mut self) -> bool {
        let mut busy = false;
        for activation in crate::carry::activations::all() {
            let thread = activation.current.load(Ordering::Relaxed).addr();
            let idle = activation.processor_if_any().is_some_and(|p| p.pool.idle.sleeping() > 0);
            if thread == 0 || !idle {
                self.seen.remove(&activation.id);
                continue;
            }
            let seen = self.seen.entry(activation.id).or_default();
            if seen.is_due(thread, activation.has_request()) {
                let computes = task_state(activation.tid.load(Ordering::Relaxed)) == TaskState::Running;
                seen.tell(computes, computes && ask(activation));
            }
            busy |= seen.computes();
        }
        busy
    }
}

fn ask(activation: &'static Activation) -> bool {
    if !signals::own(SIGNAL, asked)
        || !activation.has_request() && !activation.request(crate::threads::thread::prepare())
    {
        return false;
    }
    crate::govern::monitor::HALVES_ASKED.fetch_add(1, Ordering::Relaxed);
    signals::send(activation.tid.load(Ordering::Relaxed), SIGNAL)
}

/// The handler.
unsafe extern "C" fn asked(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // SAFETY: installed by `signals::own` with all signals that can wait blocked; the arguments are the kernel's. What
    // it runs is lock-free, allocates nothing and does not leave by a jump.
    unsafe {
        crate::carry::signal::dispatch(signal, info, context, || {
            crate::carry::signal::interrupted(crate::threads::forkjoin::give)
        })
    };
}
