//! Functions that nobody calls, and what stands in a comment beyond the margin.

use super::{Tree, Violation};
use crate::source::Source;
use std::collections::HashMap;

/// Where a public function is there for other people's programs.
const PUBLISHED: [&str; 3] = ["crates/raddle/src/", "crates/std/src/", "crates/macros/src/"];

/// A public function's name stands somewhere besides in its definition, in code or in an example. By names: one that
/// shares its name with another that is called is not seen.
pub fn unused_functions(tree: &Tree) -> Vec<Violation> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let mut definitions: HashMap<&str, usize> = HashMap::new();
    let code = tree.files.iter().filter(|file| !file.path.ends_with(".md"));
    for line in code.clone().flat_map(|file| {
        if file.is_rust() {
            file.code.lines().chain(examples(file)).collect()
        } else {
            file.text.lines().collect::<Vec<_>>()
        }
    }) {
        words(line).for_each(|word| *uses.entry(word).or_default() += 1);
        function(line).into_iter().for_each(|name| *definitions.entry(name).or_default() += 1);
    }
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.is_test_file()) {
        for (index, line) in file.production() {
            let public = line.trim_start().starts_with("pub");
            // Called from C, by a name that the linker knows.
            let foreign = line.contains("extern \"");
            let promised =
                line.trim_start().starts_with("pub ") && PUBLISHED.iter().any(|room| file.path.starts_with(room));
            let Some(name) = function(line).filter(|_| public && !foreign && !promised) else { continue };
            if uses.get(name) <= definitions.get(name) {
                found.push(Violation::new(&file.path, index, format!("nobody calls `{name}`")));
            }
        }
    }
    found
}

/// The name of the function that a line of code begins.
fn function(line: &str) -> Option<&str> {
    let mut words = words(line).skip_while(|word| {
        ["pub", "crate", "super", "in", "self", "const", "async", "unsafe", "extern", "C"].contains(word)
    });
    words.next().filter(|word| *word == "fn").and_then(|_| words.next())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The lines of examples in a file's documentation.
fn examples(file: &Source) -> impl Iterator<Item = &str> {
    let mut inside = false;
    file.text.lines().filter(move |line| {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            inside = false;
            return false;
        };
        if text.trim_start().starts_with("```") {
            inside = !inside;
            return false;
        }
        inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused(files: &[(&str, &str)]) -> usize {
        unused_functions(&Tree::of(files)).len()
    }

    #[test]
    fn a_function_that_nobody_calls_is_caught() {
        let file = "crates/queues/src/a.rs";
        let unused_one = "pub fn spare(x: u8) -> u8 {\n    x\n}\n";
        assert_eq!(unused(&[(file, unused_one)]), 1);
        assert_eq!(unused(&[(file, &unused_one.replace("pub fn", "pub(crate) const unsafe fn"))]), 1);
        // A comment, or a page of documentation, is no call.
        assert_eq!(unused(&[(file, &format!("// See `spare`.\n{unused_one}")), ("docs/a.md", "spare(1)\n")]), 1);
        // Another definition is none either.
        assert_eq!(unused(&[(file, unused_one), ("crates/queues/src/b.rs", unused_one)]), 2);
    }

    #[test]
    fn a_call_an_example_and_what_others_call_is_none() {
        let file = "crates/queues/src/a.rs";
        assert_eq!(unused(&[(file, "pub fn spare() {}\n"), ("tests/a.rs", "fn main() { spare() }\n")]), 0);
        assert_eq!(unused(&[(file, "/// ```\n/// spare();\n/// ```\npub fn spare() {}\n")]), 0);
        assert_eq!(unused(&[("crates/raddle/src/a.rs", "pub fn spare() {}\n")]), 0);
        assert_eq!(unused(&[("crates/raddle/src/a.rs", "pub(crate) fn spare() {}\n")]), 1);
        assert_eq!(unused(&[(file, "pub extern \"C\" fn spare() {}\n")]), 0);
    }
}
