//! One run: coroutines on one kernel thread, and whose turn it is.
//!
//! A coroutine that is about to make a step says so, asks the driver who goes on, and switches there; it makes its step
//! when it is chosen. So a suspended coroutine always stands before a step that the driver can see.
//!
//! Invariants:
//! - I1: between two switches only the coroutine `world.current` runs (none: the setup, or the end of the run).
//! - I2: the execution is borrowed by nobody while coroutines switch.
//! - I3: a coroutine that has not ended keeps its stack for ever ([`Coroutine`]): others may have borrowed from it.

mod hooks;
mod outcome;

pub use outcome::{Options, Outcome, Run};

use crate::clock::{Clock, Knowledge};
use crate::coroutine::{self, Coroutine, Handle};
use crate::driver::{Choice, Driver, Random};
use crate::world::{Access, Core, NOWHERE, Op, Status, Step, World};
use hooks::{install_hooks, text_of};
use raddle_machine::Ordering;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;

type Body = Box<dyn FnOnce()>;

struct Execution {
    world: World,
    driver: Box<dyn Driver>,
    coroutines: Vec<Coroutine>,
    bodies: Vec<Option<Body>>,
    home: Handle,
    ready: usize,
    spinners: usize,
    /// Location and core, in the order of going to sleep.
    sleepers: VecDeque<(u32, usize)>,
    knowledge: Vec<Knowledge>,
    released: Vec<Clock>,
    locations: u32,
    number: u32,
    random: Random,
    options: Options,
    trace: Vec<Step>,
    digest: u64,
    /// What the panic hook saw.
    message: Option<String>,
    outcome: Option<Outcome>,
}

thread_local! {
    static EXECUTION: RefCell<Option<Box<Execution>>> = const { RefCell::new(None) };
    /// The number of the last run of this kernel thread; locations are valid for one run.
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

/// The execution of this kernel thread, if there is one.
fn with<R>(f: impl FnOnce(&mut Execution) -> R) -> Option<R> {
    EXECUTION.with_borrow_mut(|execution| execution.as_deref_mut().map(f))
}

/// Runs `setup`, which makes what is to be tested and [`start`]s coroutines, and then the coroutines until the run is
/// over.
///
/// What the setup does is no step, and happens before everything else. What it returns is kept for after the run: drop
/// nothing of what is tested in a coroutine, unless its end is part of the test.
///
/// # Panics
/// If the setup panics, or within another run.
pub fn run<D: Driver, T>(options: &Options, driver: D, setup: impl FnOnce() -> T) -> Run<D, T> {
    install_hooks();
    let here = Coroutine::here();
    let number = RUNS.get().wrapping_add(1).max(1);
    RUNS.set(number);
    let execution = Execution::new(options.clone(), Box::new(driver), here.handle(), number);
    let before = EXECUTION.with_borrow_mut(|slot| slot.is_none().then(|| *slot = Some(Box::new(execution))));
    assert!(before.is_some(), "a run within a run");
    let value = catch_unwind(AssertUnwindSafe(setup));
    if value.is_ok() {
        let to = with(Execution::choose).unwrap_or(here.handle());
        if to != here.handle() {
            // SAFETY: `here` is where we are; a coroutine that can be chosen is suspended or has not begun, and stays
            // until the end of the run; the execution is not borrowed (I2). It comes back when the run is over.
            unsafe { coroutine::go(here.handle(), to) };
        }
    }
    let execution = EXECUTION.take();
    // SAFETY: we are on it, and nobody goes on with it any more.
    unsafe { here.release() };
    let value = value.unwrap_or_else(|panic| resume_unwind(panic));
    let mut execution = *execution.unwrap_or_else(|| unreachable!("put there above, and taken here only"));
    execution.release_stacks();
    let driver: Box<dyn Any> = execution.driver;
    Run {
        outcome: execution.outcome.unwrap_or(Outcome::Stopped),
        steps: execution.world.steps,
        trace: execution.trace,
        digest: execution.digest,
        driver: *driver.downcast().unwrap_or_else(|_| unreachable!("the type that was put in")),
        value,
    }
}

/// Starts a coroutine: a simulated core, or a thread of a test. Returns its number, counted from 0.
///
/// It shares its kernel thread with the others, and its thread-local storage: it must not hold anything of that kernel
/// thread (a `std` lock, the borrow of a `RefCell` that others use, a scoped thread-local value) across a step.
///
/// # Panics
/// Outside of a run, or when there is no memory for its stack.
pub fn start(name: impl Into<String>, body: impl FnOnce() + 'static) -> usize {
    let coroutine = Coroutine::new(entry).unwrap_or_else(|why| panic!("no stack for a coroutine: {why}"));
    with(|execution| execution.add(name.into(), coroutine, Box::new(body)))
        .unwrap_or_else(|| panic!("outside of a run"))
}

/// The number of the coroutine that calls. None in the setup and outside of runs.
pub fn current() -> Option<usize> {
    with(|execution| execution.world.current).flatten()
}

/// How many coroutines there are.
pub(crate) fn started() -> usize {
    with(|execution| execution.coroutines.len()).unwrap_or(0)
}

/// Computes for so many nanoseconds: a step.
pub fn work(nanoseconds: u64) {
    pass(Op::Work, nanoseconds);
}

/// Waits so many nanoseconds for data whose lines are not simulated: a step.
pub fn stall(nanoseconds: u64) {
    pass(Op::Stall, nanoseconds);
}

fn pass(op: Op, nanoseconds: u64) {
    let access = Access { amount: nanoseconds, ..Access::nowhere(op) };
    if turn(access, None).is_some() {
        done(access, Values::default());
    }
}

/// Where the caller is in the happens-before relation. (In the setup: before everything.)
pub(crate) fn stamp() -> Clock {
    with(|execution| execution.stamp()).unwrap_or_default()
}

/// True if `stamp` happens before what the caller does now. (True outside of coroutines, and where clocks are not
/// kept.)
pub(crate) fn is_after(stamp: &Clock) -> bool {
    with(|execution| execution.knows(stamp)).unwrap_or(true)
}

/// The name of a coroutine.
pub(crate) fn name_of(core: usize) -> String {
    with(|execution| execution.world.cores.get(core).map(|core| core.name.clone()))
        .flatten()
        .unwrap_or_else(|| "the setup".to_string())
}

/// The time that the caller sees.
pub(crate) fn now() -> u64 {
    with(|execution| execution.now()).unwrap_or(0)
}

/// The next random word of the run.
pub(crate) fn random() -> u64 {
    with(|execution| execution.random.next_word()).unwrap_or(0)
}

/// Gives a new atomic word its number: run and location. 0 outside of runs; it gets one when it is first used in one.
pub(crate) fn new_place() -> u64 {
    // Words are made while others are dropped at the end of a kernel thread, too.
    EXECUTION.try_with(|slot| slot.borrow_mut().as_deref_mut().map_or(0, Execution::new_place)).unwrap_or(0)
}

/// An atomic word is dropped.
pub(crate) fn forget_place(place: u64) {
    let forget = |execution: &mut Execution| {
        if execution.options.lines && place >> 32 == u64::from(execution.number) {
            execution.world.lines.dropped(place as u32, execution.world.current.unwrap_or(0));
        }
    };
    // What a run leaves is dropped with its execution, too.
    let _ = EXECUTION.try_with(|slot| slot.try_borrow_mut().ok()?.as_deref_mut().map(forget));
}

/// The values of a step.
#[derive(Clone, Copy, Default)]
pub(crate) struct Values {
    pub old: u64,
    pub new: u64,
    pub wrote: bool,
    pub address: bool,
    /// The ordering of the load, where it differs.
    pub failed: Option<Ordering>,
}

/// Says what the caller is about to do and waits for its turn. None where nobody takes turns: outside of coroutines,
/// and in one that panics. Otherwise the access with its location; [`done`] or [`sleep`] must follow at once.
pub(crate) fn turn(access: Access, place: Option<&AtomicU64>) -> Option<Access> {
    let (access, switch) = with(|execution| execution.turn(access, place)).flatten()?;
    if let Some((from, to)) = switch {
        // SAFETY: `from` is the current coroutine, which calls (I1); `to` is another one that can go on, or where the
        // run began; all stay until the run is over, and the execution is not borrowed (I2).
        unsafe { coroutine::go(from, to) };
    }
    Some(access)
}

/// Notes the step that the caller has made.
pub(crate) fn done(access: Access, values: Values) {
    with(|execution| execution.done(access, values));
}

/// Makes the step of a wait, and sleeps if the word is as expected.
pub(crate) fn sleep(access: Access, values: Values, as_expected: bool, deadline: Option<u64>) {
    let switch = with(|execution| {
        execution.done(access, values);
        let passed = deadline.is_some_and(|time| time <= execution.now());
        if as_expected && !passed { execution.sleep(access.location, deadline) } else { None }
    });
    if let Some((from, to)) = switch.flatten() {
        // SAFETY: as in `turn`.
        unsafe { coroutine::go(from, to) };
    }
}

/// Wakes at most `count` of those who sleep at the access's location.
pub(crate) fn wake(access: Access) {
    with(|execution| {
        execution.done(access, Values::default());
        execution.wake(access.location, access.amount);
    });
}

/// Where each coroutine begins and ends.
unsafe extern "C" fn entry(_: usize) -> ! {
    let body = with(|execution| execution.world.current.and_then(|me| execution.bodies[me].take())).flatten();
    let result = catch_unwind(AssertUnwindSafe(|| body.into_iter().for_each(|body| body())));
    let to = with(|execution| execution.ended(result));
    match to {
        // SAFETY: as in `turn`; nothing here is used any more.
        Some(to) => unsafe { coroutine::leave(to) },
        None => std::process::abort(),
    }
}

impl Execution {
    fn new(options: Options, driver: Box<dyn Driver>, home: Handle, number: u32) -> Self {
        Self {
            world: World::default(),
            driver,
            coroutines: Vec::new(),
            bodies: Vec::new(),
            home,
            ready: 0,
            spinners: 0,
            sleepers: VecDeque::new(),
            knowledge: Vec::new(),
            released: Vec::new(),
            locations: 0,
            number,
            random: Random::new(options.seed),
            options,
            trace: Vec::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            message: None,
            outcome: None,
        }
    }

    fn add(&mut self, name: String, coroutine: Coroutine, body: Body) -> usize {
        let knowledge = Knowledge::after(&self.stamp());
        self.coroutines.push(coroutine);
        self.bodies.push(Some(body));
        self.knowledge.push(knowledge);
        self.world.cores.push(Core {
            name,
            status: Status::Ready,
            pending: Access::nowhere(Op::Begin),
            steps: 0,
            spins: false,
        });
        self.ready += 1;
        self.coroutines.len() - 1
    }

    fn stamp(&mut self) -> Clock {
        let Some(me) = self.world.current.filter(|_| self.options.clocks) else { return Clock::default() };
        let stamp = self.knowledge[me].clock.clone();
        // What follows is not known to those who learn of this point.
        self.knowledge[me].clock.tick(me);
        stamp
    }

    fn knows(&self, stamp: &Clock) -> bool {
        match self.world.current {
            Some(me) if self.options.clocks => stamp.happens_before(&self.knowledge[me].clock),
            _ => true,
        }
    }

    fn now(&mut self) -> u64 {
        match self.world.current {
            Some(me) => self.driver.now(me, &self.world),
            None => self.world.time,
        }
    }

    fn new_place(&mut self) -> u64 {
        let place = u64::from(self.number) << 32 | u64::from(self.locations);
        self.locations += 1;
        place
    }

    fn location(&mut self, place: &AtomicU64, me: usize) -> u32 {
        // Relaxed here and below: used by the kernel thread of the run.
        let mut known = place.load(Ordering::Relaxed);
        if known >> 32 != u64::from(self.number) {
            known = self.new_place();
            place.store(known, Ordering::Relaxed);
        }
        let location = known as u32;
        if self.options.lines {
            self.world.lines.note(location, std::ptr::from_ref(place).addr(), me);
        }
        location
    }

    fn turn(&mut self, access: Access, place: Option<&AtomicU64>) -> Option<(Access, Option<(Handle, Handle)>)> {
        let me = self.world.current?;
        if std::thread::panicking() {
            return None;
        }
        let location = place.map_or(NOWHERE, |place| self.location(place, me));
        let access = Access { location, ..access };
        self.world.cores[me].pending = access;
        let (from, to) = (self.coroutines[me].handle(), self.choose());
        Some((access, (from != to).then_some((from, to))))
    }

    /// Lets the driver choose who goes on: that one's handle, or the one of where the run began.
    fn choose(&mut self) -> Handle {
        if self.world.steps >= self.options.steps {
            let busiest = (0..self.world.cores.len()).max_by_key(|&core| self.world.cores[core].steps);
            let Some(Core { name, steps, pending, .. }) = busiest.map(|core| self.world.cores[core].clone()) else {
                return self.over(Outcome::Done);
            };
            return self.over(Outcome::Endless { name, steps, last: pending });
        }
        let core = if self.ready > 0 {
            match self.driver.choose(&self.world) {
                Choice::Go(core) => core,
                Choice::Stop => return self.over(Outcome::Stopped),
            }
        } else if self.sleepers.is_empty() {
            return self.over(Outcome::Done);
        } else {
            match self.driver.all_asleep(&self.world) {
                Some(core) => core,
                None => {
                    let name = |core: usize| self.world.cores[core].name.clone();
                    let names = self.world.sleepers().map(name).collect();
                    return self.over(Outcome::Asleep(names));
                }
            }
        };
        match self.world.cores[core].status {
            Status::Ready => {}
            Status::Waiting { deadline, .. } => {
                self.world.time = self.world.time.max(deadline.unwrap_or(0));
                self.sleepers.retain(|&(_, sleeper)| sleeper != core);
                self.rouse(core);
            }
            Status::Ended => panic!("the driver chose `{}`, which has ended", self.world.cores[core].name),
        }
        self.world.current = Some(core);
        if matches!(self.world.cores[core].pending.op, Op::Begin | Op::Return) {
            self.done(self.world.cores[core].pending, Values::default());
        }
        self.coroutines[core].handle()
    }

    fn over(&mut self, outcome: Outcome) -> Handle {
        self.outcome.get_or_insert(outcome);
        self.world.current = None;
        self.home
    }

    fn done(&mut self, access: Access, values: Values) {
        let Some(me) = self.world.current else { return };
        self.world.steps += 1;
        if self.world.steps.is_multiple_of(crate::watch::TOLD) {
            crate::watch::tell();
        }
        self.world.cores[me].steps += 1;
        if self.options.clocks {
            self.order(me, access, values);
        }
        self.note_spinning(me, access, values.wrote);
        let Values { old, new, wrote, address, .. } = values;
        let step = Step { core: me, access, old, new, wrote, address };
        self.mix(&step);
        if self.options.trace {
            self.trace.push(step);
        }
        self.driver.performed(&step, &self.world);
    }

    /// The happens-before relation.
    fn order(&mut self, me: usize, access: Access, values: Values) {
        let knowledge = &mut self.knowledge[me];
        knowledge.clock.tick(me);
        match access.op {
            Op::Fence => knowledge.fence(access.order),
            Op::LightFence | Op::HeavyFence => knowledge.fence(Ordering::SeqCst),
            // The comparison is the kernel's own and orders nothing.
            _ if access.location == NOWHERE || matches!(access.op, Op::Wait | Op::Wake) => {}
            op => {
                let location = access.location as usize;
                if self.released.len() <= location {
                    self.released.resize(self.locations as usize, Clock::default());
                }
                let released = &mut self.released[location];
                if op != Op::Store {
                    knowledge.load(released, values.failed.unwrap_or(access.order));
                }
                if values.wrote {
                    knowledge.store(released, access.order, op != Op::Store);
                }
            }
        }
    }

    fn note_spinning(&mut self, me: usize, access: Access, wrote: bool) {
        let spins = access.op == Op::SpinHint;
        if spins != self.world.cores[me].spins {
            self.world.cores[me].spins = spins;
            self.spinners = if spins { self.spinners + 1 } else { self.spinners - 1 };
        }
        if self.spinners > 0 && (wrote || access.op == Op::Wake) {
            self.world.cores.iter_mut().for_each(|core| core.spins = false);
            self.spinners = 0;
        }
    }

    /// FNV-1a over what [`Step`]'s text says.
    fn mix(&mut self, step: &Step) {
        let Access { op, location, order, amount } = step.access;
        let what = (step.core as u64) << 16 | (op as u64) << 8 | (order as u64) << 1 | u64::from(step.wrote);
        let (old, new) = if step.address { (0, 0) } else { (step.old, step.new) };
        for word in [what, u64::from(location), amount, old, new] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    /// Whom to go on with instead of the caller; nobody if its deadline is what comes next.
    fn sleep(&mut self, location: u32, deadline: Option<u64>) -> Option<(Handle, Handle)> {
        let me = self.world.current.unwrap_or_else(|| unreachable!("a coroutine sleeps"));
        self.world.cores[me].status = Status::Waiting { location, deadline };
        self.ready -= 1;
        self.sleepers.push_back((location, me));
        let from = self.coroutines[me].handle();
        let to = self.choose();
        (from != to).then_some((from, to))
    }

    fn rouse(&mut self, core: usize) {
        self.world.cores[core].status = Status::Ready;
        self.world.cores[core].pending = Access::nowhere(Op::Return);
        self.ready += 1;
    }

    fn wake(&mut self, location: u32, count: u64) {
        for _ in 0..count {
            let Some(at) = self.sleepers.iter().position(|&(where_, _)| where_ == location) else { return };
            if let Some((_, core)) = self.sleepers.remove(at) {
                self.rouse(core);
                self.driver.woken(core, &self.world);
            }
        }
    }

    fn ended(&mut self, result: Result<(), Box<dyn Any + Send>>) -> Handle {
        let me = self.world.current.unwrap_or_else(|| unreachable!("a coroutine ends"));
        self.world.cores[me].status = Status::Ended;
        self.ready -= 1;
        if let Err(panic) = result {
            let message = self.message.take().unwrap_or_else(|| text_of(&*panic).to_string());
            let name = self.world.cores[me].name.clone();
            return self.over(Outcome::Panicked { name, message });
        }
        self.choose()
    }

    /// Gives back the stacks of coroutines that have ended or have not begun.
    fn release_stacks(&mut self) {
        for ((coroutine, body), core) in self.coroutines.drain(..).zip(&self.bodies).zip(&self.world.cores) {
            if core.status == Status::Ended || body.is_some() {
                // SAFETY: it has ended, or never began; the run is over, so nobody resumes it. (Others are dropped,
                // which loses their stacks to the arena: I3.)
                unsafe { coroutine.release() };
            }
        }
    }
}
