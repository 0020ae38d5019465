//! `cargo xtask programs`: programs of Debian that know nothing of this library, natively and under `raddle run`.
//!
//! Each case is a script in crates/cli/tests/programs whose output is compared, and CI runs ten of them as a test. What
//! is not installed is named as not run. A case that differs is run again, both ways: what then agrees is noted as
//! unsteady. The table's reasons are kept from run to run.

#[path = "../../crates/cli/tests/programs/runner.rs"]
mod runner;

use crate::shell::{self, Failure, Outcome, cargo};
use runner::{Case, Run};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

const USAGE: &str =
    "usage: cargo xtask programs [--only NAME]... [--skip NAME]... [--raddle PROGRAM] [--packages] [--no-table]";
/// What nobody has looked at yet.
const UNKNOWN: &str = "not looked into yet";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    /// At the second try.
    SameOnce,
    Differs,
    /// It fails natively, too, and says the same.
    FailsBothWays,
}

struct Row {
    case: Case,
    verdict: Verdict,
    threads: u64,
    native: f64,
    taken_over: f64,
}

/// The command.
pub fn run(args: &[String]) -> Outcome {
    let (mut only, mut skipped, mut raddle, mut table) = (Vec::new(), Vec::new(), None, true);
    let folder = shell::root().join("crates/cli/tests/programs");
    let cases = runner::cases(&folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only.push(args.next().ok_or_else(|| Failure::usage(USAGE))?.clone()),
            "--skip" => skipped.push(args.next().ok_or_else(|| Failure::usage(USAGE))?.clone()),
            "--raddle" => raddle = Some(PathBuf::from(args.next().ok_or_else(|| Failure::usage(USAGE))?)),
            "--no-table" => table = false,
            "--packages" => {
                let mut packages: Vec<&str> = cases.iter().flat_map(|case| case.packages.split_whitespace()).collect();
                packages.sort_unstable();
                packages.dedup();
                println!("{}", packages.join(" "));
                return Ok(());
            }
            _ => return Err(Failure::usage(USAGE)),
        }
    }
    // The cases run in folders of their own.
    let raddle = match raddle {
        Some(named) => named.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", named.display())))?,
        None => {
            shell::run(&mut cargo(&["build", "--release", "-p", "raddle-cli", "-p", "raddle-drop-in"]))?;
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
            target.join("release/raddle")
        }
    };
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for case in cases.into_iter().filter(|case| only.is_empty() || only.contains(&case.name)) {
        if skipped.contains(&case.name) {
            missing.push(case.name);
            continue;
        }
        match case.missing() {
            Some(path) => {
                println!(
                    "programs: {} is not run: there is no {} (Debian package {})",
                    case.name,
                    path.display(),
                    case.packages
                );
                missing.push(case.name);
            }
            None => rows.push(both_ways(case, &raddle)?),
        }
    }
    let (rows, missing) = (rows, missing);
    println!("programs: {}", summary(&rows, &missing));
    if table && only.is_empty() {
        let page = shell::root().join("docs/programs.md");
        let before = std::fs::read_to_string(&page).unwrap_or_default();
        std::fs::write(&page, text(&rows, &missing, &reasons(&before)))
            .map_err(|error| Failure::failed(format!("{}: {error}", page.display())))?;
        println!("programs: wrote {}", page.display());
    }
    match rows.iter().find(|row| row.verdict == Verdict::Differs) {
        Some(row) => Err(Failure::failed(format!("{} differs", row.case.name))),
        None => Ok(()),
    }
}

fn both_ways(case: Case, raddle: &std::path::Path) -> Outcome<Row> {
    let run = |raddle| runner::run(&case, raddle).map_err(|error| Failure::failed(format!("{}: {error}", case.name)));
    let verdict = |native: &Run, taken_over: &Run| match native.is_as(taken_over) {
        true if native.ended == "exit status: 0" => Verdict::Same,
        true => Verdict::FailsBothWays,
        false => Verdict::Differs,
    };
    let (mut native, mut taken_over) = (run(None)?, run(Some(raddle))?);
    let mut found = verdict(&native, &taken_over);
    if found == Verdict::Differs {
        println!("programs: {}: {}", case.name, runner::difference(&native, &taken_over));
        (native, taken_over) = (run(None)?, run(Some(raddle))?);
        if verdict(&native, &taken_over) == Verdict::Same {
            found = Verdict::SameOnce;
        }
    }
    println!(
        "programs: {}: {found:?}, natively {:.1} s, taken over {:.1} s, {} threads",
        case.name, native.seconds, taken_over.seconds, taken_over.threads
    );
    if found == Verdict::FailsBothWays || found == Verdict::Differs {
        println!("  natively {}: {}", native.ended, last_lines(&native));
        println!("  taken over {}: {}", taken_over.ended, last_lines(&taken_over));
    }
    Ok(Row {
        threads: taken_over.threads,
        native: native.seconds,
        taken_over: taken_over.seconds,
        verdict: found,
        case,
    })
}

/// The end of what it said.
fn last_lines(run: &Run) -> String {
    let lines: Vec<&str> = run.output.lines().chain(run.errors.lines()).filter(|line| !line.starts_with('{')).collect();
    lines[lines.len().saturating_sub(6)..].join(" / ")
}

fn summary(rows: &[Row], missing: &[String]) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut line = format!(
        "{} cases; {} as natively, {} of these at a second try; {} differ",
        rows.len(),
        count(Verdict::Same) + count(Verdict::SameOnce),
        count(Verdict::SameOnce),
        count(Verdict::Differs)
    );
    if count(Verdict::FailsBothWays) > 0 {
        let _ = write!(line, "; {} fail both ways", count(Verdict::FailsBothWays));
    }
    if !missing.is_empty() {
        let _ = write!(line, "; not installed, or left out: {}", missing.join(", "));
    }
    line
}

/// Each case's row in an earlier page that has a reason.
fn reasons(page: &str) -> BTreeMap<String, String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once("` |")?;
        let reason = rest.trim_end().trim_end_matches('|').rsplit('|').next()?.trim();
        (!reason.is_empty() && reason != UNKNOWN).then(|| (name.to_string(), reason.to_string()))
    })
    .collect()
}

fn text(rows: &[Row], missing: &[String], reasons: &BTreeMap<String, String>) -> String {
    let mut page = String::from(
        "# Programs\n\n\
         Programs of Debian that know nothing of this library, natively and under `raddle run`: a script each, with the program's output compared.\n\
         Written by `cargo xtask programs`; the scripts are in crates/cli/tests/programs, and `cargo xtask programs --packages` names what they need.\n\
         CI runs those marked so. Threads: lightweight ones, of the programs that told before they ended. Seconds include what a script does beside, and\n\
         were not taken on a quiet machine: they are no measurement. Reasons are written by hand and kept from run to run.\n\n",
    );
    let _ = writeln!(page, "{}.\n", summary(rows, missing));
    page += "| case | package | what it does | verdict | threads | s natively | s taken over | reason |\n|---|---|---|---|---|---|---|---|\n";
    for row in rows {
        let verdict = match row.verdict {
            Verdict::Same => "as natively",
            Verdict::SameOnce => "as natively at the second try",
            Verdict::Differs => "differs",
            Verdict::FailsBothWays => "fails both ways",
        };
        let reason =
            if row.verdict == Verdict::Same { "" } else { reasons.get(&row.case.name).map_or(UNKNOWN, String::as_str) };
        let Case { name, packages, what, in_ci, .. } = &row.case;
        let ci = if *in_ci { " (CI)" } else { "" };
        // A program that a signal ends does not tell.
        let threads = if row.threads == 0 && row.case.threads { "?".to_string() } else { row.threads.to_string() };
        let (native, taken_over) = (row.native, row.taken_over);
        let _ = writeln!(
            page,
            "| `{name}` | {packages} | {what}{ci} | {verdict} | {threads} | {native:.1} | {taken_over:.1} | {reason} |"
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_says_what_it_is_and_ten_are_cis() {
        let cases = runner::cases(&shell::root().join("crates/cli/tests/programs")).unwrap();
        assert!(cases.iter().all(|case| !case.what.is_empty() && !case.packages.is_empty()));
        assert!(cases.len() >= 40 && cases.iter().filter(|case| case.in_ci).count() == 10);
    }

    #[test]
    fn reasons_are_kept() {
        let page = "| `a` | p | w | differs | 0 | 1.0 | 2.0 | as designed |\n| `b` | p | w | as natively | 0 | 1.0 | 2.0 |  |\n";
        assert_eq!(reasons(page).into_iter().collect::<Vec<_>>(), [("a".to_string(), "as designed".to_string())]);
    }
}
