//! The N-body program on the simulated machine: threads of a few bodies each, a tree behind one lock, and a buffer
//! cache whose misses block in the kernel.

use super::trace::{Trace, trace};
use super::{Daemon, Main, NOTICE_NS, PROCESSORS, Programs, System, ends};
use crate::machine::Controlled;
use crate::threads::{Blocking, Simulated, block, compute, spawn_joined};
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::sync::Mutex;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How the program's lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLock {
    /// Who waits parks: kernel threads in the kernel, lightweight threads in their scheduler.
    Parks,
    /// Who waits spins.
    Spins,
}

/// A run of the program.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// What runs its threads.
    pub system: System,
    /// Processors that it may use, of [`PROCESSORS`].
    pub processors: usize,
    /// Percent of its data that its cache holds.
    pub memory: u64,
    /// Programs at once.
    pub copies: usize,
    /// Bodies.
    pub bodies: usize,
    /// Bodies of a thread.
    pub chunk: usize,
    /// Bodies of a block of the cache.
    pub block: usize,
    /// Steps.
    pub steps: usize,
    /// Nanoseconds that a miss blocks.
    pub miss: u64,
    /// The daemon.
    pub daemon: Daemon,
    /// What the kernel's notices of a block cost, nanoseconds each.
    pub notice: u64,
    /// How user-level threads wait for the lock. Kernel threads park.
    pub lock: TreeLock,
    /// Nanoseconds for a force.
    pub force: u64,
    /// Nanoseconds inside the lock after each body's forces.
    pub inside: u64,
    /// The policy of the user-level threads.
    pub policy: &'static str,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            system: System::Activations,
            processors: PROCESSORS,
            memory: 100,
            copies: 1,
            bodies: 4_096,
            chunk: 1,
            block: 64,
            steps: 1,
            miss: 50_000_000,
            daemon: Daemon { every: 50_000_000, lasts: 4_000_000 },
            notice: NOTICE_NS,
            lock: TreeLock::Spins,
            force: 30_000,
            inside: 200_000,
            policy: super::POLICY,
        }
    }
}

/// Nanoseconds for a level of the tree, and inside its lock.
const LEVEL_NS: u64 = 15_000;
const INSERT_NS: u64 = 60_000;
/// A thread that computes looks so often whether it is to give way.
const QUANTUM_CHECK_NS: u64 = 2_000_000;

fn work(nanoseconds: u64) {
    let mut left = nanoseconds;
    while left > 0 {
        let now = left.min(QUANTUM_CHECK_NS);
        compute(now);
        left -= now;
    }
}

/// Nanoseconds that it takes one processor without threads, with all memory.
fn sequential(trace: &Trace, asked: &Asked) -> u64 {
    let visits = trace.steps.iter().flatten();
    visits.map(|visit| visit.depth * LEVEL_NS + INSERT_NS + visit.forces * asked.force + asked.inside).sum()
}

/// Which blocks are in memory. One that is on its way counts as there: a miss blocks the thread that met it, no other.
struct Cache {
    is_held: Vec<bool>,
    held: Vec<usize>,
    room: usize,
    random: u64,
    misses: u64,
}

impl Cache {
    fn new(blocks: usize, memory: u64) -> Self {
        let room = (blocks * memory as usize).div_ceil(100).max(1);
        // It begins with what it can hold.
        let is_held = (0..blocks).map(|block| block < room).collect();
        Self { is_held, held: (0..room.min(blocks)).collect(), room, random: 1, misses: 0 }
    }

    /// Whether a block is missing; it is brought then, for another one.
    fn misses(&mut self, wanted: usize) -> bool {
        if self.is_held[wanted] {
            return false;
        }
        self.misses += 1;
        while self.held.len() >= self.room {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let out = (self.random >> 33) as usize % self.held.len();
            let block = self.held.swap_remove(out);
            self.is_held[block] = false;
        }
        self.held.push(wanted);
        self.is_held[wanted] = true;
        true
    }
}

/// One program.
struct Program {
    trace: Rc<Trace>,
    cache: RefCell<Cache>,
    parks: Mutex<(), Simulated>,
    spins: <Controlled as Machine>::Atomic<u32>,
    asked: Asked,
}

impl Program {
    fn need(&self, block_number: usize) {
        let misses = self.cache.borrow_mut().misses(block_number);
        if misses {
            block(self.asked.miss);
        }
    }

    fn locked(&self, what: impl FnOnce()) {
        if self.asked.lock == TreeLock::Parks || self.asked.system == System::Kernel {
            let Ok(_guard) = self.parks.lock() else { panic!("the tree's lock is poisoned") };
            return what();
        }
        while self.spins.swap(1, Ordering::Acquire) == 1 {
            while self.spins.load(Ordering::Relaxed) == 1 {
                Controlled::spin_hint();
            }
        }
        what();
        self.spins.store(0, Ordering::Release);
    }

    /// A part of a step, for some bodies each thread.
    fn phase(self: &Rc<Self>, step: usize, of_body: fn(&Self, usize, usize)) {
        let chunk = self.asked.chunk;
        let count = self.trace.steps[step].len();
        let threads: Vec<_> = (0..count.div_ceil(chunk))
            .map(|part| {
                let program = self.clone();
                spawn_joined(move || {
                    (part * chunk..count.min((part + 1) * chunk)).for_each(|body| of_body(&program, step, body))
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join());
    }

    fn insert(&self, step: usize, body: usize) {
        let visit = &self.trace.steps[step][body];
        if let Some(&own) = visit.blocks.first() {
            self.need(own);
        }
        work(visit.depth * LEVEL_NS);
        self.locked(|| work(INSERT_NS));
    }

    fn force(&self, step: usize, body: usize) {
        let visit = &self.trace.steps[step][body];
        visit.blocks.iter().for_each(|&block| self.need(block));
        work(visit.forces * self.asked.force);
        self.locked(|| work(self.asked.inside));
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Seconds, the mean of the copies.
    pub seconds: f64,
    /// The sequential program's time over it.
    pub speed_up: f64,
    /// Misses of the cache, of all copies.
    pub misses: u64,
}

/// Runs it.
///
/// # Errors
/// If it does not end.
pub fn nbody(asked: &Asked) -> Result<Seen, String> {
    let Asked { system, processors, copies, notice, daemon, .. } = *asked;
    let trace = Rc::new(trace(asked.bodies, asked.block, asked.steps));
    let misses: Rc<Cell<u64>> = Rc::default();
    // Its lock ends before its pool.
    let main = || -> Main {
        let (trace, misses, asked) = (trace.clone(), misses.clone(), *asked);
        Box::new(move || {
            let cache = RefCell::new(Cache::new(trace.blocks, asked.memory));
            let (parks, spins) = (Mutex::with_value(()), Atomic::new(0));
            let program = Rc::new(Program { trace, cache, parks, spins, asked });
            for step in 0..program.trace.steps.len() {
                program.phase(step, Program::insert);
                program.phase(step, Program::force);
            }
            misses.set(misses.get() + program.cache.borrow().misses);
        })
    };
    let blocking = match system {
        System::Oblivious => Blocking::Loses,
        System::Kernel => Blocking::GoesOn { notice: 0 },
        System::Activations => Blocking::GoesOn { notice },
    };
    // The allocator divides the processors; who knows nothing of the other copy takes all.
    let each = if system == System::Activations { (processors / copies).max(1) } else { processors };
    let mains: Vec<_> = (0..copies).map(|_| (each, main())).collect();
    let sharing = system.sharing(PROCESSORS);
    let policy = system.policy(asked.policy);
    let costs = system.costs()?;
    let times = ends(Programs { system, policy, costs, sharing, blocking, daemon, flags: 0, mains })?;
    let seconds = times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e9;
    Ok(Seen { seconds, speed_up: sequential(&trace, asked) as f64 / 1e9 / seconds, misses: misses.get() })
}
