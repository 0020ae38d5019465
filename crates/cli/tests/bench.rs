//! The command `raddle bench` as a user meets it, with programs that print what a test wants them to.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Held while a program is written and while a process is started: a process that is just being made has a copy of all
/// open files, and a program that anyone has open for writing cannot be run.
static FILES: Mutex<()> = Mutex::new(());

fn output(mut command: Command) -> std::io::Result<Output> {
    let held = FILES.lock();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    drop(held);
    child?.wait_with_output()
}

/// A folder of programs, removed in the end.
struct Programs(PathBuf);

impl Programs {
    fn new(programs: &[(&str, &str)]) -> Programs {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("raddle-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let _held = FILES.lock();
        for (name, body) in programs {
            let path = folder.join(format!("raddle-bench-{name}"));
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Programs(folder)
    }

    fn bench(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.arg("bench").args(words).arg("--programs").arg(&self.0);
        output(command).unwrap()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn prints(ns: u64, checksum: u64) -> String {
    format!(r#"echo '{{"ops":10,"ns":{ns},"rss_kib":7,"checksum":{checksum},"extra":{{"settings":"set so"}}}}'"#)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const CREATE: [&str; 5] = ["create", "--args", "10", "--rounds", "3"];

fn create<'a>(more: &[&'a str]) -> Vec<&'a str> {
    CREATE.iter().chain(more).copied().collect()
}

#[test]
fn json_has_one_line_per_runtime_and_ratios_to_the_first() {
    let programs = Programs::new(&[("raddle", &prints(100, 10)), ("go", &prints(250, 10))]);
    let output = programs.bench(&create(&["--runtimes", "raddle,go", "--format", "json"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["workload"], &lines[0]["args"]), (&"create".into(), &"N=10".into()));
    assert_eq!((&lines[0]["ns_median"], &lines[0]["rounds"]), (&10.0.into(), &3.into()));
    assert_eq!((&lines[1]["runtime"], &lines[1]["ratio"]), (&"go".into(), &2.5.into()));
}

#[test]
fn each_policy_is_a_row() {
    let body = format!(r#"case "$*" in *"--policy lifo"*) {};; *) {};; esac"#, prints(50, 10), prints(100, 10));
    let programs = Programs::new(&[("raddle", &body)]);
    let words = create(&["--runtimes", "raddle", "--policy", "fifo", "--policy", "lifo", "--format", "json"]);
    let lines = stdout(&programs.bench(&words));
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[0]["policy"], &rows[1]["policy"]), (&"fifo".into(), &"lifo".into()));
    assert_eq!(rows[1]["ratio"], 0.5);
}

#[test]
fn a_wrong_checksum_fails_the_command_and_is_named() {
    let programs = Programs::new(&[("raddle", &prints(100, 10)), ("go", &prints(100, 11))]);
    let output = programs.bench(&create(&["--runtimes", "raddle,go"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("checksum 11, but 10 is right"), "{}", stderr(&output));
}

#[test]
fn a_failing_peer_is_reported_and_a_failing_run_of_ours_fails_the_command() {
    let fails = r#"echo '{"error":"no memory"}'; exit 1"#;
    let peer = Programs::new(&[("raddle", &prints(100, 10)), ("go", fails)]);
    let output = peer.bench(&create(&["--runtimes", "raddle,go"]));
    assert!(output.status.success());
    assert!(stdout(&output).contains("no memory"));
    let ours = Programs::new(&[("raddle", fails), ("go", &prints(100, 10))]);
    assert_eq!(ours.bench(&create(&["--runtimes", "raddle,go"])).status.code(), Some(1));
}

#[test]
fn a_missing_peer_is_named_and_no_error() {
    let programs = Programs::new(&[("raddle", &prints(100, 10))]);
    for (format, all) in [("table", false), ("json", true), ("html", false)] {
        let output = programs.bench(&create(&["--runtimes", "raddle,tokio,java", "--format", format]));
        assert!(output.status.success());
        let text = if all { stderr(&output) } else { stdout(&output) };
        assert!(text.contains("tokio") && text.contains("Java 21"), "{format}: {text}");
    }
}

#[test]
fn rounds_are_interleaved() {
    let log = |name: &str| format!("echo {name} >> \"$(dirname \"$0\")/log\"; {}", prints(100, 10));
    let programs = Programs::new(&[("raddle", &log("a")), ("go", &log("b"))]);
    assert!(programs.bench(&create(&["--runtimes", "raddle,go"])).status.success());
    let order = std::fs::read_to_string(programs.0.join("log")).unwrap();
    assert_eq!(order.split_whitespace().collect::<String>(), "ababab");
}

#[test]
fn progress_is_told_on_the_standard_error() {
    let programs = Programs::new(&[("raddle", &prints(100, 10))]);
    let output = programs.bench(&create(&["--runtimes", "raddle"]));
    assert!(stderr(&output).contains("[0/3] create N=10: raddle, round 1"), "{}", stderr(&output));
}

#[test]
fn a_wrong_command_line_names_cause_and_remedy() {
    let programs = Programs::new(&[]);
    for (words, cause) in [
        (&["knit"][..], "there are create, park"),
        (&["yeild"], "do you mean `yield`?"),
        (&["create", "--runtimes", "tokoi"], "do you mean `tokio`?"),
        (&["create", "--policy", "priority(3, steel)"], "column 13"),
        (&["quick", "create"], "by another command"),
        (&["quick", "--policy", "fifo"], "--policy is not for it"),
        (&["create", "--runtimes", "rust"], "there are raddle, std"),
        (&["create", "--args", "x=1"], "it has N"),
        (&["--args", "1k"], "raddle bench create --args 1k"),
        (&["create", "--runtimes", "go", "--policy", "fifo"], "add `raddle`"),
        (&["create", "--processors", "0"], "--processors"),
        (&["create", "--rounds", "0"], "--rounds"),
        (&["create", "--out", "/absent/file"], "/absent/file"),
        (&["report", "--out", "/absent/file"], "/absent/file"),
        (&["report", "--policy", "fifo"], "--policy is not for it"),
        (&["report", "create"], "by another command"),
    ] {
        let output = programs.bench(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(cause), "{words:?}: {}", stderr(&output));
    }
}

/// The command alone, in a folder with nothing beside it, runs ours and std, and names what is missing.
#[test]
fn the_command_holds_two_runtimes() {
    let folder = Programs::new(&[]);
    let copy = folder.0.join("raddle");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_raddle")).arg(&copy).status().unwrap().success());
    let mut command = Command::new(&copy);
    command.args(["bench", "create", "--args", "100", "--rounds", "1", "--format", "json"]);
    let output = output(command).unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let runtimes: Vec<_> = rows.iter().map(|row| row["runtime"].as_str().unwrap()).collect();
    assert_eq!(runtimes, ["raddle", "std"]);
    assert!(rows.iter().all(|row| row["error"].is_null() && row["checksum"] == 100), "{text}");
    // What is foretold counts what will run, as the counter does: none that is missing.
    let told = stderr(&output);
    assert!(told.contains("missing: tokio") && told.contains("[0/2]"), "{told}");
    assert!(told.contains("1 case(s), at most 2 process(es), about 0 s"), "{told}");
}

/// A row is there as soon as it is known: the second program does not end before the first one's row was read.
#[test]
fn a_row_is_printed_before_the_next_case_begins() {
    let body = format!(
        r#"case "$*" in *N=11*) while [ ! -e "$(dirname "$0")/go" ]; do sleep 0.01; done;; esac; case "$*" in *N=11*) {};; *) {};; esac"#,
        prints(100, 11),
        prints(100, 10)
    );
    let programs = Programs::new(&[("raddle", &body)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    command.args(["bench", "create", "--args", "10,11", "--rounds", "1", "--runtimes", "raddle", "--format", "json"]);
    command.arg("--programs").arg(&programs.0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let held = FILES.lock();
    let mut child = command.spawn().unwrap();
    drop(held);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("N=10"), "{first}");
    std::fs::write(programs.0.join("go"), "").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("N=11"));
    assert!(child.wait().unwrap().success());
}

/// What is measured is in the file although the command is ended in the middle.
#[test]
fn what_was_measured_is_kept_when_the_command_is_ended() {
    let body = format!(
        r#"case "$*" in *N=11*) touch "$(dirname "$0")/at"; while [ -e "$0" ]; do sleep 0.01; done;; esac; {}"#,
        prints(100, 10)
    );
    let programs = Programs::new(&[("raddle", &body)]);
    let file = programs.0.join("rows.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    command.args(["bench", "create", "--args", "10,11", "--rounds", "1", "--runtimes", "raddle", "--format", "json"]);
    command.arg("--programs").arg(&programs.0).arg("--out").arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let held = FILES.lock();
    let mut child = command.spawn().unwrap();
    drop(held);
    while !programs.0.join("at").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("N=10"));
}

#[test]
fn doctor_speaks_both_forms() {
    let doctor =
        |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_raddle")).arg("doctor").args(words).output().unwrap();
    let text = doctor(&[]);
    assert!(text.status.success() && stdout(&text).contains("membarrier"));
    // It is used, so it does not stand with what is not.
    let text = stdout(&text);
    let unused = text.split_once("Not used by this version").unwrap().1;
    assert!(text.contains("io_uring") && !unused.contains("io_uring"), "{text}");
    for line in stdout(&doctor(&["--format", "json"])).lines() {
        let finding: Value = serde_json::from_str(line).unwrap();
        for key in ["name", "state", "found", "consequence"] {
            assert!(finding[key].is_string(), "{key} in {line}");
        }
    }
}

/// Opens the page in a browser and looks at what it made of it: every figure must be drawn, nothing may be fetched.
#[test]
fn the_page_opens_in_a_browser() {
    if raddle_bench::smoke::lacks(&[("chromium", "chromium")]) {
        return;
    }
    let programs = Programs::new(&[("raddle", &prints(100, 10)), ("go", &prints(250, 10))]);
    let page = programs.0.join("report.html");
    let words = create(&["--runtimes", "raddle,go,java", "--out", page.to_str().unwrap()]);
    assert!(programs.bench(&words).status.success());
    let dom = browse(&page, &programs.0);
    assert_eq!(dom.matches("<rect class=\"bar").count(), 2, "{dom}");
    assert!(dom.contains("<h2>create N=10, 2 processors: time per thread</h2>"), "{dom}");
    assert!(dom.contains("25.0 ns") && dom.contains("Java 21"), "{dom}");
}

/// In a browser: texts of a drawing that are cut by its edge, or lie over another one.
const MISPLACED: &str = "<script>
const bad = [];
for (const svg of document.querySelectorAll('svg')) {
  const edge = svg.getBoundingClientRect();
  const all = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  all.forEach(([name, a], index) => {
    if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1 || a.bottom > edge.bottom + 1)
      bad.push('cut: ' + name);
    for (const [other, b] of all.slice(index + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        bad.push(name + ' over ' + other);
  });
}
document.body.dataset.misplaced = bad.join('; ') || 'none of ' + document.querySelectorAll('svg text').length;
</script></body>";

/// Names of any length and figures of any size: in every drawing of a bench and of a simulation all texts are whole.
#[test]
fn no_text_of_a_drawing_is_cut_or_lies_over_another() {
    if raddle_bench::smoke::lacks(&[("chromium", "chromium")]) {
        return;
    }
    let latencies = r#"echo '{"ops":10,"ns":123456789,"rss_kib":7,"checksum":10,"extra":{"latencies":[[1000,900],[20000,90],[5000000,10]]}}'"#;
    let programs = Programs::new(&[("raddle", latencies), ("go", &prints(250, 10))]);
    let page = programs.0.join("report.html");
    let policy = "priority(3, steal(lifo, victims=neighbours(4)))";
    let words = ["--runtimes", "raddle,go", "--policy", policy, "--policy", "fifo", "--out"];
    let ended = programs.bench(&[&create(&words)[..], &[page.to_str().unwrap()]].concat());
    assert!(ended.status.success(), "{}", stderr(&ended));
    let simulated = programs.0.join("sim.html");
    let mut sim = Command::new(env!("CARGO_BIN_EXE_raddle"));
    sim.args(["sim", "--workload", "yield:t=8:total=800", "--cores", "1,2,4,8,16,32,64", "--out"]);
    sim.arg(&simulated).args(["--policy", "fifo", "--policy", policy]);
    let ended = output(sim).unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    for page in [page, simulated] {
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("<polyline"), "no lines in {}", page.display());
        std::fs::write(&page, text.replace("</body>", MISPLACED)).unwrap();
        let dom = browse(&page, &programs.0);
        let said = dom.split_once("data-misplaced=\"").unwrap().1.split('"').next().unwrap();
        assert!(said.starts_with("none of ") && said != "none of 0", "{}: {said}", page.display());
    }
}

#[test]
fn a_baseline_has_a_verdict_in_every_format_and_a_wrong_one_is_told_at_once() {
    let before = Programs::new(&[("raddle", &prints(100, 10)), ("go", &prints(250, 10))]);
    let file = before.0.join("before.json");
    let file = file.to_str().unwrap();
    let five = ["create", "--args", "10", "--rounds", "5", "--runtimes", "raddle,go"];
    let ended = before.bench(&[&five[..], &["--out", file]].concat());
    assert!(ended.status.success(), "{}", stderr(&ended));
    let now = Programs::new(&[("raddle", &prints(150, 10)), ("go", &prints(250, 10))]);
    for (format, slower, level) in [
        ("table", "+50.0 %, slower", "+0.0 %, neither faster nor slower as far as 5 rounds tell"),
        ("json", "\"verdict\":\"slower\"", "\"verdict\":\"level\""),
        ("html", "+50.0 %, slower", "+0.0 %, neither faster nor slower as far as 5 rounds tell"),
    ] {
        let ended = now.bench(&[&five[..], &["--baseline", file, "--format", format]].concat());
        let text = stdout(&ended);
        assert!(ended.status.success() && text.contains(slower) && text.contains(level), "{format}: {text}");
    }
    for (words, why) in [
        (&["create", "--baseline", "/no/such"][..], "--baseline /no/such"),
        (&["create", "--baseline", "/proc/self/status"], "--format json"),
        (&["blocked", "--baseline", file], "--baseline compares workloads"),
    ] {
        let ended = now.bench(words);
        assert!(ended.status.code() == Some(2) && stderr(&ended).contains(why), "{words:?}: {}", stderr(&ended));
    }
}

fn browse(page: &Path, profile: &Path) -> String {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.join("profile").display()));
    command.arg(format!("file://{}", page.display()));
    let output = command.output();
    let output =
        output.unwrap_or_else(|e| panic!("chromium cannot be started: {e}; install it (apt install chromium)"));
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// Ctrl-C, as a terminal sends it: to the command and what it has started. What was measured is shown, and in the file.
#[test]
fn an_ended_quick_bench_has_shown_its_rows() {
    use std::io::BufRead as _;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    let folder = Programs::new(&[]);
    let file = folder.0.join("rows.json");
    for words in [&[][..], &["--format", "json"], &["--format", "json", "--out", file.to_str().unwrap()]] {
        // What a shell has started in its background ignores Ctrl-C, and so does all that it starts.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_raddle"), "bench", "quick"]).args(words);
        command.process_group(0);
        let held = FILES.lock();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        drop(held);
        let mut child = child.unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        // The first row that is there.
        if !words.contains(&"--out") {
            let row = if words.is_empty() { "create N=" } else { "{\"" };
            assert!(lines.any(|line| line.unwrap().starts_with(row)));
        } else {
            while !file.exists() {
                assert!(child.try_wait().unwrap().is_none());
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        let interrupt = format!("kill -INT -{}", child.id());
        assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().signal(), Some(2));
        // Nothing of it runs on: whoever held the other end of the pipe has ended.
        lines.for_each(drop);
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    let rows: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 2 && rows[0]["workload"] == "create" && rows[0]["ns_median"].is_number(), "{kept}");
}

/// All of it is foretold at once, not each part as it comes.
#[test]
fn what_a_bench_takes_is_told_before_it_begins() {
    let programs = Programs::new(&[("raddle", &prints(100, 10)), ("go", &prints(250, 10))]);
    let words = ["create", "locks", "--args", "10", "--runtimes", "raddle,go", "--rounds", "1"];
    let told = stderr(&programs.bench(&words));
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(", at most ")).collect();
    assert!(lines.len() == 1 && told.starts_with("raddle: 2 case(s), "), "{told}");
    // So does the counter: `create` by the two, `locks` by each of our locks and the other one.
    let processes = lines[0].split_once("at most ").unwrap().1.split(' ').next().unwrap();
    assert!(processes.parse::<u32>().unwrap() > 10 && told.contains(&format!("[0/{processes}]")), "{told}");
}
