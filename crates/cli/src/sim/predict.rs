//! `raddle sim predict`: what the simulated machine says of programs on one and two processors, beside what they do here.

use crate::output::write;
use clap::Args;
use raddle_bench::bodies::shared::Traffic;
use raddle_bench::catalogue;
use raddle_bench::harness::{self, Contestant};
use raddle_bench::runtimes::{self, Programs};
use raddle_bench::stats::Spread;
use raddle_sim::calibrate::{ROUNDS, quickest};
use raddle_sim::cost::Costs;
use raddle_sim::simulate::{self, Plan};
use raddle_sim::workloads::Workload;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A prediction this near is said to hold.
const NEAR: f64 = 0.2;

/// The workload, its arguments in `raddle bench` and in the simulation, and the policy. Packets are those of the schedulers report, whose
/// spawner is held back by a full queue; otherwise what is measured on one processor is memory that is used for the first time.
const CASES: [(&str, &str, &str, &str); 4] = [
    ("packet", "N=50k", "n=50k", "local(overflow=retry)"),
    ("fib", "n=24", "n=24", "steal"),
    ("tokenring", "N=1k:K=100", "n=1k:k=100", "steal"),
    ("lock_global", "T=64:total=200k", "t=64:total=200k", "steal"),
];

/// What to hold against what.
#[derive(Args)]
pub struct Options {
    /// A JSON file of costs that `raddle sim --calibrate` wrote here; without it the machine is measured first
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// How many fresh processes run each program
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Take the benchmark's program from FOLDER, instead of building it
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Write the table to FILE instead of the standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// One prediction, in nanoseconds for each operation.
struct Row {
    name: &'static str,
    arguments: String,
    policy: &'static str,
    processors: usize,
    predicted: f64,
    measured: Spread,
}

/// Runs it. A prediction that is far off is a result, not a failure.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let costs = match &options.machine {
        Some(file) => super::machine(&file.to_string_lossy())?,
        None => super::calibrate::costs()?,
    };
    let runtime = runtimes::find("raddle")?;
    let executable = std::env::current_exe().map_err(|why| format!("cannot tell where this program lies: {why}"))?;
    let programs = match &options.programs {
        Some(folder) => Programs::ready(folder),
        None => Programs::beside(&executable, true),
    };
    let program = programs.prepare(runtime, &mut |step| eprintln!("{step}"))?;
    let mut rows = Vec::new();
    for (name, real, simulated, policy) in CASES {
        for processors in [1, 2] {
            eprintln!("raddle: {name} on {processors}");
            let workload = Workload::find(name)?;
            let (measured, ops) = measure(name, real, policy, processors, options.rounds, program.clone())?;
            let simulated = if name == "packet" { format!("{simulated}:{}", of_packets()?) } else { simulated.into() };
            let plan = Plan {
                policy: policy.parse().map_err(|why| format!("{why}"))?,
                cores: processors,
                workload,
                arguments: workload.arguments(&simulated)?,
                costs: costs.clone(),
                seed: 1,
                steps: 20_000_000_000,
            };
            let figures = simulate::simulate(&plan)?;
            let operations = figures.operations as f64;
            let predicted = figures.elapsed as f64 / operations;
            // The benchmark gives the time of some of its programs as a whole.
            let measured = times(measured, ops as f64 / operations);
            rows.push(Row { name, arguments: plan.arguments.to_string(), policy, processors, predicted, measured });
        }
    }
    write(&table(&costs, &rows, options.rounds), options.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn times(spread: Spread, factor: f64) -> Spread {
    let Spread { min, q1, median, q3, max } = spread;
    let [min, q1, median, q3, max] = [min, q1, median, q3, max].map(|value| value * factor);
    Spread { min, q1, median, q3, max }
}

/// Nanoseconds of the program's operations, and how many the benchmark counts.
fn measure(
    name: &str,
    arguments: &str,
    policy: &str,
    processors: usize,
    rounds: u32,
    program: PathBuf,
) -> Result<(Spread, u64), String> {
    let case = catalogue::cases(catalogue::find(name)?, &[arguments.into()], processors)?;
    let contestant = Contestant {
        runtime: runtimes::find("raddle")?,
        policy: Some(policy.into()),
        program: Ok(program),
        words: Vec::new(),
    };
    // Some workloads come with a case on one processor, too.
    let cases = case.into_iter().filter(|case| case.processors == processors).take(1).collect();
    let plan = harness::Plan { cases, contestants: vec![contestant], rounds, repeat: 5 };
    let results = harness::run(&plan, &mut |_| ());
    let row = results.rows.first().ok_or_else(|| format!("{name}: the benchmark gave no row"))?;
    match (&row.error, row.spread, row.ops) {
        (None, Some(spread), Some(ops)) => Ok((spread, ops)),
        (error, ..) => Err(format!("{name}: {}", error.as_deref().unwrap_or("the benchmark gave no time"))),
    }
}

/// What a packet costs its spawner and its thread, beside being spawned and scheduled: the program's own code, called in a loop.
fn of_packets() -> Result<String, String> {
    const COUNT: u64 = 128;
    let case = catalogue::cases(catalogue::find("packet")?, &[format!("N={COUNT}")], 1)?;
    let arguments = &case.first().ok_or("the workload `packet` has no case")?.args;
    let traffic = Traffic::of("packet", arguments)?;
    let round = |_| {
        let begin = Instant::now();
        let packets: Vec<_> = (0..COUNT).map(|number| (traffic.take(number), Instant::now())).collect();
        let copied = begin.elapsed();
        for (number, (packet, since)) in (0..).zip(packets) {
            traffic.handle(number, since, packet);
        }
        (copied, begin.elapsed() - copied)
    };
    let rounds: Vec<_> = (0..10 * ROUNDS).map(round).collect();
    let each = |times: &dyn Fn(&(Duration, Duration)) -> Duration| {
        quickest(rounds.iter().map(|round| times(round).as_nanos() as f64 / COUNT as f64)).round()
    };
    Ok(format!("copy={}:body={}", each(&|round| round.0), each(&|round| round.1)))
}

fn table(costs: &Costs, rows: &[Row], rounds: u32) -> String {
    let mut text = format!(
        "predicted on {}, measured in {rounds} processes each: nanoseconds an operation\n{:<12} {:<22} {:>10} {:>10} {:>10} {:>17}  {:>9}\n",
        costs.name, "workload", "policy", "processors", "predicted", "measured", "quartiles", "predicted"
    );
    for row in rows {
        let Row { name, policy, processors, predicted, measured, .. } = row;
        let off = predicted / measured.median - 1.0;
        let verdict = if off.abs() <= NEAR { "" } else { "  beyond 20 %" };
        let quartiles = format!("{:.1} to {:.1}", measured.q1, measured.q3);
        let _ = writeln!(
            text,
            "{name:<12} {policy:<22} {processors:>10} {predicted:>10.1} {:>10.1} {quartiles:>17}  {:>+7.0} %{verdict}",
            measured.median,
            off * 100.0,
        );
    }
    for row in rows.iter().filter(|row| row.processors == 1) {
        let _ = writeln!(text, "{}: {}", row.name, row.arguments);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_near_and_what_is_not() {
        let row = |processors, predicted| {
            let measured = Spread { min: 90.0, q1: 95.0, median: 100.0, q3: 110.0, max: 200.0 };
            Row { name: "fib", arguments: "n=24".into(), policy: "steal", processors, predicted, measured }
        };
        let costs = Costs::preset("host").unwrap();
        let text = table(&costs, &[row(1, 119.0), row(2, 70.0)], 9);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("+19 %") && !lines[2].contains("beyond"), "{text}");
        assert!(lines[3].contains("-30 %  beyond 20 %") && lines[4] == "fib: n=24", "{text}");
    }

    #[test]
    fn every_case_is_a_workload_here_and_there() {
        for (name, real, simulated, policy) in CASES {
            assert!(Workload::find(name).unwrap().arguments(simulated).is_ok(), "{name}");
            assert_eq!(catalogue::cases(catalogue::find(name).unwrap(), &[real.into()], 1).unwrap().len(), 1, "{name}");
            assert!(policy.parse::<simulate::Expression>().is_ok(), "{name}");
        }
        assert!(of_packets().unwrap().starts_with("copy="));
    }
}
