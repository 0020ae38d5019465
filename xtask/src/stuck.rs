//! A test program that does not end: where it stands is told, and it is ended, so that a run of all tests says which
//! one it was and goes on, where it would be cut without a word.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The longest of our test programs took 163 s on a machine with twenty times the load of its cores (2026-11-27).
pub const LONGEST_S: u64 = 600;

/// Looks at the programs of `folder` that process `parent` has started, until `over` is dropped: of one that is older
/// than `longest` it tells where its threads stand, and ends it.
pub fn watch(parent: u32, folder: &Path, longest: Duration, over: Receiver<()>) {
    let pause = (longest / 20).min(Duration::from_secs(5));
    while over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        for process in children(parent).into_iter().filter(|process| program(*process).starts_with(folder)) {
            if age(process).is_some_and(|age| age > longest) {
                println!("{}", state(process, longest));
                // It is a child of the command that we started.
                let _ = Command::new("sh").args(["-c", &format!("kill -KILL {process}")]).status();
            }
        }
    }
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|process| parent_of(*process) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn program(process: u32) -> PathBuf {
    fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default()
}

/// How long ago a process began.
fn age(process: u32) -> Option<Duration> {
    let begin = fs::metadata(format!("/proc/{process}")).ok()?.modified().ok()?;
    begin.elapsed().ok()
}

/// Where each thread of a process stands: in the kernel, and by a debugger, if there is one.
fn state(process: u32, longest: Duration) -> String {
    let mut text = format!("{} has not ended in {} s:\n", program(process).display(), longest.as_secs());
    for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, place, status) = (read("comm"), read("wchan"), read("status"));
        let _ = write!(text, "  {} {} in {place}", task.file_name().display(), name.trim());
        let told = ["State:", "SigPnd:", "ShdPnd:", "SigBlk:", "voluntary_ctxt", "nonvoluntary_ctxt"];
        for line in status.lines().filter(|line| told.iter().any(|key| line.starts_with(key))) {
            let _ = write!(text, ", {}", line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        text.push('\n');
    }
    let number = process.to_string();
    let stacks = Command::new("gdb")
        .args(["-p", &number, "-batch", "-nx", "-ex", "set pagination off", "-ex", "thread apply all backtrace 16"])
        .stdin(Stdio::null())
        .output();
    match stacks {
        Ok(stacks) => text.push_str(&String::from_utf8_lossy(&stacks.stdout)),
        Err(error) => {
            let _ = writeln!(text, "  (no stacks: gdb cannot be started: {error})");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_does_not_end_is_ended_and_others_are_left() {
        let sleep = fs::canonicalize("/bin/sleep").unwrap();
        let mut stuck = Command::new(&sleep).arg("1000").spawn().unwrap();
        let (over, is_over) = mpsc::channel();
        std::thread::scope(|s| {
            let programs = &sleep;
            s.spawn(move || watch(std::process::id(), programs, Duration::from_millis(40), is_over));
            assert!(!stuck.wait().unwrap().success());
            drop(over);
        });
        assert!(age(std::process::id()).is_some());
        assert!(state(std::process::id(), Duration::ZERO).contains("SigBlk:"));
    }
}
