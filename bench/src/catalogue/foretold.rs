//! How long a process of a case takes, as far as earlier runs tell, so that a bench can say it before it begins.

use super::{Args, Case, nanos};
use crate::load::catalogue::is_load;

/// Of [`Workload::slow`](super::Workload::slow), which is there to tell what hangs, the share that was measured:
/// medians of all runtimes and arguments in the kept results (`bench/results/*/*.json`, two cores, 2026-11-21 to 29),
/// summed up for each workload. `locks` by the clock: 1,050 processes from 09:36 to 09:39
/// (`2026-11-28-xeon-2-cores-locks/locks.txt`). `bench/tests/foretold.rs` compares.
const SHARES: &[(&str, f64)] = &[
    ("create", 0.053),
    ("park", 0.052),
    ("yield", 0.034),
    ("pp_chan", 0.023),
    ("pp_cond", 0.01),
    ("lock_local", 0.083),
    ("lock_global", 0.054),
    ("lock_block", 0.017),
    ("locks", 0.6),
    ("city", 0.02),
    ("eratosthenes", 0.02),
    ("mandelbrot", 0.041),
    ("matrix", 0.038),
    ("news", 0.024),
    ("producer", 0.022),
    ("tokenring", 0.045),
    ("skynet", 0.019),
    ("fib", 0.041),
    ("nqueens", 0.02),
    ("radix", 0.007),
    ("packet", 0.16),
    ("packet-cache", 0.10),
    ("packet-bimodal", 0.215),
    ("options", 0.02),
    ("mixer", 0.024),
];
/// That of all workloads in the kept results together, for those that are in none.
const OVERALL_SHARE: f64 = 0.051;
/// Of `mixer-load`, counted off `Search` and not measured: one of its first number, three of the double, and four or
/// five halvings of which every other takes three.
const RUNS_OF_A_SEARCH: f64 = 12.0;

impl Case {
    /// About how many seconds a process of so many repetitions takes.
    pub fn usual_seconds(&self, repetitions: u32) -> f64 {
        // A load is not repeated: it has a time to warm up.
        if is_load(self.workload) {
            return nanos(&self.args, &["ms"], 1e6) + nanos(&self.args, &["warm_ms"], 1e6);
        }
        let share = self.measured_share().unwrap_or(OVERALL_SHARE);
        let computed = share * (self.workload.slow)(&self.args);
        computed.max(paced(self.workload.name, &self.args)) * f64::from(repetitions)
    }

    /// The share of [`Workload::slow`](super::Workload::slow) that this workload took in the kept results.
    pub fn measured_share(&self) -> Option<f64> {
        SHARES.iter().find(|(name, _)| *name == self.workload.name).map(|(_, share)| *share)
    }
}

/// How long a repetition lasts by its arguments, however quick the runtime is, in seconds.
fn paced(workload: &str, args: &Args) -> f64 {
    match workload {
        "sleep" => nanos(args, &["ms", "turns"], 1e6),
        "mixer" => nanos(args, &["F", "pace_us"], 1e3),
        "mixer-load" => RUNS_OF_A_SEARCH * nanos(args, &["F", "pace_us"], 1e3),
        "wake_remote" => nanos(args, &["n", "gap_us"], 1e3),
        name if name == "staged" || name.starts_with("packet") => nanos(args, &["N", "gap"], 1.0),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{all, cases, find};
    use super::*;

    fn case(name: &str, item: &str) -> Case {
        cases(find(name).unwrap(), &[item.into()], 2).unwrap().remove(0)
    }

    #[test]
    fn what_is_paced_takes_as_long_as_its_pace() {
        assert!(case("sleep", "10").usual_seconds(1) >= 1.0);
        assert!(case("mixer", "by=yield:pace_us=20000").usual_seconds(2) >= 4.0);
        assert!(case("staged", "gap=20000").usual_seconds(1) >= 1.0);
        // Three seconds, and one to warm up, whatever the number of repetitions.
        assert_eq!(case("echo", "1000").usual_seconds(2), 4.0);
    }

    #[test]
    fn no_process_is_foretold_to_be_given_up() {
        for case in all().flat_map(|workload| cases(workload, &[], 2).unwrap()) {
            let (usual, limit) = (case.usual_seconds(2), case.limit_seconds(2) as f64);
            assert!(usual > 0.0 && usual < limit, "{} {}: {usual} s of {limit}", case.workload.name, case.args);
        }
    }

    #[test]
    fn each_share_is_of_a_workload() {
        assert!(SHARES.iter().all(|(name, _)| find(name).is_ok()));
    }
}
