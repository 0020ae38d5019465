//! What a process used of the processors.

/// Nanoseconds on processors. Those of children the kernel counts in hundredths of a second, those of the process, too,
/// where it does not tell its clock.
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
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return ProcessorTime::default() };
        let in_ticks = parse(&stat);
        ProcessorTime {
            own_ns: raddle_machine::vdso::nanoseconds(clock_of(pid)).unwrap_or(in_ticks.own_ns),
            ..in_ticks
        }
    }
}

/// The clock of a process's time on processors, as Linux numbers it: that of `clock_getcpuclockid`.
fn clock_of(pid: u32) -> i32 {
    const SCHEDULED: i32 = 2;
    const PID_BIT: u32 = 3;
    !(pid as i32) << PID_BIT | SCHEDULED
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

    /// Work that takes less than a hundredth of a second is seen.
    #[test]
    fn a_process_has_its_own_clock() {
        let own = || ProcessorTime::of(std::process::id()).own_ns;
        let (before, mut sum) = (own(), 0u64);
        while own() == before {
            sum = std::hint::black_box(sum + 1);
        }
        let clock = raddle_machine::vdso::nanoseconds(clock_of(std::process::id()));
        assert!(clock.is_some_and(|now| now > before && now <= own()));
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 70 80 20 0 1 0";
        assert_eq!(parse(stat), ProcessorTime { own_ns: 110_000_000, children_ns: 1_500_000_000 });
        assert_eq!(parse(""), ProcessorTime::default());
    }
}
