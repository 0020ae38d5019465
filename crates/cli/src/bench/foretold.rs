//! What a bench will take, told before it begins, and how far it is, over all of its parts.

use super::{Format, Options, duration};
use raddle_bench::harness::{Plan, Progress};
use std::time::Duration;

/// What all plans together will take. Programs that cannot be had run no process.
pub fn told(options: &Options, plans: &[Plan]) -> String {
    let cases: usize = plans.iter().map(|plan| plan.cases.len()).sum();
    let processes: usize = plans.iter().map(Plan::processes).sum();
    let time = duration(plans.iter().map(usual).sum());
    let when = match (options.format(), &options.out) {
        (Format::Html, None) => "the page comes at the end (with --out FILE, Ctrl-C keeps what it has by then)",
        _ => "each row is shown when it is done, Ctrl-C keeps those",
    };
    // Who does not offer a workload is asked once, not in each round.
    format!(
        "raddle: {cases} case(s), at most {processes} process(es), about {time} by earlier runs on two cores; {when}"
    )
}

/// About how long a plan takes.
fn usual(plan: &Plan) -> Duration {
    let all: f64 = plan.cases.iter().map(|case| case.usual_seconds(plan.repeat)).sum();
    Duration::from_secs_f64(all * plan.processes() as f64 / plan.cases.len().max(1) as f64)
}

/// The plans before and after the one that runs.
pub struct Whole {
    done: usize,
    total: usize,
    later: Duration,
}

impl Whole {
    /// Where the plan with this index stands.
    pub fn at(plans: &[Plan], index: usize) -> Whole {
        let count = |plans: &[Plan]| plans.iter().map(Plan::processes).sum();
        Whole { done: count(&plans[..index]), total: count(plans), later: plans[index + 1..].iter().map(usual).sum() }
    }

    /// A plan's progress as that of all.
    pub fn of(&self, progress: &Progress) -> Progress {
        let left = progress.left.map(|left| left + self.later);
        Progress { done: self.done + progress.done, total: self.total, left, ..progress.clone() }
    }
}
