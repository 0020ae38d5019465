//! What a process used of the processors, from `/proc`.

/// Nanoseconds on processors. The kernel counts them in hundredths of a second.
///
/// ```
/// use raddle_bench::processor_time::ProcessorTime;
/// let before = ProcessorTime::of(std::process::id());
/// assert!(ProcessorTime::of(std::process::id()).own_ns >= before.own_ns);
/// assert_eq!(ProcessorTime::of(u32::MAX), ProcessorTime::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Of the process, its ended threads included.
    pub own_ns: u64,
    /// Of its children that have ended and were waited for.
    pub children_ns: u64,
}

impl ProcessorTime {
    /// That of a process; zeroes when there is none.
    pub fn of(pid: u32) -> ProcessorTime {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or_else(|_| ProcessorTime::default(), |s| parse(&s))
    }
}

fn parse(stat: &str) -> ProcessorTime {
    // The name before this may hold anything.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<u64> = rest.split_whitespace().skip(11).take(4).filter_map(|number| number.parse().ok()).collect();
    let of = |from: usize| ticks.iter().skip(from).take(2).sum::<u64>() * 10_000_000;
    ProcessorTime { own_ns: of(0), children_ns: of(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 70 80 20 0 1 0";
        assert_eq!(parse(stat), ProcessorTime { own_ns: 110_000_000, children_ns: 1_500_000_000 });
        assert_eq!(parse(""), ProcessorTime::default());
    }
}
