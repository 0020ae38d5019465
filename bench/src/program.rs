//! What every program that runs workloads has in common: its command line, its repetitions and its one line of output.
//!
//! `PROGRAM WORKLOAD key=value... --processors N [--policy EXPR] [--repeat R] [--delays] [--undisturbed BEST]` runs the
//! workload R times in this process (2 unless told: the first warms up, the last counts) and prints one JSON object.
//! With `--undisturbed` ([`quiet::Best`]) it goes on, at most [`MOST_REPETITIONS`] times more, until it has seen
//! [`ENOUGH`] repetitions during which its kernel threads did not wait for a core, and before and after which the cores
//! were quiet ([`crate::quiet`]). On one processor the quickest of them counts, since what else took time was not the
//! program's own; on more the one a quarter from there, since who finds what differs, too. The exit status is 2 if it
//! did not run what was asked for, which the object then says (`error`), 1 if the run failed, else 0.

use crate::args::Args;
use crate::memory::Memory;
use crate::{quiet, waits};
use serde_json::{Value, json};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How many repetitions more a program tries that is not to be disturbed.
pub const MOST_REPETITIONS: u32 = 200;
/// So many that were not disturbed are enough.
pub const ENOUGH: usize = 8;
/// How long each of them waits until the cores are quiet.
const QUIET: Duration = Duration::from_millis(100);

/// What a program is asked to run.
///
/// ```
/// use raddle_bench::program::Request;
/// let words = ["yield", "T=64", "total=2M", "--processors", "2"].map(String::from);
/// let request = Request::parse(words).unwrap();
/// assert_eq!((request.workload.as_str(), request.processors), ("yield", 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the workload.
    pub workload: String,
    /// Its arguments.
    pub args: Args,
    /// How many processors the runtime may use.
    pub processors: usize,
    /// The policy expression, for runtimes that have policies.
    pub policy: Option<String>,
    /// Sample how long ready threads wait, where the runtime can.
    pub delays: bool,
    /// How often the body runs; the last run counts.
    pub repeat: u32,
    /// Go on until there were enough runs during which the process had its cores for itself.
    pub undisturbed: Option<quiet::Best>,
    /// The memory of the process before the first repetition.
    pub baseline: Memory,
}

impl Request {
    /// Reads the words after the program's name.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Request, String> {
        let mut words = words.into_iter();
        let mut request = Request {
            workload: words.next().ok_or("no workload named; pass WORKLOAD key=value... --processors N")?,
            args: Args::default(),
            processors: 0,
            policy: None,
            delays: false,
            repeat: 2,
            undisturbed: None,
            baseline: Memory::default(),
        };
        while let Some(word) = words.next() {
            let mut operand = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            match word.as_str() {
                "--processors" => request.processors = at_least_one(&word, &operand()?)?,
                "--repeat" => request.repeat = at_least_one(&word, &operand()?)?,
                "--delays" => request.delays = true,
                "--undisturbed" => request.undisturbed = Some(operand()?.parse()?),
                "--policy" => request.policy = Some(operand()?),
                item => match item.split_once('=') {
                    Some((key, value)) => request.args.set(key, value),
                    None => return Err(format!("`{item}` is neither an option nor of the form key=value")),
                },
            }
        }
        if request.processors == 0 {
            return Err("the number of processors is missing; pass --processors N".into());
        }
        Ok(request)
    }

    /// Runs `body` as often as asked and returns what the last run gave.
    pub fn repeat(&self, mut body: impl FnMut() -> Result<Outcome, String>) -> Result<Outcome, String> {
        for _ in 1..self.repeat {
            body()?;
        }
        let Some(best) = self.undisturbed else { return body() };
        let mut once = || -> Result<(u64, Outcome), String> {
            let quiet = best.comes(self.processors, QUIET);
            waits::settle();
            let before = waits::waited();
            // Right before the one that counts: while the kernel threads slept, the caches have cooled.
            body()?;
            let outcome = body()?;
            // One that still waits has waited all the time, for all that is known; so has one whose core did a
            // neighbour's work, too.
            let time = outcome.time.as_nanos() as u64;
            let waited = if waits::settle() { waits::waited().saturating_sub(before) } else { time.max(1) };
            // The look's kernel threads wait, too: after that.
            let waited = if quiet && best.is_now(self.processors) { waited } else { time.max(1) };
            Ok((waited, outcome))
        };
        let mut good = Vec::new();
        let mut last = once()?;
        for _ in 0..MOST_REPETITIONS {
            if waits::undisturbed(last.0, last.1.time.as_nanos() as u64) {
                good.push(last.clone());
            }
            if good.len() == ENOUGH {
                break;
            }
            last = once()?;
        }
        good.sort_by_key(|(_, outcome)| outcome.time);
        let which = if self.processors == 1 { 0 } else { good.len() / 4 };
        let (waited, outcome) = good.into_iter().nth(which).unwrap_or(last);
        Ok(outcome.with("waited_ns", waited))
    }

    /// The error for a workload, or for arguments, that this runtime does not offer.
    pub fn not_offered(&self, why: &str) -> String {
        format!("not offered: {why}")
    }
}

fn at_least_one<T: std::str::FromStr + PartialOrd + From<u8>>(option: &str, text: &str) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(n) if n >= T::from(1) => Ok(n),
        _ => Err(format!("`{option} {text}`: needs a whole number of at least 1")),
    }
}

impl Outcome {
    /// An outcome without further figures.
    pub fn new(ops: u64, time: Duration, checksum: u64) -> Outcome {
        Outcome { ops, time, checksum, extra: Vec::new(), peak_rss_kib: None }
    }

    /// What was measured lies in another process, with this largest resident set.
    #[must_use]
    pub fn peak_rss(mut self, kib: u64) -> Outcome {
        self.peak_rss_kib = Some(kib);
        self
    }

    /// Adds a figure of its own to the output.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<Value>) -> Outcome {
        self.extra.push((key, value.into()));
        self
    }
}

/// The key of the distribution of latencies.
pub const LATENCIES: &str = "latencies";

/// What one repetition gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// By how many operations the time is divided; 1 when the whole run is the figure.
    pub ops: u64,
    /// From the first spawn until all are joined.
    pub time: Duration,
    /// The same for every runtime, or the run is wrong.
    pub checksum: u64,
    /// Figures that only this workload has.
    pub extra: Vec<(&'static str, Value)>,
    /// The largest resident set, if it is not this process's that counts.
    pub peak_rss_kib: Option<u64>,
}

/// Restricts this process to the first `processors` cores that it may use.
///
/// For runtimes whose threads are kernel threads and which therefore have no number of processors of their own to set.
pub fn use_cores(processors: usize) -> Result<(), String> {
    let refused = |e| format!("cannot restrict this process to {processors} cores: {e}");
    let allowed = rustix::thread::sched_getaffinity(None).map_err(refused)?;
    let mut chosen = rustix::thread::CpuSet::new();
    let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    cores.take(processors).for_each(|cpu| chosen.set(cpu));
    rustix::thread::sched_setaffinity(None, &chosen).map_err(refused)
}

/// The exit status of what was not run.
const REFUSED: u8 = 2;
/// The exit status of a run that failed.
const FAILED: u8 = 1;

/// The `main` of a program: reads the request, lets `run` serve it and prints the line. `settings` says how the runtime
/// was set up.
pub fn main(run: impl FnOnce(&Request) -> Result<(Outcome, String), String>) -> ExitCode {
    main_of(std::env::args().skip(1), run)
}

/// As [`main`], with these words as the command line.
pub fn main_of(
    words: impl IntoIterator<Item = String>,
    run: impl FnOnce(&Request) -> Result<(Outcome, String), String>,
) -> ExitCode {
    let failures = record_panics();
    let result = Request::parse(words).map_err(|error| (error, REFUSED)).and_then(|mut request| {
        request.baseline = Memory::now();
        let served = catch_unwind(AssertUnwindSafe(|| run(&request)));
        // The first panic is the cause; the ones after it are its echoes in those who joined.
        let first = failures.lock().unwrap_or_else(PoisonError::into_inner).take();
        let served = served.unwrap_or_else(|payload| Err(panic_text(&*payload)));
        match (served, first) {
            (Ok(served), _) => Ok((request, served)),
            (Err(_), Some(first)) => Err((first, FAILED)),
            (Err(error), None) => Err((error, REFUSED)),
        }
    });
    let (line, code) = match result {
        Ok((request, (outcome, settings))) => (success(&request, outcome, &settings), ExitCode::SUCCESS),
        Err((error, status)) => (json!({ "error": error }), ExitCode::from(status)),
    };
    println!("{line}");
    code
}

fn success(request: &Request, outcome: Outcome, settings: &str) -> Value {
    let mut extra = serde_json::Map::new();
    if !settings.is_empty() {
        extra.insert("settings".into(), settings.into());
    }
    extra.extend(outcome.extra.into_iter().map(|(k, v)| (k.to_string(), v)));
    json!({
        "workload": request.workload,
        "args": request.args.to_string(),
        "ops": outcome.ops,
        "ns": u64::try_from(outcome.time.as_nanos()).unwrap_or(u64::MAX),
        "rss_kib": outcome.peak_rss_kib.unwrap_or_else(|| Memory::now().peak_rss_kib),
        "checksum": outcome.checksum,
        "extra": extra,
    })
}

/// Keeps the text of the first panic and prints none: a failed spawn among a million would flood the terminal.
fn record_panics() -> &'static Mutex<Option<String>> {
    static FIRST: OnceLock<Mutex<Option<String>>> = OnceLock::new();
    let first = FIRST.get_or_init(|| Mutex::new(None));
    std::panic::set_hook(Box::new(move |info| {
        let mut slot = first.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert_with(|| panic_text(info.payload()));
    }));
    first
}

/// The message of a panic, as far as it is text.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_request_names_what_it_lacks() {
        assert!(parse("").unwrap_err().contains("no workload"));
        assert!(parse("create N=1").unwrap_err().contains("--processors"));
        assert!(parse("create --processors 0").unwrap_err().contains("at least 1"));
        assert!(parse("create --processors").unwrap_err().contains("needs a value"));
        assert!(parse("create loud --processors 1").unwrap_err().contains("`loud`"));
    }

    #[test]
    fn the_last_repetition_counts() {
        let request = parse("create N=1 --processors 2 --repeat 3 --policy fifo --delays").unwrap();
        assert_eq!((request.policy.as_deref(), request.delays), (Some("fifo"), true));
        let mut runs = 0;
        let outcome = request.repeat(|| {
            runs += 1;
            Ok(Outcome::new(1, Duration::ZERO, runs))
        });
        assert_eq!(outcome.unwrap().checksum, 3);
    }

    #[test]
    fn one_that_is_not_to_be_disturbed_says_how_long_it_waited_and_ends() {
        let request = parse("create N=1 --processors 2 --undisturbed 9999999999/9999999999").unwrap();
        let mut runs = 0;
        let outcome = request.repeat(|| {
            runs += 1;
            // No time at all: any wait is too long.
            Ok(Outcome::new(1, Duration::ZERO, runs))
        });
        let outcome = outcome.unwrap();
        assert!((3..=3 + 2 * u64::from(MOST_REPETITIONS)).contains(&outcome.checksum) && outcome.checksum <= runs);
        assert!(outcome.extra.iter().any(|(key, value)| *key == "waited_ns" && value.is_u64()));
    }

    #[test]
    fn the_output_has_the_agreed_keys() {
        let request = parse("create N=1 --processors 1").unwrap();
        let line = success(&request, Outcome::new(1, Duration::from_nanos(7), 9).with("more", 1), "none");
        for key in ["workload", "args", "ops", "ns", "rss_kib", "checksum", "extra"] {
            assert!(line.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(line["extra"]["more"], 1);
        assert_eq!(line["ns"], 7);
    }
}
