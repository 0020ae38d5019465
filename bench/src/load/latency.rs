//! Latencies, in a histogram whose error is at most a thousandth (hdrhistogram), and the short code by which a thread
//! notes one that has no histogram of its own.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Digits of a latency that are kept; one less where it is told to another process.
const DIGITS: u8 = 3;

/// How often each latency was seen.
///
/// ```
/// use raddle_bench::load::latency::Latencies;
/// let mut seen = Latencies::new();
/// (1..=1000).for_each(|ns| seen.note(ns * 1000));
/// assert!((500_000..=500_500).contains(&seen.quantile(0.5)));
/// assert!((990_000..=991_000).contains(&seen.quantile(0.99)));
/// ```
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    // It grows with what is noted.
    Histogram::new(digits).unwrap_or_else(|_| unreachable!("up to five digits are allowed"))
}

impl Latencies {
    /// None seen.
    pub fn new() -> Self {
        Latencies(histogram(DIGITS))
    }

    /// One more of `ns` nanoseconds.
    #[inline]
    pub fn note(&mut self, ns: u64) {
        self.note_times(ns, 1);
    }

    fn note_times(&mut self, ns: u64, times: u64) {
        // Too large a latency would need more memory than there is, and none is some 300 years long.
        let _ = self.0.record_n(ns.min(u64::MAX >> 1), times);
    }

    /// One more of those that have this code ([`code_of`]).
    #[inline]
    pub fn note_code(&mut self, code: u16) {
        self.note(lowest(usize::from(code)));
    }

    /// Those that another one has seen, too.
    pub fn add(&mut self, other: &Latencies) {
        other.0.iter_recorded().for_each(|seen| self.note_times(seen.value_iterated_to(), seen.count_at_value()));
    }

    /// How many were seen.
    pub fn total(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this part of all does not exceed; 0 when none was seen.
    pub fn quantile(&self, part: f64) -> u64 {
        if self.total() == 0 { 0 } else { self.0.value_at_quantile(part) }
    }

    /// Parts of all, up to the last one, with the latency that each does not exceed: closer together towards the end.
    pub fn distribution(&self) -> Vec<(f64, u64)> {
        let last = 1.0 - 0.5 / self.total().max(1) as f64;
        let mut all: Vec<_> = self
            .0
            .iter_quantiles(4)
            .map(|step| (step.quantile_iterated_to().min(last), step.value_iterated_to()))
            .collect();
        all.dedup_by(|later, earlier| later.0 <= earlier.0);
        all
    }

    /// For another process: each latency, to two digits, and how often it was seen.
    pub fn told(&self) -> Value {
        let mut coarse = histogram(DIGITS - 1);
        self.0.iter_recorded().for_each(|seen| {
            let _ = coarse.record_n(seen.value_iterated_to(), seen.count_at_value());
        });
        coarse.iter_recorded().map(|seen| json!([seen.value_iterated_to(), seen.count_at_value()])).collect()
    }

    /// What another process has [told](Latencies::told); nothing where it is something else.
    pub fn heard(told: &Value) -> Option<Self> {
        let mut all = Self::new();
        for pair in told.as_array()? {
            all.note_times(pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?);
        }
        Some(all)
    }
}

/// Bits of a value that a code keeps: it is of a bucket whose width is a 64th of its values.
const BITS: u32 = 6;
const CODES: usize = ((64 - BITS as usize) + 1) << BITS;

/// The code of a latency, below 2^12.
#[inline]
pub fn code_of(ns: u64) -> u16 {
    const { assert!(CODES < 1 << 12) };
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS + 1);
    let kept = (ns >> shift) as usize;
    (if shift == 0 { kept } else { ((shift as usize) << BITS) + kept }) as u16
}

/// The smallest value of a code.
fn lowest(code: usize) -> u64 {
    let bits = BITS as usize;
    if code < 2 << bits {
        return code as u64;
    }
    let shift = (code >> bits) - 1;
    ((code - (shift << bits)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_of_values_a_64th_apart_at_most() {
        for ns in (0..5000).chain([1 << 20, (1 << 20) + 12_345, 7 << 40, u64::MAX]) {
            let low = lowest(code_of(ns).into());
            assert!(low <= ns && ns - low <= ns / 64, "{ns}: {low}");
        }
        let mut last = 0;
        for ns in (0..100_000).chain((17..64).map(|bit| 1 << bit)) {
            assert!(code_of(ns) >= last && usize::from(code_of(ns)) < CODES);
            last = code_of(ns);
        }
    }

    #[test]
    fn what_is_told_to_another_process_is_what_was_seen() {
        let mut seen = Latencies::new();
        (0..100_000u64).for_each(|number| seen.note(number * number));
        seen.note(u64::MAX);
        let heard = Latencies::heard(&seen.told()).unwrap();
        assert_eq!(heard.total(), seen.total());
        for part in [0.01, 0.5, 0.99, 0.999] {
            let (there, here) = (heard.quantile(part) as f64, seen.quantile(part) as f64);
            assert!((there / here - 1.0).abs() < 0.02, "{part}: {there} {here}");
        }
        let mut twice = seen.clone();
        twice.add(&heard);
        assert_eq!(twice.total(), 2 * seen.total());
        for odd in [json!(null), json!([[1]]), json!([["a", 1]])] {
            assert!(Latencies::heard(&odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn a_distribution_rises_to_the_last_one() {
        let mut seen = Latencies::new();
        (1..=1000).for_each(|ns| seen.note(ns * 1000));
        let all = seen.distribution();
        assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{all:?}");
        let &(part, ns) = all.last().unwrap();
        assert!(part > 0.999 && part < 1.0 && ns >= 1_000_000, "{all:?}");
        assert!(Latencies::new().distribution().is_empty());
        assert_eq!(Latencies::new().quantile(0.5), 0);
    }
}
