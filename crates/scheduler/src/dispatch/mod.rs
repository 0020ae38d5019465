//! The loop round the policy, once: what a processor does when a thread becomes ready, when the running one leaves, and
//! when there is nothing to run.
//!
//! A [`Dispatcher`] is owner-only, as the [`Local`] in it. A thread that becomes ready has one way in for each cause:
//! [`Dispatcher::push`] (spawned, submitted), [`Dispatcher::woken`], [`Dispatcher::yielded`]. The running thread leaves
//! by [`Dispatcher::select`], or offers its processor by [`Dispatcher::offer`]. A processor that has nothing goes
//! through [`rest()`]; one that never runs dry now and then takes over what a stalled one offers
//! ([`Dispatcher::rescue`]); what a stalled one hides is published for it ([`Dispatcher::expose`]).
//!
//! The library, the simulator and the checker all drive it; what differs between them is behind [`Pool`] and
//! [`Resting`].
//!
//! Whom to tell of a ready thread while others are idle is the hand-off's law ([`crate::govern::handoff`]). It is asked
//! only where the policy can hide a thread ([`Local::hides`]).
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::dispatch::{Dispatcher, Pool};
//! use raddle_scheduler::idle::Idle;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::{Cause, Policy, Ready, Thread};
//! struct One(Idle<Real>);
//! impl Pool<Real> for One {
//!     fn idle(&self) -> &Idle<Real> {
//!         &self.0
//!     }
//! }
//! let pool = One(Idle::new(1));
//! let policy = policies::build::<Real>(&"fifo".parse().unwrap(), 1, std::sync::Arc::new(Busy)).unwrap();
//! let mut dispatcher = Dispatcher::new(policy.local(0));
//! // SAFETY: a record that no runtime knows, leaked, and a token of it, which nobody else has.
//! let thread = unsafe { Ready::new(Box::leak(Box::new(Thread::<Real>::new(0, 0))).into()) };
//! dispatcher.push(&pool, thread, Cause::Spawned);
//! dispatcher.select(&pool).unwrap().into_thread();
//! assert!(dispatcher.select(&pool).is_none());
//! ```
#![forbid(unsafe_code)]

mod rescue;
mod rest;

use crate::govern::handoff::Handoff;
use crate::idle::Idle;
use crate::policy::{Cause, Local, Notify};
use crate::ready::Ready;
use crate::thread::Thread;
use raddle_machine::Machine;
pub use rescue::{Occasions, Rescue};
pub use rest::{Resting, rest};
use std::marker::PhantomData;

/// The lowest priority: what a processor takes that is not choosy.
pub const LOWEST: u8 = u8::MAX;

/// What a processor's dispatcher asks of its pool.
pub trait Pool<M: Machine> {
    /// Who sleeps and who searches.
    fn idle(&self) -> &Idle<M>;

    /// Wakes whom a push concerns.
    #[inline(always)]
    fn tell(&self, whom: Notify) {
        self.idle().tell(whom);
    }

    /// How many priorities the policy tells apart.
    #[inline(always)]
    fn priorities(&self) -> u8 {
        1
    }

    /// A thread of this priority became ready, where there are several: a processor that runs a less urgent one may be
    /// asked to switch.
    fn outrank(&self, priority: u8) {
        let _ = priority;
    }

    /// How often processor `index` has switched (racy); `None` if there is no such processor.
    fn switches(&self, index: usize) -> Option<u64> {
        let _ = index;
        None
    }
}

/// A processor's part of its policy, with what it knows of its own pace and of others that stand still.
pub struct Dispatcher<M: Machine, L: Local<M>> {
    local: L,
    handoff: Handoff,
    machine: PhantomData<M>,
    rescue: Rescue,
}

impl<M: Machine, L: Local<M>> Dispatcher<M, L> {
    /// With the usual occasions to look after others.
    pub fn new(local: L) -> Self {
        Self::with_occasions(local, Occasions::default())
    }

    /// With occasions of the caller's: a checker has not the time for the usual ones.
    pub fn with_occasions(local: L, occasions: Occasions) -> Self {
        Self { local, handoff: Handoff::default(), machine: PhantomData, rescue: Rescue::new(occasions) }
    }

    /// The policy's part, to look at.
    #[inline(always)]
    pub fn local(&self) -> &L {
        &self.local
    }

    /// True while this processor itself has something to run (racy).
    #[inline(always)]
    pub fn has_own(&self) -> bool {
        self.local.has_own()
    }

    /// True while it might find something (racy).
    pub fn has_work(&self) -> bool {
        self.local.has_work()
    }

    /// True while a thread that goes on making others ready should offer its processor first
    /// ([`Dispatcher::stepped_back`]).
    #[inline(always)]
    pub fn crowded(&self) -> bool {
        self.local.crowded()
    }

    /// Steals tried and won so far.
    pub fn steals(&self) -> (u64, u64) {
        self.local.steals()
    }

    /// A thread that was spawned or submitted is ready, here.
    #[inline(always)]
    pub fn push(&mut self, pool: &impl Pool<M>, thread: Ready<M>, cause: Cause) {
        let tell = pool.idle().hungry();
        self.push_told(pool, thread, cause, tell);
    }

    #[inline(always)]
    fn push_told(&mut self, pool: &impl Pool<M>, thread: Ready<M>, cause: Cause, tell: bool) {
        // What hides threads has no priorities.
        if self.local.hides() || pool.priorities() < 2 {
            let whom = self.local.push_told(thread, cause, tell);
            return pool.tell(whom);
        }
        let priority = thread.priority();
        let whom = self.local.push_told(thread, cause, tell);
        pool.tell(whom);
        pool.outrank(priority);
    }

    /// A thread was woken by the running one, or (`alone`) while none runs here. `kept` is called if it will run here
    /// next but a few.
    #[inline(always)]
    pub fn woken(&mut self, pool: &impl Pool<M>, thread: Ready<M>, alone: bool, kept: impl FnOnce(&Ready<M>)) {
        if !pool.idle().hungry() {
            return self.push_told(pool, thread, Cause::Woken, false);
        }
        let keeps = self.local.hides() && {
            let waiting = self.local.hidden();
            // Where none runs, the processor is about to look for work itself.
            if alone { waiting == 0 } else { self.handoff.keeps(waiting, M::now) }
        };
        if keeps {
            kept(&thread);
        }
        self.push_told(pool, thread, Cause::Woken, !keeps);
    }

    /// A thread that has offered its processor is off it.
    #[inline(always)]
    pub fn yielded(&mut self, pool: &impl Pool<M>, thread: Ready<M>) {
        let tell = pool.idle().hungry() && !(self.local.hides() && self.handoff.keeps(self.local.hidden(), M::now));
        self.push_told(pool, thread, Cause::Yielded, tell);
    }

    /// A thread that has offered its processor because of [`Dispatcher::crowded`] is off it.
    #[cold]
    pub fn stepped_back(&mut self, pool: &impl Pool<M>, thread: Ready<M>) {
        if let Err(thread) = self.local.step_back(thread) {
            self.yielded(pool, thread);
        }
    }

    /// The next thread where the running one leaves without coming back to the queue. When others are hungry, what is
    /// left is shared with them, unless it is worth no wake-up; a yield does that with its push.
    #[inline(always)]
    pub fn select(&mut self, pool: &impl Pool<M>) -> Option<Ready<M>> {
        self.handoff.leaves(M::now);
        let next = self.local.next(LOWEST);
        if pool.idle().hungry() && self.local.hides() {
            let hidden = self.local.hidden();
            if hidden == 0 {
                self.handoff.alone();
            }
            if self.local.hides_unstarted() || !self.handoff.bears(hidden) {
                self.share(pool);
            }
        }
        next
    }

    /// The running thread waits for the end of `thread`, which has not started: that one, if [`Dispatcher::select`]
    /// would take it. Never while others are idle, to whom that gives what they might take.
    #[inline(always)]
    pub fn next_is(&mut self, pool: &impl Pool<M>, thread: &'static Thread<M>) -> Option<Ready<M>> {
        if pool.idle().hungry() {
            return None;
        }
        let next = self.local.next_is(thread)?;
        self.handoff.leaves(M::now);
        Some(next)
    }

    /// The running thread ends: true if who waits for that is to go on here at once, without a selection. Never while
    /// others are idle, to whom [`Dispatcher::select`] gives what they might take.
    #[inline(always)]
    pub fn hands_over(&mut self, pool: &impl Pool<M>) -> bool {
        let hands = !pool.idle().hungry() && self.local.hands_over();
        if hands {
            self.handoff.leaves(M::now);
        }
        hands
    }

    /// True if all that is hidden here is worth no wake-up: what [`Dispatcher::select`] leaves while others are idle.
    pub fn shares_enough(&self) -> bool {
        let local = &self.local;
        !local.hides() || !local.hides_unstarted() && (local.hidden() == 0 || self.handoff.bears(local.hidden()))
    }

    /// Others may take all that is hidden here, and one is woken for it.
    #[cold]
    #[inline(never)]
    pub fn share(&mut self, pool: &impl Pool<M>) {
        self.handoff.alone();
        let whom = self.local.publish();
        pool.tell(whom);
    }

    /// The thread in whose favour the running one, of priority `floor`, offers its processor: of that priority or a
    /// higher one.
    #[inline(always)]
    pub fn offer(&mut self, floor: u8) -> Option<Ready<M>> {
        let next = self.local.next(floor);
        match next {
            Some(_) => self.handoff.leaves(M::now),
            None => self.handoff.alone(),
        }
        next
    }

    /// True if a yield now would wake nobody for the yielding thread's sake.
    #[inline(always)]
    pub fn yields_in_silence(&self, pool: &impl Pool<M>) -> bool {
        !pool.idle().hungry() || self.local.hides() && self.handoff.bears(self.local.hidden() + 1)
    }

    /// What a processor that runs no thread takes, without looking further.
    #[inline(always)]
    pub fn at_hand(&mut self) -> Option<Ready<M>> {
        self.local.next(LOWEST)
    }

    /// What a processor that has nothing at hand finds.
    #[inline(always)]
    pub fn find(&mut self) -> Option<Ready<M>> {
        self.local.next(LOWEST).or_else(|| self.local.search())
    }

    /// One more round of housekeeping: true if it is time to [`Dispatcher::rescue`].
    #[inline(always)]
    pub fn round(&mut self) -> bool {
        self.rescue.round()
    }

    /// One more offer that nobody took: true if it is time to [`Dispatcher::rescue`].
    #[inline(always)]
    pub fn nobody_else(&mut self) -> bool {
        self.rescue.alone()
    }

    /// Processor `me` looks at another one, the next in turn, and takes of what it offers if it has stood still since
    /// the last look. True if it took something.
    #[cold]
    #[inline(never)]
    pub fn rescue(&mut self, pool: &impl Pool<M>, me: usize) -> bool {
        let Some(whom) = self.rescue.stalled(pool, me) else { return false };
        match self.local.relieve(whom) {
            Some(thread) => {
                self.push(pool, thread, Cause::Submitted);
                true
            }
            None => false,
        }
    }

    /// The processor computes, or is stuck, against what was expected: all that it hides becomes takeable. Answers whom
    /// that concerns. For whoever has taken the processor for a moment.
    pub fn expose(&mut self) -> Notify {
        self.handoff.distrust();
        self.local.expose()
    }

    /// Gives up all threads: the processor retires.
    pub fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        self.handoff.distrust();
        self.local.drain(out);
    }
}
