//! The monitor: one kernel thread that sees to it that no processor stays with an activation that is stuck.
//!
//! It wakes once a period while any processor is busy (and ten times a second at most while only event loops that are
//! apart run), every other one or every fourth while all that are busy, if any, switch ([`LIVELY`]), and sleeps when
//! none has been for a while. A processor whose switch count stands still for two periods is looked at: if its
//! activation is blocked in the kernel (or stopped), a spare activation takes the processor over; if it computes while
//! other processors are idle, the processor is taken for a moment, what it held privately is published and its due
//! timers fire, and it is left free for its activation to take back at its next step; if it computes for [`SLICE`]
//! periods while other threads of its processor wait, a spare goes on with the processor beside it, and the kernel
//! shares the core between the two, at once if one of those has stepped back behind the threads that it spawned; each
//! second further one beside the same processor takes twice as long to come, as the next. An activation inside its mark
//! is left alone. Silence alone means nothing: a processor that computes is not one that is blocked.
//!
//! Bound: a thread that only a stuck processor could run waits at most nine periods, five while such things happen,
//! plus what the system needs to start a kernel thread; two of up to four times that length if all processors of all
//! pools were computing, since the monitor looks less often then. Cost: one wake-up a period while something runs, a
//! few reads of atomics, a system call for each processor that computes, a look at `/proc` ([`crate::os::looks`]) for
//! each that seems not to.

use crate::carry::activation::{Activation, LOWEST};
use crate::carry::pool::{self, Shared, WATCHMAN, hint};
use crate::carry::processor::Processor;
use crate::carry::turns::Returns;
use crate::carry::witness::Inside;
use crate::govern::follow::Follower;
use crate::govern::standby::Standbys;
use crate::govern::ways::{Way, wanted};
use crate::os::{TaskState, task_state, ticker, time_on_core};
use raddle_machine::{Machine, Real};
use raddle_scheduler::Notify;
use raddle_scheduler::takeover::Take;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nanoseconds between two looks.
const PERIOD: u64 = 1_000_000;
/// Periods without a switch until a processor is looked at.
const PATIENCE: u32 = 2;
/// Periods of computing until a spare goes on with the processor, if others wait for it. Kernel threads that share a
/// core end later than threads that take turns, and the kernel leaves cores idle meanwhile: `mandelbrot`, 100 threads
/// of 10 ms each, took 566 ms with 10 and 559 with 20 (medians of 22 interleaved rounds; 557 and 548 in 14 earlier
/// ones, 545 without spares).
const SLICE: u32 = 20;
/// Spares beside a processor with which one more does not come at once for the sake of a thread that has stepped back.
/// An untested guess: with 300 threads that spin for their spawner two come so.
const MOST_AT_ONCE: usize = 4;
/// Looks that found nothing but processors that compute until the next one may be twice as far off, and again four
/// times: `mandelbrot` took 563 ms with looks in each period, 555 so (medians of 20).
const CALM: u32 = 1;
/// Periods until the next look where all that are busy, if any, switch: at first, and after [`SMOOTH`] such looks since
/// a processor had to be taken. A look costs a server about 12 us of a core, its wake-up by the kernel included: 1.2 %
/// of the core in each period.
const LIVELY: [u32; 2] = [2, 4];
const SMOOTH: u32 = 16;
/// Periods without anything busy until the monitor sleeps.
const REST_AFTER: u32 = 16;

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
    switches: u64,
    still: u32,
    published: bool,
    /// How still it is when the next spare is due.
    slice: u32,
    /// How often a thread had stepped back there behind those that it had spawned, and whether one has done so since
    /// the look before: it may be what the running thread waits for.
    retries: u64,
    stepped_back: bool,
    /// How long its activation had been on a core at the last look, in ns; not asked about one that switches.
    on_core: Option<u64>,
    /// The activations that compute on without this processor.
    beside: Vec<&'static Activation>,
}

fn main() {
    // An identity for ownership; it never carries a processor for longer than a publication.
    let Some(me) = crate::carry::activations::claim(None) else {
        crate::os::say_once("raddle: no activation is left for the monitor: blocked threads hold their processors");
        return;
    };
    let mut seen: HashMap<usize, Seen> = HashMap::new();
    let mut follower = Follower::default();
    let mut requests: Option<Look> = None;
    let mut standbys = Standbys::default();
    let mut returns = Returns::default();
    let mut circles = crate::govern::dump::circles::Watch::default();
    let (mut quiet, mut calm, mut step) = (0, 0, 1);
    // Looks at nothing but switching processors since `taken` was counted.
    let (mut smooth, mut taken) = (0u32, 0);
    loop {
        crate::govern::dump::dump_if_wanted();
        let (mut busy, mut computing, mut lively) = (false, true, true);
        let now = Real::now();
        if let Some(stages) = BESIDES.stages.get() {
            stages(now);
        }
        requests = requests.or_else(|| BESIDES.requests.get().map(|begin| begin()));
        for pool in pool::pools() {
            let found = look(pool, me, &mut seen, &mut standbys, step);
            follower.attend(pool, now);
            let unsettled = follower.look(pool, me);
            busy |= found.busy | unsettled;
            computing &= found.computing & !unsettled;
            lively &= found.lively & !unsettled;
        }
        follower.fire();
        standbys.look();
        if taken != 0 {
            returns.look();
        }
        let circle_due = circles.look(now, crate::govern::deadlock::is_reported);
        let asked = requests.as_mut().is_some_and(|look| look());
        crate::carry::events::watch::tick();
        busy |= asked;
        quiet = if busy { 0 } else { quiet + step };
        calm = if busy && computing { calm + 1 } else { 0 };
        let taken_before = std::mem::replace(&mut taken, processors_taken());
        smooth = if taken != taken_before { 0 } else { smooth.saturating_add(u32::from(lively)) };
        if quiet < REST_AFTER {
            step = if lively && !asked {
                LIVELY[usize::from(smooth > SMOOTH && follower.next_deadline().is_none())]
            } else {
                1 << (calm / CALM).min(2)
            };
            crate::os::sleep(PERIOD * u64::from(step));
            continue;
        }
        let (mut loops, mut events) = (None, None);
        // A processor that woke before it could see that the monitor sleeps is busy now.
        let rung = WATCHMAN.sleep(|| {
            // What those who sleep may oversleep, should they be frozen: their deadlines, and events.
            let overslept = Follower::next_visit();
            events = crate::carry::events::watch::next_visit(Real::now());
            loops = follower.next_look();
            if !pool::pools().all(Shared::all_asleep) {
                return None;
            }
            pool::shrink_stacks();
            let timer = follower.next_deadline();
            if timer.is_none() {
                crate::govern::deadlock::report();
            }
            let again = (!Real::heavy_fence_available()).then(|| Real::now() + 10 * PERIOD);
            Some([timer, again, loops, overslept, events, circle_due].into_iter().flatten().min())
        });
        let now = Real::now();
        if events.is_some_and(|at| now >= at) {
            crate::carry::events::watch::visit();
        }
        // For the sake of loops, or of one that may be frozen, one look will do.
        let short = [loops, events, circle_due].into_iter().flatten().any(|at| now >= at) && !rung;
        (quiet, step) = (if short { REST_AFTER - 1 } else { 0 }, 1);
    }
}

/// How often a processor had to be taken, for whatever reason.
fn processors_taken() -> u64 {
    [&TAKEOVERS, &PUBLICATIONS, &SLICES, &crate::govern::standby::CATCHES]
        .into_iter()
        .map(|count| count.load(Ordering::Relaxed))
        .sum()
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
fn look(
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
        let switches = processor.counters.switches.load(Ordering::Relaxed);
        if switches != seen.switches {
            let retries = processor.counters.spawn_retries.load(Ordering::Relaxed);
            let (beside, stepped_back) = (std::mem::take(&mut seen.beside), retries != seen.retries);
            *seen = Seen { switches, beside, retries, stepped_back, ..Seen::default() };
            (stuck_searching, computing) = (false, false);
            continue;
        }
        lively = false;
        seen.still += periods;
        if seen.still < PATIENCE || seen.on_core.is_none() {
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
    if owner == 0 {
        // Its activation computes on without it; once other processors have had their chance, a spare carries it.
        if seen.still >= 4 * PATIENCE {
            match pool.spare() {
                Some(spare) => pool.hand_over(processor, spare),
                None => crate::carry::turns::call(processor),
            }
        }
        return false;
    }
    let Some(activation) = crate::carry::activations::find(owner) else { return false };
    let state = state(activation, seen, periods);
    if state == TaskState::Running && ticker::quantum_ns().is_some() {
        have_it_tick(activation, processor);
    }
    match state {
        TaskState::Blocked if wanted() == Way::Nobody => {}
        TaskState::Blocked => {
            standbys.serve(activation);
            take_over(pool, processor, activation, me);
        }
        TaskState::Running if !seen.published && pool.idle.sleeping() > 0 => {
            seen.published = borrow(pool, processor, activation, me, |_| None);
        }
        TaskState::Running if slice_is_due(seen) => {
            let spare = |has_work| if has_work { pool.spare() } else { None };
            if borrow(pool, processor, activation, me, spare) && processor.seat.owner.owner() != 0 {
                SLICES.fetch_add(1, Ordering::Relaxed);
                seen.beside.push(activation);
            }
        }
        TaskState::Running | TaskState::Unknown => {}
    }
    state == TaskState::Running
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

/// What its kernel thread does. `/proc` is asked only about one that was on a core for less than a quarter of the time
/// since the last look: that took the monitor's period 25 to 120 us while two processors computed, as the system's own
/// trace showed.
fn state(activation: &'static Activation, seen: &mut Seen, periods: u32) -> TaskState {
    let task = activation.tid.load(Ordering::Relaxed);
    let enough = u64::from(periods) * PERIOD / 4;
    match time_on_core(task) {
        Some(time) if time.abs_diff(seen.on_core.replace(time).unwrap_or(0)) >= enough => TaskState::Running,
        _ => task_state(task),
    }
}

/// The first two spares beside a computing activation come after [`SLICE`] periods each, or at once where a thread has
/// stepped back for one that now computes; the next two after twice as many. With each one that was slower, the last of
/// 16 threads that spin for it on two processors came after 2.5 s (seven further ones on each), so after half a second.
fn slice_is_due(seen: &mut Seen) -> bool {
    seen.beside.retain(|a| computes_beside(a));
    let length = SLICE << (seen.beside.len() / 2).min(6);
    let due = seen.still >= seen.slice.max(length) || seen.stepped_back && seen.beside.len() < MOST_AT_ONCE;
    if due {
        seen.slice = seen.still + length;
        seen.stepped_back = false;
    }
    due
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
    if spare.id == owner.id {
        // It has let the processor go since it was looked at, and became a spare.
        pool.dismiss(spare);
        return;
    }
    if processor.seat.owner.take(spare.id, owner.id, &owner.mark) == Take::Taken {
        TAKEOVERS.fetch_add(1, Ordering::Relaxed);
        spare.order(processor);
    } else {
        pool.dismiss(spare);
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
    successor: impl FnOnce(bool) -> Option<&'static Activation>,
) -> bool {
    if processor.seat.owner.take(me.id, owner.id, &owner.mark) != Take::Taken {
        return false;
    }
    let Some(mut inside) = Inside::enter_at(me, processor) else { return false };
    me.set_processor(processor);
    crate::carry::timers::fire_due(inside.lend());
    let dispatcher = &mut inside.owned().dispatcher;
    let (notify, has_work) = (dispatcher.expose(), dispatcher.has_work());
    let spare = successor(has_work);
    inside.release();
    PUBLICATIONS.fetch_add(1, Ordering::Relaxed);
    if let Some(spare) = spare {
        pool.hand_over(processor, spare);
    }
    if notify != Notify::Nobody {
        pool.idle.kick();
    }
    true
}
