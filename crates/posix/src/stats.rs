//! The counters that `raddle run --stats` prints when the program ends.

use crate::start::Settings;
use raddle::trace::Trace;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};

/// Prints them on standard error, as text or JSON. Says nothing in a fork of the process, nor in a child that made no
/// thread.
pub(crate) fn report(settings: &Settings) {
    let stats = raddle::info::stats();
    let first = settings.first.is_none_or(|first| first == settings.pid);
    if std::process::id() != settings.pid || !first && stats.spawned == 0 {
        return;
    }
    let program = program();
    let (sends, calls, refused) = raddle::io::sent_together();
    let mut rows = vec![
        ("threads created", "threads", stats.spawned),
        ("threads ended", "ended", stats.exited),
        ("switches", "switches", stats.switches),
        ("steals", "steals", stats.steals_won),
        ("attempts to steal", "steals_tried", stats.steals_tried),
        ("times a processor slept", "sleeps", stats.sleeps),
        ("processors taken from threads that blocked in the kernel", "takeovers", stats.takeovers),
        ("of them by standbys, microseconds after the block", "takeovers_by_standby", stats.takeovers_by_standby),
        ("threads back from such a block that waited for their turn", "returns_in_turn", stats.returns_in_turn),
        ("threads back from such a block that went on beside the processors", "returns_beside", stats.returns_beside),
        ("processors gone on with beside threads that computed", "slices", stats.slices),
        ("times a thread gave way to the timer", "preemptions", raddle::drop_in::preemption::counts().0),
        ("times one was where it could not", "preemptions_put_off", raddle::drop_in::preemption::counts().1),
        ("threads with a kernel thread of their own", "dedicated", crate::thread::dedicated::count()),
        ("times an event loop went apart with a kernel thread", "went_apart", raddle::drop_in::went_apart()),
        ("times event loops were gathered on the processors", "gathered", raddle::drop_in::times_gathered()),
        (
            if refused {
                "sends made together (there is no io_uring here, or a filter that may kill for it)"
            } else {
                "sends made together"
            },
            "sends_together",
            sends,
        ),
        ("calls in which they were made", "send_calls", calls),
        ("spare kernel threads", "spare_activations", stats.spare_activations),
        ("stacks used", "stacks", raddle::drop_in::stacks_used()),
    ];
    // Not where `/proc` is not mounted.
    rows.extend(status("Threads:").map(|count| ("kernel threads", "kernel_threads", count)));
    rows.extend(status("VmHWM:").map(|size| ("memory at most (KiB)", "memory_kib", size)));
    // Sampled from the start with `--stats`: a thread in 64.
    if let Some(delay) = raddle::info::run_queue_delay() {
        rows.extend([
            ("waits in a run queue that were sampled", "delay_samples", delay.samples),
            ("half of them at most", "delay_p50_ns", delay.p50),
            ("99 in 100 of them at most", "delay_p99_ns", delay.p99),
            ("the longest of them", "delay_max_ns", delay.max),
        ]);
    }
    let gaps = crate::quantum::gaps::told();
    if let Some(gaps) = &gaps {
        rows.extend([
            ("gaps between looks at quantum checks", "gaps", gaps.count),
            ("half of them at most", "gap_p50_ns", gaps.p50_ns),
            ("99 in 100 of them at most", "gap_p99_ns", gaps.p99_ns),
            ("the longest of them", "gap_max_ns", gaps.max_ns),
        ]);
    }
    let mut text = String::new();
    if settings.stats.as_deref() == Some("json") {
        let _ = write!(text, "{{\"program\":\"{}\",\"pid\":{}", escaped(&program), settings.pid);
        for (_, key, value) in rows {
            let _ = write!(text, ",\"{key}\":{value}");
        }
        if let Some(gaps) = &gaps {
            let _ = write!(text, ",\"gap_function\":\"{}\"", escaped(&gaps.function));
        }
        text += "}\n";
    } else {
        let _ = writeln!(text, "raddle: {program} ({})", settings.pid);
        for (label, key, value) in rows {
            let value = if key.ends_with("_ns") { duration(value) } else { value.to_string() };
            let _ = writeln!(text, "{value:>16}  {label}");
        }
        if let Some(gaps) = &gaps {
            let _ = writeln!(text, "{:>16}  the function whose check ended it: {}", "", gaps.function);
        }
    }
    raddle::drop_in::write(settings.output, text.as_bytes());
}

/// Three figures and a unit; the JSON form keeps nanoseconds.
fn duration(nanoseconds: u64) -> String {
    let (unit, name) = match nanoseconds {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = nanoseconds as f64 / unit;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {name}")
}

/// Writes what the runtime does into a file, each second, as long as the process lives. `{pid}` in its name is the
/// process's number.
pub(crate) fn publish(path: &str) {
    let path = path.replace("{pid}", &std::process::id().to_string());
    let text = || {
        let (metrics, gaps) = (raddle::info::metrics(), crate::quantum::gaps::metrics());
        format!("# program {} {}\n{metrics}{gaps}", in_a_line(&program()), std::process::id())
    };
    if let Err(error) = raddle::drop_in::publish(path.clone().into(), std::time::Duration::from_secs(1), text) {
        say(&format!("raddle: no metrics: {path}: {error}; name another file: --metrics=FILE\n"));
    }
}

/// What goes on until the program ends.
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

/// Begins a trace. `{pid}` in its name is the process's number; without it, the programs that the first one starts put
/// theirs at the end.
pub(crate) fn begin_trace(settings: &Settings, path: &str, events: usize) {
    let (pid, first) = (settings.pid.to_string(), settings.first.is_none_or(|first| first == settings.pid));
    let path = match path.contains("{pid}") || first {
        true => path.replace("{pid}", &pid),
        false => format!("{path}.{pid}"),
    };
    match Trace::begin(path.as_ref(), events) {
        Ok(trace) => *TRACE.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace),
        Err(error) => {
            let full =
                [ErrorKind::FileTooLarge, ErrorKind::StorageFull, ErrorKind::QuotaExceeded].contains(&error.kind());
            let hint = if full { "; --trace-events N takes less" } else { "" };
            say(&format!("raddle: no trace: {path}: {error}{hint}\n"));
        }
    }
}

/// Ends it, if it is this process's and not that of a fork's parent.
pub(crate) fn finish_trace(settings: &Settings) {
    if std::process::id() != settings.pid {
        return;
    }
    let trace = TRACE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(trace) = trace {
        let raw = trace.raw();
        if let Err(error) = trace.finish() {
            // Its folder may be gone, or be elsewhere now.
            let stays = if raw.exists() { "the trace stays in" } else { "no trace:" };
            say(&format!("raddle: {stays} {}: {error}\n", raw.display()));
        }
    }
}

fn say(line: &str) {
    crate::os::say(&std::ffi::CString::new(line).unwrap_or_default());
}

/// The program's name, as the kernel shows it.
fn program() -> String {
    std::fs::read_to_string("/proc/self/comm").map_or_else(|_| "?".into(), |name| name.trim_end().to_string())
}

fn status(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Without what would end the line, or move a terminal's cursor.
fn in_a_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

fn escaped(text: &str) -> String {
    let plain = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_three_figures_and_a_unit() {
        let shown = [0, 999, 1_000, 12_345, 123_456, 1_500_000, 2_000_000_000].map(duration);
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 us", "12.3 us", "123 us", "1.50 ms", "2.00 s"]);
    }
}
