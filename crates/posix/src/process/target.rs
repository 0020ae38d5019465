//! Whether a file that `exec` was asked for can be taken over. `raddle run` refuses what cannot before anything starts;
//! here it runs natively, with a line that says so.
//!
//! Looks without allocating, since a program may call `exec` in a handler; the command's own check, which allocates,
//! says more.

use crate::os::{c, system_call};
use std::ffi::{CStr, c_char, c_int};

/// What a look reads of a file's beginning, and of its notes. Program headers that lie behind are not found: then the
/// file counts as one that cannot be taken over.
pub(super) const READ: usize = 4096;
/// The kernel follows so many `#!` lines.
const MOST_SCRIPTS: usize = 5;
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const INTERPRETER: u32 = 3;
const NOTES: u32 = 4;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Fit,
    /// It cannot be taken over, for that reason.
    Unfit(&'static CStr),
    /// There is no such file, or it cannot be read: what `exec` says of it is for the program.
    Unknown,
}

struct File(usize);

impl File {
    /// # Safety
    /// `path` is a C string, or an address that the kernel refuses.
    unsafe fn open(folder: c_int, path: *const c_char) -> Option<File> {
        let flags = (c::O_RDONLY | c::O_CLOEXEC | c::O_NOCTTY | c::O_NONBLOCK) as usize;
        // SAFETY: the caller's path; the kernel checks it.
        let file = unsafe { system_call(c::SYS_openat, [folder as usize, path.addr(), flags, 0, 0, 0]) };
        (file >= 0).then_some(File(file as usize))
    }

    /// The part that could be read.
    fn read<'a>(&self, room: &'a mut [u8], from: u64) -> &'a [u8] {
        // SAFETY: room for so many bytes.
        let count =
            unsafe { system_call(c::SYS_pread64, [self.0, room.as_mut_ptr().addr(), room.len(), from as usize, 0, 0]) };
        &room[..count.max(0) as usize]
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: its own descriptor, which nobody else knows.
        unsafe { system_call(c::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Looks at the file behind a path, through `#!` lines.
///
/// # Safety
/// `path` is a C string, or an address that the kernel refuses.
pub(super) unsafe fn of_path(folder: c_int, path: *const c_char) -> Target {
    let mut room = [0; READ];
    // SAFETY: a C string, or an address that the kernel refuses.
    let Some(mut file) = (unsafe { File::open(folder, path) }) else { return Target::Unknown };
    for _ in 0..MOST_SCRIPTS {
        let start = file.read(&mut room, 0);
        let Some(line) = start.strip_prefix(b"#!") else { return program(&file, start) };
        let mut name = [0; 256];
        let words = line.split(|byte| b" \t\n\0".contains(byte));
        let Some(word) = words.into_iter().find(|word| !word.is_empty()).filter(|word| word.len() < name.len()) else {
            return Target::Unknown;
        };
        name[..word.len()].copy_from_slice(word);
        // SAFETY: zeroes follow the name.
        let Some(interpreter) = (unsafe { File::open(c::AT_FDCWD, name.as_ptr().cast()) }) else {
            return Target::Unknown;
        };
        file = interpreter;
    }
    Target::Unknown
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A program's loader has to be glibc's, and it must not be Go's.
fn program(file: &File, start: &[u8]) -> Target {
    if start.len() < HEADER || start[..4] != *b"\x7fELF" {
        return Target::Unknown;
    }
    if start[4] != 2 || number(start, 18, 2) != Some(u64::from(MACHINE)) {
        return Target::Unfit(c"a program for another architecture");
    }
    let first = number(start, 32, 8).unwrap_or(0) as usize;
    let count = number(start, 56, 2).unwrap_or(0) as usize;
    let mut loader = None;
    for segment in 0..count {
        let at = |offset: usize, length| number(start, first.checked_add(segment * SEGMENT + offset)?, length);
        let (Some(kind), Some(from), Some(size)) = (at(0, 4), at(8, 8), at(32, 8)) else {
            return Target::Unfit(c"a program whose headers lie where they are not looked for");
        };
        let mut room = [0; READ];
        let length = (size as usize).min(READ);
        if kind as u32 == INTERPRETER {
            let path = file.read(&mut room[..length], from);
            let path = path.strip_suffix(b"\0").unwrap_or(path);
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
            loader = Some(name.starts_with(b"ld-linux") || name.starts_with(b"ld64.so"));
        } else if kind as u32 == NOTES && is_gos(file.read(&mut room[..length], from)) {
            return Target::Unfit(c"a Go program, which has lightweight threads of its own");
        }
    }
    match loader {
        Some(true) => Target::Fit,
        Some(false) => Target::Unfit(c"a program whose loader is not glibc's"),
        None => Target::Unfit(c"statically linked"),
    }
}

/// Whether one of the notes is Go's.
fn is_gos(notes: &[u8]) -> bool {
    let mut rest = notes;
    while let (Some(name), Some(content)) = (number(rest, 0, 4), number(rest, 4, 4)) {
        if name == 4 && rest.get(12..16) == Some(b"Go\0\0") {
            return true;
        }
        let padded = |length: u64| (length as usize).div_ceil(4).saturating_mul(4);
        let Some(next) = rest.get(12usize.saturating_add(padded(name)).saturating_add(padded(content))..) else {
            break;
        };
        rest = next;
    }
    false
}

/// A path as `execvp` finds it in the program's `PATH`, in `room`; `name` itself if it holds a slash.
///
/// # Safety
/// `name` is a C string, and `list` one or null.
pub(super) unsafe fn in_path(name: *const c_char, list: *const c_char, room: &mut [u8; READ]) -> *const c_char {
    // SAFETY: the caller's C strings.
    let (word, list) =
        unsafe { (CStr::from_ptr(name).to_bytes(), (!list.is_null()).then(|| CStr::from_ptr(list).to_bytes())) };
    if word.contains(&b'/') || word.is_empty() {
        return name;
    }
    for folder in list.unwrap_or(b"/bin:/usr/bin").split(|&byte| byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let length = folder.len() + 1 + word.len();
        if length >= READ {
            continue;
        }
        room[..folder.len()].copy_from_slice(folder);
        room[folder.len()] = b'/';
        room[folder.len() + 1..length].copy_from_slice(word);
        room[length] = 0;
        let path = room.as_ptr();
        // SAFETY: a C string.
        let may =
            unsafe { system_call(c::SYS_faccessat, [c::AT_FDCWD as usize, path.addr(), c::X_OK as usize, 0, 0, 0]) };
        if may == 0 {
            return path.cast();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn of(path: &str) -> Target {
        let path = CString::new(path).unwrap();
        // SAFETY: a C string.
        unsafe { of_path(c::AT_FDCWD, path.as_ptr()) }
    }

    #[test]
    fn programs_and_scripts_are_told_apart_from_what_is_none() {
        assert_eq!(of("/bin/sh"), Target::Fit);
        assert_eq!(of("/nowhere"), Target::Unknown);
        assert_eq!(of("/proc/self/stat"), Target::Unknown);
        let script = std::env::temp_dir().join(format!("raddle-target-{}", std::process::id()));
        std::fs::write(&script, "#! /bin/sh -e\n").unwrap();
        assert_eq!(of(script.to_str().unwrap()), Target::Fit);
        std::fs::write(&script, "#!").unwrap();
        assert_eq!(of(script.to_str().unwrap()), Target::Unknown);
        // A program's beginning, without the rest.
        std::fs::write(&script, &std::fs::read("/bin/sh").unwrap()[..100]).unwrap();
        assert!(matches!(of(script.to_str().unwrap()), Target::Unfit(_)));
        std::fs::remove_file(script).unwrap();
    }

    #[test]
    fn gos_note_is_found_behind_others() {
        let note = |name: &[u8; 4], content: &[u8]| {
            let lengths = [4, content.len() as u32, 4].map(u32::to_le_bytes).concat();
            [&lengths[..], name, content].concat()
        };
        let gnu = note(b"GNU\0", b"12345678");
        assert!(!is_gos(&gnu) && !is_gos(b"") && !is_gos(&[0xff; 40]));
        assert!(is_gos(&[gnu, note(b"Go\0\0", b"abcd")].concat()));
    }

    #[test]
    fn a_name_is_sought_in_the_path() {
        let mut room = [0; READ];
        let mut find = |name: &CStr, list: &CStr| {
            // SAFETY: C strings.
            unsafe { CStr::from_ptr(in_path(name.as_ptr(), list.as_ptr(), &mut room)).to_owned() }
        };
        assert_eq!(find(c"sh", c"/nowhere:/bin"), CString::from(c"/bin/sh"));
        assert_eq!(find(c"./sh", c"/bin"), CString::from(c"./sh"));
        assert_eq!(find(c"nothing-of-the-kind", c"/bin"), CString::from(c"nothing-of-the-kind"));
    }
}
