//! What is seen of a pool in a window.
//!
//! Who is awake and who is on a core is known in two ways. Of processors it is sampled who sleeps. Event loops that are
//! apart sleep in the kernel, unseen: where there are any, the kernel tells how long each kernel thread waited for a
//! core (`schedstat`, asked for by [`crate::os::time_waiting`]), and awake is who was on a core or waited for one. A
//! kernel that does not count that (it says 0) shows no crowd then.

use super::Window;
use crate::carry::activation::Activation;
use crate::carry::pool::Shared;
use crate::carry::processor::Processor;
use std::sync::atomic::Ordering;

/// A kernel thread as it was when the window began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Task {
    number: u32,
    on_core: u64,
    /// Not asked for where no loop is apart, or where the answer takes long.
    waiting: Option<u64>,
    is_loop: bool,
}

impl Task {
    /// `ask` becomes false with the first answer that takes long: the monitor has other things to do.
    fn of(activation: &Activation, ask: &mut bool, is_loop: bool) -> Task {
        let number = activation.tid.load(Ordering::Relaxed);
        let waiting = if *ask { crate::os::time_waiting(number) } else { None };
        *ask &= waiting.is_some();
        Task { number, on_core: crate::os::time_on_core(number).unwrap_or(0), waiting, is_loop }
    }
}

/// What was counted when the window began, and the looks since.
#[derive(Debug, Default)]
pub(super) struct Census {
    begun: u64,
    /// The monitor's looks, and the processors that were awake at them, taken together.
    looks: u64,
    awake: u64,
    switches: u64,
    /// Of these, those that tell nothing of what gets done ([`crate::guest::event_loops::note_turns`]).
    turns: u64,
    /// Events that were fetched, and those that threads found for themselves by waits for many descriptors.
    fetched: u64,
    found: u64,
    tasks: Vec<Task>,
    /// The part of the time that loops were on cores in the last window.
    loops_on_core: f64,
}

/// Loops that have this part of what a pool has of the cores are what it does.
const NEARLY_ALL: f64 = 0.75;

fn active(pool: &'static Shared) -> impl Iterator<Item = &'static Processor> {
    pool.processors().iter().filter(|processor| processor.seat.is_active())
}

impl Census {
    /// One look of the monitor.
    pub fn sample(&mut self, pool: &'static Shared) {
        self.looks += 1;
        self.awake += active(pool).filter(|processor| !pool.idle.is_sleeping(processor.index)).count() as u64;
    }

    /// Nanoseconds since the window began.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.begun)
    }

    fn has_loops(&self) -> bool {
        self.tasks.iter().any(|task| task.is_loop)
    }

    /// Loops that were apart did a good deal in the last window in which they were.
    pub fn loops_were_busy(&self) -> bool {
        self.loops_on_core >= 0.2
    }

    /// Ends the window, and begins the next one. Nothing if other kernel threads carry the processors, or other loops
    /// are apart, now.
    pub fn end(&mut self, pool: &'static Shared, now: u64) -> Option<Window> {
        let loops: Vec<_> = crate::carry::loops::apart_of(pool).collect();
        let mut ask = !loops.is_empty();
        // A processor that nobody carries at the moment is a number that comes up nowhere else.
        let nobody = Task { number: 0, on_core: 0, waiting: Some(0), is_loop: false };
        let mut tasks = Vec::new();
        for processor in active(pool) {
            let carrier = crate::carry::activations::find(processor.seat.owner.owner());
            tasks.push(carrier.map_or(nobody, |carrier| Task::of(carrier, &mut ask, false)));
        }
        tasks.extend(loops.iter().map(|it| Task::of(it, &mut ask, true)));
        let mut next =
            Census { begun: now, fetched: crate::carry::events::reactor::events(), tasks, ..Census::default() };
        next.switches = active(pool).map(|p| p.counters.switches.load(Ordering::Relaxed)).sum();
        for activation in crate::carry::activations::ever() {
            next.turns = next.turns.wrapping_add(activation.turns.load(Ordering::Relaxed));
            next.found = next.found.wrapping_add(activation.found.load(Ordering::Relaxed));
        }
        next.loops_on_core = self.loops_on_core;
        let before = std::mem::replace(self, next);
        let (window, loops_on_core) = self.since(&before)?;
        if self.has_loops() {
            self.loops_on_core = loops_on_core;
        }
        Some(window)
    }

    /// What happened between two, and the part of the time that loops were on cores, if both are of the same kernel
    /// threads and all that was asked was answered.
    fn since(&self, before: &Census) -> Option<(Window, f64)> {
        let elapsed = self.begun.saturating_sub(before.begun).max(1) as f64;
        let named = |census: &Census| census.tasks.iter().map(|task| (task.number, task.is_loop)).collect::<Vec<_>>();
        if named(self) != named(before) {
            return None;
        }
        let pairs = || self.tasks.iter().zip(&before.tasks);
        let on_core = |which: fn(&Task) -> bool| {
            let spent =
                pairs().filter(|(task, _)| which(task)).map(|(task, old)| task.on_core.saturating_sub(old.on_core));
            spent.sum::<u64>() as f64 / elapsed
        };
        let (all, of_loops) = (on_core(|_| true), on_core(|task| task.is_loop));
        let awake = if self.has_loops() {
            let waited = pairs().map(|(task, old)| Some(crate::os::waited(old.waiting?, task.waiting?)));
            all + waited.sum::<Option<u64>>()? as f64 / elapsed
        } else {
            before.awake as f64 / before.looks.max(1) as f64
        };
        // The counts of several kernel threads are not of one moment: a difference may come out below 0.
        let grown = |now: u64, then: u64| (now.wrapping_sub(then) as i64).max(0) as f64;
        let switches = grown(self.switches, before.switches);
        let others = (switches - grown(self.turns, before.turns)).max(0.0);
        let events = grown(self.fetched, before.fetched) / switches.max(1.0);
        let window = Window {
            awake,
            on_core: all,
            work: (others + grown(self.found, before.found)) * 1e9 / elapsed,
            events: if of_loops > 0.0 && of_loops >= NEARLY_ALL * all { 1.0 } else { events },
        };
        Some((window, of_loops))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32, on_core: u64, waiting: u64, is_loop: bool) -> Task {
        Task { number, on_core, waiting: Some(waiting), is_loop }
    }

    fn census(begun: u64, switches: u64, found: u64, tasks: &[Task]) -> Census {
        Census { begun, switches, found, tasks: tasks.to_vec(), ..Census::default() }
    }

    #[test]
    fn loops_that_wait_for_cores_are_awake() {
        let before = census(0, 100, 50, &[task(1, 0, 0, false), task(2, 500, 100, true), task(3, 0, 0, true)]);
        let tasks = [task(1, 0, 0, false), task(2, 1000, 400, true), task(3, 400, 300, true)];
        let after = Census { turns: 90, ..census(1000, 200, 250, &tasks) };
        let (window, loops) = after.since(&before).unwrap();
        assert_eq!(window, Window { awake: 1.5, on_core: 0.9, work: 210e6, events: 1.0 });
        assert!(window.is_crowded() && loops == 0.9);
        // Beside others that compute, it is not for loops that cores are wanted.
        let tasks = [task(1, 400, 500, false), task(2, 1000, 400, true), task(3, 400, 300, true)];
        assert!(!census(1000, 110, 250, &tasks).since(&before).unwrap().0.is_crowded());
    }

    #[test]
    fn other_kernel_threads_and_missing_answers_make_no_window() {
        let before = census(0, 0, 0, &[task(1, 0, 0, false), task(2, 0, 0, true)]);
        let after = |tasks: &[Task]| census(1000, 1, 1, tasks).since(&before);
        assert!(after(&[task(1, 0, 0, false), task(2, 0, 0, true)]).is_some());
        assert!(after(&[task(1, 0, 0, false)]).is_none());
        assert!(after(&[task(1, 0, 0, false), task(3, 0, 0, true)]).is_none());
        assert!(after(&[task(1, 0, 0, false), Task { waiting: None, ..task(2, 0, 0, true) }]).is_none());
    }

    #[test]
    fn without_loops_who_is_awake_is_sampled() {
        let before = Census { looks: 10, awake: 15, ..census(0, 0, 0, &[task(1, 0, 0, false)]) };
        let unasked = [Task { waiting: None, ..task(1, 800, 0, false) }];
        let after = Census { fetched: 50, turns: 20, ..census(1000, 100, 20, &unasked) };
        let window = Window { awake: 1.5, on_core: 0.8, work: 100e6, events: 0.5 };
        assert_eq!(after.since(&before), Some((window, 0.0)));
        // Counts that shrink are no work, not an awful lot.
        assert_eq!(census(1000, 5, 5, &[]).since(&census(0, 9, 9, &[])).unwrap().0.work, 0.0);
    }
}
