//! What a policy promises about the order in which threads run.

use raddle_scheduler::expression::{Expression, LocalQueues, Order};

/// In which order one processor selects the woken threads that it was pushed itself, with nobody else there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Own {
    /// None is promised.
    #[default]
    None,
    /// The oldest first.
    Oldest,
    /// The newest first.
    Newest,
}

/// What order a policy promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Of the threads of one processor.
    pub own: Own,
    /// A thread whose push was over before another one's began is selected before it, whoever pushes and selects.
    pub oldest_everywhere: bool,
    /// A thread of a higher priority is selected before one of a lower.
    pub strict: bool,
}

impl Promises {
    /// What the documentation of a policy says.
    pub fn of(expression: &Expression) -> Self {
        let own = |own| Self { own, ..Self::default() };
        match expression {
            Expression::Fifo => Self { own: Own::Oldest, oldest_everywhere: true, strict: false },
            Expression::Lifo => own(Own::Newest),
            Expression::Rotator | Expression::Waiver | Expression::Steal(_) => own(Own::Oldest),
            Expression::Hybrid(_) | Expression::Multiqueue(_) => Self::default(),
            Expression::Local(queues) | Expression::Request(_, queues) => own(Self::of_queues(queues)),
            Expression::Clustered { inner, .. } => own(Self::of(inner).own),
            Expression::Apart { started, .. } => own(Self::of(started).own),
            Expression::Priority { inner, aging, .. } => Self { strict: aging.is_none(), ..own(Self::of(inner).own) },
        }
    }

    fn of_queues(queues: &LocalQueues) -> Own {
        // What overflows, is shared or sits in the slot has its own time.
        if queues.slot || queues.share > 0 || (queues.capacity as usize) < super::MOST_THREADS {
            return Own::None;
        }
        if queues.stealing.order == Order::Lifo { Own::Newest } else { Own::Oldest }
    }
}

/// A thread's way through a policy once: from its push to its selection, each from a step to a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub thread: usize,
    pub priority: u8,
    /// Pushed by a processor, not submitted from outside.
    pub pushed: bool,
    pub push: (u64, u64),
    pub selection: (u64, u64),
}

/// What a run broke of the promises.
pub(super) fn broken(promises: &Promises, passages: &[Passage], single: bool) -> Option<String> {
    let pairs = || passages.iter().flat_map(|a| passages.iter().map(move |b| (a, b)));
    if promises.oldest_everywhere {
        let overtaken = |(a, b): &(&Passage, &Passage)| {
            a.pushed && b.pushed && a.push.1 < b.push.0 && b.selection.1 < a.selection.0
        };
        if let Some((a, b)) = pairs().find(overtaken) {
            return Some(format!(
                "the oldest first: thread {} (pushed in steps {} to {}) was selected in step {}, before thread {} (pushed in steps {} to {}), selected in step {}",
                b.thread, b.push.0, b.push.1, b.selection.1, a.thread, a.push.0, a.push.1, a.selection.0
            ));
        }
    }
    if promises.strict && single {
        // Ready before the selection began, and not selected until it was over.
        let outranked = |(a, b): &(&Passage, &Passage)| {
            a.priority < b.priority && a.push.1 < b.selection.0 && b.selection.1 < a.selection.0
        };
        if let Some((a, b)) = pairs().find(outranked) {
            return Some(format!(
                "strict priorities: thread {} of priority {} was selected in steps {} to {}, although thread {} of priority {} was ready since step {}",
                b.thread, b.priority, b.selection.0, b.selection.1, a.thread, a.priority, a.push.1
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(thread: usize, priority: u8, push: (u64, u64), selection: (u64, u64)) -> Passage {
        Passage { thread, priority, pushed: true, push, selection }
    }

    #[test]
    fn an_overtaken_thread_is_found_and_an_overlap_is_not() {
        let promises = Promises { oldest_everywhere: true, ..Promises::default() };
        let a = passage(1, 0, (0, 5), (30, 35));
        assert!(broken(&promises, &[a, passage(2, 0, (6, 9), (20, 25))], false).unwrap().contains("thread 2"));
        assert_eq!(broken(&promises, &[a, passage(2, 0, (4, 9), (20, 25))], false), None, "pushed at the same time");
        assert_eq!(broken(&promises, &[a, passage(2, 0, (6, 9), (20, 31))], false), None, "selected at the same time");
    }

    #[test]
    fn an_outranked_selection_is_found() {
        let promises = Promises { strict: true, ..Promises::default() };
        let high = passage(1, 0, (0, 5), (30, 35));
        let low = |from| [high, passage(2, 1, (0, 3), (from, from + 2))];
        assert!(broken(&promises, &low(6), true).unwrap().contains("priority 1"));
        assert_eq!(broken(&promises, &low(4), true), None, "the selection began before");
        assert_eq!(broken(&promises, &low(6), false), None, "promised to one processor only");
    }
}
