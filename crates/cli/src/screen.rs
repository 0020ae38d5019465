//! What is known of the terminal: whether what is shown can be written over, and how much it takes.

use std::os::fd::AsFd;

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

/// What puts a line of progress in the place of the one before. A longer one than the terminal is wide would leave its
/// first part there.
pub fn in_place(text: &str) -> String {
    let columns = size(std::io::stderr()).map_or(80, |(_, columns)| columns);
    format!("\r\x1b[K{}", cut(text, columns))
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
