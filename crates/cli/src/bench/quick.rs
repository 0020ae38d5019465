//! `raddle bench quick`: in about 20 seconds, this runtime beside std's kernel threads, a row as soon as it is known.
//!
//! Nothing is built for it: this command holds both programs. A run that is ended early (Ctrl-C) has shown the rows
//! that it had.

use super::{Format, Meter, Options, own_program};
use crate::output::{Output, print};
use raddle_bench::catalogue::{self, Unit};
use raddle_bench::harness::{self, Event, Plan, Results};
use raddle_bench::report::{self, Row};
use raddle_bench::runtimes;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The name by which the command line asks for it.
pub const NAME: &str = "quick";
/// How long all of it takes, unless the machine is very slow.
const TIME: Duration = Duration::from_secs(20);

/// Workloads with arguments at which kernel threads need about a third of a second, so that each row has a few rounds;
/// one where both are level.
const CASES: [(&str, &str); 8] = [
    ("create", "N=5k"),
    ("yield", "T=64:total=200k"),
    ("pp_chan", "n=20k"),
    ("tokenring", "N=500:K=40"),
    ("lock_global", "T=64:total=1M"),
    ("lock_local", "T=2:total=2M"),
    ("eratosthenes", "N=3000"),
    ("news", "N=300:M=10:K=10"),
];

/// Runs it.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    refuse(options)?;
    let about = super::about(options)?;
    let output = Output::claim(options.out.as_deref())?;
    let mut meter = Meter::new();
    if cfg!(debug_assertions) {
        meter.line(
            "raddle: note: this is a debug build; its figures say little (`cargo build --release -p raddle-cli`)",
        );
    }
    let is_table = options.format() == Format::Table && options.out.is_none();
    let is_lines = options.format() == Format::Json && options.out.is_none();
    if is_table {
        print(&heading(options.processors, options.rounds))?;
    }
    if options.format() == Format::Html && options.out.is_none() {
        meter.line("raddle: the page comes at the end; with --out FILE, Ctrl-C keeps what it has by then");
    }
    let end = Instant::now() + TIME;
    let contestants = ["raddle", "std"].map(|name| runtimes::find(name).and_then(own_program));
    let contestants = contestants.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut results = Results { rows: Vec::new(), missing: Vec::new(), settings: Vec::new(), failed: false };
    for (index, (name, arguments)) in CASES.into_iter().enumerate() {
        let cases = catalogue::cases(catalogue::find(name)?, &[arguments.into()], options.processors.into())?;
        let cases = cases.into_iter().take(1).collect();
        let now = Instant::now();
        let until = Some(now + end.saturating_duration_since(now) / (CASES.len() - index) as u32);
        let plan =
            Plan { cases, contestants: contestants.clone(), rounds: options.rounds, repeat: options.repeat, until };
        let done = harness::run(&plan, &mut |event| {
            if meter.0.is_screen {
                meter.show(&event);
            }
            let Event::Done(rows) = event else { return };
            // A reader that is gone ends nothing.
            if is_table {
                meter.clear();
                let _ = print(&row(rows));
            } else if is_lines {
                let _ = print(&report::json_lines(rows, &about));
            }
        });
        results.extend(done);
        meter.clear();
        output.keep(|| super::text(options.format(), &super::incomplete(&results.rows), &about));
    }
    match is_table {
        true => print(&about.compared(&results.rows))?,
        false if is_lines => {}
        false => output.write(&super::text(options.format(), &results, &about))?,
    }
    super::tell(options, &results);
    Ok(if results.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn refuse(options: &Options) -> Result<(), String> {
    let Options { workloads, args, runtimes, policy, .. } = options;
    if workloads.len() > 1 {
        return Err("`quick` is a list of runs of its own; ask for other workloads by another command".into());
    }
    let given = [("--args", args), ("--runtimes", runtimes), ("--policy", policy)];
    match given.iter().find(|(_, given)| !given.is_empty()) {
        Some((name, _)) => Err(format!("`quick` has its own runs, so {name} is not for it; leave it out")),
        None => Ok(()),
    }
}

fn heading(processors: u16, rounds: u32) -> String {
    format!(
        "raddle beside std's kernel threads, {processors} processor(s), medians of at most {rounds} runs, about {} s:\n\n\
         {:<34} {:>12} {:>12} {:>14}\n",
        TIME.as_secs(),
        "",
        "raddle",
        "std",
        "std / raddle"
    )
}

/// The line of one case.
fn row(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let unit = match first.unit {
        Unit::Each(what) => format!("a {what}"),
        Unit::Run => "the whole run".into(),
    };
    let figure = |name: &str| {
        let row = rows.iter().find(|row| row.runtime == name);
        row.and_then(|row| row.spread.as_ref()).map(|spread| spread.median)
    };
    let shown = |figure: Option<f64>| figure.map_or_else(|| "failed".into(), report::nanoseconds);
    let (ours, theirs) = (figure("raddle"), figure("std"));
    let ratio = ours.zip(theirs).map_or_else(|| "–".into(), |(ours, theirs)| format!("{:.2}", theirs / ours));
    let name = format!("{} {}", first.workload, first.args);
    let name = if name.chars().count() > 33 { format!("{name}\n{:<34}", "") } else { format!("{name:<34}") };
    format!("{name} {:>12} {:>12} {ratio:>14}   {unit}\n", shown(ours), shown(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_known() {
        for (name, arguments) in CASES {
            let cases = catalogue::cases(catalogue::find(name).unwrap(), &[arguments.into()], 2).unwrap();
            assert!(!cases.is_empty());
        }
    }
}
