//! The runtimes that are compared, and how to find or build their programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a runtime's program comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `cargo build -p PACKAGE --bin PROGRAM`.
    Cargo(&'static str),
    /// `go build` in the folder `peers/go`.
    Go,
    /// The load generator, and the server that it starts.
    Load,
    /// Not here; the text says what it would need.
    Absent(&'static str),
}

/// One runtime.
#[derive(Debug)]
pub struct Runtime {
    /// Its name on the command line and in the results.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The name of its program.
    pub program: &'static str,
    /// Words added to the program's command line.
    pub words: &'static [&'static str],
    /// How its program comes to be.
    pub source: Source,
    /// It takes `--policy`.
    pub policies: bool,
    /// It takes part when no runtimes are named.
    pub by_default: bool,
}

impl Runtime {
    /// Whether it is the runtime of this project, which must not fail.
    pub fn is_ours(&self) -> bool {
        self.policies
    }
}

const PEERS: Source = Source::Cargo("raddle-bench-peers");

/// All runtimes, ours first.
pub static RUNTIMES: &[Runtime] = &[
    Runtime {
        name: "raddle",
        about: "lightweight threads of this project",
        program: "raddle-bench-raddle",
        words: &[],
        source: Source::Cargo("raddle-bench"),
        policies: true,
        by_default: true,
    },
    Runtime {
        name: "std",
        about: "kernel threads, std's locks and channels",
        program: "raddle-bench-std",
        words: &[],
        source: Source::Cargo("raddle-bench"),
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "go",
        about: "goroutines, waited for by a WaitGroup",
        program: "raddle-bench-go",
        words: &[],
        source: Source::Go,
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "go-handles",
        about: "goroutines; create waits on a channel for each",
        program: "raddle-bench-go",
        words: &["--handles"],
        source: Source::Go,
        policies: false,
        by_default: false,
    },
    Runtime {
        name: "tokio",
        about: "async tasks, multi-threaded scheduler",
        program: "raddle-bench-tokio",
        words: &[],
        source: PEERS,
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "rayon",
        about: "fork-join tasks",
        program: "raddle-bench-rayon",
        words: &[],
        source: PEERS,
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "parking_lot",
        about: "kernel threads, parking_lot's locks",
        program: "raddle-bench-parking-lot",
        words: &[],
        source: PEERS,
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "crossbeam",
        about: "kernel threads, crossbeam's channels",
        program: "raddle-bench-crossbeam",
        words: &[],
        source: PEERS,
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "java",
        about: "virtual threads",
        program: "raddle-bench-java",
        words: &[],
        source: Source::Absent("this suite has no Java program yet; virtual threads need Java 21 or later"),
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "may",
        about: "coroutines in Rust",
        program: "raddle-bench-may",
        words: &[],
        source: Source::Absent("this suite has no program for it yet"),
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "boost-fiber",
        about: "fibers in C++",
        program: "raddle-bench-boost-fiber",
        words: &[],
        source: Source::Absent("this suite has no program for it yet"),
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "libfibre",
        about: "fibers in C++",
        program: "raddle-bench-libfibre",
        words: &[],
        source: Source::Absent("this suite has no program for it yet"),
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "argobots",
        about: "lightweight threads in C",
        program: "raddle-bench-argobots",
        words: &[],
        source: Source::Absent("this suite has no program for it yet"),
        policies: false,
        by_default: true,
    },
    Runtime {
        name: "photon",
        about: "coroutines in C++",
        program: "raddle-bench-photon",
        words: &[],
        source: Source::Absent("this suite has no program for it yet"),
        policies: false,
        by_default: true,
    },
];

/// Finds a runtime by its name, among those that run threads.
///
/// ```
/// assert!(raddle_bench::runtimes::find("rust").unwrap_err().contains("raddle, std, go"));
/// ```
pub fn find(name: &str) -> Result<&'static Runtime, String> {
    RUNTIMES.iter().find(|r| r.name == name).ok_or_else(|| {
        let names: Vec<_> = RUNTIMES.iter().map(|r| r.name).collect();
        let meant = crate::catalogue::similar(name, &names);
        format!("there is no runtime `{name}`; {meant}there are {}", names.join(", "))
    })
}

/// Where programs are looked for and built.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The folder of the programs.
    folder: PathBuf,
    /// The sources of this suite, when they are there to build from.
    sources: Option<PathBuf>,
}

impl Programs {
    /// Programs beside the running one; with `build`, built first from the sources when these are where they were
    /// compiled.
    ///
    /// Programs are always built for release: in a target folder, the one of a debug build looks into the folder
    /// `release` beside its own.
    pub fn beside(executable: &Path, build: bool) -> Programs {
        let folder = executable.parent().unwrap_or(Path::new("."));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        let in_target = folder.ends_with("debug") || folder.ends_with("release");
        if !(in_target && sources.join("Cargo.toml").exists()) {
            return Programs { folder: folder.into(), sources: None };
        }
        Programs { folder: folder.with_file_name("release"), sources: build.then(|| sources.into()) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn sources(&self) -> Option<&Path> {
        self.sources.as_deref()
    }

    /// Programs that lie ready in `folder`.
    pub fn ready(folder: impl Into<PathBuf>) -> Programs {
        Programs { folder: folder.into(), sources: None }
    }

    /// Builds a runtime's program, when there are sources to build from, and gives its path, or why it is missing.
    /// `progress` is told before a build starts.
    pub fn prepare(&self, runtime: &Runtime, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, String> {
        if let Some(sources) = &self.sources {
            match runtime.source {
                Source::Cargo(package) => {
                    progress(&format!("building {} (cargo build --release)", runtime.program));
                    self.cargo(sources, package, &["--bin", runtime.program])?;
                }
                Source::Go => {
                    progress(&format!("building {} (go build)", runtime.program));
                    self.go(sources)?;
                }
                Source::Load | Source::Absent(_) => {}
            }
        }
        self.locate(runtime)
    }

    pub(crate) fn cargo(&self, sources: &Path, package: &str, what: &[&str]) -> Result<(), String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(sources).args(["build", "--quiet", "--release", "--package", package]).args(what);
        if let Some(target) = self.folder.parent() {
            command.arg("--target-dir").arg(target);
        }
        finish(command, &format!("cargo build of {package} {}", what.join(" ")))
    }

    pub(crate) fn go(&self, sources: &Path) -> Result<(), String> {
        let mut command = Command::new("go");
        command.current_dir(sources.join("peers/go")).arg("build").arg("-o");
        command.arg(self.folder.join("raddle-bench-go")).arg(".");
        finish(command, "go build")
    }

    /// The path of a runtime's program, or why it is missing.
    pub fn locate(&self, runtime: &Runtime) -> Result<PathBuf, String> {
        if let Source::Absent(why) = runtime.source {
            return Err(why.into());
        }
        let path = self.folder.join(runtime.program);
        if path.is_file() {
            return Ok(path);
        }
        let how = match runtime.source {
            Source::Go => "install Go, and run `cargo xtask bench` in this project's sources, which builds it",
            Source::Cargo(_) | Source::Load => "run `cargo xtask bench` in this project's sources, which builds it",
            Source::Absent(why) => why,
        };
        Err(format!("{} is not there; {how}", path.display()))
    }
}

pub(crate) fn finish(mut command: Command, what: &str) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{what} failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end())),
        Err(error) => Err(format!("{what} could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_comes_with_its_remedy() {
        let programs = Programs::ready("/absent");
        let missing = programs.locate(find("tokio").unwrap()).unwrap_err();
        assert!(missing.contains("/absent/raddle-bench-tokio") && missing.contains("cargo xtask bench"), "{missing}");
        assert!(programs.locate(find("java").unwrap()).unwrap_err().contains("Java 21"));
    }

    #[test]
    fn a_debug_build_measures_release_programs() {
        let programs = Programs::beside(Path::new("/somewhere/target/debug/raddle"), false);
        assert_eq!(programs.folder, Path::new("/somewhere/target/release"));
        assert_eq!(programs.sources, None);
        let installed = Programs::beside(Path::new("/usr/bin/raddle"), true);
        assert_eq!((installed.folder.as_path(), installed.sources), (Path::new("/usr/bin"), None));
    }
}
