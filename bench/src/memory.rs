//! What a process uses of memory, from `/proc/self/status`.

/// Sizes in KiB at one moment.
///
/// ```
/// let now = raddle_bench::memory::Memory::now();
/// assert!(now.peak_rss_kib >= now.rss_kib / 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident set (`VmRSS`).
    pub rss_kib: u64,
    /// Largest resident set so far (`VmHWM`).
    pub peak_rss_kib: u64,
    /// Page tables (`VmPTE`), which the resident set does not contain.
    pub page_tables_kib: u64,
}

impl Memory {
    /// Reads the sizes now; zeros where `/proc` is not mounted.
    pub fn now() -> Memory {
        Memory::of("/proc/self")
    }

    /// Those of the process that `folder` is of.
    pub fn of(folder: &str) -> Memory {
        std::fs::read_to_string(format!("{folder}/status")).map_or_else(|_| Memory::default(), |s| parse(&s))
    }
}

fn parse(status: &str) -> Memory {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    Memory { rss_kib: field("VmRSS"), peak_rss_kib: field("VmHWM"), page_tables_kib: field("VmPTE") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "VmHWM:\t    2048 kB\nVmRSS:\t  1024 kB\nVmPTE:\t      44 kB\n";
        let expected = Memory { rss_kib: 1024, peak_rss_kib: 2048, page_tables_kib: 44 };
        assert_eq!(parse(text), expected);
        assert_eq!(parse(""), Memory::default());
    }
}
