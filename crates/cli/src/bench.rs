//! `raddle bench`: the workloads on our runtime and its peers.

mod activations;
mod blocked;
mod foretold;
mod paper;
mod quantum;
mod quick;

use crate::output::{Output, print};
use crate::screen::Line;
use clap::{Args, ValueEnum};
use raddle_bench::catalogue::{self, Case};
use raddle_bench::harness::{self, Contestant, Event, Plan, Progress, Results};
use raddle_bench::load::catalogue::{LOADS, SERVERS, is_load, servers};
use raddle_bench::report::baseline::Baseline;
use raddle_bench::report::{self, About, Row};
use raddle_bench::runtimes::{self, Programs, RUNTIMES, Runtime, Source};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  raddle bench quick                                20 seconds, beside std's threads, nothing to build
  raddle bench                                      everything; takes long
  raddle bench create yield --runtimes raddle,go,tokio
  raddle bench create --args 1k,1M --rounds 9 --format json
  raddle bench fib --args 30:by=join,30:by=spawn
  raddle bench lock_global --policy fifo --policy 'steal(fifo)'
  raddle bench packet --args 10M --runtimes raddle,go --policy steal --policy 'local(fifo, overflow=retry)'
  raddle bench city news --out report.html
  raddle bench create --out before.json                 then, after a change:
  raddle bench create --baseline before.json        what got faster, slower, or neither, as far as the rounds tell
  raddle bench echo --args 1k,10k                   servers under load, one of them under `raddle run`
  raddle bench locks --runtimes raddle,std,parking_lot   each of our locks, and which one to take
  raddle bench faults --runtimes raddle,std,parking_lot  page faults, and programs that end, behind locks of four kinds
  raddle bench blocked                              how long a processor rests when its thread blocks in the kernel unseen
  raddle bench quantum                              how long a ready thread waits behind threads that compute, with checks and without
  raddle bench report                               what the schedulers report claims, measured here
  raddle bench report --paper activations           the same of Scheduler Activations: null-fork, signal-wait, upcalls

Exit status: 0; 1 when a checksum disagrees or a run of our own fails; 2 when the command line is wrong.
A peer that is not installed is named and is no error.";

/// Compare runtimes on the workloads, each run in a fresh process, in interleaved rounds
#[derive(Args, Clone)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Options {
    /// Workloads to run; all when none is named (`--list` shows them). `quick` alone: a few, in 20 seconds. `blocked`
    /// alone: how long a processor rests when its thread blocks in the kernel unseen. `quantum` alone: how long a
    /// ready thread waits behind threads that compute. `report` alone: what the
    /// schedulers report claims of its figures
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Arguments to run the workloads with: values of the first argument, or KEY=VALUE pairs joined by `:`
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    args: Vec<String>,
    /// Runtimes to compare; ratios are to the first
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    runtimes: Vec<String>,
    /// A policy expression for our runtime; once for each policy to compare
    #[arg(long, value_name = "EXPR")]
    policy: Vec<String>,
    /// How many processors each runtime may use
    #[arg(
        long, allow_negative_numbers = true, default_value_t = 2, value_name = "N",
        value_parser = crate::numbers::whole::<u16>(1..=raddle::pool::MAX_PROCESSORS as u64, "--processors 4")
    )]
    processors: u16,
    /// How many fresh processes each runtime gets per workload; the table shows their median
    #[arg(
        long, allow_negative_numbers = true, default_value_t = 5, value_name = "N",
        value_parser = crate::numbers::whole::<u32>(crate::numbers::SOME, "--rounds 9")
    )]
    rounds: u32,
    /// How often a process repeats the workload; all but the last warm up
    #[arg(
        long, allow_negative_numbers = true, default_value_t = 2, value_name = "N",
        value_parser = crate::numbers::whole::<u32>(crate::numbers::SOME, "--repeat 3")
    )]
    repeat: u32,
    /// How to show the results; JSON is one object a line [default: as FILE's ending says, or table]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the results to FILE instead of the standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure the programs that are there, without building them first
    #[arg(long)]
    no_build: bool,
    /// Take the programs from FOLDER; implies --no-build
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Of `report`: which paper's claims
    #[arg(long, value_name = "PAPER", value_parser = [paper::PAPER, activations::NAME])]
    paper: Option<String>,
    /// Compare with what an earlier run has written (`--format json`), and say what the rounds bear out
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// List the workloads and the runtimes
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Html,
}

impl Options {
    fn format(&self) -> Format {
        crate::output::format(self.format, self.out.as_deref())
    }
}

/// Runs the subcommand.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    if options.list {
        return print(&list()).map(|()| ExitCode::SUCCESS);
    }
    let is_report = options.workloads.iter().any(|name| name == paper::NAME);
    let special = [paper::NAME, blocked::NAME, quantum::NAME];
    let named = options.workloads.iter().find(|name| special.contains(&name.as_str()));
    if let Some(name) = named.filter(|_| options.baseline.is_some()) {
        return Err(format!("--baseline compares workloads, and `{name}` is none; leave it out"));
    }
    match options.paper.as_deref() {
        Some(_) if !is_report => return Err("--paper is for `report`: `raddle bench report --paper NAME`".into()),
        Some(activations::NAME) => return activations::run(options),
        _ => {}
    }
    if is_report {
        return paper::run(options);
    }
    if options.workloads.iter().any(|name| name == blocked::NAME) {
        return blocked::run(options);
    }
    if options.workloads.iter().any(|name| name == quantum::NAME) {
        return quantum::run(options);
    }
    if options.workloads.iter().any(|name| name == quick::NAME) {
        return quick::run(options);
    }
    check_policies(options)?;
    if let Some(folder) = options.programs.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(format!("--programs {}: there is no such folder", folder.display()));
    }
    let (loads, cases): (Vec<_>, Vec<_>) = cases(options)?.into_iter().partition(|case| is_load(case.workload));
    let chosen = runtimes(options, &cases, &loads)?;
    let about = about(options)?;
    // An hour of measuring should not be lost to a folder that cannot be written to.
    let output = Output::claim(options.out.as_deref())?;
    let mut meter = Meter::new();
    let mut results = Results { rows: Vec::new(), missing: Vec::new(), settings: Vec::new(), failed: false };
    let shows = Shows { format: options.format(), output: &output, about: &about };
    // Each kind of lock is a contestant of its own, so these workloads take turns apart from the others.
    let (apart, cases): (Vec<_>, Vec<_>) =
        cases.into_iter().partition(|case| catalogue::each_way(case.workload).is_some());
    let (locks, faults): (Vec<_>, Vec<_>) = apart.into_iter().partition(|case| case.workload.name == "locks");
    let of_load = |name| loads.iter().filter(|case| case.workload.name == name).cloned().collect::<Vec<_>>();
    let loads = LOADS.iter().map(|load| (of_load(load.name), servers(load.name, &options.runtimes)));
    let groups: Vec<_> =
        [(cases, chosen.clone()), (locks, chosen.clone()), (faults, chosen)].into_iter().chain(loads).collect();
    let groups: Vec<_> = groups.into_iter().filter(|(cases, _)| !cases.is_empty()).collect();
    let mut plans = Vec::new();
    for (cases, chosen) in groups {
        let mut contestants = contestants(options, &chosen, &mut meter)?;
        if let Some(ways) = ways_apart(options, &cases) {
            contestants = each_way(contestants, ways);
        }
        plans.push(Plan { cases, contestants, rounds: options.rounds, repeat: options.repeat, until: None });
    }
    meter.line(&foretold::told(options, &plans));
    for (index, plan) in plans.iter().enumerate() {
        let whole = foretold::Whole::at(&plans, index);
        let mut before = std::mem::take(&mut results.rows);
        let done = harness::run(plan, &mut |event| match event {
            Event::Starts(progress) => meter.show(&Event::Starts(&whole.of(progress))),
            Event::Done(rows) => {
                meter.clear();
                before.extend(rows.iter().cloned());
                shows.case(rows, &before);
            }
        });
        results.rows = before;
        results.extend(Results { rows: Vec::new(), ..done });
        meter.clear();
    }
    match (options.format(), &output) {
        (Format::Table, Output::Standard) => {
            let decision = report::decision(&results.rows).unwrap_or_default();
            print(&(decision + &report::notes(&results) + &about.compared(&results.rows)))?;
        }
        (Format::Json, Output::Standard) => {}
        _ => output.write(&text(options.format(), &results, &about))?,
    }
    tell(options, &results);
    Ok(if results.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is known before anything is measured.
fn about(options: &Options) -> Result<About, String> {
    let baseline = options.baseline.as_deref().map(Baseline::read).transpose()?;
    Ok(About { command: command_line(), baseline, ..About::default() })
}

fn text(format: Format, results: &Results, about: &About) -> String {
    match format {
        Format::Table => {
            let decision = report::decision(&results.rows).unwrap_or_default();
            report::table(results) + &decision + &about.compared(&results.rows)
        }
        Format::Json => report::json_lines(&results.rows, about),
        Format::Html => report::html(results, about),
    }
}

/// Shows each case when it is done, so that a run which is ended early has shown what it had.
struct Shows<'a> {
    format: Format,
    output: &'a Output,
    about: &'a About,
}

impl Shows<'_> {
    fn case(&self, rows: &[Row], all: &[Row]) {
        let shown = match (self.format, self.output) {
            (Format::Table, Output::Standard) => print(&report::case_table(rows)),
            (Format::Json, Output::Standard) => print(&report::json_lines(rows, self.about)),
            _ => {
                self.output.keep(|| text(self.format, &incomplete(all), self.about));
                Ok(())
            }
        };
        if let Err(why) = shown {
            eprintln!("raddle: {why}");
        }
    }
}

/// The rows that are known so far.
fn incomplete(rows: &[Row]) -> Results {
    let remark = ("incomplete".into(), "the run was not at its end when this was written".into());
    Results { rows: rows.to_vec(), missing: Vec::new(), settings: vec![remark], failed: false }
}

/// The locks with each of which our runtime takes part, if the workload has some and nobody names one.
fn ways_apart(options: &Options, cases: &[Case]) -> Option<&'static [&'static str]> {
    let ways = cases.first().and_then(|case| catalogue::each_way(case.workload))?;
    (!options.args.iter().any(|arg| arg.contains("by="))).then_some(ways)
}

/// A wrong policy is told before anything is built or measured.
fn check_policies(options: &Options) -> Result<(), String> {
    for policy in &options.policy {
        let parsed: raddle::policy::Expression = policy.parse().map_err(|error| format!("--policy: {error}"))?;
        let builder = raddle::Builder::new().processors(options.processors.into()).policy(parsed);
        builder.build().map_err(|error| format!("--policy: {error}"))?;
    }
    Ok(())
}

fn cases(options: &Options) -> Result<Vec<Case>, String> {
    let named: Result<Vec<_>, _> = options.workloads.iter().map(|name| catalogue::find(name)).collect();
    let workloads = match named? {
        none if none.is_empty() && !options.args.is_empty() => {
            return Err("--args needs the workload it is for, as in `raddle bench create --args 1k`".into());
        }
        none if none.is_empty() => catalogue::all().collect(),
        named => named,
    };
    let mut cases = Vec::new();
    for workload in workloads {
        cases.extend(catalogue::cases(workload, &options.args, options.processors.into())?);
    }
    Ok(cases)
}

/// The runtimes for workloads of threads. Servers are chosen for each load, by the same names.
fn runtimes(options: &Options, cases: &[Case], loads: &[Case]) -> Result<Vec<&'static Runtime>, String> {
    let chosen: Vec<_> = match options.runtimes.as_slice() {
        [] => RUNTIMES.iter().filter(|runtime| runtime.by_default).collect(),
        names if cases.is_empty() => {
            let known =
                |name: &&String| !loads.iter().any(|load| servers(load.workload.name, &[(*name).clone()]).len() == 1);
            if let Some(wrong) = names.iter().find(known) {
                let names: Vec<_> = LOADS
                    .iter()
                    .filter(|load| loads.iter().any(|case| case.workload.name == load.name))
                    .flat_map(|load| servers(load.name, &[]))
                    .map(|s| s.name)
                    .collect();
                return Err(format!("there is no server `{wrong}` for this; there are {}", names.join(", ")));
            }
            Vec::new()
        }
        names => names.iter().map(|name| runtimes::find(name)).collect::<Result<_, _>>()?,
    };
    let has_policies = options.runtimes.is_empty() || options.runtimes.iter().any(|name| name.starts_with("raddle"));
    if !options.policy.is_empty() && !has_policies {
        return Err("--policy is for our runtime, which --runtimes leaves out; add `raddle` to it".into());
    }
    Ok(chosen)
}

/// Our runtime with each of its locks, as contestants of their own, so that they take turns.
fn each_way(contestants: Vec<Contestant>, ways: &'static [&'static str]) -> Vec<Contestant> {
    let with = |contestant: Contestant| -> Vec<Contestant> {
        if contestant.runtime.name != "raddle" {
            return vec![contestant];
        }
        ways.iter().map(|&lock| Contestant { lock: Some(lock), ..contestant.clone() }).collect()
    };
    contestants.into_iter().flat_map(with).collect()
}

fn contestants(options: &Options, chosen: &[&'static Runtime], meter: &mut Meter) -> Result<Vec<Contestant>, String> {
    let executable = crate::run::own_program().map_err(|e| format!("cannot tell where this program lies: {e}"))?;
    let programs = match &options.programs {
        Some(folder) => Programs::ready(folder),
        None => Programs::beside(&executable, !options.no_build),
    };
    let mut contestants = Vec::new();
    for &runtime in chosen {
        let mut tell = |step: &str| meter.line(step);
        let (program, words) = match runtime.source {
            Source::Load => match programs.prepare_load(runtime, &mut tell) {
                Ok((program, words)) => (Ok(program), words),
                Err(why) => (Err(why), Vec::new()),
            },
            _ => (programs.prepare(runtime, &mut tell), runtime.words.iter().map(|word| word.to_string()).collect()),
        };
        let policies = match options.policy.as_slice() {
            policies if runtime.policies && !policies.is_empty() => policies.iter().cloned().map(Some).collect(),
            _ => vec![None],
        };
        // Who compares policies wants to know how long threads waited; otherwise nothing is sampled.
        let delays = (policies.len() > 1 && runtime.source != Source::Load).then(|| "--delays".to_string());
        let words: Vec<String> = words.into_iter().chain(delays).collect();
        // An installed command has no programs beside it, but two in it.
        let own = own_program(runtime).ok().filter(|_| program.is_err() && options.programs.is_none());
        let first = own.as_ref().map_or_else(Vec::new, |own| own.first.clone());
        let program = own.map_or(program, |own| own.program);
        let contestant = |policy| Contestant {
            runtime,
            policy,
            lock: None,
            program: program.clone(),
            first: first.clone(),
            words: words.clone(),
        };
        contestants.extend(policies.into_iter().map(contestant));
    }
    Ok(contestants)
}

/// The hidden subcommand that runs one workload on one of the two runtimes that this command holds.
pub const PROGRAM: &str = "one-workload";

/// This command itself as a runtime's program.
pub fn own_program(runtime: &'static Runtime) -> Result<Contestant, String> {
    if !["raddle", "std"].contains(&runtime.name) {
        return Err(format!("this command has no program of {}", runtime.name));
    }
    let own = crate::run::own_program().map_err(|error| format!("cannot tell where this program lies: {error}"))?;
    let first = [PROGRAM, runtime.name].map(String::from).into();
    Ok(Contestant { runtime, policy: None, lock: None, program: Ok(own), first, words: Vec::new() })
}

/// The program: `words` are a runtime's name and the command line of its program.
pub fn program(words: &[String]) -> ExitCode {
    match words.split_first() {
        Some((name, words)) if name == blocked::NAME => raddle_bench::blocked::main_of(words),
        Some((name, words)) if name == "raddle" => raddle_bench::ours::main_of(words),
        Some((_, words)) => raddle_bench::of_std::main_of(words),
        None => ExitCode::from(2),
    }
}

fn list() -> String {
    let mut text = String::from("Workloads (arguments with their defaults; a bare value is one of the first):\n");
    for workload in catalogue::all() {
        let arguments: Vec<_> = workload.defaults.iter().map(|(key, value)| format!("{key}={value}")).collect();
        text += &format!("  {:13} {}\n  {:13} {}\n", workload.name, workload.about, "", arguments.join(" "));
    }
    text += "Runtimes:\n";
    for runtime in RUNTIMES {
        text += &format!("  {:13} {}\n", runtime.name, runtime.about);
    }
    for load in LOADS {
        text += &format!("Servers for {}:\n", load.name);
        for server in SERVERS.iter().filter(|server| server.load == load.name) {
            text += &format!("  {:13} {}\n", server.runtime.name, server.runtime.about);
        }
    }
    text
}

/// What the chosen format does not show goes to the standard error.
fn tell(options: &Options, results: &Results) {
    if options.format() == Format::Json {
        for (name, why) in &results.missing {
            eprintln!("raddle: missing: {name}: {why}");
        }
    }
    if let Some(path) = &options.out {
        eprintln!("raddle: wrote {}", path.display());
    }
    for row in results.rows.iter().filter(|row| row.disagrees) {
        let error = row.error.as_deref().unwrap_or_default();
        eprintln!("raddle: {} {}, {}: {error}", row.workload, row.args, row.label());
    }
}

fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| match word.is_empty() || word.contains([' ', '(', '\'']) {
        true => format!("'{word}'"),
        false => word,
    });
    std::iter::once("raddle".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The progress on the standard error.
struct Meter(Line);

impl Meter {
    fn new() -> Meter {
        Meter(Line::new())
    }

    fn show(&mut self, event: &Event) {
        let Event::Starts(progress) = event else { return };
        let Progress { case, contestant, round, done, total, left } = progress;
        let left = left.map_or_else(String::new, |left| format!(", {} left", duration(left)));
        self.0.show_step(&format!("[{done}/{total}] {case}: {contestant}, round {round}{left}"));
    }

    fn line(&mut self, text: &str) {
        self.clear();
        eprintln!("{text}");
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        assert_eq!(duration(Duration::from_secs(59)), "59 s");
        assert_eq!(duration(Duration::from_secs(61)), "1 min 1 s");
        assert_eq!(duration(Duration::from_secs(3700)), "1 h 1 min");
    }

    #[test]
    fn the_list_names_everything() {
        let text = list();
        assert!(catalogue::all().all(|workload| text.contains(workload.name)));
        assert!(RUNTIMES.iter().all(|runtime| text.contains(runtime.about)));
        assert!(SERVERS.iter().all(|server| text.contains(server.runtime.about)));
    }
}
