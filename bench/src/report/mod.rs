//! Rows, and the three ways to show them.

pub mod baseline;
mod html;
mod locks;
mod table;

pub use html::html;
pub use locks::decision;
pub use table::{case_table, nanoseconds, notes, table};

use crate::catalogue::Unit;
use crate::load::latency::Latencies;
use crate::stats::Spread;
use baseline::{Baseline, Change};
use raddle_report::Circumstances;
use serde_json::{Value, json};

/// The figures of one runtime, under one policy, for one workload with one set of arguments.
#[derive(Clone, Debug)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// Its arguments.
    pub args: String,
    /// The runtime.
    pub runtime: String,
    /// The policy, where the runtime has some and one was named.
    pub policy: Option<String>,
    /// How many processors were used.
    pub processors: usize,
    /// How many rounds gave a figure.
    pub rounds: usize,
    /// By how many operations the time is divided.
    pub ops: Option<u64>,
    /// Nanoseconds for one operation.
    pub spread: Option<Spread>,
    /// The same of each round.
    pub each: Vec<f64>,
    /// The median over the rounds of the largest resident set.
    pub rss_kib: Option<u64>,
    /// The checksum; a wrong one when there was one.
    pub checksum: Option<u64>,
    /// The median as a multiple of the first contestant's.
    pub ratio: Option<f64>,
    /// A round failed or the checksum is wrong: why.
    pub error: Option<String>,
    /// The checksum is wrong.
    pub disagrees: bool,
    /// What the figure is the time of.
    pub unit: Unit,
    /// Of all rounds, where the program tells them.
    pub latencies: Option<Latencies>,
    /// The last round's further figures.
    pub extra: serde_json::Map<String, Value>,
}

impl Row {
    /// Why there is no figure, where there is none.
    pub fn without_figure(&self) -> &str {
        match &self.error {
            Some(error) => error,
            None if self.rounds > 0 => "no operation was done",
            None => "no round was run",
        }
    }

    /// The runtime and its policy.
    pub fn label(&self) -> String {
        match &self.policy {
            Some(policy) => format!("{} {policy}", self.runtime),
            None => self.runtime.clone(),
        }
    }

    /// The row as an object with the keys that scripts rely on.
    fn json(&self, about: &About) -> Value {
        let part = |pick: fn(&Spread) -> f64| self.spread.as_ref().map(pick);
        let place: serde_json::Map<String, Value> =
            about.circumstances.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        let mut row = json!({
            "workload": self.workload,
            "args": self.args,
            "runtime": self.runtime,
            "policy": self.policy,
            "processors": self.processors,
            "rounds": self.rounds,
            "ops": self.ops,
            "ns_median": part(|s| s.median),
            "ns_min": part(|s| s.min),
            "ns_max": part(|s| s.max),
            "ns_q1": part(|s| s.q1),
            "ns_q3": part(|s| s.q3),
            "ns_rounds": self.each,
            "rss_kib": self.rss_kib,
            "checksum": self.checksum,
            "ratio": self.ratio,
            "error": self.error,
            "extra": self.extra,
            "where": place,
        });
        let more = [
            ("latency_distribution_ns", self.latencies.as_ref().map(|seen| json!(seen.distribution()))),
            ("baseline", about.change(self).map(|change| {
                json!({ "ns_median": change.before, "change": change.by, "verdict": change.verdict.word() })
            })),
        ];
        for (key, value) in more {
            if let Some(value) = value {
                row[key] = value;
            }
        }
        row
    }
}

/// What made the rows, where and when, and what they are compared with.
#[derive(Clone, Debug)]
pub struct About {
    /// The command.
    pub command: String,
    /// As they were before something was measured.
    pub circumstances: Circumstances,
    /// An earlier run.
    pub baseline: Option<Baseline>,
}

impl Default for About {
    fn default() -> Self {
        Self { command: String::new(), circumstances: Circumstances::now(), baseline: None }
    }
}

impl About {
    /// What changed about this row since the earlier run, if there is one.
    pub fn change(&self, row: &Row) -> Option<Change> {
        self.baseline.as_ref()?.change(row)
    }

    /// All rows beside the earlier run, for a terminal; nothing where there is none.
    pub fn compared(&self, rows: &[Row]) -> String {
        self.baseline.as_ref().map_or_else(String::new, |baseline| baseline.table(rows, &self.circumstances))
    }
}

/// All rows, one object a line.
pub fn json_lines(rows: &[Row], about: &About) -> String {
    rows.iter().map(|row| format!("{}\n", row.json(about))).collect()
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A row with a figure.
    pub fn row(runtime: &str, median: f64) -> Row {
        Row {
            workload: "create".into(),
            args: "N=1000".into(),
            runtime: runtime.into(),
            policy: None,
            processors: 2,
            rounds: 5,
            ops: Some(1000),
            spread: Spread::of(&[median * 0.9, median, median * 1.2]),
            each: vec![median * 0.9, median, median * 1.2],
            rss_kib: Some(2048),
            checksum: Some(1000),
            ratio: Some(1.0),
            error: None,
            disagrees: false,
            unit: Unit::Each("thread"),
            latencies: None,
            extra: serde_json::Map::new(),
        }
    }

    /// A row that failed.
    pub fn failed(runtime: &str) -> Row {
        let error = Some("timed out after 30 s".to_string());
        Row {
            spread: None,
            each: Vec::new(),
            ops: None,
            rss_kib: None,
            checksum: None,
            ratio: None,
            rounds: 0,
            error,
            ..row(runtime, 0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 18] = [
        "workload",
        "args",
        "runtime",
        "policy",
        "processors",
        "rounds",
        "ops",
        "ns_median",
        "ns_min",
        "ns_max",
        "ns_q1",
        "ns_q3",
        "ns_rounds",
        "rss_kib",
        "checksum",
        "ratio",
        "error",
        "where",
    ];

    #[test]
    fn every_line_has_every_key_also_after_a_failure() {
        let text = json_lines(&[samples::row("go", 10.0), samples::failed("std")], &About::default());
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        for line in &lines {
            for key in KEYS {
                assert!(line.get(key).is_some(), "{key} is missing");
            }
        }
        assert_eq!(lines[0]["error"], Value::Null);
        assert_eq!(lines[0]["ns_median"], 10.0);
        assert_eq!(lines[1]["error"], "timed out after 30 s");
        assert_eq!(lines[1]["ns_median"], Value::Null);
    }
}
