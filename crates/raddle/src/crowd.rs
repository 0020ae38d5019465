//! Whether a pool does as much on fewer processors while others use the cores, too.
//!
//! A pool that gets one core's time of two, since clients, or the servers that it asks, run on the same cores, has two kernel threads that take turns.
//! Its threads then go from one core to the other for nothing: what they touch lies in the other one's caches. Two processors served 76,600
//! requests a second of 10,000 connections, one 90,500 (the echo load of `raddle bench` on the same two cores of a virtual machine, six rounds, 2026-11-24).
//! But who has many rivals gets less of the cores with fewer kernel threads: of a web service that asks three others on the same
//! cores, one processor served a fifth less than two. So it is tried.
//!
//! | state | until |
//! |---|---|
//! | all | it is *crowded*, by the mean of the last [`STEADY`] windows, which do not lie too far apart: for a fifth of the time in which its processors were not asleep they were not on a core, much of what it does is input and output, and it got so little of the cores that fewer could use all of it; then those are tried |
//! | fewer are tried | [`SETTLE`] windows and [`STEADY`] that count, unless it collapses: if it switched between threads hardly less often than before, they stay; otherwise all come back, and the next trial is twice as far off |
//! | fewer | they sleep, so there is room: all come back; or some time has passed: |
//! | all are tried | as above: they stay if there is a gain; otherwise fewer, for twice as long |
//!
//! Windows of one and the same program differ a lot (57,000 to 131,000 switches a second, in one of ten seconds): hence the means.
//!
//! The monitor looks, takes processors out and brings them back ([`crate::follow`]). A pool with a fixed number
//! ([`crate::Builder::processors`]) is left alone, and so is one that computes: the events that were fetched have to be a fifth of its switches.
//! Cost: a system call for each processor and window; in a crowd, a fraction of a second on the wrong number now and then, a few windows
//! in some hundred where the answer stays the same.
//!
//! Source: the idea is that of T. Anderson et al., "Scheduler Activations" (1992), section 3: who schedules threads has to know how many processors it was
//! given. Differs from the paper: Linux tells nobody, so it is concluded.

use crate::pool::Shared;
use crate::processor::Processor;
use std::sync::atomic::Ordering;

/// Nanoseconds.
const WINDOW: u64 = 100_000_000;
/// Windows that count, on each side of a comparison.
const STEADY: u32 = 5;
/// Windows before them that do not.
const SETTLE: u32 = 1;
/// How many times as much has to be done on fewer, which leave more of the cores to others.
const ENOUGH: f64 = 0.97;
/// And on all again.
const GAIN: f64 = 1.05;
/// A trial that begins with less than so much, in its first [`EARLY`] windows, ends there.
const COLLAPSE: f64 = 0.7;
const EARLY: u32 = 2;
/// How far apart windows may lie that a trial of fewer is held against: otherwise it is the load that changes, such as when it begins.
const EVEN: f64 = 2.0;
/// Processors that are awake, and on cores, for less than this part of the time have room.
const ROOM: f64 = 0.75;
/// Windows until fewer are tried again, after the first time that this brought nothing; each further trial comes after twice as many.
const PAUSE: u32 = 40;
/// The same for all, after fewer have brought something.
const DOUBT: u32 = 20;
/// But not after more than that.
const LONGEST: u32 = 640;

/// What was seen of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    /// Processors that did not sleep.
    awake: f64,
    /// Cores that they were on.
    on_core: f64,
    /// Switches between threads, in a second.
    switches: f64,
    /// Events of descriptors for each of them.
    events: f64,
}

impl Window {
    /// What was seen in several, taken together.
    fn mean(windows: &[Window]) -> Window {
        let of = |what: fn(&Window) -> f64| windows.iter().map(what).sum::<f64>() / windows.len().max(1) as f64;
        Window {
            awake: of(|window| window.awake),
            on_core: of(|window| window.on_core),
            switches: of(|window| window.switches),
            events: of(|window| window.events),
        }
    }

    /// More were awake than could use what it got, and they often waited for a core.
    fn is_crowded(&self) -> bool {
        self.awake > self.fits() as f64 && self.on_core <= 0.8 * self.awake && self.events >= 0.2
    }

    /// So many processors could use all that it gets. (A web service that got 1.03 to 1.11 cores switched 30,000 times a second in trials of one, 50,000 around them; 2026-11-23.)
    fn fits(&self) -> usize {
        (self.on_core - 0.02).ceil().max(1.0) as usize
    }

    /// So many processors sleep a good deal. (The monitor, which looks who is awake, gets to run while they sleep: so the time on cores has to agree.)
    fn has_room(&self, processors: usize) -> bool {
        self.awake.max(self.on_core) < ROOM * processors as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    All,
    Fewer(usize),
    TryFewer(usize),
    TryAll(usize),
}

/// Chooses how many processors take part.
#[derive(Debug)]
struct Choice {
    state: State,
    /// Windows in this state, but for those of a trial that do not count, and the last [`STEADY`] of them.
    windows: u32,
    recent: [Window; STEADY as usize],
    /// Windows of a trial to let pass.
    settle: u32,
    /// Switches that a trial is held against.
    before: f64,
    /// Windows until there may be another trial, and how many that will be the next time.
    pause: u32,
    next_pause: u32,
}

impl Default for Choice {
    fn default() -> Self {
        let recent = [Window::default(); _];
        Self { state: State::All, windows: 0, recent, settle: 0, before: 0.0, pause: 0, next_pause: PAUSE }
    }
}

impl Choice {
    fn enter(&mut self, state: State) {
        (self.state, self.windows, self.settle) = (state, 0, 0);
    }

    /// What was seen of this state lately.
    fn mean(&self) -> Window {
        Window::mean(&self.recent[..self.windows.min(STEADY) as usize])
    }

    /// True if the last [`STEADY`] windows are of one load. (Asked of all only: whoever has fewer must get to try all under any load.)
    fn is_even(&self) -> bool {
        let rates = self.recent.iter().map(|window| window.switches);
        rates.clone().fold(0.0, f64::max) <= EVEN * rates.fold(f64::INFINITY, f64::min)
    }

    fn count(&mut self, window: &Window) {
        self.recent[self.windows as usize % self.recent.len()] = *window;
        self.windows += 1;
    }

    fn try_it(&mut self, state: State) {
        self.before = self.mean().switches;
        self.enter(state);
        self.settle = SETTLE;
    }

    /// A trial is over, and was for nothing.
    fn back(&mut self, state: State) {
        self.enter(state);
        self.pause = self.next_pause;
        self.next_pause = (2 * self.next_pause).min(LONGEST);
    }

    /// After one more window: how many of `all`.
    fn after(&mut self, window: &Window, all: usize) -> usize {
        self.pause = self.pause.saturating_sub(1);
        match self.state {
            State::Fewer(few) | State::TryFewer(few) if window.has_room(few) => {
                self.enter(State::All);
                (self.pause, self.next_pause) = (PAUSE, PAUSE);
            }
            _ if self.settle > 0 => self.settle -= 1,
            _ => {
                self.count(window);
                self.conclude(all);
            }
        }
        match self.state {
            State::All | State::TryAll(_) => all,
            State::Fewer(few) | State::TryFewer(few) => few.min(all),
        }
    }

    /// What follows from the windows so far.
    fn conclude(&mut self, all: usize) {
        let mean = self.mean();
        let steady = self.windows >= STEADY;
        let due = steady && self.pause == 0;
        match self.state {
            State::All if due && self.is_even() && mean.is_crowded() && mean.fits() < all => {
                self.try_it(State::TryFewer(mean.fits()));
            }
            State::Fewer(few) if due => self.try_it(State::TryAll(few)),
            State::TryFewer(few) if steady && mean.switches >= ENOUGH * self.before => {
                self.enter(State::Fewer(few));
                (self.pause, self.next_pause) = (DOUBT, 2 * DOUBT);
            }
            State::TryAll(_) if steady && mean.switches >= GAIN * self.before => {
                self.next_pause = PAUSE;
                self.back(State::All);
            }
            State::TryFewer(_) | State::TryAll(_)
                if steady || self.windows == EARLY && mean.switches < COLLAPSE * self.before =>
            {
                self.back(if let State::TryAll(few) = self.state { State::Fewer(few) } else { State::All });
            }
            _ => {}
        }
    }
}

/// What the monitor knows of a pool's crowd.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    choice: Choice,
    /// How many processors that chose.
    chosen: Option<usize>,
    /// Since the window began: its looks, and the processors that were awake at them, taken together.
    looks: u64,
    awake: u64,
    /// When it began, and what was counted until then.
    begun: u64,
    switches: u64,
    events: u64,
    /// The kernel threads that carry its processors, and how long they had been on cores.
    carriers: Vec<(u32, u64)>,
}

impl Crowd {
    /// One look at a pool that may have `all` processors: how many are to take part.
    pub fn look(&mut self, pool: &'static Shared, all: usize, now: u64) -> usize {
        let active = || pool.processors().iter().filter(|processor| processor.is_active());
        self.looks += 1;
        self.awake += active().filter(|processor| !pool.idle.is_sleeping(processor.index)).count() as u64;
        let elapsed = now.saturating_sub(self.begun);
        if elapsed >= WINDOW && all > 1 {
            let window = self.end(active(), now);
            // One that lasted much longer tells of a monitor that slept, or was held up.
            if let Some(window) = window.filter(|_| elapsed < 3 * WINDOW) {
                self.chosen = Some(self.choice.after(&window, all));
            }
        }
        self.chosen.map_or(all, |chosen| chosen.min(all))
    }

    /// Ends the window, and begins the next one. Nothing if other kernel threads carry the processors now.
    fn end(&mut self, active: impl Iterator<Item = &'static Processor>, now: u64) -> Option<Window> {
        let (mut carriers, mut switches) = (Vec::new(), 0);
        for processor in active {
            switches += processor.counters.switches.load(Ordering::Relaxed);
            let carrier = crate::activations::find(processor.owner.owner());
            let task = carrier.map_or(0, |carrier| carrier.tid.load(Ordering::Relaxed));
            carriers.push((task, crate::os::time_on_core(task).unwrap_or(0)));
        }
        let events = crate::io::events();
        let same = carriers.iter().map(|(task, _)| task).eq(self.carriers.iter().map(|(task, _)| task));
        let on_core = |((_, after), (_, before)): (&(u32, u64), &(u32, u64))| after.saturating_sub(*before);
        let on_core: u64 = carriers.iter().zip(&self.carriers).map(on_core).sum();
        let elapsed = now.saturating_sub(self.begun).max(1) as f64;
        let switched = switches.saturating_sub(self.switches);
        let window = Window {
            awake: self.awake as f64 / self.looks.max(1) as f64,
            on_core: on_core as f64 / elapsed,
            switches: switched as f64 * 1e9 / elapsed,
            events: events.saturating_sub(self.events) as f64 / switched.max(1) as f64,
        };
        *self = Self {
            choice: std::mem::take(&mut self.choice),
            chosen: self.chosen,
            looks: 0,
            awake: 0,
            begun: now,
            switches,
            events,
            carriers,
        };
        same.then_some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server on two cores that it shares with its clients; `rates` are its switches with one and with two processors.
    fn run(choice: &mut Choice, windows: u32, rates: [f64; 2]) -> Vec<usize> {
        let mut processors = 2;
        let mut one = || {
            let window =
                Window { awake: 0.98 * processors as f64, on_core: 0.97, switches: rates[processors - 1], events: 1.0 };
            processors = choice.after(&window, 2);
            processors
        };
        (0..windows).map(|_| one()).collect()
    }

    #[test]
    fn fewer_stay_that_do_more_and_all_are_tried_now_and_then() {
        let mut choice = Choice::default();
        let seen = run(&mut choice, 25, [69.0, 61.0]);
        assert_eq!(seen, [vec![2; 4], vec![1; 21]].concat());
        let later = run(&mut choice, 2_000, [69.0, 61.0]);
        let tried = later.iter().filter(|&&processors| processors == 2).count();
        assert!((10..60).contains(&tried), "{tried} of 2000");
        // The clients have gone elsewhere: now two do more.
        let last = run(&mut choice, LONGEST + 10, [69.0, 120.0]);
        assert_eq!(last.last(), Some(&2), "{last:?}");
    }

    #[test]
    fn fewer_stay_that_do_as_much() {
        let mut choice = Choice::default();
        assert_eq!(run(&mut choice, 20, [60.0, 61.0]).last(), Some(&1));
    }

    #[test]
    fn all_come_back_where_fewer_do_less_and_trials_become_rare() {
        let mut choice = Choice::default();
        let seen = run(&mut choice, 2_000, [41.0, 52.0]);
        let tried = seen.iter().filter(|&&processors| processors == 1).count();
        assert!((10..60).contains(&tried), "{tried} of 2000");
        assert_eq!(seen[..12], [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn a_window_that_is_far_off_decides_nothing() {
        let mut choice = Choice::default();
        let window = |processors: usize, switches| Window {
            awake: 0.98 * processors as f64,
            on_core: 0.97,
            switches,
            events: 1.0,
        };
        let mut processors = 2;
        for switches in [70.0, 50.0, 90.0, 60.0, 55.0, 1.0, 90.0, 50.0, 60.0, 60.0, 60.0] {
            processors = choice.after(&window(processors, switches), 2);
        }
        assert_eq!(choice.state, State::Fewer(1));
    }

    #[test]
    fn a_load_that_begins_is_not_held_against_what_was_before() {
        let mut choice = Choice::default();
        let window = |switches| Window { awake: 1.9, on_core: 0.97, switches, events: 1.0 };
        for switches in [13.0, 13.0, 14.0, 16.0, 56.0, 131.0, 67.0, 59.0, 58.0] {
            assert_eq!(choice.after(&window(switches), 2), 2);
        }
        let seen = [57.0, 60.0, 60.0].map(|switches| choice.after(&window(switches), 2));
        assert_eq!((seen, choice.before), ([2, 1, 1], (67.0 + 59.0 + 58.0 + 57.0 + 60.0) / 5.0));
    }

    #[test]
    fn all_are_tried_again_under_a_load_that_comes_and_goes() {
        let mut choice = Choice::default();
        run(&mut choice, 15, [69.0, 61.0]);
        assert_eq!(choice.state, State::Fewer(1));
        let busy = |switches| Window { awake: 1.0, on_core: 0.97, switches, events: 1.0 };
        assert!((0..2 * DOUBT).any(|turn| choice.after(&busy([10.0, 90.0][turn as usize % 2]), 2) == 2));
    }

    #[test]
    fn a_trial_that_collapses_ends_early() {
        assert_eq!(run(&mut Choice::default(), 10, [30.0, 50.0]), [2, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn with_room_on_the_cores_all_take_part() {
        let mut choice = Choice::default();
        run(&mut choice, 15, [69.0, 61.0]);
        assert_eq!(choice.state, State::Fewer(1));
        let idle = Window { awake: 0.5, on_core: 0.5, switches: 30.0, events: 1.0 };
        assert_eq!(choice.after(&idle, 2), 2);
        assert!((0..100).all(|_| choice.after(&idle, 2) == 2));
        // One that only seems to sleep, since whoever looks runs while it does, has none.
        run(&mut choice, 20, [69.0, 61.0]);
        assert_eq!((choice.state, choice.after(&Window { on_core: 0.95, ..idle }, 2)), (State::Fewer(1), 1));
    }

    #[test]
    fn what_computes_is_left_alone_and_so_is_what_has_the_cores() {
        let crowded = Window { awake: 2.0, on_core: 1.0, switches: 1e5, events: 1.0 };
        for other in
            [Window { events: 0.1, ..crowded }, Window { on_core: 1.9, ..crowded }, Window { awake: 0.99, ..crowded }]
        {
            let mut choice = Choice::default();
            assert!(crowded.is_crowded() && !other.is_crowded());
            assert!((0..1000).all(|_| choice.after(&other, 2) == 2), "{other:?}");
        }
        // Who gets more than a core needs two processors.
        for on_core in [1.05, 1.5] {
            let more = Window { on_core, ..crowded };
            let mut choice = Choice::default();
            assert!((0..1000).all(|_| choice.after(&more, 2) == 2));
        }
    }

    #[test]
    fn of_many_processors_as_many_stay_as_it_gets_cores() {
        let window = Window { awake: 15.5, on_core: 4.3, switches: 1e6, events: 0.5 };
        let mut choice = Choice::default();
        assert_eq!((0..5).map(|_| choice.after(&window, 16)).last(), Some(5));
    }
}
