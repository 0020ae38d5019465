//! Memory orderings and their tags, `// Ordering[tag]: …`.

use super::{Tree, Violation};
use crate::source::{Source, has_word};
use std::collections::BTreeMap;

/// The rooms whose files carry tags.
pub const ROOMS: [&str; 2] = ["crates/queues/src/", "crates/scheduler/src/"];

/// The orderings that say something about other memory.
pub const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The opening of a tag.
pub const OPENING: &str = "Ordering[";

/// A file that uses an ordering other than Relaxed has tags.
pub fn tagged(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in ROOMS.iter().flat_map(|room| tree.rust_below(room)) {
        let strong = file.production().find(|(_, line)| is_strong(line));
        if let Some((index, _)) = strong
            && tags(file).is_empty()
        {
            found.push(Violation::new(
                &file.path,
                index,
                "an ordering other than Relaxed, and no `// Ordering[tag]:` in the file",
            ));
        }
    }
    found
}

fn is_strong(line: &str) -> bool {
    !line.trim_start().starts_with("use ")
        && line.contains("Ordering::")
        && STRONG.iter().any(|word| has_word(line, word))
}

/// Within its room a tag stands at both ends, or its comment names the partner ("Pairs with …").
pub fn paired(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for room in ROOMS {
        let mut places: BTreeMap<String, Vec<(&str, usize, bool)>> = BTreeMap::new();
        for file in tree.rust_below(room) {
            for (line, tag) in tags(file) {
                places.entry(tag).or_default().push((&file.path, line, names_partner(file, line)));
            }
        }
        for (tag, cited) in places {
            if cited.len() < 2 && !cited.iter().any(|(_, _, partner)| *partner) {
                let (path, line, _) = cited[0];
                found.push(Violation::new(path, line, format!("tag `{tag}` stands once and names no partner")));
            }
        }
    }
    found
}

/// The tags of a file, tests left out, with the lines (from 0) they stand on.
pub fn tags(file: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in file.comments.lines().enumerate().filter(|(index, _)| !file.is_test_line(*index)) {
        let Some(at) = line.find(OPENING) else { continue };
        let rest = &line[at + OPENING.len()..];
        if let Some(end) = rest.find("]:") {
            found.push((index, rest[..end].to_string()));
        }
    }
    found
}

/// Does the comment that starts on `line` say what it pairs with?
fn names_partner(file: &Source, line: usize) -> bool {
    let comments = file.comments.lines().zip(file.code.lines()).skip(line);
    comments
        .take_while(|(comment, code)| !comment.trim().is_empty() && code.trim().is_empty())
        .chain(file.comments.lines().zip(file.code.lines()).skip(line).take(1))
        .any(|(comment, _)| ["pairs with", "Pairs with", "partner"].iter().any(|word| comment.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untagged_file_is_caught() {
        let text = "fn f(a: &A) {\n    a.store(1, Ordering::Release);\n}\n";
        assert_eq!(tagged(&Tree::of(&[("crates/queues/src/a.rs", text)])).len(), 1);
        assert_eq!(tagged(&Tree::of(&[("crates/queues/src/a.rs", &text.replace("Release", "Relaxed"))])), []);
        assert_eq!(tagged(&Tree::of(&[("crates/queues/tests/a.rs", text)])), []);
    }

    #[test]
    fn a_lonely_tag_is_caught() {
        let text = "// Ordering[publish]: Release.\na.store(1, Ordering::Release);\n";
        let found = paired(&Tree::of(&[("crates/queues/src/a.rs", text)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("publish"));
    }

    #[test]
    fn both_ends_or_a_named_partner_pass() {
        let end = "// Ordering[publish]: Release.\n";
        assert_eq!(paired(&Tree::of(&[("crates/queues/src/a.rs", end), ("crates/queues/src/b.rs", end)])), []);
        let named =
            "// Ordering[publish]: Release.\n// Pairs with the load in `pop`.\na.store(1, Ordering::Release);\n";
        assert_eq!(paired(&Tree::of(&[("crates/queues/src/a.rs", named)])), []);
    }
}
