//! `raddle sim report`: a paper's figures on the simulated machine, its claims beside ours.

use super::{Format, command_line};
use crate::output::Output;
use crate::screen::Line;
use clap::Args;
use clap::builder::PossibleValuesParser;
use raddle_report::Circumstances;
use raddle_sim::claims::{self, Scale};
use raddle_sim::papers::{self, PAPERS, Paper, Size};
use raddle_sim::watch::{STUCK_AFTER, Watchdog};
use raddle_sim::workloads::number;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// What to run, and how to show it.
#[derive(Args)]
pub struct Options {
    /// Which paper: the schedulers report's figures 7.1 to 7.7, the lock-free scheduler's figures 7 to 10 and table 1,
    /// Lesser Bear's tables 2 and 3 and figures 7 to 9, Hurricane's figures 5 and 7, or Scheduler Activations' figures
    /// 2 and 3 and tables 1, 4 and 5. These have machines and sizes of their own: the options below but the last two
    /// are for the first one
    #[arg(long, value_name = "NAME", default_value = "schedulers", value_parser = names())]
    paper: String,
    /// Packets of most runs; the paper has 50,000 [default: 50k]
    #[arg(long, value_name = "N", value_parser = packets)]
    packets: Option<u64>,
    /// Packets where the paper has ten million [default: 500k]
    #[arg(long, value_name = "N", value_parser = packets)]
    many: Option<u64>,
    /// A preset, or a JSON file of costs [default: epyc]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// What all that is random follows from [default: 1]
    #[arg(long, allow_negative_numbers = true, value_name = "S", value_parser = crate::numbers::whole::<u64>(0..=u64::MAX, "--seed 7"))]
    seed: Option<u64>,
    /// How to show the results; JSON is one object a line: the claims, then the runs [default: as FILE's ending
    /// says, or table]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write the results to FILE instead of the standard output; should the run be ended early, what there is by then
    /// is there
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Options {
    fn format(&self) -> Format {
        crate::output::format(self.format, self.out.as_deref())
    }
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(["schedulers"].into_iter().chain(PAPERS.iter().map(|paper| paper.name)))
}

fn packets(text: &str) -> Result<u64, String> {
    const MOST: u64 = 10_000_000;
    let number = number(text).filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("give a number from 1 to {MOST}, such as 50k or 1M"))
}

/// Runs it. A claim that does not hold is a result, not a failure.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let paper = PAPERS.iter().find(|paper| paper.name == options.paper);
    if let Some(paper) = paper {
        refuse(options, paper)?;
    }
    let output = Output::claim(options.out.as_deref())?;
    let watch = Watchdog::start(STUCK_AFTER, |_, _| ());
    let (begun, mut shown) = (Instant::now(), Line::new());
    let mut progress = |number: usize, all: usize, what: &str| {
        let seconds = begun.elapsed().as_secs();
        let line = format!("[{number} of {all}] {what}, after {seconds} s");
        watch.now(line.clone());
        shown.show_step(&line);
    };
    let text = match paper {
        None => schedulers(options, &output, &mut progress)?,
        Some(paper) => other(paper, options.format(), &output, &mut progress)?,
    };
    watch.end();
    shown.clear();
    output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn simulated() -> Circumstances {
    Circumstances::now().of_simulation()
}

/// What is not for this paper, rather than to leave it unheard.
fn refuse(options: &Options, paper: &Paper) -> Result<(), String> {
    let Options { packets, many, machine, seed, .. } = options;
    let given = [
        ("--packets", packets.is_some()),
        ("--many", many.is_some()),
        ("--machine", machine.is_some()),
        ("--seed", seed.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    if given.is_empty() {
        return Ok(());
    }
    let (name, given) = (paper.name, given.join(", "));
    Err(format!("`--paper {name}` has a machine, sizes and a seed of its own; leave out {given}"))
}

fn schedulers(
    options: &Options,
    output: &Output,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<String, String> {
    let usual = Scale::default();
    let scale = Scale {
        packets: options.packets.unwrap_or(usual.packets),
        many: options.many.unwrap_or(usual.many),
        costs: options.machine.as_deref().map_or(Ok(usual.costs), super::machine)?,
        seed: options.seed.unwrap_or(usual.seed),
        cores: usual.cores,
    };
    let text = |runs: claims::Runs, verdicts: &[claims::Verdict]| match options.format() {
        Format::Table => claims::table(&scale, &runs, verdicts),
        Format::Json => claims::json_lines(runs, verdicts),
        Format::Html => claims::html(runs, verdicts, &command_line(), &simulated()),
    };
    // A claim is judged when all runs that it needs are there.
    let mut keep = |runs: &claims::Runs| output.keep(|| text(runs.clone(), &[]));
    let runs = claims::run_kept(&scale, progress, &mut keep)?;
    let verdicts = claims::verdicts(&runs);
    Ok(text(runs, &verdicts))
}

fn other(
    paper: &'static Paper,
    format: Format,
    output: &Output,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<String, String> {
    let text = |verdicts: &[papers::Verdict], drawn: &[papers::Drawn]| match format {
        Format::Table => papers::table(paper, verdicts, drawn),
        Format::Json => papers::json_lines(paper, verdicts, drawn),
        Format::Html => papers::html(paper, verdicts, drawn, &command_line(), &simulated()),
    };
    // A run that is ended early leaves what it has in the file, if there is one.
    let mut keep = |verdicts: &[papers::Verdict]| output.keep(|| text(verdicts, &[]));
    let verdicts = papers::verdicts_kept(paper, Size::Full, progress, &mut keep)?;
    let drawn = papers::draw(paper, Size::Full, progress)?;
    Ok(text(&verdicts, &drawn))
}
