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

/// What a reason must not consist of: it answers nothing that the callee asks.
const BARE: [&str; 8] = [
    "as above",
    "as promised",
    "as promised by the caller",
    "passed on",
    "passed on to the caller",
    "passed on to our caller",
    "the caller's promise",
    "by the caller's promise",
];

/// No `// SAFETY:` is a bare reference to another reason.
pub fn bare_references(tree: &Tree) -> Vec<Violation> {
    let what = "a reason that only refers to another one: answer what the callee asks";
    let all = |file: &Source| -> Vec<Violation> {
        bare(file).into_iter().map(|line| Violation::new(&file.path, line, what)).collect()
    };
    tree.files.iter().filter(|file| file.is_rust()).flat_map(all).collect()
}

/// The lines with such reasons.
fn bare(file: &Source) -> Vec<usize> {
    let comments: Vec<&str> = file.comments.lines().map(|line| line.trim_start_matches([' ', '/'])).collect();
    let alone = |index: usize| comments.get(index + 1).is_none_or(|next| next.trim().is_empty());
    let is_bare = |text: &str| BARE.contains(&text.trim().trim_end_matches('.').to_lowercase().as_str());
    let reasons = comments.iter().enumerate();
    let bare = reasons.filter(|(at, text)| text.strip_prefix("SAFETY:").is_some_and(is_bare) && alone(*at));
    bare.map(|(at, _)| at).collect()
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
    fn a_bare_reference_is_caught() {
        let count = |text: &str| bare_references(&Tree::of(&[("crates/x/src/a.rs", text)])).len();
        assert_eq!(count("// SAFETY: as above.\nunsafe { g() };\n"), 1);
        assert_eq!(count("// SAFETY: Passed on.\nunsafe { g() };\n"), 1);
        assert_eq!(count("// SAFETY: as above; the lock is held.\nunsafe { g() };\n"), 0);
        assert_eq!(count("// SAFETY: as promised\n// by who made it.\nunsafe { g() };\n"), 0);
    }

    #[test]
    fn reasons_are_found() {
        assert_eq!(count("fn f() {\n    // SAFETY: one\n    // and two\n    let x = unsafe { g() };\n}\n"), 0);
        assert_eq!(count("fn f() {\n    // SAFETY: one\n    let x = foo\n        .bar(unsafe { g() });\n}\n"), 0);
        assert_eq!(count("// SAFETY: a\n#[allow(x)]\nunsafe impl Send for A {}\n"), 0);
        assert_eq!(count("unsafe fn f() {}\n/// # Safety\npub unsafe fn g() {}\n"), 0);
    }
}
