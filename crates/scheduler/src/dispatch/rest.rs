//! A processor that has nothing to run: it searches, looks a last time, and sleeps.

use super::{Dispatcher, LOWEST};
use crate::idle::{Idle, Woken};
use crate::policy::Local;
use crate::ready::Ready;
use raddle_machine::Machine;

/// A processor that rests, as [`rest()`] sees it.
pub trait Resting<M: Machine> {
    /// Its part of the policy.
    type Local: Local<M>;

    /// How often it looks for work before it sleeps.
    const ROUNDS: u32;

    /// Its dispatcher.
    fn dispatcher(&mut self) -> &mut Dispatcher<M, Self::Local>;

    /// The policy's part, to look at.
    fn local(&self) -> &Self::Local;

    /// True when it is to stop.
    fn over(&self) -> bool;

    /// What it does besides before each look: fires timers that are due.
    fn duties(&mut self) {}

    /// What it does besides before it sleeps: looks for events. True if that made a thread ready.
    fn events(&mut self) -> bool {
        false
    }

    /// It looked in vain.
    fn pause(&mut self) {
        M::spin_hint();
    }

    /// Sleeps by [`Idle::sleep`] or [`Idle::sleep_elsewhere`], with [`Resting::last_look`] as what the last searcher
    /// asks.
    fn sleep(&mut self) -> Woken;

    /// It is not idle any more: it has found a thread, or is to stop.
    fn up(&mut self) {}

    /// The last look before sleep: true if there is a reason to stay up. A thread that was pushed for anyone before is
    /// seen by it.
    fn last_look(&self) -> bool {
        self.over() || self.local().has_work()
    }
}

/// What processor `me`, which has nothing at hand, runs next; `None` when it is to stop.
pub fn rest<M: Machine, R: Resting<M>>(idle: &Idle<M>, me: usize, processor: &mut R) -> Option<Ready<M>> {
    idle.begin_search(me);
    loop {
        for _ in 0..R::ROUNDS {
            processor.duties();
            if let Some(next) = processor.dispatcher().find() {
                idle.found(me);
                processor.up();
                return Some(next);
            }
            processor.pause();
        }
        if processor.over() {
            idle.found(me);
            processor.up();
            return None;
        }
        if processor.events() {
            continue;
        }
        match processor.sleep() {
            Woken::Called | Woken::Work => {}
            // Nobody counts it as searching: it has not been called.
            Woken::Elsewhere | Woken::Deadline => {
                processor.duties();
                match processor.dispatcher().local.next(LOWEST) {
                    Some(next) => return Some(next),
                    None => idle.begin_search(me),
                }
            }
        }
    }
}
