//! Lightweight threads on simulated cores: the scheduler's loop, with the policy, the idle protocol and the
//! synchronisation primitives that production runs, and stacks of their own.
//!
//! Differs from the runtime in `crates/raddle`: a thread that leaves goes to its core's loop, which selects the next
//! one and finishes the one that left, in that order, but is charged for one switch; there is no monitor, no timers and
//! no input or output.
//!
//! Invariants: I1. A thread's state is touched by the core that holds its token or runs it. I2. A core's dispatcher is
//! borrowed only by what runs on that core. I3. Records are freed when all threads have ended and the run is over.
//!
//! # Example
//! ```
//! use raddle_scheduler::policies;
//! use raddle_sim::cost::Costs;
//! use raddle_sim::threads::{self, compute, spawn};
//! use raddle_sim::virtual_time::VirtualTime;
//! use raddle_sim::{Options, Outcome, run};
//! let costs = Costs::preset("host").unwrap();
//! let make = |cores, others| policies::build(&"steal".parse().unwrap(), cores, others).map_err(|why| why.to_string());
//! let options = Options { clocks: false, lines: true, ..Options::default() };
//! let over = run(&options, VirtualTime::new(costs.clone()), || {
//!     threads::pool(make, 2, &costs, || (0..10).for_each(|_| spawn(|| compute(100_000))))
//! });
//! assert_eq!(over.outcome, Outcome::Done);
//! let pool = over.value.unwrap();
//! let tally = pool.tally();
//! pool.end();
//! // A millisecond of work, on two cores.
//! assert_eq!(tally.worked.iter().sum::<u64>(), 1_000_000);
//! assert!((500_000..700_000).contains(&tally.ended_at), "{}", tally.ended_at);
//! ```

mod blocking;
mod quantum;
mod record;
mod runtime;

pub use blocking::{Blocking, block, blocks_by};
pub use quantum::{compute_within, look_at_quantum};

use crate::coroutine::{self, Coroutine};
use crate::cost::Costs;
use crate::execution::{current, now, stall, start, started, work};
use crate::machine::Controlled;
use blocking::Blocked;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::wait_list::NodePool;
use raddle_scheduler::dispatch::{self, Dispatcher, Resting, rest};
use raddle_scheduler::idle::{Idle, Woken};
use raddle_scheduler::policies::{AnyLocal, AnyPolicy, Others};
use raddle_scheduler::{Cause, Epoch, Notify, Policy, Ready, Thread};
use record::{DETACHED, Free, Full, RUNNING, Record, State};
use runtime::stack;
use std::cell::{Cell, RefCell, RefMut};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;

/// The runtime whose threads are simulated.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

type Body = Box<dyn FnOnce()>;

/// What a thread's core does when the thread has left.
#[derive(Clone, Copy)]
enum After {
    Yield,
    StepBack,
    Park(Epoch),
    Exit,
    /// In the kernel, until then.
    Block(u64),
}

type Local = AnyLocal<Controlled>;

/// One core of the pool.
struct Core {
    dispatcher: RefCell<Dispatcher<Controlled, Local>>,
    /// Where its loop is while it runs a thread.
    home: Coroutine,
    running: Cell<Option<Record>>,
    /// Since when the running thread has had the core.
    turn: Cell<u64>,
    /// A thread has ended here, and nothing else has run since: its stack goes on with the next one that starts.
    ended: Cell<bool>,
    /// Stacks of threads that have ended.
    spare: RefCell<Vec<Coroutine>>,
    worked: Cell<u64>,
    /// Stands for data at hand.
    plain: <Controlled as Machine>::Atomic<u64>,
    /// No thread runs, and none is selected.
    idle: Cell<bool>,
}

/// What the threads of a run have come to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Nanoseconds from each time that a thread became ready until it ran.
    pub delays: Vec<u64>,
    /// Nanoseconds from each thread's spawn to its end.
    pub lives: Vec<u64>,
    /// When the last thread ended.
    pub ended_at: u64,
    /// Times that a spawner offered its core because the queue was full.
    pub retries: u64,
    /// Steals tried, and won.
    pub steals: (u64, u64),
    /// Nanoseconds of work, by core.
    pub worked: Vec<u64>,
}

/// The cores of a run, under one policy; a run may have several pools, which know nothing of each other.
pub struct Pool {
    /// The coroutine of the first core.
    base: usize,
    blocked: Blocked,
    /// Nanoseconds more for each critical section of the runtime, of which each thread passes some.
    flags: Cell<u64>,
    policy: AnyPolicy<Controlled>,
    idle: Arc<Idle<Controlled>>,
    cores: Vec<Core>,
    nodes: &'static NodePool<Controlled>,
    records: RefCell<Vec<Record>>,
    free: RefCell<Free>,
    left: Cell<u64>,
    /// When the memory will have delivered what was asked of it.
    delivered: Cell<f64>,
    costs: Costs,
    tally: RefCell<Tally>,
}

thread_local! {
    static POOLS: RefCell<Vec<Rc<Pool>>> = const { RefCell::new(Vec::new()) };
}

/// Makes the cores of a run, of which the first begins with `first`, under the policy that `make` makes. Call it in the
/// setup.
///
/// # Errors
/// What `make` says against so many cores.
pub fn pool(
    make: impl FnOnce(usize, Arc<dyn Others>) -> Result<AnyPolicy<Controlled>, String>,
    cores: usize,
    costs: &Costs,
    first: impl FnOnce() + 'static,
) -> Result<Rc<Pool>, String> {
    let idle = Arc::new(Idle::new(cores));
    let policy = make(cores, idle.clone())?;
    let core = |index| Core {
        dispatcher: RefCell::new(Dispatcher::new(policy.part(index, |local| local))),
        home: Coroutine::here(),
        running: Cell::new(None),
        turn: Cell::new(0),
        ended: Cell::new(false),
        spare: RefCell::new(Vec::new()),
        worked: Cell::new(0),
        plain: <Controlled as Machine>::Atomic::new(0),
        idle: Cell::new(true),
    };
    let count = cores;
    let cores: Vec<Core> = (0..count).map(core).collect();
    let pool = Rc::new(Pool {
        base: started(),
        blocked: Blocked::new(),
        flags: Cell::new(0),
        idle,
        cores,
        policy,
        nodes: Box::leak(Box::default()),
        records: RefCell::default(),
        free: RefCell::new(Free::new(count)),
        // The first thread, which is about to be made.
        left: Cell::new(1),
        delivered: Cell::new(0.0),
        costs: costs.clone(),
        tally: RefCell::default(),
    });
    POOLS.with_borrow_mut(|pools| pools.push(pool.clone()));
    let mut first: Option<Body> = Some(Box::new(first));
    for index in 0..pool.cores.len() {
        let (pool, first) = (pool.clone(), first.take());
        start(format!("core {index}"), move || {
            if let Some(first) = first {
                pool.left.set(0);
                pool.spawn(first, DETACHED);
            }
            pool.run_core(index);
        });
    }
    Ok(pool)
}

impl dispatch::Pool<Controlled> for Pool {
    fn idle(&self) -> &Idle<Controlled> {
        &self.idle
    }

    fn switches(&self, _index: usize) -> Option<u64> {
        // No core of a simulation is stopped.
        None
    }
}

/// A core that has nothing to run.
struct Idling<'a> {
    pool: &'a Pool,
    me: usize,
    dispatcher: RefMut<'a, Dispatcher<Controlled, Local>>,
}

impl Resting<Controlled> for Idling<'_> {
    type Local = Local;

    /// As in production.
    const ROUNDS: u32 = 4;

    fn dispatcher(&mut self) -> &mut Dispatcher<Controlled, Local> {
        &mut self.dispatcher
    }

    fn local(&self) -> &Local {
        self.dispatcher.local()
    }

    fn over(&self) -> bool {
        self.pool.left.get() == 0
    }

    fn sleep(&mut self) -> Woken {
        self.pool.idle.sleep(self.me, None, self.pool.policy.ring(), || self.last_look())
    }
}

/// The pool that the caller runs in.
fn here() -> Rc<Pool> {
    let coroutine = current();
    let mine = |pools: &Vec<Rc<Pool>>| {
        let mut pools = pools.iter();
        pools.find(|pool| coroutine.is_some_and(|me| pool.has(me))).cloned()
    };
    POOLS.with_borrow(mine).unwrap_or_else(|| panic!("outside of a simulation"))
}

/// Makes a thread that runs `body`, and for whose end nobody waits.
pub fn spawn(body: impl FnOnce() + 'static) {
    spawn_as(Box::new(body), DETACHED);
}

/// Makes a thread that runs `body`, and can be waited for.
pub fn spawn_joined(body: impl FnOnce() + 'static) -> Spawned {
    Spawned(spawn_as(Box::new(body), RUNNING))
}

/// The right to wait for a thread's end, once. One that is dropped costs the memory of a record until the run is over.
#[must_use = "use `spawn` for a thread that nobody waits for"]
pub struct Spawned(Record);

impl Spawned {
    /// Waits until the thread has ended.
    pub fn join(self) {
        // SAFETY: records live until the pool's end (I3).
        unsafe { self.0.as_ref() }.wait();
        here().free.borrow_mut().give(me(), self.0);
    }
}

fn spawn_as(body: Body, join: u64) -> Record {
    let pool = here();
    let record = pool.spawn(body, join);
    let me = me();
    let crowded = pool.cores[me].dispatcher.borrow().crowded();
    if crowded {
        pool.tally.borrow_mut().retries += 1;
        runtime::leave(After::StepBack);
    }
    record
}

/// Writes plain data that lies beside a word which the calling thread has just written. What it reads there is read by
/// the same instruction.
pub fn touch() {
    here().cores[me()].plain.store(0, Ordering::Relaxed);
}

/// Computes for so many nanoseconds: the work of the calling thread.
pub fn compute(nanoseconds: u64) {
    let pool = here();
    let core = &pool.cores[me()];
    core.worked.set(core.worked.get() + nanoseconds);
    work(nanoseconds);
}

/// Computes for so many nanoseconds while so many bytes come from memory, which serves one request after the other.
/// What it takes longer than the computation is a stall, not work.
pub fn compute_on(nanoseconds: u64, bytes: u64) {
    const LINE: u64 = 64;
    let pool = here();
    let began = now() as f64;
    let delivered = pool.delivered.get().max(began) + bytes.div_ceil(LINE) as f64 * pool.costs.stream;
    if bytes > 0 {
        pool.delivered.set(delivered);
    }
    compute(nanoseconds);
    let late = delivered - began - nanoseconds as f64;
    if bytes > 0 && late >= 1.0 {
        stall(late as u64);
    }
}

/// Reads or writes so many bytes that core `from` used last: their lines come over several at a time. Charged as a
/// whole, and not among the transfers that the machine counts.
pub fn fetch(bytes: u64, from: usize) {
    const LINE: u64 = 64;
    let me = me();
    if me != from {
        let costs = &here().costs;
        let each = costs.transfer(me, from) / costs.overlap;
        stall((bytes.div_ceil(LINE) as f64 * each).round() as u64);
    }
}

/// The core that the caller is on.
pub fn me() -> usize {
    let coroutine = current().unwrap_or_else(|| panic!("outside of a simulation"));
    coroutine - here().base
}

impl Pool {
    fn has(&self, coroutine: usize) -> bool {
        (self.base..self.base + self.cores.len()).contains(&coroutine)
    }

    /// Each critical section of the runtime sets a flag, clears it and looks whether it was continued: so many
    /// nanoseconds.
    pub fn flags_cost(&self, nanoseconds: u64) {
        self.flags.set(nanoseconds);
    }

    /// A critical section of the runtime is left.
    fn section(&self) {
        if self.flags.get() > 0 {
            work(self.flags.get());
        }
    }

    fn spawn(&self, body: Body, join: u64) -> Record {
        let me = me();
        self.left.set(self.left.get() + 1);
        work(self.costs.spawn.round() as u64);
        let state = State {
            body: Some(body),
            coroutine: None,
            after: After::Exit,
            last: me,
            spawned_at: now(),
            ready_at: 0,
            panic: None,
        };
        // Not borrowed across the steps below.
        let reused = self.free.borrow_mut().take(me);
        self.section();
        let record = match reused {
            Some(record) => {
                // SAFETY: records live until the end of the pool (I3); this one's thread has ended, so it is ours (I1).
                unsafe { record.as_ref() }.again(state, join);
                record
            }
            None => {
                let record = Full::leak(state, join);
                self.records.borrow_mut().push(record);
                record
            }
        };
        self.push(me, record, Cause::Spawned);
        record
    }

    /// Makes a thread ready; the caller has the right to.
    fn push(&self, me: usize, record: Record, cause: Cause) {
        // SAFETY: the record lives (I3) and is ours until it is pushed (I1).
        unsafe { record.as_ref() }.state.borrow_mut().ready_at = now();
        // SAFETY: the thread was created, or suspended and claimed, or it yielded: once per call.
        let ready = unsafe { Ready::new(record.cast::<Thread<Controlled>>()) };
        self.section();
        let core = &self.cores[me];
        let mut dispatcher = core.dispatcher.borrow_mut();
        match cause {
            Cause::Woken => dispatcher.woken(self, ready, core.idle.get(), |_| ()),
            Cause::Yielded => dispatcher.yielded(self, ready),
            Cause::Spawned | Cause::Submitted => dispatcher.push(self, ready, cause),
        }
    }

    /// Makes a thread ready whose wait the caller has claimed.
    fn make_ready(&self, me: usize, record: Record) {
        let cost = self.costs.ready.round() as u64;
        if cost > 0 {
            work(cost);
        }
        self.push(me, record, Cause::Woken);
    }

    /// A core: what it has at hand, what it finds, sleep; until all threads have ended.
    fn run_core(&self, me: usize) {
        let at_hand = || self.cores[me].dispatcher.borrow_mut().at_hand();
        while let Some(ready) = at_hand().or_else(|| self.search(me)) {
            let mut next = Some(ready);
            while let Some(ready) = next {
                next = self.run_thread(me, ready);
            }
        }
    }

    fn search(&self, me: usize) -> Option<Ready<Controlled>> {
        let core = &self.cores[me];
        core.ended.set(false);
        rest(&self.idle, me, &mut Idling { pool: self, me, dispatcher: core.dispatcher.borrow_mut() })
    }

    /// Runs a thread until it leaves, and finishes it; the next one.
    fn run_thread(&self, me: usize, ready: Ready<Controlled>) -> Option<Ready<Controlled>> {
        let core = &self.cores[me];
        let record = ready.into_thread().cast::<Full>();
        // SAFETY: the record lives (I3), and is ours with its token (I1).
        let full = unsafe { record.as_ref() };
        self.arrive(me, full);
        let handle = {
            let mut state = full.state.borrow_mut();
            self.tally.borrow_mut().delays.push(now() - state.ready_at);
            state.coroutine.get_or_insert_with(|| stack(core)).handle()
        };
        core.idle.set(false);
        core.running.set(Some(record));
        let (after, next) = loop {
            core.turn.set(now());
            // SAFETY: the core's loop is where we are, and the thread is suspended or has not begun; nothing of either
            // is borrowed. It comes back when the thread leaves.
            unsafe { coroutine::go(core.home.handle(), handle) };
            let after = full.state.borrow().after;
            if !matches!(after, After::Yield | After::StepBack) {
                break (after, core.dispatcher.borrow_mut().select(self));
            }
            let next = core.dispatcher.borrow_mut().offer(full.thread.priority_now());
            if next.is_some() {
                break (after, next);
            }
            // Nobody else: it goes on.
        };
        core.running.set(None);
        core.idle.set(next.is_none());
        full.state.borrow_mut().last = me;
        self.section();
        match after {
            After::Yield => self.push(me, record, Cause::Yielded),
            After::StepBack => {
                full.state.borrow_mut().ready_at = now();
                // SAFETY: the thread was suspended just now: once per call.
                let ready = unsafe { Ready::new(record.cast::<Thread<Controlled>>()) };
                core.dispatcher.borrow_mut().stepped_back(self, ready);
            }
            After::Park(epoch) => {
                if full.thread.finish_park(epoch).is_err() {
                    self.push(me, record, Cause::Woken);
                }
            }
            After::Block(until) => {
                self.blocked.notice();
                self.blocked.push(until, record);
            }
            After::Exit => self.exit(me, record),
        }
        next
    }

    /// What passes until a thread's first instruction on this core: the switch; a stack of its own where none is at
    /// hand; and what it left with another core, one fetch after the other, since each leads to the next: of one that
    /// has run its stack and storage, and the frames that they lead to; of one that starts its closure. (What the model
    /// knows of its record is charged where it is used.)
    fn arrive(&self, me: usize, full: &Full) {
        let state = full.state.borrow();
        let starts = state.coroutine.is_none();
        let after_another = self.cores[me].ended.replace(false);
        let start = if starts && !after_another { self.costs.start } else { 0.0 };
        let fetches = if starts { 1.0 } else { 2.0 };
        let moved = if state.last == me { 0.0 } else { fetches * self.costs.transfer(me, state.last) };
        drop(state);
        work((self.costs.switch + start).round() as u64);
        if moved > 0.0 {
            stall(moved.round() as u64);
        }
    }

    fn exit(&self, me: usize, record: Record) {
        // SAFETY: the thread has ended, so its record is ours (I1).
        let full = unsafe { record.as_ref() };
        let mut state = full.state.borrow_mut();
        let coroutine = state.coroutine.take();
        self.cores[me].spare.borrow_mut().extend(coroutine);
        if let Some(panic) = state.panic.take() {
            resume_unwind(panic);
        }
        self.tally.borrow_mut().lives.push(now() - state.spawned_at);
        drop(state);
        self.cores[me].ended.set(true);
        self.section();
        let (before, joiner) = full.exited();
        if before == DETACHED {
            self.free.borrow_mut().give(me, record);
        }
        if let Some(joiner) = joiner {
            self.make_ready(me, joiner);
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.tally.borrow_mut().ended_at = now().max(1);
            (0..self.cores.len()).for_each(|core| self.idle.tell(Notify::Processor(core)));
            if self.blocked.is_used() {
                self.blocked.tell();
            }
        }
    }

    /// Threads that have not ended.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// What the threads have come to. After a run in which all ended.
    pub fn tally(&self) -> Tally {
        let mut tally = std::mem::take(&mut *self.tally.borrow_mut());
        for core in &self.cores {
            let (tried, won) = core.dispatcher.borrow().steals();
            tally.steals = (tally.steals.0 + tried, tally.steals.1 + won);
            tally.worked.push(core.worked.get());
        }
        tally
    }

    /// Ends the pool of a run that is over: gives back what its threads used, unless some have not ended.
    pub fn end(self: Rc<Self>) {
        POOLS.with_borrow_mut(|pools| pools.retain(|pool| !Rc::ptr_eq(pool, &self)));
        if self.left.get() > 0 {
            std::mem::forget(self);
            return;
        }
        for record in self.records.take() {
            // SAFETY: leaked in `spawn`; all threads have ended and the run is over, so nobody refers to it (I3).
            unsafe { record::release(record) };
        }
        let Ok(pool) = Rc::try_unwrap(self) else { return };
        for core in pool.cores {
            for coroutine in core.spare.into_inner().into_iter().chain([core.home]) {
                // SAFETY: its thread has ended, or it names where a loop was; the run is over.
                unsafe { coroutine.release() };
            }
        }
    }
}
