//! A command that is ended alone, by its number, leaves nobody behind.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts it with signals as a terminal would: a shell's background job ignores SIGINT.
fn starts(command: &Command) -> Child {
    let mut with_defaults = Command::new("env");
    with_defaults.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        with_defaults.env(name, value.unwrap());
    }
    let command = &mut with_defaults;
    command.env_remove("LD_PRELOAD").env_remove("RADDLE_NOTHING_SKIPPED").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// What writes its number into this file is there until the command is ended, by this signal.
fn goes_with_it(mut command: Child, file: &Path, signal: &str) {
    let child: u32 = until("the child tells its number", || std::fs::read_to_string(file).ok()?.trim().parse().ok());
    let process = format!("/proc/{child}");
    assert!(Path::new(&process).exists());
    assert!(Command::new("sh").args(["-c", &format!("kill {signal} {}", command.id())]).status().unwrap().success());
    let status = until("the command ends", || command.try_wait().unwrap());
    assert!(!status.success());
    // Whoever inherits it may be late to bury it.
    until("the child ends", || {
        let state = std::fs::read_to_string(format!("{process}/stat")).unwrap_or(") Z".into());
        state.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z')).then_some(())
    });
}

const TELLS: &str = "echo $$ > \"$FILE.new\"; mv \"$FILE.new\" \"$FILE\"; exec sleep 1000";

#[test]
fn what_bench_measures_ends_with_it() {
    for signal in ["-INT", "-TERM", "-KILL"] {
        let folder = Folder::new("ends");
        let file = folder.0.join("number");
        let program = folder.file("raddle-bench-raddle", format!("#!/bin/sh\n{TELLS}\n"));
        assert!(Command::new("chmod").arg("+x").arg(program).status().unwrap().success());
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.args(["bench", "create", "--runtimes", "raddle", "--programs"]).arg(&folder.0);
        goes_with_it(starts(command.env("FILE", &file)), &file, signal);
    }
}

#[test]
fn what_is_compared_ends_with_it() {
    let folder = Folder::new("ends");
    let file = folder.0.join("number");
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    command.args(["run", "--compare", "--", "/bin/sh", "-c", TELLS]);
    goes_with_it(starts(command.env("FILE", &file)), &file, "-KILL");
}

/// On a full disk, or with a reader that is gone: the program runs, and the status is as it would be.
#[test]
fn a_remark_that_cannot_be_written_ends_nothing() {
    let folder = Folder::new("ends");
    let script = folder.file("script", "#!/bin/sh\necho ran\n");
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    let script = script.to_str().unwrap();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let closed = || std::io::pipe().unwrap().1;
    for (words, status, printed) in [
        (&["run", script][..], 0, "ran\n"),
        (&["run", "--compare=1", "--quiet", script], 0, "ran\nran\n"),
        (&["run", "/nowhere/program"], 127, ""),
        (&["bench", "yeild"], 2, ""),
        (&["rnu"], 2, ""),
    ] {
        for errors in [Stdio::from(full()), Stdio::from(closed())] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
            command.args(words).env_remove("LD_PRELOAD").stdin(Stdio::null()).stderr(errors);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(status), "{words:?}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{words:?}");
        }
    }
}

/// What was asked for and cannot be written is an error; that a reader has gone is none.
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let closed = std::io::pipe().unwrap().1;
    for words in [&["--help"][..], &["check", "--help"], &["--version"]] {
        for (output, status) in
            [(Stdio::from(full.try_clone().unwrap()), 2), (Stdio::from(closed.try_clone().unwrap()), 0)]
        {
            let output = Command::new(env!("CARGO_BIN_EXE_raddle")).args(words).stdout(output).output().unwrap();
            assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
        }
    }
}
