//! A page that needs nothing but itself: a bar chart with whiskers and a table for each case.

use super::Row;
use super::circumstances::circumstances;
use super::table::{columns, figure, heading, nanoseconds, same_case};
use crate::harness::Results;
use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light dark; --bar: #4878a8; --first: #c8702a; --line: #888; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .8rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child, td.error { text-align: left; }
td.error { color: #b03030; }
table.where td { text-align: left; border: 0; }
circle.round { fill: currentColor; opacity: .55; }
svg { width: 100%; height: auto; margin: .5rem 0; }
svg text { font: 13px system-ui, sans-serif; fill: currentColor; }
rect.bar { fill: var(--bar); } rect.first { fill: var(--first); }
line.whisker { stroke: currentColor; stroke-width: 1.5; } line.axis { stroke: var(--line); stroke-width: .5; }
";

/// The whole page. `command` is shown as what made it.
pub fn html(results: &Results, command: &str) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n<title>raddle bench</title>\n");
    let _ = write!(page, "<style>{STYLE}</style></head>\n<body>\n<h1>raddle bench</h1>\n");
    let _ = writeln!(
        page,
        "<p>Made by <code>{}</code>. Bars are medians of the rounds, boxes the quartiles, whiskers",
        escape(command)
    );
    page.push_str(
        "minimum and maximum, dots the rounds. Shorter is better; the ratio is to the first runtime named.</p>\n",
    );
    page.push_str("<table class=\"where\">\n");
    for (name, value) in circumstances() {
        let _ = writeln!(page, "<tr><td>{name}</td><td>{}</td></tr>", escape(&value));
    }
    page.push_str("</table>\n");
    let mut rows = results.rows.as_slice();
    while let Some(first) = rows.first() {
        let count = rows.iter().take_while(|row| same_case(row, first)).count();
        let (group, rest) = rows.split_at(count);
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&heading(first)));
        chart(&mut page, group);
        figures(&mut page, group);
        further(&mut page, group);
        page.push_str("</section>\n");
        rows = rest;
    }
    notes(&mut page, "Missing", &results.missing);
    notes(&mut page, "Settings", &results.settings);
    page.push_str("</body>\n</html>\n");
    page
}

const WIDTH: f64 = 560.0;
const ROW: f64 = 26.0;

fn chart(page: &mut String, rows: &[Row]) {
    let shown: Vec<_> = rows.iter().filter_map(|row| Some((row, row.spread?))).collect();
    let largest = shown.iter().map(|(_, spread)| spread.max).fold(0.0, f64::max);
    if largest <= 0.0 {
        return;
    }
    // As wide as the longest label: policies may be long.
    let longest = shown.iter().map(|(row, _)| row.label().chars().count()).max().unwrap_or(0);
    let left = (7.2 * longest as f64 + 16.0).max(190.0);
    let at = |ns: f64| left + WIDTH * ns / largest;
    let height = ROW * shown.len() as f64 + 44.0;
    let _ =
        writeln!(page, "<svg viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"medians\">", left + WIDTH + 90.0);
    for (i, (row, spread)) in shown.iter().enumerate() {
        let top = ROW * i as f64 + 4.0;
        let middle = top + ROW / 2.0 - 2.0;
        let class = if std::ptr::eq(*row, &rows[0]) { "bar first" } else { "bar" };
        let width = (at(spread.median) - left).max(1.0);
        let bar = ROW - 10.0;
        let _ = writeln!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            middle + 5.0,
            escape(&row.label())
        );
        let _ = writeln!(
            page,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{bar}\"/>",
            top + 3.0
        );
        let (q1, q3) = (at(spread.q1), at(spread.q3));
        let _ = writeln!(
            page,
            "<rect x=\"{q1:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"6\" fill=\"none\" stroke=\"currentColor\"/>",
            middle - 3.0,
            (q3 - q1).max(0.5)
        );
        whisker(page, at(spread.min), at(spread.max), middle);
        for ns in &row.each {
            let _ = writeln!(page, "<circle class=\"round\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3\"/>", at(*ns));
        }
        let _ = writeln!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            at(spread.max) + 6.0,
            middle + 5.0,
            nanoseconds(spread.median)
        );
    }
    let bottom = height - 38.0;
    for tick in ticks(largest) {
        let x = at(tick);
        let _ = writeln!(
            page,
            "<line class=\"axis\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 5.0,
            bottom + 20.0,
            nanoseconds(tick)
        );
    }
    let _ = writeln!(page, "<line class=\"axis\" x1=\"{left:.1}\" y1=\"0\" x2=\"{left:.1}\" y2=\"{bottom}\"/>\n</svg>");
}

/// Round numbers up to `largest`, by steps of 1, 2 or 5 times a power of ten.
fn ticks(largest: f64) -> Vec<f64> {
    let power = 10f64.powf((largest / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| largest / step <= 6.0);
    let step = step.unwrap_or(10.0 * power);
    (0..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= largest).collect()
}

fn whisker(page: &mut String, low: f64, high: f64, y: f64) {
    let mut line = |x1: f64, y1: f64, x2: f64, y2: f64| {
        let _ = writeln!(page, "<line class=\"whisker\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    };
    line(low, y, high, y);
    line(low, y - 4.0, low, y + 4.0);
    line(high, y - 4.0, high, y + 4.0);
}

fn figures(page: &mut String, rows: &[Row]) {
    page.push_str("<table><tr><th>runtime</th><th>median</th><th>min</th><th>q1</th><th>q3</th><th>max</th>");
    page.push_str("<th>ratio</th><th>peak RSS, KiB</th><th>rounds</th></tr>\n");
    for row in rows {
        let _ = write!(page, "<tr><td>{}</td>", escape(&row.label()));
        match row.spread {
            Some(s) => {
                for ns in [s.median, s.min, s.q1, s.q3, s.max] {
                    let _ = write!(page, "<td>{}</td>", nanoseconds(ns));
                }
                let ratio = row.ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
                let rss = row.rss_kib.map_or_else(|| "–".into(), |kib| kib.to_string());
                let _ = write!(page, "<td>{ratio}</td><td>{rss}</td><td>{}</td>", row.rounds);
                if let Some(error) = &row.error {
                    let _ = write!(page, "<td class=\"error\">{}</td>", escape(error));
                }
            }
            None => {
                let error = row.error.as_deref().unwrap_or("no round was run");
                let _ = write!(page, "<td class=\"error\" colspan=\"8\">{}</td>", escape(error));
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// Latencies and counts, where the workload or the runtime gives some.
fn further(page: &mut String, rows: &[Row]) {
    let columns = columns(rows);
    if columns.is_empty() {
        return;
    }
    page.push_str("<table><tr><th>runtime</th>");
    for (title, _, _) in &columns {
        let _ = write!(page, "<th>{title}</th>");
    }
    page.push_str("</tr>\n");
    for row in rows.iter().filter(|row| columns.iter().any(|(_, key, _)| figure(row, key).is_some())) {
        let _ = write!(page, "<tr><td>{}</td>", escape(&row.label()));
        for (_, key, show) in &columns {
            let _ = write!(page, "<td>{}</td>", figure(row, key).map_or_else(|| "–".into(), show));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn notes(page: &mut String, title: &str, entries: &[(String, String)]) {
    if entries.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>{title}</h2>\n<ul>\n");
    for (name, about) in entries {
        let _ = writeln!(page, "<li><b>{}</b>: {}</li>", escape(name), escape(about));
    }
    page.push_str("</ul>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn results() -> Results {
        Results {
            rows: vec![samples::row("raddle", 10.0), samples::row("go", 30.0), samples::failed("std")],
            missing: vec![("java".into(), "needs <21>".into())],
            settings: Vec::new(),
            failed: false,
        }
    }

    #[test]
    fn the_page_is_self_contained_and_escaped() {
        let page = html(&results(), "raddle bench \"create\"");
        assert!(page.contains("needs &lt;21&gt;") && page.contains("&quot;create&quot;"));
        for outside in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!page.contains(outside), "the page refers to {outside}");
        }
    }

    #[test]
    fn each_runtime_with_figures_has_a_bar_and_each_failure_its_reason() {
        let page = html(&results(), "");
        assert_eq!(page.matches("<rect class=\"bar").count(), 2);
        assert_eq!(page.matches("<circle class=\"round\"").count(), 6);
        assert!(page.contains("<td>date</td>") && page.contains("<td>kernel</td>"));
        assert!(page.contains("timed out after 30 s"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(36.0), [0.0, 10.0, 20.0, 30.0]);
        for largest in [0.004, 1.0, 59.0, 8.1e9] {
            let ticks = ticks(largest);
            assert!((3..=7).contains(&ticks.len()) && ticks[0] == 0.0, "{largest}: {ticks:?}");
        }
    }

    #[test]
    fn no_figures_no_chart() {
        let only_failed = Results { rows: vec![samples::failed("std")], ..results() };
        assert!(!html(&only_failed, "").contains("<svg"));
    }
}
