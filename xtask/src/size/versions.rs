//! What it costs in code that an operation has a version for one table and one for clusters: section 2.3 of Hurricane's
//! paper names it as the price of its protocols.
//!
//! Counted are the lines of the functions that an operation consists of, by the rule of [`super`]; one that several
//! operations use is counted with the first.

use super::{Count, ink};
use crate::shell::{Failure, Outcome};
use crate::source::{Source, find_word};
use crate::tidy::Tree;
use std::fmt::Write as _;

const TABLE: &str = "crates/scheduler/src/lock/reserve/map.rs";
const CLUSTERS: &str = "crates/scheduler/src/lock/clusters/map.rs";
const CHANGES: &str = "crates/scheduler/src/lock/clusters/map/changes.rs";
const COPIES: &str = "crates/scheduler/src/lock/clusters/map/copies.rs";

/// Functions of a file.
type Parts = &'static [(&'static str, &'static [&'static str])];

struct Operation {
    name: &'static str,
    /// In one table, over clusters beside that, and for copies of single processors beside both.
    versions: [Parts; 3],
}

const OPERATIONS: [Operation; 5] = [
    Operation {
        name: "look up",
        versions: [
            &[(TABLE, &["read", "take", "try_element", "held", "wait"])],
            &[(CLUSTERS, &["read_at", "own", "find", "call", "hint"])],
            &[(COPIES, &["read_here"])],
        ],
    },
    Operation {
        name: "change",
        versions: [
            &[(TABLE, &["reserve"])],
            &[(CHANGES, &["update_by", "change", "instance_at"])],
            &[(COPIES, &["take_copies", "renew_copies"])],
        ],
    },
    Operation {
        name: "put in",
        versions: [&[(TABLE, &["insert", "insert_new", "find_or_place"])], &[(CHANGES, &["insert"])], &[]],
    },
    Operation {
        name: "take out",
        versions: [&[(TABLE, &["remove", "remove_entry"])], &[(CHANGES, &["take_out", "both"])], &[]],
    },
    Operation { name: "move", versions: [&[], &[(CHANGES, &["migrate", "moves"])], &[]] },
];

/// The table.
pub fn table(tree: &Tree) -> Outcome<String> {
    let mut text =
        format!("{:<24}{:>12}{:>12}{:>16}\n", "  lines of an operation", "one table", "clusters", "processors");
    let mut sums = [0; 3];
    for operation in &OPERATIONS {
        let mut counts = [0; 3];
        for (version, parts) in operation.versions.iter().enumerate() {
            for (path, names) in *parts {
                let source = tree.files.iter().find(|source| source.path == *path);
                let source = source.ok_or_else(|| Failure::failed(format!("{path} is gone: mend {}", file!())))?;
                for name in *names {
                    let lines = of_function(source, name);
                    counts[version] += lines.ok_or_else(|| {
                        Failure::failed(format!("{path} has no function `{name}` any more: mend {}", file!()))
                    })?;
                }
            }
            sums[version] += counts[version];
        }
        _ = writeln!(text, "  {:<22}{}", operation.name, row(counts));
    }
    _ = writeln!(text, "  {:<22}{}", "all", row(sums));
    Ok(text)
}

fn row([table, clusters, copies]: [usize; 3]) -> String {
    format!("{table:>12}{:>12}{:>16}", format!("+{clusters}"), format!("+{copies}"))
}

/// Lines of code of the first function of that name.
fn of_function(source: &Source, name: &str) -> Option<usize> {
    let mut from = 0;
    let at = loop {
        let at = find_word(&source.code, name, from)?;
        if source.code[..at].trim_end().ends_with("fn") {
            break at;
        }
        from = at + name.len();
    };
    let begin = source.line_of(at);
    let (mut depth, mut end) = (0, None);
    for (offset, byte) in source.code.bytes().enumerate().skip(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => {
                end = Some(source.line_of(offset));
                break;
            }
            b'}' => depth -= 1,
            _ => {}
        }
    }
    let lines = source.text.lines().zip(source.comments.lines()).skip(begin).take(end? - begin + 1);
    Some(Count::of_lines(lines.map(|(text, comment)| ink(text) - ink(comment))).lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;
    use crate::tidy::read_tree;

    #[test]
    fn lines_of_a_function_are_counted_without_its_comments() {
        let text =
            "fn ab() {}\n/// What.\nfn a(\n) -> u32 {\n    // Why.\n    let b = { 1 };\n\n    b\n}\nfn c() { a() }\n";
        let source = Source::new("crates/x/src/a.rs", text);
        assert_eq!(
            (of_function(&source, "a"), of_function(&source, "c"), of_function(&source, "b")),
            (Some(5), Some(1), None)
        );
    }

    #[test]
    fn each_function_that_is_named_is_there() {
        let text = table(&read_tree(&shell::root()).unwrap()).unwrap();
        assert_eq!(text.lines().count(), OPERATIONS.len() + 2);
        assert!(table(&Tree::of(&[])).is_err());
    }
}
