//! Figures as a table, as JSON with the keys of `raddle bench`, and as a page with plots.
//!
//! # Example
//! ```
//! use raddle_sim::cost::Costs;
//! use raddle_sim::simulate::{Plan, simulate};
//! use raddle_sim::workloads::Workload;
//! use raddle_sim::report;
//! let workload = Workload::find("yield").unwrap();
//! let plan = Plan {
//!     policy: "fifo".parse().unwrap(),
//!     cores: 4,
//!     workload,
//!     arguments: workload.arguments("t=8:total=800").unwrap(),
//!     costs: Costs::preset("opteron").unwrap(),
//!     seed: 7,
//!     steps: 10_000_000,
//! };
//! let figures = simulate(&plan);
//! let rows = [(plan, figures)];
//! assert!(report::table(&rows).starts_with("yield t=8:total=800:work=0 under fifo on opteron (simulated, seed 7)"));
//! assert!(report::json_lines(&rows).contains("\"processors\":4"));
//! assert!(report::html(&rows, "raddle sim", &raddle_report::Circumstances::none()).contains("<svg"));
//! ```
#![forbid(unsafe_code)]

use crate::simulate::{Figures, Plan};
use raddle_report::{Axis, Circumstances, Page, Series, Unit, escape, lines};
use serde_json::json;
use std::fmt::Write as _;

/// What was simulated, and what came of it.
pub type Row = (Plan, Result<Figures, String>);

/// Nanoseconds in a unit that suits them.
fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..=9_999 => format!("{nanoseconds} ns"),
        10_000..=9_999_999 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        10_000_000..=9_999_999_999 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}

fn count(number: u64) -> String {
    match number {
        0..=99_999 => number.to_string(),
        100_000..=99_999_999 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

const HEADS: [&str; 12] = [
    "cores",
    "op/s",
    "elapsed",
    "p50",
    "p99",
    "p99.99",
    "steals",
    "won",
    "retries",
    "transfers",
    "stalls/instr",
    "busy",
];

fn cells(figures: &Figures) -> [String; 11] {
    let [p50, p99, p9999] = figures.lives.map(duration);
    let transfers: u64 = figures.counts.transfers.iter().sum();
    [
        count(figures.throughput() as u64),
        duration(figures.elapsed),
        p50,
        p99,
        p9999,
        count(figures.steals.0),
        count(figures.steals.1),
        count(figures.retries),
        count(transfers + figures.counts.cold),
        format!("{:.2}", figures.stalls()),
        format!("{:.0} %", figures.mean_utilisation() * 100.0),
    ]
}

/// One block for each policy and workload, a line for each number of cores. The percentiles are of the time from a
/// thread's spawn to its end.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut title = String::new();
    for (plan, result) in rows {
        let now = format!(
            "{} {} under {} on {} (simulated, seed {})",
            plan.workload.name, plan.arguments, plan.policy, plan.costs.name, plan.seed
        );
        if now != title {
            let gap = if title.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{now}");
            let _ = writeln!(text, "{}", line(&HEADS.map(String::from)));
            title = now;
        }
        let _ = match result {
            Ok(figures) => {
                let mut all = vec![plan.cores.to_string()];
                all.extend(cells(figures));
                writeln!(text, "{}", line(&all))
            }
            Err(why) => writeln!(text, "{:>6}  {why}", plan.cores),
        };
    }
    text
}

fn line(cells: &[String]) -> String {
    let widths = [6, 8, 10, 10, 10, 10, 8, 8, 8, 10, 13, 6];
    let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
    padded.join(" ")
}

/// One object a line.
pub fn json_lines(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{}\n", json_of(row))).collect()
}

fn json_of((plan, result): &Row) -> serde_json::Value {
    let mut object = json!({
        "workload": plan.workload.name,
        "args": plan.arguments.to_string(),
        "runtime": "raddle",
        "policy": plan.policy.to_string(),
        "processors": plan.cores,
        "rounds": 1,
        "simulated": true,
        "machine": plan.costs.name,
        "seed": plan.seed,
        "error": null,
    });
    let rest = match result {
        Err(why) => json!({ "error": why }),
        Ok(figures) => {
            let counts = &figures.counts;
            let percent = |share: &f64| (share * 10_000.0).round() / 100.0;
            let each = (figures.elapsed as f64 / figures.operations.max(1) as f64 * 1e3).round() / 1e3;
            json!({
                "ops": figures.operations,
                "ns_median": each,
                "elapsed_ns": figures.elapsed,
                "delay_p50": figures.delays[0], "delay_p99": figures.delays[1], "delay_p9999": figures.delays[2],
                "latency_p50": figures.lives[0], "latency_p99": figures.lives[1], "latency_p9999": figures.lives[2],
                "steals_tried": figures.steals.0, "steals_won": figures.steals.1,
                "spawn_retries": figures.retries,
                "accesses": counts.accesses, "exchanges": counts.exchanges,
                "transfers": counts.transfers, "cold_misses": counts.cold,
                "stalled_ns": counts.stalled, "executed_ns": counts.executed, "sleeps": counts.sleeps, "asleep_ns": counts.asleep, "wakes": counts.wakes,
                "utilisation": figures.utilisation.iter().map(percent).collect::<Vec<_>>(),
                "steps": figures.steps, "digest": format!("{:016x}", figures.digest),
            })
        }
    };
    if let (Some(object), serde_json::Value::Object(rest)) = (object.as_object_mut(), rest) {
        object.extend(rest);
    }
    object
}

/// A page of its own: plots over the number of cores, and the table.
pub fn html(rows: &[Row], command: &str, circumstances: &Circumstances) -> String {
    let mut page = Page::new("raddle sim", command);
    page.circumstances(circumstances);
    sections(&mut page, rows);
    page.finish()
}

/// The plots and the table of these runs.
pub(crate) fn sections(page: &mut Page, rows: &[Row]) {
    if let Some((plan, _)) = rows.first() {
        let mut seeds: Vec<u64> = rows.iter().map(|(plan, _)| plan.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let told = match seeds[..] {
            [seed] => format!("seed {seed}"),
            _ => format!("{} seeds from {} to {}", seeds.len(), seeds[0], seeds[seeds.len() - 1]),
        };
        page.paragraph(&format!("Simulated cores of {}, {told}.", plan.costs.name));
    }
    let mut names: Vec<String> = Vec::new();
    // Arguments only where they tell series apart.
    let differs =
        |word: &str| rows.iter().any(|(plan, _)| !plan.arguments.to_string().split(':').any(|own| own == word));
    let name_of = |plan: &Plan| {
        let arguments = plan.arguments.to_string();
        let told: Vec<&str> = arguments.split(':').filter(|word| !word.is_empty() && differs(word)).collect();
        let words = [plan.workload.name, &told.join(":"), &plan.policy.to_string()].map(String::from);
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    for (plan, _) in rows {
        if !names.contains(&name_of(plan)) {
            names.push(name_of(plan));
        }
    }
    let series = |value: fn(&Figures) -> f64| -> Vec<Series> {
        let points = |name: &String| {
            let of_name = rows.iter().filter(|(plan, _)| name_of(plan) == *name);
            of_name.filter_map(|(plan, result)| Some((plan.cores as f64, value(result.as_ref().ok()?)))).collect()
        };
        names.iter().map(|name| Series::new(name, points(name))).collect()
    };
    type Drawn = (&'static str, &'static str, Unit, fn(&Figures) -> f64);
    let plots: [Drawn; 5] = [
        ("Operations a second", "operations a second", Unit::Number, Figures::throughput),
        ("99th percentile from spawn to end", "time", Unit::Nanoseconds, |figures| figures.lives[1] as f64),
        ("Steals tried", "steals", Unit::Number, |figures| figures.steals.0 as f64),
        ("Stalls per instruction", "stalls per instruction", Unit::Number, Figures::stalls),
        ("Cores busy", "share of the time", Unit::Percent, |figures| figures.mean_utilisation() * 100.0),
    ];
    let cores = Axis::of("cores", Unit::Number);
    for (title, upwards, unit, value) in plots {
        page.section(title, &lines(title, &cores, &Axis::of(upwards, unit), &series(value)));
    }
    page.section("Figures", &format!("<pre>{}</pre>\n", escape(&table(rows))));
}
