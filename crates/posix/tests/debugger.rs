//! gdb lists lightweight threads with names and backtraces, in a process and in its core dump, and leaves the process
//! as it was.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const WAITERS: usize = 40;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gdb/raddle.py")
}

/// What gdb 13.1 says, natively too, where a program's first thread returns while it begins kernel threads: it ends
/// itself ("wait returned unexpected status 0x0"), or asks a process that is over for a thread and leaves `continue`.
const OWN_ERRORS: [&str; 2] = ["A problem internal to GDB", "Cannot find user-level thread for LWP"];

/// What gdb prints for these commands. Where that holds an error of its own, they are asked for anew.
fn gdb(arguments: &[&str], commands: &[&str]) -> String {
    const ATTEMPTS: usize = 10;
    for _ in 1..ATTEMPTS {
        let said = gdb_once(arguments, commands);
        if !OWN_ERRORS.iter().any(|error| said.contains(error)) {
            return said;
        }
    }
    gdb_once(arguments, commands)
}

fn gdb_once(arguments: &[&str], commands: &[&str]) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-iex", "set debuginfod enabled off", "-x"]).arg(script()).args(arguments);
    commands.iter().for_each(|command| {
        gdb.args(["-ex", command]);
    });
    let ended = common::run(gdb);
    format!("{}\n{}", ended.out, ended.err)
}

/// The lines of a thread's backtrace.
fn backtrace<'a>(text: &'a str, name: &str) -> &'a str {
    let head = format!("\"{name}\" (");
    let (_, rest) = text.split_once(&head).unwrap_or_else(|| panic!("no backtrace of {name}: {text}"));
    rest.split("\nLightweight thread").next().unwrap()
}

/// All threads are listed by name, each with its own function in its backtrace.
fn check(text: &str) {
    for (name, state, function) in (0..WAITERS)
        .map(|i| (format!("waiter-{i}"), "parked", "waiting_for_work"))
        .chain([("computer".into(), "running", "computing_on")])
    {
        let lines = text.lines().filter(|line| line.contains(&format!(" {name} ")) && line.contains(function));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 1, "{name}: {lines:?}\n{text}");
        assert!(lines[0].contains(state), "{name}: {lines:?}");
        let stack = backtrace(text, &name);
        assert_eq!(stack.matches(&format!("{function} (")).count(), 1, "{name}: {stack}");
        let first = stack.lines().find(|line| line.starts_with('#')).unwrap_or_default();
        assert!(first.starts_with("#0 "), "{name}: {stack}");
    }
    assert!(text.contains("lightweight threads"), "{text}");
}

const SHOW: [&str; 2] = ["info raddle-threads", "raddle apply all bt"];

/// The program with all its threads where they stay, in a folder of its own, with core dumps allowed where that can be.
fn start(program: &Path, folder: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited 2>/dev/null; LD_PRELOAD=$1 exec $0"]).arg(program).arg(common::library());
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // The last one to count itself is off its processor a moment later.
    let pid = child.id().to_string();
    common::until("a list in which all wait", || {
        let text = gdb(&["-p", &pid], &["info raddle-threads", "detach"]);
        let waits = |line: &&str| line.contains(" waiter-") && line.contains("parked");
        (text.lines().filter(waits).count() == WAITERS).then_some(())
    });
    (child, out)
}

#[test]
fn gdb_shows_lightweight_threads_live_and_in_a_core_dump() {
    if common::lacks(&[("gdb", "gdb")]) {
        return;
    }
    let program = common::compile("debugger.c", &[]);
    let folder = program.with_extension("folder");
    std::fs::create_dir_all(&folder).unwrap();
    let (mut child, mut out) = start(&program, &folder);
    let pid = child.id().to_string();
    let more = ["raddle bt 7000", "raddle thread 0", "up", "raddle thread", "raddle bt x", "detach"];
    let live = gdb(&["-p", &pid], &[&SHOW[..], &more[..]].concat());
    check(&live);
    assert!(live.contains("There is no lightweight thread 7000"), "{live}");
    assert!(live.contains("number is needed"), "{live}");
    // It goes on as if nothing had been.
    drop(child.stdin.take());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "done\n");
    assert!(child.wait().unwrap().success());

    let (mut child, _out) = start(&program, &folder);
    assert!(Command::new("sh").args(["-c", &format!("kill -ABRT {}", child.id())]).status().unwrap().success());
    child.wait().unwrap();
    // Where the kernel puts it, and whether, is the machine's setting.
    match std::fs::read_dir(&folder).unwrap().flatten().next() {
        Some(core) => check(&gdb(&[program.to_str().unwrap(), "-c", core.path().to_str().unwrap()], &SHOW)),
        None => {
            let line = "skipped: gdb on a core dump: the kernel leaves none in the program's folder\n";
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_file(program).unwrap();
}

/// Breakpoints, and signals of the runtime's own, which are no reason to stop.
#[test]
fn a_program_that_gdb_starts_stops_in_a_thread_where_it_is_to_and_goes_on() {
    if common::lacks(&[("gdb", "gdb")]) {
        return;
    }
    let program = common::compile("pipes.c", &["-O0"]);
    for processors in ["1", "3"] {
        let preload = format!("set environment LD_PRELOAD {}", common::library().display());
        let bound = format!("set environment RADDLE_PROCESSORS {processors}");
        let start = [preload.as_str(), &bound, "set startup-with-shell off", "break asks", "run", "backtrace 1"];
        let go_on = ["info locals", "delete", "continue", "info signals SIG63"];
        let said = gdb(&[program.to_str().unwrap()], &[&start[..], &go_on[..]].concat());
        assert!(said.contains("hit Breakpoint 1, asks (") && said.contains("#0  asks ("), "{said}");
        assert!(said.contains("pair = ") && said.contains("12750\n") && said.contains("exited normally"), "{said}");
        assert!(!said.contains("received signal"), "{said}");
        let line = said.lines().find(|line| line.starts_with("SIG63")).unwrap_or_default();
        assert_eq!(line.split_whitespace().skip(1).take(3).collect::<Vec<_>>(), ["No", "No", "Yes"], "{said}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_program_without_the_library_is_told_so() {
    if common::lacks(&[("gdb", "gdb")]) {
        return;
    }
    let said = gdb(&[], &["info raddle-threads"]);
    assert!(said.contains("There is no process"), "{said}");
}
