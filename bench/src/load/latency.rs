//! Latencies, counted in buckets whose width is a 64th of their value.

/// Bits of a value that a bucket keeps.
const BITS: u32 = 6;
const BUCKETS: usize = ((64 - BITS as usize) + 1) << BITS;

/// How often each latency was seen.
///
/// ```
/// use raddle_bench::load::latency::Latencies;
/// let mut seen = Latencies::new();
/// (1..=1000).for_each(|ns| seen.note(ns * 1000));
/// assert!((485_000..=500_000).contains(&seen.quantile(0.5)));
/// assert!((975_000..=990_000).contains(&seen.quantile(0.99)));
/// ```
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// None seen.
    pub fn new() -> Self {
        Latencies { counts: vec![0; BUCKETS], total: 0 }
    }

    /// One more of `ns` nanoseconds.
    #[inline]
    pub fn note(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    /// One more of those that [`bucket_of`] puts into this bucket.
    #[inline]
    pub fn note_bucket(&mut self, bucket: u16) {
        self.counts[usize::from(bucket)] += 1;
        self.total += 1;
    }

    /// Those that another one has seen, too.
    pub fn add(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
    }

    /// How many were seen.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The latency that this part of all does not exceed, at most a 64th too small; 0 when none was seen.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (part * self.total as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        for (index, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= wanted {
                return lowest(index);
            }
        }
        0
    }
}

/// The bucket of a latency, of less than 2^12: what a thread notes that has no counters of its own.
#[inline]
pub fn bucket_of(ns: u64) -> u16 {
    const { assert!(BUCKETS < 1 << 12) };
    bucket(ns) as u16
}

#[inline]
fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS + 1);
    let kept = (ns >> shift) as usize;
    if shift == 0 { kept } else { ((shift as usize) << BITS) + kept }
}

/// The smallest value of a bucket.
fn lowest(bucket: usize) -> u64 {
    let bits = BITS as usize;
    if bucket < 2 << bits {
        return bucket as u64;
    }
    let shift = (bucket >> bits) - 1;
    ((bucket - (shift << bits)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_at_most_a_64th_wide() {
        for ns in (0..5000).chain([1 << 20, (1 << 20) + 12_345, 7 << 40, u64::MAX]) {
            let low = lowest(bucket(ns));
            assert!(low <= ns && ns - low <= ns / 64, "{ns}: {low}");
        }
    }

    #[test]
    fn a_bucket_counts_as_its_values_do() {
        let (mut values, mut buckets) = (Latencies::new(), Latencies::new());
        for ns in (0..100_000).step_by(77).chain([u64::MAX]) {
            values.note(ns);
            buckets.note_bucket(bucket_of(ns));
        }
        assert_eq!(values.counts, buckets.counts);
        assert_eq!(values.total(), buckets.total());
    }

    #[test]
    fn buckets_ascend() {
        let mut last = 0;
        for ns in (0..100_000).chain((17..64).map(|bit| 1 << bit)) {
            assert!(bucket(ns) >= last && bucket(ns) < BUCKETS);
            last = bucket(ns);
        }
    }
}
