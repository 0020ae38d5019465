//! `raddle doctor`: what this machine offers, and what is used instead of what it lacks.

mod compilers;
mod cores;
pub mod drop_in;
mod kernel;
mod peers;

use clap::{Args, ValueEnum};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  raddle doctor                   what this machine offers, in words
  raddle doctor --format json     one object a line, for scripts

Exit status: 0, also when something is missing.";

/// Show what this machine offers, and what is used instead of what it lacks
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Options {
    /// How to show it; JSON is one object a line with the keys `name`, `state`, `found` and `consequence`
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How a finding bears on lightweight threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there and used, or as it should be.
    Good,
    /// It is lacking and something slower or smaller is used.
    Replaced,
    /// It is lacking and nothing takes its place.
    Missing,
    /// Worth knowing, neither good nor bad.
    Noted,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Replaced => "replaced",
            State::Missing => "missing",
            State::Noted => "noted",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How it bears on lightweight threads.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What follows, and where something is lacking, the remedy.
    pub consequence: String,
}

impl Finding {
    fn new(name: &'static str, state: State, found: impl Into<String>, consequence: impl Into<String>) -> Finding {
        Finding { name, state, found: found.into(), consequence: consequence.into() }
    }
}

/// Runs the subcommand.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let sections = [
        ("Threads", kernel::threads()),
        ("Cores", cores::cores()),
        ("Limits", kernel::limits()),
        ("Drop-in", vec![drop_in::existing_programs(), kernel::ring()]),
        ("Quantum checks", compilers::compilers()),
        ("Not used by this version", kernel::unused()),
        ("Peers of `raddle bench`", peers::peers()),
    ];
    let text = match options.format {
        Format::Text => text(&sections),
        Format::Json => sections.iter().flat_map(|(_, findings)| findings).map(json_line).collect(),
    };
    crate::output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(sections: &[(&str, Vec<Finding>)]) -> String {
    let mut text = String::new();
    for (title, findings) in sections {
        let _ = writeln!(text, "{title}");
        for finding in findings {
            let _ = writeln!(text, "  {:8}  {}: {}", finding.state.word(), finding.name, finding.found);
            if !finding.consequence.is_empty() {
                let _ = writeln!(text, "            {}", finding.consequence);
            }
        }
        text.push('\n');
    }
    text
}

fn json_line(finding: &Finding) -> String {
    let object = json!({
        "name": finding.name,
        "state": finding.state.word(),
        "found": finding.found,
        "consequence": finding.consequence,
    });
    format!("{object}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_show_everything() {
        let finding = Finding::new("guards", State::Replaced, "none", "mprotect instead");
        let text = text(&[("Threads", vec![finding.clone()])]);
        assert!(text.contains("replaced  guards: none") && text.contains("mprotect instead"));
        let line: serde_json::Value = serde_json::from_str(&json_line(&finding)).unwrap();
        assert_eq!((line["name"].as_str(), line["state"].as_str()), (Some("guards"), Some("replaced")));
    }

    #[test]
    fn what_is_lacking_has_a_consequence() {
        let all = [
            kernel::threads(),
            cores::cores(),
            kernel::limits(),
            vec![kernel::ring()],
            kernel::unused(),
            peers::peers(),
            compilers::compilers(),
        ]
        .concat();
        for finding in &all {
            assert!(!finding.found.is_empty(), "{}", finding.name);
            let lacking = matches!(finding.state, State::Replaced | State::Missing);
            assert!(!(lacking && finding.consequence.is_empty()), "{}", finding.name);
        }
        let mut names: Vec<_> = all.iter().map(|finding| finding.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "a name is used twice");
    }
}
