//! What is seen of a pool in a window.
//!
//! Who is awake and who is on a core is known in two ways. Of processors it is sampled who sleeps. Event loops that are apart sleep
//! in the kernel, unseen: where there are any, the kernel tells how long each kernel thread waited for a core (`schedstat`, asked for
//! by [`crate::os::time_waiting`]), and awake is who was on a core or waited for one. A kernel that does not count that (it says 0) shows no crowd then.

use super::Window;
use crate::activation::Activation;
use crate::pool::Shared;
use crate::processor::Processor;
use std::sync::atomic::Ordering;

/// A kernel thread as it was when the window began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Task {
    number: u32,
    on_core: u64,
    /// Not asked for where no loop is apart.
    waiting: Option<u64>,
    is_loop: bool,
}

impl Task {
    fn of(activation: &Activation, waits: bool, is_loop: bool) -> Task {
        let number = activation.tid.load(Ordering::Relaxed);
        let waiting = if waits { crate::os::time_waiting(number) } else { None };
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
    /// Switches but for turns, and the events of loops; and all events.
    work: u64,
    events: u64,
    tasks: Vec<Task>,
    /// The part of the time that loops were on cores in the last window.
    loops_on_core: f64,
}

fn active(pool: &'static Shared) -> impl Iterator<Item = &'static Processor> {
    pool.processors().iter().filter(|processor| processor.is_active())
}

impl Census {
    /// One look of the monitor.
    pub fn look(&mut self, pool: &'static Shared) {
        self.looks += 1;
        self.awake += active(pool).filter(|processor| !pool.idle.is_sleeping(processor.index)).count() as u64;
    }

    /// Nanoseconds since the window began.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.begun)
    }

    /// Some loop was apart when the window began.
    pub fn has_loops(&self) -> bool {
        self.tasks.iter().any(|task| task.is_loop)
    }

    /// Loops that were apart did a good deal in the last window.
    pub fn loops_were_busy(&self) -> bool {
        self.loops_on_core >= 0.2
    }

    /// Ends the window, and begins the next one. Nothing if other kernel threads carry the processors, or other loops are apart, now.
    pub fn end(&mut self, pool: &'static Shared, now: u64) -> Option<Window> {
        let loops: Vec<_> = crate::event_loops::apart_of(pool).collect();
        let waits = !loops.is_empty();
        let switches: u64 = active(pool).map(|p| p.counters.switches.load(Ordering::Relaxed)).sum();
        // A processor that nobody carries at the moment is a number that comes up nowhere else.
        let nobody = Task { number: 0, on_core: 0, waiting: Some(0), is_loop: false };
        let carriers = active(pool).map(|processor| crate::activations::find(processor.owner.owner()));
        let carriers = carriers.map(|carrier| carrier.map_or(nobody, |carrier| Task::of(carrier, waits, false)));
        let tasks: Vec<Task> = carriers.chain(loops.iter().map(|it| Task::of(it, waits, true))).collect();
        let (mut turns, mut found) = (0u64, 0u64);
        for activation in crate::activations::all() {
            turns = turns.wrapping_add(activation.turns.load(Ordering::Relaxed));
            found = found.wrapping_add(activation.loop_events.load(Ordering::Relaxed));
        }
        let next = Census {
            begun: now,
            work: switches.wrapping_sub(turns).wrapping_add(found),
            events: crate::io::events().wrapping_add(found),
            tasks,
            ..Census::default()
        };
        let before = std::mem::replace(self, next);
        let window = self.since(&before);
        let on_core = |task: &Task, before: &Task| task.on_core.saturating_sub(before.on_core) as f64;
        let of_loops = self.tasks.iter().zip(&before.tasks).filter(|(task, _)| task.is_loop);
        self.loops_on_core = match window {
            Some(_) => of_loops.map(|(task, old)| on_core(task, old)).sum::<f64>() / before.age(now).max(1) as f64,
            None => before.loops_on_core,
        };
        window
    }

    /// What happened between two, if both are of the same kernel threads and all that was asked was answered.
    fn since(&self, before: &Census) -> Option<Window> {
        let elapsed = self.begun.saturating_sub(before.begun).max(1) as f64;
        let named = |census: &Census| census.tasks.iter().map(|task| (task.number, task.is_loop)).collect::<Vec<_>>();
        if named(self) != named(before) {
            return None;
        }
        let pairs = || self.tasks.iter().zip(&before.tasks);
        let on_core: u64 = pairs().map(|(task, old)| task.on_core.saturating_sub(old.on_core)).sum();
        let awake = if self.has_loops() {
            let waited = pairs().map(|(task, old)| Some(crate::os::waited(old.waiting?, task.waiting?)));
            (on_core + waited.sum::<Option<u64>>()?) as f64 / elapsed
        } else {
            before.awake as f64 / before.looks.max(1) as f64
        };
        // Counts of an activation that has ended are missing: then it was less.
        let grown = |now: u64, then: u64| (now.wrapping_sub(then) as i64).max(0) as f64;
        let work = grown(self.work, before.work);
        Some(Window {
            awake,
            on_core: on_core as f64 / elapsed,
            work: work * 1e9 / elapsed,
            events: grown(self.events, before.events) / work.max(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32, on_core: u64, waiting: u64, is_loop: bool) -> Task {
        Task { number, on_core, waiting: Some(waiting), is_loop }
    }

    fn census(begun: u64, work: u64, events: u64, tasks: &[Task]) -> Census {
        Census { begun, work, events, tasks: tasks.to_vec(), ..Census::default() }
    }

    #[test]
    fn loops_that_wait_for_cores_are_awake() {
        let before = census(0, 100, 50, &[task(1, 0, 0, false), task(2, 500, 100, true), task(3, 0, 0, true)]);
        let after = census(1000, 300, 250, &[task(1, 0, 0, false), task(2, 1000, 400, true), task(3, 400, 300, true)]);
        let window = after.since(&before).unwrap();
        assert_eq!(window, Window { awake: 1.5, on_core: 0.9, work: 200e6, events: 1.0 });
        assert!(window.is_crowded());
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
        let after = census(1000, 100, 100, &[Task { waiting: None, ..task(1, 800, 0, false) }]);
        assert_eq!(after.since(&before), Some(Window { awake: 1.5, on_core: 0.8, work: 100e6, events: 1.0 }));
        // Counts that shrink are no work, not an awful lot.
        assert_eq!(census(1000, 5, 5, &[]).since(&census(0, 9, 9, &[])).unwrap().work, 0.0);
    }
}
