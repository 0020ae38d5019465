//! `raddle sim predict`: what the simulated machine says of programs on one and two processors, beside what they do here.

use crate::output::write;
use clap::Args;
use raddle_bench::bodies::shared::Traffic;
use raddle_bench::catalogue;
use raddle_bench::harness::{self, Contestant};
use raddle_bench::runtimes::{self, Programs};
use raddle_bench::stats::Spread;
use raddle_sim::calibrate::{ROUNDS, middle};
use raddle_sim::cost::Costs;
use raddle_sim::simulate::{self, Plan};
use raddle_sim::workloads::Workload;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A prediction this near is said to hold.
const NEAR: f64 = 0.2;

/// The workload, its arguments in `raddle bench` and in the simulation, and the policy. Packets are those of the schedulers report, whose
/// spawner is held back by a full queue; otherwise what is measured on one processor is memory that is used for the first time. All are so
/// short that some processes run them without being interrupted, on a machine that is not quite idle.
const CASES: [(&str, &str, &str, &str); 4] = [
    ("packet", "N=2k", "n=2k", "local(overflow=retry)"),
    ("fib", "n=17", "n=17", "steal"),
    ("tokenring", "N=100:K=50", "n=100:k=50", "steal"),
    ("lock_global", "T=64:total=32k", "t=64:total=32k", "steal"),
];

/// What to hold against what.
#[derive(Args)]
pub struct Options {
    /// A JSON file of costs that `raddle sim --calibrate` wrote here; without it the machine is measured first
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// How many fresh processes run each program; the middle one counts (the quickest of two processors may be one in which one of them ran all)
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Take the benchmark's program from FOLDER, instead of building it
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Write the table to FILE instead of the standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// One prediction, in nanoseconds for each operation.
struct Row {
    name: &'static str,
    arguments: String,
    policy: &'static str,
    processors: usize,
    predicted: f64,
    measured: Spread,
}

/// Runs it. A prediction that is far off is a result, not a failure.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let costs = match &options.machine {
        Some(file) => super::machine(&file.to_string_lossy())?,
        None => super::calibrate::costs()?,
    };
    // Each process repeats its program, and the last time counts: what it uses lies in the caches.
    let costs = Costs { memory: costs.hit, ..costs };
    let runtime = runtimes::find("raddle")?;
    let executable = std::env::current_exe().map_err(|why| format!("cannot tell where this program lies: {why}"))?;
    let programs = match &options.programs {
        Some(folder) => Programs::ready(folder),
        None => Programs::beside(&executable, true),
    };
    let program = programs.prepare(runtime, &mut |step| eprintln!("{step}"))?;
    let mut rows = Vec::new();
    for (name, real, simulated, policy) in CASES {
        for processors in [1, 2] {
            eprintln!("raddle: {name} on {processors}");
            let workload = Workload::find(name)?;
            let (measured, ops) = measure(name, real, policy, processors, options.rounds, program.clone())?;
            let simulated = if name == "packet" { format!("{simulated}:{}", of_packets()?) } else { simulated.into() };
            let plan = Plan {
                policy: policy.parse().map_err(|why| format!("{why}"))?,
                cores: processors,
                workload,
                arguments: workload.arguments(&simulated)?,
                costs: costs.clone(),
                seed: 1,
                steps: 20_000_000_000,
            };
            let figures = simulate::simulate(&plan)?;
            let operations = figures.operations as f64;
            let predicted = figures.elapsed as f64 / operations;
            // The benchmark gives the time of some of its programs as a whole.
            let measured = times(measured, ops as f64 / operations);
            rows.push(Row { name, arguments: plan.arguments.to_string(), policy, processors, predicted, measured });
        }
    }
    write(&table(&costs, &rows, options.rounds), options.out.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn times(spread: Spread, factor: f64) -> Spread {
    let Spread { min, q1, median, q3, max } = spread;
    let [min, q1, median, q3, max] = [min, q1, median, q3, max].map(|value| value * factor);
    Spread { min, q1, median, q3, max }
}

/// Nanoseconds of the program's operations, and how many the benchmark counts.
fn measure(
    name: &str,
    arguments: &str,
    policy: &str,
    processors: usize,
    rounds: u32,
    program: PathBuf,
) -> Result<(Spread, u64), String> {
    let case = catalogue::cases(catalogue::find(name)?, &[arguments.into()], processors)?;
    let contestant = Contestant {
        runtime: runtimes::find("raddle")?,
        policy: Some(policy.into()),
        program: Ok(program),
        words: Vec::new(),
    };
    // Some workloads come with a case on one processor, too.
    let cases = case.into_iter().filter(|case| case.processors == processors).take(1).collect();
    let plan = harness::Plan { cases, contestants: vec![contestant], rounds, repeat: 9 };
    let results = harness::run(&plan, &mut |_| ());
    let row = results.rows.first().ok_or_else(|| format!("{name}: the benchmark gave no row"))?;
    match (&row.error, row.spread, row.ops) {
        (None, Some(spread), Some(ops)) => Ok((spread, ops)),
        (error, ..) => Err(format!("{name}: {}", error.as_deref().unwrap_or("the benchmark gave no time"))),
    }
}

/// As many packets are under way as the spawner's queue holds, and as many are copied in a row as run before it comes to its turn again: so
/// their buffers come from where they do in the program.
const UNDER_WAY: usize = 128;
const PART: usize = 16;
/// Parts in a round: as many packets as the program has. Allocators have good and bad parts, so the time is that of a round.
const PARTS: usize = 125;

/// What a spawner hands to a thread, boxed as the spawn boxes it.
type Packet = Box<dyn FnOnce() -> bool + Send>;

/// The program's own code for a part: what a spawner does for each packet.
fn copy(traffic: &'static Traffic, numbers: &mut Range<u64>) -> Vec<Packet> {
    let packet = |number| -> Packet {
        let (buffer, since) = (traffic.take(number), Instant::now());
        let _ = traffic.started(0, number);
        Box::new(move || traffic.handle(number, since, buffer))
    };
    numbers.take(PART).map(packet).collect()
}

/// And what the threads do.
fn handle(packets: impl Iterator<Item = Packet>) -> Duration {
    let begin = Instant::now();
    packets.for_each(|packet| _ = packet());
    begin.elapsed()
}

/// What a packet costs its spawner and its thread, beside being spawned and scheduled: where both are on one processor, and what it costs
/// more where they are on two (its bytes move, and its memory is freed where it was not allocated).
fn of_packets() -> Result<String, String> {
    let count = (PARTS * PART) as u64;
    let case = catalogue::cases(catalogue::find("packet")?, &[format!("N={count}")], 1)?;
    let traffic = Traffic::of("packet", &case.first().ok_or("the workload `packet` has no case")?.args)?;
    // Kernel threads of their own, as the library's are: an allocator may keep other memory for the first one.
    let on_their_own = |rounds: fn(&'static Traffic) -> Vec<(f64, f64)>| {
        let thread = std::thread::Builder::new().spawn(move || rounds(traffic));
        let thread = thread.map_err(|why| format!("no kernel thread for the calibration: {why}"))?;
        thread.join().map_err(|_| "the packets' own code has failed".to_string())
    };
    let near = middle_of(on_their_own(near)?);
    let far = middle_of(on_their_own(far)?);
    let more = |near: f64, far: f64| (far - near).max(0.0).round();
    let far = (more(near.0, far.0), more(near.1, far.1));
    Ok(format!("copy={}:body={}:bytes=0:copy_far={}:body_far={}", near.0.round(), near.1.round(), far.0, far.1))
}

fn middle_of(rounds: Vec<(f64, f64)>) -> (f64, f64) {
    let (copied, handled): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
    (middle(copied), middle(handled))
}

/// Nanoseconds for each packet of a round.
fn each(took: Duration) -> f64 {
    took.as_nanos() as f64 / (PARTS * PART) as f64
}

/// Copied and looked through by one kernel thread.
fn near(traffic: &'static Traffic) -> Vec<(f64, f64)> {
    let mut under_way = VecDeque::new();
    let round = |_| {
        let mut numbers = 0..(PARTS * PART) as u64;
        let (mut copied, mut handled) = (Duration::ZERO, Duration::ZERO);
        while !numbers.is_empty() {
            let begin = Instant::now();
            under_way.extend(copy(traffic, &mut numbers));
            copied += begin.elapsed();
            if under_way.len() > UNDER_WAY {
                handled += handle(under_way.drain(..PART));
            }
        }
        (each(copied), each(handled))
    };
    // The first one has fewer to look through.
    (0..=ROUNDS).map(round).skip(1).collect()
}

/// Copied by one kernel thread and looked through by another, by turns.
fn far(traffic: &'static Traffic) -> Vec<(f64, f64)> {
    let (send, parts) = mpsc::channel::<Vec<Packet>>();
    let (answer, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        // The two are on two processors while neither sleeps.
        scope.spawn(move || {
            while let Some(part) = awake(&parts) {
                let _ = answer.send(handle(part.into_iter()));
            }
        });
        let round = |_| {
            let mut numbers = 0..(PARTS * PART) as u64;
            let (mut copied, mut handled) = (Duration::ZERO, Duration::ZERO);
            while !numbers.is_empty() {
                let begin = Instant::now();
                let part = copy(traffic, &mut numbers);
                copied += begin.elapsed();
                let _ = send.send(part);
                handled += awake(&answers).unwrap_or_default();
            }
            (each(copied), each(handled))
        };
        let rounds = (0..ROUNDS).map(round).collect();
        drop(send);
        rounds
    })
}

/// What comes, waited for without sleeping; none when nobody can send any more.
fn awake<T>(source: &mpsc::Receiver<T>) -> Option<T> {
    for look in 1u32.. {
        match source.try_recv() {
            Ok(value) => return Some(value),
            Err(mpsc::TryRecvError::Disconnected) => return None,
            Err(mpsc::TryRecvError::Empty) if look.is_multiple_of(4096) => std::thread::yield_now(),
            Err(mpsc::TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    None
}

fn table(costs: &Costs, rows: &[Row], rounds: u32) -> String {
    let mut text = format!(
        "predicted on {}, measured in {rounds} processes each: nanoseconds an operation\n{:<12} {:<22} {:>10} {:>10} {:>10} {:>10}  {:>9}\n",
        costs.name, "workload", "policy", "processors", "predicted", "middle", "quickest", "predicted"
    );
    for row in rows {
        let Row { name, policy, processors, predicted, measured, .. } = row;
        let off = predicted / measured.median - 1.0;
        let verdict = if off.abs() <= NEAR { "" } else { "  beyond 20 %" };
        let _ = writeln!(
            text,
            "{name:<12} {policy:<22} {processors:>10} {predicted:>10.1} {:>10.1} {:>10.1}  {:>+7.0} %{verdict}",
            measured.median,
            measured.min,
            off * 100.0,
        );
    }
    for row in rows.iter().filter(|row| row.processors == 1) {
        let _ = writeln!(text, "{}: {}", row.name, row.arguments);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_near_and_what_is_not() {
        let row = |processors, predicted| {
            let measured = Spread { min: 80.0, q1: 95.0, median: 100.0, q3: 120.0, max: 200.0 };
            Row { name: "fib", arguments: "n=24".into(), policy: "steal", processors, predicted, measured }
        };
        let costs = Costs::preset("host").unwrap();
        let text = table(&costs, &[row(1, 119.0), row(2, 70.0)], 9);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("+19 %") && !lines[2].contains("beyond"), "{text}");
        assert!(lines[3].contains("-30 %  beyond 20 %") && lines[4] == "fib: n=24", "{text}");
    }

    #[test]
    fn every_case_is_a_workload_here_and_there() {
        for (name, real, simulated, policy) in CASES {
            assert!(Workload::find(name).unwrap().arguments(simulated).is_ok(), "{name}");
            assert_eq!(catalogue::cases(catalogue::find(name).unwrap(), &[real.into()], 1).unwrap().len(), 1, "{name}");
            assert!(policy.parse::<simulate::Expression>().is_ok(), "{name}");
        }
        assert!(of_packets().unwrap().starts_with("copy="));
    }
}
