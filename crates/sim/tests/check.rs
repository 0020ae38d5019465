//! The check itself: our policies pass, policies that are wrong are found, and what it prints shows the fault again.

use raddle_scheduler::policies::{self, Others};
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use raddle_sim::Controlled;
use raddle_sim::check::{self, Failure, Plan, Promises, Report, Subject};
use std::sync::Arc;
use std::time::Duration;

/// So much that it takes a second or so, and the same each time.
fn plan() -> Plan {
    Plan { systematic: 60, seeds: 60, ..Plan::default() }
}

fn checked(subject: &Subject, plan: &Plan) -> Report {
    check::check(subject, plan, &mut |_| ())
}

#[test]
fn our_policies_pass() {
    let policies = [
        "steal",
        "fifo",
        "lifo",
        "rotator",
        "waiver",
        "multiqueue(1)",
        "local(capacity=2)",
        "request(naive, capacity=2)",
        "alternate(1)",
        "clustered(1, steal)",
        "priority(3, fifo)",
        "apart(steal, fifo)",
    ];
    for policy in policies {
        let report = checked(&policy.parse().unwrap(), &plan());
        assert!(report.failure.is_none(), "{policy}: {:?}", report.failure);
        let tried = report.tried.iter().filter(|tried| tried.skipped.is_none());
        for tried in tried {
            assert!(tried.systematic > 0 && tried.seeds > 0, "{policy}: {tried:?}");
        }
    }
}

/// Runs that showed: who stole within a selection told nobody of the rest (seed 637), and the check had a thread wait
/// for ever that a ring had brought back to the processor that is busy (seed 708).
#[test]
fn what_a_stranger_found_stays_mended() {
    for (policy, scenario, processors, threads, seeds) in
        [("priority(1, steal)", "gift", 4, 9, 700), ("rotator", "publish", 3, 5, 800)]
    {
        let scenarios = vec![check::scenario(scenario).unwrap()];
        let plan = Plan { processors, threads, scenarios, systematic: 0, seeds, ..Plan::default() };
        let report = checked(&policy.parse().unwrap(), &plan);
        assert!(report.failure.is_none(), "{policy}: {:?}", report.failure);
        assert!(report.tried[0].seeds >= seeds, "{policy}: {report:?}");
    }
}

#[test]
fn all_runs_within_a_bound_are_made_and_no_more() {
    let scenarios = vec![check::scenario("order").unwrap(), check::scenario("submit").unwrap()];
    let plan = Plan { preemptions: 0, seeds: 0, systematic: 10_000, scenarios, ..Plan::default() };
    let report = checked(&"rotator".parse().unwrap(), &plan);
    assert!(report.tried.iter().all(|tried| tried.complete == Some(0)), "{report:?}");
    let again = checked(&"rotator".parse().unwrap(), &plan);
    assert_eq!(format!("{report:?}"), format!("{again:?}"), "the same check makes the same runs");
    let one = Plan { systematic: 1, ..plan };
    let report = checked(&"rotator".parse().unwrap(), &one);
    assert!(report.tried.iter().any(|tried| tried.broken_off.is_some()), "it says where it was broken off");
}

/// What is wrong with a [`Wrong`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Submissions wake nobody.
    Silent,
    /// Who is about to sleep sees nothing.
    Blind,
    /// Yields are forgotten.
    Drops,
    /// Threads are kept by whom nobody asks.
    Keeps,
    /// A selection never ends.
    Loops,
    /// It panics in the fifth selection.
    Panics,
}

/// A right policy with a fault.
struct Wrong(policies::AnyPolicy<Controlled>, Fault);

struct WrongLocal {
    inner: Box<dyn Local<Controlled>>,
    fault: Fault,
    kept: Vec<Ready<Controlled>>,
    selections: u32,
}

impl Policy<Controlled> for Wrong {
    fn local(&self, index: usize) -> Box<dyn Local<Controlled>> {
        let inner = self.0.local(index);
        Box::new(WrongLocal { inner, fault: self.1, kept: Vec::new(), selections: 0 })
    }
    fn submit(&self, thread: Ready<Controlled>) -> Notify {
        let notify = self.0.submit(thread);
        if self.1 == Fault::Silent { Notify::Nobody } else { notify }
    }
    fn describe(&self) -> String {
        format!("{:?}", self.1)
    }
    fn offers(&self) -> bool {
        self.1 != Fault::Blind && self.0.offers()
    }
    fn strands(&self) -> &'static str {
        self.0.strands()
    }
}

impl Local<Controlled> for WrongLocal {
    fn push(&mut self, thread: Ready<Controlled>, cause: Cause) -> Notify {
        match self.fault {
            Fault::Keeps if cause == Cause::Woken => {
                self.kept.push(thread);
                Notify::Nobody
            }
            Fault::Drops if cause == Cause::Yielded => {
                drop(thread);
                Notify::Nobody
            }
            _ => self.inner.push(thread, cause),
        }
    }
    fn next(&mut self, floor: u8) -> Option<Ready<Controlled>> {
        self.selections += 1;
        if self.fault == Fault::Loops && self.selections > 4 {
            loop {
                self.inner.has_work();
            }
        }
        assert!(self.fault != Fault::Panics || self.selections != 5, "five");
        self.inner.next(floor)
    }
    fn search(&mut self) -> Option<Ready<Controlled>> {
        self.inner.search()
    }
    fn has_work(&self) -> bool {
        self.fault != Fault::Blind && self.inner.has_work()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Controlled>)) {
        self.inner.drain(out);
    }
}

fn wrong(fault: Fault) -> Subject {
    Subject::new(format!("{fault:?}"), Promises::default(), move |processors, others: Arc<dyn Others>| {
        let inner = policies::build(&"fifo".parse().unwrap(), processors, others).unwrap();
        Box::new(Wrong(inner, fault))
    })
}

fn failure(fault: Fault) -> Failure {
    let plan = Plan { seeds: 200, systematic: 500, ..Plan::default() };
    checked(&wrong(fault), &plan).failure.unwrap_or_else(|| panic!("{fault:?} is not found"))
}

#[test]
fn a_wrong_policy_is_found_and_its_run_made_again() {
    for (fault, what) in [
        (Fault::Silent, "asleep for ever beside work"),
        (Fault::Blind, "asleep for ever beside work"),
        (Fault::Drops, "dropped a ready thread"),
        (Fault::Keeps, "asleep for ever beside work"),
        (Fault::Loops, "an endless loop"),
        (Fault::Panics, "five"),
    ] {
        let found = failure(fault);
        assert!(found.what.contains(what), "{fault:?}: {}", found.what);
        assert!(!found.last.is_empty(), "{fault:?} is told");
        // The token alone leads to the same run, also by way of its text.
        let token = found.token.to_string().parse().unwrap();
        let (again, _) = check::replay(&wrong(fault), &token).unwrap();
        assert_eq!(again.map(|again| (again.what, again.last)), Some((found.what, found.last)), "{fault:?}");
    }
}

#[test]
fn a_broken_promise_is_found() {
    // What is first in first out where it was said to be the newest first.
    let promises = Promises { own: check::Own::Newest, ..Promises::default() };
    let subject = Subject::new("fifo", promises, |processors, others| {
        Box::new(policies::build(&"fifo".parse().unwrap(), processors, others).unwrap())
    });
    let failure = checked(&subject, &plan()).failure.unwrap();
    assert!(failure.scenario == "order" && failure.what.contains("the newest first"), "{}", failure.what);
    // A stack where the oldest first was promised, whoever pushes and selects.
    let promises = Promises { oldest_everywhere: true, ..Promises::default() };
    let subject = Subject::new("lifo", promises, |processors, others| {
        Box::new(policies::build(&"lifo".parse().unwrap(), processors, others).unwrap())
    });
    let failure = checked(&subject, &plan()).failure.unwrap();
    assert!(failure.what.contains("the oldest first"), "{}", failure.what);
}

#[test]
fn a_token_of_another_policy_is_refused_where_it_does_not_fit() {
    let token = "1.spawn.2.4.0.100000-1".parse().unwrap();
    let error = check::replay(&"fifo".parse().unwrap(), &token).unwrap_err();
    assert!(error.contains("does not go so far") && error.contains("step 100000"), "{error}");
}

#[test]
fn an_outcome_that_no_run_reaches_is_said() {
    // One systematic run: nobody is called yet.
    let scenarios = vec![check::scenario("submit").unwrap()];
    let plan = Plan { systematic: 1, seeds: 0, preemptions: 0, scenarios, ..Plan::default() };
    let report = checked(&"fifo".parse().unwrap(), &plan);
    assert!(report.failure.is_none() && !report.passed());
    assert!(report.tried[0].missed().count() > 0);
}

#[test]
fn each_scenario_has_its_seeds_when_the_time_is_over() {
    let plan = Plan { time: Some(Duration::ZERO), seeds: 5000, ..Plan::default() };
    let report = checked(&"fifo".parse().unwrap(), &plan);
    assert!(report.failure.is_none(), "{:?}", report.failure);
    for tried in report.tried.iter().filter(|tried| tried.skipped.is_none()) {
        assert!(tried.seeds >= 100 && tried.seeds < 5000, "{tried:?}");
        assert!(tried.out_of_time && tried.systematic == 0 && tried.broken_off == Some((0, 0)), "{tried:?}");
    }
}

#[test]
fn how_far_it_came_is_kept_when_the_time_is_over() {
    // More runs than any machine makes in that time.
    let plan = Plan { time: Some(Duration::from_millis(900)), threads: 64, processors: 8, seeds: 1, ..Plan::default() };
    let report = checked(&"fifo".parse().unwrap(), &plan);
    assert!(report.failure.is_none(), "{:?}", report.failure);
    let first = &report.tried[0];
    assert_eq!((first.complete, first.broken_off), (None, Some((0, first.systematic))));
}

#[test]
fn a_few_seeds_alone_need_not_reach_what_is_listed() {
    let subject: Subject = "fifo".parse().unwrap();
    for (seeds, demanding) in [(1, false), (999, false), (1000, true)] {
        let plan = Plan { systematic: 0, seeds, ..Plan::default() };
        let report = checked(&subject, &plan);
        assert_eq!(report.demanding, demanding, "{seeds}");
        assert!(report.passed(), "{report:?}");
    }
    let plan = Plan { systematic: 0, seeds: 1, seed: 7, ..Plan::default() };
    let missed: usize = checked(&subject, &plan).tried.iter().map(|tried| tried.missed().count()).sum();
    assert!(missed > 0, "one run does not reach everything, and is told so");
}
