//! `cargo xtask size`: how much code each room holds, and Linux's scheduler beside it, counted by the same rule.
//!
//! A line counts when something stands on it that is neither blank nor comment (documentation comments are comments),
//! and when it is not compiled in tests only; files of tests and examples do not count at all. Lines of ours may be
//! longer than Linux's, so characters that are no blanks are counted as well, on the same lines.
//!
//! Below it stands what it costs that an operation has a version for one table and one for clusters ([`versions`]).
//!
//! [`PARTS`] says which parts of a room are told apart, and which of them do what the folder kernel/sched does for
//! Linux.

mod linux;
mod versions;

use crate::shell::{self, Failure, Outcome};
use crate::source::Source;
use crate::tidy::{Tree, read_tree};
use std::ops::AddAssign;
use std::path::Path;

const USAGE: &str = "usage: cargo xtask size [--linux FOLDER]";

/// What stands before parts that count beside kernel/sched.
const MARK: &str = "*";

/// A part of a room: its name, what its files' paths below the folder `src` start with, and whether kernel/sched does
/// for Linux what it does for us.
struct Part {
    room: &'static str,
    name: &'static str,
    files: &'static [&'static str],
    beside: bool,
}

const fn part(room: &'static str, name: &'static str, files: &'static [&'static str], beside: bool) -> Part {
    Part { room, name, files, beside }
}

/// The parts of the rooms of which a scheduler consists; the first that fits has a file. What none has is the rest.
/// Each policy is a part besides.
///
/// Outside of kernel/sched, and therefore unmarked, Linux has its atomic operations, lists and trees (as our door to
/// the world), mutexes and futexes, the making of threads, timers, the switch itself, and stacks.
const PARTS: &[Part] = &[
    part("crates/machine", "a model checker's machine", &["loom_machine"], false),
    part("crates/queues", "the lock-free paper's unbounded queue", &["unbounded"], true),
    part("crates/queues", "lists of waiters", &["wait_list"], true),
    part("crates/queues", "other queues, and what they are made of", &[""], true),
    part("crates/scheduler", "idle", &["idle"], true),
    part("crates/scheduler", "the dispatcher and the governor", &["dispatch", "govern"], true),
    part("crates/scheduler", "takeover", &["takeover"], true),
    part("crates/scheduler", "thread states, park and wake", &["thread.rs", "ready.rs", "runtime"], true),
    part("crates/scheduler", "queues of tokens", &["tokens"], true),
    part("crates/scheduler", "policies: the trait, what they share", &["policy.rs", POLICIES], true),
    part("crates/scheduler", "policies: expressions", &["expression"], true),
    part("crates/scheduler", "sync", &["sync"], false),
    part("crates/context", "switch", &["switch"], false),
    part("crates/context", "stacks", &["stack", "overflow"], false),
    part("crates/context", "thread-local storage", &["tls"], false),
    part(
        "crates/raddle",
        "select, switch, finalize; giving way",
        &["carry/switching", "carry/duties", "threads/giving_way"],
        true,
    ),
    part(
        "crates/raddle",
        "processors, activations, the monitor",
        &["carry/processor", "carry/activation", "govern/monitor", "carry/witness", "carry/guard"],
        true,
    ),
    part("crates/raddle", "whom to wake", &["carry/ready"], true),
    part("crates/raddle", "pools", &["carry/pool", "govern/follow"], true),
    part("crates/raddle", "delays and counters", &["carry/delays", "govern/info"], true),
    part("crates/raddle", "sync, and waiting in the kernel", &["sync", "threads/host", "carry/foreign"], false),
    part("crates/raddle", "descriptors and timers", &["services/io", "carry/events", "threads/time"], false),
    part("crates/raddle", "spawn, join, park, scopes", &["threads", "carry/descriptor"], false),
    part("crates/raddle", "stages", &["services/stage"], false),
    part("crates/raddle", "system calls", &["os"], false),
];

/// Where the policies are.
const POLICIES: &str = "policies/";
/// What in that folder is no policy.
const SHARED: [&str; 3] = ["mod", "common", "victims"];

/// Lines and characters of code, and the files that hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    files: usize,
    lines: usize,
    characters: usize,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.lines += other.lines;
        self.characters += other.characters;
    }
}

impl Count {
    /// Of a file, when each line that counts has so many characters.
    fn of_lines(lines: impl Iterator<Item = usize>) -> Self {
        let mut count = Self { files: 1, ..Self::default() };
        for characters in lines.filter(|characters| *characters > 0) {
            count.lines += 1;
            count.characters += characters;
        }
        count
    }

    /// Of a file of ours.
    fn of(source: &Source) -> Self {
        if !source.is_rust() {
            return linux::count(source.text.as_bytes());
        }
        let lines = source.text.lines().zip(source.comments.lines()).enumerate();
        let production = lines.filter(|(index, _)| !source.is_test_line(*index));
        Self::of_lines(production.map(|(_, (text, comment))| ink(text) - ink(comment)))
    }
}

/// Characters that are no blanks.
fn ink(line: &str) -> usize {
    line.chars().filter(|c| !c.is_whitespace()).count()
}

/// A line of the table.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    beside: bool,
    count: Count,
}

/// The rows of a table, in the order in which their names came up.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    fn add(&mut self, name: &str, beside: bool, count: Count) {
        match self.0.iter_mut().find(|row| row.name == name) {
            Some(row) => row.count += count,
            None => self.0.push(Row { name: name.to_string(), beside, count }),
        }
    }

    fn total(&self, of: impl Fn(&Row) -> bool) -> Count {
        let mut total = Count::default();
        self.0.iter().filter(|row| of(row)).for_each(|row| total += row.count);
        total
    }
}

/// A room and its parts.
struct Room {
    path: String,
    rows: Rows,
}

impl Room {
    fn total(&self) -> Count {
        self.rows.total(|_| true)
    }
}

/// The command.
pub fn run(args: &[String]) -> Outcome {
    let folder = match args {
        [] => None,
        [option, folder] if option == "--linux" => Some(folder),
        [option] if option == "--linux" => Err(Failure::usage(format!("`--linux` needs a folder; {USAGE}")))?,
        [other, ..] => Err(Failure::usage(format!("`{other}` is not understood; {USAGE}")))?,
    };
    // Asked first, so that a wrong folder is told at once.
    let theirs = folder.map(|folder| linux::read(Path::new(folder))).transpose()?;
    let tree = read_tree(&shell::root())?;
    let rooms = rooms(&tree);
    print!("{}\n{}", of_rooms(&rooms), versions::table(&tree)?);
    match theirs {
        Some(theirs) => print!("\n{}\n{}", theirs.table(), beside(&rooms, &theirs)),
        None => println!(
            "\nLinux's scheduler beside it: `cargo xtask size --linux FOLDER`, FOLDER holding Linux's sources (Debian: the package\n\
             linux-source puts an archive of them into /usr/src)."
        ),
    }
    Ok(())
}

/// The rooms of the checkout, in the order of their names, the crates before the others.
fn rooms(tree: &Tree) -> Vec<Room> {
    let packages = tree.paths.iter().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let mut rooms: Vec<Room> = packages.map(|path| Room { path: path.to_string(), rows: Rows::default() }).collect();
    rooms.sort_by_key(|room| (!room.path.starts_with("crates/"), room.path.clone()));
    for source in tree.files.iter().filter(|source| counts(source)) {
        let below = |room: &&mut Room| source.path.strip_prefix(&room.path).is_some_and(|rest| rest.starts_with('/'));
        // A room may lie within another one's folder.
        let Some(room) = rooms.iter_mut().filter(below).max_by_key(|room| room.path.len()) else { continue };
        let (name, beside) = part_of(&room.path, &source.path[room.path.len() + 1..]);
        room.rows.add(&name, beside, Count::of(source));
    }
    for room in &mut rooms {
        // What is counted beside kernel/sched first, the rest last; otherwise as in the table, then the policies.
        let place = |row: &Row| PARTS.iter().position(|part| part.room == room.path && part.name == row.name);
        room.rows.0.sort_by_key(|row| (row.name == REST, !row.beside, place(row).unwrap_or(PARTS.len())));
    }
    rooms
}

/// What no part has.
const REST: &str = "the rest";

/// The part of a file, given by its path in the room, and whether it counts beside kernel/sched.
fn part_of(room: &str, file: &str) -> (String, bool) {
    let Some(file) = file.strip_prefix("src/") else { return (REST.to_string(), false) };
    if let Some(policy) = file.strip_prefix(POLICIES).filter(|_| room == "crates/scheduler") {
        let policy = policy.split(['/', '.']).next().unwrap_or(policy);
        if !SHARED.contains(&policy) {
            return (format!("policy {policy}"), true);
        }
    }
    let fits = |part: &&Part| part.room == room && part.files.iter().any(|start| file.starts_with(start));
    PARTS.iter().find(fits).map_or((REST.to_string(), false), |part| (part.name.to_string(), part.beside))
}

/// Rust and C that is compiled into something besides tests and examples.
fn counts(source: &Source) -> bool {
    let code = [".rs", ".c", ".h"].iter().any(|end| source.path.ends_with(end));
    code && !source.path.contains("/examples/") && !source.is_test_file()
}

fn of_rooms(rooms: &[Room]) -> String {
    let mut text = heading("ours");
    let (mut crates, mut others) = (Count::default(), Count::default());
    for room in rooms {
        text += &line("", &room.path, room.total());
        if room.rows.0.len() > 1 {
            for row in &room.rows.0 {
                text += &line(if row.beside { MARK } else { "" }, &format!("  {}", row.name), row.count);
            }
        }
        *(if room.path.starts_with("crates/") { &mut crates } else { &mut others }) += room.total();
    }
    text += &line("", "all crates", crates);
    text += &line("", "programs that measure, and automation", others);
    text += &line(MARK, "counted beside kernel/sched", marked(rooms));
    text
}

fn marked(rooms: &[Room]) -> Count {
    let mut marked = Count::default();
    rooms.iter().for_each(|room| marked += room.rows.total(|row| row.beside));
    marked
}

/// What the two have in common, side by side.
fn beside(rooms: &[Room], theirs: &linux::Linux) -> String {
    let (ours, folder) = (marked(rooms), theirs.scheduler());
    let mut text = heading("side by side");
    text += &line(MARK, "ours", ours);
    text += &line("", &format!("{}: kernel/sched", theirs.version), folder);
    let times = |theirs: usize, ours: usize| theirs as f64 / ours.max(1) as f64;
    text += &format!(
        "theirs is {:.1} times ours by lines, {:.1} times by characters\n",
        times(folder.lines, ours.lines),
        times(folder.characters, ours.characters)
    );
    text
}

fn heading(what: &str) -> String {
    format!("{:<58}{:>6}{:>9}{:>12}\n", format!("  {what}"), "files", "lines", "characters")
}

fn line(mark: &str, name: &str, count: Count) -> String {
    let (lines, characters) = (grouped(count.lines), grouped(count.characters));
    format!("{:<58}{:>6}{lines:>9}{characters:>12}\n", format!("{mark:<2}{name}"), count.files)
}

/// A number with a comma before each three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> Count {
        Count::of(&Source::new(path, text))
    }

    #[test]
    fn blanks_comments_and_tests_do_not_count() {
        let text =
            "//! What.\n\n/// It.\nfn a() { // why\n    /* so */\n}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(count("crates/x/src/a.rs", text), Count { files: 1, lines: 2, characters: 7 });
    }

    #[test]
    fn what_stands_in_a_string_counts() {
        let text = "const A: &str = \"\n// one\n\ntwo\";\n";
        assert_eq!(count("crates/x/src/a.rs", text), Count { files: 1, lines: 3, characters: 23 });
    }

    #[test]
    fn our_headers_count_as_c() {
        assert_eq!(count("crates/x/include/x.h", "/* one */\nint x;\n"), Count { files: 1, lines: 1, characters: 5 });
    }

    #[test]
    fn a_file_belongs_to_the_innermost_room_and_to_one_part() {
        let tree = Tree::of(&[
            ("bench/Cargo.toml", ""),
            ("bench/src/lib.rs", "fn a() {}\n"),
            ("bench/service/Cargo.toml", ""),
            ("bench/service/src/lib.rs", "fn a() {}\nfn b() {}\n"),
            ("crates/scheduler/Cargo.toml", ""),
            ("crates/scheduler/src/new.rs", "fn a() {}\n"),
            ("crates/scheduler/src/policies/mod.rs", "fn a() {}\n"),
            ("crates/scheduler/src/policies/steal.rs", "fn a() {}\n"),
            ("crates/scheduler/src/policies/steal/search.rs", "fn a() {}\n"),
            ("crates/scheduler/tests/a.rs", "fn a() {}\n"),
            ("crates/scheduler/examples/a.rs", "fn a() {}\n"),
        ]);
        let rooms = rooms(&tree);
        let lines: Vec<(&str, usize)> = rooms.iter().map(|room| (room.path.as_str(), room.total().lines)).collect();
        assert_eq!(lines, [("crates/scheduler", 4), ("bench", 1), ("bench/service", 2)]);
        let parts: Vec<(&str, usize)> =
            rooms[0].rows.0.iter().map(|row| (row.name.as_str(), row.count.lines)).collect();
        assert_eq!(parts, [("policies: the trait, what they share", 1), ("policy steal", 2), (REST, 1)]);
        assert_eq!(marked(&rooms), Count { files: 3, lines: 3, characters: 21 });
    }

    #[test]
    fn each_part_has_files() {
        let rooms = rooms(&read_tree(&shell::root()).unwrap());
        for part in PARTS {
            let room = rooms.iter().find(|room| room.path == part.room).expect(part.room);
            assert!(room.rows.0.iter().any(|row| row.name == part.name), "{} has no {}", part.room, part.name);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([7, 123, 1_234, 1_234_567].map(grouped), ["7", "123", "1,234", "1,234,567"]);
    }

    #[test]
    fn wrong_arguments_are_told_with_the_usage() {
        for args in [&["--linux"][..], &["all"], &["--linux", "a", "b"]] {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            let failure = run(&args).unwrap_err();
            assert!(failure.status == 2 && failure.to_string().contains(USAGE), "{failure}");
        }
    }
}
