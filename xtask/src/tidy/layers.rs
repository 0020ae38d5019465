//! Which room may reach what.

use super::{Tree, Violation};
use crate::source::{Source, has_word};

/// Rooms that are generic over the machine.
const GENERIC: [&str; 2] = ["crates/queues/src/", "crates/scheduler/src/"];

/// `queues` and `scheduler` reach atomics, time, kernel threads and the kernel only through `machine`, tests apart.
pub fn world_through_machine(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in GENERIC.iter().flat_map(|room| tree.rust_below(room)) {
        for (line, path) in std_paths(file) {
            if ["sync::atomic", "thread", "time", "os", "net", "fs", "process"]
                .iter()
                .any(|door| starts_with(&path, door))
            {
                found.push(Violation::new(&file.path, line, format!("std::{path}: go through raddle_machine")));
            }
        }
        for (index, line) in file.production() {
            for word in ["libc", "Instant", "SystemTime", "asm", "global_asm"] {
                if has_word(line, word) {
                    found.push(Violation::new(&file.path, index, format!("`{word}`: go through raddle_machine")));
                }
            }
        }
    }
    found
}

fn starts_with(path: &str, door: &str) -> bool {
    path == door || path.strip_prefix(door).is_some_and(|rest| rest.starts_with("::"))
}

/// Every path below `std` or `core` in production code, `use` groups taken apart, `core::time` (plain data) left out.
fn std_paths(file: &Source) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for root in ["std", "core"] {
        let mut from = 0;
        while let Some(at) = crate::source::find_word(&file.code, root, from) {
            from = at + root.len();
            let Some(rest) = file.code[from..].strip_prefix("::") else { continue };
            let line = file.line_of(at);
            if file.is_test_line(line) {
                continue;
            }
            let mut expanded = Vec::new();
            expand(rest, "", &mut expanded);
            paths.extend(
                expanded.into_iter().filter(|path| root == "std" || !starts_with(path, "time")).map(|p| (line, p)),
            );
        }
    }
    paths
}

/// Reads one path or group from the start of `text` and lists its full paths; answers with what follows.
fn expand<'a>(text: &'a str, prefix: &str, out: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut inner) = text.strip_prefix('{') {
        loop {
            inner = expand(inner, prefix, out).trim_start();
            match inner.strip_prefix(',') {
                Some(more) => inner = more,
                None => return inner.strip_prefix('}').unwrap_or(inner),
            }
        }
    }
    let len = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(text.len());
    if len == 0 {
        return text;
    }
    let path = if prefix.is_empty() { text[..len].to_string() } else { format!("{prefix}::{}", &text[..len]) };
    match text[len..].strip_prefix("::") {
        Some(rest) if !rest.starts_with('<') => expand(rest, &path, out),
        _ => {
            out.push(path);
            let rest = text[len..].trim_start();
            // `as name` belongs to the path.
            match rest.strip_prefix("as ") {
                Some(name) => name.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                None => rest,
            }
        }
    }
}

/// In `raddle` and `posix`, `libc` is named in the `os` module only.
pub fn system_calls_in_os(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for room in ["crates/raddle/src/", "crates/posix/src/"] {
        for file in tree.rust_below(room) {
            let inside = &file.path[room.len()..];
            if inside == "os.rs" || inside.starts_with("os/") {
                continue;
            }
            for (index, line) in file.production() {
                if has_word(line, "libc") {
                    found.push(Violation::new(&file.path, index, format!("`libc` outside of {room}os")));
                }
            }
        }
    }
    found
}

/// Files that forbid unsafe code in a room that has some, where stacks are switched.
const SAFE_FILES: [&str; 4] = [
    "crates/sim/src/workloads.rs",
    "crates/sim/src/simulate.rs",
    "crates/sim/src/report.rs",
    "crates/sim/src/watch.rs",
];

/// The roots of `cli`, `bench` and `xtask`, and the simulator's programs and reports, forbid unsafe code.
pub fn safe_rooms(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let safe = ["crates/cli/", "bench/", "xtask/"].iter().any(|room| file.path.starts_with(room));
        let root = ["/src/main.rs", "/src/lib.rs"].iter().any(|name| file.path.ends_with(name))
            || file.path.contains("/src/bin/") && !file.path.ends_with("/mod.rs");
        let named = SAFE_FILES.contains(&file.path.as_str());
        if (safe && root || named) && !file.code.contains("#![forbid(unsafe_code)]") {
            found.push(Violation::new(&file.path, 0, "`#![forbid(unsafe_code)]` is missing"));
        }
    }
    found
}

/// Policies are made of queues and hold `Ready` tokens: no `unsafe`, no atomics.
pub fn pure_policies(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust_below("crates/scheduler/src/policies") {
        for (index, line) in file.production() {
            for word in ["unsafe", "Atomic", "Ordering", "fence", "light_fence", "heavy_fence", "transmute"] {
                if has_word(line, word) {
                    found.push(Violation::new(&file.path, index, format!("a policy holds `{word}`")));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_atomics_are_caught_in_every_spelling() {
        for text in [
            "use std::sync::atomic::AtomicU64;\n",
            "use std::{cell::Cell, sync::{atomic, Arc}};\n",
            "use std::{fmt as f, thread};\n",
            "fn f() { core::sync::atomic::fence(x) }\n",
            "fn f() { std::time::Instant::now(); }\n",
            "use libc::c_int;\n",
        ] {
            let tree = Tree::of(&[("crates/queues/src/a.rs", text)]);
            assert!(!world_through_machine(&tree).is_empty(), "{text}");
        }
    }

    #[test]
    fn tests_comments_and_harmless_paths_pass() {
        let text = "// std::thread is not used\nuse std::{fmt, sync::Arc};\nuse core::time::Duration;\n\
                    #[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(world_through_machine(&Tree::of(&[("crates/scheduler/src/a.rs", text)])), []);
        assert_eq!(world_through_machine(&Tree::of(&[("crates/raddle/src/a.rs", "use std::thread;\n")])), []);
    }

    #[test]
    fn system_calls_elsewhere_are_caught() {
        let call = "fn f() { libc::getpid(); }\n";
        let tree = Tree::of(&[("crates/raddle/src/os/linux.rs", call), ("crates/raddle/src/os.rs", call)]);
        assert_eq!(system_calls_in_os(&tree), []);
        let tree = Tree::of(&[("crates/raddle/src/pool.rs", call)]);
        assert_eq!(system_calls_in_os(&tree).len(), 1);
    }

    #[test]
    fn a_root_that_allows_unsafe_is_caught() {
        let tree = Tree::of(&[
            ("crates/cli/src/main.rs", "fn main() {}\n"),
            ("bench/src/lib.rs", "#![forbid(unsafe_code)]\n"),
            ("bench/src/other.rs", "fn x() {}\n"),
            ("bench/peers/rust/src/bin/a.rs", "// #![forbid(unsafe_code)]\n"),
            ("crates/sim/src/workloads.rs", "fn x() {}\n"),
            ("crates/sim/src/threads.rs", "fn x() {}\n"),
        ]);
        let paths: Vec<String> = safe_rooms(&tree).into_iter().map(|violation| violation.path).collect();
        assert_eq!(paths, ["crates/cli/src/main.rs", "bench/peers/rust/src/bin/a.rs", "crates/sim/src/workloads.rs"]);
    }

    #[test]
    fn an_atomic_in_a_policy_is_caught() {
        let text = "struct P<M: Machine>(M::Atomic<u64>);\nfn f() { unsafe { g() } }\n";
        assert_eq!(pure_policies(&Tree::of(&[("crates/scheduler/src/policies/lifo.rs", text)])).len(), 2);
        assert_eq!(pure_policies(&Tree::of(&[("crates/scheduler/src/park.rs", text)])), []);
    }
}
