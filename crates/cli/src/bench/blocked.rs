//! `raddle bench blocked`: how soon another thread runs when one has blocked in the kernel where nothing tells the
//! runtime, by each way in which the runtime hears of it, in multiples of what the kernel needs to switch between
//! kernel threads on one core.

use super::{Format, Meter, Options, PROGRAM};
use crate::output::Output;
use raddle_bench::child::tied;
use raddle_bench::report::nanoseconds;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

/// The name by which the command line asks for it.
pub const NAME: &str = "blocked";
/// The ways, as `RADDLE_EVENTS` names them, with how often a thread blocks in a round: the monitor takes milliseconds
/// each time.
const WAYS: [(&str, u64); 2] = [("standby", 2000), ("monitor", 100)];

/// Runs it. A way that is refused here is measured all the same: it is the next one then.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    refuse(NAME, options)?;
    let most = match options.args.as_slice() {
        [] => u64::MAX,
        [n] => n.parse().ok().filter(|n| *n > 0).ok_or(format!("--args {n}: how often a thread blocks, at most"))?,
        _ => return Err(format!("`{NAME}` takes one number by --args: how often a thread blocks, at most")),
    };
    let output = Output::claim(options.out.as_deref())?;
    let mut meter = Meter::new();
    let mut rows = Vec::new();
    for round in 1..=options.rounds {
        for (way, blocks) in WAYS {
            meter.line(&format!("raddle: {way}, round {round} of {}", options.rounds));
            rows.push(one(way, blocks.min(most))?);
        }
    }
    meter.clear();
    let text = match options.format() {
        Format::Json => rows.iter().map(|row| format!("{row}\n")).collect(),
        _ => table(&rows),
    };
    output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What a measurement of its own cannot use.
pub fn refuse(name: &str, options: &Options) -> Result<(), String> {
    let Options { workloads, runtimes, policy, .. } = options;
    if workloads.len() > 1 {
        return Err(format!("`{name}` is a measurement of its own; ask for other workloads by another command"));
    }
    if options.format() == Format::Html {
        return Err(format!("`{name}` has no page; give --format table or json"));
    }
    let given = [("--runtimes", runtimes), ("--policy", policy)];
    match given.iter().find(|(_, given)| !given.is_empty()) {
        Some((option, _)) => Err(format!("`{name}` has its own runs, so {option} is not for it; leave it out")),
        None => Ok(()),
    }
}

/// A fresh process that measures one way.
pub(super) fn one(way: &str, blocks: u64) -> Result<Value, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot tell where this program lies: {error}"))?;
    let mut command = Command::new(own);
    command.args([PROGRAM, NAME, &blocks.to_string()]).env("RADDLE_EVENTS", way);
    let output = tied(&mut command, Signal::KILL).output();
    let output = output.map_err(|error| format!("cannot start a program that measures: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().rev().find(|line| line.starts_with('{')).ok_or_else(|| {
        format!("the program that measures `{way}` ended with {} and without a result: {errors}", output.status)
    })?;
    let mut figures: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    if let Some(error) = figures["error"].as_str() {
        return Err(format!("`{way}` cannot be measured: {error}"));
    }
    figures["way"] = json!(way);
    if !errors.is_empty() {
        figures["said"] = json!(errors.trim());
    }
    Ok(figures)
}

fn table(rows: &[Value]) -> String {
    let mut text = format!(
        "one processor, a thread blocks in the kernel unseen, another one is ready: from the system call to that one's first step\n\n\
         {:<9}{:>11}{:>11}{:>8}{:>13}{:>11}{:>8}{:>12}{:>10}{:>9}\n",
        "way", "median", "p99", "blocks", "by standby", "switch", "p99", "median /", "p99 /", "wakes"
    );
    let _ = writeln!(text, "{:61}{:>11}{:>10}{:>10}{:>9}", "", "", "switch", "switch", "idle");
    for row in rows {
        let at = |key: &str| row[key].as_f64().unwrap_or(0.0);
        let _ = writeln!(
            text,
            "{:<9}{:>11}{:>11}{:>8}{:>13}{:>11}{:>8}{:>12.1}{:>10.1}{:>9}",
            row["way"].as_str().unwrap_or(""),
            nanoseconds(at("p50_ns")),
            nanoseconds(at("p99_ns")),
            at("blocks"),
            at("taken_by_standby"),
            nanoseconds(at("native_p50_ns")),
            nanoseconds(at("native_p99_ns")),
            at("p50_ns") / at("native_p50_ns"),
            at("p99_ns") / at("native_p50_ns"),
            at("wake_ups_when_idle"),
        );
        let _ =
            writeln!(text, "{:9}beside a thread that computes: {:.2} % of a core", "", 100.0 * at("cost_of_a_core"));
        if let Some(said) = row["said"].as_str() {
            let _ = writeln!(text, "{:9}{said}", "");
        }
    }
    text += "\nswitch: the kernel's own, between two kernel threads on one core, in the same process and in turns.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_multiples_of_the_kernels_own_switch() {
        let row = json!({
            "way": "standby", "p50_ns": 9000, "p99_ns": 30000, "native_p50_ns": 3000, "native_p99_ns": 8000,
            "blocks": 2000, "taken_by_standby": 1990, "cost_of_a_core": 0.004, "wake_ups_when_idle": 0
        });
        let text = table(&[row]);
        assert!(text.contains(" 3.0") && text.contains(" 10.0") && text.contains("0.40 % of a core"), "{text}");
    }
}
