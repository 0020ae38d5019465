//! Which lock to take: section 5.2's rule of the Hurricane paper (sharing, contention, bursts) as a table, from the
//! rows of `locks`.

use super::Row;
use crate::args::Args;
use std::fmt::Write as _;

/// How a lock is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Own,
    Seldom,
    Bursts,
    Always,
    Extreme,
}

const USES: [(Use, &str); 5] = [
    (Use::Own, "own      none        -"),
    (Use::Seldom, "shared   low         even"),
    (Use::Bursts, "shared   low         bursts"),
    (Use::Always, "shared   high        -"),
    (Use::Extreme, "shared   extreme     -"),
];

fn used(args: &Args) -> Option<(u64, Use)> {
    let number = |key| args.number(key).ok();
    let (threads, locks) = (number("T")?, number("locks")?);
    let (hold, gap, burst) = (number("hold")?, number("gap")?, number("burst")?);
    let kind = match () {
        () if locks >= threads => Use::Own,
        () if hold == 0 && gap == 0 => Use::Extreme,
        // Less is held than the threads would need for themselves, one after the other: it is free more often than not.
        () if gap <= hold.saturating_mul(4) => Use::Always,
        () if burst > 1 => Use::Bursts,
        () => Use::Seldom,
    };
    Some((threads, kind))
}

/// Of each use and number of threads, our quickest lock; beside it those that were as quick, within both spreads; and
/// the quickest of the others. `None` if no lock was compared with another.
pub fn decision(rows: &[Row]) -> Option<String> {
    let mut seen: Vec<((u64, Use), &Row)> = Vec::new();
    for row in rows.iter().filter(|row| row.workload == "locks" && row.spread.is_some() && !row.disagrees) {
        seen.extend(Args::parse(row.args.split_whitespace()).ok().and_then(|args| used(&args)).map(|used| (used, row)));
    }
    let ours = |row: &&Row| row.runtime.starts_with("raddle-");
    seen.iter().find(|(_, row)| ours(row))?;
    let mut threads: Vec<u64> = seen.iter().map(|((threads, _), _)| *threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut text = String::from(
        "which lock (those that were as quick in brackets; then the quickest of the others, in multiples of it):\n",
    );
    let _ = writeln!(text, "  {:26}{:>8}  lock", "sharing  contention  turns", "threads");
    for (kind, name) in USES {
        for &threads in &threads {
            let of_case: Vec<&Row> =
                seen.iter().filter(|(used, _)| *used == (threads, kind)).map(|(_, row)| *row).collect();
            let (ours, others): (Vec<&Row>, Vec<&Row>) = of_case.into_iter().partition(ours);
            let cell = best(&ours, &others).unwrap_or_else(|| "-".into());
            let _ = writeln!(text, "  {name:26}{threads:>8}  {cell}");
        }
    }
    Some(text)
}

fn quickest<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let median = |row: &&&Row| row.spread.as_ref().map_or(f64::MAX, |spread| spread.median);
    rows.iter().min_by(|a, b| median(a).total_cmp(&median(b))).copied()
}

fn best(ours: &[&Row], others: &[&Row]) -> Option<String> {
    let first = quickest(ours)?;
    let spread = first.spread.as_ref()?;
    let name = |row: &Row| row.runtime.trim_start_matches("raddle-").to_string();
    let level: Vec<String> = ours
        .iter()
        .filter(|row| row.runtime != first.runtime)
        .filter(|row| row.spread.as_ref().is_some_and(|other| other.min <= spread.max && other.q1 <= spread.q3))
        .map(|row| name(row))
        .collect();
    let level = if level.is_empty() { String::new() } else { format!(" ({})", level.join(", ")) };
    let peer = quickest(others).and_then(|peer| {
        let times = peer.spread.as_ref()?.median / spread.median;
        Some(format!("; {} {times:.2}", peer.runtime))
    });
    Some(format!("{}{level}{}", name(first), peer.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn row(runtime: &str, args: &str, median: f64) -> Row {
        Row { workload: "locks".into(), args: args.into(), ..samples::row(runtime, median) }
    }

    #[test]
    fn the_quickest_of_each_use_is_named_with_those_that_are_level() {
        let own = "T=2 total=64000 locks=1000 hold=0 gap=0 burst=1 by=mutex";
        let bursts = "T=64 total=64000 locks=1 hold=50 gap=2000 burst=32 by=mutex";
        let rows = [
            row("raddle-mutex", own, 20.0),
            row("raddle-h2", own, 10.0),
            row("raddle-spin", own, 10.5),
            row("std", own, 15.0),
            row("raddle-mutex", bursts, 10.0),
            row("raddle-mcs", bursts, 30.0),
            samples::row("raddle-other", 1.0),
        ];
        let text = decision(&rows).unwrap();
        let line = |name: &str, threads: &str| {
            text.lines()
                .find(|line| line.contains(name) && line.split_whitespace().any(|word| word == threads))
                .unwrap()
        };
        assert!(line("own", "2").ends_with("  h2 (spin); std 1.50"), "{text}");
        assert!(line("bursts", "2").ends_with("  -") && line("bursts", "64").ends_with("  mutex"), "{text}");
        assert!(line("extreme", "64").ends_with("  -"), "{text}");
        // One lock alone is nothing to choose from.
        assert!(decision(&[row("raddle", own, 20.0), row("std", own, 15.0)]).is_none());
    }

    #[test]
    fn uses_are_told_apart() {
        let of = |args: &str| used(&Args::parse(args.split_whitespace()).unwrap()).unwrap().1;
        assert_eq!(of("T=4 locks=4 hold=0 gap=0 burst=1"), Use::Own);
        assert_eq!(of("T=4 locks=1 hold=0 gap=0 burst=1"), Use::Extreme);
        assert_eq!(of("T=4 locks=1 hold=50 gap=50 burst=1"), Use::Always);
        assert_eq!(of("T=4 locks=1 hold=50 gap=2000 burst=1"), Use::Seldom);
        assert_eq!(of("T=4 locks=1 hold=50 gap=2000 burst=9"), Use::Bursts);
    }
}
