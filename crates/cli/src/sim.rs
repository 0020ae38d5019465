//! `raddle sim`: a policy on a machine that one does not have.

mod calibrate;
mod predict;
mod report;

use crate::output::{Output, print};
use clap::{Args, Subcommand, ValueEnum};
use raddle_sim::cost::{Costs, PRESETS};
use raddle_sim::report::{self as rows, Row};
use raddle_sim::simulate::{MOST_CORES, Plan, simulate};
use raddle_sim::watch::{PATIENCE, Watch};
use raddle_sim::workloads::{Arguments, WORKLOADS, Workload};
use std::io::{IsTerminal, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  raddle sim --cores 128 --machine epyc
  raddle sim --policy 'steal(fifo)' --policy 'steal(victims=neighbours(15))' --cores 1..128 --workload packet:work=500
  raddle sim --workload tree:depth=14 --cores 1,2,4,8 --format json
  raddle sim --policy 'clustered(4, steal)' --machine epyc --cores 1..128 --format html --out out.html
  raddle sim --calibrate --out mine.json && raddle sim --machine mine.json --cores 1,2
  raddle sim predict --machine mine.json
  raddle sim report --format html --out report.html
  raddle sim report --paper lock-free
  raddle sim --list

The same command line gives the same output, byte for byte.

Exit status: 0; 1 when a simulated program failed, or nothing came of one for 20 s (it, or the policy, loops without a step); 2 when the command line is wrong.";

/// Run a policy on simulated cores, in virtual time
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
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
    /// What all that is random follows from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// After so many steps a simulated program is said to loop
    #[arg(long, value_name = "N", default_value_t = 20_000_000_000)]
    steps: u64,
    /// How to show the results; JSON is one object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the results to FILE instead of the standard output
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
    let output = Output::claim(options.out.as_deref())?;
    let show = std::io::stderr().is_terminal();
    let all = plans.len();
    let watch = Watch::start(PATIENCE, move |what, steps| {
        if show {
            eprint!("\r\x1b[K{what}, {} million steps", steps / 1_000_000);
            let _ = std::io::stderr().flush();
        }
    });
    let mut all_rows: Vec<Row> = Vec::new();
    for (index, plan) in plans.into_iter().enumerate() {
        watch.now(format!(
            "[{} of {all}] {} under `{}` on {} cores",
            index + 1,
            plan.workload.name,
            plan.policy,
            plan.cores
        ));
        let result = simulate(&plan);
        all_rows.push((plan, result));
    }
    watch.end();
    if show {
        eprint!("\r\x1b[K");
    }
    let text = match options.format {
        Format::Table => rows::table(&all_rows),
        Format::Json => rows::json_lines(&all_rows),
        Format::Html => rows::html(&all_rows, &command_line()),
    };
    output.write(&text)?;
    let failed = all_rows.iter().filter_map(|(_, result)| result.as_ref().err());
    Ok(failed.fold(ExitCode::SUCCESS, |_, why| {
        eprintln!("raddle: {why}");
        ExitCode::FAILURE
    }))
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

/// One plan for each workload, policy and number of cores.
fn plans(options: &Options) -> Result<Vec<Plan>, String> {
    let cores = cores(&options.cores)?;
    let costs = machine(&options.machine)?;
    let policies = options.policy.iter().map(|text| text.parse().map_err(|why| format!("{why}")));
    let policies: Vec<raddle_sim::simulate::Expression> = policies.collect::<Result<_, String>>()?;
    let mut plans = Vec::new();
    for text in &options.workload {
        let (workload, arguments) = workload(text)?;
        for policy in &policies {
            for &cores in &cores {
                plans.push(Plan {
                    policy: policy.clone(),
                    cores,
                    workload,
                    arguments: arguments.clone(),
                    costs: costs.clone(),
                    seed: options.seed,
                    steps: options.steps,
                });
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
    let one = |text: &str| {
        let number = text.trim().parse::<usize>().ok().filter(|number| (1..=MOST_CORES).contains(number));
        number.ok_or_else(|| format!("--cores: `{text}`: from 1 to {MOST_CORES} cores can be simulated"))
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
            return Err(format!("--cores: `{part}` goes downwards"));
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
