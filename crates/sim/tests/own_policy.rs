//! The policy of docs/write-your-own-policy.md, checked and simulated as its reader does.

#[path = "../examples/own_policy/policy.rs"]
mod policy;

use policy::Polite;
use raddle_sim::check::{self, Own, Promises, SCENARIOS, Subject};
use raddle_sim::cost::Costs;
use raddle_sim::simulate::{Plan, simulate_own};
use raddle_sim::workloads::WORKLOADS;

#[test]
fn the_guide_s_policy_passes_its_check_and_reaches_all_that_is_listed() {
    let promises = Promises { own: Own::Oldest, ..Promises::default() };
    let subject = Subject::new("polite", promises, |processors, others| Box::new(Polite::new(processors, others)));
    let plan = check::Plan {
        processors: 2,
        threads: 4,
        scenarios: SCENARIOS.iter().collect(),
        preemptions: 1,
        systematic: 3_000,
        seed: 0,
        seeds: 500,
        time: None,
    };
    let report = check::check(&subject, &plan, &mut |_| ());
    assert!(report.failure.is_none(), "{:?}", report.failure);
    let missed: Vec<_> = report.tried.iter().flat_map(|tried| tried.missed()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn the_guide_s_policy_runs_every_workload_and_steals() {
    for workload in &WORKLOADS {
        let small = match workload.name {
            "packet" => "n=500",
            "tree" => "depth=6",
            "fib" => "n=9",
            "tokenring" => "n=10:k=10",
            "radix" => "keys=5000:t=8",
            "city" => "n=50:k=3",
            "eratosthenes" => "n=60",
            "mandelbrot" => "n=20:c=50:k=100",
            "matrix" => "n=20:t=8",
            "news" => "n=20:m=2:k=3",
            "producer" => "n=4:k=100",
            _ => "t=8:total=500",
        };
        let plan = Plan {
            policy: Default::default(),
            cores: 4,
            workload,
            arguments: workload.arguments(small).unwrap(),
            costs: Costs::preset("epyc").unwrap(),
            seed: 1,
            steps: 50_000_000,
        };
        let run = || simulate_own(&plan, |processors, others| Box::new(Polite::new(processors, others))).unwrap();
        let figures = run();
        assert!(figures.steals.1 > 0, "{}: {:?}", workload.name, figures.steals);
        assert_eq!(figures, run(), "{}", workload.name);
    }
}
