//! A processor: the right to run threads, and what only its owner touches.
//!
//! Who may touch what:
//! 1. `owner`, `preempt`, the counters: atomics, anybody (counters are written by the owner only).
//! 2. `owned`: the activation that owns the processor, between [`raddle_scheduler::takeover::Ownership::enter`] and
//!    `leave`, and nobody else. An [`crate::carry::witness::Inside`] is the one door.

use crate::carry::descriptor::Descriptor;
use crate::carry::pool::Shared;
use crate::carry::timers::Timers;
use raddle_machine::Real;
use raddle_queues::slab::Cache;
use raddle_scheduler::policies::AnyLocal;
use raddle_scheduler::standing::Seat;
use raddle_scheduler::{Cause, Local, Notify, Ready, Upcoming};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Counters of one processor. Single writer (the owner), read by anybody: relaxed loads and stores, no
/// read-modify-write.
#[derive(Default)]
pub(crate) struct Counters {
    pub switches: AtomicU64,
    pub spawned: AtomicU64,
    /// Spawns after which the spawner had to let others run, for want of room.
    pub spawn_retries: AtomicU64,
    pub exited: AtomicU64,
    /// Threads that left for another pool.
    pub moved: AtomicU64,
    pub sleeps: AtomicU64,
    /// Threads that this processor made ready after a wait.
    pub woken: AtomicU64,
    pub steals_tried: AtomicU64,
    pub steals_won: AtomicU64,
}

impl Counters {
    /// What the policy has counted: attempts, and those that brought something.
    pub fn note_steals(&self, (tried, won): (u64, u64)) {
        self.steals_tried.store(tried, Ordering::Relaxed);
        self.steals_won.store(won, Ordering::Relaxed);
    }
}

/// Adds one to a counter of which the caller is the single writer, and returns it.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64) -> u64 {
    let value = counter.load(Ordering::Relaxed).wrapping_add(1);
    counter.store(value, Ordering::Relaxed);
    value
}

/// What decides on this processor who runs next.
pub(crate) type Dispatcher = raddle_scheduler::dispatch::Dispatcher<Real, AnyLocal<Real, Foreign>>;

/// A processor's part of a policy that is not known by its type: it may be the program's own, so each call is guarded
/// ([`crate::carry::guard`]).
pub(crate) struct Foreign {
    local: Box<dyn Local<Real>>,
    /// The policy's name.
    name: Arc<str>,
    /// The index of its pool.
    pool: u32,
    /// What the policy said when the pool was built: it is asked often.
    hides: bool,
}

impl Foreign {
    /// Of a pool that has no index yet: see [`Foreign::belong_to`].
    pub fn new(local: Box<dyn Local<Real>>, name: Arc<str>) -> Self {
        let hides = local.hides();
        Self { local, name, pool: u32::MAX, hides }
    }

    /// Its pool has this index.
    pub fn belong_to(&mut self, pool: u32) {
        self.pool = pool;
    }

    #[inline]
    fn call<T>(&mut self, f: impl FnOnce(&mut dyn Local<Real>) -> T) -> T {
        let Self { local, name, .. } = self;
        crate::carry::guard::policy(name, || f(&mut **local))
    }

    /// A thread that `f` selects. One of another pool, whose token a policy has handed to this one, goes back there: it
    /// is counted there, and its pool may end before this one.
    #[inline]
    fn select(&mut self, mut f: impl FnMut(&mut dyn Local<Real>) -> Option<Ready<Real>>) -> Option<Ready<Real>> {
        loop {
            let ready = self.call(&mut f)?;
            if Descriptor::from_thread(ready.thread()).pool() == self.pool {
                return Some(ready);
            }
            self.give_back(ready);
        }
    }

    #[cold]
    fn give_back(&self, ready: Ready<Real>) {
        crate::os::say_once(&format!(
            "raddle: the policy `{}` selected a thread of another pool; it was put back",
            self.name
        ));
        crate::carry::pool::submit(ready);
    }

    #[inline]
    fn ask<T>(&self, f: impl FnOnce(&dyn Local<Real>) -> T) -> T {
        crate::carry::guard::policy(&self.name, || f(&*self.local))
    }
}

impl Local<Real> for Foreign {
    fn push(&mut self, thread: Ready<Real>, cause: Cause) -> Notify {
        self.call(|local| local.push(thread, cause))
    }
    fn push_told(&mut self, thread: Ready<Real>, cause: Cause, tell: bool) -> Notify {
        self.call(|local| local.push_told(thread, cause, tell))
    }
    #[inline]
    fn hides(&self) -> bool {
        self.hides
    }
    fn hidden(&self) -> u64 {
        self.ask(|local| local.hidden())
    }
    fn hides_unstarted(&self) -> bool {
        self.ask(|local| local.hides_unstarted())
    }
    #[inline]
    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        if self.hides { self.ask(|local| local.upcoming(n)) } else { None }
    }
    fn has_own(&self) -> bool {
        self.ask(|local| local.has_own())
    }
    fn next(&mut self, floor: u8) -> Option<Ready<Real>> {
        self.select(|local| local.next(floor))
    }
    fn search(&mut self) -> Option<Ready<Real>> {
        self.select(|local| local.search())
    }
    fn has_work(&self) -> bool {
        self.ask(|local| local.has_work())
    }
    fn holds_private(&self) -> bool {
        self.ask(|local| local.holds_private())
    }
    fn crowded(&self) -> bool {
        self.ask(|local| local.crowded())
    }
    fn relieve(&mut self, victim: usize) -> Option<Ready<Real>> {
        self.select(|local| local.relieve(victim))
    }
    fn publish(&mut self) -> Notify {
        self.call(|local| local.publish())
    }
    fn expose(&mut self) -> Notify {
        self.call(|local| local.expose())
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        self.call(|local| local.drain(out));
    }
    fn steals(&self) -> (u64, u64) {
        self.ask(|local| local.steals())
    }
}

/// As [`bump`]; what happened before is visible to whoever reads the new value with Acquire.
#[inline(always)]
pub(crate) fn bump_release(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
}

/// What only the owner touches.
pub(crate) struct Owned {
    pub dispatcher: Dispatcher,
    /// A thread that was selected, and waits on another activation for this processor ([`crate::carry::turns`]).
    pub held: Option<&'static Descriptor>,
    /// The box for [`Processor::bedside`].
    pub bed: Option<Box<Timers>>,
    pub descriptors: Cache<Descriptor, Real>,
    pub kept: crate::carry::kept::Kept,
    pub timers: Timers,
    /// When it last looked for events and had something to do.
    pub looked: u64,
}

impl Owned {
    /// The processor stops for good: everything goes back to where others find it.
    pub fn give_back(&mut self) {
        self.kept.give_back();
        self.descriptors.give_back();
    }
}

#[repr(align(128))]
pub(crate) struct Processor {
    /// Who owns it, and whether it takes part in its pool, which the monitor changes ([`crate::govern::follow`]).
    pub seat: Seat<Real>,
    pub index: usize,
    pub pool: &'static Shared,
    /// Asks the running thread to offer its processor at its next check.
    pub preempt: AtomicBool,
    /// The priority of what runs here (255: nothing).
    pub running: AtomicU8,
    pub counters: Counters,
    /// While it sleeps: when it wakes by itself (`u64::MAX`: never).
    pub deadline: AtomicU64,
    /// Its deadlines while it sleeps.
    pub bedside: crate::carry::timers::Bedside,
    pub delays: crate::carry::delays::Delays,
    /// How often address space had been asked for when it last gave back what it keeps ([`crate::carry::space`]).
    pub space: AtomicU32,
    pub lane: crate::lanes::Lane,
    pub sends: crate::carry::sends::Sends,
    owned: UnsafeCell<Owned>,
}

// SAFETY: `owned` is only reached through an `Inside`, whose holder owns the processor; ownership moves with
// release-acquire edges (takeover I2). Everything else is Sync by itself.
unsafe impl Sync for Processor {}
// SAFETY: as above; nothing here belongs to one kernel thread.
unsafe impl Send for Processor {}

impl Processor {
    pub fn new(index: usize, pool: &'static Shared, owner: u32, owned: Owned) -> Self {
        Self {
            seat: Seat::new(owner),
            index,
            pool,
            preempt: AtomicBool::new(false),
            running: AtomicU8::new(255),
            counters: Counters::default(),
            deadline: AtomicU64::new(u64::MAX),
            bedside: Default::default(),
            delays: Default::default(),
            space: AtomicU32::new(0),
            lane: Default::default(),
            sends: Default::default(),
            owned: UnsafeCell::new(owned),
        }
    }

    /// How much has happened to it: as long as that stays the same, and nobody waits for it, nobody comes to wait
    /// (racy).
    pub fn traffic(&self) -> u64 {
        let counters = &self.counters;
        let own = [&counters.switches, &counters.spawned, &counters.woken].map(|count| count.load(Ordering::Relaxed));
        own.iter().sum::<u64>() + self.pool.submitted.load(Ordering::Relaxed)
    }

    /// Where the owner-only state lies. [`crate::carry::witness`] lends it.
    #[inline(always)]
    pub fn owned(&self) -> *mut Owned {
        self.owned.get()
    }
}
