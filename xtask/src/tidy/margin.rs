//! How far comments reach.

use super::{Tree, Violation};

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

#[cfg(test)]
mod tests {
    use super::*;

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
