//! What the kernel says a kernel thread does.

use std::fmt::Write as _;

/// The state of a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// On a core, or waiting for one.
    Running,
    /// Waiting for something in the kernel, or stopped.
    Blocked,
    /// It has ended, or nothing could be read.
    Unknown,
}

/// The state of kernel thread `tid` of this process.
pub(crate) fn task_state(tid: u32) -> TaskState {
    let mut path = String::with_capacity(40);
    let _ = write!(path, "/proc/self/task/{tid}/stat");
    std::fs::read_to_string(path).map_or(TaskState::Unknown, |text| parse(&text))
}

/// How many kernel threads the process has.
pub(crate) fn kernel_threads() -> Option<u64> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count() as u64)
}

/// The name may hold anything, brackets included: the state follows the last bracket.
fn parse(stat: &str) -> TaskState {
    match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
        Some('R') => TaskState::Running,
        Some('S' | 'D' | 'T' | 't' | 'K' | 'W' | 'P') => TaskState::Blocked,
        _ => TaskState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_last_bracket() {
        assert_eq!(parse("12 (a) R) S 1 2"), TaskState::Blocked);
        assert_eq!(parse("12 (x) R 1"), TaskState::Running);
        assert_eq!(parse(""), TaskState::Unknown);
        assert_eq!(task_state(crate::os::gettid()), TaskState::Running);
    }
}
