//! Stages: pools joined by bounded queues, between which processors move as the load does.
//!
//! A stage is a pool with so many *places*. Whoever wants work done there takes a place first, which waits while the
//! stage is full ([`Stage::place`]) or says so ([`Stage::try_place`]), and then spawns into it; the place is free again
//! when that thread has ended. So a stage holds a bounded number of threads, running, waiting or queued, and whoever
//! feeds it faster than it works is slowed down or told to do without: back-pressure. A thread of one stage feeds the
//! next in the same way and holds its own place meanwhile, so the pressure goes on to the front. (Stages that feed each
//! other in a ring can wait for each other for ever.)
//!
//! All stages of one [`Stages`] share a number of processors, at least one each. The monitor looks at them every few
//! milliseconds: a stage whose work waits much longer for its start than another's gets a processor of that one
//! (`balance`), after it has been so several times in a row, and never the last one.
//!
//! What stages suit: work of different kinds that should not starve each other, and servers that are to stay useful
//! under more load than they can bear. What they are bad at: each hand-over costs a wake-up on another processor, which
//! one pool does not pay; and places are not given out in the order of asking, so where many wait for one, some wait
//! long.
//!
//! # Example
//! ```
//! use raddle::stage::{Refused, Stages};
//! let stages = Stages::builder().stage("parse", 64).stage("work", 16).processors(2).build().unwrap();
//! let (parse, work) = (stages.stage("parse").unwrap(), stages.stage("work").unwrap());
//! let answers: Vec<_> = ["1", "2", "3"].into_iter().map(|text| {
//!     // Waits while `parse` is full; and a thread of `parse` waits while `work` is.
//!     parse.spawn(move || {
//!         let number: u64 = text.parse().unwrap();
//!         work.run(move || number * 10).unwrap()
//!     }).unwrap()
//! }).collect();
//! assert_eq!(answers.into_iter().map(|answer| answer.join().unwrap()).sum::<u64>(), 60);
//! // Who would rather refuse than wait:
//! match parse.try_place() {
//!     Ok(place) => drop(place.spawn(|| ()).unwrap()),
//!     Err(Refused::Full) => println!("busy: try later"),
//!     Err(refused) => panic!("{refused}"),
//! }
//! // Lets what has begun end, stage by stage in the order of their naming.
//! drop(stages);
//! assert_eq!(parse.try_place().unwrap_err(), Refused::Closed);
//! ```

mod balance;
mod builder;

pub use builder::{BuildError, Builder, MAX_CAPACITY};

use crate::Host;
use crate::carry::pool::Shared;
use crate::sync::{Semaphore, WaitError};
use crate::threads::pool::Pool;
use crate::threads::thread::{JoinHandle, SpawnError};
use balance::Balance;
use raddle_scheduler::code_of_program;
use raddle_scheduler::sync::gate as generic;
use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// Groups of stages that a process may have at once: no more than pools.
const MAX_GROUPS: usize = crate::carry::pool::MAX_POOLS;

static GROUPS: [AtomicPtr<Group>; MAX_GROUPS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_GROUPS];

/// What is known of a stage for ever. Like that of a pool, it is never freed.
struct Gate {
    name: String,
    places: generic::Gate<Host>,
    /// Threads spawned into the stage, and those of them that have begun.
    spawned: AtomicU64,
    begun: AtomicU64,
    pool: &'static Shared,
}

/// The stages between which processors move.
struct Group {
    gates: Box<[&'static Gate]>,
    balance: Balance,
}

/// Why a stage does not take work. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// All places are taken.
    Full,
    /// All places were taken for as long as the caller would wait.
    TimedOut,
    /// The calling thread was cancelled while it waited.
    Cancelled,
    /// The stage is shutting down, or has.
    Closed,
    /// No thread could be had.
    Spawn(SpawnError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full => write!(f, "the stage is full: wait for a place, or do without"),
            Refused::TimedOut => write!(f, "the stage was full for as long as the caller would wait"),
            Refused::Cancelled => write!(f, "the calling thread was cancelled while it waited for a place"),
            Refused::Closed => write!(f, "the stage is shutting down: its `Stages` were dropped"),
            Refused::Spawn(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Refused {}

/// A handle to a stage. Copies stand for the same one; they may outlive it, and are refused then.
#[derive(Clone, Copy)]
pub struct Stage {
    gate: &'static Gate,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("name", &self.name()).field("load", &self.load()).finish()
    }
}

/// How busy a stage is (a moment ago).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Places that are taken.
    pub taken: usize,
    /// Threads that have not begun.
    pub waiting: u64,
    /// Its processors.
    pub processors: usize,
}

impl Stage {
    /// Its name.
    pub fn name(&self) -> &'static str {
        &self.gate.name
    }

    /// How many places it has.
    pub fn capacity(&self) -> usize {
        self.gate.places.capacity() as usize
    }

    /// How busy it is.
    pub fn load(&self) -> Load {
        let places = &self.gate.places;
        let taken = (places.capacity() - places.available()) as usize;
        Load { taken, waiting: self.gate.waiting(), processors: self.gate.pool.active() }
    }

    /// Takes a place, waiting while the stage is full.
    ///
    /// # Errors
    /// [`Refused::Closed`] and [`Refused::Cancelled`].
    pub fn place(&self) -> Result<Place, Refused> {
        self.enter(|places| places.acquire_cancellable(1).map_err(|_| Refused::Cancelled))
    }

    /// Takes a place, waiting at most so long.
    ///
    /// # Errors
    /// [`Refused::Closed`], [`Refused::Cancelled`] and [`Refused::TimedOut`].
    pub fn place_timeout(&self, timeout: Duration) -> Result<Place, Refused> {
        self.enter(|places| {
            places.acquire_timeout(1, timeout).map_err(|error| match error {
                WaitError::TimedOut => Refused::TimedOut,
                WaitError::Cancelled => Refused::Cancelled,
            })
        })
    }

    /// Takes a place if one is free.
    ///
    /// # Errors
    /// [`Refused::Full`], the signal to slow down or to do without, and [`Refused::Closed`].
    pub fn try_place(&self) -> Result<Place, Refused> {
        self.enter(|places| if places.try_acquire(1) { Ok(()) } else { Err(Refused::Full) })
    }

    /// Starts a thread in the stage, waiting for a place.
    ///
    /// # Errors
    /// As for [`Stage::place`], and [`Refused::Spawn`].
    pub fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Refused> {
        self.place()?.spawn(f).map_err(Refused::Spawn)
    }

    /// Runs `f` as a thread of the stage, waiting for a place, and blocks the caller until it has ended. A panic of `f`
    /// goes on in the caller.
    ///
    /// # Errors
    /// As for [`Stage::spawn`].
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
        Ok(self.spawn(f)?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn enter(&self, acquire: impl FnOnce(&Semaphore) -> Result<(), Refused>) -> Result<Place, Refused> {
        match self.gate.places.enter(acquire) {
            Ok(()) => Ok(Place { gate: self.gate }),
            Err(generic::Refused::Closed) => Err(Refused::Closed),
            Err(generic::Refused::Otherwise(refused)) => Err(refused),
        }
    }
}

/// The right to have one thread in a stage. Dropping it gives it back.
#[must_use = "a place that is dropped is given back"]
pub struct Place {
    gate: &'static Gate,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("stage", &self.gate.name).finish()
    }
}

impl Place {
    /// Starts a thread in the stage, which has the place until it ends.
    ///
    /// # Errors
    /// [`SpawnError`]; the place is given back.
    pub fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, SpawnError> {
        let gate = self.gate;
        let work = move || {
            let _place = self;
            gate.begun.fetch_add(1, Ordering::Relaxed);
            code_of_program::call(f)
        };
        // Counted first, so that no more begin than are spawned.
        gate.spawned.fetch_add(1, Ordering::Relaxed);
        // SAFETY: closure and result are 'static; the place keeps the pool from being dropped until the thread is
        // counted there.
        let spawned = unsafe { crate::threads::thread::Builder::new().spawn_hooked(Some(gate.pool), work, ()) };
        spawned.inspect_err(|_| _ = gate.begun.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.places.leave();
    }
}

impl Gate {
    /// Threads that have not begun (racy).
    fn waiting(&self) -> u64 {
        let begun = self.begun.load(Ordering::Relaxed);
        self.spawned.load(Ordering::Relaxed).saturating_sub(begun)
    }

    /// Refuses all from now on, those included who wait, and waits until all places are back. Called once.
    fn close(&self) {
        // Rare and not urgent.
        let mut pause = Duration::from_micros(50);
        self.places.close(|| {
            crate::threads::scope::masked(|| crate::sleep(pause));
            pause = (pause * 2).min(Duration::from_millis(10));
        });
    }
}

/// Stages between which processors move. Dropping it shuts them down one after the other, in the order of their naming:
/// each refuses new work, ends what it has, and only then the next is closed.
pub struct Stages {
    group: &'static Group,
    pools: Vec<Pool>,
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Stages {
    /// Describes stages.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The stage of that name.
    pub fn stage(&self, name: &str) -> Option<Stage> {
        self.iter().find(|stage| stage.name() == name)
    }

    /// All stages.
    pub fn iter(&self) -> impl Iterator<Item = Stage> + '_ {
        self.group.gates.iter().map(|gate| Stage { gate })
    }

    /// How many times a processor was moved from one stage to another.
    pub fn moves(&self) -> u64 {
        self.group.balance.moves()
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        if self.pools.iter().any(Pool::is_current) {
            // It would wait for its own place.
            crate::os::say_once(
                "raddle: stages were dropped by a thread of one of them: they stay until the process ends",
            );
            self.pools.drain(..).for_each(std::mem::forget);
            return;
        }
        self.group.gates.iter().for_each(|gate| gate.close());
        self.group.unlist();
    }
}

impl Group {
    /// Makes the group known to the monitor. False if there are too many.
    fn list(&'static self) -> bool {
        let this = std::ptr::from_ref(self).cast_mut();
        let free = std::ptr::null_mut();
        // Set already by an earlier group, or now.
        let _ = crate::govern::monitor::BESIDES.stages.set(balance_all);
        // Release: the group as it was made.
        GROUPS.iter().any(|slot| slot.compare_exchange(free, this, Ordering::Release, Ordering::Relaxed).is_ok())
    }

    fn unlist(&'static self) {
        for gate in &self.gates {
            gate.pool.want(0);
        }
        for slot in &GROUPS {
            let this = std::ptr::from_ref(self).cast_mut();
            let _ = slot.compare_exchange(this, std::ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The monitor's look at all groups.
fn balance_all(now: u64) {
    for slot in &GROUPS {
        // Acquire: the group as it was made. SAFETY: null, or a group, which are never freed.
        if let Some(group) = unsafe { slot.load(Ordering::Acquire).as_ref() } {
            group.balance(now);
        }
    }
}

/// In the child of a fork: the pools are gone.
pub(crate) fn forget() {
    for slot in &GROUPS {
        slot.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}
