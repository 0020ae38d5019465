//! The command `raddle`. One file per subcommand; this one only picks it.
#![forbid(unsafe_code)]

/// In the place of std's, which panics where the standard error is a file on a full disk, or its reader is gone: what
/// the command was asked for goes on without the remark.
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::remark(&(format!($($part)*) + "\n")) };
}

mod bench;
mod check;
mod compile;
mod doctor;
mod numbers;
mod output;
mod pages;
mod run;
mod screen;
mod sim;
mod top;
mod trace;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// Lightweight threads: run programs on them, measure them, check their schedulers, and see what this machine offers
/// them.
#[derive(Parser)]
#[command(name = "raddle", version, long_version = env!("BUILT_AS_VERSION"), arg_required_else_help = true)]
#[command(max_term_width = screen::HELP_COLUMNS)]
struct Command {
    #[command(subcommand)]
    subcommand: Sub,
}

#[derive(Subcommand)]
enum Sub {
    Run(run::Options),
    Bench(bench::Options),
    Check(check::Options),
    Sim(sim::Options),
    Top(top::Options),
    Trace(trace::Options),
    Doctor(doctor::Options),
    Completions(pages::Completions),
    WriteLibrary(run::library::Write),
    #[command(name = pages::PAGES, hide = true)]
    Pages(pages::Pages),
    Cc(compile::C),
    #[command(name = "c++")]
    Cxx(compile::Cxx),
    Cargo(compile::Cargo),
    /// What `doctor` runs to see whether programs can be taken over
    #[command(name = doctor::drop_in::TRIAL, hide = true)]
    Trial,
    /// What `bench` runs where no program of a runtime lies beside this one
    #[command(name = bench::PROGRAM, hide = true, disable_help_flag = true)]
    Workload {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Ends with clap's message, and names the command that was meant where clap finds none so near.
fn refused(mut error: clap::Error) -> ! {
    // How it could be passed as a value: nobody means a program, a workload or a process with such a name.
    error.remove(ContextKind::Suggested);
    let of_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    if of_run && error.kind() == ErrorKind::UnknownArgument {
        eprintln!("raddle: options of the program come after its name, as in `raddle run -- ./server --port 7000`");
    }
    let unknown = error.get(ContextKind::InvalidSubcommand).filter(|_| error.kind() == ErrorKind::InvalidSubcommand);
    if let (Some(unknown), None) = (unknown, error.get(ContextKind::SuggestedSubcommand)) {
        let command = Command::command();
        let names: Vec<&str> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name()).collect();
        let meant = raddle_bench::catalogue::similar(&unknown.to_string(), &names);
        if !meant.is_empty() {
            eprintln!("raddle: {}", meant.trim_end());
        }
    }
    if !error.use_stderr() {
        // Help, or the version, that was asked for.
        let written = error.print().and_then(|()| std::io::stdout().flush());
        if let Err(why) = output::unless_closed(written) {
            eprintln!("raddle: cannot write: {why}");
            std::process::exit(2);
        }
    }
    error.exit()
}

fn main() -> ExitCode {
    if let Some(commit) = option_env!("BUILT_AT_COMMIT") {
        raddle_report::Circumstances::built_at(commit);
    }
    let result = match Command::try_parse().unwrap_or_else(|error| refused(error)).subcommand {
        Sub::Run(options) => run::run(&options),
        Sub::Bench(options) => bench::run(&options),
        Sub::Check(options) => check::run(&options),
        Sub::Sim(options) => sim::run(&options),
        Sub::Top(options) => top::run(&options),
        Sub::Trace(options) => trace::run(&options),
        Sub::Doctor(options) => doctor::run(&options),
        Sub::WriteLibrary(options) => run::library::write(&options),
        Sub::Completions(options) => pages::complete(&options, Command::command()),
        Sub::Pages(options) => pages::write(&options, Command::command()),
        Sub::Workload { words } => Ok(bench::program(&words)),
        Sub::Cc(options) => compile::c(&options),
        Sub::Cxx(options) => compile::cxx(&options),
        Sub::Cargo(options) => compile::cargo(&options),
        Sub::Trial => Ok(doctor::drop_in::trial()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("raddle: {error}");
        ExitCode::from(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of a command's words is refused, each option of it that takes a value being given `value` in turn.
    fn refusals(command: &clap::Command, path: &[&str], value: &str, all: &mut Vec<String>) {
        for option in command.get_opts() {
            let given = format!("--{}={value}", option.get_long().unwrap());
            // What is required besides is told before, or after: a wrong value comes first.
            let words = path.iter().copied().chain([given.as_str(), "fifo"]);
            all.extend(Command::try_parse_from(words).err().map(|error| error.to_string()));
        }
        for sub in command.get_subcommands() {
            refusals(sub, &[path, &[sub.get_name()]].concat(), value, all);
        }
    }

    #[test]
    fn help_fits_the_terminal() {
        for columns in [80, screen::HELP_COLUMNS] {
            let mut command = Command::command().term_width(columns);
            command.build();
            for sub in command.get_subcommands_mut() {
                let help = sub.render_long_help().to_string();
                let long: Vec<_> = help.lines().filter(|line| line.chars().count() > columns).collect();
                assert!(help.contains("Usage") && long.is_empty(), "{columns}: {long:?}");
            }
        }
    }

    #[test]
    fn whatever_number_is_wrong_an_example_of_a_right_one_is_given() {
        for value in ["x", "-1", "1.5", "", "99999999999999999999999"] {
            let mut all = Vec::new();
            refusals(&Command::command(), &["raddle"], value, &mut all);
            let wrong: Vec<_> = all.iter().filter(|text| text.contains("invalid value")).collect();
            assert!(wrong.len() > 20 || value.is_empty(), "{}: {all:?}", wrong.len());
            for text in &wrong {
                let own = ["found in string", "is not in", "empty string", "too large"];
                assert!(!own.iter().any(|own| text.contains(own)), "{text}");
                let names = ["give ", "possible values", "it is one of", "a part is"];
                assert!(names.iter().any(|name| text.contains(name)), "{text}");
            }
        }
    }
}
