//! Virtual time: the driver that lets the core with the earliest clock go on, and charges each step to its clock.
//!
//! Each line is owned by the core that wrote it last, or shared by those that read it since. An access to a line that
//! the core does not hold fetches it: from its owner, from the nearest sharer, or from memory. A line serves one such
//! transfer at a time (readers of a line that nobody changes overlap), so contended read-modify-writes queue. A plain
//! store does not make its core wait: the line is busy, and the core waits for it, and until it is in the cache, at its
//! next read-modify-write or fence. What follows a read-modify-write may pass while that is still under way (`behind`),
//! as far as it needs neither another one nor a line from elsewhere. Caches never overflow. Without caches each access
//! goes to the module of the core that used the line first, and queues there (and, where the machine says so, for the
//! buses and rings between them: `paths`). What a core does by itself takes longer
//! while another one is awake, where the machine says so (`together`): work, and access to lines at hand; not what it
//! waits for, nor the kernel.
//!
//! A heavy fence interrupts the cores that run.
//!
//! Not modelled: bandwidth beyond that of a line, of a module, and of what threads say that they read from memory
//! ([`crate::threads::compute_on`]); and prefetching.
//!
//! # Example
//! ```
//! use raddle_machine::{Atomic, Machine, Ordering};
//! use raddle_sim::cost::Costs;
//! use raddle_sim::virtual_time::VirtualTime;
//! use raddle_sim::{Controlled, Options, run, start};
//! use std::rc::Rc;
//! let transfers = |shared: bool| {
//!     let driver = VirtualTime::new(Costs::preset("epyc").unwrap());
//!     let over = run(&Options { clocks: false, lines: true, ..Options::default() }, driver, || {
//!         let words = [(); 2].map(|()| Rc::new(<Controlled as Machine>::Atomic::<u32>::new(0)));
//!         for core in 0..2 {
//!             let word = words[if shared { 0 } else { core }].clone();
//!             start(format!("core {core}"), move || {
//!                 (0..100).for_each(|_| _ = word.fetch_add(1, Ordering::Relaxed));
//!             });
//!         }
//!         // Not to be freed before the cores have run.
//!         words
//!     });
//!     let counts = over.driver.counts();
//!     assert_eq!(counts.exchanges, 200);
//!     counts.transfers.iter().sum::<u64>()
//! };
//! assert!(transfers(true) > 50 && transfers(false) == 0);
//! ```

mod processors;

pub use processors::{DAEMON, KERNEL, Sharing};

use crate::cost::Costs;
use crate::driver::{Choice, Driver};
use crate::world::{NOWHERE, Op, Status, Step, World};
use processors::{Processors, Turn};
use raddle_machine::Ordering;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::Saturating;

/// Picoseconds: fine enough for the fractions of a cache hit.
type Time = Saturating<u64>;

const ZERO: Time = Saturating(0);
/// Thirteen days: a run ends there, far before a clock is full.
const END: Time = Saturating(1 << 60);

fn time(nanoseconds: f64) -> Time {
    Saturating((nanoseconds * 1e3) as u64)
}

/// What a run has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses to words.
    pub accesses: u64,
    /// Of these, read-modify-writes.
    pub exchanges: u64,
    /// Lines fetched from other cores, from the nearest clusters outwards; the last levels are counted together.
    pub transfers: [u64; 4],
    /// Lines fetched from memory.
    pub cold: u64,
    /// Nanoseconds in which awake cores executed nothing: waiting for lines and for data without a location, in locked
    /// instructions, fences and spin hints.
    pub stalled: u64,
    /// Nanoseconds in which they executed instructions.
    pub executed: u64,
    /// Times that cores slept.
    pub sleeps: u64,
    /// Nanoseconds that they slept.
    pub asleep: u64,
    /// Calls that wake others.
    pub wakes: u64,
}

/// One core's clock.
#[derive(Clone, Debug, Default)]
struct Clock {
    now: Time,
    /// The entry in the heap that counts, if there is one.
    due: Option<Time>,
    /// When its stores will have been made.
    stored: Time,
    /// What may still pass while its last read-modify-write is under way.
    behind: Time,
    slept_at: Option<Time>,
}

const NOBODY: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Line {
    owner: u32,
    /// Who may read it without fetching it; an owner is not listed.
    sharers: [u64; 4],
    free_at: Time,
    /// The core that used it first.
    home: u32,
}

/// The end of a quantum among the coroutines' times: this number and the processor's.
const TICK: usize = 1 << 32;

fn is_idle(world: &World, coroutine: usize) -> bool {
    matches!(world.cores()[coroutine].status, Status::Waiting { deadline: None, .. })
}

/// The driver of a simulated machine; for at most 256 cores.
pub struct VirtualTime {
    costs: Costs,
    /// None: each coroutine is a processor.
    processors: Option<Processors>,
    clocks: Vec<Clock>,
    heap: BinaryHeap<Reverse<(Time, usize)>>,
    lines: Vec<Line>,
    modules: Vec<Time>,
    /// Until when each bus and ring is taken: by the level of those that it joins, and their cluster.
    paths: Vec<Vec<Time>>,
    counts: Counts,
    stalled: Time,
    executed: Time,
    asleep: Time,
    /// Cores that sleep or have ended.
    still: usize,
}

impl VirtualTime {
    /// A machine of these costs, at time 0.
    pub fn new(costs: Costs) -> Self {
        Self {
            costs,
            processors: None,
            clocks: Vec::new(),
            heap: BinaryHeap::new(),
            lines: Vec::new(),
            modules: Vec::new(),
            paths: Vec::new(),
            counts: Counts::default(),
            stalled: ZERO,
            executed: ZERO,
            asleep: ZERO,
            still: 0,
        }
    }

    /// The same with a kernel that gives its coroutines processors in turns.
    pub fn shared(costs: Costs, sharing: Sharing) -> Self {
        Self { processors: Some(Processors::new(sharing)), ..Self::new(costs) }
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let [stalled, executed, asleep] = [self.stalled, self.executed, self.asleep].map(|time| time.0 / 1000);
        Counts { stalled, executed, asleep, ..self.counts }
    }

    /// Whether a core's clock ran so far that the run was ended for it, or would have been.
    pub fn ran_over(&self) -> bool {
        self.clocks.iter().any(|clock| clock.now > END)
    }

    fn unless_over(&self, core: usize) -> Choice {
        if self.clocks[core].now > END { Choice::Stop } else { Choice::Go(core) }
    }

    fn schedule(&mut self, core: usize, at: Time) {
        self.clocks[core].due = Some(at);
        self.heap.push(Reverse((at, core)));
    }

    /// New cores start when their starter starts them.
    fn meet(&mut self, world: &World) {
        let now = world.current().map_or(ZERO, |core| self.clocks[core].now);
        for core in self.clocks.len()..world.cores().len() {
            self.clocks.push(Clock { now, ..Clock::default() });
            self.schedule(core, now);
        }
    }

    /// Gives a coroutine a processor from `at` on; one that spins has nothing to do with it.
    fn gets_processor(&mut self, core: usize, at: Time, world: &World) {
        if !is_idle(world, core) {
            self.schedule(core, self.clocks[core].now.max(at));
        }
    }

    /// Whether a coroutine whose time has come has a processor to go on with.
    fn admitted(&mut self, core: usize, at: Time, world: &World) -> bool {
        let Some(processors) = &mut self.processors else { return true };
        if [KERNEL, DAEMON].contains(&world.cores()[core].name.as_str()) {
            return true;
        }
        match processors.turn(core, at.0) {
            Turn::Goes => return true,
            Turn::Later(then) => self.schedule(core, Saturating(then)),
            Turn::Waits => self.clocks[core].now = self.clocks[core].now.max(at),
            Turn::GivesWayTo(next) => {
                self.clocks[core].now = at;
                self.gets_processor(next, at, world);
            }
        }
        false
    }

    fn leaves_processor(&mut self, core: usize, idle: bool, world: &World) {
        let now = self.clocks[core].now;
        if let Some(next) = self.processors.as_mut().and_then(|all| all.left(core, now.0, idle)) {
            self.gets_processor(next, now, world);
        }
    }

    /// A daemon works: who has the processor that it takes goes on later.
    fn daemon_works(&mut self, core: usize, lasts: Time) {
        let now = self.clocks[core].now;
        let Some(late) = self.processors.as_mut().and_then(|all| all.interrupted(now.0, lasts.0)) else { return };
        if let (Some(due), None) = (self.clocks[late].due, self.clocks[late].slept_at) {
            self.schedule(late, due + lasts);
        }
    }

    /// Where idle coroutines keep processors from others, the ends of their quantums are times, too.
    fn note_ticks(&mut self, world: &World) {
        let Some(processors) = &mut self.processors else { return };
        for (index, at) in processors.ticks(|coroutine| is_idle(world, coroutine)) {
            self.heap.push(Reverse((Saturating(at), TICK + index)));
        }
    }

    /// The earliest entry that counts, taken out.
    fn earliest(&mut self, world: &World) -> Option<usize> {
        loop {
            self.note_ticks(world);
            let Reverse((at, core)) = self.heap.pop()?;
            if at > END && core >= TICK {
                return None;
            }
            if core >= TICK {
                let idle = |coroutine| is_idle(world, coroutine);
                let next = self.processors.as_mut().and_then(|all| all.tick(core - TICK, at.0, idle));
                if let Some(next) = next {
                    self.gets_processor(next, at, world);
                }
                continue;
            }
            if self.clocks[core].due == Some(at) {
                self.clocks[core].due = None;
                if !self.admitted(core, at, world) {
                    continue;
                }
                let clock = &mut self.clocks[core];
                clock.now = clock.now.max(at);
                if let Some(since) = clock.slept_at.take() {
                    self.asleep += clock.now - since;
                    self.still -= 1;
                }
                return Some(core);
            }
        }
    }

    /// What a core takes for so much by itself.
    fn own(&self, nanoseconds: f64) -> Time {
        // The caller is awake.
        let beside = self.clocks.len() - self.still > 1;
        time(if beside { nanoseconds * self.costs.together } else { nanoseconds })
    }

    /// A step at a word: how long the core waits, and what it changes about the line. True if it waits for a line from
    /// elsewhere.
    fn access(&mut self, core: usize, line: usize, writes: bool, exchanges: bool) -> bool {
        while self.lines.len() <= line {
            self.lines.push(Line { owner: NOBODY, sharers: [0; 4], free_at: ZERO, home: NOBODY });
        }
        self.counts.accesses += 1;
        self.counts.exchanges += u64::from(exchanges);
        if !self.costs.cached {
            return self.uncached(core, line, writes, exchanges);
        }
        // A compare-exchange that fails has fetched the line all the same.
        let writes = writes || exchanges;
        let (word, bit) = (core / 64 % 4, 1 << (core % 64));
        let (hit, exchange) = (self.own(self.costs.hit), if exchanges { self.own(self.costs.exchange) } else { ZERO });
        let commit = self.own(self.costs.commit);
        let clock = &mut self.clocks[core];
        let mut begin = clock.now;
        if exchanges {
            // A locked instruction waits for the stores before it.
            begin = begin.max(clock.stored);
        }
        let state = &mut self.lines[line];
        let mine = state.owner == core as u32;
        let at_hand = mine || !writes && state.sharers[word] & bit != 0;
        let end = if at_hand {
            begin + hit + exchange
        } else {
            let others = state.sharers.iter().any(|sharers| *sharers != 0);
            let (cost, level) = if state.owner != NOBODY {
                let level = self.costs.level(core, state.owner as usize);
                (self.costs.levels[level].transfer, Some(level))
            } else if others {
                let level = nearest(&self.costs, core, &state.sharers, writes);
                (level.map_or(self.costs.hit, |level| self.costs.levels[level].transfer), level)
            } else {
                (self.costs.memory, None)
            };
            match level {
                Some(level) => self.counts.transfers[level.min(3)] += 1,
                None if state.owner == NOBODY && !others => self.counts.cold += 1,
                None => {}
            }
            let alone = writes || state.owner != NOBODY;
            let start = begin.max(state.free_at);
            let end = start + time(cost) + exchange;
            let occupied = if alone { end - start } else { time(cost * self.costs.read_occupancy) };
            state.free_at = start + occupied;
            if writes {
                state.owner = core as u32;
                state.sharers = [0; 4];
            } else {
                if state.owner != NOBODY {
                    let owner = state.owner as usize;
                    state.sharers[owner / 64 % 4] |= 1 << (owner % 64);
                    state.owner = NOBODY;
                }
                state.sharers[word] |= bit;
            }
            end
        };
        let clock = &mut self.clocks[core];
        if writes && !exchanges {
            // A store waits in the core's buffer.
            clock.stored = clock.stored.max(end + commit);
            clock.now = begin + hit;
            return false;
        }
        clock.now = end;
        !at_hand
    }

    /// A heavy fence of `core`: each other core that runs goes on later.
    fn interrupt(&mut self, core: usize) {
        let lost = time(self.costs.interruption);
        for other in (0..self.clocks.len()).filter(|&other| other != core && lost > ZERO) {
            let clock = &self.clocks[other];
            if let (Some(due), None) = (clock.due, clock.slept_at) {
                self.schedule(other, due + lost);
            }
        }
    }

    fn uncached(&mut self, core: usize, line: usize, writes: bool, exchanges: bool) -> bool {
        let state = &mut self.lines[line];
        if state.home == NOBODY {
            state.home = core as u32;
        }
        let home = state.home as usize;
        if self.modules.len() <= home {
            self.modules.resize(home + 1, ZERO);
        }
        let level = self.costs.level(core, home);
        // A compare-exchange that fails stores nothing.
        let both = exchanges && writes;
        let accesses = if both { 2.0 - self.costs.posted.min(1.0) } else { 1.0 };
        let cost = time(self.costs.levels[level].transfer * accesses);
        if level > 0 {
            self.counts.transfers[level.min(3)] += 1;
        }
        let all = Saturating(if both { 2 } else { 1 });
        let start = self.clocks[core].now.max(self.modules[home]);
        let start = self.cross(core, home, level, start, all);
        // The module itself is busy as long as a local access takes.
        self.modules[home] = start + time(self.costs.hit) * all;
        self.clocks[core].now = start + cost;
        true
    }

    /// Takes the paths between a core and a module for so many accesses, as soon as all of them are free.
    fn cross(&mut self, core: usize, home: usize, level: usize, start: Time, accesses: Time) -> Time {
        if level == 0 || self.costs.paths == 0.0 {
            return start;
        }
        let taken = time(self.costs.levels[level].transfer * self.costs.paths) * accesses;
        let cores = |level: usize| self.costs.levels[level].cores;
        // Of each level the path of the core's cluster, and that of the module's; of the last one they are the same.
        let crossed: Vec<(usize, usize)> =
            (1..=level).flat_map(|level| [core, home].map(|core| (level, core / cores(level)))).collect();
        let mut start = start;
        for &(level, cluster) in &crossed {
            if self.paths.len() <= level {
                self.paths.resize(level + 1, Vec::new());
            }
            if self.paths[level].len() <= cluster {
                self.paths[level].resize(cluster + 1, ZERO);
            }
            start = start.max(self.paths[level][cluster]);
        }
        crossed.into_iter().for_each(|(level, cluster)| self.paths[level][cluster] = start + taken);
        start
    }
}

/// The nearest sharer's distance from `core`; for a writer that of the farthest, who must give the line up. None if
/// only `core` has it.
fn nearest(costs: &Costs, core: usize, sharers: &[u64; 4], writes: bool) -> Option<usize> {
    let of_word = |word: usize| {
        let mut bits = sharers[word];
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
            (bit < 64).then_some(word * 64 + bit as usize)
        })
    };
    let levels = (0..4).flat_map(of_word).filter(|&other| other != core).map(|other| costs.level(core, other));
    if writes { levels.max() } else { levels.min() }
}

impl Driver for VirtualTime {
    fn choose(&mut self, world: &World) -> Choice {
        self.meet(world);
        if let Some(me) = world.current() {
            match world.cores()[me].status {
                Status::Ready => {
                    let now = self.clocks[me].now;
                    // Mostly nobody is earlier: then nothing moves.
                    let alone = self.processors.is_none();
                    if alone && self.heap.peek().is_none_or(|&Reverse(first)| (now, me) < first) {
                        return self.unless_over(me);
                    }
                    self.schedule(me, now);
                }
                Status::Waiting { deadline, .. } => {
                    self.leaves_processor(me, deadline.is_none(), world);
                    let clock = &mut self.clocks[me];
                    let now = clock.now;
                    clock.slept_at = Some(now);
                    self.still += 1;
                    self.counts.sleeps += 1;
                    if let Some(deadline) = deadline {
                        self.schedule(me, now.max(Saturating(deadline) * Saturating(1000)));
                    }
                }
                Status::Ended => {
                    self.leaves_processor(me, false, world);
                    self.still += 1;
                }
            }
        }
        self.earliest(world).map_or(Choice::Stop, |core| self.unless_over(core))
    }

    fn all_asleep(&mut self, world: &World) -> Option<usize> {
        match self.choose(world) {
            Choice::Go(core) => Some(core),
            Choice::Stop => None,
        }
    }

    fn woken(&mut self, core: usize, world: &World) {
        let waker = world.current().map_or(ZERO, |waker| self.clocks[waker].now);
        let at = self.clocks[core].now.max(waker + time(self.costs.wake_latency));
        if self.processors.as_ref().is_some_and(|all| all.is_waiting(core)) {
            // It goes on when it gets a processor.
            self.clocks[core].now = at;
            return;
        }
        self.schedule(core, at);
    }

    fn performed(&mut self, step: &Step, world: &World) {
        let Step { core, access, wrote, .. } = *step;
        self.meet(world);
        let before = self.clocks[core].now;
        let step = self.own(self.costs.step);
        self.clocks[core].now += step;
        // What of it executes instructions.
        let (mut executes, mut waits) = (step, false);
        let fence = |clock: &mut Clock, cost: Time| clock.now = clock.now.max(clock.stored) + cost;
        match access.op {
            Op::Begin | Op::Return => (self.clocks[core].now, executes) = (before, ZERO),
            Op::Work => {
                if self.processors.is_some() && world.cores()[core].name == DAEMON {
                    self.daemon_works(core, time(access.amount as f64));
                }
                let work = self.own(access.amount as f64);
                self.clocks[core].now += work;
                executes += work;
            }
            Op::Stall => self.clocks[core].now += Saturating(access.amount) * Saturating(1_000),
            Op::Fence if access.order == Ordering::SeqCst => {
                let cost = self.own(self.costs.fence);
                fence(&mut self.clocks[core], cost);
            }
            Op::Fence | Op::LightFence => {}
            Op::HeavyFence => {
                let alone = self.clocks.len() - self.still <= 1;
                let cost = if alone { self.costs.heavy_fence_alone } else { self.costs.heavy_fence };
                fence(&mut self.clocks[core], time(cost));
                self.interrupt(core);
            }
            Op::SpinHint => self.clocks[core].now += time(self.costs.spin),
            Op::Wait | Op::Wake => {
                // The kernel's instructions.
                let kernel = time(if access.op == Op::Wait { self.costs.sleep } else { self.costs.wake });
                self.counts.wakes += u64::from(access.op == Op::Wake);
                self.clocks[core].now += kernel;
                executes += kernel;
            }
            _ if access.location != NOWHERE => {
                let exchanges = access.is_exchange();
                waits = self.access(core, world.line(access.location), wrote, exchanges);
                executes += self.own(self.costs.hit);
            }
            _ => {}
        }
        let behind = self.own(self.costs.behind);
        let clock = &mut self.clocks[core];
        match access.op {
            Op::Begin | Op::Return => {}
            _ if access.is_exchange() => clock.behind = behind,
            // A line from elsewhere is waited for.
            Op::Work | Op::LightFence | Op::Load | Op::Store if !waits => {
                let hidden = clock.behind.min(clock.now - before);
                clock.now -= hidden;
                clock.behind -= hidden;
            }
            _ => clock.behind = ZERO,
        }
        // What passes behind a read-modify-write is executed while that takes time.
        self.executed += executes;
        self.stalled = self.stalled + (clock.now - before) - executes;
    }

    fn now(&mut self, core: usize, _world: &World) -> u64 {
        self.clocks.get(core).map_or(0, |clock| clock.now.0 / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{Options, run, start};
    use crate::machine::Controlled;
    use raddle_machine::{Atomic, Machine};
    use std::rc::Rc;

    /// Nanoseconds until all cores have swapped a hundred times: each a word that lies with the core after it.
    fn swaps(costs: Costs, cores: usize) -> u64 {
        let options = Options { clocks: false, lines: false, ..Options::default() };
        let over = run(&options, VirtualTime::new(costs), || {
            let words: Vec<Rc<<Controlled as Machine>::Atomic<u32>>> =
                (0..cores).map(|_| Rc::new(Atomic::new(0))).collect();
            for core in 0..cores {
                let (mine, next) = (words[core].clone(), words[(core + 1) % cores].clone());
                start(format!("core {core}"), move || {
                    mine.store(1, Ordering::Relaxed);
                    crate::execution::work(100_000);
                    (0..100).for_each(|_| _ = next.swap(2, Ordering::Relaxed));
                });
            }
            words
        });
        over.driver.clocks.iter().map(|clock| clock.now.0).max().unwrap_or(0) / 1_000
    }

    #[test]
    fn a_bus_is_waited_for_where_the_machine_says_so() {
        let hector = Costs::preset("hector").unwrap();
        let paths = Costs { paths: 1.0, ..hector.clone() };
        // Modules of four cores of a station, each used by one: only the bus is shared.
        let (without, with) = (swaps(hector.clone(), 4), swaps(paths.clone(), 4));
        assert!(with > 3 * without / 2, "{with} and {without}");
        // Two cores, whose swaps fill the bus as long as they wait for nothing else.
        assert!(swaps(paths, 2) >= swaps(hector, 2));
    }
}
