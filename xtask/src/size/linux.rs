//! Linux's scheduler: which of its files belong to it, and how C is counted.
//!
//! Since 3.3 it is the folder kernel/sched; before, kernel/sched.c with what it includes (kernel/sched_*). The headers
//! outside, of which include/linux/sched.h describes a whole process, are told apart. The sources are not ours to keep:
//! whoever runs this has them.

use super::{Count, Rows, heading, ink, line};
use crate::shell::{Failure, Outcome};
use std::path::{Path, PathBuf};

/// Headers that belong to the scheduler: files, and folders with all that is in them.
const HEADERS: [&str; 6] = [
    "include/linux/sched.h",
    "include/linux/sched",
    "include/linux/sched_clock.h",
    "include/uapi/linux/sched.h",
    "include/uapi/linux/sched",
    "include/trace/events/sched.h",
];

/// A Linux that was counted.
pub struct Linux {
    /// As in `Linux 6.12.3`.
    pub version: String,
    files: Rows,
    headers: Rows,
}

impl Linux {
    /// The scheduler without the headers outside.
    pub fn scheduler(&self) -> Count {
        self.files.total(|_| true)
    }

    /// File by file, the largest first.
    pub fn table(&self) -> String {
        let mut text = heading(&self.version);
        for row in &self.files.0 {
            text += &line("", &row.name, row.count);
        }
        text += &line("", "kernel/sched, all", self.scheduler());
        text += &line("", "its headers in include", self.headers.total(|_| true));
        text
    }
}

/// Counts the scheduler in Linux's sources in `folder`.
pub fn read(folder: &Path) -> Outcome<Linux> {
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(Failure::usage(format!(
            "`{shown}` is no folder; give the one that Linux's sources were unpacked into"
        )));
    }
    let mut files = Vec::new();
    if folder.join("kernel/sched").is_dir() {
        below(folder, "kernel/sched", &mut files)?;
    } else if folder.join("kernel/sched.c").is_file() {
        let mut all = Vec::new();
        below(folder, "kernel", &mut all)?;
        files.extend(all.into_iter().filter(|file| file == "kernel/sched.c" || file.starts_with("kernel/sched_")));
    }
    if files.is_empty() {
        return Err(Failure::usage(format!(
            "`{shown}` holds neither kernel/sched nor kernel/sched.c with code in it; give the folder of Linux's sources that \
             has kernel and include in it (Debian: unpack the archive that the package linux-source puts into /usr/src)"
        )));
    }
    let mut headers = Vec::new();
    for header in HEADERS {
        match folder.join(header) {
            path if path.is_file() => headers.push(header.to_string()),
            path if path.is_dir() => below(folder, header, &mut headers)?,
            _ => {}
        }
    }
    Ok(Linux { version: version(folder), files: counted(folder, &files)?, headers: counted(folder, &headers)? })
}

/// What the Makefile says, as far as it is there.
fn version(folder: &Path) -> String {
    let makefile = std::fs::read_to_string(folder.join("Makefile")).unwrap_or_default();
    let value = |name: &str| {
        let line = makefile.lines().find(|line| line.split('=').next().is_some_and(|left| left.trim() == name));
        line.and_then(|line| line.split_once('=')).map(|(_, value)| value.trim().to_string())
    };
    match (value("VERSION"), value("PATCHLEVEL"), value("SUBLEVEL")) {
        (Some(version), Some(level), Some(sublevel)) => {
            format!("Linux {version}.{level}.{sublevel}{}", value("EXTRAVERSION").unwrap_or_default())
        }
        _ => "Linux of a version that no Makefile tells".to_string(),
    }
}

/// Adds the .c and .h files below `inner`, as paths from `folder`.
fn below(folder: &Path, inner: &str, files: &mut Vec<String>) -> Outcome {
    let path = folder.join(inner);
    let unreadable = |error| Failure::failed(format!("`{}` cannot be read: {error}", path.display()));
    for entry in std::fs::read_dir(&path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = format!("{inner}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            below(folder, &name, files)?;
        } else if name.ends_with(".c") || name.ends_with(".h") {
            files.push(name);
        }
    }
    Ok(())
}

fn counted(folder: &Path, files: &[String]) -> Outcome<Rows> {
    let mut rows = Rows::default();
    for file in files {
        let path: PathBuf = folder.join(file);
        let text = std::fs::read(&path)
            .map_err(|error| Failure::failed(format!("`{}` cannot be read: {error}", path.display())))?;
        rows.add(file, false, count(&text));
    }
    rows.0.sort_by(|a, b| b.count.lines.cmp(&a.count.lines).then_with(|| a.name.cmp(&b.name)));
    Ok(rows)
}

/// Lines of C with something on them that is neither blank nor comment.
pub fn count(text: &[u8]) -> Count {
    Count::of_lines(String::from_utf8_lossy(&without_comments(text)).lines().map(ink))
}

/// `text` with its comments blanked, line breaks kept.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let end = at
            + match &text[at..] {
                [b'/', b'*', rest @ ..] => {
                    2 + rest.windows(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 2)
                }
                [b'/', b'/', ..] => to_end_of_line(&text[at..]),
                [b'"' | b'\'', ..] => {
                    at += literal(&text[at..]);
                    continue;
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
        code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    code
}

/// The length of a comment that ends with its line, unless the line break is escaped.
fn to_end_of_line(rest: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            b'\n' if !escaped => return at,
            // A carriage return may stand between the two.
            b'\r' => {}
            byte => escaped = *byte == b'\\',
        }
    }
    rest.len()
}

/// The length of a string or character. None goes beyond its line: an apostrophe may stand alone behind `#error`.
fn literal(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'\n' => return at,
            byte if byte == rest[0] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        String::from_utf8(without_comments(text.as_bytes())).unwrap()
    }

    #[test]
    fn comments_of_both_kinds_are_no_code() {
        assert_eq!(code("a; /* b */ c; // d\ne;"), "a;         c;     \ne;");
        assert_eq!(code("/* a\n * b\n */ c"), "    \n    \n    c");
        assert_eq!(code("/* a /* b */ c */"), "             c */", "comments of C do not nest");
    }

    #[test]
    fn a_comment_without_an_end_goes_to_the_end() {
        assert_eq!(code("a /* b\nc"), "a     \n ");
        assert_eq!(code("a /*/ b"), "a      ", "one star cannot open and close");
    }

    #[test]
    fn what_stands_in_literals_is_code() {
        for text in ["\"/* a */ // b\"", "\"\\\"/*\" a", "'\"' + '/' '*' + '\\'' + 1", "\"a\\\n// b\""] {
            assert_eq!(code(text), text);
        }
    }

    #[test]
    fn an_apostrophe_alone_ends_with_its_line() {
        assert_eq!(code("#error don't\n// a\nb"), "#error don't\n    \nb");
    }

    #[test]
    fn an_escaped_line_break_goes_on_with_the_comment() {
        assert_eq!(code("// a \\\nb\nc"), "      \n \nc");
        assert_eq!(count(b"// a \\\r\nb\r\nc\r\n"), Count { files: 1, lines: 1, characters: 1 });
    }

    #[test]
    fn lines_of_code_are_counted() {
        let text = "/* a */\n#include <b.h>\n\n\t\nint c(void) /* d */\n{\n\treturn 0; // e\n}\n";
        assert_eq!(count(text.as_bytes()), Count { files: 1, lines: 5, characters: 13 + 10 + 1 + 8 + 1 });
        assert_eq!(count(b"int \xe9;\n").lines, 1, "old files are not all UTF-8");
    }

    /// A folder of its own, gone at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn of(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = Self(std::env::temp_dir().join(format!("raddle-size-{name}-{}", std::process::id())));
            for (path, text) in files {
                let path = folder.0.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            folder
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_folder_of_today_and_its_headers_are_counted() {
        let folder = Folder::of(
            "new",
            &[
                ("Makefile", "# it\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 2\nEXTRAVERSION = -rc3\nNAME = A\n"),
                ("kernel/sched/core.c", "int a;\nint b;\n"),
                ("kernel/sched/ext/ext.c", "int a;\n"),
                ("kernel/sched/Makefile", "obj-y += core.o\n"),
                ("kernel/fork.c", "int a;\n"),
                ("include/linux/sched.h", "int a;\n"),
                ("include/linux/sched/rt.h", "int a;\n"),
                ("include/linux/mm.h", "int a;\n"),
            ],
        );
        let linux = read(&folder.0).unwrap();
        assert_eq!(linux.version, "Linux 6.1.2-rc3");
        assert_eq!((linux.scheduler().files, linux.scheduler().lines), (2, 3));
        assert_eq!(linux.headers.total(|_| true).lines, 2);
        assert!(linux.table().contains("kernel/sched/core.c"));
    }

    #[test]
    fn the_files_of_before_are_counted() {
        let files = [
            ("kernel/sched.c", "int a;\n"),
            ("kernel/sched_fair.c", "int b;\n"),
            ("kernel/sched_stats.h", "int c;\n"),
            ("kernel/fork.c", "int d;\n"),
            ("kernel/time/sched_clock.c", "int e;\n"),
        ];
        let folder = Folder::of("old", &files);
        let linux = read(&folder.0).unwrap();
        assert_eq!(linux.scheduler().lines, 3);
        assert_eq!(linux.version, "Linux of a version that no Makefile tells");
    }

    #[test]
    fn a_folder_without_a_scheduler_is_told_with_what_to_do() {
        let folder = Folder::of("none", &[("kernel/fork.c", "int a;\n")]);
        let told = |path: &Path| {
            let failure = read(path).err().unwrap();
            assert_eq!(failure.status, 2);
            failure.to_string()
        };
        let none = told(&folder.0);
        assert!(none.contains("neither kernel/sched nor kernel/sched.c") && none.contains("linux-source"), "{none}");
        let nowhere = told(&folder.0.join("nowhere"));
        assert!(nowhere.contains("is no folder") && nowhere.contains("unpacked"), "{nowhere}");
    }
}
