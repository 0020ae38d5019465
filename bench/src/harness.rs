//! Runs the programs in interleaved rounds and turns their reports into rows.

use crate::catalogue::Case;
use crate::child::{self, Report};
use crate::load::latency::Latencies;
use crate::program::LATENCIES;
use crate::report::Row;
use crate::runtimes::Runtime;
use crate::stats::Spread;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A runtime, under one policy, whose program is there or known to be missing.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// The runtime.
    pub runtime: &'static Runtime,
    /// The policy expression, for runtimes that have policies.
    pub policy: Option<String>,
    /// The lock, for `locks`, in place of the case's.
    pub lock: Option<&'static str>,
    /// Its program, or why that is missing.
    pub program: Result<PathBuf, String>,
    /// Words at the beginning of the program's command line.
    pub first: Vec<String>,
    /// Words at the end of the program's command line.
    pub words: Vec<String>,
}

impl Contestant {
    /// As it is called in tables: the runtime and its policy.
    pub fn label(&self) -> String {
        match &self.policy {
            Some(policy) => format!("{} {policy}", self.name()),
            None => self.name(),
        }
    }

    /// The runtime, and the lock if there is one.
    fn name(&self) -> String {
        self.lock.map_or_else(|| self.runtime.name.to_string(), |lock| format!("{}-{lock}", self.runtime.name))
    }
}

/// What is to be run.
pub struct Plan {
    /// The workloads with their arguments.
    pub cases: Vec<Case>,
    /// Who runs them; ratios are to the first.
    pub contestants: Vec<Contestant>,
    /// How many fresh processes each runs.
    pub rounds: u32,
    /// How often a process repeats the workload; the last repetition counts.
    pub repeat: u32,
    /// No further round is begun that would end later; each case has one round in any case.
    pub until: Option<Instant>,
}

impl Plan {
    /// How many processes it starts.
    pub fn processes(&self) -> usize {
        let present = self.contestants.iter().filter(|contestant| contestant.program.is_ok()).count();
        self.cases.len() * present * self.rounds as usize
    }
}

/// What is told while a plan runs.
pub enum Event<'a> {
    /// A process is about to start.
    Starts(&'a Progress),
    /// A case is done: its rows.
    Done(&'a [Row]),
}

/// How far the run is; told before each process starts.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The workload and its arguments.
    pub case: String,
    /// The contestant's label.
    pub contestant: String,
    /// The round, from 1.
    pub round: u32,
    /// Processes ended, of all.
    pub done: usize,
    /// Processes in all.
    pub total: usize,
    /// How long the rest will take, as far as can be told.
    pub left: Option<Duration>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Results {
    /// A row for each case and each contestant whose program is there.
    pub rows: Vec<Row>,
    /// Contestants whose program is missing, and why.
    pub missing: Vec<(String, String)>,
    /// How each runtime was set up, as its program told.
    pub settings: Vec<(String, String)>,
    /// A checksum disagreed, or a run of our own failed: the exit status is not 0.
    pub failed: bool,
}

/// What one contestant's rounds of one case gave.
#[derive(Default)]
struct Tally {
    reports: Vec<Report>,
    errors: Vec<String>,
}

impl Tally {
    /// After a refusal, or two failures of other kinds, further rounds would only take time.
    fn hopeless(&self) -> bool {
        self.errors.len() > 1 || self.errors.iter().any(|error| refusal(error))
    }
}

fn refusal(error: &str) -> bool {
    error.starts_with("not offered")
}

impl Results {
    /// Adds what another plan gave.
    pub fn extend(&mut self, other: Results) {
        self.rows.extend(other.rows);
        for (mine, others) in [(&mut self.missing, other.missing), (&mut self.settings, other.settings)] {
            for entry in others {
                if !mine.contains(&entry) {
                    mine.push(entry);
                }
            }
        }
        self.failed |= other.failed;
    }
}

/// Runs the plan. `tell` is called before each process and after each case.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(Event)) -> Results {
    let (present, absent): (Vec<_>, Vec<_>) = plan.contestants.iter().partition(|c| c.program.is_ok());
    let ours_is_absent = absent.iter().any(|c| c.runtime.is_ours());
    let missing = absent.iter().filter_map(|c| Some((c.label(), c.program.clone().err()?))).collect();
    let mut results = Results { rows: Vec::new(), missing, settings: Vec::new(), failed: ours_is_absent };
    let mut clock = Clock::new(plan.processes());
    for case in &plan.cases {
        let mut tallies: Vec<_> = present.iter().map(|_| Tally::default()).collect();
        let begun = Instant::now();
        for round in 1..=plan.rounds {
            // As long as the rounds before it.
            let ends = Instant::now() + begun.elapsed() / (round - 1).max(1);
            if round > 1 && plan.until.is_some_and(|until| ends > until) {
                (round..=plan.rounds).flat_map(|_| &present).for_each(|_| clock.skip());
                break;
            }
            for (contestant, tally) in present.iter().zip(&mut tallies) {
                if tally.hopeless() {
                    clock.skip();
                    continue;
                }
                tell(Event::Starts(&clock.progress(case, contestant, round)));
                match start(plan, case, contestant) {
                    Ok(report) => tally.reports.push(report),
                    Err(error) => tally.errors.push(error),
                }
                clock.tick();
            }
        }
        settings(&mut results.settings, &present, &tallies);
        let rows = rows(case, &present, &tallies, case.expected());
        results.failed |=
            rows.iter().zip(&present).any(|(row, contestant)| fatal(row, contestant)) || unmeasured(&rows);
        tell(Event::Done(&rows));
        results.rows.extend(rows);
    }
    results
}

/// Any disagreement is fatal, and any failure of our own runtime but a refusal.
fn fatal(row: &Row, contestant: &Contestant) -> bool {
    let ours = contestant.runtime.is_ours();
    row.error.as_ref().is_some_and(|error| row.disagrees || ours && !refusal(error))
}

/// All failed that did not refuse: whatever was asked for, there is nothing of it.
fn unmeasured(rows: &[Row]) -> bool {
    let failed: Vec<_> = rows.iter().filter(|row| !row.error.as_deref().is_some_and(refusal)).collect();
    !failed.is_empty() && failed.iter().all(|row| row.rounds == 0 && row.error.is_some())
}

fn start(plan: &Plan, case: &Case, contestant: &Contestant) -> Result<Report, String> {
    let mut command = Command::new(contestant.program.as_ref().map_err(String::clone)?);
    command.args(&contestant.first).arg(case.workload.name);
    command.args(case.args.iter().map(|(key, value)| format!("{key}={value}")));
    command.arg("--processors").arg(case.processors.to_string());
    command.arg("--repeat").arg(plan.repeat.to_string());
    if let Some(policy) = &contestant.policy {
        command.arg("--policy").arg(policy);
    }
    command.args(contestant.lock.map(|lock| format!("by={lock}")));
    command.args(&contestant.words);
    child::run(command, Duration::from_secs(case.limit_seconds(plan.repeat)))
}

fn settings(known: &mut Vec<(String, String)>, present: &[&Contestant], tallies: &[Tally]) {
    for (contestant, tally) in present.iter().zip(tallies) {
        let label = contestant.label();
        let text = tally.reports.first().and_then(|report| report.extra.get("settings")?.as_str());
        if let Some(text) = text.filter(|_| known.iter().all(|(name, _)| *name != label)) {
            known.push((label, text.to_string()));
        }
    }
}

/// The rows of one case. The first checksum stands where no formula gives one.
fn rows(case: &Case, present: &[&Contestant], tallies: &[Tally], expected: Option<u64>) -> Vec<Row> {
    let first = tallies.iter().flat_map(|tally| &tally.reports).next();
    let expected = expected.or(first.map(|report| report.checksum));
    let base = tallies.first().and_then(|tally| Some(Spread::of(&times(tally))?.median));
    let row = |(contestant, tally): (&&Contestant, &Tally)| {
        let each = times(tally);
        let spread = Spread::of(&each);
        let wrong = tally.reports.iter().find(|report| Some(report.checksum) != expected);
        let disagreement = wrong.map(|report| {
            let right = expected.map_or_else(String::new, |sum| sum.to_string());
            format!("checksum {}, but {right} is right", report.checksum)
        });
        Row {
            workload: case.workload.name.to_string(),
            args: case.args.to_string(),
            runtime: contestant.name(),
            policy: contestant.policy.clone(),
            processors: case.processors,
            rounds: tally.reports.len(),
            ops: tally.reports.first().map(|report| report.ops),
            spread,
            each,
            rss_kib: median_rss(tally),
            checksum: wrong.or(tally.reports.first()).map(|report| report.checksum),
            ratio: spread.zip(base).filter(|(_, base)| *base > 0.0).map(|(spread, base)| spread.median / base),
            disagrees: disagreement.is_some(),
            error: disagreement.or_else(|| tally.errors.first().cloned()),
            unit: case.workload.unit,
            latencies: latencies(tally),
            extra: extra(tally),
        }
    };
    present.iter().zip(tallies).map(row).collect()
}

/// Nanoseconds for one operation, by each round that had one.
fn times(tally: &Tally) -> Vec<f64> {
    tally.reports.iter().filter(|r| r.ops > 0).map(|r| r.ns as f64 / r.ops as f64).collect()
}

/// Further figures: of numbers the median over the rounds, of all else the last one.
fn extra(tally: &Tally) -> serde_json::Map<String, serde_json::Value> {
    let mut extra = tally.reports.last().map(|report| report.extra.clone()).unwrap_or_default();
    extra.remove(LATENCIES);
    for (key, value) in &mut extra {
        let numbers: Vec<_> = tally.reports.iter().filter_map(|report| report.extra.get(key)?.as_f64()).collect();
        if let Some(spread) = Spread::of(&numbers).filter(|_| value.is_number() && numbers.len() > 1) {
            *value = spread.median.into();
        }
    }
    extra
}

/// Of all rounds together.
fn latencies(tally: &Tally) -> Option<Latencies> {
    let mut all = tally.reports.iter().filter_map(|report| Latencies::heard(report.extra.get(LATENCIES)?));
    let mut first = all.next()?;
    all.for_each(|more| first.add(&more));
    Some(first)
}

fn median_rss(tally: &Tally) -> Option<u64> {
    let sizes: Vec<_> = tally.reports.iter().map(|report| report.rss_kib as f64).collect();
    Spread::of(&sizes).map(|spread| spread.median as u64)
}

/// Counts processes and foretells the end from their mean time so far.
struct Clock {
    start: Instant,
    done: usize,
    ran: usize,
    total: usize,
}

impl Clock {
    fn new(total: usize) -> Clock {
        Clock { start: Instant::now(), done: 0, ran: 0, total }
    }

    fn tick(&mut self) {
        self.done += 1;
        self.ran += 1;
    }

    fn skip(&mut self) {
        self.done += 1;
    }

    fn progress(&self, case: &Case, contestant: &Contestant, round: u32) -> Progress {
        let mean = (self.ran > 0).then(|| self.start.elapsed() / self.ran as u32);
        Progress {
            case: format!("{} {}", case.workload.name, case.args).trim_end().to_string(),
            contestant: contestant.label(),
            round,
            done: self.done,
            total: self.total,
            left: mean.map(|mean| mean * (self.total - self.done) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalogue, runtimes};

    fn case() -> Case {
        catalogue::cases(catalogue::find("create").unwrap(), &["2".into()], 2).unwrap().remove(0)
    }

    fn contestant(name: &str) -> Contestant {
        let runtime = runtimes::find(name).unwrap();
        Contestant {
            runtime,
            policy: None,
            lock: None,
            program: Ok("/absent".into()),
            first: Vec::new(),
            words: Vec::new(),
        }
    }

    fn report(ns: u64, checksum: u64) -> Report {
        Report { ops: 2, ns, rss_kib: 10, checksum, extra: serde_json::Map::new() }
    }

    fn tally(reports: &[Report], errors: &[&str]) -> Tally {
        Tally { reports: reports.to_vec(), errors: errors.iter().map(|e| e.to_string()).collect() }
    }

    #[test]
    fn figures_are_per_operation_and_ratios_to_the_first() {
        let (a, b) = (contestant("raddle"), contestant("go"));
        let tallies = [tally(&[report(20, 2)], &[]), tally(&[report(60, 2), report(40, 2)], &[])];
        let rows = rows(&case(), &[&a, &b], &tallies, Some(2));
        assert_eq!(rows[0].spread.unwrap().median, 10.0);
        assert_eq!(rows[1].spread.unwrap().median, 25.0);
        assert_eq!((rows[0].ratio, rows[1].ratio), (Some(1.0), Some(2.5)));
        assert!(rows.iter().all(|row| row.error.is_none()));
    }

    #[test]
    fn further_figures_are_medians_where_they_are_numbers() {
        let with = |p99: u64| {
            let mut report = report(1, 1);
            report.extra.insert("p99_ns".into(), p99.into());
            report.extra.insert("settings".into(), "as it comes".into());
            report
        };
        let extra = extra(&tally(&[with(30), with(10), with(20)], &[]));
        assert_eq!((extra["p99_ns"].as_f64(), extra["settings"].as_str()), (Some(20.0), Some("as it comes")));
    }

    #[test]
    fn a_wrong_checksum_is_fatal_even_of_a_peer() {
        let (a, b) = (contestant("raddle"), contestant("go"));
        let tallies = [tally(&[report(20, 2)], &[]), tally(&[report(60, 3)], &[])];
        let rows = rows(&case(), &[&a, &b], &tallies, None);
        assert!(!fatal(&rows[0], &a));
        assert!(fatal(&rows[1], &b));
        assert!(rows[1].error.as_ref().unwrap().contains("checksum 3"));
    }

    #[test]
    fn failures_are_fatal_for_ours_only_and_refusals_never() {
        let (a, b) = (contestant("raddle"), contestant("go"));
        let failed = [tally(&[], &["broke"]), tally(&[], &["broke"])];
        let failed = rows(&case(), &[&a, &b], &failed, Some(2));
        assert_eq!((fatal(&failed[0], &a), fatal(&failed[1], &b)), (true, false));
        let refused = [tally(&[], &["not offered: x"])];
        let refused = rows(&case(), &[&a], &refused, Some(2));
        assert!(!fatal(&refused[0], &a) && !unmeasured(&refused));
        // Where nobody has a figure, others' failures are.
        assert!(unmeasured(&failed[1..]) && unmeasured(&[refused[0].clone(), failed[1].clone()]));
        let some = rows(&case(), &[&a, &b], &[tally(&[report(20, 2)], &[]), tally(&[], &["broke"])], Some(2));
        assert!(!unmeasured(&some));
    }

    #[test]
    fn a_round_without_an_operation_has_no_time() {
        let none = Report { ops: 0, ..report(20, 2) };
        let rows = rows(&case(), &[&contestant("go")], &[tally(&[none], &[])], Some(2));
        assert_eq!((rows[0].spread, rows[0].each.len(), rows[0].ratio, rows[0].rounds), (None, 0, None, 1));
        assert_eq!((rows[0].error.as_deref(), rows[0].without_figure()), (None, "no operation was done"));
    }

    #[test]
    fn a_missing_peer_is_named_and_no_error_but_a_missing_runtime_of_ours_is() {
        let absent = |name| Contestant { program: Err("not here".into()), ..contestant(name) };
        let plan =
            |name| Plan { cases: vec![case()], contestants: vec![absent(name)], rounds: 1, repeat: 1, until: None };
        let peer = run(&plan("go"), &mut |_| ());
        assert_eq!((peer.failed, peer.missing.len(), peer.rows.len()), (false, 1, 0));
        assert_eq!(peer.missing[0], ("go".to_string(), "not here".to_string()));
        assert!(run(&plan("raddle"), &mut |_| ()).failed);
    }

    #[test]
    fn refusals_are_not_repeated_and_failures_once() {
        assert!(tally(&[], &["not offered: x"]).hopeless());
        assert!(!tally(&[], &["broke"]).hopeless());
        assert!(tally(&[report(1, 1)], &["broke", "broke"]).hopeless());
    }
}
