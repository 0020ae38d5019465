//! Order statistics of the rounds.

/// Minimum, quartiles and maximum.
///
/// ```
/// let spread = raddle_bench::stats::Spread::of(&[3.0, 1.0, 2.0]).unwrap();
/// assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest value.
    pub min: f64,
    /// The first quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub q3: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`, or nothing when there are none. Between two values it interpolates linearly.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        Some(Spread {
            min: first,
            q1: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            q3: quantile(&sorted, 0.75),
            max: last,
        })
    }
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_five_are_members() {
        let spread = Spread::of(&[50.0, 10.0, 40.0, 20.0, 30.0]).unwrap();
        let expected = Spread { min: 10.0, q1: 20.0, median: 30.0, q3: 40.0, max: 50.0 };
        assert_eq!(spread, expected);
    }

    #[test]
    fn an_even_number_is_interpolated() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((spread.q1, spread.median, spread.q3), (1.75, 2.5, 3.25));
    }

    #[test]
    fn nothing_and_one() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.min, one.q1, one.median, one.q3, one.max), (7.0, 7.0, 7.0, 7.0, 7.0));
    }
}
