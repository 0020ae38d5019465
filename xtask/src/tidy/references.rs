//! What files say about themselves and about each other.

use super::{Tree, Violation};
use crate::source::Source;
use std::collections::BTreeSet;

/// Above this a file's header says why it is long.
const LONG: usize = 700;

/// A long Rust file has "Long because" in its header.
pub fn long_files(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        let header = file.comments.lines().take(120).take_while(|line| !line.trim().is_empty());
        if lines > LONG && !header.into_iter().any(|line| line.contains("Long because")) {
            found.push(Violation::new(&file.path, 0, format!("{lines} lines, and no \"Long because\" in the header")));
        }
    }
    found
}

/// A path of the checkout that documentation or a comment cites exists.
pub fn cited_files(tree: &Tree) -> Vec<Violation> {
    let folders: BTreeSet<&str> =
        tree.paths.iter().filter_map(|path| path.split_once('/')).map(|(top, _)| top).collect();
    let mut found = Vec::new();
    for file in &tree.files {
        let prose = match () {
            () if file.path.ends_with(".md") => &file.text,
            () if file.is_rust() => &file.comments,
            () => continue,
        };
        for (index, line) in prose.lines().enumerate() {
            for cited in line.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./*<>".contains(c))) {
                let cited = cited.trim_end_matches('.');
                if is_path(cited, &folders) && !exists(tree, file, cited) {
                    found.push(Violation::new(&file.path, index, format!("`{cited}` does not exist")));
                }
            }
        }
    }
    found
}

/// Looks like a file of the checkout: it starts with a top folder, or with `tests/` or `src/`, and has an extension.
fn is_path(word: &str, folders: &BTreeSet<&str>) -> bool {
    let Some((top, rest)) = word.split_once('/') else { return false };
    let file = rest.rsplit('/').next().unwrap_or(rest);
    let extension = file.rsplit_once('.').is_some_and(|(stem, extension)| !stem.is_empty() && !extension.is_empty());
    extension && !word.contains(['*', '<', '>']) && (folders.contains(top) || top == "tests" || top == "src")
}

fn exists(tree: &Tree, from: &Source, cited: &str) -> bool {
    // From the root, or from any folder above the file that cites it.
    let above = from.path.match_indices('/').map(|(at, _)| &from.path[..=at]);
    tree.paths.contains(cited) || above.into_iter().any(|folder| tree.paths.contains(&format!("{folder}{cited}")))
}

/// A source that git ignores is there for whoever wrote it and for nobody else.
pub fn ignored_sources(tree: &Tree) -> Vec<Violation> {
    let told = "git ignores this source; a clone will not have it (see .gitignore)";
    tree.ignored.iter().map(|path| Violation::new(path, 0, told)).collect()
}

/// Two core dumps of a test's were committed once, and are in every clone since: 52 MB.
pub fn only_text(tree: &Tree) -> Vec<Violation> {
    let text: BTreeSet<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    let told = "no text: what programs leave behind is not committed";
    let others = tree.paths.iter().filter(|path| !text.contains(path.as_str()));
    others.map(|path| Violation::new(path, 0, told)).collect()
}

/// Each package of the workspace is named in ARCHITECTURE.md.
pub fn rooms(tree: &Tree) -> Vec<Violation> {
    let map = tree.files.iter().find(|file| file.path == "ARCHITECTURE.md").map_or("", |file| file.text.as_str());
    let packages = tree.paths.iter().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    packages
        .filter(|folder| !map.contains(&format!("`{folder}`")))
        .map(|folder| {
            Violation::new(&format!("{folder}/Cargo.toml"), 0, format!("`{folder}` is not in ARCHITECTURE.md"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_text_is_caught() {
        let mut tree = Tree::of(&[("README.md", "# A")]);
        assert_eq!(only_text(&tree), []);
        tree.paths.insert("core".into());
        assert_eq!(only_text(&tree)[0].path, "core");
    }

    #[test]
    fn a_long_file_without_a_reason_is_caught() {
        let body = "fn a() {}\n".repeat(LONG);
        let bare = format!("//! Header.\n{body}");
        assert_eq!(long_files(&Tree::of(&[("crates/x/src/a.rs", &bare)])).len(), 1);
        let argued = format!("//! Header.\n//! Long because it is a table.\n{body}");
        assert_eq!(long_files(&Tree::of(&[("crates/x/src/a.rs", &argued)])), []);
    }

    #[test]
    fn a_cited_file_that_is_gone_is_caught() {
        let tree = Tree::of(&[
            (
                "HACKING.md",
                "see crates/x/tests/gone.rs, crates/x/tests/there.rs, `crates/<room>/a.rs` and docs.rs/libc.\n",
            ),
            ("crates/x/tests/there.rs", ""),
            ("crates/x/src/a.rs", "//! Proven by tests/there.rs, and by tests/lost.rs.\n"),
        ]);
        let messages: Vec<String> = cited_files(&tree).into_iter().map(|violation| violation.message).collect();
        assert_eq!(messages, ["`crates/x/tests/gone.rs` does not exist", "`tests/lost.rs` does not exist"]);
    }

    #[test]
    fn an_ignored_source_is_caught() {
        let tree = Tree { ignored: vec!["bench/src/bin/a.rs".to_string()], ..Tree::default() };
        assert_eq!(ignored_sources(&tree).len(), 1);
    }

    #[test]
    fn a_room_that_is_not_on_the_map_is_caught() {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", "`crates/a` is\n"),
            ("crates/a/Cargo.toml", ""),
            ("crates/b/Cargo.toml", ""),
        ]);
        assert_eq!(rooms(&tree).len(), 1);
    }
}
