//! Every workload at a size of milliseconds: whether a program is right, not how fast it is.

use crate::catalogue::{self, Case};
use crate::child;
pub use crate::lacks::lacks;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SMALL: [(&str, &str); 63] = [
    ("create", "100"),
    ("park", "50"),
    ("sleep", "N=20:ms=2:turns=3"),
    ("yield", "T=4:total=400"),
    ("pp_chan", "50"),
    ("pp_cond", "50"),
    ("null_fork", "50"),
    ("signal_wait", "50"),
    ("lock_local", "T=4:total=400"),
    ("lock_global", "T=4:total=400"),
    ("lock_block", "T=4:total=400"),
    ("locks", "T=4:total=400"),
    ("locks", "T=4:total=400:by=barging"),
    ("locks", "T=4:total=400:by=fair"),
    // A minute's turns at the least: the time ends them.
    ("locks", "T=4:total=4000000000:ms=1"),
    // Who spins waits for a kernel thread that may have no core: few turns.
    ("locks", "T=2:total=20:by=spin:hold=50"),
    ("locks", "T=2:total=20:by=mcs:gap=50"),
    ("locks", "T=2:total=20:by=h1:burst=3:gap=50"),
    ("locks", "T=2:total=20:by=h2:locks=2"),
    ("locks", "T=2:total=20:by=hemlock"),
    ("locks", "T=2:total=20:by=cna"),
    ("locks", "T=2:total=20:by=reciprocating"),
    ("locks", "T=2:total=20:by=try"),
    ("faults", "T=4:total=400:elements=3"),
    ("faults", "T=4:total=400:elements=3:by=coarse:load=2"),
    ("faults", "T=4:total=400:elements=1:load=2"),
    ("faults", "T=4:total=400:elements=3:by=hybrid"),
    ("faults", "T=4:total=400:elements=1:by=hybrid:load=2"),
    ("faults", "T=4:total=400:elements=3:by=clustered"),
    ("wake_remote", "n=20:gap_us=10"),
    ("city", "N=10:K=3:C=2"),
    ("eratosthenes", "100"),
    ("mandelbrot", "N=100:C=2000:K=5000"),
    ("matrix", "M=3:n=20"),
    ("nbody", "N=100:chunk=9:block=10:memory=50:miss_us=500"),
    ("news", "N=10:M=3:K=4"),
    ("producer", "N=3:C=2:K=50"),
    ("tokenring", "N=5:K=20"),
    ("skynet", "100:by=spawn"),
    ("skynet", "100:by=join"),
    ("skynet", "100:by=scope"),
    ("fib", "8:by=spawn"),
    ("fib", "8:by=join"),
    ("fib", "8:by=scope"),
    ("nqueens", "5:by=join"),
    ("nqueens", "5:by=scope"),
    ("radix", "r=5:N=4096:T=8"),
    ("packet", "300"),
    ("packet", "N=200:spawners=3:work=500:gap=2000"),
    ("packet-copy", "200"),
    ("packet-cache", "50"),
    ("packet-bimodal", "N=40"),
    ("packet-bimodal", "N=40:low=1"),
    ("options", "n=256:B=16"),
    ("options", "n=64:B=8:by=sequential"),
    ("mixer", "C=5:P=3:F=4"),
    ("mixer", "C=3:P=2:F=4:by=yield"),
    ("mixer", "C=3:P=2:F=3:pace_us=500"),
    ("mixer", "C=2:P=2:F=3:pace_us=500:by=yield"),
    ("mixer-load", "C=2:F=2:pace_us=1"),
    ("staged", "N=50:first=100:second=100:by=pool"),
    ("staged", "N=50:first=100:second=100:by=bounded"),
    ("staged", "N=50:first=100:second=100:places=2:gap=10:by=stages"),
];

/// The cases, on two processors.
pub fn cases() -> Result<Vec<Case>, String> {
    SMALL
        .iter()
        .map(|(name, item)| {
            let mut cases = catalogue::cases(catalogue::find(name)?, &[item.to_string()], 2)?;
            Ok(cases.remove(0))
        })
        .collect()
}

/// Runs all cases on a program. Gives the cases that it does not offer, or the first in which it fails or is wrong.
///
/// ```
/// let error = raddle_bench::smoke::check("/absent/program".as_ref(), &[]).unwrap_err();
/// assert!(error.contains("create N=100"));
/// ```
pub fn check(program: &Path, words: &[&str]) -> Result<Vec<String>, String> {
    let mut refused = Vec::new();
    for case in cases()? {
        let name = format!("{} {}", case.workload.name, case.args);
        let mut command = Command::new(program);
        command.arg(case.workload.name).args(["--processors", "2"]).args(words);
        command.args(case.args.iter().map(|(key, value)| format!("{key}={value}")));
        let report = child::run(command, Duration::from_secs(case.limit_seconds(10)));
        match (report, case.expected()) {
            (Err(error), _) if error.starts_with("not offered") => refused.push(name),
            (Err(error), _) => return Err(format!("{name}: {error}")),
            (Ok(report), Some(sum)) if report.checksum != sum => {
                return Err(format!("{name}: checksum {}, but {sum} is right", report.checksum));
            }
            (Ok(_), None) => return Err(format!("{name}: the right checksum is unknown")),
            (Ok(_), Some(_)) => {}
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workload_is_left_out() {
        for workload in catalogue::of_threads() {
            assert!(SMALL.iter().any(|(name, _)| *name == workload.name), "{}", workload.name);
        }
    }
}
