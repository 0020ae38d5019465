//! What the environment says, and a line for what is not understood: in a unit's or a pod's file there is nothing else
//! that would tell.

use crate::os::c;
use raddle::drop_in::DUMP_SIGNALS;
use std::ffi::{CStr, CString, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;

/// Everything that begins with this is meant for us.
const PREFIX: &str = "RADDLE_";

/// What this library, the command, the checker and the tests read, after [`PREFIX`].
const KNOWN: [&str; 37] = [
    "ALL_PROCESSORS",
    "CHILDREN",
    "CLUSTERS",
    "DELAYS",
    "DIRECT_SENDS",
    "DUMP_ON",
    "EVENTS",
    "EVENT_LOOPS",
    "FAULT",
    "FREEZE_COUNT",
    "FREEZE_HOLD",
    "FREEZE_MILLIS",
    "FREEZE_POLICY",
    "KERNEL_THREADS",
    "LIBRARY",
    "LLVM",
    "LLVM_TOOLS",
    "MAIN",
    "METRICS",
    "MIGRATE",
    "NOTHING_SKIPPED",
    "PARKED",
    "POLICY",
    "PREEMPT",
    "PREEMPTIONS",
    "PROCESSORS",
    "QUANTUM",
    "QUIET",
    "RUN",
    "SEED",
    "SIGNALS",
    "STATS",
    "TRACE",
    "TRACE_EVENTS",
    "TUNABLES",
    "WEAKEN",
    "YIELDS",
];

/// What the variable says.
pub(super) fn variable(name: &CStr) -> Option<String> {
    // SAFETY: a C string; the answer is one too, copied before anything can change it: at start no other thread is
    // there.
    unsafe {
        let value = c::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
    }
}

pub(super) fn say(line: &str) {
    crate::os::say(&CString::new(format!("raddle: {line}\n")).unwrap_or_default());
}

/// True if it is 1.
pub(super) fn is_on(name: &CStr) -> bool {
    match variable(name).as_deref() {
        Some("1") => true,
        None | Some("" | "0") => false,
        Some(other) => {
            say(&format!("{} is `{other}`, not 1 or 0: 0 is taken", name.to_string_lossy()));
            false
        }
    }
}

/// What the pool's settings read, those that are 1 or 0 understood.
pub(super) fn of_pool(name: &'static str) -> Option<String> {
    let place = CString::new(name).ok()?;
    match name {
        "RADDLE_ALL_PROCESSORS" | "RADDLE_DIRECT_SENDS" => is_on(&place).then(|| "1".into()),
        _ => variable(&place),
    }
}

/// `text` or `json`.
pub(super) fn form_of_stats() -> Option<String> {
    let form = variable(c"RADDLE_STATS").filter(|form| !matches!(form.as_str(), "" | "0"))?;
    if !matches!(form.as_str(), "text" | "json") {
        say(&format!("RADDLE_STATS is `{form}`, not text or json: text is taken"));
    }
    Some(form)
}

/// Events of each processor that a trace keeps.
pub(super) fn events_of_trace() -> usize {
    let Some(text) = variable(c"RADDLE_TRACE_EVENTS") else { return raddle::trace::EVENTS };
    let most = raddle::trace::MOST_EVENTS;
    text.parse().ok().filter(|events| (1024..=most).contains(events)).unwrap_or_else(|| {
        let taken = raddle::trace::EVENTS;
        say(&format!("RADDLE_TRACE_EVENTS is `{text}`, not a number from 1024 to {most}: {taken} is taken"));
        taken
    })
}

/// The signal at which all threads are dumped, by its number or its name.
pub(super) fn signal_of_dump() -> Option<c_int> {
    let text = variable(c"RADDLE_DUMP_ON").filter(|text| !text.is_empty())?;
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let named = DUMP_SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    let signal = named.or_else(|| text.parse().ok().filter(|signal| (1..=64).contains(signal)));
    if signal.is_none() {
        let names = DUMP_SIGNALS.map(|(name, _)| name).join(", ");
        say(&format!("RADDLE_DUMP_ON is `{text}`, not {names} or a signal's number: no signal has threads dumped"));
    }
    signal
}

/// A line for each name that is none of ours and looks like one, and for what others read as 1 or 0 and is neither.
pub(super) fn tell_misspelt() {
    for others in [c"RADDLE_QUIET", c"RADDLE_KERNEL_THREADS", c"RADDLE_DELAYS"] {
        is_on(others);
    }
    for (name, _) in std::env::vars_os() {
        if let Some(meant) = meant(&name) {
            say(&format!("{} is no setting; did you mean {PREFIX}{meant}?", name.display()));
        }
    }
}

fn meant(name: &OsStr) -> Option<&'static str> {
    let rest = std::str::from_utf8(name.as_bytes()).ok()?.strip_prefix(PREFIX)?;
    let known = KNOWN.map(str::to_lowercase);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if KNOWN.contains(&rest) {
        return None;
    }
    let near = raddle::drop_in::nearest(rest, &known)?;
    KNOWN.into_iter().find(|name| name.eq_ignore_ascii_case(near))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_one_of_ours_is_told() {
        let told = |name: &str| meant(OsStr::new(name));
        assert_eq!(told("RADDLE_POLCY"), Some("POLICY"));
        assert_eq!(told("RADDLE_processor"), Some("PROCESSORS"));
        assert_eq!(told("RADDLE_DUMPON"), Some("DUMP_ON"));
        for others in ["RADDLE_POLICY", "RADDLE_NOTHING_SKIPPED", "RADDLE_BY_SOMEBODY_ELSE", "POLCY", "RADDLE_"] {
            assert_eq!(told(others), None, "{others}");
        }
    }
}
