//! Which frames of a stack are the program's own.
//!
//! Names do not tell them apart: a release knows inlined functions by their last part only (`switch`, `park`), and so
//! may a program call its own. Where the runtime is a library of its own, a frame's address says whose it is. In a
//! program that is linked with it, the file of its source does, and the name where no file is known.

use std::backtrace::Backtrace;
use std::ops::Range;

/// Where the runtime's code lies, if that is not in the program's own file. Looked up once for each dump.
pub(super) struct Library(Vec<Range<usize>>);

impl Library {
    pub fn find() -> Library {
        Library(crate::os::own_library(Library::find as *const () as usize))
    }
}

/// A line for each function of the program, with its place below; all functions, if none is the program's.
pub(super) fn own_frames(stack: &Backtrace, library: &Library) -> String {
    chosen(&stack.to_string(), &format!("{stack:#}"), |frame| whose(frame, &library.0))
}

/// A frame as the long form of a stack tells of it.
struct Frame<'a> {
    address: usize,
    name: &'a str,
    file: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The runtime's, or the standard library's.
    Ours,
    Programs,
    /// As its neighbours'.
    Unknown,
}

fn whose(frame: &Frame, library: &[Range<usize>]) -> Whose {
    let is_std = frame.file.is_some_and(|file| file.starts_with("/rustc/"));
    if is_std || library.iter().any(|part| part.contains(&frame.address)) {
        return Whose::Ours;
    }
    if !library.is_empty() {
        return Whose::Programs;
    }
    let name = frame.name.trim_start_matches(['<', '&']);
    // The crate's name stands before `::`, or before its hash in brackets.
    let krate = name.split([':', '[', '<', ' ']).next().unwrap_or_default();
    let is_krate = name[krate.len()..].starts_with(['[', ':']);
    let is_named_so = is_krate && (["raddle", "std", "core", "alloc"].contains(&krate) || krate.starts_with("raddle_"))
        || ["__rust", "rust_"].iter().any(|start| name.starts_with(start));
    let is_ours = is_named_so || frame.file.is_some_and(is_our_source);
    match (is_ours, frame.file) {
        (true, _) => Whose::Ours,
        (false, Some(_)) => Whose::Programs,
        (false, None) => Whose::Unknown,
    }
}

/// Below the folder in which this package lies with its kin.
fn is_our_source(file: &str) -> bool {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some((kin, file)) = own.parent().zip(Some(std::path::Path::new(file))) else { return false };
    let Ok(below) = file.strip_prefix(kin) else { return false };
    let mut parts = below.iter().filter_map(|part| part.to_str());
    // In a registry's folder all packages lie side by side.
    let is_kin = |package: &str| own.ends_with("raddle") || package.starts_with("raddle");
    parts.next().is_some_and(is_kin) && parts.next() == Some("src")
}

/// The number of a frame, and what follows on it.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let (number, rest) = line.trim_start().split_once(": ")?;
    Some((number.parse().ok()?, rest))
}

/// The frames of the short form of which `whose` says so by the long form. The former leaves out what captured the
/// stack, and counts anew behind that; neither counts the end, which has no address, in the same way.
fn chosen(short: &str, long: &str, whose: impl Fn(&Frame) -> Whose) -> String {
    let mut frames: Vec<(u32, Frame)> = Vec::new();
    for line in long.lines() {
        if let Some((number, rest)) = numbered(line) {
            let (address, name) = rest.trim_start().split_once(" - ").unwrap_or(("", rest));
            let address = usize::from_str_radix(address.trim_start_matches("0x"), 16).unwrap_or(0);
            frames.push((number, Frame { address, name, file: None }));
        } else if let (Some((_, frame)), Some(place)) = (frames.last_mut(), line.trim_start().strip_prefix("at ")) {
            frame.file = Some(place.trim_end_matches(|c: char| c == ':' || c.is_ascii_digit()));
        }
    }
    let mut owners: Vec<Whose> = frames.iter().map(|(_, frame)| whose(frame)).collect();
    for at in 0..owners.len() {
        if owners[at] == Whose::Unknown {
            let before = at > 0 && owners[at - 1] == Whose::Ours;
            let after = owners[at..].iter().find(|owner| **owner != Whose::Unknown) == Some(&Whose::Ours);
            owners[at] = if before && after { Whose::Ours } else { Whose::Programs };
        }
    }
    let last_of_long = frames.iter().filter(|(_, frame)| frame.address != 0).map(|(number, _)| *number).max();
    let last_of_short = short.lines().filter_map(numbered).map(|(number, _)| number).max();
    let left_out = last_of_long.zip(last_of_short).map_or(0, |(long, short)| long.saturating_sub(short));
    let is_programs = |number: u32| {
        let number = number + left_out;
        frames.iter().zip(&owners).any(|(frame, owner)| frame.0 == number && *owner == Whose::Programs)
    };
    let (mut own, mut keeps) = (String::new(), false);
    for line in short.lines() {
        if let Some((number, _)) = numbered(line) {
            keeps = is_programs(number);
        }
        if keeps {
            own.push_str(line);
            own.push('\n');
        }
    }
    if own.is_empty() { short.into() } else { own.trim_end().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms of a stack of these frames.
    fn forms(frames: &[(usize, &str, &str)]) -> (String, String) {
        let mut short = String::new();
        let mut long = String::from("   0:     0x5 - std[e2]::trace\n   1:     0x5 - std[e2]::capture\n");
        for (number, (address, name, file)) in frames.iter().enumerate() {
            short += &format!("{number:4}: {name}\n");
            long += &format!("{:4}: {address:#18x} - {name}\n", number + 2);
            if !file.is_empty() {
                short += &format!("             at {file}:7:1\n");
                long += &format!("                               at {file}:7:1\n");
            }
        }
        long += &format!("{:4}:                0x0 - <unknown>\n", frames.len() + 2);
        (short, long)
    }

    fn names(frames: &[(usize, &str, &str)], library: &[Range<usize>]) -> String {
        let (short, long) = forms(frames);
        let own = chosen(&short, &long, |frame| whose(frame, library));
        let names: Vec<_> = own.lines().filter_map(numbered).map(|(_, name)| name).collect();
        names.join(" ")
    }

    #[test]
    fn in_a_librarys_file_addresses_tell() {
        let frames = [
            (0x1010, "call_once<fn()>", "/rustc/5980/library/core/src/ops/function.rs"),
            (0x1020, "switch", "./raddle/crates/context/src/switch.rs"),
            (0x1030, "park", ""),
            (0x5000, "park", ""),
            (0x5010, "serve", "./serve.c"),
            (0x1040, "begin", ""),
        ];
        assert_eq!(names(&frames, &[0x1000..0x2000, 0x8000..0x9000]), "park serve");
        let (short, long) = forms(&frames);
        let own = chosen(&short, &long, |frame| whose(frame, std::slice::from_ref(&(0x1000..0x2000))));
        assert!(own.ends_with("   4: serve\n             at ./serve.c:7:1"), "{own}");
    }

    #[test]
    fn in_the_programs_file_sources_and_names_tell() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src/govern/dump.rs");
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dump.rs");
        let frames = [
            (1, "<std[e28293b1aa0f68bd]::backtrace::Backtrace>::create", ""),
            (2, "visitor", here),
            (3, "park", ""),
            (4, "<raddle_posix::X>::run", ""),
            (5, "raddled::own", ""),
            (6, "serve", tests),
            (7, "storey::walk", ""),
            (8, "std::rt::lang_start", ""),
            (9, "main", ""),
        ];
        assert_eq!(names(&frames, &[]), "raddled::own serve storey::walk main");
        assert_eq!(names(&[(1, "std::a", ""), (2, "raddle::b", "")], &[]), "std::a raddle::b");
    }

    /// The standard library's two forms, as they are.
    #[test]
    fn a_frame_is_found_in_both_forms() {
        let stack = Backtrace::force_capture();
        let is_this = |frame: &Frame| match frame.name.contains("a_frame_is_found_in_both_forms") {
            true => Whose::Programs,
            false => Whose::Ours,
        };
        let own = chosen(&stack.to_string(), &format!("{stack:#}"), is_this);
        let frames: Vec<_> = own.lines().filter_map(numbered).collect();
        assert!(!frames.is_empty() && frames.iter().all(|(_, name)| name.contains("a_frame_is_found")), "{own}");
    }
}
