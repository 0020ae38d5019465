//! `raddle check`: a policy in many interleavings, with its queues and the protocol of sleeping and waking.
//!
//! Uses nothing else of the command but how it reads numbers, so that `crates/sim/examples/check.rs` is the same
//! program without the rest.

use crate::numbers::{ANY, SOME, whole};
use crate::screen::Line;
use clap::{Args, ValueEnum};
use raddle_sim::check::{
    self, Failure, MOST_PROCESSORS, MOST_THREADS, Plan, Report, SCENARIOS, Scenario, Subject, Token, Tried,
};
use raddle_sim::watch::{STUCK_AFTER, Watchdog};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  raddle check 'steal(lifo, victims=neighbours(4))'     all scenarios: systematically, then by seeds, for 30 s
  raddle check fifo --scenario submit --exhaustive --preemptions 3
                                                        all runs with at most 3 preemptions
  raddle check lifo --seed 7 --runs 1                   the run of seed 7 of each scenario
  raddle check lifo --replay 1.spawn.2.4.0.17-1         the run that a failing check printed

Exit status: 0 nothing broke and every listed outcome was reached (with fewer than 1000 --runs none need be), 1 otherwise: also when the time
was over before one was reached (NOT REACHED, which says nothing of the policy), and when a run makes no step for 20 s. 2 wrong use.";

/// Check a policy: explore interleavings of its processors on a controlled machine
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Options {
    /// The policy, such as `fifo` or `priority(3, steal(fifo))`
    #[arg(value_name = "POLICY")]
    policy: String,
    /// Processors of the pool
    #[arg(long, allow_negative_numbers = true, default_value_t = 2, value_name = "N", value_parser = whole::<usize>(ANY, "--processors 3"))]
    processors: usize,
    /// Threads
    #[arg(long, allow_negative_numbers = true, default_value_t = 4, value_name = "N", value_parser = whole::<usize>(ANY, "--threads 5"))]
    threads: usize,
    /// Which scenarios, separated by commas; `all` of them by default
    #[arg(long, default_value = "all", value_name = "NAME")]
    scenario: String,
    /// The first seed
    #[arg(long, allow_negative_numbers = true, default_value_t = 0, value_name = "S", value_parser = whole::<u64>(0..=u64::MAX, "--seed 7"))]
    seed: u64,
    /// Runs by seeds only, and so many of each scenario
    #[arg(
        long, allow_negative_numbers = true, value_name = "N", conflicts_with = "exhaustive",
        value_parser = whole::<u64>(1..=u64::MAX, "--runs 1000")
    )]
    runs: Option<u64>,
    /// Systematic runs only, until all have been made; fails if `--seconds` ends it before
    #[arg(long)]
    exhaustive: bool,
    /// Up to how many preemptions to explore systematically
    #[arg(long, allow_negative_numbers = true, default_value_t = 2, value_name = "K", conflicts_with = "runs", value_parser = whole::<u32>(ANY, "--preemptions 3"))]
    preemptions: u32,
    /// How long to take in all; 30 unless `--runs` or `--exhaustive` is given. Each scenario has its part, and 100
    /// seeds however late it is
    #[arg(long, allow_negative_numbers = true, value_name = "S", value_parser = whole::<u32>(SOME, "--seconds 60"))]
    seconds: Option<u32>,
    /// Make one run again, as a failing check printed it
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["runs", "exhaustive"])]
    replay: Option<String>,
    /// How to show the result; JSON is one object
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Seeds of each scenario, if nothing is said.
const SEEDS: u64 = 5000;
const SECONDS: u32 = 30;

/// The command.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let subject: Subject = options.policy.parse()?;
    let watch = Watchdog::start(STUCK_AFTER, |_, _| ());
    watch.now(subject.name.clone());
    if let Some(token) = &options.replay {
        return replay(options, &subject, &token.parse()?);
    }
    let plan = plan(options)?;
    let start = Instant::now();
    let mut line = Line::of_what_may_be_short();
    let report = check::check(&subject, &plan, &mut |progress| {
        watch.now(format!("{} in {progress}", subject.name));
        line.show(|| format!("{:>4} s  {progress}", start.elapsed().as_secs()));
    });
    watch.end();
    line.clear();
    let incomplete = options.exhaustive && report.tried.iter().any(|tried| tried.broken_off.is_some());
    let text = match options.format {
        Format::Table => table(options, &subject, &plan, &report, start.elapsed()),
        Format::Json => format!("{}\n", as_json(options, &subject, &report, incomplete)),
    };
    write(&text)?;
    Ok(ExitCode::from(u8::from(!report.passed() || incomplete)))
}

fn write(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(()),
    }
}

fn plan(options: &Options) -> Result<Plan, String> {
    let within = |what: &str, number: usize, least: usize, most: usize| match (least..=most).contains(&number) {
        true => Ok(()),
        false => Err(format!("--{what} {number}: a check takes from {least} to {most}; more of them show nothing new")),
    };
    within("processors", options.processors, 1, MOST_PROCESSORS)?;
    within("threads", options.threads, 2, MOST_THREADS)?;
    let seconds = match (options.seconds, options.runs.is_some() || options.exhaustive) {
        (None, true) => None,
        (seconds, _) => Some(seconds.unwrap_or(SECONDS)),
    };
    Ok(Plan {
        processors: options.processors,
        threads: options.threads,
        scenarios: scenarios(&options.scenario)?,
        preemptions: options.preemptions,
        systematic: if options.runs.is_some() { 0 } else { u64::MAX },
        seed: options.seed,
        seeds: match options {
            Options { exhaustive: true, .. } => 0,
            Options { runs: Some(runs), .. } => *runs,
            // Who names a time wants it used.
            Options { seconds: Some(_), .. } => u64::MAX,
            _ => SEEDS,
        },
        time: seconds.map(|seconds| Duration::from_secs(seconds.into())),
    })
}

fn scenarios(names: &str) -> Result<Vec<&'static Scenario>, String> {
    if names == "all" {
        return Ok(SCENARIOS.iter().collect());
    }
    let one = |name: &str| {
        check::scenario(name.trim()).ok_or_else(|| {
            let known: Vec<String> =
                SCENARIOS.iter().map(|known| format!("  {:<9} {}", known.name, known.about)).collect();
            format!("--scenario {name}: there is none of that name; there are\n{}", known.join("\n"))
        })
    };
    names.split(',').map(one).collect()
}

/// What replays a failure: one command.
fn command(options: &Options, failure: &Failure) -> String {
    let policy = &options.policy;
    match failure.seed {
        Some(seed) => format!(
            "raddle check '{policy}' --processors {} --threads {} --scenario {} --seed {seed} --runs 1",
            options.processors, options.threads, failure.scenario
        ),
        None => format!("raddle check '{policy}' --replay {}", failure.token),
    }
}

fn preemptions(number: u32) -> String {
    if number == 1 { "1 preemption".into() } else { format!("{number} preemptions") }
}

fn how_far(tried: &Tried) -> String {
    let mut parts = Vec::new();
    match (tried.complete, tried.systematic) {
        (Some(bound), runs) if tried.broken_off.is_none() => {
            parts.push(format!("all runs with at most {} ({runs})", preemptions(bound)));
        }
        (Some(bound), _) => parts.push(format!("all runs with at most {}", preemptions(bound))),
        _ => {}
    }
    if let Some((bound, runs)) = tried.broken_off.filter(|(_, runs)| *runs > 0) {
        let those = if tried.complete.is_some() { "those" } else { "the runs" };
        let with = if tried.complete.is_some() { bound.to_string() } else { preemptions(bound) };
        parts.push(format!("{runs} of {those} with {with}, which are more than there was time for"));
    } else if let (None, true, Some((bound, _))) = (tried.complete, tried.out_of_time, tried.broken_off) {
        parts.push(format!("no time for the runs with {}", preemptions(bound)));
    }
    if tried.seeds > 0 {
        parts.push(format!("{} seeds", tried.seeds));
    }
    parts.join(", ")
}

fn table(options: &Options, subject: &Subject, plan: &Plan, report: &Report, took: Duration) -> String {
    let mut text = format!("{}, {} processors, {} threads\n", subject.name, plan.processors, plan.threads);
    for tried in &report.tried {
        let how = tried.skipped.map_or_else(|| how_far(tried), |why| format!("not tried: {why}"));
        let _ = writeln!(text, "  {:<9} {how}", tried.name);
        for (outcome, runs) in &tried.reached {
            let _ = writeln!(text, "            {runs:>9}  {outcome}");
        }
    }
    let runs: u64 = report.tried.iter().map(|tried| tried.systematic + tried.seeds).sum();
    let steps: u64 = report.tried.iter().map(|tried| tried.steps).sum();
    let _ = writeln!(text, "{runs} runs, {steps} steps, {:.1} s", took.as_secs_f64());
    if let Some(failure) = &report.failure {
        text += &failed(options, failure);
        return text;
    }
    let mut late = false;
    for (tried, missed) in report.missed() {
        let name = tried.name;
        late |= tried.out_of_time;
        let _ = match tried.out_of_time {
            true => writeln!(text, "NOT REACHED in `{name}` before the time was over: {missed}"),
            false => writeln!(text, "FAILED in `{name}`: no run reached this: {missed}"),
        };
    }
    if late {
        text += "the check is not complete, which says nothing of the policy: more --seconds, --runs N (as many seeds, without a limit of \
                 time), or fewer --processors or --threads\n";
    }
    if !late && options.runs.is_some() && report.missed().next().is_some() {
        text += "a policy that is right reaches them all if there are enough runs: more --runs, or none of it, which is systematic first\n";
    }
    if !report.demanding {
        text += "nothing broke; so few runs need not reach what is listed\n";
    } else if report.missed().next().is_none() {
        text += "nothing broke\n";
    }
    for tried in &report.tried {
        if let (true, Some((bound, runs))) = (options.exhaustive, tried.broken_off) {
            let name = tried.name;
            let _ = writeln!(text, "NOT COMPLETE in `{name}`: only {runs} runs with {bound} preemptions in that time");
        }
    }
    text
}

fn failed(options: &Options, failure: &Failure) -> String {
    let mut text = format!("FAILED in `{}`: {}\n", failure.scenario, failure.what);
    if !failure.last.is_empty() {
        let _ = writeln!(text, "  the last of its {} steps, and what they were for:", failure.steps);
        failure.last.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    let _ = writeln!(text, "to see it again: {}", command(options, failure));
    text
}

fn as_json(options: &Options, subject: &Subject, report: &Report, incomplete: bool) -> Value {
    let tried = |tried: &Tried| {
        let reached = tried.reached.iter().map(|(outcome, runs)| json!({ "outcome": outcome, "runs": runs }));
        json!({
            "scenario": tried.name,
            "skipped": tried.skipped,
            "complete_preemptions": tried.complete,
            "broken_off": tried.broken_off.map(|(bound, runs)| json!({ "preemptions": bound, "runs": runs })),
            "out_of_time": tried.out_of_time,
            "systematic_runs": tried.systematic,
            "seeds": tried.seeds,
            "steps": tried.steps,
            "reached": reached.collect::<Vec<_>>(),
        })
    };
    json!({
        "policy": subject.name,
        "processors": options.processors,
        "threads": options.threads,
        "passed": report.passed() && !incomplete,
        "outcomes_demanded": report.demanding,
        "scenarios": report.tried.iter().map(tried).collect::<Vec<_>>(),
        "failure": report.failure.as_ref().map(|failure| failure_json(options, failure)),
    })
}

fn failure_json(options: &Options, failure: &Failure) -> Value {
    json!({
        "scenario": failure.scenario,
        "what": failure.what,
        "steps": failure.steps,
        "last": failure.last,
        "token": failure.token.to_string(),
        "replay": command(options, failure),
    })
}

fn replay(options: &Options, subject: &Subject, token: &Token) -> Result<ExitCode, String> {
    let (failure, last) = check::replay(subject, token).map_err(|why| format!("--replay {token}: {why}"))?;
    let text = match (options.format, &failure) {
        (Format::Json, _) => {
            let failure = failure.as_ref().map(|failure| failure_json(options, failure));
            format!("{}\n", json!({ "policy": subject.name, "passed": failure.is_none(), "failure": failure }))
        }
        (Format::Table, Some(failure)) => failed(options, failure),
        (Format::Table, None) => {
            let last: String = last.iter().map(|line| format!("  {line}\n")).collect();
            format!("{last}nothing broke in this run of `{}`\n", token.scenario.name)
        }
    };
    write(&text)?;
    Ok(ExitCode::from(u8::from(failure.is_some())))
}
