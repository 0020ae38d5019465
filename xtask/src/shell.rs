//! Running other programs: what every command shares.

use crate::stuck;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Why a command did not succeed, and the exit status that says so.
#[derive(Debug)]
pub struct Failure {
    /// 1: something failed; 2: wrong use, or a tool is missing.
    pub status: u8,
    message: String,
}

impl Failure {
    /// Something that was run, failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: 1, message: message.into() }
    }

    /// Wrong arguments, or a tool that is not there.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What every command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Refuses arguments where none are taken.
pub fn no_arguments(args: &[String]) -> Outcome {
    match args.first() {
        None => Ok(()),
        Some(first) => Err(Failure::usage(format!("this command takes no arguments, found `{first}`"))),
    }
}

/// The root of the checkout that this binary was built from.
pub fn root() -> PathBuf {
    let here =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or(here.clone(), Path::to_path_buf)
}

/// What a build for others is told of the checkout, which they do not have: `RADDLE_COMMIT`, unless it is set.
pub fn commit() -> Option<(&'static str, String)> {
    const NAME: &str = "RADDLE_COMMIT";
    let known = std::env::var_os(NAME).is_some();
    let commit = output(Command::new("git").arg("-C").arg(root()).args(["rev-parse", "--short=10", "HEAD"]));
    commit.ok().filter(|_| !known).map(|commit| (NAME, commit.trim().to_string()))
}

/// `cargo`, the one that started us, in the root of the checkout.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs `command` to its end; an error names it when it cannot start or fails.
pub fn run(command: &mut Command) -> Outcome {
    let shown = show(command);
    let status = command.status().map_err(|error| cannot_start(&shown, &error))?;
    if status.success() { Ok(()) } else { Err(Failure::failed(format!("`{shown}` failed ({status})"))) }
}

/// Runs `command`, passes its standard output on line by line and shows each line to `look`. A test program of ours
/// that it starts and that does not end is [ended](stuck).
pub fn run_watched(command: &mut Command, mut look: impl FnMut(&str)) -> Outcome {
    let shown = show(command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(&shown, &error))?;
    let output = child.stdout.take().ok_or_else(|| Failure::failed("no pipe to the child"))?;
    let (process, programs) = (child.id(), root().join("target"));
    let (_over, is_over) = mpsc::channel();
    std::thread::spawn(move || stuck::watch(process, &programs, Duration::from_secs(stuck::LONGEST_S), is_over));
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| Failure::failed(format!("reading from `{shown}`: {error}")))?;
        let line = String::from_utf8_lossy(&line);
        look(&line);
        // A reader that closed our output must not hide the verdict, which is in the exit status.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    let status = child.wait().map_err(|error| Failure::failed(format!("waiting for `{shown}`: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::failed(format!("`{shown}` failed ({status})"))) }
}

/// The standard output of `command`, or an error.
pub fn output(command: &mut Command) -> Outcome<String> {
    let shown = show(command);
    let output = command.output().map_err(|error| cannot_start(&shown, &error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let told = String::from_utf8_lossy(&output.stderr);
        Err(Failure::failed(format!("`{shown}` failed ({}): {}", output.status, told.trim())))
    }
}

/// True when `program` can be found in PATH.
pub fn in_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn cannot_start(shown: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("`{shown}` cannot be started: {error}"))
}

/// `command` as one would type it, without its environment.
pub fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| command.get_program());
    let mut text = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

/// A run of named sections, each with its time and how it ended.
#[derive(Default)]
pub struct Sections {
    done: Vec<(String, Duration, Option<Failure>)>,
}

impl Sections {
    /// Runs one section: a heading, the work, its time. A failure is kept for [`Sections::outcome`].
    pub fn section(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        println!("\n== {name}");
        let start = Instant::now();
        let failure = work().err();
        if let Some(failure) = &failure {
            println!("{name}: {failure}");
        }
        self.done.push((name.to_string(), start.elapsed(), failure));
    }

    /// An error that names all sections that failed, with the greatest of their statuses.
    pub fn outcome(&self) -> Outcome {
        let failed = self.done.iter().filter_map(|(name, _, failure)| Some((name, failure.as_ref()?)));
        let (names, statuses): (Vec<&str>, Vec<u8>) =
            failed.map(|(name, failure)| (name.as_str(), failure.status)).unzip();
        match statuses.into_iter().max() {
            None => Ok(()),
            Some(status) => Err(Failure { status, message: format!("failed: {}", names.join("; ")) }),
        }
    }

    /// Prints the time of each section and of all.
    pub fn print_times(&self) {
        println!();
        for (name, time, failure) in &self.done {
            println!("{:>8.1} s  {name}{}", time.as_secs_f64(), if failure.is_some() { ": FAILED" } else { "" });
        }
        let all: Duration = self.done.iter().map(|(_, time, _)| *time).sum();
        println!("{:>8.1} s  in all", all.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let failure = run(&mut Command::new("false")).unwrap_err();
        assert_eq!(failure.status, 1);
        assert!(failure.to_string().contains("`false` failed"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_wrong_use() {
        let failure = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert_eq!(failure.status, 2);
    }

    #[test]
    fn watched_output_arrives_line_by_line() {
        let mut seen = Vec::new();
        run_watched(Command::new("printf").arg("a\\nb\\n"), |line| seen.push(line.to_string())).unwrap();
        assert_eq!(seen, ["a", "b"]);
    }

    #[test]
    fn failed_sections_are_named_and_the_others_run() {
        let mut sections = Sections::default();
        let mut ran = 0;
        sections.section("lint", || Err(Failure::failed("no")));
        sections.section("test", || {
            ran += 1;
            Ok(())
        });
        sections.section("tool", || Err(Failure::usage("missing")));
        let failure = sections.outcome().unwrap_err();
        assert_eq!((ran, failure.status, failure.to_string().as_str()), (1, 2, "failed: lint; tool"));
        assert!(Sections::default().outcome().is_ok());
    }
}
