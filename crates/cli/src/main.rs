//! The command `raddle`. One file per subcommand; this one only picks it.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod doctor;
mod output;
mod run;
mod sim;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Lightweight threads: run programs on them, measure them, check their schedulers, and see what this machine offers them.
#[derive(Parser)]
#[command(name = "raddle", version, arg_required_else_help = true)]
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
    Doctor(doctor::Options),
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

fn main() -> ExitCode {
    let result = match Command::parse().subcommand {
        Sub::Run(options) => run::run(&options),
        Sub::Bench(options) => bench::run(&options),
        Sub::Check(options) => check::run(&options),
        Sub::Sim(options) => sim::run(&options),
        Sub::Doctor(options) => doctor::run(&options),
        Sub::Workload { words } => Ok(bench::program(&words)),
        Sub::Trial => Ok(doctor::drop_in::trial()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("raddle: {error}");
        ExitCode::from(2)
    })
}
