//! `cargo xtask conformance`: test suites of others, natively and under `raddle run`.
//!
//! `--suite FOLDER` is the Open POSIX Test Suite, part of the Linux Test Project (testcases/open_posix_testsuite
//! there); `--glibc FOLDER` the thread tests in the C library's own source. Neither is ours to keep: they are fetched
//! by whoever runs this. Each test is a program that says by its exit status how it went; here it runs twice, as it is
//! and taken over. A test that ends differently is run again, both ways: what then agrees once is noted as unsteady.
//! The tables in docs/conformance.md keep the reasons that were written into them; a difference that is new stands
//! there without one until somebody has looked.

mod glibc;
mod table;

use crate::shell::{self, Failure, Outcome, cargo};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask conformance --suite FOLDER | --glibc FOLDER [--only PREFIX]... [--jobs N] [--raddle PROGRAM] \
     [--no-table]";
/// Threads, semaphores, timers and clocks.
const PARTS: [&str; 5] = ["pthread_", "sem_", "timer_", "clock", "nanosleep"];
/// A test that takes longer hangs. Some sleep for half a minute.
const ENDS_WITHIN: Duration = Duration::from_secs(100);
/// How often a test that ends differently, and not the same way twice, is run in all.
const TRIES: usize = 4;

/// How a test went, as the suite counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Pass,
    Fail,
    /// It could not find out.
    Unresolved,
    Unsupported,
    Untested,
    /// It did not end.
    Hangs,
    /// A signal ended it, or it has a status that the suite does not know.
    Crashes,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Pass => "passes",
            Verdict::Fail => "fails",
            Verdict::Unresolved => "is unresolved",
            Verdict::Unsupported => "is unsupported",
            Verdict::Untested => "is untested",
            Verdict::Hangs => "hangs",
            Verdict::Crashes => "crashes",
        })
    }
}

/// One test, both ways; several runs where the first ended differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// As in `pthread_create/1-1`.
    pub name: String,
    pub native: Vec<Verdict>,
    pub drop_in: Vec<Verdict>,
}

/// What was built, and what could not be, with the reason.
pub type Built = (Vec<Test>, Vec<(String, String)>);

/// A program that was built, and what it is to be started with.
#[derive(Clone, Debug)]
pub struct Test {
    /// As in `pthread_create/1-1`.
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// Whose tests they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    OpenPosix,
    Glibc,
}

struct Options {
    suite: Suite,
    folder: PathBuf,
    only: Vec<String>,
    jobs: usize,
    raddle: Option<PathBuf>,
    table: bool,
}

/// The command.
pub fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    let interfaces = options.folder.join("conformance/interfaces");
    let (found, want) = match options.suite {
        Suite::OpenPosix => (
            interfaces.is_dir(),
            "no folder conformance/interfaces in it; fetch the Linux Test Project and name its testcases/open_posix_testsuite",
        ),
        Suite::Glibc => (
            glibc::is_a_tree(&options.folder),
            "not the C library's source; unpack /usr/src/glibc/glibc-2.36.tar.xz of Debian's package glibc-source, and name the folder glibc-2.36",
        ),
    };
    if !found {
        return Err(Failure::usage(format!("{}: {want}", options.folder.display())));
    }
    let raddle = raddle(&options)?;
    let out = target().join(match options.suite {
        Suite::OpenPosix => "conformance",
        Suite::Glibc => "conformance-glibc",
    });
    std::fs::create_dir_all(&out).map_err(|error| Failure::failed(format!("{}: {error}", out.display())))?;
    let (programs, unbuilt) = match options.suite {
        Suite::OpenPosix => open_posix(&options, &interfaces, &out)?,
        Suite::Glibc => glibc::build(&options.folder, &options.only, &out, options.jobs)?,
    };
    println!("conformance: {} tests", programs.len());
    for (name, why) in &unbuilt {
        println!("conformance: {name} cannot be built: {why}");
    }
    let done = AtomicUsize::new(0);
    let one = |test: &Test| {
        let ran = both_ways(test, &raddle);
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        if ran.native != ran.drop_in {
            println!(
                "[{number}/{}] {}: natively {:?}, taken over {:?}",
                programs.len(),
                ran.name,
                ran.native,
                ran.drop_in
            );
        }
        ran
    };
    // Tests of one interface one after the other: some share names that the whole system knows (sem_init/3-2 and 3-3
    // one memory object: natively 3 of 200 runs beside each other hung).
    let beside = |a: &Test, b: &Test| options.suite == Suite::OpenPosix && interface(&a.name) == interface(&b.name);
    let groups: Vec<_> = programs.chunk_by(beside).collect();
    let ran = in_parallel(&groups, options.jobs, |group| group.iter().map(one).collect::<Vec<_>>()).concat();
    let page = shell::root().join("docs/conformance.md");
    let before = std::fs::read_to_string(&page).unwrap_or_default();
    let summary = table::Summary::of(&ran);
    println!("conformance: {}", summary.line());
    if options.table {
        std::fs::write(&page, table::page(&before, options.suite, &ran, unbuilt.len()))
            .map_err(|error| Failure::failed(format!("{}: {error}", page.display())))?;
        println!("conformance: wrote {}", page.display());
    }
    Ok(())
}

/// Builds the tests of the Open POSIX Test Suite; beside them, what cannot be built, and why.
fn open_posix(options: &Options, interfaces: &Path, out: &Path) -> Outcome<Built> {
    let all = PARTS.map(String::from);
    let sources = sources(interfaces, if options.only.is_empty() { &all } else { &options.only })?;
    let built = in_parallel(&sources, options.jobs, |(name, source)| build(&options.folder, name, source, out));
    let (mut programs, mut unbuilt) = (Vec::new(), Vec::new());
    for ((name, _), built) in sources.iter().zip(built) {
        match built {
            Ok(program) => programs.push(Test { name: name.clone(), program, arguments: Vec::new() }),
            Err(why) => unbuilt.push((name.clone(), why)),
        }
    }
    Ok((programs, unbuilt))
}

fn parse(args: &[String]) -> Outcome<Options> {
    let mut options = Options {
        suite: Suite::OpenPosix,
        folder: PathBuf::new(),
        only: Vec::new(),
        jobs: 2,
        raddle: None,
        table: true,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| Failure::usage(USAGE));
        match arg.as_str() {
            "--suite" | "--glibc" if !options.folder.as_os_str().is_empty() => return Err(Failure::usage(USAGE)),
            "--suite" => options.folder = value()?.into(),
            "--glibc" => (options.suite, options.folder) = (Suite::Glibc, value()?.into()),
            "--only" => options.only.push(value()?),
            "--jobs" => options.jobs = value()?.parse().map_err(|_| Failure::usage(USAGE))?,
            "--raddle" => options.raddle = Some(value()?.into()),
            "--no-table" => options.table = false,
            _ => return Err(Failure::usage(USAGE)),
        }
    }
    if options.folder.as_os_str().is_empty() || options.jobs == 0 {
        return Err(Failure::usage(USAGE));
    }
    // A part of the suite makes no table of the whole.
    options.table &= options.only.is_empty();
    Ok(options)
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), PathBuf::from)
}

/// The command `raddle`: the one that was named, or the release build.
fn raddle(options: &Options) -> Outcome<PathBuf> {
    if let Some(named) = &options.raddle {
        // The tests run in folders of their own.
        return named.canonicalize().map_err(|error| Failure::usage(format!("--raddle {}: {error}", named.display())));
    }
    shell::run(&mut cargo(&["build", "--release", "-p", "raddle-cli", "-p", "raddle-drop-in"]))?;
    Ok(target().join("release/raddle"))
}

/// The programs of the suite whose names, such as `sem_wait/1-1`, begin with one of `only`; sorted.
fn sources(interfaces: &Path, only: &[String]) -> Outcome<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let entries = |folder: &Path| {
        let read = std::fs::read_dir(folder).map_err(|e| Failure::failed(format!("{}: {e}", folder.display())))?;
        Ok::<Vec<PathBuf>, Failure>(read.filter_map(|entry| Some(entry.ok()?.path())).collect())
    };
    for folder in entries(interfaces)? {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        if !folder.is_dir() {
            continue;
        }
        for source in entries(&folder)? {
            let Some(stem) = source.file_stem().and_then(|stem| stem.to_str()) else { continue };
            let test = format!("{name}/{stem}");
            let wanted = only.iter().any(|prefix| test.starts_with(prefix.as_str()));
            let program = source.extension().is_some_and(|extension| extension == "c") && is_numbered(stem);
            if wanted && program && !sets_the_clock(&source) {
                found.push((test, source.clone()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `12-3`: what is called otherwise is a helper, or for building only.
fn is_numbered(stem: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    stem.split_once('-').is_some_and(|(first, second)| number(first) && number(second))
}

/// As root it would set the machine's clock, under the feet of everybody else.
fn sets_the_clock(source: &Path) -> bool {
    std::fs::read_to_string(source).is_ok_and(|text| text.contains("clock_settime("))
}

fn build(suite: &Path, name: &str, source: &Path, out: &Path) -> Result<PathBuf, String> {
    let program = out.join(name.replace('/', "_"));
    let folder = source.parent().unwrap_or(suite);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-w", "-std=gnu99", "-pthread", "-o"]).arg(&program).arg(source);
    compiler.arg(suite.join("lib/common.c")).arg("-I").arg(suite.join("include")).arg("-I").arg(folder);
    compiler.args(["-lrt", "-lm"]);
    let output = compiler.output().map_err(|error| format!("cc: {error}"))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("cc failed").to_string()),
    }
}

fn both_ways(test: &Test, raddle: &Path) -> Ran {
    let mut ran = Ran { name: test.name.clone(), native: Vec::new(), drop_in: Vec::new() };
    let (mut native, mut taken_over) = (Command::new(&test.program), Command::new(raddle));
    native.args(&test.arguments);
    taken_over.args(["run", "--"]).arg(&test.program).args(&test.arguments);
    for attempt in 0..TRIES {
        ran.native.push(verdict(&mut native));
        ran.drop_in.push(verdict(&mut taken_over));
        // Equal at once, or different in the same way twice.
        let settled = |verdicts: &[Verdict]| verdicts.windows(2).all(|pair| pair[0] == pair[1]);
        if attempt == 0 && ran.native == ran.drop_in || attempt == 1 && settled(&ran.native) && settled(&ran.drop_in) {
            break;
        }
    }
    ran
}

/// Runs one test in a process group and a folder of its own, to its end or to the end of patience.
fn verdict(command: &mut Command) -> Verdict {
    use std::os::unix::process::CommandExt;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("raddle-conformance-{}-{number}", std::process::id()));
    let _ = std::fs::create_dir_all(&folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).current_dir(&folder);
    let verdict = match command.spawn() {
        Err(_) => Verdict::Crashes,
        Ok(mut child) => {
            let start = Instant::now();
            let status = loop {
                match child.try_wait() {
                    Ok(Some(status)) => break Some(status),
                    Ok(None) if start.elapsed() < ENDS_WITHIN => std::thread::sleep(Duration::from_millis(10)),
                    _ => break None,
                }
            };
            // What it left behind goes with it.
            let end = format!("kill -KILL -{}", child.id());
            let _ = Command::new("sh").args(["-c", &end]).stderr(Stdio::null()).status();
            let _ = child.wait();
            status.map_or(Verdict::Hangs, |status| match status.code() {
                Some(0) => Verdict::Pass,
                Some(1) => Verdict::Fail,
                Some(2) => Verdict::Unresolved,
                Some(4) => Verdict::Unsupported,
                Some(5) => Verdict::Untested,
                // The C library's tests.
                Some(77) => Verdict::Unsupported,
                _ => Verdict::Crashes,
            })
        }
    };
    let _ = std::fs::remove_dir_all(&folder);
    verdict
}

/// What a test tests: the folder that it lies in.
fn interface(name: &str) -> &str {
    name.split_once('/').map_or(name, |(interface, _)| interface)
}

/// Does `work` for all `items` on so many kernel threads; answers in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    results.lock().unwrap_or_else(|error| error.into_inner()).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|error| error.into_inner());
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_the_suites() {
        let shell = |script: &str| verdict(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("exit 0"), Verdict::Pass);
        assert_eq!(shell("exit 2"), Verdict::Unresolved);
        assert_eq!(shell("kill -ABRT $$"), Verdict::Crashes);
    }

    #[test]
    fn tests_are_told_from_helpers() {
        assert!(is_numbered("1-1") && is_numbered("12-3"));
        assert!(!is_numbered("1-buildonly") && !is_numbered("testfrmw") && !is_numbered("1-"));
    }

    #[test]
    fn work_in_parallel_keeps_the_order() {
        assert_eq!(in_parallel(&[1, 2, 3, 4, 5], 3, |n| n * 2), [2, 4, 6, 8, 10]);
    }

    #[test]
    fn a_suite_is_needed() {
        assert_eq!(run(&[]).unwrap_err().status, 2);
        for arguments in [&["--suite", "/no/where"][..], &["--glibc", "/no/where"], &["--suite", "/", "--glibc", "/"]] {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(run(&arguments).unwrap_err().status, 2);
        }
    }
}
