//! Series of points, joined by lines.

use crate::axis::{Axis, Scale};
use crate::{CHARACTER, COLOURS, escape, width_of};
use std::fmt::Write as _;

/// A line of a plot.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, in order.
    pub points: Vec<(f64, f64)>,
    /// What the points were made of, drawn as faint dots: each round.
    pub rounds: Vec<(f64, f64)>,
}

impl Series {
    /// A line without rounds.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_string(), points, rounds: Vec::new() }
    }
}

const DASHES: [&str; 3] = ["none", "7 3", "2 3"];
const LEFT: f64 = 90.0;
const WIDTH: f64 = 560.0;
const TOP: f64 = 12.0;
const HEIGHT: f64 = 290.0;
/// Names that are longer stand below.
const BESIDE: f64 = 34.0 * CHARACTER;

/// Places across: ticks with their labels, and where a value stands, from 0 to 1.
struct Across<'a> {
    title: String,
    ticks: Vec<(f64, String)>,
    at: &'a dyn Fn(f64) -> f64,
    show: &'a dyn Fn(f64) -> String,
}

/// One plot. `title` is what a reader hears who does not see it.
pub fn lines(title: &str, across: &Axis, upwards: &Axis, series: &[Series]) -> String {
    let places = all(series).map(|point| point.0).collect();
    let scale = across.across(places);
    let ticks = scale.ticks.iter().map(|tick| (scale.at(*tick), scale.label(*tick))).collect();
    let at = |value| scale.at(value);
    let show = |value| across.unit().show(value);
    draw(title, &Across { title: scale.title(), ticks, at: &at, show: &show }, upwards, series)
}

/// Distributions: points are the part of all that does not exceed a value, from 0 to below 1, and that value. Half,
/// nine tenths, 99 % and so on stand at equal distances.
pub fn quantiles(title: &str, across: &str, upwards: &Axis, series: &[Series]) -> String {
    let nines = |part: f64| -(1.0 - part.clamp(0.0, 1.0 - 1e-9)).log10();
    let most = all(series).map(|point| nines(point.0)).fold(1.0, f64::max);
    let parts: [(f64, &str); 8] = [
        (0.0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
        (0.999999, "99.9999 %"),
    ];
    let inside = parts.into_iter().filter(|(part, _)| nines(*part) <= most + 1e-9);
    let ticks = inside.map(|(part, label)| (nines(part) / most, label.to_string())).collect();
    let at = |part: f64| nines(part) / most;
    let show = |part: f64| format!("{} %", (part * 1e7).round() / 1e5);
    draw(title, &Across { title: across.to_string(), ticks, at: &at, show: &show }, upwards, series)
}

fn all(series: &[Series]) -> impl Iterator<Item = &(f64, f64)> {
    series.iter().flat_map(|series| series.points.iter().chain(&series.rounds))
}

fn draw(title: &str, across: &Across, upwards: &Axis, series: &[Series]) -> String {
    let vertical: Scale = upwards.upwards(&all(series).map(|point| point.1).collect::<Vec<_>>());
    let x = |value: f64| LEFT + (across.at)(value) * WIDTH;
    let y = |value: f64| TOP + (1.0 - vertical.at(value)) * HEIGHT;
    let longest = width_of(series.iter().map(|series| series.name.as_str()));
    let beside = longest <= BESIDE;
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let names = 17.0 * series.len() as f64;
    let (all, tall) = match beside {
        true => (right + 50.0 + longest, (bottom + 48.0).max(TOP + 10.0 + names)),
        false => ((right + 30.0).max(LEFT + 40.0 + longest), bottom + 62.0 + names),
    };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {all:.0} {tall:.0}\" width=\"{all:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    );
    for &tick in &vertical.ticks {
        let (at, label) = (y(tick), vertical.label(tick));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#8884\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let mut free = f64::NEG_INFINITY;
    for (at, label) in &across.ticks {
        let (at, half) = (LEFT + at * WIDTH, CHARACTER * label.chars().count() as f64 / 2.0);
        // Where two labels would meet, the second has a tick alone.
        let text = if at - half > free {
            free = at + half + 4.0;
            format!("<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", bottom + 20.0)
        } else {
            String::new()
        };
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" stroke=\"#8884\"/>{text}",
            bottom + 5.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"currentColor\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        LEFT + WIDTH / 2.0,
        bottom + 40.0,
        escape(&across.title),
        TOP + HEIGHT / 2.0,
        escape(&vertical.title())
    );
    for (index, Series { name, points, rounds }) in series.iter().enumerate() {
        let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index / COLOURS.len() % DASHES.len()]);
        let path: Vec<String> = points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
        for round in rounds {
            let (x, y) = (x(round.0), y(round.1));
            let _ = writeln!(
                svg,
                "<circle class=\"round\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\" opacity=\"0.5\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            path.join(" ")
        );
        // Curves of many points need no dots.
        let dots = if points.len() <= 40 { points.as_slice() } else { &[] };
        for point in dots {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {}, {}</title></circle>",
                x(point.0),
                y(point.1),
                escape(name),
                (across.show)(point.0),
                upwards.unit().show(point.1)
            );
        }
        let from = if beside { (right + 12.0, TOP + 10.0) } else { (LEFT, bottom + 66.0) };
        let (at, line) = (from.1 + 17.0 * index as f64, from.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{line:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dash}\"/><text x=\"{:.1}\" y=\"{at:.1}\">{}</text>",
            line + 22.0,
            at - 4.0,
            at - 4.0,
            line + 28.0,
            escape(name)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn axes() -> (Axis, Axis) {
        (Axis::of("cores", Unit::Number), Axis::of("speed", Unit::Number))
    }

    #[test]
    fn every_point_is_drawn_inside_and_names_are_escaped() {
        let (across, upwards) = axes();
        let rounds = vec![(1.0, 4.0), (1.0, 6.0)];
        let series = [
            Series { rounds, ..Series::new("a<b", vec![(1.0, 5.0), (2.0, 0.0)]) },
            Series::new("one", vec![(1.0, 1.0)]),
        ];
        let svg = lines("t", &across, &upwards, &series);
        assert_eq!((svg.matches("<circle").count(), svg.matches("class=\"round\"").count()), (5, 2));
        assert!(svg.contains("a&lt;b") && !svg.contains("NaN") && !svg.contains("inf"));
        let none = lines("t", &across, &upwards, &[]);
        assert!(none.ends_with("</svg>\n") && !none.contains("NaN"));
    }

    #[test]
    fn labels_that_would_meet_are_left_out() {
        let (across, upwards) = axes();
        let points = (0..13).map(|power| (f64::from(1 << power) * 1e6, 1.0)).chain([(1.41e6, 1.0)]).collect();
        let svg = lines("t", &across, &upwards, &[Series::new("a", points)]);
        assert!(svg.contains(">1M<") && !svg.contains(">1.41M<"), "{svg}");
    }

    #[test]
    fn parts_of_all_stand_at_equal_distances_for_each_nine() {
        let points = vec![(0.0, 1e3), (0.5, 2e3), (0.9, 3e3), (0.99, 9e4), (0.999, 1e6)];
        let svg = quantiles("t", "part of all", &Axis::of("time", Unit::Nanoseconds), &[Series::new("a", points)]);
        for part in [">0 %<", ">99.9 %<", ">1 ms<", "a: 99.9 %, 1 ms"] {
            assert!(svg.contains(part), "{part} is not in\n{svg}");
        }
        assert!(!svg.contains("99.99 %"));
        let x = |label: &str| {
            let before = svg.split(&format!(" text-anchor=\"middle\">{label}<")).next().unwrap();
            before.rsplit("<text x=\"").next().unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!((x("99 %") - x("90 %") - (x("99.9 %") - x("99 %"))).abs() < 0.2);
    }
}
