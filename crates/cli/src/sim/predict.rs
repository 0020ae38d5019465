//! `raddle sim predict`: what the simulated machine says of programs on one and two processors, beside what they do
//! here.

mod packets;

use crate::output::{Output, print};
use clap::Args;
use packets::Packets;
use raddle_bench::harness::{self, Contestant};
use raddle_bench::runtimes::{self, Programs};
use raddle_bench::stats::Spread;
use raddle_bench::{catalogue, quiet, waits};
use raddle_sim::calibrate::{Measured, middle_half};
use raddle_sim::cost::Costs;
use raddle_sim::simulate::{self, Plan};
use raddle_sim::watch::{STUCK_AFTER, Watchdog};
use raddle_sim::workloads::Workload;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// A prediction this near is said to hold.
const NEAR: f64 = 0.2;

type Case = (&'static str, &'static str, &'static str, &'static str);

/// The workload, its arguments in `raddle bench` and in the simulation, and the policy. Packets are those of the
/// schedulers report, whose spawner is held back by a full queue; otherwise what is measured on one processor is memory
/// that is used for the first time. All are so short that some processes run them without being interrupted, on a
/// machine that is not quite idle.
const CASES: [Case; 4] = [
    ("packet", "N=2k", "n=2k", "local(overflow=retry)"),
    ("fib", "n=17", "n=17", "steal"),
    ("tokenring", "N=100:K=20", "n=100:k=20", "steal"),
    ("lock_global", "T=64:total=32k", "t=64:total=32k", "steal"),
];

/// What to hold against what.
#[derive(Args)]
pub struct Options {
    /// A JSON file of costs that `raddle sim --calibrate` wrote here; without it the machine is measured first
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// How many fresh processes of each program count, of which the mean of the middle half is taken; one that was
    /// disturbed to the end is replaced, up to four times as many run. Of a process the quickest of several undisturbed
    /// repetitions does; on two processors the one a quarter from there (the quickest may be one in which one of them
    /// ran all)
    #[arg(long, allow_negative_numbers = true, default_value_t = 12, value_name = "N", value_parser = crate::numbers::whole::<u32>(crate::numbers::SOME, "--rounds 20"))]
    rounds: u32,
    /// Take the benchmark's program from FOLDER, instead of building it; an installed command has it in itself
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Write the table to FILE instead of the standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure the probes of the calibration, and nothing else: what each of several processes does
    #[arg(long, hide = true)]
    probes: bool,
    /// Measure what `packet` does beside its scheduling, and nothing else: what each of several processes of this
    /// command does
    #[arg(long, hide = true)]
    own_code: bool,
}

/// One prediction, in nanoseconds for each operation.
struct Row {
    name: &'static str,
    arguments: String,
    policy: &'static str,
    processors: usize,
    predicted: f64,
    /// The middle half of the processes.
    measured: f64,
    quickest: f64,
    slowest: f64,
    counted: usize,
    disturbed: u32,
}

/// So many parts the measuring has, each of which measures all: what was slow or quick for a while was so for both
/// sides.
const PARTS: u32 = 5;
/// Processes of the calibration in each part. With two, `together` was 1.05 to 1.11 in three runs one after the other.
const PROBES: u32 = 5;
/// So many processes are tried for each that is to count: those that were disturbed to the end do not, and another one
/// takes their place.
const TRIES: u32 = 4;

/// What processes have seen that were not disturbed to the end.
struct Seen<V> {
    values: Vec<V>,
    /// Processes that were.
    disturbed: u32,
}

impl<V> Seen<V> {
    fn new() -> Self {
        Self { values: Vec::new(), disturbed: 0 }
    }

    /// Runs so many, and others for those that were disturbed, see [`TRIES`]. `process` gives nothing for such a one.
    fn add(&mut self, wanted: u32, mut process: impl FnMut() -> Result<Option<V>, String>) -> Result<(), String> {
        let enough = self.values.len() + wanted as usize;
        for _ in 0..TRIES * wanted {
            if self.values.len() == enough {
                break;
            }
            match process()? {
                Some(value) => self.values.push(value),
                None => self.disturbed += 1,
            }
        }
        Ok(())
    }

    /// An error if there were none of this.
    fn some(&self, what: &str) -> Result<(), String> {
        let busy = || format!("{what}: no process had its cores for itself; try it on a machine that does less beside");
        if self.values.is_empty() { Err(busy()) } else { Ok(()) }
    }
}

/// Runs it. A prediction that is far off is a result, not a failure.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    if options.own_code {
        return print(&packets::here()?.line()).map(|()| ExitCode::SUCCESS);
    }
    if options.probes {
        return print(&super::calibrate::measured()?.to_line()).map(|()| ExitCode::SUCCESS);
    }
    super::calibrate::warn();
    let machine = options.machine.as_ref().map(|file| super::machine(&file.to_string_lossy())).transpose()?;
    crate::output::has_only("table", options.out.as_deref())?;
    let output = Output::claim(options.out.as_deref())?;
    let runtime = runtimes::find("raddle")?;
    let executable = crate::run::own_program().map_err(|why| format!("cannot tell where this program lies: {why}"))?;
    let programs = match &options.programs {
        Some(folder) => Programs::ready(folder),
        None => Programs::beside(&executable, true),
    };
    let program = match programs.prepare(runtime, &mut |step| eprintln!("{step}")) {
        Ok(program) => {
            Contestant { runtime, policy: None, lock: None, program: Ok(program), first: Vec::new(), words: Vec::new() }
        }
        // An installed command has no program beside it, but ours in it.
        Err(_) if options.programs.is_none() => crate::bench::own_program(runtime)?,
        Err(why) => return Err(why),
    };
    let (mut probes, mut own_code) = (Seen::new(), Seen::new());
    let before = quiet::Taken::now();
    let mut cases: Vec<Seen<f64>> = (0..2 * CASES.len()).map(|_| Seen::new()).collect();
    let parts = PARTS.min(options.rounds);
    for part in 0..parts {
        eprintln!("raddle: part {} of {parts}", part + 1);
        if machine.is_none() {
            let undisturbed = |one: Measured| (one.disturbed == 0.0).then_some(one);
            probes.add(PROBES, || super::calibrate::measured_afresh().map(undisturbed))?;
        }
        let rounds = options.rounds / parts + u32::from(part < options.rounds % parts);
        let undisturbed = |one: Packets| (!one.disturbed).then_some(one);
        own_code.add(rounds, || packets::measured(&executable).map(undisturbed))?;
        for (index, seen) in cases.iter_mut().enumerate() {
            seen.add(rounds, || measure(CASES[index / 2], 1 + index % 2, &program))?;
        }
    }
    let costs = match machine {
        Some(costs) => costs,
        None => {
            probes.some("the calibration")?;
            super::calibrate::costs_of(&Measured::middle_of(&probes.values).ok_or("nothing was measured")?)?
        }
    };
    own_code.some("the packets' own code")?;
    // Each process repeats its program, and the last time counts: what it uses lies in the caches.
    let costs = Costs { memory: costs.hit, ..costs };
    let arguments = Packets::middle_of(&own_code.values).arguments();
    let row = |(index, seen)| predict(&costs, &arguments, CASES[index / 2], 1 + index % 2, seen);
    let rows = cases.iter().enumerate().map(row).collect::<Result<Vec<_>, _>>()?;
    let mut text = table(&costs, &rows, options.rounds, quiet::Taken::now().since(before));
    let near = quiet::Best::here().round_trip();
    let _ = writeln!(text, "near each other, what two cores write in turn goes there and back in {near} ns");
    text += &disturbed("the calibration", probes.disturbed, probes.values.len());
    text += &disturbed("the packets' own code", own_code.disturbed, own_code.values.len());
    output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Simulates a case, and puts beside it what was seen.
fn predict(costs: &Costs, own_code: &str, case: Case, processors: usize, seen: &Seen<f64>) -> Result<Row, String> {
    let (name, _, simulated, policy) = case;
    let workload = Workload::find(name)?;
    let simulated = if name == "packet" { format!("{simulated}:{own_code}") } else { simulated.into() };
    let plan = Plan {
        policy: policy.parse().map_err(|why| format!("{why}"))?,
        cores: processors,
        workload,
        arguments: workload.arguments(&simulated)?,
        costs: costs.clone(),
        seed: 1,
        steps: 20_000_000_000,
    };
    let watch = Watchdog::start(STUCK_AFTER, |_, _| ());
    watch.now(format!("{name} under `{policy}` on {processors} cores"));
    let figures = simulate::simulate(&plan)?;
    watch.end();
    let operations = figures.operations as f64;
    seen.some(&format!("{name} on {processors}"))?;
    let each: Vec<f64> = seen.values.iter().map(|all| all / operations).collect();
    let spread = Spread::of(&each).ok_or("nothing was measured")?;
    let predicted = figures.elapsed as f64 / operations;
    Ok(Row {
        name,
        arguments: plan.arguments.to_string(),
        policy,
        processors,
        predicted,
        measured: middle_half(each),
        quickest: spread.min,
        slowest: spread.max,
        counted: seen.values.len(),
        disturbed: seen.disturbed,
    })
}

/// Runs the program in a fresh process: its nanoseconds in all; nothing if it never had its cores for itself.
fn measure(case: Case, processors: usize, program: &Contestant) -> Result<Option<f64>, String> {
    let (name, arguments, _, policy) = case;
    let cases = catalogue::cases(catalogue::find(name)?, &[arguments.into()], processors)?;
    let contestant = Contestant {
        policy: Some(policy.into()),
        words: vec!["--undisturbed".into(), quiet::Best::here().to_string()],
        ..program.clone()
    };
    // Some workloads come with a case on one processor, too.
    let cases = cases.into_iter().filter(|case| case.processors == processors).take(1).collect();
    // One process a plan: so each tells for itself.
    let plan = harness::Plan { cases, contestants: vec![contestant], rounds: 1, repeat: 9, until: None };
    let results = harness::run(&plan, &mut |_| ());
    let row = results.rows.first().ok_or_else(|| format!("{name}: the benchmark gave no row"))?;
    let (Some(spread), Some(ops), None) = (row.spread, row.ops, &row.error) else {
        return Err(format!("{name}: {}", row.error.as_deref().unwrap_or("the benchmark gave no time")));
    };
    let waited = row.extra.get("waited_ns").and_then(|value| value.as_u64()).unwrap_or_default();
    let all = spread.median * ops as f64;
    Ok(waits::undisturbed(waited, all as u64).then_some(all))
}

fn table(costs: &Costs, rows: &[Row], rounds: u32, taken: Option<f64>) -> String {
    let mut text = format!(
        "predicted on {}, measured in {rounds} processes each: nanoseconds an operation\n{:<12} {:<22} {:>10} {:>10} {:>11} {:>10} {:>10}  {:>9}\n",
        costs.name, "workload", "policy", "processors", "predicted", "middle half", "quickest", "slowest", "predicted"
    );
    for row in rows {
        let Row { name, policy, processors, predicted, measured, quickest, slowest, .. } = row;
        let off = predicted / measured - 1.0;
        let verdict = if off.abs() <= NEAR { "" } else { "  beyond 20 %" };
        let _ = writeln!(
            text,
            "{name:<12} {policy:<22} {processors:>10} {predicted:>10.1} {measured:>11.1} {quickest:>10.1} {slowest:>10.1}  {:>+7.0} %{verdict}",
            off * 100.0,
        );
    }
    for row in rows.iter().filter(|row| row.processors == 1) {
        let _ = writeln!(text, "{}: {}", row.name, row.arguments);
    }
    for row in rows {
        text += &disturbed(&format!("{} on {}", row.name, row.processors), row.disturbed, row.counted);
    }
    if let Some(taken) = taken.filter(|taken| *taken >= 0.01) {
        let _ = writeln!(text, "the host took {:.0} % of this machine's cores meanwhile", taken * 100.0);
    }
    text
}

/// The line for those that were replaced; nothing of none.
fn disturbed(what: &str, disturbed: u32, counted: usize) -> String {
    if disturbed == 0 {
        return String::new();
    }
    format!("{what}: {disturbed} processes never had their cores for themselves; {counted} others count\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_near_and_what_is_not() {
        let row = |processors, predicted| Row {
            name: "fib",
            arguments: "n=24".into(),
            policy: "steal",
            processors,
            predicted,
            measured: 100.0,
            quickest: 80.0,
            slowest: 200.0,
            counted: 9,
            disturbed: processors as u32 - 1,
        };
        let costs = Costs::preset("host").unwrap();
        let text = table(&costs, &[row(1, 119.0), row(2, 70.0)], 9, Some(0.07));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("+19 %") && !lines[2].contains("beyond"), "{text}");
        assert!(lines[3].contains("-30 %  beyond 20 %") && lines[4] == "fib: n=24", "{text}");
        assert!(lines[5].starts_with("fib on 2: 1 processes") && lines[5].ends_with("; 9 others count"), "{text}");
        assert!(lines[6].starts_with("the host took 7 %") && lines.len() == 7, "{text}");
        assert!(
            !table(&costs, &[], 9, Some(0.001)).contains("the host")
                && !table(&costs, &[], 9, None).contains("the host")
        );
    }

    #[test]
    fn who_was_disturbed_is_replaced_but_not_for_ever() {
        let mut seen = Seen::new();
        let mut number = 0;
        let mut process = || {
            number += 1;
            Ok((number % 3 == 0).then_some(number))
        };
        seen.add(2, &mut process).unwrap();
        seen.add(1, &mut process).unwrap();
        assert_eq!((seen.values.as_slice(), seen.disturbed, seen.some("it")), ([3, 6, 9].as_slice(), 6, Ok(())));
        let mut none: Seen<()> = Seen::new();
        none.add(3, || Ok(None)).unwrap();
        assert_eq!((none.values.len(), none.disturbed), (0, 3 * TRIES));
        assert!(none.some("fib on 2").unwrap_err().starts_with("fib on 2: no process had its cores for itself"));
        assert_eq!(none.add(1, || Err("no program".into())), Err("no program".into()));
    }

    #[test]
    fn every_case_is_a_workload_here_and_there() {
        for (name, real, simulated, policy) in CASES {
            assert!(Workload::find(name).unwrap().arguments(simulated).is_ok(), "{name}");
            assert_eq!(catalogue::cases(catalogue::find(name).unwrap(), &[real.into()], 1).unwrap().len(), 1, "{name}");
            assert!(policy.parse::<simulate::Expression>().is_ok(), "{name}");
        }
        assert!(packets::here().unwrap().arguments().starts_with("copy="));
    }
}
