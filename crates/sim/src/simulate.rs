//! A workload on a simulated machine, from a plan to figures.
//!
//! # Example
//! ```
//! use raddle_sim::cost::Costs;
//! use raddle_sim::simulate::{Plan, simulate};
//! use raddle_sim::workloads::Workload;
//! let workload = Workload::find("tree").unwrap();
//! let plan = |cores| Plan {
//!     policy: "steal".parse().unwrap(),
//!     cores,
//!     workload,
//!     arguments: workload.arguments("depth=8:leaf=20k").unwrap(),
//!     costs: Costs::preset("epyc").unwrap(),
//!     seed: 1,
//!     steps: 10_000_000,
//! };
//! let [one, eight] = [1, 8].map(|cores| simulate(&plan(cores)).unwrap());
//! assert!(eight.throughput() > 4.0 * one.throughput());
//! assert_eq!(simulate(&plan(8)).unwrap().digest, eight.digest);
//! ```
#![forbid(unsafe_code)]

use crate::coroutine::room;
use crate::cost::Costs;
use crate::execution::{Options, Outcome, run};
use crate::machine::Controlled;
use crate::threads;
use crate::virtual_time::{Counts, VirtualTime};
use crate::workloads::{Arguments, Workload};
use raddle_scheduler::Policy;
pub use raddle_scheduler::expression::Expression;
use raddle_scheduler::policies::{self, AnyPolicy, Others};
use std::sync::Arc;

/// The most simulated cores.
pub const MOST_CORES: usize = 256;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policy.
    pub policy: Expression,
    /// How many cores: 1 to [`MOST_CORES`].
    pub cores: usize,
    /// The program.
    pub workload: &'static Workload,
    /// With these arguments.
    pub arguments: Arguments,
    /// On this machine.
    pub costs: Costs,
    /// What is random follows from it.
    pub seed: u64,
    /// The most steps; then somebody loops.
    pub steps: u64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Operations of the workload.
    pub operations: u64,
    /// Virtual nanoseconds from the beginning to the end of the last thread.
    pub elapsed: u64,
    /// From being ready to running: 50, 99 and 99.99 of a hundred.
    pub delays: [u64; 3],
    /// From a thread's spawn to its end: the same.
    pub lives: [u64; 3],
    /// Steals tried, and won.
    pub steals: (u64, u64),
    /// Times that a spawner found its queue full.
    pub retries: u64,
    /// What the machine counted.
    pub counts: Counts,
    /// The share of the time that each core worked.
    pub utilisation: Vec<f64>,
    /// Steps of the simulation.
    pub steps: u64,
    /// A word made of all steps.
    pub digest: u64,
}

impl Figures {
    /// Operations a second.
    pub fn throughput(&self) -> f64 {
        self.operations as f64 * 1e9 / self.elapsed.max(1) as f64
    }

    /// The mean share of the time that the cores worked.
    pub fn mean_utilisation(&self) -> f64 {
        self.utilisation.iter().sum::<f64>() / self.utilisation.len().max(1) as f64
    }

    /// Cycles that awake cores stalled for each instruction, of which they execute one a cycle otherwise: for each
    /// nanosecond in which they did ([`Counts::executed`]) those in which they did not.
    pub fn stalls(&self) -> f64 {
        self.counts.stalled as f64 / self.counts.executed.max(1) as f64
    }
}

/// 50, 99 and 99.99 of a hundred, by the nearest rank.
fn percentiles(mut values: Vec<u64>) -> [u64; 3] {
    values.sort_unstable();
    let rank = |ten_thousandths: usize| (values.len() * ten_thousandths).div_ceil(10_000).max(1) - 1;
    [5_000, 9_900, 9_999].map(|share| values.get(rank(share)).copied().unwrap_or(0))
}

/// Simulates.
///
/// # Errors
/// What the plan, or the simulated program, has done wrong, by name.
pub fn simulate(plan: &Plan) -> Result<Figures, String> {
    let of_the_machine = || plan.costs.levels.iter().map(|level| level.cores).find(|&cores| cores > 1).unwrap_or(1);
    let policy = plan.policy.clone().in_clusters_of(&|| of_the_machine().min(plan.cores) as u32);
    let make = |cores, others| policies::build(&policy, cores, others).map_err(|why| why.to_string());
    simulate_under(&policy.to_string(), plan, make)
}

/// Simulates under a policy that no expression names, instead of the plan's.
///
/// # Errors
/// As for [`simulate`].
pub fn simulate_own(
    plan: &Plan,
    make: impl FnOnce(usize, Arc<dyn Others>) -> Box<dyn Policy<Controlled>>,
) -> Result<Figures, String> {
    simulate_under("the program's own policy", plan, |cores, others| Ok(AnyPolicy::Other(make(cores, others))))
}

fn simulate_under(
    policy: &str,
    plan: &Plan,
    make: impl FnOnce(usize, Arc<dyn Others>) -> Result<AnyPolicy<Controlled>, String>,
) -> Result<Figures, String> {
    let Plan { cores, workload, arguments, costs, seed, steps, .. } = plan;
    if !(1..=MOST_CORES).contains(cores) {
        return Err(format!("{cores} simulated cores: from 1 to {MOST_CORES}"));
    }
    room()?;
    let options = Options { seed: *seed, steps: *steps, clocks: false, trace: false, lines: true };
    let main = workload.main(arguments);
    let over = run(&options, VirtualTime::new(costs.clone()), || threads::pool(make, *cores, costs, main));
    let pool = over.value?;
    let left = pool.left();
    let error = match over.outcome {
        _ if over.driver.ran_over() => Some(format!(
            "under `{policy}` the program takes more than thirteen days of virtual time; give it smaller arguments, or the machine smaller costs"
        )),
        Outcome::Done if left == 0 => None,
        Outcome::Asleep(_) => Some(format!("under `{policy}` all cores sleep, and {left} threads have not ended")),
        endless @ Outcome::Endless { .. } => Some(format!(
            "under `{policy}` {endless}; the limit for all cores is {steps}: a program that only needs more gets it by a larger one (`--steps`)"
        )),
        other => Some(format!("under `{policy}`: {other}")),
    };
    if let Some(error) = error {
        pool.end();
        return Err(error);
    }
    let tally = pool.tally();
    pool.end();
    let elapsed = tally.ended_at.max(1);
    Ok(Figures {
        operations: workload.operations(arguments),
        elapsed,
        delays: percentiles(tally.delays),
        lives: percentiles(tally.lives),
        steals: tally.steals,
        retries: tally.retries,
        counts: over.driver.counts(),
        utilisation: tally.worked.iter().map(|&worked| worked as f64 / elapsed as f64).collect(),
        steps: over.steps,
        digest: over.digest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_weeks_is_an_error() {
        let fails = |workload: &str, arguments: &str, costs: &Costs| {
            let workload = Workload::find(workload).unwrap();
            let plan = Plan {
                policy: "steal".parse().unwrap(),
                cores: 2,
                workload,
                arguments: workload.arguments(arguments).unwrap(),
                costs: costs.clone(),
                seed: 1,
                steps: 1_000_000,
            };
            let why = simulate(&plan).unwrap_err();
            assert!(why.contains("thirteen days"), "{why}");
        };
        let epyc = Costs::preset("epyc").unwrap();
        fails("radix", "bits=16:keys=100M:t=1:key=100M:cell=100M:slice=0", &epyc);
        fails("packet", "n=2:work=100M", &Costs { together: 1e9, ..epyc });
        let all = [
            "hit",
            "exchange",
            "memory",
            "step",
            "commit",
            "spin",
            "switch",
            "spawn",
            "start",
            "sleep",
            "wake",
            "wake_latency",
            "fence",
            "together",
        ];
        let dear: Vec<String> = all.iter().map(|name| format!("\"{name}\": 1e9")).collect();
        for cached in [true, false] {
            let file = format!("{{\"cached\": {cached}, \"levels\": [[2, 1e9]], {}}}", dear.join(", "));
            fails("packet", "n=50", &Costs::from_json(&file).unwrap());
        }
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        assert_eq!(percentiles((1..=100).rev().collect()), [50, 99, 100]);
        assert_eq!(percentiles(vec![7]), [7, 7, 7]);
        assert_eq!(percentiles(Vec::new()), [0, 0, 0]);
    }
}
