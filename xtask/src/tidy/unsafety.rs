//! `unsafe` and its reasons.

use super::{Tree, Violation};
use crate::source::{Source, find_word};

/// Every `unsafe` block and implementation has a `// SAFETY:` on its line or in the comment just above its statement.
pub fn safety_comments(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let mut from = 0;
        while let Some(at) = find_word(&file.code, "unsafe", from) {
            from = at + "unsafe".len();
            let rest = file.code[from..].trim_start();
            if (rest.starts_with('{') || rest.starts_with("impl")) && !is_argued(file, file.line_of(at)) {
                found.push(Violation::new(&file.path, file.line_of(at), "`unsafe` without a `// SAFETY:` just above"));
            }
        }
    }
    found
}

fn is_argued(file: &Source, line: usize) -> bool {
    let code: Vec<&str> = file.code.lines().collect();
    let comments: Vec<&str> = file.comments.lines().collect();
    if comments[line].contains("SAFETY:") {
        return true;
    }
    // Upwards through comments, attributes and the earlier lines of the same statement.
    for above in (0..line).rev() {
        let text = code[above].trim();
        let comment = comments[above].trim();
        if comment.contains("SAFETY:") && text.is_empty() {
            return true;
        }
        let ends_statement = text.ends_with([';', '}']);
        let blank = text.is_empty() && comment.is_empty();
        if blank || ends_statement {
            return false;
        }
        // A block, an arm or an argument list may open on the line before; its own comment stands inside it or above
        // it.
        if text.ends_with('{') && !text.contains("=>") && !text.ends_with("= {") && !text.ends_with("({") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        safety_comments(&Tree::of(&[("crates/x/src/a.rs", text)])).len()
    }

    #[test]
    fn a_bare_block_is_caught() {
        assert_eq!(count("fn f() {\n    unsafe { g() }\n}\n"), 1);
        assert_eq!(count("unsafe impl Send for A {}\n"), 1);
    }

    #[test]
    fn a_reason_for_the_statement_before_does_not_count() {
        assert_eq!(count("fn f() {\n    // SAFETY: a\n    unsafe { g() };\n    unsafe { h() };\n}\n"), 1);
    }

    #[test]
    fn reasons_are_found() {
        assert_eq!(count("fn f() {\n    // SAFETY: one\n    // and two\n    let x = unsafe { g() };\n}\n"), 0);
        assert_eq!(count("fn f() {\n    // SAFETY: one\n    let x = foo\n        .bar(unsafe { g() });\n}\n"), 0);
        assert_eq!(count("// SAFETY: a\n#[allow(x)]\nunsafe impl Send for A {}\n"), 0);
        assert_eq!(count("unsafe fn f() {}\n/// # Safety\npub unsafe fn g() {}\n"), 0);
    }
}
