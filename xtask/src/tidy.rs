//! `cargo xtask tidy`: the rules that the compiler does not know.
//!
//! Each rule is one function from the tree to its violations, with a unit test that shows it catching one. Links in
//! documentation are left to rustdoc, undocumented `unsafe` blocks are looked for by clippy as well.

mod callers;
mod circles;
mod layers;
mod manifests;
mod margin;
mod orderings;
mod references;
mod thresholds;
mod unsafety;
mod words;

use crate::shell::{self, Failure, Outcome};
use crate::source::Source;
pub use orderings::{STRONG, tags as ordering_tags};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The files that are, or would be, committed.
#[derive(Default)]
pub struct Tree {
    /// Their contents, by path.
    pub files: Vec<Source>,
    /// All paths, those of files that are not text included.
    pub paths: BTreeSet<String>,
    /// Files that git ignores though they look like sources.
    pub ignored: Vec<String>,
}

/// A broken rule.
#[derive(Debug, PartialEq)]
pub struct Violation {
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line_index: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), line: line_index + 1, message: message.into() }
    }
}

type Rule = (&'static str, fn(&Tree) -> Vec<Violation>);

const RULES: [Rule; 22] = [
    ("queues and scheduler reach the world through machine only", layers::world_through_machine),
    ("system calls live in one os module", layers::system_calls_in_os),
    ("safe rooms forbid unsafe code", layers::safe_rooms),
    ("policies hold neither unsafe nor atomics", layers::pure_policies),
    ("unsafe code says why it is sound", unsafety::safety_comments),
    ("reasons for unsafe code are no bare references", unsafety::bare_references),
    ("lock-free files tag their orderings", orderings::tagged),
    ("ordering tags come in pairs", orderings::paired),
    ("long files say why", references::long_files),
    ("cited files exist", references::cited_files),
    ("git ignores no source", references::ignored_sources),
    ("what is committed is text", references::only_text),
    ("every room is on the map", references::rooms),
    ("nothing unfinished, nothing private", words::forbidden),
    ("comments keep the margin", margin::comments),
    ("README and HACKING are short", margin::documents),
    ("pages fit a screen", margin::pages),
    ("rooms of a crate use each other one way", circles::between_rooms),
    ("somebody calls each function", callers::unused_functions),
    ("thresholds have units and figures", thresholds::of_the_governor),
    ("guesses become fewer", thresholds::guesses),
    ("dependencies point one way", manifests::directions),
];

/// Applies every rule to the checkout.
pub fn run() -> Outcome {
    let tree = read_tree(&shell::root())?;
    let mut count = 0;
    for (name, rule) in RULES {
        let mut found = rule(&tree);
        found.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        if !found.is_empty() {
            println!("tidy: {name}");
        }
        for violation in &found {
            println!("  {}:{}: {}", violation.path, violation.line, violation.message);
        }
        count += found.len();
    }
    if count > 0 {
        return Err(Failure::failed(format!(
            "{count} violations of {} rules, in {} files",
            RULES.len(),
            tree.paths.len()
        )));
    }
    println!("tidy: {} files keep {} rules", tree.paths.len(), RULES.len());
    Ok(())
}

/// Reads what git tracks or would track.
pub fn read_tree(root: &Path) -> Outcome<Tree> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = shell::output(&mut git)?;
    let mut tree = Tree::default();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        // A file that is gone from the work tree, or is not text, has nothing to check.
        if !root.join(path).is_file() {
            continue;
        }
        tree.paths.insert(path.to_string());
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            tree.files.push(Source::new(path, &text));
        }
    }
    // What is built lies in folders that are ignored as a whole; a source there is generated, or a copy.
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--",
        "*.rs",
        "*.go",
        "Cargo.toml",
        "*.md",
    ]);
    git.args([":(exclude)target", ":(exclude)bench/out"]).current_dir(root);
    tree.ignored = shell::output(&mut git)?.split('\0').filter(|path| !path.is_empty()).map(String::from).collect();
    Ok(tree)
}

impl Tree {
    /// A tree for the tests of a rule.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let paths = files.iter().map(|file| file.path.clone()).collect();
        Self { files, paths, ignored: Vec::new() }
    }

    /// The Rust files below `prefix`.
    fn rust_below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Source> {
        self.files.iter().filter(move |file| file.is_rust() && file.path.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_can_be_read() {
        let tree = read_tree(&shell::root()).unwrap();
        assert!(tree.paths.contains("xtask/src/tidy.rs"));
    }
}
