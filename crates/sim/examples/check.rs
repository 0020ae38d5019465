//! `raddle check` without the rest of the command: after a change of a policy it is built in seconds.
//! `cargo run -p raddle-sim --example check -- POLICY`
#![forbid(unsafe_code)]

#[path = "../../cli/src/check.rs"]
mod check;
#[path = "../../cli/src/numbers.rs"]
mod numbers;
#[expect(dead_code, reason = "other parts of the command use the rest of it")]
#[path = "../../cli/src/screen.rs"]
mod screen;

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "check")]
struct Command {
    #[command(flatten)]
    options: check::Options,
}

fn main() -> ExitCode {
    check::run(&Command::parse().options).unwrap_or_else(|error| {
        eprintln!("check: {error}");
        ExitCode::from(2)
    })
}
