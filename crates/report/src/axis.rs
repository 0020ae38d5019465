//! Axes: from where to where, linear or by factors, with round ticks.

/// What an axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers, with SI's prefixes.
    Number,
    /// Nanoseconds, in a unit that suits them.
    Nanoseconds,
    /// Parts of a hundred.
    Percent,
    /// Multiples of something.
    Times,
}

impl Unit {
    fn steps(self) -> &'static [(f64, &'static str)] {
        match self {
            Unit::Number => &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
            Unit::Nanoseconds => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
            Unit::Percent => &[(1.0, "%")],
            Unit::Times => &[(1.0, "×")],
        }
    }

    /// The largest step that a value has at least.
    fn step(self, value: f64) -> (f64, &'static str) {
        let steps = self.steps();
        let fits = steps.iter().find(|(size, _)| value.abs() >= *size * (1.0 - 1e-9));
        *fits.unwrap_or(&steps[steps.len() - 1])
    }

    /// A value with its unit, three digits and none that say nothing.
    ///
    /// ```
    /// use raddle_report::Unit;
    /// assert_eq!(Unit::Nanoseconds.show(12_500.0), "12.5 µs");
    /// assert_eq!(Unit::Number.show(1500.0), "1.5k");
    /// ```
    pub fn show(self, value: f64) -> String {
        let (size, name) = self.step(value);
        let gap = if self == Unit::Number || self == Unit::Times { "" } else { " " };
        format!("{}{gap}{name}", digits(value / size))
    }
}

/// Three digits, without those that say nothing.
fn digits(value: f64) -> String {
    let after = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.after$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// An axis: its title and what it shows. Where it begins and ends, and whether it goes by factors, its values tell.
#[derive(Clone, Debug)]
pub struct Axis {
    title: String,
    unit: Unit,
    /// From here bars go; 0 unless another value is level.
    pub(crate) level: f64,
}

impl Axis {
    /// An axis.
    pub fn of(title: &str, unit: Unit) -> Self {
        Self { title: title.to_string(), unit, level: 0.0 }
    }

    /// An axis of factors, on which 1 is level.
    pub fn of_factors(title: &str) -> Self {
        Self { title: title.to_string(), unit: Unit::Times, level: 1.0 }
    }

    pub(crate) fn unit(&self) -> Unit {
        self.unit
    }

    /// For places along the other axis: they stand for themselves, so a few of them are the ticks. They go by factors
    /// where they grow so (1, 2, 4, ... cores).
    pub(crate) fn across(&self, mut places: Vec<f64>) -> Scale {
        places.sort_by(f64::total_cmp);
        places.dedup();
        let (low, high) = ends(&places);
        let grow = places.windows(2).all(|pair| pair[0] > 0.0 && pair[1] >= 1.4 * pair[0]);
        let spans = low > 0.0 && high >= 50.0 * low;
        if places.len() >= 3 && (grow && high >= 4.0 * low || spans) {
            return match grow && places.len() <= 14 {
                true => Scale::new(self, low, high, true, places),
                false => self.by_factors(low, high),
            };
        }
        let ticks = if (2..=6).contains(&places.len()) { places } else { round(low, high) };
        let inside = ticks.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
        Scale::new(self, low, high, false, inside)
    }

    /// For heights: by factors where they span many; from 0, unless they differ by little.
    pub(crate) fn upwards(&self, heights: &[f64]) -> Scale {
        let (low, high) = ends(heights);
        if !heights.is_empty() && low > 0.0 && high >= 50.0 * low {
            return self.by_factors(low, high);
        }
        let from = if low > 0.8 * high && high > low { low - 0.25 * (high - low) } else { low.min(0.0) };
        let ticks = round(from, high);
        Scale::new(self, ticks[0], ticks[ticks.len() - 1], false, ticks)
    }

    /// By factors, ending at ticks.
    pub(crate) fn by_factors(&self, low: f64, high: f64) -> Scale {
        let ticks = factors(low, high);
        Scale::new(self, ticks[0], ticks[ticks.len() - 1], true, ticks)
    }
}

/// An axis with the values that stand on it.
pub(crate) struct Scale {
    title: String,
    unit: Unit,
    low: f64,
    high: f64,
    pub(crate) logarithmic: bool,
    pub(crate) ticks: Vec<f64>,
    /// All ticks in one unit, which stands in the title; none where they go over several.
    common: Option<(f64, &'static str)>,
}

impl Scale {
    fn new(axis: &Axis, low: f64, high: f64, logarithmic: bool, ticks: Vec<f64>) -> Self {
        let common = axis.unit.step(high);
        let common = (!logarithmic && axis.unit != Unit::Number).then_some(common);
        Self { title: axis.title.clone(), unit: axis.unit, low, high, logarithmic, ticks, common }
    }

    /// Where a value stands, from 0 to 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high, value) = match self.logarithmic {
            true => (self.low.ln(), self.high.ln(), value.ln()),
            false => (self.low, self.high, value),
        };
        if high > low { (value - low) / (high - low) } else { 0.5 }
    }

    pub(crate) fn label(&self, tick: f64) -> String {
        self.common.map_or_else(|| self.unit.show(tick), |(size, _)| digits(tick / size))
    }

    pub(crate) fn title(&self) -> String {
        let unit = self.common.map_or_else(String::new, |(_, name)| format!(" [{name}]"));
        format!("{}{unit}{}", self.title, if self.logarithmic { " (log)" } else { "" })
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) }
}

/// From the last round number below to the first above, by steps of 1, 2 or 5 times a power of ten: up to eight.
fn round(low: f64, high: f64) -> Vec<f64> {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let power = 10f64.powf((span / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| span / step <= 6.0);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
    (first..=last.max(first + 1)).map(|number| number as f64 * step).collect()
}

/// Powers of ten round both ends; within two of them also 2 and 5 times each.
fn factors(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = ((low.log10() + 1e-9).floor() as i32, (high.log10() - 1e-9).ceil() as i32);
    if last - first > 2 {
        return (first..=last.max(first + 1)).map(|power| 10f64.powi(power)).collect();
    }
    let all: Vec<f64> =
        (first - 1..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|part| part * 10f64.powi(power))).collect();
    let begin = all.iter().rposition(|tick| *tick <= low * (1.0 + 1e-9)).unwrap_or(0);
    let end = all.iter().position(|tick| *tick >= high * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    all[begin..=end.max(begin + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(unit: Unit) -> Axis {
        Axis::of("time", unit)
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        assert_eq!(round(0.0, 97.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(round(0.0, 3.0), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
        for high in [1e-9, 0.3, 1.0, 7.0, 12_345.0, 9.9e12] {
            let ticks = round(0.0, high);
            assert!((2..=12).contains(&ticks.len()) && ticks[ticks.len() - 1] >= high * 0.999_999, "{high}: {ticks:?}");
            for low in [high / 3.0, high / 40.0, high / 1e6] {
                let ticks = factors(low, high);
                let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
                assert!((2..=14).contains(&ticks.len()), "{low} {high}: {ticks:?}");
                assert!(first <= low * 1.000_001 && last >= high * 0.999_999, "{low} {high}: {ticks:?}");
            }
        }
    }

    #[test]
    fn powers_of_two_stand_at_equal_distances_and_steps_of_ten_do_too() {
        let powers = axis(Unit::Number).across((0..8).map(|power| f64::from(1 << power)).collect());
        let far = powers.at(2.0) - powers.at(1.0) - (powers.at(128.0) - powers.at(64.0));
        assert!(powers.logarithmic && far.abs() < 1e-9 && powers.ticks.len() == 8);
        let tens = axis(Unit::Number).across((1..=12).map(|ten| f64::from(ten * 10)).collect());
        assert!(!tens.logarithmic && tens.at(10.0) == 0.0 && tens.at(120.0) == 1.0);
    }

    #[test]
    fn heights_begin_at_nought_unless_they_span_factors_or_differ_by_little() {
        let near = axis(Unit::Number).upwards(&[3.0, 5.0]);
        assert!(!near.logarithmic && near.at(0.0) == 0.0);
        let nearer = axis(Unit::Percent).upwards(&[98.0, 99.5]);
        assert!(!nearer.logarithmic && nearer.ticks[0] >= 97.0 && nearer.at(98.0) >= 0.0, "{:?}", nearer.ticks);
        let far = axis(Unit::Nanoseconds).upwards(&[30.0, 400_000.0]);
        assert!(far.logarithmic && far.ticks == [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!((far.label(1e4), far.title()), ("10 µs".into(), "time (log)".into()));
        assert!(!axis(Unit::Number).upwards(&[0.0, 400_000.0]).logarithmic);
        for odd in [&[][..], &[0.0], &[7.0, 7.0], &[-3.0, 2.0]] {
            let scale = axis(Unit::Number).upwards(odd);
            assert!(scale.at(0.5).is_finite() && scale.ticks.len() >= 2, "{odd:?}: {:?}", scale.ticks);
        }
    }

    #[test]
    fn a_linear_axis_has_its_unit_in_its_title() {
        let scale = axis(Unit::Nanoseconds).upwards(&[100.0, 2_600.0]);
        assert_eq!(scale.title(), "time [µs]");
        assert_eq!(
            scale.ticks.iter().map(|tick| scale.label(*tick)).collect::<Vec<_>>().join(" "),
            "0 0.5 1 1.5 2 2.5 3"
        );
    }

    #[test]
    fn labels_have_units_and_no_idle_digits() {
        let shown = [0.0, 0.25, 64.0, 1500.0, 2e6, 0.999_999_999_9e6].map(|value| Unit::Number.show(value));
        assert_eq!(shown, ["0", "0.25", "64", "1.5k", "2M", "1M"]);
        let shown = [0.0, 200.0, 12_500.0, 3e9].map(|value| Unit::Nanoseconds.show(value));
        assert_eq!(shown, ["0 ns", "200 ns", "12.5 µs", "3 s"]);
    }
}
