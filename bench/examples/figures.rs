//! Draws the figures of README and docs/performance.md from `bench/results`.
//!
//! `cargo run -p raddle-bench --example figures` writes them; with `--check` it writes nothing, and fails where what is
//! written differs. Whoever measures anew names the folders below.
#![forbid(unsafe_code)]

use raddle_bench::catalogue;
use raddle_bench::report::nanoseconds;
use raddle_report::{Axis, Bar, Bars};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The last whole run of the workloads.
const RESULTS: &str = "2026-11-29-epyc-2-cores";
/// When, where and of what.
const RUN: &str = "2026-11-29, commit 8cb9601, a virtual machine with 2 cores of an AMD EPYC, Linux 6.18, glibc 2.36";
/// The last run of the servers.
const SERVERS: &str = "2026-11-26-epyc-2-cores/servers.txt";

const RUNTIMES: [&str; 5] = ["raddle", "go", "tokio", "std", "rayon"];

/// What README shows and the chart draws: workload, arguments, processors, and what it is, in words.
const CHOSEN: [(&str, &str, u64, &str); 10] = [
    ("create", "N=100000", 2, "create threads and wait for them"),
    ("yield", "T=64 total=2000000", 2, "give way to another thread"),
    ("pp_chan", "n=200000", 2, "two threads talk through channels"),
    ("producer", "N=64 C=10 K=10000", 2, "producers and consumers share a buffer"),
    ("lock_global", "T=64 total=2000000", 2, "threads want one lock"),
    ("eratosthenes", "N=10000", 2, "a pipeline with a thread for each prime"),
    ("skynet", "N=1000000 by=join", 2, "a tree of a million by fork and join"),
    ("fib", "n=35 by=join", 2, "the finest fork and join"),
    ("radix", "r=4", 2, "a parallel sort"),
    ("skynet", "N=1000000 by=spawn", 2, "a tree of whole threads, against rayon's tasks"),
];
/// So many of them stand in README: the first, and the last one, in which others are faster.
const IN_README: usize = 6;

/// Medians by workload, arguments and processors, then by runtime.
type Figures = BTreeMap<(String, String, u64), BTreeMap<String, f64>>;

fn main() -> ExitCode {
    let check = std::env::args().any(|word| word == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match made(&root).and_then(|files| if check { differing(&files) } else { written(&files) }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("figures: {why}");
            ExitCode::FAILURE
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn written(files: &[(PathBuf, String)]) -> Result<(), String> {
    files
        .iter()
        .try_for_each(|(path, text)| std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display())))
}

fn differing(files: &[(PathBuf, String)]) -> Result<(), String> {
    let stale = files.iter().find(|(path, text)| read(path).ok().as_ref() != Some(text));
    stale.map_or(Ok(()), |(path, _)| {
        Err(format!("{} is not what `cargo run -p raddle-bench --example figures` writes", path.display()))
    })
}

/// The files and what they hold.
fn made(root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let figures = figures(&root.join("bench/results").join(RESULTS))?;
    let servers = read(&root.join("bench/results").join(SERVERS))?;
    let chosen = chosen(&figures)?;
    let readme = root.join("README.md");
    let text = read(&readme)?;
    let (before, rest) = text.split_once("<!-- figures -->\n").ok_or("README.md: no <!-- figures -->")?;
    let (_, after) = rest.split_once("<!-- /figures -->").ok_or("README.md: no <!-- /figures -->")?;
    let table = format!("{before}<!-- figures -->\n{}<!-- /figures -->{after}", short(&chosen));
    Ok(vec![
        (root.join("docs/performance.md"), page(&figures, &servers)),
        (root.join("docs/performance.svg"), chart(&chosen)),
        (readme, table),
    ])
}

fn figures(folder: &Path) -> Result<Figures, String> {
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    // Measured again, the second figures count: they come last.
    files.sort_by_key(|path| (path.to_string_lossy().contains("-again"), path.clone()));
    let mut figures = Figures::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
        for line in read(path)?.lines() {
            let row: Value = serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))?;
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_string();
            let key = (text("workload"), text("args"), row["processors"].as_u64().unwrap_or(0));
            if let (Some(median), true) = (row["ns_median"].as_f64(), row["policy"].is_null()) {
                figures.entry(key).or_default().insert(text("runtime"), median);
            }
        }
    }
    Ok(figures)
}

/// The fastest of the others, and how many times as long it takes.
fn best(of: &BTreeMap<String, f64>) -> Option<(&str, f64)> {
    let ours = of.get("raddle")?;
    let others = of.iter().filter(|(name, _)| *name != "raddle" && RUNTIMES.contains(&name.as_str()));
    let (name, time) = others.min_by(|a, b| a.1.total_cmp(b.1))?;
    Some((name, time / ours))
}

struct Chosen {
    about: &'static str,
    other: String,
    ratio: f64,
}

fn chosen(figures: &Figures) -> Result<Vec<Chosen>, String> {
    let one = |&(workload, args, processors, about): &(&str, &str, u64, &'static str)| {
        let is_it = |known: &str| args.split(' ').all(|word| known.split(' ').any(|other| other == word));
        let mut rows =
            figures.iter().filter(|((name, known, p), _)| name == workload && *p == processors && is_it(known));
        let (other, ratio) =
            rows.next().and_then(|(_, row)| best(row)).ok_or_else(|| format!("{workload} {args}: no figures"))?;
        Ok(Chosen { about, other: other.into(), ratio })
    };
    CHOSEN.iter().map(one).collect()
}

fn short(chosen: &[Chosen]) -> String {
    let mut text = String::from("| workload | fastest other | its time / Raddle's |\n|---|---|---|\n");
    let (first, last) = (&chosen[..IN_README], chosen.last());
    for Chosen { about, other, ratio } in first.iter().chain(last) {
        let _ = writeln!(text, "| {about} | {other} | {ratio:.1} |");
    }
    text
}

fn page(figures: &Figures, servers: &str) -> String {
    let mut text = format!(
        "# Figures\n\nWritten by `cargo run -p raddle-bench --example figures`; do not edit. Raw results: [bench/results](../bench/results/{RESULTS}/README.md).\n\n\
         ![chart](performance.svg)\n\n## Workloads\n\nMedians of interleaved rounds of `raddle bench`:\n\
         {RUN}.\n\
         Times are per thread, yield, round trip, lock, message or hop, of the whole run for the programs.\n\
         The last column is above 1 where Raddle is the fastest. Other guests share the host: compare within a row.\n\n\
         | workload | processors | {} | fastest other / raddle |\n|---|---|{}---|\n",
        RUNTIMES.join(" | "),
        "---|".repeat(RUNTIMES.len())
    );
    for workload in catalogue::all() {
        for ((_, args, processors), row) in figures.iter().filter(|((name, ..), _)| name == workload.name) {
            let cells = RUNTIMES.map(|name| row.get(name).map_or_else(|| "–".into(), |&time| nanoseconds(time)));
            let best = best(row).map_or_else(|| "–".into(), |(_, ratio)| format!("{ratio:.2}"));
            let _ = writeln!(text, "| {} {args} | {processors} | {} | {best} |", workload.name, cells.join(" | "));
        }
    }
    let _ = write!(
        text,
        "\n## Servers\n\nFrom [bench/results/{SERVERS}](../bench/results/{SERVERS}):\n\n```text\n{servers}```\n"
    );
    text
}

/// Bars to both sides of the line at which both are level.
fn chart(chosen: &[Chosen]) -> String {
    let bar = |Chosen { about, other, ratio }: &Chosen| Bar {
        label: about.to_string(),
        figure: *ratio,
        note: format!(" {other}"),
        stands_out: *ratio < 1.0,
        ..Bar::default()
    };
    let all: Vec<Bar> = chosen.iter().map(bar).collect();
    let title = "How many times as long the fastest other runtime takes";
    let axis = Axis::of_factors("right of the line Raddle is faster");
    Bars { title, axis, all: &all }.standalone(RUN)
}
