//! A page that needs nothing but itself: for each case a chart with every round, the distribution of latencies where
//! there is one, and tables.

use super::baseline::{HOW, Verdict};
use super::table::{columns, figure, nanoseconds, same_case, setting, time_of};
use super::{About, Row};
use crate::harness::Results;
use raddle_report::{Axis, Bar, Bars, Page, Series, Unit, bars, quantiles};

/// The whole page.
pub fn html(results: &Results, about: &About) -> String {
    let mut page = Page::new("raddle bench", &about.command);
    page.circumstances(&about.circumstances);
    page.paragraph(
        "Bars are medians of the rounds, boxes the quartiles, whiskers minimum and maximum, dots the rounds, each a \
         process of its own. Shorter is better; the ratio is to the first runtime named.",
    );
    if let Some(baseline) = &about.baseline {
        page.paragraph(&format!(
            "Compared with {}; dashed marks are its medians. {HOW}",
            baseline.about(&about.circumstances)
        ));
    }
    let mut rows = results.rows.as_slice();
    while let Some(first) = rows.first() {
        let count = rows.iter().take_while(|row| same_case(row, first)).count();
        let (group, rest) = rows.split_at(count);
        let title = format!("{}: {}", setting(first), time_of(first));
        let body = [chart(group, about), figures(group, about), latencies(group), further(group)].concat();
        page.section(&title, &body);
        rows = rest;
    }
    page.notes("Missing", &results.missing);
    page.notes("Settings", &results.settings);
    page.finish()
}

fn chart(rows: &[Row], about: &About) -> String {
    let bar = |(index, row): (usize, &Row)| {
        let spread = row.spread?;
        let change = about.change(row);
        Some(Bar {
            label: row.label(),
            figure: spread.median,
            quartiles: (row.each.len() > 3).then_some((spread.q1, spread.q3)),
            rounds: row.each.clone(),
            before: change.as_ref().map(|change| change.before),
            note: change.map_or_else(String::new, |change| format!(" ({})", change.text())),
            stands_out: index == 0,
        })
    };
    let all: Vec<Bar> = rows.iter().enumerate().filter_map(bar).collect();
    let title = format!("medians of {}", setting(&rows[0]));
    bars(&Bars { title: &title, axis: Axis::of(&time_of(&rows[0]), Unit::Nanoseconds), all: &all })
}

fn figures(rows: &[Row], about: &About) -> String {
    let mut heads: Vec<(&str, &str)> = ["runtime", "median", "min", "q1", "q3", "max", "ratio", "peak RSS", "rounds"]
        .into_iter()
        .map(|head| ("", head))
        .collect();
    if about.baseline.is_some() {
        heads.extend([("", "before"), ("text", "change")]);
    }
    let line = |row: &Row| {
        let mut cells = vec![("", row.label())];
        let Some(s) = row.spread else {
            cells.push(("error", row.without_figure().to_string()));
            return cells;
        };
        cells.extend([s.median, s.min, s.q1, s.q3, s.max].map(|ns| ("", nanoseconds(ns))));
        let dash = || "–".to_string();
        cells.push(("", row.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}"))));
        cells.push(("", row.rss_kib.map_or_else(dash, super::table::size)));
        cells.push(("", row.rounds.to_string()));
        if about.baseline.is_some() {
            let change = about.change(row);
            cells.push(("", change.as_ref().map_or_else(dash, |change| nanoseconds(change.before))));
            let class = match change.as_ref().map(|change| change.verdict) {
                Some(Verdict::Slower) => "text slower",
                Some(Verdict::Faster) => "text faster",
                _ => "text",
            };
            cells.push((class, change.map_or_else(dash, |change| change.text())));
        }
        if let Some(error) = &row.error {
            cells.push(("error", error.clone()));
        }
        cells
    };
    raddle_report::table(&heads, rows.iter().map(line))
}

/// The distribution of each: whole where its program tells it, by the percentiles that it tells elsewhere.
fn latencies(rows: &[Row]) -> String {
    let series = |row: &Row| {
        let told = [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999), ("p9999_ns", 0.9999)];
        let points: Vec<(f64, f64)> = match &row.latencies {
            Some(seen) => seen.distribution().into_iter().map(|(part, ns)| (part, ns as f64)).collect(),
            None => told.into_iter().filter_map(|(key, part)| Some((part, figure(row, key)?))).collect(),
        };
        (points.len() > 1).then(|| Series::new(&row.label(), points))
    };
    let all: Vec<Series> = rows.iter().filter_map(series).collect();
    if all.is_empty() {
        return String::new();
    }
    let title = format!("latencies of {}", setting(&rows[0]));
    quantiles(&title, "part of all that takes no longer", &Axis::of("latency", Unit::Nanoseconds), &all)
}

/// Latencies and counts, where the workload or the runtime gives some.
fn further(rows: &[Row]) -> String {
    let columns = columns(rows);
    if columns.is_empty() {
        return String::new();
    }
    let heads: Vec<(&str, &str)> =
        [("", "runtime")].into_iter().chain(columns.iter().map(|(title, _, _)| ("", *title))).collect();
    let some = |row: &&Row| columns.iter().any(|(_, key, _)| figure(row, key).is_some());
    let line = |row: &Row| {
        let cell =
            |(_, key, show): &&super::table::Column| ("", figure(row, key).map_or_else(|| "–".to_string(), show));
        [("", row.label())].into_iter().chain(columns.iter().map(cell)).collect()
    };
    raddle_report::table(&heads, rows.iter().filter(some).map(line))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::load::latency::Latencies;

    fn results() -> Results {
        Results {
            rows: vec![samples::row("raddle", 10.0), samples::row("go", 30.0), samples::failed("std")],
            missing: vec![("java".into(), "needs <21>".into())],
            settings: Vec::new(),
            failed: false,
        }
    }

    fn about(command: &str) -> About {
        About { command: command.into(), ..About::default() }
    }

    #[test]
    fn the_page_is_self_contained_and_escaped() {
        let page = html(&results(), &about("raddle bench \"create\""));
        assert!(page.contains("needs &lt;21&gt;") && page.contains("&quot;create&quot;"));
        for outside in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!page.contains(outside), "the page refers to {outside}");
        }
    }

    #[test]
    fn each_runtime_with_figures_has_a_bar_and_each_failure_its_reason() {
        let page = html(&results(), &about(""));
        assert_eq!(page.matches("<rect class=\"bar").count(), 2);
        assert_eq!(page.matches("<circle class=\"round\"").count(), 6);
        assert!(page.contains("<td>date</td>") && page.contains("<td>kernel</td>"));
        assert!(page.contains("timed out after 30 s"));
        assert!(!page.contains("<polyline"), "no latencies, no distribution");
    }

    #[test]
    fn latencies_are_drawn_whole_or_by_their_percentiles() {
        let mut whole = samples::row("raddle", 10.0);
        let mut seen = Latencies::new();
        (1..=1000).for_each(|ns| seen.note(ns * 1000));
        whole.latencies = Some(seen);
        let mut some = samples::row("go", 10.0);
        some.extra.insert("p50_ns".into(), 7_000.into());
        some.extra.insert("p99_ns".into(), 90_000.into());
        let results = Results { rows: vec![whole, some], ..results() };
        let page = html(&results, &about(""));
        assert_eq!(page.matches("<polyline").count(), 2, "{page}");
        assert!(page.contains("99.9 %") && page.contains("latency"));
    }

    #[test]
    fn no_figures_no_chart() {
        let only_failed = Results { rows: vec![samples::failed("std")], ..results() };
        assert!(!html(&only_failed, &about("")).contains("<svg"));
    }
}
