//! A thread that comes back from a block of which nothing had told waits for its turn: no more activations run than
//! there are processors.
//!
//! Source: T. E. Anderson et al., "Scheduler Activations: Effective Kernel Support for the User-Level Management of
//! Parallelism" (1991), section 3.1 and figure 1: when a blocked activation can go on, the user level hears of it,
//! and its thread goes to the ready list. Differs from the paper: nobody is preempted for the notice. The kernel
//! thread that comes back brings it itself, before the first instruction of the program's, and the thread keeps its
//! kernel thread: whichever processor selects it is passed on to that.
//!
//! How it is known: a processor was taken from an activation that blocked ([`crate::govern::standby`],
//! [`crate::govern::monitor`]). The monitor asks at its next looks at which instruction that one is in the kernel, and
//! has the kernel continue it elsewhere when it comes back to that instruction: in the area for restartable sequences
//! ([`crate::os::CoreWord::trap`]), by [`raddle_context::interlude`]. So it costs nothing where nothing blocks, ends no
//! system call early, and asks for no right.
//!
//! The states and their steps: [`raddle_scheduler::turn`].
//!
//! Handlers: all signals that can wait are blocked while a thread waits for its turn. One that has come with the
//! return, or comes just after, finds the thread at its own instruction ([`set_back`]), and the thread goes on beside
//! the others.
//!
//! No processor without a carrier: where no kernel thread can be had for a spare, all that there are could wait here
//! while the processors are nobody's. So a thread that enters the runtime and finds a processor free takes it, and
//! its activation carries others (`LEAVING`): the thread goes off its stack, to be resumed like any other. The monitor
//! has those that wait look again while a processor stays free.
//!
//! Policies: only where the pool's takes a thread without memory and without a lock (`steal`): others, and those of the
//! program's own, are not asked here. Under them it runs beside the others at once.
//!
//! Bound: it waits for [`PATIENCE_NS`] at most while it has a processor to wait for: then it runs beside the
//! others, as the kernel shares the cores, until it enters the runtime. So nobody waits for ever for one who has a
//! lock of the C library's. One that was back before the monitor could ask (a block of less than one to four
//! milliseconds) runs beside the others until it enters, too.

use crate::carry::activation::Activation;
use crate::carry::delays;
use crate::carry::descriptor::Descriptor;
use crate::carry::processor::Processor;
use crate::carry::switching::current;
use crate::carry::traced;
use crate::carry::witness::Inside;
use raddle_context::interlude;
use raddle_machine::{Machine, Real};
use raddle_scheduler::Ready;
use raddle_scheduler::turn::{Came, Found, Settled};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Nanoseconds that a thread waits for its turn before it goes on beside the others: two looks of the monitor.
const PATIENCE_NS: u64 = 2_000_000;
/// Questions in a look of the monitor, at most: each takes two kernel threads some ten microseconds.
const QUESTIONS: u32 = 2;
/// Looks until one of which the answer was that it runs is asked about again.
const AGAIN: u32 = 16;

/// Threads that have waited for their turn and got it, and that have gone on without one, since the process began.
pub(crate) static IN_TURN: AtomicU64 = AtomicU64::new(0);
pub(crate) static BESIDE_OTHERS: AtomicU64 = AtomicU64::new(0);
/// Blocked activations whose return the kernel was asked to tell of.
pub(crate) static WATCHED: AtomicU64 = AtomicU64::new(0);

/// Who may write [`Turn::place`]: the monitor (`FREE` to `SETTING` to `SET`); nobody in `SET`; the activation ends
/// the others.
const FREE: u32 = 0;
const SETTING: u32 = 1;
const SET: u32 = 2;
const BACK: u32 = 3;

/// An activation's part.
pub(crate) struct Turn {
    word: raddle_scheduler::turn::Turn<Real, Processor>,
    trap: AtomicU32,
    /// The instruction to which it comes back.
    place: AtomicUsize,
    /// The look in which it was asked about last. Used by the monitor.
    asked: AtomicU32,
}

impl Turn {
    pub const fn new() -> Self {
        Self {
            word: raddle_scheduler::turn::Turn::constant(),
            trap: AtomicU32::new(FREE),
            place: AtomicUsize::new(0),
            asked: AtomicU32::new(0),
        }
    }

    /// A token of its thread may be out, or has brought it a processor: before the thread goes its own ways, see
    /// [`settle`].
    pub fn is_open(&self) -> bool {
        self.word.is_open()
    }

    /// Its thread waits for its turn (racy).
    pub fn waits(&self) -> bool {
        self.word.waits()
    }

    /// It is about to have a processor that it has waited for: whatever it seems, it is not blocked.
    pub fn comes(&self) -> bool {
        self.word.comes()
    }
}

/// The monitor's part.
#[derive(Default)]
pub(crate) struct Returns {
    looks: u32,
}

impl Returns {
    /// One look: the kernel is asked to tell of the return of those whose processors were taken; `runs` hears of those
    /// that do not block.
    pub fn look(&mut self, runs: impl Fn(&'static Activation)) {
        let Some(entry) = entry() else { return };
        self.looks = self.looks.wrapping_add(1);
        let mut left = QUESTIONS;
        for activation in crate::carry::activations::all() {
            let turn = &activation.turn;
            if left == 0 || !runs_without(activation) || turn.trap.load(Ordering::Relaxed) != FREE {
                continue;
            }
            let asked = turn.asked.load(Ordering::Relaxed);
            if asked != 0 && self.looks.wrapping_sub(asked) < AGAIN {
                continue;
            }
            left -= 1;
            turn.asked.store(self.looks.max(1), Ordering::Relaxed);
            let Some(place) = crate::os::place_in_kernel(activation.tid.load(Ordering::Relaxed)) else {
                runs(activation);
                continue;
            };
            // Acquire: its activation is through with the last one.
            if turn.trap.compare_exchange(FREE, SETTING, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                turn.place.store(place, Ordering::Relaxed);
                let is_set = activation.trap(place, entry);
                // Release: the place. A failure: it has come back already.
                let next = if is_set { SET } else { FREE };
                let _ = turn.trap.compare_exchange(SETTING, next, Ordering::Release, Ordering::Relaxed);
                WATCHED.fetch_add(u64::from(is_set), Ordering::Relaxed);
            }
        }
    }
}

/// Whether it runs a thread of those that any kernel thread may run, and lost its processor meanwhile.
pub(crate) fn runs_without(activation: &Activation) -> bool {
    let alone = activation.apart.load(Ordering::Relaxed) || activation.dedicated.load(Ordering::Relaxed);
    activation.runs_a_thread()
        && !alone
        && activation.tid.load(Ordering::Relaxed) != 0
        && activation.processor_if_any().is_some_and(|processor| processor.seat.owner.owner() != activation.id)
}

/// Where the kernel is to continue those that come back; `None` where that cannot be had.
fn entry() -> Option<usize> {
    static ENTRY: OnceLock<Option<usize>> = OnceLock::new();
    *ENTRY.get_or_init(|| interlude::prepare(place, came_back))
}

/// The activation of the calling kernel thread, which the kernel has continued elsewhere.
fn caller() -> &'static Activation {
    let task = crate::os::gettid();
    let alone = || crate::carry::activations::all().find(|activation| activation.task.load(Ordering::Relaxed) == task);
    // In the child of a fork that does not know of it yet, the kernel thread has another number.
    let forked = || current().map(crate::carry::switching::activation_of);
    let found = crate::carry::signal::here().or_else(alone).or_else(forked);
    found.unwrap_or_else(|| crate::os::end("a kernel thread came back that is no activation's"))
}

unsafe extern "C" fn place() -> usize {
    let turn = &caller().turn;
    // Acquire: the place. Until `came_back` is over no other one is set.
    if turn.trap.swap(BACK, Ordering::Acquire) == BACK {
        crate::os::end("a kernel thread came back twice");
    }
    turn.place.load(Ordering::Relaxed)
}

/// First thing in a handler: where it has interrupted what is put in at a return, the thread is at its own instruction.
///
/// # Safety
/// `context` is what the kernel passed to the handler.
pub(crate) unsafe fn set_back(context: *mut std::ffi::c_void) {
    let place = || {
        let turn = &caller().turn;
        let place = turn.place.load(Ordering::Relaxed);
        // Release: the monitor may set the next one.
        turn.trap.store(FREE, Ordering::Release);
        BESIDE_OTHERS.fetch_add(1, Ordering::Relaxed);
        place
    };
    // SAFETY: the kernel's argument, as promised; the way back that it names is not gone any more.
    unsafe { interlude::undo(context, place) };
}

unsafe extern "C" fn came_back() {
    let activation = caller();
    // In the child of a fork there is nobody to wait for.
    if let Some(me) = current()
        && activation.is_task(crate::os::gettid())
        && may_wait(activation, me)
    {
        wait_for_turn(activation, me);
    }
    // Release: the monitor may set the next one.
    activation.turn.trap.store(FREE, Ordering::Release);
}

/// True on a thread that is outside the runtime, without a processor, and not in the middle of something. It may be in
/// the middle of the allocator, and keep that one's lock: so its policy must not need memory to take it, nor a lock
/// whose holder may need some.
fn may_wait(activation: &'static Activation, me: &'static Descriptor) -> bool {
    runs_without(activation)
        && !activation.is_closed()
        && !activation.mark.is_inside()
        && !me.thread.is_in_wait()
        && std::ptr::eq(me.activation.get(), activation)
        && !activation.processor().pool.is_stopping()
        && activation.processor().pool.takes_anywhere()
}

fn wait_for_turn(activation: &'static Activation, me: &'static Descriptor) {
    let turn = &activation.turn.word;
    // No handler comes between ([`interlude`]).
    if turn.queue() {
        delays::hold(me);
        // SAFETY: the thread runs here and holds itself; no other token of it is out, and who selects this one
        // passes a processor on to this activation instead of resuming it.
        crate::carry::pool::submit(unsafe { Ready::new(NonNull::from(&me.thread)) });
    }
    let deadline = Real::now() + PATIENCE_NS;
    match turn.wait(Some(deadline), || Real::now() >= deadline) {
        Came::Given(processor) => {
            IN_TURN.fetch_add(1, Ordering::Relaxed);
            take(activation, me, processor);
        }
        Came::Beside => {
            BESIDE_OTHERS.fetch_add(1, Ordering::Relaxed);
            traced::beside(me);
        }
        Came::Nothing => {}
    }
}

/// The processor that it was given is its own.
fn take(activation: &'static Activation, me: &'static Descriptor, given: *mut Processor) {
    // SAFETY: a giver named it; processors are never freed.
    activation.set_processor(unsafe { &*given });
    delays::let_go(me);
    activation.turn.word.close();
    // While it had none, the core's standby may have looked in vain.
    crate::carry::arming::arm(activation);
}

/// An activation that has lost its processor enters the runtime on behalf of `me`. True if it has to try again: its
/// thread's token was out, and it has got what that brought.
#[cold]
pub(crate) fn settle(activation: &'static Activation, me: &'static Descriptor) -> bool {
    let turn = &activation.turn;
    if turn.trap.load(Ordering::Acquire) == SET {
        activation.untrap();
        turn.trap.store(FREE, Ordering::Release);
    }
    turn.asked.store(0, Ordering::Relaxed);
    match turn.word.settle(|| free_processor(activation), Inside::release) {
        Settled::Nothing => return false,
        Settled::Taken => crate::carry::arming::arm(activation),
        Settled::Missed => {
            delays::let_go(me);
            turn.word.close();
            return false;
        }
        Settled::Given(processor) => take(activation, me, processor),
        Settled::Leaves(inside) => crate::carry::switching::leave_with_token_out(inside, me),
    }
    true
}

/// A processor of its pool that nobody carries is the activation's, its last one first.
fn free_processor(activation: &'static Activation) -> Option<Inside> {
    let pool = activation.processor().pool;
    Inside::come_back(activation).or_else(|| {
        let is_free = |p: &&'static Processor| p.seat.is_active() && p.seat.owner.owner() == 0;
        let free = pool.processors().iter().find(is_free)?;
        activation.set_processor(free);
        Inside::come_back(activation)
    })
}

/// The monitor has nobody to carry `processor`, which is free: those that wait for their turn look again.
pub(crate) fn call(processor: &'static Processor) {
    for activation in crate::carry::activations::all() {
        if activation.processor_if_any().is_some_and(|last| std::ptr::eq(last.pool, processor.pool)) {
            activation.turn.word.call();
        }
    }
}

/// Finalizer of a thread that has left with its token out: from here on, whoever selects that resumes it.
pub(crate) fn is_off(activation: &'static Activation, left: &'static Descriptor) {
    activation.turn.word.off(&left.activation);
}

/// True for a selected thread that is on its stack still, and waits for its turn or did.
#[inline(always)]
pub(crate) fn is_held(next: &Descriptor) -> bool {
    delays::is_held(next) && is_on(next)
}

#[cold]
fn is_on(next: &Descriptor) -> bool {
    raddle_scheduler::turn::is_on(&next.activation)
}

/// On the idle context: passes the processor on to the activation on which `next`, which was selected, waits for
/// it. If it waits no more, the processor stays here.
pub(crate) fn give(inside: Inside, next: &'static Descriptor) -> Option<Inside> {
    // SAFETY: null, or an activation, which are never freed.
    let at = || -> Option<&'static Activation> { unsafe { next.activation.get().as_ref() } };
    let carries = |activation: &Activation| std::ptr::eq(activation.current.load(Ordering::Relaxed), next);
    match raddle_scheduler::turn::find(at, |activation| &activation.turn.word, carries) {
        Found::Leaves => {
            // SAFETY: the token that was selected, which nobody else has; it says what it did.
            crate::carry::pool::submit(unsafe { Ready::new(NonNull::from(&next.thread)) });
            Some(inside)
        }
        Found::Missed => Some(inside),
        Found::Waits(to) => {
            let processor = inside.processor();
            processor.running.store(next.thread.priority_now(), Ordering::Relaxed);
            crate::carry::processor::bump(&processor.counters.switches);
            traced::back_on(processor, next);
            inside.pass(to);
            to.turn.word.give(std::ptr::from_ref(processor).cast_mut());
            None
        }
    }
}

/// In the child of a fork, on the thread that forked: it comes back nowhere.
pub(crate) fn forget() {
    if let Some(me) = current() {
        let activation = crate::carry::switching::activation_of(me);
        activation.untrap();
        delays::let_go(me);
        activation.turn.word.close();
        activation.turn.trap.store(FREE, Ordering::Relaxed);
    }
}
