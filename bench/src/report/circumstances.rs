//! Where and when figures were measured: what a reader of a report needs to compare it with another.

use std::time::{SystemTime, UNIX_EPOCH};

/// What is known of this machine, now: a name and a value each. What cannot be read is left out.
pub(super) fn circumstances() -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let model = read("/proc/cpuinfo").and_then(|text| model(&text));
    let cores = std::thread::available_parallelism().ok().map(|cores| format!("{cores} cores"));
    let machine: Vec<String> = [model, cores].into_iter().flatten().collect();
    let kernel = read("/proc/sys/kernel/osrelease").map(|text| format!("Linux {}", text.trim()));
    let load = read("/proc/loadavg").and_then(|text| {
        let mut words = text.split(' ');
        Some(format!("{} over the last minute, {} over five", words.next()?, words.next()?))
    });
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let all = [
        ("date", Some(date(seconds))),
        ("machine", (!machine.is_empty()).then(|| machine.join(", "))),
        ("kernel", kernel),
        ("raddle", Some(env!("CARGO_PKG_VERSION").to_string())),
        ("load when written", load),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn model(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Seconds since 1970 as a date and time of day, UTC. The days by eras of 400 years that begin in March (H. Hinnant).
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_in_leap_years_too() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_793_232_000 + 3661), "2026-10-29 01:01 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59 UTC");
    }

    #[test]
    fn the_machine_has_a_name() {
        assert_eq!(model("processor : 0\nmodel name\t: A 7\n").as_deref(), Some("A 7"));
        assert!(circumstances().iter().any(|(name, value)| *name == "kernel" && value.starts_with("Linux ")));
    }
}
