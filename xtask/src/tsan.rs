//! `cargo xtask tsan`: data races in queues, scheduler and runtime, as ThreadSanitizer sees them.
//!
//! Queues and scheduler: the standard library is not instrumented (that needs its sources). It is linked dynamically,
//! and accesses made inside of it are ignored, because its synchronisation cannot be seen either; what our packages and
//! their tests do is seen, through the standard library's generics too. The list of suppressions is empty and stays so.
//! ThreadSanitizer does not understand fences: what stands on one is left to the interleaving tests.
//!
//! A false report that remains: the end of `std::thread::scope` waits inside the standard library, so what a scoped
//! thread read looks concurrent with what its spawner writes afterwards. Tests join their scoped threads by handle,
//! which is seen.
//!
//! The runtime (`crates/raddle`) is built with `--cfg raddle_tsan`, which tells the sanitizer of each switch (the file
//! `tsan.rs` of `crates/context`), and with a nightly toolchain that builds the standard library, instrumented, from
//! its sources: there is nothing that is ignored then. A test of its own sees to it that a race between lightweight
//! threads is reported.

use crate::model::CRATES;
use crate::shell::{self, Failure, Outcome, cargo, root};
use std::process::Command;

/// The target that ThreadSanitizer is built for; naming it keeps the flags away from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

const FLAGS: &str = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -Cprefer-dynamic";

const RUNTIME_FLAGS: &str = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg raddle_tsan";

/// The tests of the runtime that are run. Not those whose subject is not to be had here: stack overflows and signals,
/// which the sanitizer handles itself, its own limit of some 8,000 threads, forks, code that is read as instructions.
const RUNTIME_TESTS: [&str; 11] = [
    "sanitizer",
    "threads",
    "joins",
    "policies",
    "priorities",
    "kernel_threads",
    "blocking",
    "io",
    "delays",
    "follow",
    "review_soundness",
];

/// A program with a race: a word is written and read with nothing but relaxed atomics in between.
const CANARY: &str = r#"
use std::{cell::UnsafeCell, sync::Arc, sync::atomic::{AtomicBool, Ordering::Relaxed}};
struct Shared(UnsafeCell<u64>, AtomicBool);
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}
fn main() {
    let ours = Arc::new(Shared(UnsafeCell::new(0), AtomicBool::new(false)));
    let theirs = ours.clone();
    let writer = std::thread::spawn(move || {
        unsafe { *theirs.0.get() = 7 };
        theirs.1.store(true, Relaxed);
    });
    while !ours.1.load(Relaxed) {
        std::thread::yield_now();
    }
    println!("{}", unsafe { *ours.0.get() });
    writer.join().unwrap();
}
"#;

/// Runs the tests with an empty list of suppressions; further arguments go to the test programs.
pub fn run(args: &[String]) -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Failure::usage(format!("ThreadSanitizer is set up for {TARGET} only")));
    }
    let suppressions = root().join("xtask/tsan.supp");
    let options = format!("halt_on_error=1 ignore_noninstrumented_modules=1 suppressions={}", suppressions.display());
    sees_a_race(&options)?;
    println!("tsan: the canary's race is seen");
    let mut failures = Vec::new();
    for (package, _) in CRATES {
        let mut test = cargo(&["test", "--no-fail-fast", "-p", package, "--lib", "--tests", "--target", TARGET, "--"]);
        test.args(args).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS).env("TSAN_OPTIONS", &options);
        failures.extend(shell::run(&mut test).err().map(|failure| failure.to_string()));
    }
    failures.extend(runtime(args, &suppressions).err().map(|failure| failure.to_string()));
    if failures.is_empty() { Ok(()) } else { Err(Failure::failed(failures.join("; "))) }
}

fn runtime(args: &[String], suppressions: &std::path::Path) -> Outcome {
    let mut test = Command::new("cargo");
    test.args(["+nightly", "test", "--no-fail-fast", "-Zbuild-std", "--target", TARGET, "-p", "raddle", "--lib"]);
    test.args(RUNTIME_TESTS.iter().flat_map(|name| ["--test", name])).arg("--").args(args).current_dir(root());
    let options = format!("halt_on_error=1 suppressions={}", suppressions.display());
    shell::run(test.env("RUSTFLAGS", RUNTIME_FLAGS).env("TSAN_OPTIONS", options)).map_err(|failure| {
        Failure::failed(format!(
            "{failure} (the runtime's tests need a nightly toolchain with the component rust-src: \
             rustup toolchain install nightly --component rust-src)"
        ))
    })
}

/// With these very flags and options a race must be reported, otherwise silence would mean nothing.
fn sees_a_race(options: &str) -> Outcome {
    let folder = std::env::temp_dir().join(format!("raddle-tsan-{}", std::process::id()));
    let judged = build_canary(&folder).and_then(|()| {
        let mut canary = Command::new(folder.join("canary"));
        canary.env("TSAN_OPTIONS", options);
        let output = canary.env("LD_LIBRARY_PATH", library_path()?).output();
        let output = output.map_err(|error| Failure::failed(format!("the canary does not start: {error}")))?;
        match String::from_utf8_lossy(&output.stderr).contains("ThreadSanitizer: data race") {
            true => Ok(()),
            false => Err(Failure::failed("ThreadSanitizer does not see the canary's race; its silence means nothing")),
        }
    });
    // What cannot be removed stays in the folder for temporary files; nothing depends on it.
    let _ = std::fs::remove_dir_all(&folder);
    judged
}

fn build_canary(folder: &std::path::Path) -> Outcome {
    let source = folder.join("canary.rs");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&source, CANARY));
    written.map_err(|error| Failure::failed(format!("{}: {error}", source.display())))?;
    let mut build = Command::new("rustc");
    build.args(["--edition", "2024", "--target", TARGET]).args(FLAGS.split_whitespace()).arg(&source);
    shell::run(build.arg("-o").arg(folder.join("canary")).env("RUSTC_BOOTSTRAP", "1"))
}

/// Where the dynamic standard library lies.
fn library_path() -> Outcome<String> {
    let path = shell::output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]))?;
    Ok(path.trim().to_string())
}
