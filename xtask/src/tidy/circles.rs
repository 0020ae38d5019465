//! Rooms within a crate: the modules at its top. None uses another one that uses it, directly or by way of others.

use super::{Tree, Violation};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// What still is a circle, by crate. A room that has left it must be taken off the list, so that it does not come back.
const CIRCLES: [(&str, &[&str]); 5] = [
    ("bench", &["bodies", "catalogue", "harness", "load", "report", "runtimes"]),
    ("xtask", &["model", "weaken"]),
    ("crates/context", &["overflow", "stack", "switch", "tls", "tsan"]),
    ("crates/sim", &["driver", "execution", "lines", "machine", "world"]),
    ("crates/posix", &["c_interface", "futex", "io", "process", "quantum", "start", "stats", "sync", "thread"]),
];

/// What each room of a crate uses of its other rooms, and where it first does.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (&'a str, usize)>>;

/// No circle of imports between the rooms of a crate, but for those of [`CIRCLES`].
pub fn between_rooms(tree: &Tree) -> Vec<Violation> {
    let crates: BTreeSet<&str> =
        tree.files.iter().filter_map(|file| file.path.split_once("/src/")).map(|(name, _)| name).collect();
    crates.into_iter().flat_map(|name| of_crate(tree, name)).collect()
}

fn of_crate(tree: &Tree, name: &str) -> Vec<Violation> {
    let prefix = format!("{name}/src/");
    let files: Vec<(&str, &Source)> = tree
        .files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test_file())
        .filter_map(|file| Some((room(file.path.strip_prefix(&prefix)?), file)))
        .filter(|(room, _)| !["lib", "main", "bin"].contains(room))
        .collect();
    let root = format!("{prefix}lib.rs");
    let names = tree.files.iter().find(|file| file.path == root).map_or_else(BTreeMap::new, exported);
    let mut uses: Uses = files.iter().map(|(room, _)| (*room, BTreeMap::new())).collect();
    for (room, file) in &files {
        for (name, line) in imports(file) {
            let used = names.get(name).copied().unwrap_or(name);
            if let Some((used, _)) = files.iter().find(|(known, _)| *known == used && known != room) {
                uses.entry(room).or_default().entry(used).or_insert((&file.path, line));
            }
        }
    }
    let known = CIRCLES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, rooms)| rooms);
    let mut found = Vec::new();
    for room in uses.keys() {
        let back = uses[room].iter().find(|(next, _)| reaches(&uses, next, room));
        match (back, known.contains(room)) {
            (Some((next, (path, line))), false) => {
                let message = format!("`{room}` uses `{next}`, which uses `{room}`, if by way of others");
                found.push(Violation::new(path, *line, message));
            }
            (None, true) => {
                let message = format!("`{room}` of {name} is in no circle any more: take it off the list");
                found.push(Violation::new("xtask/src/tidy/circles.rs", 0, message));
            }
            _ => {}
        }
    }
    found
}

/// What the crate's root re-exports, with the room that each name is of: `crate::Name` is a use of that.
fn exported(root: &Source) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for statement in root.code.split("pub use ").skip(1) {
        let path = statement.split(';').next().unwrap_or(statement);
        let Some((room, _)) = path.split_once("::") else { continue };
        let (way, names) = path.split_once('{').unwrap_or_else(|| path.rsplit_once("::").unwrap_or((path, path)));
        let module = way.trim_end_matches("::").rsplit("::").next().unwrap_or(way);
        for name in names.split(',').map(word_in).filter(|name| !name.is_empty()) {
            found.insert(if name == "self" { module } else { name }, room);
        }
    }
    found
}

fn word_in(text: &str) -> &str {
    word(text.trim_start())
}

/// The room of a file, by its path below `src`.
fn room(path: &str) -> &str {
    let top = path.split('/').next().unwrap_or(path);
    top.strip_suffix(".rs").unwrap_or(top)
}

/// The first names below `crate::` in production code, with their lines.
fn imports(file: &Source) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in file.code.match_indices("crate::") {
        let line = file.line_of(at);
        if file.is_test_line(line) {
            continue;
        }
        let rest = &file.code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push((word(rest), line));
            continue;
        };
        // The names at the top of a group.
        let mut depth = 0;
        let mut begins = true;
        for (at, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && (c.is_alphanumeric() || c == '_') => {
                    found.push((word(&group[at..]), line));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("")
}

fn reaches(uses: &Uses, from: &str, to: &str) -> bool {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(room) = left.pop() {
        if room == to {
            return true;
        }
        if seen.insert(room) {
            left.extend(uses.get(room).into_iter().flat_map(BTreeMap::keys));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_caught_however_long_and_wherever_it_goes() {
        let a = ("crates/queues/src/a.rs", "use crate::{b::B, x::{c, d}};\n");
        let b = ("crates/queues/src/b/inner.rs", "fn f() { crate::c::f() }\n");
        let c = ("crates/queues/src/c.rs", "use crate::a;\n");
        assert!(between_rooms(&Tree::of(&[a, b])).is_empty());
        let found = between_rooms(&Tree::of(&[a, b, c]));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[1].path, "crates/queues/src/b/inner.rs");
    }

    #[test]
    fn a_name_that_the_root_exports_is_of_its_room() {
        let root = ("crates/queues/src/lib.rs", "pub use b::inner::{self, Thing};\npub use b::Other;\n");
        let b = ("crates/queues/src/b/inner.rs", "use crate::a;\n");
        for used in ["crate::Thing", "crate::inner::f", "crate::Other"] {
            let a = format!("fn f() {{ {used} }}\n");
            assert_eq!(between_rooms(&Tree::of(&[root, ("crates/queues/src/a.rs", &a), b])).len(), 2, "{used}");
        }
    }

    #[test]
    fn tests_and_comments_make_no_circle() {
        let a = ("crates/queues/src/a.rs", "use crate::b;\n");
        let b = ("crates/queues/src/b.rs", "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n");
        assert!(between_rooms(&Tree::of(&[a, b])).is_empty());
    }

    #[test]
    fn a_room_that_has_left_a_listed_circle_is_named() {
        let found = between_rooms(&Tree::of(&[("crates/context/src/stack.rs", "fn f() {}\n")]));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
