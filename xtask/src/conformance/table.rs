//! The page of differences, docs/conformance.md.

use super::{Ran, Suite, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What nobody has looked at yet.
const UNKNOWN: &str = "not looked into yet";

/// The numbers of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub tests: usize,
    /// Passed natively, at least once.
    pub native: usize,
    /// Of these, passed when taken over, at least once.
    pub kept: usize,
    /// Of those, not at the first try.
    pub unsteady: usize,
    /// Passed when taken over, and not natively.
    pub gained: usize,
}

impl Summary {
    pub fn of(ran: &[Ran]) -> Summary {
        let mut summary = Summary { tests: ran.len(), ..Summary::default() };
        for test in ran {
            let (native, kept) = (passed(&test.native), passed(&test.drop_in));
            summary.native += usize::from(native);
            summary.kept += usize::from(native && kept);
            summary.unsteady += usize::from(native && kept && test.drop_in.first() != Some(&Verdict::Pass));
            summary.gained += usize::from(!native && kept);
        }
        summary
    }

    pub fn line(&self) -> String {
        let Summary { tests, native, kept, unsteady, gained } = self;
        let share = 100.0 * *kept as f64 / (*native).max(1) as f64;
        format!(
            "{tests} tests; {native} pass natively, {kept} of these taken over ({share:.1} %; {unsteady} not at the first try); \
             {gained} pass only when taken over"
        )
    }
}

fn passed(verdicts: &[Verdict]) -> bool {
    verdicts.contains(&Verdict::Pass)
}

/// Each test's row in an earlier page: its reason.
pub fn reasons(page: &str) -> BTreeMap<String, String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once("` |")?;
        let reason = rest.trim_end().trim_end_matches('|').rsplit('|').next()?.trim();
        (reason != UNKNOWN).then(|| (name.to_string(), reason.to_string()))
    })
    .collect()
}

/// The heading and the introduction of a suite's part of the page.
fn introduction(suite: Suite) -> (&'static str, &'static str) {
    match suite {
        Suite::OpenPosix => (
            "## Open POSIX",
            "The Open POSIX Test Suite (testcases/open_posix_testsuite of the Linux Test Project): its tests of threads, semaphores, timers and clocks.\n\
             Written by `cargo xtask conformance --suite FOLDER`.",
        ),
        Suite::Glibc => (
            "## The C library's own",
            "The tests in glibc's source (Debian's package `glibc-source`) of nptl, sysdeps/pthread, rt, and those of sysdeps/nptl and sysdeps/unix/sysv/linux that make\n\
             threads; built one by one against the C library that is installed. Written by `cargo xtask conformance --glibc FOLDER`.",
        ),
    }
}

/// The page `before` with `suite`'s part anew: reasons that are known are kept, and so is the other suite's part.
pub fn page(before: &str, suite: Suite, ran: &[Ran], unbuilt: usize) -> String {
    let mut page = String::from(
        "# Conformance\n\n\
         Test suites of others (fetched, not kept here), natively and under `raddle run`. The reasons are written by hand, most from reading the test\n\
         and not by debugging it, and kept from run to run. Tests that set the machine's clock are left out. A test that ended differently was run\n\
         again, up to four times both ways. A busy machine makes tests fail that sleep and look at the clock.\n",
    );
    for part in [Suite::OpenPosix, Suite::Glibc] {
        let (heading, text) = introduction(part);
        let old =
            before.split("\n## ").find(|old| heading.strip_prefix("## ").is_some_and(|title| old.starts_with(title)));
        if part == suite {
            let _ = write!(page, "\n{heading}\n\n{text}\n\n");
            page += &section(ran, unbuilt, &reasons(before));
        } else if let Some(old) = old {
            let _ = writeln!(page, "\n## {}", old.trim_end());
        }
    }
    page
}

fn section(ran: &[Ran], unbuilt: usize, reasons: &BTreeMap<String, String>) -> String {
    let mut section = format!("{}; {unbuilt} cannot be built here.\n\n", Summary::of(ran).line());
    section += "| test | natively | taken over | reason |\n|---|---|---|---|\n";
    for test in ran.iter().filter(|test| test.native != test.drop_in) {
        let reason = reasons.get(&test.name).map_or(UNKNOWN, String::as_str);
        let _ =
            writeln!(section, "| `{}` | {} | {} | {reason} |", test.name, shown(&test.native), shown(&test.drop_in));
    }
    section
}

/// One verdict, or how often it passed and what it did else.
fn shown(verdicts: &[Verdict]) -> String {
    let first = verdicts.first().copied().unwrap_or(Verdict::Untested);
    if verdicts.iter().all(|verdict| *verdict == first) {
        return first.to_string();
    }
    let passes = verdicts.iter().filter(|verdict| **verdict == Verdict::Pass).count();
    let mut others: Vec<String> =
        verdicts.iter().filter(|verdict| **verdict != Verdict::Pass).map(ToString::to_string).collect();
    others.sort();
    others.dedup();
    format!("passes {passes} of {}, else {}", verdicts.len(), others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(name: &str, native: &[Verdict], drop_in: &[Verdict]) -> Ran {
        Ran { name: name.into(), native: native.to_vec(), drop_in: drop_in.to_vec() }
    }

    #[test]
    fn reasons_are_kept_and_new_differences_stand_out() {
        use Verdict::{Fail, Pass};
        let tests = [
            ran("a/1-1", &[Pass], &[Pass]),
            ran("b/1-1", &[Pass, Pass], &[Fail, Fail]),
            ran("c/1-1", &[Pass, Pass], &[Fail, Pass]),
        ];
        let first = page("", Suite::OpenPosix, &tests, 1);
        assert!(
            !first.contains("a/1-1") && first.contains("| `b/1-1` | passes | fails | not looked into yet |"),
            "{first}"
        );
        assert!(first.contains("passes 1 of 2, else fails") && first.contains("1 cannot be built"), "{first}");
        let second = page(&first.replacen(UNKNOWN, "as designed", 1), Suite::OpenPosix, &tests, 1);
        assert!(second.contains("| `b/1-1` | passes | fails | as designed |"), "{second}");
        assert_eq!(second.matches(UNKNOWN).count(), 1);
        let both = page(&second, Suite::Glibc, &tests[..1], 0);
        assert!(both.starts_with(second.trim_end()) && both.contains("1 tests; 1 pass natively"), "{both}");
        assert_eq!(page(&both, Suite::OpenPosix, &tests, 1), both);
    }

    #[test]
    fn what_passes_natively_is_the_measure() {
        use Verdict::{Fail, Pass, Unsupported};
        let tests = [
            ran("a", &[Pass], &[Pass]),
            ran("b", &[Pass, Pass], &[Fail, Fail]),
            ran("c", &[Unsupported], &[Unsupported]),
            ran("d", &[Fail, Fail], &[Pass, Pass]),
            ran("e", &[Pass, Pass], &[Fail, Pass]),
        ];
        let summary = Summary::of(&tests);
        assert_eq!(summary, Summary { tests: 5, native: 3, kept: 2, unsteady: 1, gained: 1 });
        assert!(summary.line().contains("66.7 %"));
    }
}
