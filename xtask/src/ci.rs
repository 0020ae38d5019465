//! `cargo xtask ci`: everything a change must pass, the quick sections first.

use crate::shell::{self, Outcome, Sections, cargo, run_watched};
use crate::{model, tidy};

/// The command: every section runs, whatever became of the others, so that one run names all that is wrong.
pub fn run() -> Outcome {
    let mut sections = Sections::default();
    let mut tally = Tally::default();
    sections.section("format", || shell::run(&mut cargo(&["fmt", "--all", "--check"])));
    sections.section("tidy", tidy::run);
    sections.section("clippy", clippy);
    sections.section("tests, documentation examples included", || {
        run_watched(&mut cargo(&["test", "--workspace", "--no-fail-fast"]), |line| tally.count(line))
    });
    sections.section("interleavings", || model::run_all(|line| tally.count(line)));
    sections.section("rustdoc", rustdoc);
    sections.print_times();
    let result = sections.outcome();
    println!("{}; {}", tally.line(), if result.is_ok() { "ci passed" } else { "ci FAILED" });
    result
}

fn clippy() -> Outcome {
    shell::run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut generic = vec!["clippy", "--all-targets", "--features", "loom", "-p", "raddle-machine"];
    model::CRATES.iter().for_each(|(package, _)| generic.extend(["-p", package]));
    generic.extend(["--", "-D", "warnings"]);
    shell::run(&mut cargo(&generic))
}

fn rustdoc() -> Outcome {
    let document = |selection: &[&str]| {
        let mut command = cargo(&["doc", "--no-deps", "--document-private-items"]);
        shell::run(command.args(selection).env("RUSTDOCFLAGS", "-D warnings"))
    };
    // The command's page first: library and command are both called `raddle`, and the library's page is to stay.
    document(&["-p", "raddle-cli"])?;
    document(&["--workspace", "--exclude", "raddle-cli"])
}

/// Counts from the closing lines of test programs.
#[derive(Default, Debug, PartialEq)]
pub struct Tally {
    programs: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Tally {
    /// Adds `line` if it is a test program's closing line.
    pub fn count(&mut self, line: &str) {
        let Some(rest) = line.trim().strip_prefix("test result: ") else { return };
        self.programs += 1;
        for part in rest.split([';', '.']) {
            let mut words = part.split_whitespace();
            if let (Some(number), Some(what)) = (words.next().and_then(|word| word.parse::<usize>().ok()), words.next())
            {
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        }
    }

    /// The closing line of all.
    pub fn line(&self) -> String {
        let Self { programs, passed, failed, ignored } = self;
        format!("{passed} tests passed, {failed} failed, {ignored} ignored, in {programs} test programs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut tally = Tally::default();
        tally.count("running 3 tests");
        tally.count("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally
            .count("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        assert_eq!(tally.line(), "7 tests passed, 2 failed, 1 ignored, in 2 test programs");
    }
}
