//! What a processor does besides running threads: the whole list, with the occasions.
//!
//! | duty | each [round](each_round) | no other thread ([`alone`], [`alone_outside`]) | before a thread [blocks](before_block) | idle: each look, before sleep, after it ([`Idle`]) |
//! |---|---|---|---|---|
//! | count processor time ([`crate::carry::clocks`]) | where anybody asked for it, at each switch | | at a switch to the idle context | |
//! | note a switch for a trace ([`crate::carry::traced`]) | where one goes on, at each switch | | | when nothing is found |
//! | sample a delay in the run queue ([`crate::carry::delays`]) | of the thread that yields | | | |
//! | fire timers that are due ([`crate::threads::time`]) | yes | yes | | at each look |
//! | look for events ([`crate::services::io`]) | yes | | | when it found no thread |
//! | rescue what a stalled processor offers ([`raddle_scheduler::dispatch::Occasions`]) | in one of 16 | in one of 1,024 | | by its search |
//! | make pending halves threads ([`crate::threads::forkjoin`]) | | the oldest | all | |
//! | keep the watch for events ([`HeldWatch`][w]) | | | | while it sleeps, one of the process |
//! | give back stacks, where address space was asked for ([`crate::carry::space`]) | yes | | | at each look |
//! | leave the timers to the monitor ([`crate::carry::timers::Bedside`]) | | | | while it sleeps |
//! | arm the core's standby ([`crate::govern::standby`]), wake the monitor ([`crate::govern::monitor`]) | | | | after sleep |
//!
//! At a quantum check ([`crate::threads::quantum`]) timers that are due are fired, and at the end of a quantum
//! events are looked for, if nobody has a moment ago; a tick of the timer that makes threads give way
//! ([`crate::guest::preemption::is_due`]) does both.
//!
//! A round is 64 switches ([`crate::pace`]). What the monitor does for a processor that does not come
//! to its duties is in [`crate::govern::monitor`].
//!
//! [w]: crate::carry::events::watch::HeldWatch

use crate::carry::above;
use crate::carry::descriptor::Descriptor;
use crate::carry::processor::{Dispatcher, Foreign, bump};
use crate::carry::switching::{After, current};
use crate::carry::traced;
use crate::carry::witness::Lent;
use raddle_machine::{Machine, Real};
use raddle_scheduler::Local;
use raddle_scheduler::dispatch::Resting;
use raddle_scheduler::idle::Woken;
use raddle_scheduler::policies::AnyLocal;
use std::sync::atomic::Ordering;

/// The processor switches for the `switches`th time, in favour of `next`: of the calling thread, if it is one, `after`
/// becomes. Called at the end of each round, and at each switch where processor time is counted or a trace goes on.
#[cold]
#[inline(never)]
pub(crate) fn each_round(mut inside: Lent<'_>, next: &'static Descriptor, after: After, switches: u64) {
    traced::switched(inside.processor, next, after.reason());
    crate::carry::clocks::account(inside.activation);
    if !crate::pace::is_now_and_then(switches) {
        return;
    }
    if let Some(thread) = current().filter(|_| after == After::YIELD) {
        crate::carry::delays::follow(inside.processor, thread);
    }
    crate::carry::timers::fire_due(inside.lend());
    crate::carry::space::answer_if_asked(inside.lend());
    crate::carry::events::watch::poll(inside.lend(), true);
    if inside.owned().dispatcher.round() {
        rescue(inside);
    }
}

/// A thread has offered the processor, and there is no other one.
#[inline(always)]
pub(crate) fn alone(mut inside: Lent<'_>) {
    crate::carry::timers::fire_due(inside.lend());
    if inside.owned().dispatcher.nobody_else() {
        rescue(inside);
    }
}

/// As [`alone`], outside the mark: true if that made a thread ready.
#[inline(always)]
pub(crate) fn alone_outside() -> bool {
    above::halves_wait() && above::promote_oldest()
}

/// The running thread is about to wait. Outside the mark.
#[inline(always)]
pub(crate) fn before_block() {
    if above::halves_wait() {
        while above::promote_oldest() {}
    }
}

/// Takes of what another processor offers, if that one stands still.
#[cold]
#[inline(never)]
fn rescue(mut inside: Lent<'_>) {
    let processor = inside.processor;
    let dispatcher = &mut inside.owned().dispatcher;
    if dispatcher.rescue(processor.pool, processor.index) {
        processor.counters.note_steals(dispatcher.steals());
    }
}

/// A processor that has nothing to run. It stays inside its mark: it holds nothing that another activation could want,
/// so nobody needs to take it.
pub(crate) struct Idle<'a>(pub Lent<'a>);

impl Idle<'_> {
    /// Until when it may sleep, if not for ever.
    fn deadline(&mut self) -> Option<u64> {
        let deadline = self.0.owned().timers.next_deadline();
        self.0.processor.deadline.store(deadline.unwrap_or(u64::MAX), Ordering::Relaxed);
        if Real::heavy_fence_available() {
            return deadline;
        }
        // The last look is not enough then: look again soon.
        Some(deadline.unwrap_or(u64::MAX).min(Real::now() + 1_000_000))
    }
}

impl Resting<Real> for Idle<'_> {
    type Local = AnyLocal<Real, Foreign>;

    /// Each round looks at every victim once. With 1, 4 and 16 `pp_chan` on two processors takes 0.40 µs of processor
    /// time for a round trip, and `create` as much by less than the rounds differ (2026-11-28, docs/constants.md).
    const ROUNDS: u32 = 4;

    fn dispatcher(&mut self) -> &mut Dispatcher {
        &mut self.0.owned().dispatcher
    }

    fn local(&self) -> &Self::Local {
        self.0.get().dispatcher.local()
    }

    fn over(&self) -> bool {
        self.0.processor.pool.is_stopping() || !self.0.processor.seat.is_active()
    }

    fn duties(&mut self) {
        crate::carry::timers::fire_due(self.0.lend());
        crate::carry::space::answer_if_asked(self.0.lend());
    }

    fn events(&mut self) -> bool {
        crate::carry::events::watch::poll(self.0.lend(), false)
    }

    fn up(&mut self) {
        self.0.processor.counters.note_steals(self.local().steals());
    }

    fn sleep(&mut self) -> Woken {
        let (activation, processor) = (self.0.activation, self.0.processor);
        let (pool, me) = (processor.pool, processor.index);
        bump(&processor.counters.sleeps);
        processor.counters.note_steals(self.local().steals());
        let mut deadline = self.deadline();
        let owned = self.0.owned();
        crate::carry::timers::leave(&processor.bedside, &mut owned.timers, &mut owned.bed);
        let mut watch = crate::carry::events::watch::HeldWatch::take(activation, &mut deadline);
        activation.shelter();
        let look = || self.last_look();
        let woken = match &mut watch {
            Some(watch) => pool.idle.sleep_elsewhere(me, deadline, pool.is_directed(), look, |at| watch.block(at)),
            None => pool.idle.sleep(me, deadline, pool.is_directed(), look),
        };
        activation.unshelter();
        let owned = self.0.owned();
        crate::carry::timers::take_back(&processor.bedside, &mut owned.timers, &mut owned.bed);
        crate::carry::arming::arm(activation);
        pool.monitor_hint();
        if let Some(watch) = watch {
            watch.give_up(self.0.lend());
        }
        woken
    }
}
