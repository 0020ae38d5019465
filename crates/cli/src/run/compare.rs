//! What a program gains: it is run natively and under `raddle run`, in turns, and what each took is shown side by side.

use super::{Options, program::Program};
use crate::output::remark;
use raddle_bench::child::tied;
use raddle_bench::{memory::Memory, processor_time::ProcessorTime, stats::Spread};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked how many kernel threads there are.
const LOOK: Duration = Duration::from_millis(5);

/// What one run took.
#[derive(Clone, Copy)]
struct Run {
    status: ExitStatus,
    seconds: f64,
    processor_seconds: f64,
    memory_mib: f64,
    kernel_threads: f64,
}

/// Runs the program `rounds` times each way. Ends with the status of its last run under raddle.
pub fn compare(program: &Program, options: &Options, rounds: u16) -> io::Result<ExitCode> {
    let mut native = Command::new(&program.path);
    native.arg0(&program.name).args(&program.arguments).envs(program.environment.iter().cloned());
    let mut ours = Command::new(crate::run::own_program()?);
    ours.args(words(std::env::args_os().skip(1)));
    // Not KILL: a server may end in order.
    for command in [&mut native, &mut ours] {
        tied(command, Signal::TERM);
    }
    let (mut natively, mut lightweight) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        natively.push(run(&mut native)?);
        lightweight.push(run(&mut ours)?);
        let seconds = |runs: &[Run]| runs.last().map_or(0.0, |run| run.seconds);
        remark(&format!(
            "raddle: round {round} of {rounds}: natively {:.3} s, under raddle run {:.3} s\n",
            seconds(&natively),
            seconds(&lightweight)
        ));
    }
    remark(&table(&options.command[0].to_string_lossy(), &natively, &lightweight));
    let status = lightweight.last().map_or(ExitStatus::default(), |run| run.status);
    Ok(ExitCode::from(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8))
}

/// The same command line for one run.
fn words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_ours = |word: &OsString| word == "--compare" || word.to_string_lossy().starts_with("--compare=");
    let mut words: Vec<_> = words.collect();
    // The first one: it stands before the program's name, and no option takes it as its value.
    if let Some(at) = words.iter().position(is_ours) {
        words[at] = "--compared".into();
    }
    words
}

fn run(command: &mut Command) -> io::Result<Run> {
    let before = ProcessorTime::of(std::process::id()).children_ns;
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let (status, (kernel_threads, memory)) = watched(&mut child)?;
    let seconds = begun.elapsed().as_secs_f64();
    let processor_seconds = (ProcessorTime::of(std::process::id()).children_ns - before) as f64 / 1e9;
    Ok(Run {
        status,
        seconds,
        processor_seconds,
        memory_mib: memory as f64 / 1024.0,
        kernel_threads: kernel_threads as f64,
    })
}

/// Waits for it, and looks how many kernel threads and how much memory it has meanwhile.
fn watched(child: &mut Child) -> io::Result<(ExitStatus, (u64, u64))> {
    let (folder, ended) = (format!("/proc/{}", child.id()), AtomicBool::new(false));
    let launcher = crate::run::own_program().ok();
    let look = || {
        let mut most = (0, 0);
        while !ended.load(Ordering::Relaxed) {
            // Until it has become the program, it is this one.
            if std::fs::read_link(format!("{folder}/exe")).ok() == launcher {
                thread::park_timeout(Duration::from_millis(1));
                continue;
            }
            let threads = std::fs::read_dir(format!("{folder}/task")).map_or(0, |tasks| tasks.count() as u64);
            most = (threads.max(most.0), Memory::of(&folder).peak_rss_kib.max(most.1));
            thread::park_timeout(LOOK);
        }
        most
    };
    thread::scope(|scope| {
        let watcher = scope.spawn(look);
        let status = child.wait();
        ended.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        let most = watcher.join().unwrap_or_default();
        status.map(|status| (status, most))
    })
}

fn table(name: &str, natively: &[Run], lightweight: &[Run]) -> String {
    type Figure = fn(&Run) -> f64;
    let rows: [(&str, usize, bool, Figure); 4] = [
        ("elapsed, s", 3, false, |run| run.seconds),
        ("on processors, s", 2, false, |run| run.processor_seconds),
        ("memory at most, MiB", 1, true, |run| run.memory_mib),
        ("kernel threads at most", 0, true, |run| run.kernel_threads),
    ];
    let mut text = format!(
        "raddle: {name}, medians (and ranges) of {} run(s) each\n  {:<24}{:>30}{:>30}{:>10}\n",
        natively.len(),
        "",
        "natively",
        "under raddle run",
        "ratio"
    );
    for (what, digits, is_looked_at, figure) in rows {
        let spread = |runs: &[Run]| Spread::of(&runs.iter().map(figure).collect::<Vec<_>>());
        let (Some(before), Some(after)) = (spread(natively), spread(lightweight)) else { continue };
        let cell = |spread: &Spread| {
            format!("{:.digits$} ({:.digits$} to {:.digits$})", spread.median, spread.min, spread.max)
        };
        let is_seen =
            |runs: &[Run]| runs.iter().all(|run| run.kernel_threads > 0.0 && run.seconds >= 10.0 * LOOK.as_secs_f64());
        if is_looked_at && !(is_seen(natively) && is_seen(lightweight)) {
            text += &format!("  {what:<24}{:>30}\n", "too short to be seen");
            continue;
        }
        let ratio = match after.median / before.median {
            ratio if !ratio.is_finite() => "–".into(),
            ratio if ratio < 0.1 => format!("{ratio:.3}"),
            ratio => format!("{ratio:.2}"),
        };
        text += &format!("  {what:<24}{:>30}{:>30}{ratio:>10}\n", cell(&before), cell(&after));
    }
    text += "  (memory and kernel threads are of the program's first process, seen every 5 ms)\n";
    let differs = |run: &&Run| run.status != natively[0].status;
    if let Some(other) = natively.iter().chain(lightweight).find(differs) {
        text += &format!(
            "  not all runs ended alike: {}, but also {}; the figures may not compare\n",
            natively[0].status, other.status
        );
    } else if !natively[0].status.success() {
        text += &format!("  all runs ended with {}\n", natively[0].status);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(seconds: f64, code: i32) -> Run {
        Run {
            status: ExitStatus::from_raw(code << 8),
            seconds,
            processor_seconds: 0.0,
            memory_mib: 2.0,
            kernel_threads: 9.0,
        }
    }

    #[test]
    fn the_option_is_replaced_and_the_programs_own_stays() {
        let line = ["run", "--main", "--compare=5", "--", "x", "--compare"].map(OsString::from);
        let expected = ["run", "--main", "--compared", "--", "x", "--compare"].map(OsString::from);
        assert_eq!(words(line.into_iter()), expected);
    }

    #[test]
    fn medians_stand_side_by_side_and_failures_are_told() {
        let text = table("x", &[with(2.0, 0), with(4.0, 0), with(3.0, 0)], &[with(1.5, 0); 3]);
        let line = text.lines().find(|line| line.contains("elapsed")).unwrap();
        let words: Vec<_> = line.split_whitespace().skip(2).collect();
        assert_eq!(words.join(" "), "3.000 (2.000 to 4.000) 1.500 (1.500 to 1.500) 0.50");
        assert!(text.contains("–") && !text.contains("ended"), "{text}");
        assert!(table("x", &[with(1.0, 0)], &[with(1.0, 3)]).contains("but also exit status: 3"));
        assert!(table("x", &[with(1.0, 3)], &[with(1.0, 3)]).contains("all runs ended with exit status: 3"));
    }
}
