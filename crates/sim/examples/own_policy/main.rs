//! Checks and simulates the policy of `policy.rs`: `cargo run --release -p raddle-sim --example own_policy`.
#![forbid(unsafe_code)]

mod policy;

use policy::Polite;
use raddle_sim::check::{self, Own, Promises, Subject};
use raddle_sim::cost::Costs;
use raddle_sim::simulate::{Plan, simulate, simulate_own};
use raddle_sim::watch::{STUCK_AFTER, Watchdog};
use raddle_sim::workloads::Workload;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let promises = Promises { own: Own::Oldest, ..Promises::default() };
    let subject = Subject::new("polite", promises, |processors, others| Box::new(Polite::new(processors, others)));
    // Ends the program, and says where it was, when the policy loops without a step: 20 seconds pass until then.
    let watch = Watchdog::start(STUCK_AFTER, |_, _| ());
    watch.now(subject.name.clone());
    let done = match std::env::args().nth(1) {
        // A token that a failing check printed makes that run again.
        Some(token) => replay(&subject, &token),
        None => explore(&subject, &watch).and_then(|()| compare(&watch)),
    };
    watch.end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn explore(subject: &Subject, watch: &Watchdog) -> Result<(), String> {
    let plan = check::Plan { seeds: 2_000, time: Some(Duration::from_secs(20)), ..check::Plan::default() };
    let report = check::check(subject, &plan, &mut |progress| watch.now(progress.to_string()));
    for tried in &report.tried {
        println!("{:<10} {} runs one after the other, {} by seeds", tried.name, tried.systematic, tried.seeds);
    }
    for (tried, missed) in report.missed() {
        let late = if tried.out_of_time { " before the time was over; give it more" } else { "" };
        println!("no run of `{}` reached this{late}: {missed}", tried.name);
    }
    match &report.failure {
        Some(failure) => Err(told(failure)),
        None if report.passed() => Ok(()),
        None => Err("not all outcomes that the scenarios list were reached: the check says nothing yet".into()),
    }
}

fn replay(subject: &Subject, token: &str) -> Result<(), String> {
    let (failure, steps) = check::replay(subject, &token.parse()?)?;
    match failure {
        Some(failure) => Err(told(&failure)),
        None => {
            println!("{}\nnothing broke in this run", steps.join("\n"));
            Ok(())
        }
    }
}

fn told(failure: &check::Failure) -> String {
    let check::Failure { scenario, what, last, token, .. } = failure;
    format!("FAILED in `{scenario}`: {what}\n  {}\nto see it again: give {token} as argument", last.join("\n  "))
}

fn compare(watch: &Watchdog) -> Result<(), String> {
    let workload = Workload::find("packet")?;
    let costs = Costs::preset("epyc").ok_or("the preset is gone")?;
    println!("cores   polite    steal   million packets a second, simulated");
    for cores in [1, 4, 16, 64] {
        let plan = Plan {
            // What `simulate` takes; `simulate_own` has its own.
            policy: "steal".parse().map_err(|why| format!("{why}"))?,
            cores,
            workload,
            arguments: workload.arguments("n=5k:work=500")?,
            costs: costs.clone(),
            seed: 1,
            steps: 1_000_000_000,
        };
        watch.now(format!("packet on {cores} cores"));
        let ours = simulate_own(&plan, |processors, others| Box::new(Polite::new(processors, others)))?;
        let theirs = simulate(&plan)?;
        println!("{cores:>5} {:>8.2} {:>8.2}", ours.throughput() / 1e6, theirs.throughput() / 1e6);
    }
    Ok(())
}
