//! The command `raddle run` as a user meets it.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A hundred threads, then what a child finds in its environment.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *body(void *argument) { return argument; }
int main(int count, char **words) {
    pthread_t threads[100];
    for (long i = 0; i < 100; i++) pthread_create(&threads[i], 0, body, (void *)i);
    long sum = 0;
    for (int i = 0; i < 100; i++) { void *value; pthread_join(threads[i], &value); sum += (long)value; }
    printf("sum %ld", sum);
    for (int i = 1; i < count; i++) printf(" %s", words[i]);
    puts("");
    fflush(stdout);
    return system("env | grep -E 'RADDLE|PRELOAD'") < 0 ? 1 : 7;
}
"#;

impl Folder {
    fn file_of_mode(&self, name: &str, contents: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.file(name, contents);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    /// A copy of a program with some bytes changed; it is not meant to be executed.
    fn patched(&self, name: &str, program: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let mut bytes = std::fs::read(program).unwrap();
        change(&mut bytes);
        self.file_of_mode(name, bytes, 0o755)
    }
}

fn raddle(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
    // Some programs print what they see of ours in their environment.
    command.arg("run").args(words).env_remove("LD_PRELOAD").env_remove("RADDLE_NOTHING_SKIPPED").stdin(Stdio::null());
    command
}

fn run(words: &[&str], program: &Path, arguments: &[&str]) -> Output {
    raddle(words).arg("--").arg(program).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The program is refused before it starts, with this in the message.
#[track_caller]
fn refused(program: &Path, status: i32, expected: &str) {
    let output = run(&[], program, &[]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.starts_with("raddle: ") && error.contains(expected), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_program_runs_with_its_arguments_and_status_and_children_are_native() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = run(&["--processors", "2"], &program, &["a b", "--stats"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout), "sum 4950 a b --stats\n");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn children_are_taken_over_when_asked_for() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = run(&["--children"], &program, &[]);
    let out = text(&output.stdout);
    assert!(out.contains("LD_PRELOAD=") && out.contains("RADDLE_CHILDREN=1"), "{out}");
    let script = folder.file_of_mode("start.sh", format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()), 0o755);
    let output = run(&["--children", "--stats"], &script, &["x"]);
    assert!(text(&output.stdout).starts_with("sum 4950 x\n"), "{output:?}");
    assert!(text(&output.stderr).contains("100  threads created"), "{output:?}");
}

/// A script that ends with `exec`, programs that replace themselves, settings and all; what is started as a child stays
/// native.
#[test]
fn what_a_program_becomes_goes_on_under_raddle() {
    if raddle_bench::smoke::lacks(&[("/usr/bin/python3", "python3"), ("/bin/bash", "bash")]) {
        return;
    }
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let path = program.display();
    let python = |call: &str| format!("#!/usr/bin/python3\nimport os\n{}\n", call.replace("PATH", &path.to_string()));
    let becoming = [
        ("exec.sh", format!("#!/bin/sh\nexec env nice '{path}' \"$@\"\n")),
        ("twice.sh", format!("#!/bin/bash\nA=b exec /bin/sh -c 'exec \"{path}\" x'\n")),
        ("execv.py", python("os.execv('PATH', ['p', 'x'])")),
        ("execve.py", python("os.execve('PATH', ['p', 'x'], {'PATH': '/bin:/usr/bin'})")),
        ("execvpe.py", python("os.execvpe('PATH', ['p', 'x'], {'PATH': '/bin:/usr/bin'})")),
        ("fexecve.py", python("os.execve(os.open('PATH', os.O_RDONLY), ['p', 'x'], os.environ)")),
    ];
    for (name, text_of) in becoming {
        let script = folder.file_of_mode(name, text_of, 0o755);
        let output = run(&["--stats", "--main", "--quiet"], &script, &["x"]);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(7), "sum 4950 x\n"),
            "{name}: {output:?}"
        );
        assert!(text(&output.stderr).contains("101  threads created"), "{name}: {output:?}");
    }
    let child = folder.file_of_mode("child.sh", format!("#!/bin/sh\n'{path}' x\nexit $?\n"), 0o755);
    let output = run(&["--stats", "--quiet"], &child, &[]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(7), "sum 4950 x\n"), "{output:?}");
    assert!(!text(&output.stderr).contains("100  threads created"), "{output:?}");
    // The settings of another `raddle run` that it becomes are that one's, and what is set by hand stays.
    let inner = format!("#!/bin/sh\nexec '{}' run --stats=json -- '{path}' x\n", env!("CARGO_BIN_EXE_raddle"));
    let output = run(&["--stats", "--main", "--quiet"], &folder.file_of_mode("inner.sh", inner, 0o755), &[]);
    let counters: serde_json::Value = serde_json::from_str(&text(&output.stderr)).unwrap();
    assert_eq!(counters["threads"], 100, "{output:?}");
    let by_hand = folder.file_of_mode("by-hand.sh", format!("#!/bin/sh\nRADDLE_MAIN=0 exec '{path}' x\n"), 0o755);
    let output = run(&["--stats", "--main", "--quiet"], &by_hand, &[]);
    assert!(text(&output.stderr).contains("100  threads created"), "{output:?}");
    // With --children, too, where the environment was emptied.
    let emptied =
        folder.file_of_mode("emptied.sh", format!("#!/bin/sh\nexec env -i PATH=/bin:/usr/bin '{path}' x\n"), 0o755);
    let output = run(&["--stats", "--children"], &emptied, &[]);
    assert!(text(&output.stderr).contains("100  threads created"), "{output:?}");
    // What cannot be taken over runs natively, and a line says so.
    let fixed = folder.program("static", "int main(void) { return 3; }", &["-static"]);
    let becomes = folder.file_of_mode("static.sh", format!("#!/bin/sh\nexec '{}'\n", fixed.display()), 0o755);
    let output = run(&[], &becomes, &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output.stderr).contains("statically linked: it runs natively"), "{output:?}");
    assert_eq!(text(&run(&["--quiet"], &becomes, &[]).stderr), "");
    // A program that is not there leaves everything as it was.
    let missing = folder.file_of_mode("missing.py", "#!/usr/bin/python3\nimport os\ntry: os.execv('/nowhere', ['x'])\nexcept FileNotFoundError: os.system('env | grep -E \"RADDLE|PRELOAD\"; echo ok')\n", 0o755);
    assert_eq!(text(&run(&[], &missing, &[]).stdout), "ok\n");
}

#[test]
fn a_program_is_compared_with_itself_run_natively() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = run(&["--compare=2"], &program, &["x", "--compare"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{error}");
    assert_eq!(text(&output.stdout), "sum 4950 x --compare\n".repeat(4));
    for expected in [
        "round 2 of 2: natively",
        "medians (and ranges) of 2 run(s) each",
        "elapsed, s",
        "kernel threads at most",
        "exit status: 7",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let script = folder.file_of_mode("start.sh", "#!/bin/sh\nexec true\n", 0o755);
    let error = text(&run(&["--compare=1"], &script, &[]).stderr);
    assert_eq!(error.matches("shell script").count(), 1, "{error}");
    let output = run(&["--quiet", "--policy", "fifo", "--compare=1"], Path::new("/bin/sleep"), &["3"]);
    let error = text(&output.stderr);
    let most = error.lines().find(|line| line.contains("kernel threads at most")).unwrap_or_else(|| panic!("{error}"));
    let words: Vec<_> = most.split_whitespace().skip(4).collect();
    assert_eq!((words.join(" "), output.status.code()), ("1 (1 to 1) 1 (1 to 1) 1.00".into(), Some(0)), "{error}");
    let output = run(&["--compare=0"], &program, &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(run(&["--compare"], Path::new("/nowhere/x"), &[]).status.code(), Some(127));
}

#[test]
fn main_is_a_thread_like_the_others_when_asked_for() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = run(&["--main", "--stats"], &program, &["x"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(7), "sum 4950 x\n"), "{output:?}");
    assert!(text(&output.stderr).contains("101  threads created"), "{output:?}");
    // The setting is not left to the children, nor taken from outside.
    let shell = Path::new("/bin/sh");
    let words = ["-c", "echo ${RADDLE_MAIN-none}"];
    assert_eq!(text(&run(&["--main"], shell, &words).stdout), "none\n");
    let output = raddle(&["--stats", "--"]).arg(&program).env("RADDLE_MAIN", "1").output().unwrap();
    assert!(text(&output.stderr).contains("100  threads created"), "{output:?}");
}

#[test]
fn counters_are_printed_as_text_and_json() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let error = text(&run(&["--stats"], &program, &[]).stderr);
    assert!(error.starts_with("raddle: threads (") && error.contains("100  threads created\n"), "{error}");
    assert!(!error.contains("nanoseconds"), "{error}");
    let output = run(&["--stats=json", "--policy", "fifo", "--processors", "1"], &program, &[]);
    let counters: serde_json::Value = serde_json::from_str(&text(&output.stderr)).unwrap();
    assert_eq!((counters["program"].as_str(), counters["threads"].as_u64()), (Some("threads"), Some(100)));
    assert!(counters["switches"].as_u64() >= Some(100), "{counters}");
    assert!(counters["kernel_threads"].as_u64() < Some(20), "{counters}");
}

#[test]
fn another_preloaded_library_stays_for_the_children() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let other = folder.program("other.so", "int other;", &["-shared", "-fPIC"]);
    let output = raddle(&["--"]).arg(&program).env("LD_PRELOAD", &other).output().unwrap();
    assert_eq!(text(&output.stdout), format!("sum 4950\nLD_PRELOAD={}\n", other.display()));
}

#[test]
fn without_lightweight_threads_the_program_runs_on_kernel_threads() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = raddle(&["--"]).arg(&program).env("RADDLE_KERNEL_THREADS", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(text(&output.stdout).starts_with("sum 4950\n"));
    let error = text(&output.stderr);
    assert!(error.lines().count() == 1 && error.contains("one kernel thread per thread is used"), "{error}");
}

#[test]
fn settings_that_the_library_cannot_use_make_kernel_threads_and_a_line() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = raddle(&["--"]).arg(&program).env("RADDLE_PROCESSORS", "many").output().unwrap();
    assert!(text(&output.stdout).starts_with("sum 4950\n"), "{output:?}");
    assert!(text(&output.stderr).contains("RADDLE_PROCESSORS=many"), "{output:?}");
}

#[test]
fn what_cannot_be_found_or_executed_is_refused() {
    let folder = Folder::new("run");
    refused(Path::new("no-such-program-anywhere"), 127, "in no folder of PATH");
    refused(&folder.0.join("nothing"), 127, "is not there");
    refused(&folder.0, 126, "is a directory");
    refused(&folder.file_of_mode("data", "hello", 0o644), 126, "may not execute it");
    refused(&folder.file_of_mode("text", "hello", 0o755), 126, "no ELF file");
    refused(&folder.file_of_mode("empty", "", 0o755), 126, "no ELF file");
    refused(&folder.file_of_mode("script", "#!/no/such/interpreter\n", 0o755), 126, "/no/such/interpreter");
    refused(&folder.file_of_mode("loop", format!("#!{}/loop\n", folder.0.display()), 0o755), 126, "and so on");
}

#[test]
fn programs_that_cannot_be_taken_over_are_refused() {
    let folder = Folder::new("run");
    let plain = "int main(void) { return 0; }";
    refused(&folder.program("static", plain, &["-static"]), 126, "statically linked");
    refused(&folder.program("static-pie", plain, &["-static-pie"]), 126, "statically linked");
    let program = folder.program("plain", plain, &[]);
    let go = r#"__attribute__((section(".go.buildinfo"))) char go[32]; int main(void) { return go[0]; }"#;
    refused(&folder.program("go", go, &[]), 126, "Go program");
    refused(&folder.patched("narrow", &program, |bytes| bytes[4] = 1), 126, "32-bit");
    refused(&folder.patched("other", &program, |bytes| bytes[18..20].copy_from_slice(&[243, 0])), 126, "RISC-V");
    refused(&folder.patched("cut", &program, |bytes| bytes.truncate(40)), 126, "cannot be run");
    let musl = |bytes: &mut Vec<u8>| {
        let loader = b"/ld-linux";
        let at = bytes.windows(loader.len()).position(|window| window == loader).unwrap();
        bytes[at..at + loader.len()].copy_from_slice(b"/ld-musl-");
    };
    refused(&folder.patched("musl", &program, musl), 126, "musl");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    refused(&program, 126, "set-uid");
}

#[test]
fn what_a_sanitizer_watches_runs_as_it_is() {
    let folder = Folder::new("run");
    for (options, sanitizer) in [
        (&["-fsanitize=address"][..], Some("AddressSanitizer")),
        (&["-fsanitize=address", "-static-libasan"], Some("AddressSanitizer")),
        (&["-fsanitize=thread"], Some("ThreadSanitizer")),
        (&["-fsanitize=leak"], Some("LeakSanitizer")),
        (&["-fsanitize=undefined"], None),
    ] {
        let program = folder.program("sanitized", THREADS, options);
        // Leaks are looked for by `ptrace`, which a sandbox may forbid.
        let sanitized = |words: &[&str]| {
            let mut command = raddle(words);
            command.arg("--").arg(&program).arg("word");
            for name in ["ASAN_OPTIONS", "LSAN_OPTIONS"] {
                command.env(name, "detect_leaks=0");
            }
            command.output().unwrap()
        };
        let output = sanitized(&[]);
        assert_eq!(output.status.code(), Some(7), "{options:?}: {output:?}");
        assert_eq!(text(&output.stdout), "sum 4950 word\n", "{options:?}");
        let error = text(&output.stderr);
        match sanitizer {
            Some(name) => assert!(error.lines().count() == 1 && error.contains(name), "{options:?}: {error}"),
            None => assert_eq!(error, "", "{options:?}"),
        }
        let quiet = sanitized(&["--quiet"]);
        assert!(quiet.status.code() == Some(7) && quiet.stderr.is_empty(), "{options:?}: {quiet:?}");
    }
}

#[test]
fn scripts_are_run_by_their_interpreters() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let script = folder.file_of_mode("script", format!("#!{} option\n", program.display()), 0o755);
    let output = run(&[], &script, &["x"]);
    let expected = format!("sum 4950 option {} x\n", script.display());
    assert_eq!(text(&output.stdout), expected, "{output:?}");
    // By `env`, in which the library would take itself out of the environment.
    let script = folder.file_of_mode("by-env", "#!/usr/bin/env threads\n", 0o755);
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let output = raddle(&["--stats", "--"]).arg(&script).env("PATH", path).output().unwrap();
    assert!(text(&output.stderr).contains("100  threads created"), "{output:?}");
}

/// malloc's larger cache is asked for where the loader looks; the program, and what it starts, sees what the user had
/// given.
#[test]
fn the_request_for_a_larger_cache_is_seen_by_the_loader_only() {
    let folder = Folder::new("run");
    // How many blocks of a size malloc keeps for the thread (the last freed comes first), and what is in the
    // environment. A block may be larger, of what was left elsewhere, and is then kept among those of its own size.
    let source = r#"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    void *blocks[100];
    for (int i = 0; i < 100;) {
        blocks[i] = malloc(64);
        i += malloc_usable_size(blocks[i]) == 72;
    }
    for (int i = 0; i < 100; i++) free(blocks[i]);
    void *block = malloc(64);
    int which = 0;
    while (which < 100 && blocks[which] != block) which++;
    char *now = getenv("GLIBC_TUNABLES");
    printf("%d %s\n", which + 1, now ? now : "none");
    fflush(stdout);
    // A program that replaces itself goes on as it was.
    if (count > 1) execv(words[0], (char *[]){words[0], NULL});
    return 0;
}
"#;
    let program = folder.program("tunables", source, &[]);
    let seen = |options: &[&str], given: &str| {
        let mut command = raddle(options);
        command.arg("--").arg(&program).arg("again").env_remove("GLIBC_TUNABLES");
        if !given.is_empty() {
            command.env("GLIBC_TUNABLES", given);
        }
        text(&command.output().unwrap().stdout)
    };
    let ours = "glibc.malloc.tcache_count=200";
    let theirs = "glibc.malloc.arena_max=3";
    let size = "glibc.malloc.tcache_count=9";
    let twice = |line: &str| format!("{line}\n{line}\n");
    assert_eq!(seen(&[], ""), twice("100 none"));
    assert_eq!(seen(&[], theirs), twice(&format!("100 {theirs}")));
    assert_eq!(seen(&[], size), twice(&format!("9 {size}")));
    assert_eq!(seen(&["--children"], ""), twice(&format!("100 {ours}")));
    assert_eq!(seen(&["--children"], theirs), twice(&format!("100 {theirs}:{ours}")));
}

#[test]
fn a_shell_script_gets_a_hint() {
    let folder = Folder::new("run");
    let script = folder.file_of_mode("start.sh", "#!/bin/sh\necho started\n", 0o755);
    let output = run(&[], &script, &[]);
    assert_eq!(text(&output.stdout), "started\n");
    let error = text(&output.stderr);
    assert!(error.contains("shell script") && error.contains("--children"), "{error}");
    assert_eq!(text(&run(&["--children"], &script, &[]).stderr), "");
    assert_eq!(text(&run(&["--quiet"], &script, &[]).stderr), "");
}

#[test]
fn what_starts_ranks_gets_a_hint() {
    let folder = Folder::new("run");
    for name in ["mpirun", "mpiexec.hydra"] {
        let starter = folder.program(name, "int main(void) { return 0; }", &[]);
        let error = text(&run(&["--mpi"], &starter, &[]).stderr);
        assert!(error.contains(&format!("write `{name} ... raddle run --mpi -- PROGRAM`")), "{error}");
    }
}

/// Its calls do not go through the loader. One that takes MPI's calls over itself has none.
#[test]
fn a_program_with_an_mpi_of_its_own_is_refused_with_mpi() {
    let folder = Folder::new("run");
    let source = "int PMPI_Send(void) { return 0; } int main(void) { return PMPI_Send(); }";
    let own = folder.program("own", source, &[]);
    let output = run(&["--mpi"], &own, &[]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{error}");
    assert!(error.contains("an MPI is linked into it") && error.lines().count() == 1, "{error}");
    assert!(run(&[], &own, &[]).status.success());
    let tool = folder.program("tool", "int MPI_Send(void) { return 0; } int main(void) { return MPI_Send(); }", &[]);
    assert!(run(&["--mpi"], &tool, &[]).status.success());
}

/// Where the ranks of a machine may all use all of its cores.
#[test]
fn ranks_that_are_not_bound_share_the_cores() {
    let seen = |words: &[&str], by_hand: &str| {
        let mut command = raddle(words);
        command.args(["--", "/bin/cat", "/proc/self/environ"]).env("MPI_LOCALNRANKS", "1000000");
        command.env("RADDLE_PROCESSORS", by_hand);
        let environment = text(&command.output().unwrap().stdout);
        environment.split('\0').find_map(|entry| Some(entry.strip_prefix("RADDLE_PROCESSORS=")?.to_string()))
    };
    let cores = |option: &str| text(&Command::new("getconf").arg(option).output().unwrap().stdout);
    let usable = text(&Command::new("nproc").env_remove("OMP_NUM_THREADS").output().unwrap().stdout);
    let bound = usable != cores("_NPROCESSORS_ONLN");
    assert_eq!(seen(&["--mpi"], ""), Some(if bound { "" } else { "1" }.to_string()));
    assert_eq!(seen(&["--mpi", "--processors", "3"], "").as_deref(), Some("3"));
    assert_eq!(seen(&["--mpi"], "2").as_deref(), Some("2"));
    assert_eq!(seen(&[], "").as_deref(), Some(""));
}

#[test]
fn wrong_settings_are_refused_before_the_start() {
    let wrong = |words: &[&str], expected: &str| {
        let output = run(words, Path::new("/bin/true"), &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    };
    wrong(&["--processors", "0"], "a whole number from 1 to 1024, as in `--processors 4`");
    wrong(&["--processors", "100000"], "a whole number from 1 to 1024, as in `--processors 4`");
    wrong(&["--processors", "two"], "--processors");
    wrong(&["--policy", "priority(3, steel)"], "column 13");
    wrong(&["--stats=xml"], "json");
    // A mistyped option is not the program's name.
    wrong(&["--procesors", "2"], "'--processors'");
    wrong(&["--stat"], "'--stats'");
    // No option of ours: the program's come after its name, and nobody means a program of such a name.
    wrong(&["-x"], "come after its name");
    assert!(!text(&run(&["--procesors", "2"], Path::new("/bin/true"), &[]).stderr).contains("to pass"));
    let output = raddle(&["--", "/bin/true"]).env("RADDLE_LIBRARY", "/no/where.so").output().unwrap();
    assert!(text(&output.stderr).contains("RADDLE_LIBRARY=/no/where.so"), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
}

/// A library that was named by hand is looked at: one with the program's allocator is weaker, another is none.
#[test]
fn a_named_library_that_is_weaker_is_told_of() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    // What cargo makes of the functions for tests and for Rust programs, and what it ships.
    let built = |name: &str| std::env::current_exe().unwrap().with_file_name(name);
    let run = |library: &Path, words: &[&str]| {
        raddle(words).arg("--").arg(&program).env("RADDLE_LIBRARY", library).output().unwrap()
    };
    let weaker = run(&built("libraddle_posix.so"), &[]);
    let told = text(&weaker.stderr);
    assert!(text_of(&weaker).starts_with("sum 4950\n") && told.contains("jemalloc"), "{weaker:?}");
    assert!(told.contains("libraddle_drop_in.so") && told.lines().count() == 1, "{told}");
    assert_eq!(text(&run(&built("libraddle_posix.so"), &["--quiet"]).stderr), "");
    assert_eq!(text(&run(&built("libraddle_drop_in.so"), &[]).stderr), "");
    let another = run(Path::new(env!("CARGO_BIN_EXE_raddle")), &[]);
    assert!(text(&another.stderr).contains("this is not raddle's drop-in library"), "{another:?}");
    assert_eq!((another.status.code(), text_of(&another).as_str()), (Some(2), ""));
}

/// Whoever looks a setting up finds it: each option stands in the table of docs/drop-in.md.
#[test]
fn each_option_is_documented() {
    let help = text(&raddle(&["--help"]).output().unwrap().stdout);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/drop-in.md");
    let page = std::fs::read_to_string(page).unwrap();
    let options = help.lines().filter_map(|line| {
        let words = line.split_whitespace().take(2);
        words.filter(|_| line.starts_with("  ")).find(|word| word.starts_with("--") && word.len() > 2)
    });
    let options: Vec<&str> = options.map(|word| word.split(['[', '=']).next().unwrap()).collect();
    assert!(options.len() > 10 && options.contains(&"--dump-on") && options.contains(&"--metrics"), "{options:?}");
    let missing: Vec<_> =
        options.iter().filter(|word| **word != "--help" && !page.contains(&format!("`{word}"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The command is one file: a copy of it, alone in a folder, takes programs over, and its cache is used again.
#[test]
fn the_command_alone_takes_programs_over() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let (copy, cache) = (folder.0.join("raddle"), folder.0.join("cache"));
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_raddle")).arg(&copy).status().unwrap().success());
    let run = |environment: &[(&str, &Path)]| {
        let mut command = Command::new(&copy);
        command.args(["run", "--stats", "--"]).arg(&program).stdin(Stdio::null());
        command.env_remove("LD_PRELOAD").env_remove("RADDLE_LIBRARY").env_remove("RADDLE_NOTHING_SKIPPED");
        let output = command.envs(environment.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert!(text(&output.stderr).contains("100  threads created"), "{output:?}");
        // What it starts is native, wherever the library was.
        assert_eq!(text(&output.stdout), "sum 4950\n");
    };
    let libraries = || {
        let entries = std::fs::read_dir(cache.join("raddle")).unwrap();
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            (entry.path(), entry.metadata().unwrap().modified().unwrap())
        };
        entries.map(file).collect::<Vec<_>>()
    };
    run(&[("XDG_CACHE_HOME", &cache)]);
    let first = libraries();
    assert_eq!(first.len(), 1);
    run(&[("XDG_CACHE_HOME", &cache)]);
    assert_eq!(libraries(), first);
    // What was changed there is replaced before anything loads it.
    std::fs::write(&first[0].0, "no library").unwrap();
    run(&[("XDG_CACHE_HOME", &cache)]);
    assert!(std::fs::read(&first[0].0).unwrap().starts_with(b"\x7fELF"));
}

#[test]
fn the_programs_options_are_its_own() {
    let folder = Folder::new("run");
    let program = folder.program("threads", THREADS, &[]);
    let output = raddle(&["--quiet"]).arg(&program).args(["--procesors", "-x", "--", "y"]).output().unwrap();
    assert_eq!(text(&output.stdout), "sum 4950 --procesors -x -- y\n");
    // Behind `--` even the program's name may begin like an option's.
    assert_eq!(run(&[], Path::new("--procesors"), &[]).status.code(), Some(127));
}

/// The runtime's own kernel threads close descriptors of the same numbers, in tables of their own: whoever waits for
/// the program's is not disturbed.
#[test]
fn a_thread_reads_the_standard_input_while_the_runtime_looks_at_proc() {
    let folder = Folder::new("run");
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *body(void *argument) {
    char byte;
    ssize_t got;
    while ((got = read(0, &byte, 1)) == 1) putchar(byte), fflush(stdout);
    printf(got ? "failed: %m\n" : "end\n");
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, body, 0);
    pthread_join(thread, 0);
    return 0;
}
"#;
    let program = folder.program("reads", source, &[]);
    let metrics = format!("--metrics={}", folder.0.join("metrics").display());
    let mut child =
        raddle(&[&metrics]).arg("--").arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for byte in b"abcdefghij" {
        // Long enough for looks at what waits, and for the file with the metrics.
        std::thread::sleep(std::time::Duration::from_millis(150));
        std::io::Write::write_all(&mut input, &[*byte]).unwrap();
        let mut answer = [0];
        std::io::Read::read_exact(&mut output, &mut answer).unwrap();
        assert_eq!(answer[0], *byte);
    }
    drop(input);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("end\n", Some(0)));
}

fn text_of(output: &Output) -> String {
    text(&output.stdout)
}

#[test]
fn a_mistyped_command_is_told_with_the_one_that_was_meant() {
    let output = Command::new(env!("CARGO_BIN_EXE_raddle")).arg("rnu").output().unwrap();
    assert!(text(&output.stderr).contains("do you mean `run`?"), "{output:?}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_value_that_was_meant_for_an_option_is_told() {
    let told = |words: &[&str], status: i32| {
        let output = raddle(words).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        text(&output.stderr)
    };
    for (option, value) in [("--metrics", "no-such-folder-of-metrics"), ("--compare", "5"), ("--stats", "json")] {
        let said = told(&[option, value], 127);
        assert!(said.contains(&format!("it is written with `=`: {option}={value}")), "{said}");
    }
    assert!(!told(&["--metrics", "--", "no-such-program-anywhere"], 127).contains("with `=`"));
    // Others' tools take an address: no file of that name is written.
    let address = told(&["--metrics=127.0.0.1:9999", "true"], 2);
    assert!(address.contains("is an address; what is written is a file"), "{address}");
    assert!(told(&["--compare", "--trace", "t.json", "true"], 2).contains("cannot be used with '--trace"));
}

#[test]
fn the_doctor_tries_it() {
    let doctor = |set: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.args(["doctor", "--format", "json"]).envs(set.iter().copied());
        let out = text(&command.output().unwrap().stdout);
        let lines = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.into_iter().find(|line| line["name"].as_str().unwrap().contains("raddle run")).unwrap()
    };
    assert_eq!(doctor(&[])["state"], "good");
    assert_eq!(doctor(&[("RADDLE_KERNEL_THREADS", "1")])["state"], "replaced");
    let broken = doctor(&[("RADDLE_LIBRARY", "/no/where.so")]);
    assert!(broken["state"] == "missing" && broken["found"].as_str().unwrap().contains("/no/where.so"), "{broken}");
}
