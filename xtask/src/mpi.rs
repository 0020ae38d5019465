//! `cargo xtask mpi`: programs of MPI's natively and with `libraddle_mpi.so`, in turns, MPICH and Open MPI.
//!
//! Two ranks, each bound to a core of its own where there are two. Natively many threads of a rank may take so long
//! that a run is ended; that is counted, too.

use crate::shell::{self, Failure, Outcome, cargo};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod suite;

const USAGE: &str =
    "usage: cargo xtask mpi pingpong|stencil|waiting|latency [--mpi mpich|openmpi] [--threads T,..] [--runs N]
                       [--native-seconds S] [--real-time] [--rust] [--bytes N]
       cargo xtask mpi suite FOLDER [--seconds S] [TEST ..]";

/// How `mpirun` is started: its ending and options.
const MPIS: [(&str, &[&str]); 2] = [
    ("mpich", &[]),
    (
        "openmpi",
        &[
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "--mca",
            "btl_vader_single_copy_mechanism",
            "none",
        ],
    ),
];

/// Binds a rank to a core, and preloads for the program alone.
const RANK: &str = r#"
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}
exec taskset -c "$((rank % $(nproc)))" env LD_PRELOAD="$1" "${@:2}""#;

/// One run with ours that takes longer hangs.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

struct Options {
    what: String,
    mpis: Vec<(&'static str, &'static [&'static str])>,
    threads: Option<Vec<u32>>,
    runs: usize,
    native: Duration,
    real_time: bool,
    /// The stencil of `examples/mpi`, by rsmpi.
    rust: bool,
    /// Of a message, and of a buffer that waits for one.
    bytes: u32,
}

/// Longer messages, which `raddle-mpi` calls long, go to and fro by so many bytes in all.
const EAGER_BYTES: u32 = 4096;
const LONG_TOTAL_BYTES: u32 = 1 << 30;

/// A program, and its arguments for so many threads and bytes.
struct Subject {
    source: &'static str,
    threads: &'static [u32],
    arguments: fn(u32, u32) -> Vec<String>,
}

const PINGPONG: Subject = Subject {
    source: "pingpong.c",
    threads: &[1, 16, 64, 256, 1000],
    arguments: |threads, bytes| {
        let rounds = if bytes > EAGER_BYTES { LONG_TOTAL_BYTES / bytes / threads } else { 100_000 / threads };
        vec![threads.to_string(), rounds.max(2).to_string(), "0".into(), bytes.to_string()]
    },
};

/// A tile a core, and sixteen.
const STENCIL: Subject = Subject {
    source: "stencil.c",
    threads: &[1, 16],
    arguments: |tiles, _| vec![tiles.to_string(), "512".into(), "256".into(), "2000".into()],
};

/// All threads wait for ten seconds.
const WAITING: Subject = Subject {
    source: "pingpong.c",
    threads: &[8, 1000],
    arguments: |threads, bytes| vec![threads.to_string(), "5".into(), "10".into(), bytes.to_string()],
};

const LATENCY: Subject = Subject {
    source: "latency.c",
    threads: &[1, 2, 16, 64],
    arguments: |threads, _| vec![threads.to_string(), "2000".into()],
};

/// The command.
pub fn run(args: &[String]) -> Outcome {
    if args.first().is_some_and(|what| what == "suite") {
        return suite::run(&args[1..]);
    }
    let options = parse(args)?;
    let subject = match options.what.as_str() {
        "pingpong" => PINGPONG,
        "stencil" => STENCIL,
        "waiting" => WAITING,
        "latency" => LATENCY,
        other => return Err(Failure::usage(format!("`{other}` is nothing to measure; {USAGE}"))),
    };
    shell::run(&mut cargo(&["build", "--release", "-p", "raddle-drop-in", "-p", "raddle-mpi"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from);
    let release = target.join("release");
    let ours = ["libraddle_drop_in.so", "libraddle_mpi.so"].map(|file| release.join(file).display().to_string());
    let ours = ours.join(":");
    let mut hangs = 0;
    for mpi in &options.mpis {
        let program =
            if options.rust { compile_rust(mpi.0, &target)? } else { compile(mpi.0, subject.source, &target)? };
        for &threads in options.threads.as_deref().unwrap_or(subject.threads) {
            hangs += compare(&options, mpi, &program, threads, &(subject.arguments)(threads, options.bytes), &ours)?;
        }
    }
    if hangs == 0 { Ok(()) } else { Err(Failure::failed(format!("{hangs} runs with ours did not end or failed"))) }
}

fn parse(args: &[String]) -> Outcome<Options> {
    let Some((what, mut rest)) = args.split_first() else { return Err(Failure::usage(USAGE)) };
    let mut options = Options {
        what: what.clone(),
        mpis: MPIS.to_vec(),
        threads: None,
        runs: 5,
        native: Duration::from_secs(10),
        real_time: false,
        rust: false,
        bytes: 4,
    };
    while let Some((option, after)) = rest.split_first() {
        if option == "--real-time" {
            (options.real_time, rest) = (true, after);
            continue;
        }
        if option == "--rust" && what == "stencil" {
            (options.rust, rest) = (true, after);
            continue;
        }
        let Some((value, after)) = after.split_first() else { return Err(Failure::usage(USAGE)) };
        let number = || value.parse::<u32>().map_err(|_| Failure::usage(format!("{option} {value}: not a number")));
        match option.as_str() {
            "--mpi" => options.mpis.retain(|(name, _)| name == value),
            "--bytes" if ["pingpong", "waiting"].contains(&what.as_str()) => options.bytes = number()?.max(4),
            "--runs" => options.runs = number()?.max(1) as usize,
            "--native-seconds" => options.native = Duration::from_secs(number()?.into()),
            "--threads" => {
                let threads: Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
                options.threads = Some(threads.map_err(|_| Failure::usage(format!("--threads {value}: not numbers")))?);
            }
            _ => return Err(Failure::usage(USAGE)),
        }
        rest = after;
    }
    if options.mpis.is_empty() {
        return Err(Failure::usage("--mpi: mpich or openmpi"));
    }
    Ok(options)
}

fn compile(mpi: &str, source: &str, target: &Path) -> Outcome<PathBuf> {
    let program = target.join(format!("mpi-{mpi}-{source}.out"));
    let mut compiler = Command::new(format!("mpicc.{mpi}"));
    let folder = if source == STENCIL.source { "examples/c" } else { "crates/mpi/tests/c" };
    // Another command may be starting it meanwhile.
    let new = target.join(format!("mpi-{mpi}-{source}.{}", std::process::id()));
    compiler.args(["-O2", "-pthread", "-o"]).arg(&new).arg(shell::root().join(folder).join(source));
    shell::run(&mut compiler)?;
    std::fs::rename(&new, &program).map_err(|error| Failure::failed(format!("{}: {error}", program.display())))?;
    Ok(program)
}

/// `examples/mpi`. Its build asks `MPICC` for the MPI, and libclang (`LIBCLANG_PATH`) for its header.
fn compile_rust(mpi: &str, target: &Path) -> Outcome<PathBuf> {
    let folder = target.join(format!("mpi-{mpi}-rust"));
    let mut build = cargo(&["build", "--release", "--manifest-path", "examples/mpi/Cargo.toml"]);
    build.env("CARGO_TARGET_DIR", &folder).env("MPICC", format!("mpicc.{mpi}"));
    shell::run(&mut build)?;
    Ok(folder.join("release/raddle-example-mpi"))
}

/// What a run has told: its result, and figures from lines such as `T=16: 1.25 us a round`; none where there is no such
/// line.
#[derive(Debug)]
struct Told {
    result: String,
    wall: Option<f64>,
    /// The largest of the ranks'.
    processor: Option<f64>,
}

impl Told {
    fn by(result: &str, text: &str) -> Told {
        Told {
            result: result.trim().to_string(),
            wall: figure(text, " us a"),
            processor: figure(text, " us of processor").or_else(|| figure(text, " s of processor")),
        }
    }
}

/// One size natively and with ours, in turns; prints a line. The answer is how many runs with ours went wrong.
fn compare(
    options: &Options,
    mpi: &(&str, &[&str]),
    program: &Path,
    threads: u32,
    arguments: &[String],
    ours: &str,
) -> Outcome<usize> {
    let mut told: [Vec<Told>; 2] = [Vec::new(), Vec::new()];
    let mut failed = [0, 0];
    for round in 0..options.runs {
        // Each is the first in every other round: under SCHED_RR the kernel keeps 50 ms of each second for others, and
        // of two short runs that may be the second's.
        for way in [round % 2, 1 - round % 2] {
            let preload = ["", ours][way];
            let patience = if way == 0 { options.native } else { ENDS_WITHIN };
            // Natively all of them may be ended: two tell enough.
            if way == 0 && (patience.is_zero() || failed[0] == 2 && told[0].is_empty()) {
                continue;
            }
            match one(options, mpi, program, arguments, preload, patience)? {
                Some(run) => told[way].push(run),
                None => failed[way] += 1,
            }
        }
    }
    let results: Vec<&str> = told.iter().flatten().map(|run| run.result.as_str()).collect();
    let same = results.windows(2).all(|pair| pair[0] == pair[1]);
    let [native, with] = [0, 1].map(|way| summary(&told[way], failed[way]));
    let times = times(&told);
    println!(
        "{} T={threads}: natively {native}; with ours {with}{times}{}",
        mpi.0,
        if same { "" } else { "; RESULTS DIFFER" }
    );
    Ok(failed[1] + usize::from(!same))
}

/// How many times as long it takes natively, where both ways have told it.
fn times([native, with]: &[Vec<Told>; 2]) -> String {
    match (median(native, |run| run.wall), median(with, |run| run.wall)) {
        (Some(native), Some(with)) => format!("; natively {:.2} times as long", native / with),
        _ => String::new(),
    }
}

fn median(told: &[Told], of: fn(&Told) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = told.iter().filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn summary(told: &[Told], failed: usize) -> String {
    let ended = if failed == 0 { String::new() } else { format!(", {failed} did not end") };
    if told.is_empty() {
        return format!("no run{ended}");
    }
    let mut figures = Vec::new();
    if let Some(wall) = median(told, |run| run.wall) {
        let least = told.iter().filter_map(|run| run.wall).fold(f64::MAX, f64::min);
        figures.push(format!("{wall:.2} us (least {least:.2})"));
    }
    if let Some(processor) = median(told, |run| run.processor) {
        figures.push(format!("processor time {processor:.2}"));
    }
    if figures.is_empty() {
        figures.push("told no time".into());
    }
    format!("{} ({} runs{ended})", figures.join(", "), told.len())
}

/// One run. `None` if it did not end in time, or failed.
fn one(
    options: &Options,
    (name, flags): &(&str, &[&str]),
    program: &Path,
    arguments: &[String],
    preload: &str,
    patience: Duration,
) -> Outcome<Option<Told>> {
    let mpirun = format!("mpirun.{name}");
    let mut command = if options.real_time {
        let mut command = Command::new("chrt");
        command.args(["-r", "1", &mpirun]);
        command
    } else {
        Command::new(&mpirun)
    };
    command.args(*flags).args(["-n", "2", "bash", "-c", RANK, "rank", preload]).arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Failure::usage(format!("{mpirun}: {error}")))?;
    if !ends(&mut child, patience) {
        return Ok(None);
    }
    let output = child.wait_with_output().map_err(|error| Failure::failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        println!("{}", text.trim());
        return Ok(None);
    }
    Ok(Some(Told::by(&String::from_utf8_lossy(&output.stdout), &text)))
}

/// True if an `mpirun` ends in time; it is asked to end otherwise, which ends its ranks.
fn ends(child: &mut Child, patience: Duration) -> bool {
    let limit = Instant::now() + patience;
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() > limit {
            let _ = Command::new("sh").args(["-c", &format!("kill {}", child.id())]).status();
            let _ = child.wait();
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The largest number right before `unit`.
fn figure(text: &str, unit: &str) -> Option<f64> {
    let numbers = text.lines().filter_map(|line| line.split_once(unit)?.0.rsplit(' ').next()?.parse().ok());
    numbers.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_before_their_unit() {
        let text = "T=16: 1.25 us a round\nrank 0: 0.50 us of processor time a round\nrank 1: 0.75 us of processor time a round";
        assert_eq!(figure(text, " us a"), Some(1.25));
        assert_eq!(figure(text, " us of processor"), Some(0.75));
        assert_eq!(figure(text, " s of processor"), None);
    }

    #[test]
    fn a_time_that_is_not_told_is_no_figure() {
        let told = |text: &str| (0..2).map(|_| Told::by("abc\n", text)).collect::<Vec<_>>();
        assert_eq!(times(&[told(""), told("")]), "");
        assert_eq!(times(&[told("T=1: 3.00 us a step"), told("")]), "");
        assert_eq!(times(&[told("T=1: 3.00 us a step"), told("T=1: 2.00 us a step")]), "; natively 1.50 times as long");
        assert_eq!(summary(&told(""), 0), "told no time (2 runs)");
        assert_eq!(summary(&told("rank 0: 0.5 s of processor time"), 1), "processor time 0.50 (2 runs, 1 did not end)");
        assert_eq!(summary(&[], 2), "no run, 2 did not end");
    }

    #[test]
    fn a_wrong_option_is_refused() {
        for wrong in [&["pingpong", "--mpi", "lam"][..], &["pingpong", "--runs", "x"], &["pingpong", "--runs"], &[]] {
            let args: Vec<String> = wrong.iter().map(|word| word.to_string()).collect();
            assert!(parse(&args).is_err(), "{wrong:?}");
        }
    }
}
