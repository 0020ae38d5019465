//! A figure of each contestant: a bar, the quartiles as a box, whiskers to the ends, and each round as a dot.

use crate::axis::{Axis, Scale};
use crate::{escape, width_of};
use std::fmt::Write as _;

/// One contestant.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// Its figure: the median where there are rounds.
    pub figure: f64,
    /// Where the middle half of the rounds lies.
    pub quartiles: Option<(f64, f64)>,
    /// Each round.
    pub rounds: Vec<f64>,
    /// The figure that it is compared with, from an earlier run.
    pub before: Option<f64>,
    /// What stands behind the figure.
    pub note: String,
    /// Drawn in another colour.
    pub stands_out: bool,
}

/// A chart of them.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// What a reader hears who does not see it.
    pub title: &'a str,
    /// What the figures are.
    pub axis: Axis,
    /// The contestants, from above.
    pub all: &'a [Bar],
}

const WIDTH: f64 = 560.0;
const ROW: f64 = 26.0;
const TOP: f64 = 6.0;
/// Medians further apart than this stand on a logarithmic axis: the small ones would not be seen beside the large.
const FACTORS_FROM: f64 = 20.0;

fn values(bar: &Bar) -> impl Iterator<Item = f64> {
    bar.rounds.iter().copied().chain(bar.before).chain([bar.figure])
}

fn scale(axis: &Axis, all: &[Bar]) -> Scale {
    let figures = || all.iter().map(|bar| bar.figure);
    let (least, most) = (figures().fold(f64::INFINITY, f64::min), figures().fold(0.0, f64::max));
    let values: Vec<f64> = all.iter().flat_map(values).chain((axis.level > 0.0).then_some(axis.level)).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    if low > 0.0 && (axis.level > 0.0 || most >= FACTORS_FROM * least) {
        return axis.by_factors(low, high);
    }
    axis.upwards(&[0.0, high])
}

/// The chart; nothing where there is no contestant.
pub fn bars(chart: &Bars) -> String {
    let Bars { title, axis, all } = chart;
    if all.is_empty() {
        return String::new();
    }
    let scale = scale(axis, all);
    let left = width_of(all.iter().map(|bar| bar.label.as_str())) + 20.0;
    let at = |value: f64| left + WIDTH * scale.at(value);
    let told: Vec<String> = all.iter().map(|bar| format!("{}{}", axis.unit().show(bar.figure), bar.note)).collect();
    let (bottom, right) = (TOP + ROW * all.len() as f64, left + WIDTH);
    let (wide, tall) = (right + 24.0 + width_of(told.iter().map(String::as_str)), bottom + 44.0);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {wide:.0} {tall:.0}\" width=\"{wide:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    );
    let mut free = f64::NEG_INFINITY;
    for &tick in &scale.ticks {
        let (x, label) = (at(tick), scale.label(tick));
        let half = width_of([label.as_str()].into_iter()) / 2.0;
        let text = if x - half > free {
            free = x + half + 4.0;
            format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", bottom + 20.0)
        } else {
            String::new()
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#8886\"/>{text}",
            bottom + 5.0
        );
    }
    // On an axis of factors a bar begins where both are level, or, with no such place, at the end; a thin one, since
    // its length says nothing there.
    let (from, thick) = match scale.logarithmic {
        true if axis.level > 0.0 => (at(axis.level), ROW - 10.0),
        true => (left, 3.0),
        false => (at(0.0), ROW - 10.0),
    };
    let _ = writeln!(
        svg,
        "<line x1=\"{from:.1}\" y1=\"{TOP}\" x2=\"{from:.1}\" y2=\"{bottom}\" stroke=\"currentColor\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        left + WIDTH / 2.0,
        bottom + 38.0,
        escape(&scale.title())
    );
    for ((index, bar), told) in all.iter().enumerate().zip(&told) {
        let middle = TOP + ROW * (index as f64 + 0.5);
        let colour = if bar.stands_out { "#d07a3c" } else { "#4878a8" };
        let to = at(bar.figure);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thick}\" fill=\"{colour}\"/>",
            left - 8.0,
            middle + 4.5,
            escape(&bar.label),
            from.min(to),
            middle - thick / 2.0,
            (to - from).abs().max(1.0)
        );
        spread(&mut svg, bar, middle, &at);
        if let Some(before) = bar.before {
            let (x, above, below) = (at(before), middle - 10.0, middle + 10.0);
            let _ = writeln!(
                svg,
                "<path class=\"before\" d=\"M{x:.1} {above:.1}V{below:.1}\" stroke=\"currentColor\" stroke-width=\"3\" \
                 stroke-dasharray=\"3 2\"><title>before: {}</title></path>",
                axis.unit().show(before)
            );
        }
        let end = values(bar).map(at).fold(from, f64::max);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", end + 8.0, middle + 4.5, escape(told));
    }
    svg + "</svg>\n"
}

fn spread(svg: &mut String, bar: &Bar, middle: f64, at: &dyn Fn(f64) -> f64) {
    if bar.rounds.len() > 1 {
        let low = at(bar.rounds.iter().copied().fold(f64::INFINITY, f64::min));
        let high = at(bar.rounds.iter().copied().fold(0.0, f64::max));
        let (above, below) = (middle - 4.0, middle + 4.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {above:.1}V{below:.1}M{high:.1} {above:.1}V{below:.1}\" \
             stroke=\"currentColor\" stroke-width=\"1.2\"/>"
        );
    }
    if let Some((q1, q3)) = bar.quartiles.map(|(q1, q3)| (at(q1), at(q3))) {
        let _ = writeln!(
            svg,
            "<rect x=\"{q1:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\" fill=\"none\" stroke=\"currentColor\"/>",
            middle - 4.0,
            (q3 - q1).max(0.5)
        );
    }
    for round in &bar.rounds {
        let _ = writeln!(
            svg,
            "<circle class=\"round\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2.5\" fill=\"currentColor\" opacity=\"0.6\"/>",
            at(*round)
        );
    }
}

/// A chart as a file of its own, with its heading and a line below that: for documents.
pub(crate) fn standalone(svg: &str, heading: &str, note: &str) -> String {
    let size = |name: &str| -> f64 {
        let sizes = svg.split_once("viewBox=\"0 0 ").and_then(|(_, rest)| rest.split_once('"'));
        let mut sizes = sizes.map_or("0 0", |(sizes, _)| sizes).split(' ').map(|size| size.parse().unwrap_or(0.0));
        if name == "width" { sizes.next() } else { sizes.nth(1) }.unwrap_or(0.0)
    };
    let (wide, tall) = (size("width").max(24.0 + width_of([note].into_iter()) * 11.0 / 13.0), size("height") + 46.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide:.0}\" height=\"{tall:.0}\" viewBox=\"0 0 {wide:.0} {tall:.0}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\" color=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"20\" font-weight=\"bold\">{}</text>\n<text x=\"12\" y=\"37\" font-size=\"11\" fill=\"#555\">{}</text>\n{}</svg>\n",
        escape(heading),
        escape(note),
        svg.replacen("<svg ", &format!("<svg y=\"46\" height=\"{:.0}\" ", size("height")), 1)
    )
}

impl Bars<'_> {
    /// The chart as a file of its own, with its heading and a line below that: for documents.
    pub fn standalone(&self, note: &str) -> String {
        standalone(&bars(self), self.title, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn bar(label: &str, figure: f64) -> Bar {
        Bar { label: label.into(), figure, rounds: vec![figure * 0.9, figure, figure * 1.3], ..Bar::default() }
    }

    fn drawn(all: &[Bar], axis: Axis) -> String {
        bars(&Bars { title: "medians", axis, all })
    }

    #[test]
    fn each_has_a_bar_its_rounds_its_figure_and_what_it_was_before() {
        let mut all = [bar("raddle", 10.0), bar("go <1>", 30.0)];
        all[0].before = Some(12.0);
        all[1].note = ", slower".into();
        let svg = drawn(&all, Axis::of("time per thread", Unit::Nanoseconds));
        for (part, count) in [("class=\"bar\"", 2), ("class=\"round\"", 6), ("class=\"before\"", 1)] {
            assert_eq!(svg.matches(part).count(), count, "{part} in\n{svg}");
        }
        for part in ["go &lt;1&gt;", ">10 ns<", ">30 ns, slower<", ">time per thread [ns]<"] {
            assert!(svg.contains(part), "{part} is not in\n{svg}");
        }
        assert!(drawn(&[], Axis::of("x", Unit::Number)).is_empty());
    }

    #[test]
    fn figures_far_apart_stand_on_an_axis_of_factors() {
        let svg = drawn(&[bar("a", 100.0), bar("b", 5e6)], Axis::of("time", Unit::Nanoseconds));
        assert!(svg.contains("time (log)") && svg.contains(">1 µs<") && !svg.contains("NaN"), "{svg}");
        assert!(!drawn(&[bar("a", 0.0), bar("b", 5e6)], Axis::of("time", Unit::Nanoseconds)).contains("NaN"));
    }

    #[test]
    fn factors_go_to_both_sides_of_one() {
        let all = [bar("a", 4.0), bar("b", 0.5)];
        let chart = Bars { title: "how many <times>", axis: Axis::of_factors("ratio"), all: &all };
        let file = chart.standalone("a note");
        assert!(
            file.starts_with("<svg xmlns") && file.contains("how many &lt;times&gt;") && file.contains(">1×<"),
            "{file}"
        );
    }
}
