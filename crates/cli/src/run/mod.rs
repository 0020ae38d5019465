//! `raddle run`: an existing program, its threads lightweight.
//!
//! Everything that can be known to go wrong is found before anything is started; then this process becomes the program.

mod compare;
mod elf;
pub mod library;
mod program;
mod ranks;
mod tunables;
mod unpack;

pub use library::own_program;

use crate::output::to_be_put;
use clap::{Args, ValueEnum, ValueHint};
use program::{Found, Program};
use raddle::drop_in::DUMP_SIGNALS;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const EXAMPLES: &str = "\
Examples:
  raddle run -- ./server --port 7000               its threads are lightweight
  raddle run --stats -- python3 app.py             and counters are printed when it ends
  raddle run --trace t.json -- ./server            what its threads did at the end, for ui.perfetto.dev
  raddle run --processors 4 --policy fifo -- ./server
  raddle run --main -- ./server                    its first thread, which gives out the work, is lightweight, too
  raddle run --children -- sh start.sh             what the script starts is taken over, too
  mpirun -n 4 raddle run --mpi -- ./stencil        its threads wait in MPI's calls without holding a core
  raddle run --compare=5 -- xz -T 4 -k -f file     five runs each, natively and so: time, memory, kernel threads

The program must be linked dynamically with glibc. The programs that it starts run as they would without raddle, unless
--children is given; one that it replaces itself by (`exec`) is taken over.

Exit status: that of the program; 127 when it is not found, 126 when it cannot be run so, 2 when the command line is wrong.";

/// Run an existing program, its threads lightweight
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Options {
    /// Run its threads on at most N processors; default: as many as the cores that it may use
    #[arg(
        long, allow_negative_numbers = true, value_name = "N",
        value_parser = crate::numbers::whole::<u16>(1..=raddle::pool::MAX_PROCESSORS as u64, "--processors 4")
    )]
    processors: Option<u16>,
    /// Keep all processors where other processes use the cores, too; otherwise some rest while a program that waits for
    /// descriptors a lot does about as much on fewer
    #[arg(long)]
    all_processors: bool,
    /// What becomes of threads that call `epoll_wait` again and again; by default a kernel thread each, but gathered
    /// where others use the cores, too, and the program does about as much so
    #[arg(long, value_name = "HOW")]
    event_loops: Option<EventLoops>,
    /// Let each thread send at once; otherwise, under a policy without priorities, threads that are ready together send
    /// together, so that whoever gets it is woken once
    #[arg(long)]
    direct_sends: bool,
    /// When threads give way that do not wait. The timer also finds code without quantum checks; it costs a signal in
    /// each quantum (RADDLE_QUANTUM, in microseconds) while others wait
    #[arg(long, value_name = "WHEN")]
    preempt: Option<Preempt>,
    /// The policy that decides which thread runs next, such as `fifo` or `steal(fifo)`
    #[arg(long, value_name = "EXPR")]
    policy: Option<String>,
    /// Have threads that wait in MPI's calls let others run; for all ranks of a program alike
    #[arg(long)]
    mpi: bool,
    /// Print counters on standard error when the program ends
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    stats: Option<Stats>,
    /// Write all threads to standard error when the process gets SIGNAL (QUIT, HUP, USR1, USR2, WINCH or a number):
    /// what each waits for, who holds that, and where it is
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    dump_on: Option<i32>,
    /// Write what the runtime does, each second, in Prometheus's format, into FILE (`{pid}` in its name is the
    /// process's number); without FILE, where `raddle top` looks
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    metrics: Option<String>,
    /// Write a trace for ui.perfetto.dev into FILE when the program ends: who ran where, who waited for what, who woke
    /// whom (`{pid}` in its name is the process's number). If a signal ends it (Ctrl-C, too): `raddle trace FILE.raw`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many events of each processor a trace keeps: the last ones
    #[arg(
        long, allow_negative_numbers = true, value_name = "N", requires = "trace", default_value_t = raddle::trace::EVENTS as u32,
        value_parser = crate::numbers::whole::<u32>(1024..=raddle::trace::MOST_EVENTS as u64, "--trace-events 65536")
    )]
    trace_events: u32,
    /// Run `main` on a lightweight thread, too: for programs whose first thread hands work to others all the time
    #[arg(long)]
    main: bool,
    /// Take over the programs that it starts, too
    #[arg(long)]
    children: bool,
    /// Run it natively and under raddle, in turns, so often each (3 times if no number is given), and show what each
    /// took; standard input is empty
    #[arg(
        long, value_name = "ROUNDS", num_args = 0..=1, require_equals = true, default_missing_value = "3", conflicts_with = "trace",
        value_parser = crate::numbers::whole::<u16>(1..=u64::from(u16::MAX), "--compare=5")
    )]
    compare: Option<u16>,
    /// Make no remarks
    #[arg(long)]
    quiet: bool,
    /// One run of a comparison: what can be known beforehand was looked at, and remarks were made
    #[arg(long, hide = true)]
    compared: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EventLoops {
    /// Always a kernel thread each
    Apart,
    /// Always on the processors, in turns
    Gathered,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preempt {
    /// Where they wait only
    Never,
    /// At quantum checks, which a compiler has put in, and where they are found spinning (the default)
    Yields,
    /// There, and where a timer finds them
    Timer,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stats {
    Text,
    Json,
}

/// What the library reads in the environment, and the command does not, with the option to give.
const OPTIONS_ALONE: [(&str, &str); 8] = [
    ("RADDLE_STATS", "--stats"),
    ("RADDLE_METRICS", "--metrics"),
    ("RADDLE_TRACE", "--trace"),
    ("RADDLE_TRACE_EVENTS", "--trace-events"),
    ("RADDLE_DUMP_ON", "--dump-on"),
    ("RADDLE_CHILDREN", "--children"),
    ("RADDLE_MAIN", "--main"),
    ("RADDLE_QUIET", "--quiet"),
];

/// A line for what the user has set in vain. An outer `raddle run` sets them for itself.
fn tell_of_settings(options: &Options) {
    if options.quiet || options.compared || std::env::var_os("RADDLE_RUN").is_some() {
        return;
    }
    for (name, option) in OPTIONS_ALONE.into_iter().filter(|(name, _)| std::env::var_os(name).is_some()) {
        eprintln!("raddle: {name} is not looked at: give {option}");
    }
}

/// A signal that may be caught, and that no fault brings.
fn signal(text: &str) -> Result<i32, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let number =
        DUMP_SIGNALS.iter().find(|(known, number)| *known == name || number.to_string() == name).map(|known| known.1);
    number.ok_or_else(|| format!("it is one of {}, or its number", DUMP_SIGNALS.map(|known| known.0).join(", ")))
}

/// Runs the subcommand: returns only when the program could not be started.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    if !options.compared {
        check_policy(options)?;
    }
    tell_of_settings(options);
    let Some((name, arguments)) = options.command.split_first() else { return Err("no program is named".into()) };
    let found = match program::find(name, arguments) {
        Ok(found) => found,
        Err(refusal) => {
            eprintln!("raddle: {refusal}");
            if let Some(option) = option_before(name, std::env::args_os()) {
                eprintln!("raddle: as the value of {option} it is written with `=`: {option}={}", name.display());
            }
            return Ok(ExitCode::from(refusal.status()));
        }
    };
    let mut library = library::find()?;
    if options.mpi {
        if elf::has_own_mpi(&found.program.path) {
            eprintln!(
                "raddle: `{}` cannot be run with --mpi: an MPI is linked into it, so its calls cannot be taken over; \
                 link it with the shared library of MPI",
                found.program.path.display()
            );
            return Ok(ExitCode::from(126));
        }
        library = format!("{library}:{}", library::find_for_mpi()?);
    }
    if let Some(hint) = hint(&found).filter(|_| !options.children && !options.quiet && !options.compared) {
        eprintln!("raddle: note: {hint}");
    }
    if let Some(remark) = library::remark().filter(|_| !options.quiet && !options.compared) {
        eprintln!("raddle: note: {remark}");
    }
    if let Some(rounds) = options.compare {
        let done = compare::compare(&found.program, options, rounds);
        return done.map_err(|error| format!("`{}` cannot be compared: {error}", found.program.path.display()));
    }
    let metrics = options.metrics.as_deref().map(|named| crate::top::file(named.as_ref())).transpose()?;
    let trace = options.trace.as_deref().map(|named| to_be_put("--trace", named)).transpose()?;
    let error = match elf::sanitizer(&found.program.path) {
        Some(sanitizer) => {
            if !options.quiet && !options.compared {
                let name = found.program.path.display();
                eprintln!("raddle: note: `{name}` is built with {sanitizer}: it runs as it is, on kernel threads");
            }
            natively(&found.program).exec()
        }
        None => command(&found.program, options, &library, Files { metrics, trace }).exec(),
    };
    eprintln!("raddle: `{}` cannot be started: {error}", found.program.path.display());
    Ok(ExitCode::from(126))
}

/// The option whose value is a choice, where the program's name stands behind it.
fn option_before(name: &OsStr, words: impl Iterator<Item = OsString>) -> Option<&'static str> {
    let words: Vec<OsString> = words.take_while(|word| word != "--").collect();
    let before = words.windows(2).find(|pair| pair[1] == name).map(|pair| &pair[0])?;
    ["--stats", "--metrics", "--compare"].into_iter().find(|option| before == option)
}

/// A policy is tried out before the program starts: the library in the program could only complain and go on without
/// it.
fn check_policy(options: &Options) -> Result<(), String> {
    let Some(policy) = &options.policy else { return Ok(()) };
    let policy: raddle::policy::Expression = policy.parse().map_err(|error| format!("--policy: {error}"))?;
    let mut builder = raddle::Builder::new().policy(policy);
    if let Some(processors) = options.processors {
        builder = builder.processors(processors.into());
    }
    builder.build().map(drop).map_err(|error| format!("--policy: {error}"))
}

/// The program without the library.
fn natively(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command.arg0(&program.name).args(&program.arguments).envs(program.environment.iter().cloned());
    command
}

/// Where the library writes, absolute: the program may go elsewhere.
#[derive(Default)]
struct Files {
    metrics: Option<PathBuf>,
    trace: Option<PathBuf>,
}

fn command(program: &Program, options: &Options, library: &str, files: Files) -> Command {
    let Files { metrics, trace } = files;
    let mut command = natively(program);
    let mut preload = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload).env("RADDLE_RUN", std::process::id().to_string());
    tunables::set(&mut command);
    // What is not asked for must not come from an outer `raddle run`; processors and policy may be set by hand.
    for (name, _) in OPTIONS_ALONE {
        command.env_remove(name);
    }
    let share = || ranks::processors().filter(|_| options.mpi);
    if let Some(processors) = options.processors.map(usize::from).or_else(share) {
        command.env("RADDLE_PROCESSORS", processors.to_string());
    }
    if let Some(policy) = &options.policy {
        command.env("RADDLE_POLICY", policy);
    }
    if let Some(when) = options.preempt {
        let name = match when {
            Preempt::Never => "never",
            Preempt::Yields => "yields",
            Preempt::Timer => "timer",
        };
        command.env("RADDLE_PREEMPT", name);
    }
    if let Some(format) = options.stats {
        command.env("RADDLE_STATS", if format == Stats::Json { "json" } else { "text" });
    }
    if options.all_processors {
        command.env("RADDLE_ALL_PROCESSORS", "1");
    }
    if let Some(how) = options.event_loops {
        command.env("RADDLE_EVENT_LOOPS", if how == EventLoops::Apart { "apart" } else { "gathered" });
    }
    if options.direct_sends {
        command.env("RADDLE_DIRECT_SENDS", "1");
    }
    if let Some(signal) = options.dump_on {
        command.env("RADDLE_DUMP_ON", signal.to_string());
    }
    if let Some(file) = metrics {
        command.env("RADDLE_METRICS", file);
    }
    if let Some(file) = trace {
        command.env("RADDLE_TRACE", file).env("RADDLE_TRACE_EVENTS", options.trace_events.to_string());
    }
    if options.main {
        command.env("RADDLE_MAIN", "1");
    }
    if options.quiet || options.compared {
        command.env("RADDLE_QUIET", "1");
    }
    if options.children {
        command.env("RADDLE_CHILDREN", "1");
    }
    command
}

/// A remark for programs whose work others do.
fn hint(found: &Found) -> Option<String> {
    const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"];
    // Others (`env`, `nice` and so on) replace themselves by it.
    const STARTERS: [&str; 4] = ["timeout", "xargs", "make", "setsid"];
    // Debian's have an MPI's name behind a dot.
    const RANK_STARTERS: [&str; 5] = ["mpirun", "mpiexec", "orterun", "prterun", "srun"];
    let file = found.program.path.file_name()?.to_str()?;
    if SHELLS.contains(&file) {
        let subject = match &found.script {
            Some(script) => format!("`{}` is a shell script", script.display()),
            None => format!("`{file}` is a shell"),
        };
        return Some(format!(
            "{subject}: what it replaces itself by (`exec`) is taken over, other programs that it starts are not; --children takes them over, too"
        ));
    }
    if RANK_STARTERS.contains(&file.split('.').next().unwrap_or(file)) {
        return Some(format!(
            "`{file}` starts other programs, which run without raddle: write `{file} ... raddle run --mpi -- PROGRAM`"
        ));
    }
    STARTERS.contains(&file).then(|| {
        format!(
            "`{file}` starts another program, which runs without raddle: write `{file} ... raddle run -- PROGRAM`, or give --children"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(["QUIT", "SIGQUIT", "3", "USR1"].map(signal), [Ok(3), Ok(3), Ok(3), Ok(10)]);
        assert!(signal("KILL").unwrap_err().contains("QUIT") && signal("9").is_err());
    }
}
