//! `cargo xtask ci`: everything a change must pass, the quick sections first.

use crate::shell::{self, Failure, Outcome, Sections, cargo, run_watched};
use crate::{model, tidy, yields};
use std::path::Path;
use std::process::Command;

/// The command: every section runs, whatever became of the others, so that one run names all that is wrong.
pub fn run() -> Outcome {
    let mut sections = Sections::default();
    let mut tally = Tally::default();
    sections.section("format", || shell::run(&mut cargo(&["fmt", "--all", "--check"])));
    sections.section("tidy", tidy::run);
    sections.section("clippy", clippy);
    sections.section("rustdoc", rustdoc);
    sections.section("packages", packages);
    sections.section("the oldest Rust that the packages name", oldest_rust);
    sections.section("tests, documentation examples included", || {
        // Without backtraces: tests of panics would print thousands of lines around the one failure that counts.
        let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
        run_watched(tests.env("RUST_BACKTRACE", "0").env("RADDLE_NOTHING_SKIPPED", "1"), |line| tally.count(line))
    });
    sections.section("misuse, optimised", || {
        let mut corpus = cargo(&["test", "--profile", "optimised", "-p", "raddle", "--test", "safe"]);
        run_watched(corpus.env("RUST_BACKTRACE", "0"), |line| tally.count(line))
    });
    // Debug assertions make frames larger: what parked threads take is told by a build without.
    sections.section("memory of parked threads, optimised", || {
        let test = ["--test", "sync", "parked_threads"];
        let mut memory = cargo(&["test", "--profile", "optimised", "-p", "raddle-posix"]);
        run_watched(memory.args(test), |line| tally.count(line))
    });
    sections.section("interleavings", || model::run_all(|line| tally.count(line)));
    let mut checks = String::new();
    sections.section("the compiler pass", || {
        let done = yields::tests(None)?;
        checks = done.line();
        println!("{checks}");
        Ok(())
    });
    sections.print_times();
    let result = sections.outcome();
    // Again, and last: in so long an output nobody finds it where it stood.
    tally.failures.iter().for_each(|line| println!("{line}"));
    if !checks.is_empty() {
        println!("{checks}");
    }
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

/// Each public package holds what it needs: it is packed, unpacked elsewhere and built from there.
fn packages() -> Outcome {
    // Cargo keeps the unpacked sources of a package for ever, by the path of the folder that it was packed in: at a
    // path that was used before, the packages would be compiled against former ones of the same version.
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let folder = shell::root().join(format!("target/packages-{time}"));
    let mut package = cargo(&[
        "package",
        "--workspace",
        "--exclude",
        "xtask",
        "--exclude",
        "raddle-examples",
        "--exclude",
        "raddle-bench-peers",
        "--quiet",
        "--allow-dirty",
        "--target-dir",
    ]);
    let done = shell::run(package.arg(&folder)).and_then(|()| publishable(&folder));
    let _ = std::fs::remove_dir_all(&folder);
    done
}

/// Whether the registry would take them, all at once, since they depend on each other: their manifests, and that nobody
/// has these versions. It is asked, so that without it there is no answer; that the packages build was seen before.
fn publishable(folder: &Path) -> Outcome {
    let mut publish =
        cargo(&["publish", "--workspace", "--dry-run", "--no-verify", "--quiet", "--allow-dirty", "--target-dir"]);
    match shell::output(publish.arg(folder)) {
        Err(failure) if is_of_the_network(&failure.to_string()) => {
            println!("skipped: `{}`, as the registry cannot be reached", shell::show(&publish));
            Ok(())
        }
        done => done.map(drop),
    }
}

/// Whether cargo could not ask, as it says so.
fn is_of_the_network(told: &str) -> bool {
    let known = [
        "but --offline was specified",
        "download of config.json failed",
        "failed to download from",
        "failed to fetch",
        "failed to query",
        "spurious network error",
        "esolve host",
        "imed out",
        // A mirror takes the registry's place.
        "is replaced with",
    ];
    known.iter().any(|known| told.contains(known))
}

/// The command and the library build with the `rust-version` of the packages, where rustup has that toolchain. It asks
/// nobody: rustup installs none, and the registry's packages are those that clippy has just built.
fn oldest_rust() -> Outcome {
    let manifest = std::fs::read_to_string(shell::root().join("Cargo.toml")).unwrap_or_default();
    let version = rust_version(&manifest).ok_or_else(|| Failure::failed("Cargo.toml names no rust-version"))?;
    let installed = shell::output(Command::new("rustup").args(["toolchain", "list"])).unwrap_or_default();
    let Some(toolchain) = toolchain_of(version, &installed) else {
        println!("skipped: Rust {version} is not here; `rustup toolchain install {version}.0` installs it");
        return Ok(());
    };
    let mut check = Command::new("rustup");
    check.args(["run", toolchain, "cargo", "check", "--locked", "--offline", "-p", "raddle-cli", "-p", "raddle-posix"]);
    // Cargo has told this process which compiler it is built by.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        check.env_remove(name);
    }
    check.args(["--quiet", "--target-dir", "target/oldest"]);
    shell::run(check.env("RUSTUP_AUTO_INSTALL", "0").current_dir(shell::root()))
}

/// What the workspace's manifest says.
fn rust_version(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
}

/// The toolchain of that version, of those that rustup lists.
fn toolchain_of<'a>(version: &str, installed: &'a str) -> Option<&'a str> {
    let its = |name: &&str| name.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-']));
    installed.lines().filter_map(|line| line.split_whitespace().next()).find(its)
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
    /// What test programs said of tests that failed, without backtraces.
    failures: Vec<String>,
    /// Within that.
    telling: bool,
}

impl Tally {
    /// Adds `line` if it is a test program's closing line, and keeps what it says of a failure.
    pub fn count(&mut self, line: &str) {
        const LONGEST: usize = 2_000;
        self.telling |= line == "failures:";
        self.telling &= !line.starts_with("test result: ");
        let of_a_backtrace = |line: &str| {
            let line = line.trim_start();
            line.starts_with("at ") || line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
        };
        if self.telling && !line.is_empty() && !of_a_backtrace(line) {
            self.failures.push(line.chars().take(LONGEST).collect());
        }
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
        let Self { programs, passed, failed, ignored, .. } = self;
        format!("{passed} tests passed, {failed} failed, {ignored} ignored, in {programs} test programs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_cannot_be_reached_is_told_from_a_package_that_cannot_be_published() {
        assert!(is_of_the_network("error: attempting to make an HTTP request, but --offline was specified"));
        assert!(is_of_the_network("Caused by:\n  failed to download from `https://there/config.json`"));
        assert!(is_of_the_network("error: crates-io is replaced with non-remote-registry source dir ./vendor"));
        assert!(!is_of_the_network(
            "error: all dependencies must have a version requirement specified when publishing."
        ));
    }

    #[test]
    fn the_toolchain_of_a_version_is_found_among_others() {
        let installed = "stable-x86_64 (active, default)\nnightly-x86_64\n1.9.0-x86_64\n1.90.0-x86_64\n1.95.0-x86_64\n";
        assert_eq!(toolchain_of("1.90", installed), Some("1.90.0-x86_64"));
        assert_eq!(toolchain_of("1.9", installed), Some("1.9.0-x86_64"));
        assert_eq!(toolchain_of("1.91", installed), None);
        assert_eq!(rust_version("[workspace.package]\nrust-version = \"1.90\"\n"), Some("1.90"));
    }

    #[test]
    fn closing_lines_add_up() {
        let mut tally = Tally::default();
        tally.count("running 3 tests");
        tally.count("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        tally
            .count("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        assert_eq!(tally.line(), "7 tests passed, 2 failed, 1 ignored, in 2 test programs");
    }

    #[test]
    fn what_is_said_of_failures_is_kept_without_backtraces() {
        let mut tally = Tally::default();
        let said = "test a ... FAILED

failures:

---- a stdout ----
thread 'a' (7) panicked at x.rs:1:2:
left: 1, right: 2
   0: core::panicking::panic_fmt
             at /rustc/library/core/src/panicking.rs:80:14

failures:
    a

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
test b ... ok";
        said.lines().for_each(|line| tally.count(line));
        let kept = [
            "failures:",
            "---- a stdout ----",
            "thread 'a' (7) panicked at x.rs:1:2:",
            "left: 1, right: 2",
            "failures:",
            "    a",
        ];
        assert_eq!(tally.failures, kept);
    }
}
