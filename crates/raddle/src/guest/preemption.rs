//! What a tick of the timer asks of the thread that it interrupts: for the drop-in library, whose signal it is.
//!
//! Where others wait, the thread gives way, in the handler, if the library says that it may there. The handler's frame
//! lies on the thread's own stack, with all registers in it, so the thread can go on on another kernel thread, and
//! returns from the handler there. Which places are such that a thread may leave them, only the library knows:
//! `raddle-posix`'s `process::preempt` (docs/decisions/0039).
//!
//! Bound: a thread that computes runs for two quanta at most while others wait for its processor, once the timer goes;
//! that takes the monitor two looks.

use crate::carry::activation::Activation;
use crate::carry::caller;
use crate::carry::processor::Processor;
use crate::carry::switching::{activation_of, current};
use crate::carry::witness::Inside;
use crate::os::ticker;
pub use crate::os::ticker::Asked;
pub use crate::threads::quantum::{
    Rules, begin_anew, enter_section, is_held, is_over_by_ticks, leave_section, of_caller, rule, set_quantum,
};
use raddle_machine::{Machine, Real};
use std::sync::atomic::{AtomicU64, Ordering};

/// Times a thread gave way in the handler, and times it was where it could not.
static GAVE_WAY: AtomicU64 = AtomicU64::new(0);
static PUT_OFF: AtomicU64 = AtomicU64::new(0);

/// From now on threads that compute get `signal` once in a quantum, while others wait for their processor and one is
/// `asked`.
pub fn begin(signal: i32, quantum_ns: u64, asked: Asked) {
    ticker::begin(signal, quantum_ns, asked);
}

/// True if a signal that carries this is a tick.
pub fn is_tick(value: usize) -> bool {
    ticker::is_tick(value)
}

/// How often threads gave way in the handler, and how often one was at a place where it could not.
pub fn counts() -> (u64, u64) {
    (GAVE_WAY.load(Ordering::Relaxed), PUT_OFF.load(Ordering::Relaxed))
}

/// Whether a thread waits for another one by turning round in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spins {
    /// Not that anybody could tell.
    No,
    /// It does.
    Yes,
    /// It does, and holds a lock for a few instructions more: others had to wait for that if it gave way now.
    HoldsALock,
}

/// What the handler of a tick can tell of the interrupted thread.
pub trait Interrupted {
    /// Its own quantum is over.
    fn is_over(&self) -> bool;
    /// Whether it spins.
    fn spins(&self) -> Spins;
    /// It can give way where it is.
    fn may(&self) -> bool;
    /// Its kernel thread is blocked in a system call.
    fn is_blocked(&self) -> bool;
}

/// In the handler of a tick: true if the interrupted thread is to give way now, by [`give_way`].
pub fn is_due(interrupted: &impl Interrupted) -> bool {
    let Some(me) = current() else {
        // A processor that sleeps, or a handler that interrupted nobody.
        if let Some(activation) = own_activation() {
            activation.ticker.rest(None);
        }
        return false;
    };
    if !caller::is_outside(me) || me.thread.is_in_wait() {
        // It is about to switch, or in the middle of it.
        return false;
    }
    let activation = activation_of(me);
    let processor = activation.processor();
    if activation.after.get().is_without_processor() || is_alone(activation) || interrupted.is_blocked() {
        activation.ticker.rest(None);
        return false;
    }
    if processor.seat.owner.owner() != activation.id {
        if ticker::asked() == Some(Asked::All) {
            // Others have its processor: without this it would run beside them for as long as it computes.
            return may_or_later(activation, interrupted);
        }
        activation.ticker.rest(None);
        return false;
    }
    let switches = processor.counters.switches.load(Ordering::Relaxed);
    if ticker::asked() == Some(ticker::Asked::Spinning) {
        return is_spinning(interrupted, activation, processor, switches);
    }
    let urgent = processor.preempt.load(Ordering::Relaxed);
    if !activation.ticker.has_run_for_long(switches) && !urgent {
        activation.ticker.was_idle(None, None, 0);
        return false;
    }
    if !others_wait(activation, processor) || !interrupted.is_over() && !urgent {
        return false;
    }
    may_or_later(activation, interrupted)
}

/// True if the thread can give way where it is; otherwise it is asked again soon.
fn may_or_later(activation: &'static Activation, interrupted: &impl Interrupted) -> bool {
    if interrupted.may() {
        return true;
    }
    PUT_OFF.fetch_add(1, Ordering::Relaxed);
    activation.ticker.again();
    false
}

/// The same where only threads that spin are asked. One has spun for a quantum, or the monitor has seen that it does
/// not switch.
fn is_spinning(
    interrupted: &impl Interrupted,
    activation: &'static Activation,
    processor: &'static Processor,
    switches: u64,
) -> bool {
    let ticks = activation.ticker.is_on();
    let for_long = activation.ticker.has_run_for_long(switches) || !ticks;
    let spins = if for_long { interrupted.spins() } else { Spins::No };
    match spins {
        Spins::Yes if interrupted.may() && others_wait(activation, processor) => {
            activation.ticker.spins(switches + 1);
            true
        }
        Spins::HoldsALock if others_wait(activation, processor) => {
            PUT_OFF.fetch_add(1, Ordering::Relaxed);
            activation.ticker.is_to_ask_soon(switches);
            false
        }
        _ => {
            if ticks {
                activation.ticker.was_idle(None, None, 0);
            }
            false
        }
    }
}

/// Whether anybody waits for the processor, after its deadlines and events were looked at.
fn others_wait(activation: &'static Activation, processor: &'static Processor) -> bool {
    let Some(mut inside) = Inside::enter(activation) else { return false };
    crate::carry::timers::fire_due(inside.lend());
    crate::carry::events::watch::poll_in_turn(inside.lend());
    let waits = inside.owned().dispatcher.has_work();
    let deadline = inside.owned().timers.next_deadline();
    inside.leave();
    if waits {
        activation.ticker.was_of_use();
    } else {
        activation.ticker.was_idle(Some(processor.traffic()), deadline, Real::now());
    }
    waits
}

/// Whether the calling thread, which a handler has interrupted, is one in its own code that shares a processor.
pub fn can_give_way() -> bool {
    current().is_some_and(|me| {
        let activation = activation_of(me);
        let outside = caller::is_outside(me) && !me.thread.is_in_wait();
        outside && !activation.after.get().is_without_processor() && !is_alone(activation)
    })
}

fn is_alone(activation: &Activation) -> bool {
    activation.apart.load(Ordering::Relaxed) || activation.dedicated.load(Ordering::Relaxed)
}

/// The calling thread, which the handler has interrupted, gives way to others. It may return on another kernel thread.
/// True if it was interrupted by others meanwhile, and has to look why.
pub fn give_way() -> bool {
    let Some(me) = current() else { return false };
    if caller::preempted(me) {
        GAVE_WAY.fetch_add(1, Ordering::Relaxed);
    }
    me.thread.is_interrupted()
}

/// Names the calling thread's turn on a processor: the same as long as it runs on, but for 1 in ever so many.
pub fn turn() -> (usize, u64) {
    current().map_or((0, 0), |me| {
        let activation = activation_of(me);
        let switches = activation.processor().counters.switches.load(Ordering::Relaxed);
        (std::ptr::from_ref(activation).addr(), switches)
    })
}

/// The priority of the calling thread, 0 the most urgent.
pub fn priority() -> usize {
    current().map_or(0, |me| usize::from(me.thread.priority_now()))
}

/// The stack of the calling thread, from its lowest address to the end of its slot, if `address` lies on it.
pub fn own_stack(address: usize) -> Option<std::ops::Range<usize>> {
    let place = raddle_context::stack::find(address).filter(|place| !place.in_guard)?;
    let slot = place.base..place.base + place.slot_size;
    // Its thread pointer lies in its slot, above the stack.
    let pointer = raddle_context::switch::current_fs();
    slot.contains(&pointer).then(|| place.limit..pointer.min(place.limit + place.stack_size))
}

fn own_activation() -> Option<&'static Activation> {
    let task = crate::os::gettid();
    crate::carry::activations::all().find(|activation| activation.is_task(task))
}
