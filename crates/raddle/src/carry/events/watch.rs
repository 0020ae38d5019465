//! Who fetches events, and when.
//!
//! - A processor looks before it sleeps, and once in so many switches (as it looks at its timers): without waiting,
//!   into its own queue. So ready threads and ready descriptors take turns: an event waits for that many switches at
//!   most while threads switch.
//! - One of the processors that sleep, the first that comes, sleeps in the kernel's wait for events instead of on its
//!   bell (the *watch*). It is the process's, whatever the pool: events for threads of other pools are submitted there.
//! - But while another one looks all the time, having more to do than it can do between two looks, it fetches many
//!   events at once, and whoever watched would be woken for each single one. So nobody begins a watch within [`NEAR`]
//!   of such a look; who would have sleeps on its bell for so long, and is rung as for any work.
//! - Where no processor has looked for a period of the monitor (all compute, or the one that kept watch has work and
//!   the others sleep), the monitor does.
//!
//! Bound: an event waits for two looks of the monitor, at most eight of its periods, while anybody is awake; while all
//! sleep, one keeps watch, [`NEAR`] after the last look at the latest: the last to sleep found the watch free or kept,
//! or will look again by then. A kernel thread that is frozen while it keeps watch with all others asleep strands
//! events for [`VISIT`] at most: so often the monitor looks though all sleep.
//!
//! Whoever fetches the alarm and does not keep the watch raises it again if somebody does: it is for that one.

use super::reactor::{Batch, Sets};
use crate::carry::activation::Activation;
use crate::carry::witness::Lent;
use raddle_machine::{Machine, Real};
use raddle_queues::pad::Padded;
use raddle_scheduler::Thread;
use raddle_scheduler::keeper::Keeper;
use std::sync::atomic::{AtomicU64, Ordering};

/// Some processor keeps the watch. (This and what follows is written at each look: away from what every wait reads.)
static KEEPER: Padded<Keeper<Real>> = Padded(Keeper::constant());
/// How often anybody has looked. Counter only.
static LOOKS: Padded<AtomicU64> = Padded(AtomicU64::new(0));
/// When a processor last looked while it had work, or found some: the time's high bits, and the activation's id below.
static LOOKED: Padded<AtomicU64> = Padded(AtomicU64::new(0));
/// Bits of an activation's id, as far as it is told: another one with the same bits is taken for it, and looks once
/// more.
const ID: u64 = (1 << 12) - 1;
/// Nanoseconds for which one relies on another's looks. It is the monitor's period: longer than 64 switches take in a
/// server that is busy (measured: 64 echoes take 350,000), and short enough that one who turns to computing delays
/// events hardly longer than that.
const NEAR: u64 = 1_000_000;
/// Nanoseconds between two looks of threads that call for events all the time: about two of their rounds. memcached -t
/// 4 takes as much processor time for a request with 12, 50 and 200 µs (2026-11-28, `serve` of docs/constants.md).
const TURN_NS: u64 = 50_000;
/// Nanoseconds after which a kept watch begins anew: should the program close our descriptors, nothing would end it.
const RENEW: u64 = 1_000_000_000;
/// Nanoseconds between two audits of the waits.
const AUDIT: u64 = 1_000_000_000;
/// Nanoseconds of rest where the kernel refuses to wait.
const REST: u64 = 1_000_000;
/// Nanoseconds between two looks of the monitor while all sleep and somebody keeps the watch.
const VISIT: u64 = 1_000_000_000;
/// So many of the monitor's periods without any look, and the monitor looks although somebody keeps watch.
const DISTRUST: u64 = 32;

/// The watch, kept.
pub(crate) struct HeldWatch(Batch);

impl HeldWatch {
    /// Takes the watch, if there is anything to watch and nobody does. Where `activation` leaves it to another one that
    /// looks all the time, `until` becomes the time by which it must look again.
    pub fn take(activation: &Activation, until: &mut Option<u64>) -> Option<Self> {
        Sets::current()?;
        let (looked, now) = (LOOKED.load(Ordering::Relaxed), Real::now());
        let near = (looked & !ID) + NEAR;
        if looked & ID != u64::from(activation.id) & ID && now < near {
            *until = Some(until.unwrap_or(u64::MAX).min(now + NEAR));
            return None;
        }
        KEEPER.keep().then(|| HeldWatch(Batch::new()))
    }

    /// Waits until there are events, the deadline, the alarm, or for no reason. True if there are events.
    pub fn block(&mut self, deadline: Option<u64>) -> bool {
        let now = Real::now();
        let limit = deadline.map_or(RENEW, |at| at.saturating_sub(now).min(RENEW));
        // The monitor may be asleep.
        audit(now);
        let waited = Sets::current().is_some_and(|sets| self.0.fetch(sets, limit));
        if !waited {
            crate::os::events::rest(limit.min(REST));
        }
        LOOKS.fetch_add(1, Ordering::Relaxed);
        !self.0.is_empty()
    }

    /// Gives the watch up, and what was fetched to the caller's processor.
    pub fn give_up(mut self, mut inside: Lent<'_>) {
        KEEPER.give_up();
        if let Some(sets) = Sets::current()
            && !self.0.is_empty()
        {
            self.0.deliver(sets, &mut |thread| crate::carry::ready::ready_inside(inside.lend(), thread));
        }
    }
}

/// A look without waiting, by a processor from inside its mark, in the midst of its work or not. True if that made a
/// thread ready.
#[inline]
pub(crate) fn poll(mut inside: Lent<'_>, works: bool) -> bool {
    let mut found = 0;
    if let Some(sets) = Sets::current() {
        look_into(sets, &mut |thread| {
            found += 1;
            crate::carry::ready::ready_inside(inside.lend(), thread);
        });
        if found > 0 || works {
            let now = Real::now();
            let before = std::mem::replace(&mut inside.owned().looked, now);
            inside.processor.sends.looked(before, now, found);
            LOOKED.store(now & !ID | u64::from(inside.activation.id) & ID, Ordering::Relaxed);
        }
    }
    found > 0
}

/// As [`poll`], unless somebody has looked a moment ago. For threads that wait for events in their own way and may
/// never leave their processor meanwhile.
pub(crate) fn poll_in_turn(inside: Lent<'_>) {
    if Sets::current().is_some() && Real::now().saturating_sub(LOOKED.load(Ordering::Relaxed) & !ID) >= TURN_NS {
        poll(inside, true);
    }
}

#[inline(never)]
fn look_into(sets: Sets, ready: &mut dyn FnMut(&'static Thread<Real>)) {
    let mut batch = Batch::new();
    batch.fetch(sets, 0);
    LOOKS.fetch_add(1, Ordering::Relaxed);
    if batch.alarm {
        KEEPER.pass_on(|| sets.raise_alarm());
    }
    if !batch.is_empty() {
        batch.deliver(sets, ready);
    }
}

/// Has the waits looked after that rely on earlier ones, if it is time.
fn audit(now: u64) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let last = LAST.load(Ordering::Relaxed);
    if now.saturating_sub(last) >= AUDIT
        && LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        super::table::audit(|descriptor, interest| super::reactor::arm(descriptor, interest).is_ok());
    }
}

/// The monitor's look, once a period while anybody is awake.
pub(crate) fn tick() {
    // Single writer: the monitor.
    static SEEN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let Some(sets) = Sets::current() else { return };
    audit(Real::now());
    let [looks, periods] = SEEN.each_ref();
    let now = LOOKS.load(Ordering::Relaxed);
    if looks.swap(now, Ordering::Relaxed) != now {
        periods.store(0, Ordering::Relaxed);
        return;
    }
    let still = periods.fetch_add(1, Ordering::Relaxed) + 1;
    if !KEEPER.is_kept() || still.is_multiple_of(DISTRUST) {
        // SAFETY: the claim of each was won by the delivery, which shows it once.
        look_into(sets, &mut |thread| unsafe { crate::carry::ready::make_ready(thread) });
        looks.store(LOOKS.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// When the monitor is to look though all sleep: never, if there is nothing to watch.
pub(crate) fn next_visit(now: u64) -> Option<u64> {
    Sets::current().filter(|_| KEEPER.is_kept()).map(|_| now + VISIT)
}

/// That look.
pub(crate) fn visit() {
    audit(Real::now());
    if let Some(sets) = Sets::current() {
        // SAFETY: as in `tick`.
        look_into(sets, &mut |thread| unsafe { crate::carry::ready::make_ready(thread) });
    }
}

/// Wakes whoever keeps the watch, now or next.
pub(crate) fn alarm() {
    if let Some(sets) = Sets::current() {
        sets.raise_alarm();
    }
}

/// In the child of a fork.
pub(crate) fn forget() {
    KEEPER.give_up();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_comes_by_the_alarm_passes_it_on_while_somebody_keeps_the_watch() {
        let sets = Sets::open().unwrap_or_else(|_| panic!("no event sets"));
        let alarm_is_left = || {
            sets.raise_alarm();
            look_into(sets, &mut |_| panic!("nobody waits"));
            let mut batch = Batch::new();
            assert!(batch.fetch(sets, 0) && batch.is_empty());
            batch.alarm
        };
        // No other test of this program waits for descriptors.
        assert!(!alarm_is_left() && KEEPER.keep());
        assert!(alarm_is_left());
        KEEPER.give_up();
        assert!(!alarm_is_left());
        sets.close();
    }
}
