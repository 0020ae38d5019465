//! Plots as SVG: lines with their points, axes with titles and units, round numbers at the ticks.
//!
//! An axis is logarithmic where its values ask for it: places that grow by factors (1, 2, 4, ... cores), heights that
//! span a factor of 50.

use std::fmt::Write as _;

/// A line of a plot: its name and its points.
pub type Series = (String, Vec<(f64, f64)>);

/// What an axis shows.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Numbers, with SI's prefixes.
    Number,
    /// Nanoseconds, in a unit that suits them.
    Nanoseconds,
}

impl Unit {
    fn show(self, value: f64) -> String {
        let (steps, unit): ([(f64, &str); 4], &str) = match self {
            Unit::Number => ([(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")], ""),
            Unit::Nanoseconds => ([(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")], " ns"),
        };
        let step = steps.iter().find(|(size, _)| value.abs() >= *size);
        let (value, unit) = step.map_or((value, unit), |(size, unit)| (value / size, unit));
        // Three digits, without those that say nothing.
        let text = format!("{:.*}", if value.abs() >= 10.0 { 1 } else { 3 }, value);
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        format!("{text}{unit}")
    }
}

/// An axis: from where to where, whether by factors, and the ticks.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// Across: values that stand for themselves.
    fn of_places(mut places: Vec<f64>) -> Self {
        places.sort_by(f64::total_cmp);
        places.dedup();
        let (low, high) = ends(&places);
        let grow = places.windows(2).all(|pair| pair[0] > 0.0 && pair[1] >= 1.5 * pair[0]);
        if places.len() >= 4 && grow && high >= 8.0 * low {
            return Self { low, high, logarithmic: true, ticks: places };
        }
        let ticks = if places.len() <= 6 && places.len() > 1 { places } else { round_ticks(low, high) };
        Self { low, high, logarithmic: false, ticks }
    }

    /// Upwards: from 0, or from a power of ten where the values span factors.
    fn of_heights(heights: &[f64]) -> Self {
        let positive: Vec<f64> = heights.iter().copied().filter(|height| *height > 0.0).collect();
        let (low, high) = ends(&positive);
        if positive.len() == heights.len() && low > 0.0 && high >= 50.0 * low {
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let ticks: Vec<f64> = (first..=last).map(|power| 10f64.powi(power)).collect();
            return Self { low: ticks[0], high: ticks[ticks.len() - 1], logarithmic: true, ticks };
        }
        let ticks = round_ticks(0.0, high);
        Self { low: 0.0, high: ticks.last().copied().unwrap_or(1.0).max(high), logarithmic: false, ticks }
    }

    /// Where a value stands, from 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let (low, high, value) = match self.logarithmic {
            true => (self.low.ln(), self.high.ln(), value.ln()),
            false => (self.low, self.high, value),
        };
        if high > low { (value - low) / (high - low) } else { 0.5 }
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) }
}

/// From the last round number below to the first above, by steps of 1, 2 or 5 times a power of ten: up to eight.
fn round_ticks(low: f64, high: f64) -> Vec<f64> {
    let span = if high > low { high - low } else { 1.0 };
    let power = 10f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| span / step <= 6.0);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    (first..=last.max(first + 1)).map(|number| number as f64 * step).collect()
}

/// Fit for a page.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const COLOURS: [&str; 8] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"];
const DASHES: [&str; 3] = ["none", "7 3", "2 3"];
const LEFT: f64 = 86.0;
const WIDTH: f64 = 540.0;
const TOP: f64 = 12.0;
const HEIGHT: f64 = 280.0;

/// One plot with its heading.
pub fn plot(title: &str, across: &str, (upwards, unit): (&str, Unit), series: &[Series]) -> String {
    let points = || series.iter().flat_map(|(_, points)| points);
    let (horizontal, vertical) = (
        Axis::of_places(points().map(|point| point.0).collect()),
        Axis::of_heights(&points().map(|point| point.1).collect::<Vec<_>>()),
    );
    let x = |value: f64| LEFT + horizontal.at(value) * WIDTH;
    let y = |value: f64| TOP + (1.0 - vertical.at(value)) * HEIGHT;
    let longest = series.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as f64;
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let (all, tall) = (right + 40.0 + 6.6 * longest, (bottom + 44.0).max(TOP + 20.0 + 17.0 * series.len() as f64));
    let mut svg = format!(
        "<h2>{0}</h2>\n<svg viewBox=\"0 0 {all:.0} {tall:.0}\" width=\"{all:.0}\" role=\"img\" aria-label=\"{0}\">\n",
        escape(title)
    );
    for &tick in &vertical.ticks {
        let (at, label) = (y(tick), unit.show(tick));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#8884\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for &tick in horizontal.ticks.iter().filter(|tick| (horizontal.low..=horizontal.high).contains(tick)) {
        let (at, label) = (x(tick), Unit::Number.show(tick));
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" stroke=\"currentColor\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 5.0,
            bottom + 18.0
        );
    }
    let by_factors = |axis: &Axis| if axis.logarithmic { " (log)" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{}</text><text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}{}</text>",
        LEFT + WIDTH / 2.0,
        bottom + 36.0,
        escape(across),
        by_factors(&horizontal),
        TOP + HEIGHT / 2.0,
        escape(upwards),
        by_factors(&vertical)
    );
    for (index, (name, points)) in series.iter().enumerate() {
        let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index / COLOURS.len() % DASHES.len()]);
        let path: Vec<String> = points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            path.join(" ")
        );
        for point in points {
            let (across, up) = (Unit::Number.show(point.0), unit.show(point.1));
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {across}, {up}</title></circle>",
                x(point.0),
                y(point.1),
                escape(name)
            );
        }
        let at = TOP + 10.0 + 17.0 * index as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\
             <text x=\"{:.1}\" y=\"{at:.1}\">{}</text>",
            right + 8.0,
            right + 28.0,
            at - 4.0,
            at - 4.0,
            right + 34.0,
            escape(name)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        assert_eq!(round_ticks(0.0, 97.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round_ticks(0.0, 3.0), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        for high in [1e-9, 0.3, 1.0, 7.0, 12_345.0, 9.9e12] {
            let ticks = round_ticks(0.0, high);
            assert!((2..=12).contains(&ticks.len()) && ticks[ticks.len() - 1] >= high, "{high}: {ticks:?}");
        }
    }

    #[test]
    fn powers_of_two_stand_at_equal_distances_and_steps_of_ten_do_too() {
        let powers = Axis::of_places((0..8).map(|power| f64::from(1 << power)).collect());
        assert!(
            powers.logarithmic && (powers.at(2.0) - powers.at(1.0) - (powers.at(128.0) - powers.at(64.0))).abs() < 1e-9
        );
        assert_eq!(powers.ticks.len(), 8);
        let tens = Axis::of_places((1..=12).map(|ten| f64::from(ten * 10)).collect());
        assert!(!tens.logarithmic && tens.at(10.0) == 0.0 && tens.at(120.0) == 1.0);
    }

    #[test]
    fn heights_begin_at_nought_unless_they_span_factors() {
        let near = Axis::of_heights(&[3.0, 4.0]);
        assert!(!near.logarithmic && near.at(0.0) == 0.0);
        let far = Axis::of_heights(&[30.0, 400_000.0]);
        assert!(far.logarithmic && far.ticks == [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert!(!Axis::of_heights(&[0.0, 400_000.0]).logarithmic);
        assert!(Axis::of_heights(&[]).at(0.5).is_finite());
    }

    #[test]
    fn labels_have_units_and_no_idle_digits() {
        let shown = [0.0, 0.25, 64.0, 1500.0, 2e6].map(|value| Unit::Number.show(value));
        assert_eq!(shown, ["0", "0.25", "64", "1.5k", "2M"]);
        let shown = [0.0, 200.0, 12_500.0, 3e9].map(|value| Unit::Nanoseconds.show(value));
        assert_eq!(shown, ["0 ns", "200 ns", "12.5 µs", "3 s"]);
    }

    #[test]
    fn every_point_is_drawn_inside_and_names_are_escaped() {
        let series = vec![("a<b".to_string(), vec![(1.0, 5.0), (2.0, 0.0)]), ("one".to_string(), vec![(1.0, 1.0)])];
        let svg = plot("t", "cores", ("speed", Unit::Number), &series);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a&lt;b") && !svg.contains("NaN") && !svg.contains("inf"));
        assert!(plot("t", "x", ("y", Unit::Number), &[]).ends_with("</svg>\n"));
    }
}
