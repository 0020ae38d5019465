//! What is known of the terminal: whether what is shown can be written over, and how much it takes.

use std::io::{Write as _, stderr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Lines of help longer than this are hard to read, however wide the terminal is.
pub const HELP_COLUMNS: usize = 100;

/// Whether lines can be written again in their place: a terminal, and none that says it cannot.
pub fn is_screen(stream: &impl std::io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The rows and columns of a terminal that says so.
pub fn size(stream: impl AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_row > 1 && size.ws_col > 1).then(|| (size.ws_row.into(), size.ws_col.into()))
}

/// How often a line of progress is written again in its place, and how often a new one comes where lines stay.
const REWRITTEN_EVERY: Duration = Duration::from_millis(200);
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// How far a command is, on the standard error: one line that is written again in its place on a terminal; a new line
/// every five seconds in a file or a pipe.
pub struct Line {
    /// It is written again in its place.
    pub is_screen: bool,
    last: Option<Instant>,
    stands: bool,
}

impl Line {
    /// The first line comes at once.
    pub fn new() -> Line {
        Line { is_screen: is_screen(&stderr()), last: None, stands: false }
    }

    /// In a file or a pipe the first line comes after five seconds: of what may be over by then.
    pub fn of_what_may_be_short() -> Line {
        let line = Line::new();
        Line { last: (!line.is_screen).then(Instant::now), ..line }
    }

    /// Shows it, unless the last one was too short a time ago.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        let every = if self.is_screen { REWRITTEN_EVERY } else { TOLD_EVERY };
        if self.last.is_none_or(|last| last.elapsed() >= every) {
            self.put(&text());
        }
    }

    /// Shows it on a terminal however short a time ago the last one was: of steps that take long.
    pub fn show_step(&mut self, text: &str) {
        if self.is_screen { self.put(text) } else { self.show(|| text.into()) }
    }

    fn put(&mut self, text: &str) {
        self.last = Some(Instant::now());
        if self.is_screen {
            self.stands = true;
            // A longer one than the terminal is wide would leave its first part there.
            let columns = size(stderr()).map_or(80, |(_, columns)| columns);
            told(&format!("\r\x1b[K{}", cut(text, columns)));
        } else {
            told(&format!("{text}\n"));
        }
    }

    /// Takes it off the terminal, for what is to stay there.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.stands) {
            told("\r\x1b[K");
        }
    }
}

/// That nobody can read it is no reason to end.
fn told(text: &str) {
    _ = stderr().write_all(text.as_bytes());
}

fn cut(text: &str, columns: usize) -> String {
    // A full line would already be followed by the next one on some terminals.
    text.chars().take(columns - 1).collect()
}

/// How wide help may be: as clap finds it for the rest.
fn help_columns() -> usize {
    let terminal = size(std::io::stdout()).or_else(|| size(std::io::stderr())).or_else(|| size(std::io::stdin()));
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = terminal.map(|(_, columns)| columns).or_else(told);
    columns.unwrap_or(HELP_COLUMNS).min(HELP_COLUMNS)
}

/// The end of a command's help. What an example does stands below it where both do not fit on a line, and a paragraph
/// is one line, which clap wraps.
pub fn examples(text: &str) -> String {
    fitted(text, help_columns())
}

/// An example, and what it does; or what the example above does.
pub fn example(line: &str) -> Option<(&str, &str)> {
    let (trimmed, indent) = (line.trim(), line.len() - line.trim_start().len());
    match indent {
        0 => None,
        1..=2 => Some(trimmed.split_once("  ").map_or((trimmed, ""), |(command, what)| (command, what.trim_start()))),
        _ => Some(("", trimmed)),
    }
}

/// As [`examples`], for a width that is known.
pub fn fitted(text: &str, columns: usize) -> String {
    let is_too_long =
        |line: &str| line.chars().count() > columns && example(line).is_some_and(|(_, what)| !what.is_empty());
    let below = text.lines().any(is_too_long);
    let (mut fitted, mut before) = (String::new(), "");
    for line in text.lines() {
        match example(line) {
            Some((command, what)) if below => {
                let parts = [("  ", command), ("      ", what)].into_iter().filter(|(_, part)| !part.is_empty());
                fitted.extend(parts.map(|(indent, part)| format!("\n{indent}{part}")));
            }
            // Of the same paragraph.
            None if !line.is_empty() && !before.is_empty() => fitted += &format!(" {line}"),
            _ => fitted += &format!("\n{line}"),
        }
        before = line;
    }
    fitted.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress_is_one() {
        assert_eq!([cut("[1/9] création", 9), cut("[1/9]", 9)], ["[1/9] cr", "[1/9]"]);
    }

    #[test]
    fn an_example_stays_whole() {
        let text = "Examples:\n  raddle run -- a      it runs\n  raddle top\n                       and more\n\nSome\ntext.\n\nEnd.";
        assert_eq!(fitted(text, 31), text.replace("Some\n", "Some "));
        let narrow = "Examples:\n  raddle run -- a\n      it runs\n  raddle top\n      and more\n\nSome text.\n\nEnd.";
        assert_eq!(fitted(text, 30), narrow);
    }
}
