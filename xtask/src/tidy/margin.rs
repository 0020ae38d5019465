//! How far comments reach, and how long the documents are that a newcomer reads first.

use super::{Tree, Violation};
use std::path::Path;

/// Columns that a line with a comment may have.
const COLUMNS: usize = 120;

/// No line of Rust that holds a comment is longer than [`COLUMNS`], but for rows of tables.
pub fn comments(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for (index, (line, comment)) in file.text.lines().zip(file.comments.lines()).enumerate() {
            let columns = line.chars().count();
            let row = comment.trim_start_matches([' ', '/', '!']).starts_with('|');
            if columns > COLUMNS && !comment.trim().is_empty() && !row {
                found.push(Violation::new(&file.path, index, format!("a comment reaches column {columns}")));
            }
        }
    }
    found
}

/// README: lines, and numbers (those of its addresses, samples and table, too).
const README: (usize, usize) = (120, 25);
/// Bytes of HACKING.
const HACKING: usize = 10 * 1024;
/// Columns of a line in either, and of one on a page of docs that stands in no table, sample or output.
const DOCUMENT_COLUMNS: usize = 200;
const PAGE_COLUMNS: usize = 160;
/// A page with a list of names that a command writes.
const WRITTEN: &str = "docs/programs.md";

/// A line of a page fits a screen.
pub fn pages(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_page = |path: &str| path.ends_with(".md") && Path::new(path).parent() == Some(Path::new("docs"));
    for file in tree.files.iter().filter(|file| is_page(&file.path) && file.path != WRITTEN) {
        let mut is_block = false;
        for (index, line) in file.text.lines().enumerate() {
            is_block ^= line.trim_start().starts_with("```");
            let columns = line.chars().count();
            if columns > PAGE_COLUMNS && !is_block && !line.starts_with('|') {
                found.push(Violation::new(&file.path, index, format!("{columns} columns: at most {PAGE_COLUMNS}")));
            }
        }
    }
    found
}

/// README and HACKING can be read in one go.
pub fn documents(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| ["README.md", "HACKING.md"].contains(&file.path.as_str())) {
        let mut add = |line, message| found.push(Violation::new(&file.path, line, message));
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > DOCUMENT_COLUMNS {
                add(index, format!("a line of {columns} columns: at most {DOCUMENT_COLUMNS}"));
            }
        }
        let (lines, numbers) = (file.text.lines().count(), numbers(&file.text));
        if file.path == "README.md" && (lines > README.0 || numbers > README.1) {
            add(0, format!("{lines} lines and {numbers} numbers: at most {} and {}", README.0, README.1));
        }
        if file.path == "HACKING.md" && file.text.len() > HACKING {
            add(0, format!("{} bytes: at most {HACKING}", file.text.len()));
        }
    }
    found
}

/// How many numbers a text has: `1,000` and `2.0` are one each.
fn numbers(text: &str) -> usize {
    let within = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let words = text.split(|c: char| !within(c));
    words.filter(|word| word.contains(|c: char| c.is_ascii_digit())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_document_is_caught() {
        let count = |path: &str, text: &str| documents(&Tree::of(&[(path, text)])).len();
        assert_eq!(count("README.md", &"a\n".repeat(120)), 0);
        assert_eq!(count("README.md", &"a\n".repeat(121)), 1);
        assert_eq!(count("README.md", &"1,000 2.0 ".repeat(13)), 1);
        assert_eq!(count("HACKING.md", &"a\n".repeat(6000)), 1);
        assert_eq!(count("HACKING.md", &"a".repeat(201)), 1);
        assert_eq!(count("docs/policies.md", &"9 ".repeat(9000)), 0);
        assert_eq!(numbers("1,000 threads, 2.0 s, v3 and none."), 3);
    }

    #[test]
    fn a_page_wider_than_a_screen_is_caught() {
        let count = |path: &str, text: &str| pages(&Tree::of(&[(path, text)])).len();
        let line = "x".repeat(161);
        assert_eq!(count("docs/faq.md", &format!("{line}\n{line}\n")), 2);
        assert_eq!(count("docs/faq.md", &format!("{}\n| {line} |\n```text\n{line}\n```\n", &line[1..])), 0);
        assert_eq!(count("docs/decisions/0001.md", &line), 0);
    }

    #[test]
    fn a_comment_beyond_the_margin_is_caught() {
        let long = "x".repeat(COLUMNS - 3);
        let count = |text: String| comments(&Tree::of(&[("bench/src/a.rs", &text)])).len();
        assert_eq!(count(format!("// {long}\n")), 0);
        assert_eq!(count(format!("// {long}x\n")), 1);
        assert_eq!(count(format!("/// {long}\n")), 1);
        assert_eq!(count(format!("/// | {long} |\n")), 0);
        // Columns are characters; a long string is no comment.
        assert_eq!(count(format!("// {}\n", "é".repeat(COLUMNS - 3))), 0);
        assert_eq!(count(format!("const A: &str = \"// {long}\";\n")), 0);
    }
}
