//! `cargo xtask glibc`: the same programs under the C libraries of other Debian releases.
//!
//! Each release is a tree made by debootstrap, entered with its own view of `/proc`. Programs are built on this
//! machine. For a tree whose C library is older than this machine's they are linked against the tree's, since a program
//! does not start under an older library than it was linked against; otherwise they are what a user would carry over.
//!
//! Before glibc 2.34 there are no lightweight threads: there the programs must say so in one line and work on kernel
//! threads.

use crate::shell::{self, Failure, Outcome, cargo};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's name for each release.
const RELEASES: [&str; 4] = ["bullseye", "bookworm", "trixie", "forky"];
/// One script serves all releases; that of a new one is missing on an old system.
const SCRIPT: &str = "/usr/share/debootstrap/scripts/sid";
/// In the trees: the tests build libraries.
const PACKAGES: &str = "gcc,libc6-dev";
/// Major and minor number of the first library that is supported.
const SUPPORTED: (u32, u32) = (2, 34);
/// What a program says where it is not.
const REFUSED: &str = "raddle: lightweight threads are not supported by this C library (glibc ";

/// A program, its package, what kind of target it is, and the arguments it is run with.
type Program = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// Where lightweight threads are supported.
const PROGRAMS: [Program; 8] = [
    ("switch", "raddle-context", "--test", &[]),
    ("stack", "raddle-context", "--test", &[]),
    ("tls", "raddle-context", "--test", &[]),
    ("overflow", "raddle-context", "--test", &[]),
    ("threads", "raddle", "--test", &[]),
    ("signals_fork", "raddle", "--test", &[]),
    ("fallback", "raddle", "--test", &[]),
    ("yield_only", "raddle", "--example", &["1000", "2", "200000"]),
];

/// Where they are not.
const WITHOUT: [Program; 3] = [
    ("tls", "raddle-context", "--test", &["--exact", "what_is_missing_is_one_clear_line"]),
    ("fallback", "raddle", "--test", &[]),
    ("yield_only", "raddle", "--example", &["100", "2", "10000"]),
];

/// Makes the trees that are missing, runs the programs in each, prints a table.
pub fn run(args: &[String]) -> Outcome {
    let (folder, releases) = options(args)?;
    if shell::output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err(Failure::usage(
            "other C libraries are tried in trees of their own (debootstrap, chroot): run as root",
        ));
    }
    for tool in ["debootstrap", "unshare", "chroot", "getconf"] {
        if !shell::in_path(tool) {
            return Err(Failure::usage(format!("`{tool}` is missing; `cargo xtask setup --all` installs it")));
        }
    }
    let own = version(&mut Command::new("getconf"))?;
    let mut table = String::from("| release | glibc | linked against | programs | outcome |\n|---|---|---|---|---|\n");
    let mut failed = Vec::new();
    for release in releases {
        let tree = folder.join(release);
        make_tree(release, &tree)?;
        let theirs = version(Command::new("chroot").arg(&tree).arg("getconf"))?;
        let (supported, older) = (theirs >= SUPPORTED, theirs < own);
        let programs: &[Program] = if supported { &PROGRAMS } else { &WITHOUT };
        let built = build(programs, older.then_some((release, tree.as_path())))?;
        let outcomes: Vec<Outcome<String>> = programs
            .iter()
            .zip(&built)
            .map(|(program, file)| {
                println!("\n== {release} (glibc {}.{}): {}", theirs.0, theirs.1, program.0);
                run_inside(&tree, program, file, supported)
                    .inspect(|text| println!("{text}"))
                    .inspect_err(|why| println!("{why}"))
            })
            .collect();
        let passed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let verdict = match (passed == outcomes.len(), supported) {
            (true, true) => "pass",
            (true, false) => "refused with one line; pass on kernel threads",
            (false, _) => "FAIL",
        };
        if passed < outcomes.len() {
            failed.push(release);
        }
        let names: Vec<&str> = programs.iter().map(|program| program.0).collect();
        let linked = if older { theirs } else { own };
        let _ = writeln!(
            table,
            "| {release} | {}.{} | {}.{} | {passed} of {}: {} | {verdict} |",
            theirs.0,
            theirs.1,
            linked.0,
            linked.1,
            outcomes.len(),
            names.join(", ")
        );
    }
    println!("\n{table}");
    if failed.is_empty() { Ok(()) } else { Err(Failure::failed(format!("failed under: {}", failed.join(", ")))) }
}

/// The folder of the trees and the releases to try.
fn options(args: &[String]) -> Outcome<(PathBuf, Vec<&'static str>)> {
    let mut folder = std::env::temp_dir().join("raddle-glibc");
    let mut releases = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == "--trees" {
            folder = rest.next().ok_or_else(|| Failure::usage("--trees needs a folder"))?.into();
        } else {
            let known = RELEASES.iter().find(|release| *release == arg);
            releases.push(*known.ok_or_else(|| {
                Failure::usage(format!(
                    "`{arg}` is no release known here: glibc [--trees FOLDER] [{}]",
                    RELEASES.join("|")
                ))
            })?);
        }
    }
    if releases.is_empty() {
        releases = RELEASES.to_vec();
    }
    Ok((folder, releases))
}

/// What `getconf GNU_LIBC_VERSION` says.
fn version(getconf: &mut Command) -> Outcome<(u32, u32)> {
    let text = shell::output(getconf.arg("GNU_LIBC_VERSION"))?;
    parse_version(&text).ok_or_else(|| Failure::failed(format!("`{}` is no version of glibc", text.trim())))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The tree of a release; one that is whole has a compiler.
fn make_tree(release: &str, tree: &Path) -> Outcome {
    if tree.join("usr/bin/cc").symlink_metadata().is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(tree).map_err(|error| Failure::failed(format!("{}: {error}", tree.display())))?;
    let include = format!("--include={PACKAGES}");
    let mut make = Command::new("debootstrap");
    shell::run(make.args(["--variant=minbase", &include, release]).arg(tree).args([&*mirror()?, SCRIPT]))
}

/// The mirror that this machine's own packages come from.
fn mirror() -> Outcome<String> {
    let lists = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let texts = lists.chain(["/etc/apt/sources.list".into()]).filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| mirrors(&text)).next().ok_or_else(|| {
        Failure::failed(
            "no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d: add one to make the trees from",
        )
    })
}

/// The addresses of Debian archives in a list of sources, of either form.
fn mirrors(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    let words = lines.flat_map(str::split_whitespace);
    words
        .filter(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .map(str::to_owned)
        .collect()
}

/// Links of a tree that begin at its root are made relative: the linker, which works outside, follows them too.
fn mend_links(tree: &Path) -> std::io::Result<()> {
    for folder in [format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH), "lib64".into(), "lib".into()] {
        // Where `lib64` is a link itself, the way to the root begins where that leads.
        let Ok(folder) = tree.join(folder).canonicalize() else { continue };
        let up = "../".repeat(folder.strip_prefix(tree.canonicalize()?).map_or(0, |below| below.components().count()));
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if let Ok(target) = std::fs::read_link(&path)
                && let Ok(below) = target.strip_prefix("/")
            {
                std::fs::remove_file(&path)?;
                std::os::unix::fs::symlink(Path::new(&up).join(below), &path)?;
            }
        }
    }
    Ok(())
}

/// Builds the programs, linked against a tree's C library where one is given, in a folder of their own then.
fn build(programs: &[Program], against: Option<(&str, &Path)>) -> Outcome<Vec<PathBuf>> {
    let mut files = vec![PathBuf::new(); programs.len()];
    // `cargo test` would make a test of an example.
    let ways = [("raddle-context", "--test"), ("raddle", "--test"), ("raddle", "--example")];
    for (package, kind) in ways {
        let how: &[&str] = if kind == "--test" { &["test", "--no-run"] } else { &["build"] };
        let mut build = cargo(how);
        build.args(["--message-format=json", "-p", package]);
        let ours = |program: &Program| (program.1, program.2) == (package, kind);
        for program in programs.iter().filter(|program| ours(program)) {
            build.args([kind, program.0]);
        }
        if let Some((release, tree)) = against {
            mend_links(tree).map_err(|error| Failure::failed(format!("{}: {error}", tree.display())))?;
            // Naming the target keeps the flags away from build scripts, which run here. The start files have to fit
            // the library.
            let (arch, root) = (std::env::consts::ARCH, tree.display());
            build.args(["--target", &format!("{arch}-unknown-linux-gnu")]);
            build.arg("--target-dir").arg(shell::root().join("target").join(format!("glibc-{release}")));
            build.env("RUSTFLAGS", format!("-Clink-arg=--sysroot={root} -Clink-arg=-B{root}/usr/lib/{arch}-linux-gnu"));
        }
        for line in shell::output(&mut build)?.lines() {
            let Some(file) = executable(line) else { continue };
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for (program, place) in programs.iter().zip(&mut files) {
                // Tests carry a hash behind their name, and examples that are built as such do not.
                let stem = name.rsplit_once('-').map_or(name.as_str(), |(stem, _)| stem);
                if ours(program) && program.0 == stem {
                    *place = file.clone();
                }
            }
        }
    }
    match programs.iter().zip(&files).find(|(_, file)| file.as_os_str().is_empty()) {
        Some((program, _)) => Err(Failure::failed(format!("cargo does not say where it put `{}`", program.0))),
        None => Ok(files),
    }
}

/// The program that one of cargo's messages tells of.
fn executable(message: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once(r#""executable":""#)?;
    Some(PathBuf::from(rest.split_once('"')?.0))
}

/// Runs a program inside a tree; its last line.
fn run_inside(tree: &Path, program: &Program, file: &Path, supported: bool) -> Outcome<String> {
    let inside = tree.join("tmp").join(program.0);
    std::fs::copy(file, &inside).map_err(|error| Failure::failed(format!("{}: {error}", inside.display())))?;
    let mut run = Command::new("unshare");
    run.args(["--mount", "--pid", "--fork"]).arg(format!("--mount-proc={}", tree.join("proc").display()));
    run.arg("chroot").arg(tree).arg(format!("/tmp/{}", program.0)).args(program.3);
    let output = run.output().map_err(|error| Failure::usage(format!("unshare: {error}")))?;
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(Failure::failed(format!("{}: {}\n{told}\n{said}", program.0, output.status)));
    }
    // An example has no judge of its own.
    let refusals = said.matches(REFUSED).count();
    if program.2 == "--example" && refusals != usize::from(!supported) {
        return Err(Failure::failed(format!(
            "{} says {refusals} times that threads are not lightweight: {said}",
            program.0
        )));
    }
    Ok(told.lines().rfind(|line| !line.is_empty()).unwrap_or("nothing said").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_lists_of_either_form() {
        let new = "Types: deb\n# http://old/debian\nURIs: http://mirror/debian\nSuites: bookworm\n";
        assert_eq!(mirrors(new), ["http://mirror/debian"]);
        assert_eq!(
            mirrors("deb [signed-by=/k] http://m/debian bookworm main\n# deb http://n/debian x\n"),
            ["http://m/debian"]
        );
        assert!(mirrors("URIs: http://mirror/debian-security\n").is_empty());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_version("glibc 2.31\n"), Some((2, 31)));
        assert!(parse_version("glibc 2.4").unwrap() < SUPPORTED && parse_version("glibc 2.100").unwrap() > SUPPORTED);
        assert_eq!(parse_version("musl 1.2"), None);
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let message = r#"{"reason":"compiler-artifact","executable":"/x/deps/tls-0123","fresh":true}"#;
        assert_eq!(executable(message), Some(PathBuf::from("/x/deps/tls-0123")));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#), None);
    }

    #[test]
    fn unknown_releases_are_refused() {
        let args = |args: &[&str]| options(&args.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(args(&["slink"]).unwrap_err().status, 2);
        assert_eq!(args(&["--trees"]).unwrap_err().status, 2);
        assert_eq!(args(&["--trees", "/x", "trixie"]).unwrap(), (PathBuf::from("/x"), vec!["trixie"]));
        assert_eq!(args(&[]).unwrap().1, RELEASES);
    }
}
