//! Where and when figures were measured: what a reader of a report needs to compare it with another.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is known of this machine and this build: a name and a value each. What cannot be read is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    all: Vec<(&'static str, String)>,
}

impl Circumstances {
    /// Now: best asked before something is measured, whose load would be counted otherwise.
    pub fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let model = read("/proc/cpuinfo").and_then(|text| model(&text));
        let cores = std::thread::available_parallelism().ok().map(|cores| format!("{cores} cores"));
        let memory = read("/proc/meminfo").and_then(|text| memory(&text));
        let machine: Vec<String> = [model, cores, memory].into_iter().flatten().collect();
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
            ("raddle", Some(version())),
            ("load", load),
        ];
        Self { all: all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect() }
    }

    /// Says which commit the program was built at, as its build script has found it.
    pub fn built_at(commit: &'static str) {
        let _ = BUILT_AT.set(commit);
    }

    /// Of a simulation, in which neither the machine that it runs on nor the day has a part: the build alone.
    pub fn of_simulation(mut self) -> Self {
        self.all.retain(|(name, _)| *name == "raddle");
        self
    }

    /// None at all, for what must be the same each time.
    pub fn none() -> Self {
        Self { all: Vec::new() }
    }

    /// Each: date, machine, kernel, raddle, load.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// As [`Circumstances::built_at`] was told.
static BUILT_AT: OnceLock<&'static str> = OnceLock::new();

/// The version, and the commit where it is known: that of the checkout that the program lies in, which knows of changes
/// since, and otherwise the one that it was [built at](Circumstances::built_at).
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let of_checkout = || {
        let own = std::env::current_exe().ok()?;
        own.ancestors().skip(1).find(|folder| is_ours(folder)).and_then(commit)
    };
    let commit = of_checkout().or_else(|| BUILT_AT.get().map(ToString::to_string));
    commit.map_or_else(|| version.to_string(), |commit| format!("{version}, commit {commit}"))
}

/// A checkout of this project, rather than of one that this program happens to lie in.
fn is_ours(folder: &Path) -> bool {
    folder.join(".git").exists() && folder.join("crates/report/src/circumstances.rs").exists()
}

fn commit(folder: &Path) -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).filter(|commit| !commit.is_empty())?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    Some(if changed { format!("{commit} with changes") } else { commit })
}

fn model(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
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
    fn the_machine_and_the_build_have_names() {
        assert_eq!(model("processor : 0\nmodel name\t: A 7\n").as_deref(), Some("A 7"));
        assert_eq!(memory("MemTotal:       16384000 kB\n").as_deref(), Some("15.6 GiB"));
        let here = Circumstances::now();
        assert!(here.get("kernel").is_some_and(|value| value.starts_with("Linux ")));
        assert!(here.get("raddle").is_some_and(|value| value.starts_with(env!("CARGO_PKG_VERSION"))));
        let simulated = here.of_simulation();
        assert!(simulated.get("date").is_none() && simulated.get("raddle").is_some());
    }

    #[test]
    fn where_no_checkout_is_the_commit_of_the_build_is_named() {
        let known = version();
        Circumstances::built_at("0123456789");
        let now = version();
        assert!(now == known || now == format!("{known}, commit 0123456789"), "{known}: {now}");
        assert!(now.contains(", commit "), "{now}");
    }

    #[test]
    fn a_commit_is_found_in_a_checkout_only() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!is_ours(here));
        if let Some(root) = here.ancestors().find(|folder| is_ours(folder)) {
            // git may refuse a checkout of another user's.
            assert!(commit(root).is_none_or(|commit| commit.len() >= 10), "{}", root.display());
        }
    }
}
