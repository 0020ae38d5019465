//! One run of a program: a fresh process, its time-out and its line of output.

use raddle_machine::child::end_with_parent;
use rustix::process::Signal;
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What a program reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// By how many operations the time is divided.
    pub ops: u64,
    /// The time of the counted repetition.
    pub ns: u64,
    /// The largest resident set of the process.
    pub rss_kib: u64,
    /// The checksum.
    pub checksum: u64,
    /// Further figures, the runtime's settings among them.
    pub extra: serde_json::Map<String, Value>,
}

/// Runs `command` and reads its line. After `limit` the process is ended and the run has failed.
///
/// ```
/// use std::{process::Command, time::Duration};
/// let error = raddle_bench::child::run(Command::new("false"), Duration::from_secs(10)).unwrap_err();
/// assert!(error.contains("exit status: 1"));
/// ```
pub fn run(mut command: Command, limit: Duration) -> Result<Report, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    tied(&mut command, Signal::KILL);
    let mut child = command.spawn().map_err(|e| format!("cannot start {program}: {e}"))?;
    let output = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    // The standard output closes when the process ends: no polling, no signal handler.
    let Ok(output) = output.recv_timeout(limit) else {
        end(&mut child);
        return Err(format!("timed out after {} s", limit.as_secs()));
    };
    let status = child.wait().map_err(|e| format!("cannot wait for {program}: {e}"))?;
    let errors = errors.recv().unwrap_or_default();
    let line = output.lines().rev().find(|line| line.starts_with('{'));
    match line.and_then(|line| serde_json::from_str::<Value>(line).ok()) {
        Some(value) => read(&value),
        None => Err(format!("{program} printed no result ({status}){}", last_line(&errors))),
    }
}

/// What it starts gets `signal` when this process ends: one that is ended alone, by its number, leaves nobody behind.
/// To be started by a kernel thread that lives as long as the process.
pub fn tied(command: &mut Command, signal: Signal) -> &mut Command {
    end_with_parent(command, signal.as_raw());
    command
}

fn end(child: &mut Child) {
    // Both fail only when the process has ended by itself meanwhile, which is what is wanted.
    let _ = child.kill();
    let _ = child.wait();
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth reporting.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn last_line(errors: &str) -> String {
    errors.lines().rev().find(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {line}"))
}

fn read(value: &Value) -> Result<Report, String> {
    if let Some(error) = value["error"].as_str() {
        return Err(error.to_string());
    }
    let number = |key: &str| value[key].as_u64().ok_or_else(|| format!("the program's result lacks `{key}`"));
    Ok(Report {
        ops: number("ops")?,
        ns: number("ns")?,
        rss_kib: number("rss_kib")?,
        checksum: number("checksum")?,
        extra: value["extra"].as_object().cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Report, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_result_is_read_and_noise_before_it_ignored() {
        let line = r#"{"ops":2,"ns":10,"rss_kib":3,"checksum":4,"extra":{"settings":"x"}}"#;
        let report = shell(&format!("echo noise; echo '{line}'"), LONG).unwrap();
        assert_eq!((report.ops, report.ns, report.rss_kib, report.checksum), (2, 10, 3, 4));
        assert_eq!(report.extra["settings"], "x");
    }

    #[test]
    fn failures_are_told_apart() {
        assert_eq!(shell(r#"echo '{"error":"why"}'; exit 1"#, LONG), Err("why".into()));
        assert!(shell("echo '{\"ops\":1}'", LONG).unwrap_err().contains("`ns`"));
        let died = shell("echo cause >&2; exit 3", LONG).unwrap_err();
        assert!(died.contains("exit status: 3") && died.contains("cause"), "{died}");
        let absent = run(Command::new("/absent/program"), LONG).unwrap_err();
        assert!(absent.contains("cannot start /absent/program"), "{absent}");
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let error = shell("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("timed out"), "{error}");
    }
}
