//! Which of the peers of `raddle bench` are here.

use super::{Finding, State};
use raddle_bench::runtimes::{self, Programs, RUNTIMES, Source};
use std::process::Command;

/// The tools that build peers, and the programs that are built.
pub fn peers() -> Vec<Finding> {
    vec![cargo(), go(), java(), programs()]
}

/// The first line that a tool prints about its version.
fn version(tool: &str, argument: &str) -> Option<String> {
    let output = Command::new(tool).arg(argument).output().ok().filter(|output| output.status.success())?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().next().map(str::to_string)
}

fn cargo() -> Finding {
    match version("cargo", "--version") {
        Some(version) => {
            Finding::new("cargo", State::Good, version, "builds the peers written in Rust when they are needed")
        }
        None => Finding::new(
            "cargo",
            State::Noted,
            "not found",
            "peers written in Rust take part if they are built already",
        ),
    }
}

fn go() -> Finding {
    match version("go", "version") {
        Some(version) => Finding::new("Go", State::Good, version, "builds the Go program when it is needed"),
        None => Finding::new(
            "Go",
            State::Missing,
            "not found",
            "`raddle bench` names go as missing; install Go to compare with it",
        ),
    }
}

fn java() -> Finding {
    let found = version("java", "-version").unwrap_or_else(|| "not found".into());
    let why = match runtimes::find("java").map(|runtime| runtime.source) {
        Ok(Source::Absent(why)) => why,
        _ => "virtual threads need Java 21 or later",
    };
    Finding::new("Java", State::Missing, found, why)
}

fn programs() -> Finding {
    let name = "programs that are built";
    let Ok(executable) = crate::run::own_program() else {
        return Finding::new(name, State::Noted, "unknown", "");
    };
    let programs = Programs::beside(&executable, false);
    let here: Vec<_> = RUNTIMES.iter().filter(|r| programs.locate(r).is_ok()).map(|r| r.name).collect();
    let found = if here.is_empty() { "none".into() } else { here.join(", ") };
    Finding::new(
        name,
        State::Noted,
        found,
        "`raddle bench` builds the others when they are needed and it has the sources",
    )
}
