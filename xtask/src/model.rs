//! `cargo xtask model`: the interleaving tests, and what is left of them when an ordering is weakened.

use crate::shell::{Failure, Outcome, cargo, root, run_watched};
use crate::weaken;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The packages with interleaving tests, and their folders.
pub const CRATES: [(&str, &str); 2] = [("raddle-queues", "crates/queues"), ("raddle-scheduler", "crates/scheduler")];

/// The command.
pub fn run(args: &[String]) -> Outcome {
    match parse(args)? {
        None => run_all(|_| {}),
        Some(options) => weaken::run(&options),
    }
}

/// What `model --weaken` was asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Weaken {
    /// Only this tag.
    pub tag: Option<String>,
    /// Only this package (`queues` or `raddle-queues`).
    pub package: Option<String>,
    /// Only files with one of these in their paths, parted by commas: a long campaign goes on where it was stopped.
    pub files: Option<String>,
    /// Time for the tests of one mutant; by default some multiple of what the unchanged tests take.
    pub limit: Option<Duration>,
    /// Name the mutants and run none.
    pub list: bool,
    /// Run the tests named after the changed file alone; what survives them is to be tried again with all.
    pub near: bool,
}

fn parse(args: &[String]) -> Outcome<Option<Weaken>> {
    let mut options = Weaken::default();
    let mut weaken = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| Failure::usage(format!("`{arg}` needs a value")));
        match arg.as_str() {
            "--weaken" => weaken = true,
            "--list" => options.list = true,
            "--near" => options.near = true,
            "--crate" => options.package = Some(value()?),
            "--files" => options.files = Some(value()?),
            "--seconds" => {
                let text = value()?;
                let seconds =
                    text.parse().map_err(|_| Failure::usage(format!("`{text}` is not a number of seconds")))?;
                options.limit = Some(Duration::from_secs(seconds));
            }
            tag if !tag.starts_with('-') && options.tag.is_none() => options.tag = Some(tag.to_string()),
            other => return Err(Failure::usage(format!("`{other}` is not understood; see `cargo xtask help`"))),
        }
    }
    if let Some(name) = &options.package
        && !CRATES.iter().any(|(package, _)| matches(package, name))
    {
        return Err(Failure::usage(format!("`{name}` has no interleaving tests; queues and scheduler do")));
    }
    match weaken {
        true => Ok(Some(options)),
        false if options == Weaken::default() => Ok(None),
        false => Err(Failure::usage("arguments of `model` go with `--weaken`")),
    }
}

/// True when `name` means `package`, with or without its prefix.
pub fn matches(package: &str, name: &str) -> bool {
    package == name || package.strip_prefix("raddle-") == Some(name)
}

/// Runs the interleaving tests of all packages and shows each line of output to `look`.
pub fn run_all(mut look: impl FnMut(&str)) -> Outcome {
    for (package, folder) in CRATES {
        let tests = tests(&root().join(folder));
        if tests.is_empty() {
            return Err(Failure::failed(format!("{package} has no interleaving tests ({folder}/tests/loom_*.rs)")));
        }
        run_watched(&mut command(package, &tests), &mut look)?;
    }
    Ok(())
}

/// The names of a package's interleaving tests, `tests/loom_*.rs`.
pub fn tests(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("tests")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut tests: Vec<String> = names
        .filter_map(|name| name.strip_suffix(".rs").filter(|stem| stem.starts_with("loom")).map(String::from))
        .collect();
    tests.sort();
    tests
}

/// `cargo test` over `tests` of `package`, optimised, but without the whole-program optimisation of release builds.
pub fn command(package: &str, tests: &[String]) -> Command {
    let mut command = cargo(&["test", "--release", "--features", "loom", "-p", package]);
    command.args(tests.iter().flat_map(|test| ["--test", test]));
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Outcome<Option<Weaken>> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_understood() {
        assert_eq!(parsed("").unwrap(), None);
        let options = parsed("--weaken publish --crate queues --files slab,spsc --seconds 7 --list").unwrap().unwrap();
        assert_eq!(options.files.as_deref(), Some("slab,spsc"));
        assert_eq!(options.tag.as_deref(), Some("publish"));
        assert_eq!(options.limit, Some(Duration::from_secs(7)));
        assert!(options.list);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for line in [
            "publish",
            "--crate queues",
            "--weaken --crate raddle",
            "--weaken --seconds x",
            "--weaken --what",
            "--weaken --crate",
        ] {
            assert_eq!(parsed(line).unwrap_err().status, 2, "{line}");
        }
    }
}
