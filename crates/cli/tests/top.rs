//! `raddle top`, beside programs that run with metrics.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use std::process::{Command, Output, Stdio};

fn raddle(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    command.arg("run").args(words).env_remove("LD_PRELOAD").env_remove("RADDLE_NOTHING_SKIPPED").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text_of(output: &Output) -> String {
    text(&output.stdout)
}

/// What the runtime does is in a file while the program runs, and `raddle top` shows it.
#[test]
fn top_shows_a_program_that_runs() {
    let folder = Folder::new("run");
    let source = r#"
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
static sem_t over;
static void *body(void *argument) { sem_wait(&over); return argument; }
int main(void) {
    pthread_t thread;
    char byte;
    pthread_create(&thread, 0, body, 0);
    read(0, &byte, 1);
    sem_post(&over);
    pthread_join(thread, 0);
    return 0;
}
"#;
    let program = folder.program("waits", source, &["-w"]);
    let file = folder.0.join("waits-{pid}.prom");
    let mut command = raddle(&[&format!("--metrics={}", file.display())]);
    let mut child = command.arg("--").arg(&program).stdin(Stdio::piped()).spawn().unwrap();
    let file = folder.0.join(format!("waits-{}.prom", child.id()));
    let waits = |text: &str| text.contains("raddle_threads{state=\"waiting\"} 1\n");
    while !std::fs::read_to_string(&file).is_ok_and(|text| waits(&text)) {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let written = std::fs::read_to_string(&file).unwrap();
    // As Prometheus reads it: comments, or a name, labels and a number.
    let is_right = |line: &str| line.starts_with("# ") || line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok();
    assert!(written.lines().all(is_right) && written.contains("raddle_threads_created_total 1\n"), "{written}");
    let top = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.args(["top", "--once"]).args(words).output().unwrap()
    };
    let shown = top(&[file.to_str().unwrap()]);
    assert!(text_of(&shown).starts_with(&format!("waits ({})", child.id())), "{shown:?}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let gone = top(&[file.to_str().unwrap()]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert_eq!(top(&["/nowhere/file"]).status.code(), Some(2));
    // A place that is gone is told, and the program runs.
    let gone = folder.0.join("gone");
    std::fs::create_dir(&gone).unwrap();
    let script = format!("rmdir {}; exec {}", gone.display(), program.display());
    let mut command = raddle(&[&format!("--metrics={}/file", gone.display()), "--quiet"]);
    let output = command.args(["--", "/bin/sh", "-c", &script]).output().unwrap();
    let error = text(&output.stderr);
    assert!(output.status.success() && error.contains("no metrics") && error.contains("--metrics=FILE"), "{output:?}");
}

/// Wherever the file is, and whoever asks in another session: the process was told of it. Its name moves no cursor.
#[test]
fn top_finds_the_file_of_a_process_and_ends_with_its_reader() {
    use std::io::BufRead as _;
    let folder = Folder::new("run");
    let source = "#include <pthread.h>\n#include <unistd.h>\nstatic void *body(void *argument) { return argument; }\n\
                  int main(void) { pthread_t thread; char byte; pthread_create(&thread, 0, body, 0);\n\
                  pthread_join(thread, 0); return (int)read(0, &byte, 1); }\n";
    let program = folder.0.join("od\u{1b}\nd");
    std::fs::copy(folder.program("odd", source, &["-w"]), &program).unwrap();
    let file = folder.0.join("odd.prom");
    let mut command = raddle(&[&format!("--metrics={}", file.display())]);
    let mut child = command.arg("--").arg(&program).stdin(Stdio::piped()).spawn().unwrap();
    while !file.exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let top = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.arg("top").args(words).env("XDG_RUNTIME_DIR", &folder.0);
        command
    };
    let pid = child.id().to_string();
    let shown = top(&[&pid, "--once"]).output().unwrap();
    assert!(text_of(&shown).starts_with(&format!("od\\u{{1b}}\\nd ({pid})\n")), "{shown:?}");
    // `raddle top PID | head -n 1`.
    let mut head = top(&[&pid]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(head.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let head = head.wait_with_output().unwrap();
    assert!(head.status.success() && head.stderr.is_empty() && line.contains(&pid), "{head:?}");
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// What a hung or a hot program is asked first: which thread uses the core, and which waits for what.
#[test]
fn top_names_the_threads_that_compute_and_those_that_wait() {
    let folder = Folder::new("run");
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int over;
static void *computes(void *argument) {
    pthread_setname_np(pthread_self(), "hot loop");
    while (!over) {}
    return argument;
}
static void *waits(void *argument) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return argument;
}
int main(void) {
    char byte;
    pthread_t one, other;
    pthread_mutex_lock(&lock);
    pthread_create(&one, 0, computes, 0);
    pthread_create(&other, 0, waits, 0);
    pthread_setname_np(other, "the \"patient\"");
    read(0, &byte, 1);
    over = 1;
    pthread_mutex_unlock(&lock);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return 0;
}
"#;
    let program = folder.program("two", source, &["-w"]);
    let file = folder.0.join("two.prom");
    let mut command = raddle(&[&format!("--metrics={}", file.display()), "--processors", "2"]);
    let mut child = command.arg("--").arg(&program).stdin(Stdio::piped()).spawn().unwrap();
    let top = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        text_of(&command.args(["top", "--once"]).arg(&file).output().unwrap())
    };
    let has = |shown: &str, parts: &[&str]| shown.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    let is_told = |shown: &str| {
        has(shown, &[" %  ", "\"hot loop\""])
            && has(shown, &["    1  a pthread mutex ", " s  ", r#" "the \"patient\"""#])
    };
    let mut shown = top();
    for _ in 0..2400 {
        if is_told(&shown) {
            break;
        }
        assert!(child.try_wait().unwrap().is_none(), "{shown}");
        std::thread::sleep(std::time::Duration::from_millis(50));
        shown = top();
    }
    assert!(is_told(&shown), "{shown}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// Whoever comes without metrics hears how to have them.
#[test]
fn top_says_how_a_program_is_to_be_started() {
    let folder = Folder::new("run");
    let top = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        let output = command.arg("top").args(words).env("XDG_RUNTIME_DIR", &folder.0).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let own = std::process::id().to_string();
    for (words, status, parts) in [
        (&[][..], 1, ["no program of yours runs with metrics", "raddle run --metrics -- PROGRAM"]),
        (&[own.as_str()], 2, [own.as_str(), "start it by `raddle run --metrics -- PROGRAM`"]),
        (&["4194305"], 2, ["there is no process 4194305", ""]),
    ] {
        let (code, error) = top(words);
        assert!(code == Some(status) && parts.iter().all(|part| error.contains(part)), "{words:?}: {error}");
    }
}

/// Before the program starts: it could only go on without. A device would be replaced by a file.
#[test]
fn a_file_that_metrics_and_traces_cannot_be_put_at_is_told_before_the_program_starts() {
    let folder = Folder::new("run");
    let (absent, itself) = (folder.0.join("no/such"), folder.0.as_path());
    for option in ["--metrics=", "--trace="] {
        for file in [absent.as_path(), itself, "/dev/null".as_ref()] {
            let output = raddle(&[&format!("{option}{}", file.display()), "--", "echo", "ran"]).output().unwrap();
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(option.trim_end_matches('=')) && error.contains("name another file"), "{error}");
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn of_another_users_process_it_is_told_whose_it_is() {
    use std::os::unix::{fs::MetadataExt as _, process::CommandExt as _};
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    // Root can have a process of another user's; to others the first one is.
    let other = is_root.then(|| Command::new("sleep").arg("1000").uid(65534).gid(65534).spawn().unwrap());
    let pid = other.as_ref().map_or(1, std::process::Child::id).to_string();
    let ended = Command::new(env!("CARGO_BIN_EXE_raddle")).args(["top", &pid]).output().unwrap();
    if let Some(mut other) = other {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    let told = text(&ended.stderr);
    assert!(ended.status.code() == Some(2) || ended.status.code() == Some(1), "{:?}", ended.status);
    assert!(told.contains(&format!("process {pid} is user ")) && told.contains("`sudo -u '"), "{told}");
}
