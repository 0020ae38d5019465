//! The table for a terminal.

use super::Row;
use crate::catalogue::Unit;
use crate::harness::Results;
use std::fmt::Write as _;

/// All rows, grouped by workload and arguments, then what is missing and how the runtimes were set up.
pub fn table(results: &Results) -> String {
    let mut text = String::new();
    let mut rows = results.rows.as_slice();
    while let Some(first) = rows.first() {
        let count = rows.iter().take_while(|row| same_case(row, first)).count();
        group(&mut text, &rows[..count]);
        rows = &rows[count..];
    }
    text + &notes(results)
}

/// One case: rows of the same workload, arguments and processors.
pub fn case_table(rows: &[Row]) -> String {
    let mut text = String::new();
    if !rows.is_empty() {
        group(&mut text, rows);
    }
    text
}

/// What is missing, and how the runtimes were set up.
pub fn notes(results: &Results) -> String {
    let mut text = String::new();
    let notes = [("missing", &results.missing), ("settings", &results.settings)];
    for (title, entries) in notes.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        let _ = writeln!(text, "{title}:");
        for (name, about) in entries {
            let _ = writeln!(text, "  {name}: {about}");
        }
    }
    text
}

/// Whether two rows compare: the same workload, arguments and processors.
pub(super) fn same_case(a: &Row, b: &Row) -> bool {
    (&a.workload, &a.args, a.processors) == (&b.workload, &b.args, b.processors)
}

/// Workload, arguments and processors.
pub(super) fn setting(row: &Row) -> String {
    let processors = if row.processors == 1 { "1 processor".into() } else { format!("{} processors", row.processors) };
    format!("{} {}, {processors}", row.workload, row.args)
}

/// What the figures mean.
pub(super) fn time_of(row: &Row) -> String {
    match row.unit {
        Unit::Each(what) => format!("time per {what}"),
        Unit::Run => "time of the whole run".into(),
    }
}

/// The heading of a group.
fn heading(row: &Row) -> String {
    format!("{}: {}", setting(row), time_of(row))
}

fn group(text: &mut String, rows: &[Row]) {
    let width = rows.iter().map(|row| row.label().chars().count()).max().unwrap_or(0).max(8);
    let _ = writeln!(text, "{}", heading(&rows[0]));
    let _ = writeln!(
        text,
        "  {:width$} {:>10} {:>10} {:>10} {:>7} {:>10}",
        "", "median", "min", "max", "ratio", "peak RSS"
    );
    for row in rows {
        let label = row.label();
        let _ = match (&row.spread, &row.error) {
            (Some(s), _) => writeln!(
                text,
                "  {label:width$} {:>10} {:>10} {:>10} {:>7} {:>10}",
                nanoseconds(s.median),
                nanoseconds(s.min),
                nanoseconds(s.max),
                row.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
                row.rss_kib.map_or_else(|| "-".into(), size),
            ),
            (None, _) => writeln!(text, "  {label:width$} {}", row.without_figure()),
        };
        if let (Some(_), Some(error)) = (&row.spread, &row.error) {
            let _ = writeln!(text, "  {:width$} {} of the rounds counted; {error}", "", row.rounds);
        }
        if let (Some(rss), Some(tables)) = (figure(row, "rss_per_thread"), figure(row, "page_tables_per_thread")) {
            let _ = writeln!(text, "  {:width$} {rss:.0} B resident and {tables:.0} B of page tables per thread", "");
        }
    }
    further(text, rows, width);
    text.push('\n');
}

/// Latencies and counts, where the workload or the runtime gives some.
fn further(text: &mut String, rows: &[Row], width: usize) {
    let columns = columns(rows);
    if columns.is_empty() {
        return;
    }
    let _ = write!(text, "  {:width$}", "");
    for (title, _, _) in &columns {
        let _ = write!(text, " {title:>11}");
    }
    text.push('\n');
    for row in rows.iter().filter(|row| columns.iter().any(|(_, key, _)| figure(row, key).is_some())) {
        let _ = write!(text, "  {:width$}", row.label());
        for (_, key, show) in &columns {
            let _ = write!(text, " {:>11}", figure(row, key).map_or_else(|| "-".into(), show));
        }
        text.push('\n');
    }
}

/// A title, a key, and how the figure is shown.
pub(super) type Column = (&'static str, &'static str, fn(f64) -> String);

/// The further figures that some of the rows have. What a runtime counts is shown only where the workload has
/// latencies, or where policies are compared: elsewhere it would be noise.
pub(super) fn columns(rows: &[Row]) -> Vec<&'static Column> {
    let latencies = rows.iter().any(|row| figure(row, "p50_ns").is_some());
    let compared = rows.iter().filter(|row| row.policy.is_some()).count() > 1;
    let some = |key: &str| rows.iter().any(|row| figure(row, key).is_some());
    let wanted = |(_, key, _): &&Column| some(key) && (latencies || compared || !COUNTED.contains(key));
    FIGURES.iter().filter(wanted).collect()
}

const COUNTED: [&str; 3] = ["steals_tried", "steals_won", "spawn_retries"];

fn count(count: f64) -> String {
    format!("{count:.0}")
}

const FIGURES: [Column; 25] = [
    ("requests/s", "requests_per_s", count),
    ("p50", "p50_ns", nanoseconds),
    ("p99", "p99_ns", nanoseconds),
    ("p99.9", "p999_ns", nanoseconds),
    ("p99.99", "p9999_ns", nanoseconds),
    ("longest", "longest_ns", nanoseconds),
    ("late p50", "late_p50_ns", nanoseconds),
    ("late p99", "late_p99_ns", nanoseconds),
    ("turns", "turns_in_time", count),
    ("late", "late_share", |share| format!("{:.2} %", 100.0 * share)),
    ("conferences", "conferences", count),
    ("late runs", "late_runs", count),
    ("speed-up", "speed_up", |times| format!("{times:.2}")),
    ("ceiling", "ceiling", |times| format!("{times:.2}")),
    ("in flight", "in_flight", count),
    ("accepted", "accepted", count),
    ("retries", "spawn_retries", count),
    ("steals", "steals_won", count),
    ("tried", "steals_tried", count),
    ("delay p50", "delay_p50_ns", nanoseconds),
    ("delay p99", "delay_p99_ns", nanoseconds),
    ("CPU/request", "server_cpu_ns", nanoseconds),
    ("RSS", "server_rss_kib", |kib| size(kib as u64)),
    ("page tables", "server_page_tables_kib", |kib| size(kib as u64)),
    ("kernel thr.", "server_kernel_threads", count),
];

pub(super) fn figure(row: &Row, key: &str) -> Option<f64> {
    row.extra.get(key)?.as_f64()
}

/// A time with three significant digits and a unit that fits.
///
/// ```
/// use raddle_bench::report::nanoseconds;
/// assert_eq!(nanoseconds(8.25), "8.25 ns");
/// assert_eq!(nanoseconds(1_234_000.0), "1.23 ms");
/// ```
pub fn nanoseconds(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

pub(super) fn size(kib: u64) -> String {
    match kib {
        kib if kib < 10 * 1024 => format!("{kib} KiB"),
        kib if kib < 10 * 1024 * 1024 => format!("{} MiB", kib / 1024),
        kib => format!("{:.1} GiB", kib as f64 / (1024.0 * 1024.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn failures_missing_peers_and_settings_are_all_shown() {
        let results = Results {
            rows: vec![samples::row("raddle", 10.0), samples::failed("std")],
            missing: vec![("java".into(), "no program".into())],
            settings: vec![("raddle".into(), "2 processors".into())],
            failed: false,
        };
        let text = table(&results);
        for part in
            ["create N=1000, 2 processors: time per thread", "10.0 ns", "timed out after 30 s", "java: no program"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn servers_have_a_second_table() {
        let mut row = samples::row("threads", 10.0);
        row.extra.insert("requests_per_s".into(), 123_456.0.into());
        row.extra.insert("p99_ns".into(), 7_500_000.into());
        let results = Results { rows: vec![row], missing: Vec::new(), settings: Vec::new(), failed: false };
        let text = table(&results);
        assert!(text.contains("requests/s") && text.contains("123456") && text.contains("7.50 ms"), "{text}");
    }

    #[test]
    fn counts_are_shown_beside_latencies_or_when_policies_are_compared() {
        let titles = |rows: &[Row]| columns(rows).iter().map(|(title, _, _)| *title).collect::<Vec<_>>();
        let mut row = samples::row("raddle", 10.0);
        row.extra.insert("steals_won".into(), 7.into());
        assert!(titles(std::slice::from_ref(&row)).is_empty());
        row.policy = Some("fifo".into());
        let other = Row { policy: Some("lifo".into()), ..row.clone() };
        assert_eq!(titles(&[row.clone(), other]), ["steals"]);
        row.extra.insert("p50_ns".into(), 1.into());
        assert_eq!(titles(&[row]), ["p50", "steals"]);
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!(nanoseconds(999.0), "999 ns");
        assert_eq!(nanoseconds(45_600.0), "45.6 µs");
        assert_eq!(nanoseconds(2.5e9), "2.50 s");
        assert_eq!(size(500), "500 KiB");
        assert_eq!(size(3 * 1024 * 1024), "3072 MiB");
        assert_eq!(size(11 * 1024 * 1024), "11.0 GiB");
    }
}
