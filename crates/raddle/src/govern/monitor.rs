//! The monitor: one kernel thread that sees to it that no processor stays with an activation that is stuck.
//!
//! What it does about a processor that does not switch, and when it looks again, is decided in
//! [`raddle_scheduler::govern::stall`]. To publish what a computing processor holds, the processor is taken for a
//! moment; its due timers fire, and it is left free for its activation to take back at its next step, or a spare goes
//! on with it beside that activation, and the kernel shares the core between the two. An activation inside its mark is
//! left alone.
//!
//! Bound: a thread that only a stuck processor could run waits at most nine periods, plus what the system needs to
//! start a kernel thread. Cost: one wake-up a period while something runs, or in four where nothing needs it (ten times
//! a second at most while only event loops that are apart run); a few reads of atomics, a system call for each
//! processor that computes, a look at `/proc` ([`crate::os::looks`]) for each that seems not to.

use crate::carry::activation::{Activation, LOWEST};
use crate::carry::pool::{self, Shared, Spare, WATCHMAN, hint};
use crate::carry::processor::Processor;
use crate::carry::traced;
use crate::carry::turns::Returns;
use crate::carry::witness::Inside;
use crate::govern::follow::Follower;
use crate::govern::idle_stacks::IdleStacks;
use crate::govern::standby::{CATCHES, Standbys};
use crate::govern::ways::{Way, wanted};
use crate::os::ticker::{self, Asked};
use crate::os::{TaskState, looks, task_state, time_on_core};
use raddle_machine::{Machine, Real};
use raddle_scheduler::Notify;
use raddle_scheduler::govern::short::{Sample, Short};
use raddle_scheduler::govern::stall::{Doing, Order, Pace, Stall};
use raddle_scheduler::takeover::Take;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nanoseconds between two looks.
const PERIOD_NS: u64 = 1_000_000;
/// Processors taken from blocked activations, and for a moment from computing ones, since the process began.
pub(crate) static TAKEOVERS: AtomicU64 = AtomicU64::new(0);
pub(crate) static PUBLICATIONS: AtomicU64 = AtomicU64::new(0);
/// Times a spare went on with a processor beside a computing activation.
pub(crate) static SLICES: AtomicU64 = AtomicU64::new(0);

/// Requests made to computing threads for halves of theirs, and halves given, since the process began.
pub(crate) static HALVES_ASKED: AtomicU64 = AtomicU64::new(0);
pub(crate) static HALVES_GIVEN: AtomicU64 = AtomicU64::new(0);

/// A look that goes on with what it remembers: true if the monitor is to stay awake.
pub(crate) type Look = Box<dyn FnMut() -> bool>;

/// What the rooms above have the monitor do at each look, from their first use on.
pub(crate) struct Besides {
    /// Stages: at this time.
    pub stages: OnceLock<fn(u64)>,
    /// Requests for halves, with what it remembers of them: true while a thread computes beside a sleeping processor.
    pub requests: OnceLock<fn() -> Look>,
}
pub(crate) static BESIDES: Besides = Besides { stages: OnceLock::new(), requests: OnceLock::new() };

static STARTED: AtomicBool = AtomicBool::new(false);

/// In the child of a fork: there is no monitor.
pub(crate) fn forget() {
    STARTED.store(false, Ordering::Relaxed);
    WATCHMAN.forget();
}

/// Starts the monitor with the first pool.
pub(crate) fn start() {
    if !STARTED.swap(true, Ordering::Relaxed) {
        if std::env::var_os("RADDLE_DELAYS").is_some_and(|value| value == "1") {
            crate::carry::delays::switch(true);
        }
        crate::os::looks::start();
        // Read here: the environment may change later.
        let _ = wanted();
        // Without it blocked threads would hold their processors for ever, and nobody would say so.
        let whole = || crate::os::or_abort(|| "the monitor panicked".to_string(), main);
        if let Err(error) = crate::os::spawn("raddle-monitor", whole) {
            crate::os::say_once(&format!(
                "raddle: no kernel thread for the monitor ({error}): a thread that blocks in the kernel holds its processor"
            ));
        }
    }
    hint();
}

#[derive(Default)]
struct Seen {
    stall: Stall,
    /// How long its activation had been on a core at the last look, in ns; not asked about one that switches.
    on_core: Option<u64>,
    short: Short,
    /// The activations that compute on without this processor.
    beside: Vec<&'static Activation>,
}

fn main() {
    // An identity for ownership; it never carries a processor for longer than a publication.
    let Some(me) = crate::carry::activations::claim(None) else {
        crate::os::say_once("raddle: no activation is left for the monitor: blocked threads hold their processors");
        return;
    };
    if crate::os::filters() == Some(0) {
        raddle_context::stack::has_no_filters();
    }
    let mut seen: HashMap<usize, Seen> = HashMap::new();
    let mut follower = Follower::default();
    let mut requests: Option<Look> = None;
    let mut standbys = Standbys::default();
    let mut returns = Returns::default();
    let mut circles = crate::govern::dump::circles::CircleSearch::default();
    let mut dead_locks = crate::govern::deadlock::Search::default();
    let mut idle_stacks = IdleStacks::default();
    let mut pace = Pace::default();
    loop {
        crate::govern::dump::dump_if_wanted();
        crate::govern::busiest::say_if_failed();
        crate::carry::space::look();
        let (mut busy, mut settled) = (false, true);
        let now = Real::now();
        if let Some(stages) = BESIDES.stages.get() {
            stages(now);
        }
        requests = requests.or_else(|| BESIDES.requests.get().map(|begin| begin()));
        for pool in pool::pools() {
            let found = survey(pool, me, &mut seen, &mut standbys, pace.periods());
            follower.attend(pool, now);
            let unsettled = follower.settle(pool, me);
            busy |= found.busy | unsettled;
            settled &= (found.computing | found.lively) & !unsettled;
        }
        follower.fire();
        standbys.arm();
        if [&TAKEOVERS, &PUBLICATIONS, &CATCHES].into_iter().any(|taken| taken.load(Ordering::Relaxed) != 0) {
            returns.look(have_it_come_back);
        }
        let circle_due = circles.walk(now, crate::govern::deadlock::is_reported);
        let asked = requests.as_mut().is_some_and(|look| look());
        crate::carry::events::watch::tick();
        if let Some(periods) = pace.after(busy | asked, settled & !asked) {
            crate::os::sleep(PERIOD_NS * u64::from(periods));
            continue;
        }
        let (mut loops, mut events, mut dead_lock, mut stacks) = (None, None, None, None);
        // A processor that woke before it could see that the monitor sleeps is busy now.
        let rung = WATCHMAN.sleep(
            || pool::pools().all(Shared::all_asleep),
            || {
                // What those who sleep may oversleep, should they be frozen: their deadlines, and events.
                let overslept = Follower::next_visit();
                events = crate::carry::events::watch::next_visit(Real::now());
                loops = follower.next_look();
                stacks = idle_stacks.look(Real::now());
                let timer = follower.next_deadline();
                if timer.is_none() {
                    dead_lock = dead_locks.look();
                }
                let again = (!Real::heavy_fence_available()).then(|| Real::now() + 10 * PERIOD_NS);
                [timer, again, loops, overslept, events, circle_due, dead_lock, stacks].into_iter().flatten().min()
            },
        );
        let now = Real::now();
        if events.is_some_and(|at| now >= at) {
            crate::carry::events::watch::visit();
        }
        // For the sake of loops, or of one that may be frozen, one look will do.
        let short = [loops, events, circle_due, dead_lock, stacks].into_iter().flatten().any(|at| now >= at) && !rung;
        pace.wakes(short);
    }
}

/// What a look at a pool found.
struct Found {
    /// Something runs there.
    busy: bool,
    /// Each of its processors computes, and needs nothing.
    computing: bool,
    /// Each that does not sleep, if any, has switched since the last look.
    lively: bool,
}

/// One look at one pool, so many periods after the last one.
fn survey(
    pool: &'static Shared,
    me: &'static Activation,
    seen: &mut HashMap<usize, Seen>,
    standbys: &mut Standbys,
    periods: u32,
) -> Found {
    if !pool.is_open() || pool.is_stopping() {
        return Found { busy: true, computing: false, lively: false };
    }
    let (mut busy, mut computing, mut lively) = (false, true, true);
    let mut stuck_searching = true;
    let mut frozen_searcher = false;
    for processor in pool.processors() {
        if !processor.seat.is_active() {
            continue;
        }
        if pool.idle.is_sleeping(processor.index) {
            computing = false;
            continue;
        }
        busy = true;
        let seen = seen.entry(std::ptr::from_ref(processor).addr()).or_default();
        let [switches, retries] = [&processor.counters.switches, &processor.counters.spawn_retries]
            .map(|count| count.load(Ordering::Relaxed));
        if !seen.stall.stands_still(switches, retries, periods) {
            seen.on_core = None;
            watch_short_blocks(processor, seen, standbys);
            (stuck_searching, computing) = (false, false);
            continue;
        }
        lively = false;
        if !seen.stall.is_due() || seen.on_core.is_none() {
            seen.on_core = Some(owner_of(processor).and_then(time_on_core).unwrap_or(0));
            computing = false;
        } else {
            frozen_searcher |= processor.running.load(Ordering::Relaxed) == LOWEST;
            computing &= still(pool, processor, me, seen, standbys, periods);
        }
    }
    // A frozen searcher would suppress every wake-up, also while others run what they have.
    if busy && (stuck_searching || frozen_searcher) && pool.idle.sleeping() > 0 {
        pool.idle.kick();
    }
    Found { busy, computing, lively }
}

/// A processor that switches: where its threads block too shortly for a look to meet, a standby is to tell of it.
fn watch_short_blocks(processor: &'static Processor, seen: &mut Seen, standbys: &mut Standbys) {
    let owner = crate::carry::activations::find(processor.seat.owner.owner());
    let Some(owner) = owner.filter(|owner| Real::heavy_fence_available() && standbys.are_wanted_for(owner)) else {
        return seen.short.forget();
    };
    let task = owner.tid.load(Ordering::Relaxed);
    let Some(on_core) = time_on_core(task) else { return seen.short.forget() };
    let sleeps = processor.counters.sleeps.load(Ordering::Relaxed);
    let now = Sample { at: Real::now(), owner: owner.id, sleeps, on_core };
    if seen.short.look(now, || looks::time_waiting(task), looks::waited) {
        standbys.serve(owner);
    }
}

/// The kernel thread that carries the processor.
fn owner_of(processor: &Processor) -> Option<u32> {
    Some(crate::carry::activations::find(processor.seat.owner.owner())?.tid.load(Ordering::Relaxed))
}

/// A processor that has not switched for some periods, the last look being so many ago. True if it computes.
fn still(
    pool: &'static Shared,
    processor: &'static Processor,
    me: &'static Activation,
    seen: &mut Seen,
    standbys: &mut Standbys,
    periods: u32,
) -> bool {
    if !Real::heavy_fence_available() {
        // Taking a processor would not be safe: its owner might enter unseen.
        return false;
    }
    let owner = processor.seat.owner.owner();
    let activation = crate::carry::activations::find(owner);
    let doing = match activation {
        None if owner == 0 => Doing::Without,
        None => return false,
        Some(activation) => match state(activation, seen, periods) {
            TaskState::Blocked => Doing::Blocked,
            TaskState::Running => Doing::Computes,
            TaskState::Unknown => Doing::Unknown,
        },
    };
    seen.beside.retain(|a| computes_beside(a));
    let others_idle = pool.idle.sleeping() > 0;
    let order = seen.stall.order(doing, others_idle, seen.beside.len());
    let Some(activation) = activation else {
        if order == Order::Carry {
            match pool.spare() {
                Some(spare) => pool.hand_over(processor, spare),
                None => crate::carry::turns::call(processor),
            }
        }
        return false;
    };
    if doing == Doing::Computes {
        match ticker::asked() {
            Some(Asked::All) => have_it_tick(activation, processor),
            Some(Asked::Spinning) if !others_idle && seen.stall.is_to_be_asked() => have_it_say(activation),
            _ => {}
        }
    }
    match order {
        Order::TakeOver if wanted() != Way::Nobody => {
            standbys.serve(activation);
            take_over(pool, processor, activation, me);
        }
        Order::Publish if borrow(pool, processor, activation, me, |_| None) => seen.stall.has_published(),
        Order::Share => {
            let spare = |has_work| if has_work { pool.spare() } else { None };
            if borrow(pool, processor, activation, me, spare) && processor.seat.owner.owner() != 0 {
                SLICES.fetch_add(1, Ordering::Relaxed);
                seen.beside.push(activation);
            }
        }
        Order::Nothing | Order::Carry | Order::TakeOver | Order::Publish => {}
    }
    doing == Doing::Computes
}

/// The thread that computes beside the processors is asked to come back to the queue.
fn have_it_come_back(activation: &'static Activation) {
    if ticker::asked() == Some(Asked::All) {
        have_it_tick(activation, activation.processor());
    }
}

/// The thread that computes there is asked to give way once a quantum, while others wait.
fn have_it_tick(activation: &'static Activation, processor: &'static Processor) {
    let task = activation.tid.load(Ordering::Relaxed);
    if task == 0 {
        return;
    }
    if activation.ticker.prepare(task) {
        activation.ticker.arm(processor.traffic());
    } else {
        crate::os::say_once(
            "raddle: the kernel refuses a timer (`ulimit -i`): threads that compute give way at quantum checks alone",
        );
    }
}

/// The thread that computes there is asked whether it spins: then it gives way, and those after it that spin, too.
fn have_it_say(activation: &'static Activation) {
    let task = activation.tid.load(Ordering::Relaxed);
    if task != 0 && activation.ticker.prepare(task) {
        activation.ticker.ask_once();
    }
}

/// What its kernel thread does. `/proc` is asked only about one that was on a core for less than a quarter of the time
/// since the last look: that took the monitor's period 25 to 120 us while two processors computed, as the system's own
/// trace showed.
fn state(activation: &'static Activation, seen: &mut Seen, periods: u32) -> TaskState {
    let task = activation.tid.load(Ordering::Relaxed);
    let enough = u64::from(periods) * PERIOD_NS / 4;
    match time_on_core(task) {
        Some(time) if time.abs_diff(seen.on_core.replace(time).unwrap_or(0)) >= enough => TaskState::Running,
        _ => task_state(task),
    }
}

/// True while that activation runs a thread without owning the processor it carried.
fn computes_beside(a: &'static Activation) -> bool {
    !a.current.load(Ordering::Relaxed).is_null() && a.processor_if_any().is_some_and(|p| p.seat.owner.owner() != a.id)
}

/// The owner is blocked in the kernel: a spare goes on with its processor.
fn take_over(
    pool: &'static Shared,
    processor: &'static Processor,
    owner: &'static Activation,
    me: &'static Activation,
) {
    if owner.mark.is_inside() {
        return;
    }
    let Some(spare) = pool.spare() else {
        crate::os::say_once(
            "raddle: no kernel thread for a spare activation: a blocked thread's processor rests meanwhile",
        );
        // What it held goes to the others; the processor is free until its activation comes back.
        borrow(pool, processor, owner, me, |_| None);
        return;
    };
    // The owner may have let the processor go since it was looked at, and have become a spare.
    if spare.id() != owner.id && processor.seat.owner.take(spare.id(), owner.id, &owner.mark) == Take::Taken {
        TAKEOVERS.fetch_add(1, Ordering::Relaxed);
        traced::taken(processor, owner, traced::BLOCKED);
        spare.carry(processor);
    }
}

/// Takes the processor of a computing activation for a moment: what it holds privately becomes takeable, its due timers
/// fire. Then `successor`, told whether there is work, may name a spare that goes on with the processor; otherwise it
/// is left free for its activation. True if it was taken.
fn borrow(
    pool: &'static Shared,
    processor: &'static Processor,
    owner: &'static Activation,
    me: &'static Activation,
    successor: impl FnOnce(bool) -> Option<Spare<'static>>,
) -> bool {
    if processor.seat.owner.take(me.id, owner.id, &owner.mark) != Take::Taken {
        return false;
    }
    let Some(mut inside) = Inside::enter_at(me, processor) else { return false };
    me.set_processor(processor);
    crate::carry::timers::fire_due(inside.lend());
    let dispatcher = &mut inside.owned().dispatcher;
    let (notify, has_work) = (dispatcher.expose(), dispatcher.has_work());
    traced::taken(processor, owner, traced::COMPUTES);
    inside.release();
    PUBLICATIONS.fetch_add(1, Ordering::Relaxed);
    if notify != Notify::Nobody {
        pool.idle.kick();
    }
    // The processor is free by now: to start a kernel thread the C library asks the program's own allocator for memory,
    // whose lock a thread of that processor may hold.
    if let Some(spare) = successor(has_work) {
        pool.hand_over(processor, spare);
    }
    true
}
