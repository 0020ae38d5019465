//! `RADDLE_MIGRATE=always`: a test mode in which a thread that was suspended goes on on another processor.
//!
//! Code that keeps something of its kernel thread across a switch (a cached thread pointer, the address of a
//! thread-local variable, an activation) is wrong only where the thread goes on elsewhere, which is rare where
//! processors have enough to do. In this mode it is the rule: each processor's part of the policy is a [`Wanderer`],
//! which does not let a thread run where it ran last, and puts it into the pool's shared queue for the others. A thread
//! that yields in vain leaves, too. Whatever is right in this mode is so without it.
//!
//! It is for pools of at least two processors whose policy is known by an expression and is no ring, where all goes
//! round anyway. A pool that has but one processor at a time lets threads stay; and so does a processor while no other
//! one has switched for [`PATIENCE_NS`]: it may be that these compute, and the thread is what they wait for.

use crate::carry::descriptor::Descriptor;
use crate::carry::pool;
use raddle_machine::{Atomic, Machine, Real};
use raddle_scheduler::{Cause, Local, Notify, Ready, Upcoming};
use std::sync::atomic::Ordering;

/// Nanoseconds in which no other processor has switched, and a thread stays. As long as the monitor takes to give a
/// computing processor to a spare, so that this is what happens first.
const PATIENCE_NS: u64 = 25_000_000;
/// Threads that a selection turns away before it finds nothing.
const TURNED_AWAY: u32 = 4;
/// Places that are told apart; 0 is none.
const PLACES: usize = u8::MAX as usize;

/// Whether the mode is wanted.
///
/// # Errors
/// The variable says something else than `always`.
pub(crate) fn is_wanted() -> Result<bool, String> {
    match std::env::var_os("RADDLE_MIGRATE") {
        None => Ok(false),
        Some(value) if value.is_empty() => Ok(false),
        Some(value) if value == "always" => Ok(true),
        Some(value) => Err(format!("RADDLE_MIGRATE={}: give `always`", value.display())),
    }
}

/// See the module.
pub(crate) struct Wanderer {
    local: Box<dyn Local<Real>>,
    index: usize,
    /// How often the others had switched, and when that was first seen.
    others: (u64, u64),
}

impl Wanderer {
    /// The part of processor `index`.
    pub fn new(local: Box<dyn Local<Real>>, index: usize) -> Self {
        Self { local, index, others: (0, 0) }
    }

    /// What a thread has as its place that runs here.
    fn place(&self) -> u8 {
        (self.index % PLACES) as u8 + 1
    }

    fn select(&mut self, mut f: impl FnMut(&mut dyn Local<Real>) -> Option<Ready<Real>>) -> Option<Ready<Real>> {
        for turned_away in 0.. {
            let ready = f(&mut *self.local)?;
            let thread = Descriptor::from_thread(ready.thread());
            let pool = pool::pool(thread.pool());
            // Relaxed: written by who runs the thread, and handed on with its token.
            let place = &thread.thread.place;
            // Who finds nothing goes to sleep: not beside threads of its own, which nobody else would take.
            let last = turned_away + 1 == TURNED_AWAY && self.local.has_own();
            if place.load(Ordering::Relaxed) != self.place() || last || self.stays(pool) {
                place.store(self.place(), Ordering::Relaxed);
                return Some(ready);
            }
            pool::submit(ready);
            // This one counts as searching, which keeps the others asleep.
            pool.idle.kick();
            Real::yield_kernel_thread();
            if turned_away + 1 == TURNED_AWAY {
                break;
            }
        }
        None
    }

    /// True if nobody else would come for it.
    #[cold]
    fn stays(&mut self, pool: &pool::Shared) -> bool {
        if pool.active() < 2 || pool.is_stopping() {
            return true;
        }
        let others = pool.processors().iter().filter(|processor| processor.index != self.index);
        let switches = others.map(|processor| processor.counters.switches.load(Ordering::Relaxed)).sum();
        let (now, (before, since)) = (Real::now(), self.others);
        if switches != before {
            self.others = (switches, now);
            return false;
        }
        let stays = now.saturating_sub(since) >= PATIENCE_NS;
        if stays {
            self.others.1 = now;
        }
        stays
    }
}

impl Local<Real> for Wanderer {
    fn push(&mut self, thread: Ready<Real>, cause: Cause) -> Notify {
        self.local.push(thread, cause)
    }
    fn push_told(&mut self, thread: Ready<Real>, cause: Cause, tell: bool) -> Notify {
        self.local.push_told(thread, cause, tell)
    }
    fn hides(&self) -> bool {
        self.local.hides()
    }
    fn hidden(&self) -> u64 {
        self.local.hidden()
    }
    fn hides_unstarted(&self) -> bool {
        self.local.hides_unstarted()
    }
    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        self.local.upcoming(n)
    }
    fn has_own(&self) -> bool {
        self.local.has_own()
    }
    fn next(&mut self, floor: u8) -> Option<Ready<Real>> {
        self.select(|local| local.next(floor))
    }
    fn search(&mut self) -> Option<Ready<Real>> {
        self.select(|local| local.search())
    }
    fn has_work(&self) -> bool {
        self.local.has_work()
    }
    fn holds_private(&self) -> bool {
        self.local.holds_private()
    }
    fn crowded(&self) -> bool {
        self.local.crowded()
    }
    fn step_back(&mut self, thread: Ready<Real>) -> Result<(), Ready<Real>> {
        self.local.step_back(thread)
    }
    fn relieve(&mut self, victim: usize) -> Option<Ready<Real>> {
        self.local.relieve(victim)
    }
    fn publish(&mut self) -> Notify {
        self.local.publish()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        self.local.drain(out);
    }
    fn steals(&self) -> (u64, u64) {
        self.local.steals()
    }
}
