//! `raddle sim --calibrate`: what this machine costs.

use crate::output::Output;
use raddle_bench::{child::tied, quiet};
use raddle_sim::calibrate::{
    AT_ONCE, Measured, Observers, OfThreads, ROUNDS, fit, measure, probes, quick, quickest, quietly, round, warning,
};
use raddle_sim::cost::Costs;
use rustix::process::Signal;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Such that a round of each takes some hundred microseconds, see [`ROUNDS`].
const THREADS: u64 = 2_000;
const YIELDS: u64 = 10_000;
const WORDS: u64 = 20_000;
const TURNS: u64 = 50_000;
/// Who does not begin within that time will not.
const LATE: Duration = Duration::from_millis(20);
/// Processes that measure, one after the other.
const PROCESSES: u32 = 3;

/// Measures, and writes the file of costs.
pub fn run(out: Option<&Path>) -> Result<ExitCode, String> {
    crate::output::has_only("json", out)?;
    let output = Output::claim(out)?;
    output.write(&costs()?.to_json())?;
    Ok(ExitCode::SUCCESS)
}

/// The costs of this machine. Tells on the standard error how well the model meets the probes.
pub fn costs() -> Result<Costs, String> {
    warn();
    let part = |part| {
        eprintln!("raddle: calibrating, {part} of {PROCESSES}");
        measured_afresh()
    };
    let all = (1..=PROCESSES).map(part).collect::<Result<Vec<_>, _>>()?;
    let disturbed: f64 = all.iter().map(|one| one.disturbed).sum();
    if disturbed > 0.0 {
        eprintln!(
            "raddle: warning: {disturbed} probes between two cores were disturbed to the end, and count all the same: try again on a machine that does less beside"
        );
    }
    costs_of(&Measured::middle_of(&all).ok_or("nothing was measured")?)
}

/// What the probes take in this process.
pub fn measured() -> Result<Measured, String> {
    measure(
        of_threads()?,
        Observers { here: quiet::watched_here, both: quiet::watched_both, elsewhere: quiet::elsewhere },
    )
}

/// What they take in a fresh process: how memory lies, and on which cores a process runs, differs from one to the next.
pub fn measured_afresh() -> Result<Measured, String> {
    let executable = crate::run::own_program().map_err(|why| format!("cannot tell where this program lies: {why}"))?;
    let best = quiet::Best::here().to_string();
    let mut command = Command::new(&executable);
    command.args(["sim", "predict", "--probes"]).env(quiet::VARIABLE, best);
    let output = tied(&mut command, Signal::KILL).output();
    let output = output.map_err(|why| format!("cannot start {}: {why}", executable.display()))?;
    let measured = Measured::from_line(&String::from_utf8_lossy(&output.stdout)).filter(|_| output.status.success());
    measured.ok_or_else(|| format!("the probes: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
}

/// Says what a debug build's figures are worth.
pub fn warn() {
    if cfg!(debug_assertions) {
        eprintln!("raddle: this is a debug build: what it measures is several times too much; build with --release");
    }
}

/// The costs by which the simulated probes take as long, told as for [`costs`].
pub fn costs_of(measured: &Measured) -> Result<Costs, String> {
    let costs = fit(measured)?;
    eprintln!("{:<16} {:>9} {:>9}   nanoseconds", "probe", "measured", "simulated");
    let probes = probes(&costs, measured)?;
    for (name, measured, simulated) in &probes {
        eprintln!("{name:<16} {measured:>9.1} {simulated:>9.1}");
    }
    if let Some(warning) = warning(&probes) {
        eprintln!("raddle: warning: {warning}");
    }
    let Measured { wake, wake_latency, heavy_fence, interruption, threads, .. } = *measured;
    eprintln!(
        "taken as measured: a wake-up {wake:.0} ns and {wake_latency:.0} later, a heavy fence {heavy_fence:.0} and {interruption:.0} of another core's; \
         beside another processor that does likewise, a thread's spawn and join takes {:.0} ns instead of {:.0}: what a core does by itself takes {:.2} times as long",
        threads.beside, threads.joining, costs.together
    );
    Ok(costs)
}

/// On one processor each, so that nobody else takes part.
fn of_threads() -> Result<OfThreads, String> {
    let pool = one_processor()?;
    let rounds = |probe: fn() -> f64| {
        let watched = |_| pool.run(|| round(quiet::watched_here, probe));
        quickest((0..ROUNDS).map(watched).collect())
    };
    let probes: [fn() -> f64; 7] = [yielding, spawning, starting, pairing, joining, passing, locking];
    let [yielding, spawning, starting, pairing, joining, passing, locking] = probes.map(rounds);
    let other = one_processor()?;
    let beside = quick(pool.run(|| quietly(quiet::watched_both, || Ok(joining_beside(&other))))?);
    Ok(OfThreads { yielding, spawning, starting, pairing, joining, beside, passing, locking })
}

fn one_processor() -> Result<raddle::Pool, String> {
    let pool = raddle::Builder::new().processors(1).build();
    pool.map_err(|why| format!("no pool for the calibration: {why}"))
}

/// As [`joining`], while another processor does the same in a pool of its own: the mean of the two. For
/// [`quiet::watched_both`].
fn joining_beside(other: &raddle::Pool) -> Option<f64> {
    const PART: u64 = 20;
    let (made, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let theirs = || {
        quiet::elsewhere();
        while !over.load(Ordering::Relaxed) {
            join_each(PART);
            made.fetch_add(PART, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || other.run(theirs)).ok()?;
        let begin = Instant::now();
        while made.load(Ordering::Relaxed) == 0 && begin.elapsed() < LATE {
            std::hint::spin_loop();
        }
        let before = made.load(Ordering::Relaxed);
        let took = timed(|| join_each(THREADS));
        let theirs = made.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        other.join().ok()?;
        (before > 0 && theirs > 0).then(|| 2.0 * took / (THREADS + theirs) as f64)
    })
}

fn yielding() -> f64 {
    let begin = Instant::now();
    let yields = || (0..YIELDS / AT_ONCE).for_each(|_| raddle::yield_now());
    let others: Vec<_> = (1..AT_ONCE).map(|_| raddle::spawn(yields)).collect();
    yields();
    for other in others {
        assert!(other.join().is_ok(), "a thread that yields has failed");
    }
    begin.elapsed().as_nanos() as f64 / YIELDS as f64
}

fn spawning() -> f64 {
    at_once(AT_ONCE, || ())
}

fn starting() -> f64 {
    at_once(AT_ONCE, raddle::yield_now)
}

fn pairing() -> f64 {
    at_once(AT_ONCE / 2, || assert!(raddle::spawn(|| ()).join().is_ok(), "a thread that does nothing has failed"))
}

fn joining() -> f64 {
    timed(|| join_each(THREADS)) / THREADS as f64
}

/// Makes so many threads, and waits for each before it makes the next one.
fn join_each(threads: u64) {
    for _ in 0..threads {
        assert!(raddle::spawn(|| ()).join().is_ok(), "a thread that does nothing has failed");
    }
}

/// Nanoseconds that it takes.
fn timed(run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_nanos() as f64
}

/// Makes so many threads at once, [`AT_ONCE`] with those that they make.
fn at_once(threads: u64, body: fn()) -> f64 {
    let begin = Instant::now();
    for _ in 0..THREADS / AT_ONCE {
        let threads: Vec<_> = (0..threads).map(|_| raddle::spawn(body)).collect();
        for thread in threads {
            assert!(thread.join().is_ok(), "a thread of the calibration has failed");
        }
    }
    begin.elapsed().as_nanos() as f64 / THREADS as f64
}

fn passing() -> f64 {
    let (sender, receiver) = raddle::sync::channel::bounded(1);
    let begin = Instant::now();
    for word in 0..WORDS {
        assert!(sender.send(word).is_ok() && receiver.recv() == Ok(word), "the channel is broken");
    }
    begin.elapsed().as_nanos() as f64 / WORDS as f64
}

fn locking() -> f64 {
    let count = raddle::sync::Mutex::new(0);
    let begin = Instant::now();
    for _ in 0..TURNS {
        *black_box(&count).lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
    }
    begin.elapsed().as_nanos() as f64 / TURNS as f64
}
