//! `cargo xtask mutants`: are faults found that were put into our own policies, queues, locks, clusters and rights?
//!
//! Each fault is an expression in place of another ([`FAULTS`], [`LOCKS`]). All of them go into one copy of the
//! checkout, each behind a switch that the environment sets, so that one build has them all. There `raddle check`
//! (built alone, as the example of `crates/sim`) must fail within a minute, and the command that it prints must fail in
//! the same way; of locks and clusters, an interleaving test must fail. With all switches off the same checks pass.

mod faults;
mod locks;

use crate::model;
use crate::shell::{self, Failure, Outcome};
use crate::tidy::read_tree;
use faults::{FAULTS, Fault};
use locks::LOCKS;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// What a check may take.
const SECONDS: u64 = 60;
/// What it is given for exploring, so that it has told all within [`SECONDS`].
const EXPLORE: &str = "50";
/// What the unchanged policy's check is given.
const UNCHANGED: &str = "10";

/// The package whose interleaving test has this name.
fn package(test: &str) -> &'static str {
    let has = |(_, folder): &&(&str, &str)| shell::root().join(folder).join(format!("tests/{test}.rs")).exists();
    model::CRATES.iter().find(has).map_or("raddle-scheduler", |(package, _)| package)
}

/// What switches a fault on, for the copy's `crates/machine`.
const SWITCH: &str = "
#[doc(hidden)]
pub fn fault(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var(\"RADDLE_FAULT\").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    *CHOSEN.get_or_init(read) == number
}
";

/// All faults; a fault's switch is its place here, from 1.
fn all() -> impl Iterator<Item = &'static Fault> {
    FAULTS.iter().chain(LOCKS)
}

/// The command.
pub fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    let chosen: Vec<&Fault> = all()
        .filter(|fault| options.only.is_none_or(|only| only.split(',').any(|part| fault.name.contains(part))))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::usage("no fault has a name like that"));
    }
    if options.list {
        chosen.iter().for_each(|fault| println!("{:<28} {:<40} {}", fault.name, fault.file, fault.what));
        return Ok(());
    }
    let copy = Copy::new(options.target)?;
    copy.build(&chosen)?;
    let mut wrong = 0;
    for fault in &chosen {
        let verdict = copy.judge(fault)?;
        wrong += u32::from(verdict.is_err());
        let told = verdict.unwrap_or_else(|why| format!("NOT FOUND: {why}"));
        println!("{:<24} {told}", fault.name);
    }
    let mut checks: Vec<&str> = chosen.iter().map(|fault| fault.check).collect();
    checks.sort_unstable();
    checks.dedup();
    for check in checks {
        if let Some(test) = interleaved(check) {
            let (output, took) = copy.interleave(0, test)?;
            let passed = output.status.success();
            wrong += u32::from(!passed);
            let told = if passed { "passes" } else { "FAILS UNCHANGED" };
            println!("{told:<24} {:>5.1} s  {check}", took.as_secs_f64());
            continue;
        }
        let (output, took) = copy.check(0, check, &["--seconds", UNCHANGED])?;
        let passed = output.status.code() == Some(0);
        wrong += u32::from(!passed);
        println!("{:<24} {:>5.1} s  {check}", if passed { "passes" } else { "FAILS UNCHANGED" }, took.as_secs_f64());
        if !passed {
            println!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
    println!("{} faults, {wrong} wrong", chosen.len());
    if wrong == 0 {
        Ok(())
    } else {
        Err(Failure::failed("not every fault is found, or what is unchanged does not pass"))
    }
}

#[derive(Debug, Default, PartialEq)]
struct Options<'a> {
    only: Option<&'a str>,
    target: Option<&'a str>,
    list: bool,
}

fn parse(args: &[String]) -> Outcome<Options<'_>> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value =
            || args.next().map(String::as_str).ok_or_else(|| Failure::usage(format!("`{arg}` needs a value")));
        match arg.as_str() {
            "--only" => options.only = Some(value()?),
            "--target" => options.target = Some(value()?),
            "--list" => options.list = true,
            other => return Err(Failure::usage(format!("`{other}` is not understood; see `cargo xtask help`"))),
        }
    }
    Ok(options)
}

/// A copy of the checkout.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn new(target: Option<&str>) -> Outcome<Self> {
        let root = std::env::temp_dir().join(format!("raddle-mutants-{}", std::process::id()));
        let target = target.map_or_else(|| root.join("target"), PathBuf::from);
        let copy = Self { root, target };
        for path in &read_tree(&shell::root())?.paths {
            let to = copy.root.join(path);
            let made = to.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::copy(shell::root().join(path), &to)).map_err(|error| failed(&to, &error))?;
        }
        Ok(copy)
    }

    fn build(&self, chosen: &[&Fault]) -> Outcome {
        for (index, fault) in all().enumerate() {
            let path = self.root.join(fault.file);
            let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            let text = fault.applied(&text, index + 1)?;
            std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        }
        let path = self.root.join("crates/machine/src/lib.rs");
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        std::fs::write(&path, text + SWITCH).map_err(|error| failed(&path, &error))?;
        let run = |mut build: Command| {
            shell::run(
                build.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target).env("RUSTFLAGS", "-Awarnings"),
            )
        };
        if chosen.iter().any(|fault| interleaved(fault.check).is_none()) {
            run(shell::cargo(&["build", "-q", "-p", "raddle-sim", "--example", "check"]))?;
        }
        let mut tests: Vec<String> =
            chosen.iter().filter_map(|fault| interleaved(fault.check)).map(|(test, _)| test.to_string()).collect();
        tests.sort_unstable();
        tests.dedup();
        for (name, _) in model::CRATES {
            let tests: Vec<String> = tests.iter().filter(|test| package(test) == name).cloned().collect();
            if !tests.is_empty() {
                let mut build = model::command(name, &tests);
                build.args(["-q", "--no-run"]);
                run(build)?;
            }
        }
        Ok(())
    }

    /// Runs an interleaving test with a fault (0: with none). One that does not end in time is ended, and has failed.
    fn interleave(&self, fault: usize, (test, name): (&str, &str)) -> Outcome<(Output, Duration)> {
        let mut command = model::command(package(test), &[test.to_string()]);
        let seconds = SECONDS.to_string();
        command.args(["-q", "--", "--exact", name]).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.env("RUSTFLAGS", "-Awarnings").env("RADDLE_FAULT", fault.to_string());
        let mut limited = Command::new("timeout");
        limited.arg(seconds).arg(command.get_program()).args(command.get_args()).current_dir(&self.root);
        command.get_envs().for_each(|(key, value)| _ = value.map(|value| limited.env(key, value)));
        let start = Instant::now();
        let output = limited.output();
        Ok((output.map_err(|error| failed(Path::new("timeout"), &error))?, start.elapsed()))
    }

    /// Runs a check with a fault (0: with none): `'POLICY' OPTION…`, and some options more.
    fn check(&self, fault: usize, check: &str, more: &[&str]) -> Outcome<(Output, Duration)> {
        let program = self.target.join("debug/examples/check");
        let start = Instant::now();
        let output =
            Command::new(&program).args(words(check)).args(more).env("RADDLE_FAULT", fault.to_string()).output();
        Ok((output.map_err(|error| failed(&program, &error))?, start.elapsed()))
    }

    /// What the check says of the fault, or why it has not found it.
    fn judge(&self, fault: &Fault) -> Outcome<Result<String, String>> {
        let number = all().position(|other| other.name == fault.name).map_or(0, |index| index + 1);
        if let Some(test) = interleaved(fault.check) {
            let (output, took) = self.interleave(number, test)?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            let what = panics(&text);
            return Ok(match (output.status.success(), what) {
                (true, _) => Err(format!("`{}` passes after {:.1} s", test.1, took.as_secs_f64())),
                (false, Some(what)) => {
                    Ok(format!("{:>5.1} s  {what}\n{:>36}  {}", took.as_secs_f64(), "", fault.check))
                }
                (false, None) => Err(format!("`{}` ends with {}, and no test of it has failed", test.1, output.status)),
            });
        }
        let (first, took) = self.check(number, fault.check, &["--seconds", EXPLORE])?;
        let text = String::from_utf8_lossy(&first.stdout).into_owned();
        if first.status.code() != Some(1) {
            return Ok(Err(format!("the check ends with {} after {:.1} s", first.status, took.as_secs_f64())));
        }
        if took.as_secs() >= SECONDS {
            return Ok(Err(format!("found after {:.1} s only", took.as_secs_f64())));
        }
        let Some(what) = line(&text, "FAILED in ") else {
            return Ok(Err("the check does not say what broke".to_string()));
        };
        let Some(command) = line(&text, "to see it again: raddle check ") else {
            return Ok(Err(format!("no command to see it again: {what}")));
        };
        let (again, _) = self.check(number, command, &[])?;
        let again_text = String::from_utf8_lossy(&again.stdout).into_owned();
        if line(&again_text, "FAILED in ") != Some(what) {
            return Ok(Err(format!("`raddle check {command}` does not show it again: {what}")));
        }
        let (what, command): (String, String) = (what.chars().take(110).collect(), command.chars().take(110).collect());
        Ok(Ok(format!("{:>5.1} s  {what}\n{:>36}  {command}", took.as_secs_f64(), "")))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files; nothing depends on it.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

/// The interleaving test, and its function, that must find a fault of a lock: `loom TEST FUNCTION`.
fn interleaved(check: &str) -> Option<(&str, &str)> {
    check.strip_prefix("loom ")?.split_once(' ')
}

/// What the first panic of a test says.
fn panics(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.contains("panicked at ")).skip(1);
    lines.next().map(|line| line.trim().chars().take(110).collect())
}

/// What follows `start` in the first line that begins with it.
fn line<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(start))
}

/// The words of a command; what is in single quotes is one.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        1 => vec![part.to_string()],
        _ => part.split_whitespace().map(String::from).collect(),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_applies_to_one_place_and_has_a_name_of_its_own() {
        let mut names: Vec<&str> = all().map(|fault| fault.name).collect();
        assert!(names.len() >= 20);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        // One after the other, as in the copy: no two change the same words.
        let mut texts = std::collections::BTreeMap::new();
        for (index, fault) in all().enumerate() {
            let read = || std::fs::read_to_string(shell::root().join(fault.file)).unwrap();
            let text: &mut String = texts.entry(fault.file).or_insert_with(read);
            *text = fault.applied(text, index + 1).unwrap_or_else(|failure| panic!("{}: {failure}", fault.name));
            assert!(text.contains(&format!("fault({})", index + 1)), "{}", fault.name);
            assert!(fault.is_whole(), "{}: stands in a choice, so no delimiter of it is another part's", fault.name);
        }
    }

    #[test]
    fn each_interleaving_test_that_is_named_is_there() {
        for (test, name) in all().filter_map(|fault| interleaved(fault.check)) {
            let folder = package(test).replacen("raddle-", "crates/", 1);
            let path = shell::root().join(format!("{folder}/tests/{test}.rs"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(text.contains(&format!("fn {name}()")), "{test}: {name}");
        }
        assert_eq!(interleaved("steal --processors 3"), None);
        assert_eq!(panics("a\nthread 'x' panicked at y:\n  what\nthen"), Some("what".into()));
        assert_eq!(panics("all is well"), None);
    }

    #[test]
    fn a_command_is_taken_apart() {
        assert_eq!(words("'priority(2, fifo)' --processors 3"), ["priority(2, fifo)", "--processors", "3"]);
        assert_eq!(line("a\nFAILED in x\n", "FAILED in "), Some("x"));
    }
}
