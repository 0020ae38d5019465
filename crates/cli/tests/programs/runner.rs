// Runs the cases of this folder, natively and taken over. A test of `raddle run` includes this file, and so does
// `cargo xtask programs`.

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A script for a program that knows nothing of this library.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// Debian's packages that it needs.
    pub packages: String,
    /// What the program does.
    pub what: String,
    /// Paths that are there where the packages are.
    needs: Vec<PathBuf>,
    /// One of those that CI runs.
    pub in_ci: bool,
    /// The program makes threads, always.
    pub threads: bool,
    patience: Duration,
    script: PathBuf,
}

impl Case {
    /// What is missing here.
    pub fn missing(&self) -> Option<&Path> {
        self.needs.iter().map(PathBuf::as_path).find(|path| !path.exists())
    }

    fn read(script: PathBuf) -> io::Result<Case> {
        let text = std::fs::read_to_string(&script)?;
        let header = || text.lines().map_while(|line| line.strip_prefix("# "));
        let value = |key: &str| header().find_map(|line| line.strip_prefix(key)).unwrap_or_default().to_string();
        let seconds = value("seconds=");
        let seconds = seconds.split_whitespace().next().and_then(|seconds| seconds.parse().ok());
        Ok(Case {
            name: script.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            packages: value("package: "),
            what: value("what: "),
            needs: value("needs: ").split_whitespace().map(PathBuf::from).collect(),
            in_ci: header().any(|line| line == "ci"),
            threads: !header().any(|line| line == "threads=none"),
            patience: Duration::from_secs(seconds.unwrap_or(120)),
            script,
        })
    }
}

/// The cases in `folder`, by name.
pub fn cases(folder: &Path) -> io::Result<Vec<Case>> {
    let entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    let scripts =
        entries.iter().map(std::fs::DirEntry::path).filter(|path| path.extension().is_some_and(|it| it == "sh"));
    let mut cases: Vec<Case> = scripts.map(Case::read).collect::<Result<_, _>>()?;
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// What came of a case, one way.
#[derive(Clone, Debug)]
pub struct Run {
    /// The script's exit status, or that it did not end.
    pub ended: String,
    pub output: String,
    pub errors: String,
    /// Lightweight threads that the programs created: of those that told before they ended.
    pub threads: u64,
    pub seconds: f64,
}

impl Run {
    /// Whether the other one did as this one.
    pub fn is_as(&self, other: &Run) -> bool {
        self.ended == other.ended && self.output == other.output
    }
}

/// Runs `case`: natively, or under the command `raddle`.
pub fn run(case: &Case, raddle: Option<&Path>) -> io::Result<Run> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("raddle-programs-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (out, err) = (folder.join("out"), folder.join("err"));
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    // Those who run as another user come in, too.
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let prelude = case.script.with_file_name("prelude");
    let ports = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [port, port2] =
        ports.each_ref().map(|listener| listener.local_addr().map(|address| address.port().to_string()));
    let mut command = Command::new("bash");
    command.arg("-c").arg(r#"source "$1"; source "$2""#).arg("bash").arg(prelude).arg(&case.script);
    command.env("RADDLE", raddle.unwrap_or(Path::new(""))).env("PORT", port?).env("PORT2", port2?);
    command.env_remove("RADDLE_NOTHING_SKIPPED").env_remove("LD_PRELOAD").env_remove("RUST_BACKTRACE");
    command
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .process_group(0)
        .current_dir(&work);
    drop(ports);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let ended = loop {
        match child.try_wait()? {
            Some(status) => break status.to_string(),
            None if start.elapsed() > case.patience => break "does not end".to_string(),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    // What it left behind goes with it.
    let _ = Command::new("sh").args(["-c", &format!("kill -KILL -{}", child.id())]).stderr(Stdio::null()).status();
    let _ = child.wait();
    let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let errors = read(&err)?;
    let output = read(&out)?.replace(&work.display().to_string(), "WORK");
    let _ = std::fs::remove_dir_all(&folder);
    Ok(Run { ended, output, threads: threads(&errors), errors, seconds })
}

/// The sum of what all programs said of themselves at their ends.
fn threads(errors: &str) -> u64 {
    let counts = errors.lines().filter(|line| line.starts_with("{\"program\""));
    let counts = counts.filter_map(|line| line.split_once("\"threads\":")?.1.split(',').next()?.parse::<u64>().ok());
    counts.sum()
}

/// Where the two part: the first lines that differ.
pub fn difference(native: &Run, taken_over: &Run) -> String {
    if native.ended != taken_over.ended {
        return format!("natively {}, taken over {}", native.ended, taken_over.ended);
    }
    let (mut one, mut other) = (native.output.lines(), taken_over.output.lines());
    loop {
        match (one.next(), other.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return "the same".to_string(),
            (a, b) => return format!("natively `{}`, taken over `{}`", a.unwrap_or_default(), b.unwrap_or_default()),
        }
    }
}
