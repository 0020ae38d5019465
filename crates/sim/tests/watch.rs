//! The watch over a check: short runs are seen by it, and a policy that loops without a step is stopped and its run
//! named.

use raddle_scheduler::policies::{self, Others};
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use raddle_sim::Controlled;
use raddle_sim::check::{self, Own, Plan, Promises, Subject};
use raddle_sim::watch::Watchdog;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A right policy whose third selection never ends, and makes no step.
struct Stuck(policies::AnyPolicy<Controlled>);

struct StuckLocal(Box<dyn Local<Controlled>>, u32);

impl Policy<Controlled> for Stuck {
    fn local(&self, index: usize) -> Box<dyn Local<Controlled>> {
        Box::new(StuckLocal(self.0.local(index), 0))
    }
    fn submit(&self, thread: Ready<Controlled>) -> Notify {
        self.0.submit(thread)
    }
    fn describe(&self) -> String {
        "stuck".into()
    }
    fn offers(&self) -> bool {
        self.0.offers()
    }
    fn strands(&self) -> &'static str {
        self.0.strands()
    }
}

impl Local<Controlled> for StuckLocal {
    fn push(&mut self, thread: Ready<Controlled>, cause: Cause) -> Notify {
        self.0.push(thread, cause)
    }
    fn next(&mut self, floor: u8) -> Option<Ready<Controlled>> {
        self.1 += 1;
        if self.1 == 3 {
            loop {
                std::hint::spin_loop();
            }
        }
        self.0.next(floor)
    }
    fn search(&mut self) -> Option<Ready<Controlled>> {
        self.0.search()
    }
    fn has_work(&self) -> bool {
        self.0.has_work()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Controlled>)) {
        self.0.drain(out);
    }
}

/// Set in a process of its own, which the watch ends.
const CHILD: &str = "RADDLE_TEST_STUCK";

fn stuck() {
    let subject = Subject::new("stuck", Promises::default(), |processors, others: Arc<dyn Others>| {
        Box::new(Stuck(policies::build(&"fifo".parse().unwrap(), processors, others).unwrap()))
    });
    let watch = Watchdog::start(Duration::from_secs(5), |_, _| ());
    let plan = Plan { systematic: 0, seed: 7, seeds: 1, ..Plan::default() };
    check::check(&subject, &plan, &mut |progress| watch.now(progress.to_string()));
}

#[test]
fn a_policy_that_loops_without_a_step_is_stopped_and_its_run_named() {
    if std::env::var_os(CHILD).is_some() {
        return stuck();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "a_policy_that_loops_without_a_step_is_stopped_and_its_run_named";
    command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let late = Instant::now() + Duration::from_secs(300);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > late {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("`spawn`, seed 7, run 1: no step for 5 seconds"), "{error}");
}

#[test]
fn runs_that_are_too_short_to_be_told_by_their_steps_are_seen() {
    let (sender, seen) = std::sync::mpsc::channel();
    let watch = Watchdog::start(Duration::MAX, move |_, steps| sender.send(steps).unwrap_or_default());
    let promises = Promises { own: Own::Oldest, ..Promises::default() };
    let subject = Subject::new("fifo", promises, |processors, others| {
        Box::new(policies::build(&"fifo".parse().unwrap(), processors, others).unwrap())
    });
    let plan =
        Plan { systematic: 0, seeds: 200, scenarios: vec![check::scenario("order").unwrap()], ..Plan::default() };
    watch.now("short runs".into());
    let report = check::check(&subject, &plan, &mut |_| ());
    assert!(report.passed() && report.tried[0].steps < 200 * 1024, "{report:?}");
    seen.try_iter().for_each(drop);
    // The first may have been on its way.
    let steps = seen.iter().nth(1).unwrap();
    assert!(steps >= 200 * 1024, "{steps}");
}
