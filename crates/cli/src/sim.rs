//! `raddle sim`: a policy on a machine that one does not have.

mod calibrate;
mod predict;
mod report;
mod shards;

use crate::output::{Output, print};
use crate::screen::Line;
use clap::{Args, Subcommand, ValueEnum};
use raddle_sim::cost::{Costs, PRESETS};
use raddle_sim::report::{self as rows, Row};
use raddle_sim::simulate::{MOST_CORES, Plan, simulate};
use raddle_sim::watch::{STUCK_AFTER, Watchdog};
use raddle_sim::workloads::{Arguments, WORKLOADS, Workload};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

const EXAMPLES: &str = "\
Examples:
  raddle sim --cores 128 --machine epyc
  raddle sim --policy 'steal(fifo)' --policy 'steal(victims=neighbours(15))' --cores 1..128 --workload packet:work=500
  raddle sim --workload tree:depth=14 --cores 1,2,4,8 --format json
  raddle sim --policy 'clustered(4, steal)' --machine epyc --cores 1..128 --out out.html
  raddle sim --calibrate --out mine.json && raddle sim --machine mine.json --cores 1,2
  raddle sim predict --machine mine.json
  raddle sim report --out report.html
  raddle sim report --paper lock-free
  raddle sim --seed 1..16 --cores 1..8 --shard 0/4 --out part-0.jsonl       a fourth of a campaign
  mpirun -n 4 raddle sim --seed 1..16 --cores 1..8 --shard rank --out 'part-{shard}.jsonl'
  raddle sim --seed 1..16 --cores 1..8 --merge part-*.jsonl
  raddle sim --list

The same command line gives the same output, byte for byte.

Exit status: 0; 1 when a simulated program failed, parts are missing, or nothing came of one for 20 s (it, or the policy, loops without a step); 2 when the command line is wrong.";

/// Run a policy on simulated cores, in virtual time
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES), args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    what: Option<What>,
    /// A policy expression; once for each policy to compare
    #[arg(long, value_name = "EXPR", default_value = "steal")]
    policy: Vec<String>,
    /// Numbers of cores: 16, or 1,2,4, or 1..128 for the powers of two between and both ends, or 10..120:10 for steps
    /// of ten
    #[arg(long, value_name = "N", default_value = "1..16")]
    cores: String,
    /// A workload, with arguments if wanted: packet:n=50k:work=500; once for each (`--list` shows them)
    #[arg(long, value_name = "NAME[:KEY=VALUE]", default_value = "packet")]
    workload: Vec<String>,
    /// A preset (`--list` shows them), or a JSON file of costs
    #[arg(long, value_name = "NAME|FILE", default_value = "epyc")]
    machine: String,
    /// What all that is random follows from: 7, or 1,2,3, or 1..64 for all from 1 to 64
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value = "1")]
    seed: String,
    /// After so many steps a simulated program is said to loop
    #[arg(
        long, allow_negative_numbers = true, value_name = "N", default_value_t = 20_000_000_000,
        value_parser = crate::numbers::whole::<u64>(1..=u64::MAX, "--steps 1000000")
    )]
    steps: u64,
    /// How to show the results; JSON is one object a line [default: as FILE's ending says, or table]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Run part I of N (from 0), a line each for --merge; `rank`: as MPI, Slurm or a Job in Kubernetes numbers it
    #[arg(long, value_name = "I/N|rank", conflicts_with_all = ["merge", "only", "calibrate", "list"])]
    shard: Option<shards::Shard>,
    /// Run the simulations of these numbers alone, which --merge has named, and tell each on a line
    #[arg(long, value_name = "N,..", value_delimiter = ',', conflicts_with_all = ["merge", "calibrate", "list"], value_parser = crate::numbers::whole::<usize>(crate::numbers::ANY, "--only 3,7"))]
    only: Vec<usize>,
    /// Put together what parts have told, as one process prints it with --format json; for the same options
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["calibrate", "list"])]
    merge: Vec<PathBuf>,
    /// Write the results to FILE instead of the standard output; `{shard}` in its name is the part's number
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure what this machine costs, and write the file of costs that --machine reads. Takes about a minute; keep
    /// the machine quiet
    #[arg(long, conflicts_with_all = ["policy", "cores", "workload", "machine", "format", "list"])]
    calibrate: bool,
    /// List the workloads with their arguments, and the machines
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum What {
    /// A paper's figures: its claims beside what comes out here
    Report(report::Options),
    /// Hold the model against this machine: predicted and measured time of four programs on one and two processors.
    /// Keep it quiet
    Predict(predict::Options),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Html,
}

/// Runs the subcommand.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    match &options.what {
        Some(What::Report(options)) => return report::run(options),
        Some(What::Predict(options)) => return predict::run(options),
        None => {}
    }
    if options.calibrate {
        return calibrate::run(options.out.as_deref());
    }
    if options.list {
        return print(&list()).map(|()| ExitCode::SUCCESS);
    }
    let plans = plans(options)?;
    if options.shard.is_some() || !options.only.is_empty() || !options.merge.is_empty() {
        return in_parts(options, plans);
    }
    let output = Output::claim(options.out.as_deref())?;
    let format = crate::output::format(options.format, options.out.as_deref());
    let text = |rows: &[Row]| match format {
        Format::Table => rows::table(rows),
        Format::Json => rows::json_lines(rows),
        Format::Html => rows::html(rows, &command_line(), &raddle_report::Circumstances::now().of_simulation()),
    };
    // A run that is ended early has shown what it had, or has left it in the file.
    let (mut all_rows, mut all_text, mut printed) = (Vec::<Row>::new(), String::new(), Ok(()));
    let all = (0..plans.len()).collect();
    each(plans, all, |_, row| {
        all_rows.push(row);
        if format == Format::Html {
            output.keep(|| text(&all_rows));
            return;
        }
        // What the last row adds to the one before it.
        let last = &all_rows[all_rows.len().saturating_sub(2)..];
        let added = text(last).split_off(text(&last[..last.len() - 1]).len());
        all_text += &added;
        match output {
            Output::Standard if printed.is_ok() => printed = print(&added),
            Output::Standard => {}
            _ => output.keep(|| all_text.clone()),
        }
    });
    printed?;
    match (format, &output) {
        (Format::Html, _) => output.write(&text(&all_rows))?,
        (_, Output::Standard) => {}
        _ => output.write(&all_text)?,
    }
    Ok(failures(all_rows.iter().filter_map(|(_, result)| result.as_ref().err())))
}

fn failures<'a>(failed: impl Iterator<Item = &'a String>) -> ExitCode {
    failed.fold(ExitCode::SUCCESS, |_, why| {
        eprintln!("raddle: {why}");
        ExitCode::FAILURE
    })
}

/// A part of the simulations, or what parts have told put together.
fn in_parts(options: &Options, plans: Vec<Plan>) -> Result<ExitCode, String> {
    if options.format.is_some_and(|format| format != Format::Json) {
        return Err("--shard, --only and --merge have JSON alone".into());
    }
    crate::output::has_only("json", options.out.as_deref())?;
    let campaign = shards::Campaign::of(&plans);
    let path = options.out.as_ref().map(|path| options.shard.map_or_else(|| path.clone(), |shard| shard.named(path)));
    if !options.merge.is_empty() {
        let (text, remarks) = match campaign.merge(&options.merge) {
            Ok(merged) => merged,
            Err(why) => {
                eprintln!("raddle: {why}");
                return Ok(ExitCode::FAILURE);
            }
        };
        remarks.iter().for_each(|remark| eprintln!("raddle: note: {remark}"));
        return Output::claim(path.as_deref())?.write(&text).map(|()| ExitCode::SUCCESS);
    }
    campaign.check(&options.only)?;
    let chosen: Vec<usize> = match options.shard {
        Some(shard) => (0..plans.len()).filter(|&number| shard.has(number)).collect(),
        None => options.only.clone(),
    };
    let output = Output::claim(path.as_deref())?;
    let (mut text, mut failed, mut printed) = (String::new(), Vec::new(), Ok(()));
    each(plans, chosen, |number, row| {
        failed.extend(row.1.as_ref().err().cloned());
        let line = campaign.line(number, row);
        // A part that is ended early leaves what it has done.
        match output {
            Output::Standard => printed = print(&line),
            _ => {
                text += &line;
                output.keep(|| text.clone());
            }
        }
    });
    printed?;
    if !matches!(output, Output::Standard) {
        output.write(&text)?;
    }
    Ok(failures(failed.iter()))
}

/// Simulates those of these numbers, and shows where it is if anybody looks.
fn each(plans: Vec<Plan>, chosen: Vec<usize>, mut done: impl FnMut(usize, Row)) {
    let line = Arc::new(Mutex::new(Line::of_what_may_be_short()));
    let all = chosen.len();
    let shown = line.clone();
    let watch = Watchdog::start(STUCK_AFTER, move |what, steps| {
        let mut line = shown.lock().unwrap_or_else(PoisonError::into_inner);
        line.show(|| format!("{what}, {} million steps", steps / 1_000_000));
    });
    let mut plans: Vec<Option<Plan>> = plans.into_iter().map(Some).collect();
    for (index, number) in chosen.into_iter().enumerate() {
        // One that is named twice is done.
        let Some(plan) = plans[number].take() else { continue };
        watch.now(format!(
            "[{} of {all}] {} under `{}` on {} cores",
            index + 1,
            plan.workload.name,
            plan.policy,
            plan.cores
        ));
        let result = simulate(&plan);
        line.lock().unwrap_or_else(PoisonError::into_inner).clear();
        done(number, (plan, result));
    }
    watch.end();
    line.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn command_line() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    format!("raddle {}", arguments.join(" "))
}

/// As it has to be written in a shell.
fn quoted(word: String) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// One plan for each workload, policy, number of cores and seed.
fn plans(options: &Options) -> Result<Vec<Plan>, String> {
    let cores = cores(&options.cores)?;
    let seeds = seeds(&options.seed)?;
    let costs = machine(&options.machine)?;
    let mut policies: Vec<raddle_sim::simulate::Expression> = Vec::new();
    for text in &options.policy {
        let policy = text.parse().map_err(|why| format!("{why}"))?;
        match policies.contains(&policy) {
            true => eprintln!("raddle: `{text}` is `{policy}`, which is there already"),
            false => policies.push(policy),
        }
    }
    let mut plans = Vec::new();
    for text in &options.workload {
        let (workload, arguments) = workload(text)?;
        for policy in &policies {
            for &cores in &cores {
                plans.extend(seeds.iter().map(|&seed| Plan {
                    policy: policy.clone(),
                    cores,
                    workload,
                    arguments: arguments.clone(),
                    costs: costs.clone(),
                    seed,
                    steps: options.steps,
                }));
            }
        }
    }
    Ok(plans)
}

fn workload(text: &str) -> Result<(&'static Workload, Arguments), String> {
    let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
    let workload = Workload::find(name)?;
    Ok((workload, workload.arguments(arguments)?))
}

fn machine(text: &str) -> Result<Costs, String> {
    if let Some(costs) = Costs::preset(text) {
        return Ok(costs);
    }
    let looks_like_a_file = text.contains(['.', '/']);
    match costs(text) {
        Ok(json) => Costs::from_json(&json).map_err(|why| format!("the costs in {text}: {why}")),
        Err(why) if looks_like_a_file => Err(format!("cannot read the costs in {text}: {why}")),
        Err(_) => {
            let meant = raddle_bench::catalogue::similar(text, &PRESETS);
            Err(format!("there is no machine `{text}`; {meant}there are {}, or name a JSON file", PRESETS.join(", ")))
        }
    }
}

/// The text of a file of costs, which is not long.
fn costs(file: &str) -> std::io::Result<String> {
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    std::fs::File::open(file)?.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST { Err(std::io::Error::other("it is longer than a file of costs is")) } else { Ok(text) }
}

/// The numbers of cores that a text names.
fn cores(text: &str) -> Result<Vec<usize>, String> {
    let wrong = |why: &str| {
        format!(
            "--cores {text}: {why}; give numbers from 1 to {MOST_CORES}, as in `16`, `1,2,4`, `1..128` or `10..120:10`"
        )
    };
    let one = |part: &str| {
        let number = part.trim().parse::<usize>().ok().filter(|number| (1..=MOST_CORES).contains(number));
        number.ok_or_else(|| wrong(&format!("so many cores as `{part}` cannot be simulated")))
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((first, rest)) = part.split_once("..") else {
            all.push(one(part)?);
            continue;
        };
        let (last, step) = rest.split_once(':').map_or((rest, None), |(last, step)| (last, Some(step)));
        let (first, last) = (one(first)?, one(last)?);
        if first > last {
            return Err(wrong(&format!("`{part}` goes downwards")));
        }
        match step {
            Some(step) => all.extend((first..=last).step_by(one(step)?)),
            None => {
                let powers = (0..).map(|power| 1 << power).take_while(|&number| number < last);
                all.push(first);
                all.extend(powers.filter(|&number| number > first));
                all.extend((last > first).then_some(last));
            }
        }
    }
    Ok(all)
}

/// The seeds that a text names.
fn seeds(text: &str) -> Result<Vec<u64>, String> {
    const MOST: u64 = 100_000;
    let wrong = |why: &str| {
        format!("--seed {text}: {why}; give whole numbers, upwards, at most {MOST}, as in `7`, `1,2,3` or `1..64`")
    };
    let one = |part: &str| part.trim().parse::<u64>().map_err(|_| wrong(&format!("`{part}` is no seed")));
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (one(first)?, one(last)?);
        if first > last || last - first >= MOST {
            return Err(wrong(&format!("`{part}` is not so")));
        }
        all.extend(first..=last);
    }
    Ok(all)
}

fn list() -> String {
    let mut text = String::from("workloads\n");
    for workload in &WORKLOADS {
        text += &format!("  {:12} {}\n", workload.name, workload.about);
        for (name, value, meaning) in workload.parameters {
            text += &format!("  {:12}   {name}={value}: {meaning}\n", "");
        }
    }
    text += "machines\n";
    for costs in PRESETS.iter().filter_map(|name| Costs::preset(name)) {
        text += &format!("  {:12} {} cores: {}\n", costs.name, costs.cores, costs.source);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let words = ["--policy", "priority(2, steal)", "--workload", "packet:n=50k", "it's", ""].map(String::from);
        let line = words.map(quoted).join(" ");
        assert_eq!(line, r"--policy 'priority(2, steal)' --workload packet:n=50k 'it'\''s' ''");
    }

    #[test]
    fn a_file_of_costs_ends() {
        let why = machine("/dev/zero").unwrap_err();
        assert!(why.contains("/dev/zero") && why.contains("longer than a file of costs"), "{why}");
    }

    #[test]
    fn seeds_are_read() {
        assert_eq!(seeds("18446744073709551615").unwrap(), [u64::MAX]);
        assert_eq!(seeds("1..3,9").unwrap(), [1, 2, 3, 9]);
        for wrong in ["", "-1", "3..1", "1..", "0..18446744073709551615"] {
            assert!(seeds(wrong).unwrap_err().contains("--seed"), "{wrong}");
        }
    }

    #[test]
    fn numbers_of_cores_are_read() {
        assert_eq!(cores("16").unwrap(), [16]);
        assert_eq!(cores("1,3").unwrap(), [1, 3]);
        assert_eq!(cores("1..16").unwrap(), [1, 2, 4, 8, 16]);
        assert_eq!(cores("3..20").unwrap(), [3, 4, 8, 16, 20]);
        assert_eq!(cores("10..40:10").unwrap(), [10, 20, 30, 40]);
        for wrong in ["0", "100000", "two", "", "9..3", "1..0", "1..8:0"] {
            assert!(cores(wrong).unwrap_err().contains("--cores"), "{wrong}");
        }
    }
}
