//! Where the library's own memory comes from. Allocators that a program brings in the C library's place: it gives the
//! same result as natively, on one, two and four processors; and so does one that has no memory left.
//!
//! `cargo xtask setup` installs them. Their locks are pthread mutexes (jemalloc) and futexes (tcmalloc), which this
//! library takes over.

mod common;
#[path = "../../../bench/src/lacks.rs"]
mod lacks;

use lacks::lacks;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The library.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| common::built(&["raddle-drop-in"]).join("libraddle_drop_in.so"))
}

/// Compiles the program once for each test.
fn compile(source: &str, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let built =
        Command::new("cc").args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("cc (Debian package gcc) is needed for this test").success());
    program
}

#[track_caller]
fn run(program: &Path, preload: &str, processors: &str) -> String {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", preload).env("RADDLE_PROCESSORS", processors).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn with_allocator(name: &str) {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    let wanted = format!("{}/{name}", folders[0]);
    let Some(allocator) = found else {
        assert!(lacks(&[(&wanted, "libjemalloc2, libtcmalloc-minimal4")]));
        return;
    };
    let program = compile("../posix/tests/c/lib_malloc.c", name);
    let expected = run(&program, "", "1");
    let both = format!("{}:{}", library().display(), allocator.display());
    // What is looked for happens in one run of five or so.
    for round in 0..8 {
        for processors in ["1", "2", "4"] {
            assert_eq!(run(&program, &both, processors), expected, "round {round}, {processors} processors");
        }
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn jemalloc() {
    with_allocator("libjemalloc.so.2");
}

#[test]
fn tcmalloc() {
    with_allocator("libtcmalloc_minimal.so.4");
}

/// One processor: all waited for a kernel thread whose memory they kept, and the program for ever.
#[test]
fn one_of_the_programs_own() {
    let program = compile("tests/c/own_allocator.c", "own");
    for processors in ["1", "2", "4"] {
        let told = run(&program, &library().display().to_string(), processors);
        assert_eq!(told, "all have got memory\n", "{processors} processors");
    }
    std::fs::remove_file(program).unwrap();
}

/// Waits that natively need neither memory nor descriptors may need them here: when a table has to grow, or to be told.
#[test]
fn what_needs_nothing_natively_goes_on_without_anything() {
    let program = compile("tests/c/without.c", "without");
    let library = library().display().to_string();
    for what in ["memory", "descriptors", "limits"] {
        let told = |settings: &[(&str, &str)]| {
            let mut command = Command::new(&program);
            command.arg(what).envs(settings.iter().copied()).stdin(Stdio::null());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{command:?}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let expected = told(&[]);
        assert_eq!(expected.lines().count(), 40, "{what}: {expected}");
        let ways = [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "4"), ("RADDLE_KERNEL_THREADS", "1")];
        for way in ways {
            assert_eq!(told(&[("LD_PRELOAD", &library), way]), expected, "{what}, {way:?}");
        }
    }
    std::fs::remove_file(program).unwrap();
}
