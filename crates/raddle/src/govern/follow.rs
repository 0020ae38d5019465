//! A pool follows what its process is allotted: when affinity or the control group's quota shrink, processors retire;
//! when they grow, processors come back, or come first.
//!
//! Where others use the same cores and it does about as much on fewer, it has fewer than it is allotted
//! ([`crate::govern::crowd`]).
//!
//! Between stages ([`crate::services::stage`]) processors move in the same way: one pool is wanted to have one less,
//! the other one more.
//!
//! All of it is the monitor's work; the others only look at a processor's [`Standing`] where they are slow already.
//!
//! | standing | set by | meaning |
//! |---|---|---|
//! | `Active` | the pool's start, the monitor | takes part |
//! | `Retiring` | the monitor | sleeping or idle, its activation gives it up and becomes a spare; running a thread, it is taken from its activation, as one that is blocked would be: the thread goes on, finds out at its next entry into the runtime, and continues elsewhere |
//! | `Retired` | the monitor, inside the mark of the owner, which it is for the moment | emptied: ready threads went to the shared queue, stacks and descriptors to the process, deadlines to the monitor |
//!
//! Nobody puts anything into a processor that nobody owns, and who adopts a free one looks at its standing afterwards.
//! So nothing is in a retired one, and nothing is lost on the way.
//!
//! The number is that of the cores on which the kernel threads that carry the pool's processors may run, or the quota,
//! rounded up, if that is less. It is looked at every [`ALLOTTED_NS`] nanoseconds while anything runs, and first thing
//! when something runs again. Bound: a tenth of a second until it is noticed; then, for a processor that computes or
//! sleeps, a few periods of the monitor; for one that switches all the time, as many as it takes to find it outside its
//! mark once. Deadlines that the monitor inherited fire at its looks: up to four periods late, while something runs.

use crate::carry::activation::{Activation, LOWEST};
use crate::carry::pool::Shared;
use crate::carry::processor::Processor;
use crate::carry::timers::Timers;
use crate::carry::traced;
use crate::carry::witness::Inside;
use crate::govern::crowd::Crowd;
use raddle_machine::{Machine, Real};
use raddle_scheduler::govern::allot::change;
use raddle_scheduler::standing::Standing;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds between two looks at affinity and quota.
const ALLOTTED_NS: u64 = 100_000_000;
/// Nanoseconds after its earliest deadline at which a processor that sleeps is taken for frozen. Beside 1, 8 and 32
/// threads that compute on two cores a sleeper was at most 9, 19 and 83 ms late (2026-11-28, `late` of
/// docs/constants.md); if it was only late, the monitor has met the deadlines in its place.
const OVERSLEPT_NS: u64 = 20_000_000;

/// Processors that retired, and that came back, since the process began.
pub(crate) static RETIRED: AtomicU64 = AtomicU64::new(0);
pub(crate) static RETURNED: AtomicU64 = AtomicU64::new(0);
/// Times the monitor inherited the deadlines of one that slept.
pub(crate) static ATTENDED: AtomicU64 = AtomicU64::new(0);

/// The monitor's part: what it knows, and the deadlines of processors that retired.
#[derive(Default)]
pub(crate) struct Follower {
    inherited: Timers,
    /// By the pool's address.
    pools: HashMap<usize, Known>,
}

/// What it knows of a pool.
#[derive(Default)]
struct Known {
    /// How many processors it was allotted last; 0 until that was looked at.
    allotted: usize,
    /// When to look at that again.
    look_at_cores: u64,
    crowd: Crowd,
}

impl Follower {
    /// One look at one pool. True while there is something to settle.
    pub fn settle(&mut self, pool: &'static Shared, me: &'static Activation) -> bool {
        let wanted = pool.wanted();
        if !pool.follows && !pool.may_have_fewer && wanted == 0 || !pool.is_open() || pool.is_stopping() {
            return false;
        }
        let now = Real::now();
        if wanted > 0 {
            adjust(pool, wanted.min(pool.processors().len()));
        } else {
            let known = self.pools.entry(std::ptr::from_ref(pool).addr()).or_default();
            known.see_allotted(pool, now);
            if known.allotted > 0 {
                let all = known.allotted.clamp(1, pool.processors().len());
                let some = if pool.may_have_fewer { known.crowd.decide(pool, all, now) } else { all };
                adjust(pool, some);
                pool.loops.decide(some < all);
            }
        }
        let mut unsettled = false;
        for processor in pool.processors() {
            if processor.seat.standing() == Standing::Retiring {
                unsettled |= !self.retire(pool, processor, me);
            }
        }
        unsettled
    }

    /// Inherits the deadlines of processors that should have been awake for a while: they are frozen, or the kernel
    /// runs others.
    pub fn attend(&mut self, pool: &'static Shared, now: u64) {
        for processor in pool.processors() {
            if processor.bedside.due().is_some_and(|due| due.saturating_add(OVERSLEPT_NS) <= now)
                && let Some(mut timers) = processor.bedside.take()
            {
                ATTENDED.fetch_add(1, Ordering::Relaxed);
                self.inherited.inherit(&mut timers);
            }
        }
    }

    /// When [`Follower::attend`] would find something, if all go on sleeping.
    pub fn next_visit() -> Option<u64> {
        let due = |pool: &'static Shared| pool.processors().iter().filter_map(|p| p.bedside.due()).min();
        crate::carry::pool::pools().filter_map(due).min().map(|due| due.saturating_add(OVERSLEPT_NS))
    }

    /// Fires the deadlines of processors that retired, or overslept.
    pub fn fire(&mut self) {
        self.inherited.fire_outside();
    }

    /// When to look again though all processors sleep, if at all.
    pub fn next_look(&self) -> Option<u64> {
        let crowded = |pool: &'static Shared| {
            let known = self.pools.get(&std::ptr::from_ref(pool).addr())?;
            let may = pool.may_have_fewer && known.allotted > 1 && crate::carry::loops::apart_of(pool).next().is_some();
            may.then(|| known.crowd.next_look(Real::now()))
        };
        crate::carry::pool::pools().filter_map(crowded).min()
    }

    /// The earliest of them.
    pub fn next_deadline(&self) -> Option<u64> {
        self.inherited.next_deadline()
    }

    /// Takes the processor and empties it. False if that has to be tried again.
    fn retire(&mut self, pool: &'static Shared, processor: &'static Processor, me: &'static Activation) -> bool {
        if pool.idle.is_sleeping(processor.index) {
            pool.idle.wake(processor.index);
            return false;
        }
        let owner = crate::carry::activations::find(processor.seat.owner.owner());
        let Some(mut inside) = Inside::seize(me, processor) else { return false };
        if let Some(owner) = owner {
            traced::taken(processor, owner, traced::COMPUTES);
        }
        let mut ready = Vec::new();
        let owned = inside.owned();
        owned.dispatcher.drain(&mut |thread| ready.push(thread));
        self.inherited.inherit(&mut owned.timers);
        owned.give_back();
        processor.running.store(LOWEST, Ordering::Relaxed);
        processor.deadline.store(u64::MAX, Ordering::Relaxed);
        inside.retire();
        RETIRED.fetch_add(1, Ordering::Relaxed);
        ready.into_iter().for_each(crate::carry::pool::submit);
        true
    }
}

impl Known {
    /// Looks at what the pool is allotted, if it is time.
    fn see_allotted(&mut self, pool: &'static Shared, now: u64) {
        if !pool.follows {
            self.allotted = pool.processors().len();
        } else if now >= self.look_at_cores {
            self.look_at_cores = now + ALLOTTED_NS;
            let carriers =
                pool.processors().iter().filter_map(|p| crate::carry::activations::find(p.seat.owner.owner()));
            let tasks = carriers.map(|carrier| carrier.tid.load(Ordering::Relaxed)).filter(|&task| task != 0);
            self.allotted = crate::os::allotted(tasks).unwrap_or(self.allotted);
        }
    }
}

/// Names who retires, and brings others back.
fn adjust(pool: &'static Shared, wanted: usize) {
    let active: Vec<bool> = pool.processors().iter().map(|processor| processor.seat.is_active()).collect();
    let change = change(&active, wanted);
    change.retire.into_iter().for_each(|number| pool.processors()[number].seat.begin_retirement());
    for number in change.activate {
        let processor = &pool.processors()[number];
        // Without a kernel thread for it, it stays as it is until the next look.
        let Some(spare) = pool.spare() else { break };
        if processor.seat.activate() {
            RETURNED.fetch_add(1, Ordering::Relaxed);
        }
        // One whose retirement had only begun still has its activation, which keeps it.
        pool.hand_over(processor, spare);
    }
}
