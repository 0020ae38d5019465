//! Whether existing programs can be taken over here: tried, with this command itself as the program.

use super::{Finding, State};
use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Threads that the trial creates.
const THREADS: u64 = 8;
/// The hidden subcommand that is run for the trial.
pub const TRIAL: &str = "trial-of-threads";
/// How long the trial may take: far longer than on a busy machine.
const TRIAL_WITHIN: Duration = Duration::from_secs(60);

/// The trial's program: std's threads, which know nothing of raddle.
pub fn trial() -> ExitCode {
    let threads: Vec<_> = (0..THREADS).map(|number| std::thread::spawn(move || number)).collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
    ExitCode::from(u8::from(sum != THREADS * (THREADS - 1) / 2))
}

/// What came of it.
pub fn existing_programs() -> Finding {
    let name = "existing programs (`raddle run`)";
    let consequence = "dynamically linked with glibc, not set-uid, not Go";
    match tried() {
        Ok(THREADS) => Finding::new(name, State::Good, "their threads are lightweight", consequence),
        Ok(taken) => {
            let found = format!("they run, but {taken} of {THREADS} threads were lightweight");
            Finding::new(name, State::Replaced, found, "each other thread is a kernel thread; see above for the cause")
        }
        Err(why) => Finding::new(name, State::Missing, format!("no: {why}"), "run them without raddle"),
    }
}

/// How many of the trial's threads were lightweight.
fn tried() -> Result<u64, String> {
    let own = crate::run::own_program().map_err(|error| error.to_string())?;
    let mut command = Command::new(&own);
    command.args(["run", "--stats=json", "--"]).arg(&own).arg(TRIAL);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if start.elapsed() < TRIAL_WITHIN => std::thread::sleep(Duration::from_millis(2)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("a trial did not end within {} s", TRIAL_WITHIN.as_secs()));
            }
        }
    };
    let mut told = String::new();
    if let Some(mut stream) = child.stderr.take() {
        stream.read_to_string(&mut told).map_err(|error| error.to_string())?;
    }
    let last = told.lines().last().unwrap_or_default();
    if !status.success() {
        return Err(if last.is_empty() { format!("a trial failed ({status})") } else { last.replace("raddle: ", "") });
    }
    let counters: serde_json::Value = serde_json::from_str(last).map_err(|_| format!("a trial said: {last}"))?;
    counters["threads"].as_u64().ok_or_else(|| format!("a trial said: {last}"))
}
