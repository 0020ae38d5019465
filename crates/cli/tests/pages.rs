//! Every sample of README and docs is run by a test: what is Rust as documentation tests of `raddle-examples`, commands
//! here, in the order in which they stand, and what is left by the test that [`ELSEWHERE`] names.
#![forbid(unsafe_code)]

mod folder;

use folder::Folder;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Samples that are not run as they stand: the page, a line of theirs, and what runs them, or the like of them.
const ELSEWHERE: [(&str, &str, &str); 9] = [
    ("README.md", "#include <raddle.h>", "examples/tests/run.rs"),
    ("README.md", "static void *work(void *argument)", "examples/tests/run.rs"),
    ("docs/drop-in.md", "(gdb) info raddle-threads", "packaging/try.sh"),
    ("docs/preemptible.md", "raddle cc -O2 -pthread server.c -o server", "crates/cli/tests/compile.rs"),
    ("docs/preemptible.md", "RADDLE_UNCOOPERATIVE void update(void);", "yields/tests/programs/calls.c"),
    ("docs/scale-out.md", "make -C dtpools; make -C util;", "xtask/src/mpi.rs"),
    ("docs/servers.md", "raddle run -- mariadbd --no-defaults", "crates/cli/tests/programs/mariadb.sh"),
    ("docs/write-your-own-policy.md", "raddle-scheduler = { path", "crates/cli/tests/pages.rs"),
    ("docs/write-your-own-policy.md", "raddle::Builder::new().own_policy(", "crates/raddle/tests/own_policy.rs"),
];

/// What takes long is done with less of it.
const LESS: [(&str, &str); 5] = [
    ("raddle check", "raddle check --runs 20"),
    ("--workload packet", "--workload packet:n=2k"),
    ("--cores 1..64 --seed 1..16", "--cores 1..2 --seed 1..2 --policy fifo --workload packet:n=2k"),
    ("raddle bench yield", "raddle bench yield --no-build --rounds 1 --runtimes raddle --args T=2:total=1000"),
    ("python3", "/usr/bin/python3"),
];

struct Block {
    page: String,
    kind: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The fenced blocks of README and of all pages of docs.
fn blocks() -> Vec<Block> {
    let mut pages = vec!["README.md".to_string()];
    let names = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    pages.extend(names.iter().filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    let mut found: Vec<Block> = Vec::new();
    for page in pages {
        let mut within = false;
        for line in std::fs::read_to_string(root().join(&page)).unwrap().lines() {
            match line.trim_start().strip_prefix("```") {
                Some(kind) if !within => {
                    found.push(Block { page: page.clone(), kind: kind.to_string(), text: String::new() });
                    within = true;
                }
                Some(_) => within = false,
                None if within => found.last_mut().unwrap().text.extend([line, "\n"]),
                None => (),
            }
        }
        assert!(!within, "{page}: a block without an end");
    }
    found
}

fn is_elsewhere(block: &Block) -> bool {
    ELSEWHERE.iter().any(|(page, line, _)| block.page == *page && block.text.contains(line))
}

#[test]
fn every_sample_is_of_a_kind_that_is_run() {
    let tested = std::fs::read_to_string(root().join("examples/src/lib.rs")).unwrap();
    let mut left_over = Vec::new();
    for block in blocks().iter().filter(|block| !is_elsewhere(block)) {
        let is_run = match block.kind.as_str() {
            "rust" | "rust,no_run" => tested.contains(&format!("\"../../{}\"", block.page)),
            "sh" | "text" => true,
            _ => false,
        };
        if !is_run {
            left_over.push(format!("{} ({}): {}", block.page, block.kind, block.text.lines().next().unwrap_or("")));
        }
    }
    assert!(left_over.is_empty(), "{left_over:#?}");
    for (page, line, by) in ELSEWHERE {
        assert!(blocks().iter().any(|block| block.page == page && block.text.contains(line)), "{page}: {line}");
        assert!(root().join(by).exists(), "{by}");
    }
}

/// What the samples name.
fn prepared() -> Folder {
    let folder = Folder::new("pages");
    let source = r#"
#include <pthread.h>
static void *body(void *argument) { return argument; }
int main(void) {
    pthread_t threads[10];
    for (int i = 0; i < 10; i++) pthread_create(&threads[i], 0, body, 0);
    for (int i = 0; i < 10; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;
    folder.program("server", source, &[]);
    folder
        .file("app.py", "import threading\nt = threading.Thread(target=print, args=('here',)); t.start(); t.join()\n");
    std::fs::create_dir(folder.0.join("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_raddle"), folder.0.join("bin/raddle")).unwrap();
    std::os::unix::fs::symlink(root().join("examples"), folder.0.join("examples")).unwrap();
    folder
}

#[test]
fn commands_of_the_pages_do_what_they_are_to() {
    let folder = prepared();
    let path = format!("{}:{}", folder.0.join("bin").display(), std::env::var("PATH").unwrap());
    for block in blocks().iter().filter(|block| block.kind == "sh" && !is_elsewhere(block)) {
        // The lines that are left, with those that go on as one.
        let text = block.text.replace("\\\n", " ");
        // The command is there; the library is added below.
        let here = |line: &&str| !line.starts_with("cargo ");
        let mut script = text.lines().filter(here).collect::<Vec<_>>().join("\n");
        LESS.iter().for_each(|(much, less)| script = script.replace(much, less));
        if lacks(&script) {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-eu", "-c", &script]).current_dir(&folder.0).env("PATH", &path).stdin(Stdio::null());
        shell.env_remove("LD_PRELOAD").env_remove("RADDLE_NOTHING_SKIPPED");
        // Open MPI starts no more ranks than there are cores, and none for root, unless it is told to.
        let allowed = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"];
        shell.envs(allowed.map(|name| (name, "1")));
        let output = shell.output().unwrap();
        let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{}: {script}\n{out}\n{error}", block.page);
        if script.contains("--compare") {
            // README shows how it ends, without the ranges.
            let shown = blocks().into_iter().find(|block| block.page == "README.md" && block.kind == "text").unwrap();
            let label = |line: &str| line.trim().split("  ").next().unwrap_or("").to_string();
            for line in shown.text.lines() {
                assert!(error.lines().any(|told| label(told) == label(line)), "not told: {line}\n{error}");
            }
        }
    }
}

/// The line with which a package gets the library, and the dependencies of a policy of one's own, name what is there.
#[test]
fn dependencies_of_the_pages_are_found() {
    let folder = Folder::new("pages");
    std::os::unix::fs::symlink(root(), folder.0.join("raddle")).unwrap();
    let pages = blocks();
    let of = |page: &str, line: &str| {
        pages.iter().find(|block| block.page == page && block.text.contains(line)).unwrap_or_else(|| panic!("{line}"))
    };
    let manifest = "[package]\nname = 'mine'\nversion = '0.1.0'\nedition = '2024'\n[workspace]\n";
    for (name, tables, add) in [
        ("added", "", Some(of("README.md", "cargo add").text.lines().next().unwrap())),
        ("written", &*of("docs/write-your-own-policy.md", "raddle-scheduler = ").text, None),
    ] {
        folder.file(&format!("{name}/src/main.rs"), "fn main() {}");
        folder.file(&format!("{name}/Cargo.toml"), format!("{manifest}{tables}"));
        // Of this platform alone: what others need was not fetched for any build here.
        let platform = format!("--filter-platform {}-unknown-linux-gnu", std::env::consts::ARCH);
        let commands = format!("{}\ncargo metadata --offline --format-version 1 {platform}", add.unwrap_or(""));
        // What the registry has is known to this workspace, not to a package of its own.
        std::fs::copy(root().join("Cargo.lock"), folder.0.join(name).join("Cargo.lock")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-eu", "-c", &commands]).current_dir(folder.0.join(name)).env("CARGO_NET_OFFLINE", "true");
        let output = shell.output().unwrap();
        let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success() && out.contains("\"name\":\"raddle\""), "{name}: {error}");
    }
}

/// True, and said on standard error, if a program that the commands name is not installed. Where nothing may be skipped
/// (`cargo xtask ci`), it is a failure instead.
fn lacks(script: &str) -> bool {
    let needs = [("mpirun", "mpich"), ("/usr/bin/python3", "python3")];
    let is_there = |what: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {what}")]).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    };
    let missing: Vec<&str> = needs
        .iter()
        .filter(|(what, _)| script.contains(what) && !is_there(what))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return false;
    }
    assert!(std::env::var_os("RADDLE_NOTHING_SKIPPED").is_none(), "missing: {missing:?}");
    let line = format!("skipped: commands of the pages: there is no {}\n", missing.join(", "));
    // Past the test harness, which keeps what a passing test prints for itself.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    true
}
