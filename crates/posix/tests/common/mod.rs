//! Programs that know nothing of this library, compiled by the system's compiler and run with it preloaded.
#![allow(dead_code, unused_imports)]

#[path = "../../../drop-in/tests/common/mod.rs"]
mod shipped;

#[path = "../../../../bench/src/lacks.rs"]
mod lacks;

pub use lacks::lacks;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The library as a program loads it.
pub fn library() -> PathBuf {
    // The test program lies in `deps`, the library beside or above it.
    let deps = std::env::current_exe().unwrap();
    let deps = deps.parent().unwrap();
    let candidates = [deps.join("libraddle_posix.so"), deps.parent().unwrap().join("libraddle_posix.so")];
    let found = candidates.iter().find(|path| path.exists());
    found.unwrap_or_else(|| panic!("none of {candidates:?}: build the package's library first")).clone()
}

/// The library as it is shipped, for programs that leave no memory: it has some in reserve. In the other one any kernel
/// thread of the runtime's that asks then, the governor's or one that the system has let begin late, ends the process.
pub fn library_with_reserve() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| shipped::built(&["raddle-drop-in"]).join("libraddle_drop_in.so"))
}

/// Compiles `tests/c/<source>` (C, or C++ by its ending `.cc`); options come after the source.
pub fn compile(source: &str, options: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let unique = format!("{source}-{}-{:?}", std::process::id(), std::thread::current().id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique.replace(['(', ')'], ""));
    let compiler = if source.ends_with(".cc") { "c++" } else { "cc" };
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-Wall", "-D_GNU_SOURCE", "-pthread", "-o"])
        .arg(&program)
        .arg(&path)
        .args(options)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} (Debian packages gcc and g++) is needed for these tests: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Compiles `tests/c/<source>`, a program of the standard library.
pub fn compile_rust(source: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{source}-{}", std::process::id()));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition", "2024", "-O", "-o"])
        .args([&program, &path])
        .output()
        .expect("rustc built this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// What a program did.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// It ended well; returns what it printed.
    #[track_caller]
    pub fn well(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.out
    }
}

/// How long a program may take before it counts as hung (its stacks are then worth a look with a debugger). Generous:
/// the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a program with the library preloaded.
pub fn drop_in(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", library()).envs(environment.iter().copied());
    run(command)
}

/// As [`drop_in`], with the library that has memory in reserve.
pub fn with_reserve(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", library_with_reserve()).envs(environment.iter().copied());
    run(command)
}

/// Runs a program as it is.
pub fn native(program: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments);
    run(command)
}

/// Asks until there is an answer, for as long as a program may take.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command to its end.
pub fn run(command: Command) -> Ended {
    run_for(command, PATIENCE)
}

/// Runs a command that may take so long.
pub fn run_for(mut command: Command, patience: Duration) -> Ended {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let waiter = std::thread::spawn(move || finish(child));
    let start = Instant::now();
    while !waiter.is_finished() {
        if start.elapsed() > patience {
            let _ = Command::new("sh").args(["-c", &format!("kill -ABRT {pid}")]).status();
            let ended = waiter.join().unwrap();
            panic!("{command:?} did not end within {patience:?}: {ended:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    waiter.join().unwrap()
}

fn finish(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { status: output.status, out: text(&output.stdout), err: text(&output.stderr) }
}
