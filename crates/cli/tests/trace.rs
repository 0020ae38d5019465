//! `raddle run --trace` and `raddle trace` as a user meets them.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A ring of named threads, one that reads from a pipe, and one that blocks in the kernel where nobody tells us,
/// until another one writes. After it, by the first word: nothing more, `fork`, `exec` (once), or `hang`.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn, unseen[2], seen[2], asked[2], answered[2];
static void *member(void *argument) {
    long me = (long)argument;
    char name[16];
    snprintf(name, sizeof name, "member \"%ld\"", me);
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != me) pthread_cond_wait(&turned, &mutex);
        turn = (turn + 1) % 4;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}
static void *blocks(void *argument) {
    char byte;
    long got;
    write(seen[1], "x", 1);
#if defined __x86_64__
    __asm__ volatile("syscall" : "=a"(got) : "a"(0L), "D"((long)unseen[0]), "S"(&byte), "d"(1L) : "rcx", "r11", "memory");
#else
    got = read(unseen[0], &byte, 1);
#endif
    return got == 1 ? argument : 0;
}
static void *writes(void *argument) {
    char byte;
    read(seen[0], &byte, 1);
    write(unseen[1], "x", 1);
    return argument;
}
/* The answer cannot be there before it is waited for. */
static void *asks(void *argument) {
    char byte;
    for (int i = 0; i < 50; i++) write(asked[1], "x", 1), read(answered[0], &byte, 1);
    return argument;
}
static void *answers(void *argument) {
    char byte;
    for (int i = 0; i < 50; i++) read(asked[0], &byte, 1), write(answered[1], "x", 1);
    return argument;
}
int main(int count, char **words) {
    const char *then = count > 1 ? words[1] : "";
    pthread_t threads[8];
    pipe(unseen), pipe(seen), pipe(asked), pipe(answered);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, member, (void *)i);
    pthread_create(&threads[4], 0, blocks, 0);
    pthread_create(&threads[5], 0, writes, 0);
    pthread_create(&threads[6], 0, asks, 0);
    pthread_create(&threads[7], 0, answers, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    if (!strcmp(then, "fork")) {
        if (fork() == 0) {
            pthread_create(&threads[0], 0, writes, 0);
            write(seen[1], "x", 1);
            pthread_join(threads[0], 0);
            exit(0);
        }
        wait(0);
    }
    if (!strcmp(then, "exec")) execv(words[0], (char *[]){words[0], "done", 0});
    puts("done");
    fflush(stdout);
    if (!strcmp(then, "hang")) pause();
    return 0;
}
"#;

impl Folder {
    fn names(&self) -> BTreeSet<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("program")).collect()
    }
}

fn raddle(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    command.args(words);
    command
}

fn run(folder: &Folder, options: &[&str], program: &Path, then: &str) -> Output {
    let trace = folder.0.join("t.json");
    let mut command = raddle(&["run", "--trace"]);
    command.arg(trace).args(options).arg("--").arg(program).arg(then).output().unwrap()
}

/// Group and number.
type Track = (u64, u64);
/// From, to, what.
type Span = (f64, f64, String);

/// A trace, once its shape was looked at: no two spans of a track overlap, each track has a name, arrows go forward
/// from a thread that ran to one that then begins to run.
struct Trace {
    spans: BTreeMap<Track, Vec<Span>>,
    names: BTreeMap<Track, String>,
    arrows: usize,
    overwritten: u64,
}

const PROCESSORS: u64 = 1;
const THREADS: u64 = 2;

impl Trace {
    fn read(path: &Path) -> Trace {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let overwritten = all["otherData"]["earlier_events_overwritten"].as_u64().unwrap();
        let mut trace = Trace { spans: BTreeMap::new(), names: BTreeMap::new(), arrows: 0, overwritten };
        let mut arrows: BTreeMap<u64, Vec<(Track, Span)>> = BTreeMap::new();
        for event in all["traceEvents"].as_array().unwrap() {
            let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            let (phase, name) = (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap().to_string());
            match phase {
                "M" if name == "thread_name" => {
                    trace.names.insert(track, event["args"]["name"].as_str().unwrap().into());
                }
                "M" => {}
                "X" => {
                    let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
                    assert!(start >= 0.0 && length > 0.0, "{event}");
                    trace.spans.entry(track).or_default().push((start, start + length, name));
                }
                "s" | "f" => {
                    let at = event["ts"].as_f64().unwrap();
                    arrows.entry(event["id"].as_u64().unwrap()).or_default().push((track, (at, at, phase.into())));
                }
                other => panic!("a phase {other}"),
            }
        }
        // Times have a thousandth of a microsecond, sums of them an error that is smaller.
        const SAME: f64 = 1e-4;
        for (track, spans) in &mut trace.spans {
            spans.sort_by(|a, b| a.0.total_cmp(&b.0));
            let apart = |pair: &[Span]| pair[0].1 <= pair[1].0 + SAME;
            assert_eq!(spans.windows(2).find(|pair| !apart(pair)), None, "{track:?}");
            assert!(trace.names.contains_key(track), "{track:?}");
        }
        for ends in arrows.values() {
            let [(from, (left, _, first)), (to, (came, _, second))] = &ends[..] else { panic!("{ends:?}") };
            assert!(first == "s" && second == "f" && left <= came && from.0 == THREADS && to.0 == THREADS, "{ends:?}");
            let runs_from = |(start, ..): &&Span| (start - came).abs() < SAME;
            assert_eq!(trace.spans[to].iter().find(runs_from).map(|span| span.2.as_str()), Some("runs"), "{ends:?}");
        }
        trace.arrows = arrows.len();
        trace
    }

    fn thread(&self, name: &str) -> Vec<&str> {
        let is_it = |(track, its): &(&Track, &String)| track.0 == THREADS && its.starts_with(name);
        let (track, _) = self.names.iter().find(is_it).unwrap_or_else(|| panic!("no {name} in {:?}", self.names));
        self.spans[track].iter().map(|span| span.2.as_str()).collect()
    }

    fn says(&self, what: &str) -> bool {
        self.spans.iter().any(|(track, spans)| track.0 == THREADS && spans.iter().any(|span| span.2 == what))
    }
}

#[test]
fn a_trace_shows_who_ran_who_waited_and_who_woke_whom() {
    let folder = Folder::new("trace");
    let output =
        run(&folder, &["--processors", "1"], &folder.program("program", PROGRAM, &["-w", "-D_GNU_SOURCE"]), "");
    assert!(output.status.success() && output.stderr.is_empty() && output.stdout == b"done\n", "{output:?}");
    assert_eq!(folder.names(), BTreeSet::from(["t.json".to_string()]));
    let trace = Trace::read(&folder.0.join("t.json"));
    let member = trace.thread("member \"2\"");
    for what in ["runs", "ready", "waits for a condition variable"] {
        assert!(member.contains(&what), "{what}: {member:?}");
    }
    assert_eq!(trace.names[&(PROCESSORS, 1)], "processor 0");
    // By the name, also before the thread has it.
    assert!(trace.spans[&(PROCESSORS, 1)].iter().any(|span| span.2.starts_with("member \"2\" (")));
    assert_eq!(trace.names.keys().filter(|track| track.0 == PROCESSORS).count(), 1);
    assert!(trace.arrows >= 150, "{}", trace.arrows);
    assert!(trace.says("waits for a descriptor"));
    if cfg!(target_arch = "x86_64") {
        assert!(trace.says("blocked in the kernel"));
    }
}

#[test]
fn a_trace_keeps_the_last_events() {
    let folder = Folder::new("trace");
    let trace_of = |options: &[&str]| {
        assert!(
            run(&folder, options, &folder.program("program", PROGRAM, &["-w", "-D_GNU_SOURCE"]), "").status.success()
        );
        Trace::read(&folder.0.join("t.json"))
    };
    assert_eq!(trace_of(&[]).overwritten, 0);
    // A ring of 4 threads that each turn 50 times, all woken at each turn: at least 200 switches and 600 wake-ups.
    let short = trace_of(&["--processors", "1", "--trace-events", "1024"]);
    assert!(short.spans.contains_key(&(PROCESSORS, 1)));
    let events = short.spans.values().map(Vec::len).sum::<usize>();
    assert!(events < 3 * 1024 + short.names.len(), "{events}");
}

#[test]
fn what_is_left_of_a_program_that_was_killed_is_made_a_trace() {
    let folder = Folder::new("trace");
    let trace = folder.0.join("t.json");
    let mut command = raddle(&["run", "--trace"]);
    command
        .arg(&trace)
        .arg("--")
        .arg(folder.program("program", PROGRAM, &["-w", "-D_GNU_SOURCE"]))
        .arg("hang")
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.names(), BTreeSet::from(["t.json.raw".to_string()]));
    let raw = folder.0.join("t.json.raw");
    assert_eq!(std::fs::metadata(&raw).unwrap().permissions().mode() & 0o777, 0o600);
    let output = raddle(&["trace"]).arg(&trace).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains(&format!("{} is there", raw.display())), "{error}");
    let output = raddle(&["trace"]).arg(&raw).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\n", trace.display()), "{output:?}");
    assert!(Trace::read(&trace).thread("member \"0\"").contains(&"runs"));
    // No trace, in the place of a device, not there, and where the name cannot be printed: each is told, none a panic.
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let (source, other) = (folder.0.join("program.c"), folder.0.join("other.json"));
    for (raw, into, output, told) in [
        (&source, other.as_path(), Stdio::null(), "no trace"),
        (&raw, "/dev/null".as_ref(), Stdio::null(), "no file"),
        (&folder.0.join("absent"), other.as_path(), Stdio::null(), "No such file"),
        (&raw, other.as_path(), full(), "No space left"),
    ] {
        let mut command = raddle(&["trace"]);
        let output = command.arg(raw).arg("--output").arg(into).stdout(output).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(told), "{told}: {error}");
    }
}

#[test]
fn a_fork_leaves_its_parents_trace_alone_and_a_program_that_follows_has_its_own() {
    let folder = Folder::new("trace");
    let program = folder.program("program", PROGRAM, &["-w", "-D_GNU_SOURCE"]);
    let output = run(&folder, &[], &program, "fork");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(folder.names(), BTreeSet::from(["t.json".to_string()]));
    // The ring, the two others, and nobody of the child's.
    let threads = |trace: &Trace| trace.names.keys().filter(|track| track.0 == THREADS).count();
    let of_parent = threads(&Trace::read(&folder.0.join("t.json")));
    let output = run(&folder, &[], &program, "exec");
    assert!(output.status.success() && output.stdout == b"done\n", "{output:?}");
    let expected = ["t.json", "t.json.2", "t.json.raw"].map(String::from);
    assert_eq!(folder.names(), BTreeSet::from(expected));
    assert_eq!(threads(&Trace::read(&folder.0.join("t.json.2"))), of_parent);
    assert!(raddle(&["trace"]).arg(folder.0.join("t.json.raw")).status().unwrap().success());
    assert_eq!(threads(&Trace::read(&folder.0.join("t.json"))), of_parent);
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_program_starts() {
    for place in ["/nowhere/t.json", "/"] {
        let output = raddle(&["run", "--trace", place, "--", "true"]).output().unwrap();
        assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("--trace: /"));
    }
    let output = raddle(&["run", "--trace-events", "5000", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// By its words: may write no more than 100 bytes into a file, renames a folder, or waits for the end of its input.
const WRITES_NOTHING: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
static void *body(void *argument) { return argument; }
int main(int count, char **words) {
    pthread_t thread;
    char byte;
    /* The runtime begins with the first thread. */
    pthread_create(&thread, 0, body, 0), pthread_join(thread, 0);
    if (count > 1 && !strcmp(words[1], "short")) setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100});
    if (count > 3) rename(words[2], words[3]);
    for (int i = 0; i < 20; i++) pthread_create(&thread, 0, body, 0), pthread_join(thread, 0);
    if (count == 3) read(0, &byte, 1);
    return 7;
}
"#;

/// A limit on files' length, a folder that is gone, an error output that nobody reads: a program that runs into none
/// of them natively does not under raddle, whatever is written beside it.
#[test]
fn what_cannot_be_written_ends_no_program() {
    let folder = Folder::new("trace");
    let program = folder.program("program", WRITES_NOTHING, &["-w", "-D_GNU_SOURCE"]);
    let command = |limit: &str, options: &[&str]| {
        let mut command = Command::new("sh");
        let limited = format!("ulimit -f {limit}; exec \"$@\"");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_raddle"), "run"]).current_dir(&folder.0);
        command.args(options).arg("--").arg(&program);
        command
    };
    let told = |mut command: Command, what: &[&str]| {
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(7) && error.lines().count() == 1, "{what:?}: {output:?}");
        assert!(what.iter().all(|what| error.contains(what)), "{what:?}: {error}");
    };
    told(command("1", &["--trace", "t.json"]), &["no trace: ", "File too large", "--trace-events"]);
    told(command("0", &["--metrics=m"]), &["no metrics: ", "File too large"]);
    assert_eq!(folder.names(), BTreeSet::new());
    let mut short = command("unlimited", &["--trace", "t.json"]);
    short.arg("short");
    told(short, &["the trace stays in ", "t.json.raw: File too large"]);
    assert_eq!(folder.names(), BTreeSet::from(["t.json.raw".into()]));
    assert!(raddle(&["trace"]).arg(folder.0.join("t.json.raw")).status().unwrap().success());
    let (here, there) = (folder.0.join("here"), folder.0.join("there"));
    std::fs::create_dir(&here).unwrap();
    let mut away = command("unlimited", &["--trace", "here/t.json"]);
    away.arg("away").args([&here, &there]);
    told(away, &["no trace: ", "t.json.raw: No such file"]);
    assert!(there.join("t.json.raw").exists());

    // One line, however often it is tried; `raddle top` has what was there before.
    let mut later = command("unlimited", &["--metrics=m"]);
    let mut child = later.args(["short", "wait"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("m cannot be written any more") && line.contains("File too large"), "{line}");
    drop(child.stdin.take());
    assert_eq!((child.wait().unwrap().code(), lines.count()), (Some(7), 0));
    assert!(folder.names().is_superset(&BTreeSet::from(["m".into()])) && !folder.0.join("m.new").exists());

    // Nobody reads, or nothing fits: of what is said at the end, and at the start.
    std::fs::create_dir(folder.0.join("in_its_place.raw")).unwrap();
    for options in [&["--stats"][..], &["--trace", "in_its_place"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(command("unlimited", options).stderr(writer).status().unwrap().code(), Some(7), "{options:?}");
        let full = std::fs::File::create(folder.0.join("full")).unwrap();
        assert_eq!(command("0", options).stderr(full).status().unwrap().code(), Some(7), "{options:?}");
    }
}
