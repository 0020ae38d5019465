//! What the runtime notes for a trace ([`crate::trace`]). All of it is off the paths of those who trace nothing.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::processor::Processor;
use crate::carry::switching::current;
use crate::lanes::{self, Event, Kind};
use std::sync::atomic::Ordering;

pub(crate) use crate::lanes::layout::{APART, BLOCKED, COMPUTES, ENDED, GIVES_WAY, MOVES};

/// Who makes a thread ready.
#[derive(Clone, Copy)]
pub(crate) enum Waker {
    /// The running thread, if there is one.
    Current,
    Is(&'static Descriptor),
    /// Nobody who could be named.
    Nobody,
}

fn address(thread: Option<&Descriptor>) -> usize {
    thread.map_or(0, |thread| std::ptr::from_ref(thread).addr())
}

fn place(processor: &Processor) -> (u32, usize) {
    (processor.pool.index, processor.index)
}

/// A spawn or a wake-up, the so-many-th of `processor`, that is looked at more closely. Inside the mark of the owner,
/// which holds the thread.
#[cold]
#[inline(never)]
pub(crate) fn pushed(
    processor: &'static Processor,
    thread: &'static Descriptor,
    number: u64,
    kind: Kind,
    waker: Waker,
) {
    if lanes::is_on() {
        let other = match waker {
            Waker::Current => address(current()),
            Waker::Is(thread) => address(Some(thread)),
            Waker::Nobody => 0,
        };
        let event = Event { kind, place: place(processor), thread: address(Some(thread)), other, reason: "" };
        lanes::note(&processor.lane, &event);
    }
    if crate::pace::is_now_and_then(number) {
        crate::carry::delays::follow(processor, thread);
    }
}

/// `processor` goes on with `next`, in favour of which the calling thread, if it is one, leaves it for that reason.
/// Inside the mark of the owner.
pub(crate) fn switched(processor: &'static Processor, next: &'static Descriptor, reason: &'static str) {
    if lanes::is_on() {
        let (thread, other) = (address(Some(next)), address(current()));
        lanes::note(&processor.lane, &Event { kind: Kind::Runs, place: place(processor), thread, other, reason });
    }
}

/// The calling thread leaves `processor`, and nobody goes on there. Inside the mark of the owner.
pub(crate) fn stopped(processor: &'static Processor, reason: &'static str) {
    if lanes::is_on() {
        let thread = address(current());
        let event = Event { kind: Kind::Stops, place: place(processor), thread, other: 0, reason };
        lanes::note(&processor.lane, &event);
    }
}

/// `processor` has nothing to run. Inside the mark of the owner.
#[cold]
pub(crate) fn idle(processor: &'static Processor) {
    let event = Event { kind: Kind::Idle, place: place(processor), thread: 0, other: 0, reason: "" };
    lanes::note(&processor.lane, &event);
}

/// The processor was taken from `owner`, whose thread goes on without one for that reason, or is given away by it.
/// Before another one has it.
pub(crate) fn taken(processor: &'static Processor, owner: &'static Activation, reason: &'static str) {
    if lanes::is_on() {
        let thread = owner.current.load(Ordering::Relaxed).addr();
        lanes::note_outside(&Event { kind: Kind::Taken, place: place(processor), thread, other: 0, reason });
    }
}

/// `thread`, which had lost its processor, has this one. Inside the mark of the owner.
pub(crate) fn back_on(processor: &'static Processor, thread: &'static Descriptor) {
    if lanes::is_on() {
        let thread = address(Some(thread));
        lanes::note(
            &processor.lane,
            &Event { kind: Kind::Runs, place: place(processor), thread, other: 0, reason: "" },
        );
    }
}

/// Something of a thread that any kernel thread may note: that it was made, is ready, asks for a processor again, or
/// has ended.
pub(crate) fn outside(kind: Kind, thread: &'static Descriptor) {
    if lanes::is_on() {
        let other = if matches!(kind, Kind::Spawned | Kind::Ready) { address(current()) } else { 0 };
        let event = Event { kind, place: (0, 0), thread: address(Some(thread)), other, reason: "" };
        lanes::note_outside(&event);
    }
}

/// `thread`, which had lost its processor, goes on without one.
#[cold]
pub(crate) fn beside(thread: &'static Descriptor) {
    let event = Event { kind: Kind::Beside, place: (0, 0), thread: address(Some(thread)), other: 0, reason: COMPUTES };
    lanes::note_outside(&event);
}

/// The thread is called so.
pub(crate) fn named(thread: &'static Descriptor, name: &str) {
    if lanes::is_on() {
        lanes::name(address(Some(thread)), name);
    }
}
