//! `raddle trace`: what is left of a trace whose program did not end by itself.

use crate::output::{print, to_be_put};
use clap::Args;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  raddle run --trace t.json -- ./server      writes t.json when the server ends
  raddle trace t.json.raw                    makes t.json of what is left when it crashed, was killed, or Ctrl-C ended it

Open the file at https://ui.perfetto.dev. Nothing of it leaves the machine.

Exit status: 0, or 2 when it is no trace, or cannot be read or written.";

/// Make JSON of a trace whose program crashed, was killed, or replaced itself
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Options {
    /// What `raddle run --trace` left there
    #[arg(value_name = "FILE.raw")]
    raw: PathBuf,
    /// Where it is written; by default its name without `.raw`
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let plain = || match options.raw.extension() {
        Some(end) if end == "raw" => Ok(options.raw.with_extension("")),
        _ => Err(format!("{} does not end in .raw: say with --output where to write", options.raw.display())),
    };
    File::open(&options.raw).map_err(|error| {
        // The name that `raddle run --trace` was given.
        let mut raw = options.raw.clone().into_os_string();
        raw.push(".raw");
        let raw = PathBuf::from(raw);
        let hint = if raw.is_file() { format!("; {} is there", raw.display()) } else { String::new() };
        format!("{}: {error}{hint}", options.raw.display())
    })?;
    let into = to_be_put("--output", &options.output.clone().map_or_else(plain, Ok)?)?;
    raddle::trace::convert(&options.raw, &into).map_err(|error| format!("{}: {error}", options.raw.display()))?;
    print(&format!("{}\n", into.display())).map(|()| ExitCode::SUCCESS)
}
